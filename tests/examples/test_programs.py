"""The examples that need nothing but Python and curl; those of the quick starts are in tests/docs and tests/page."""

from __future__ import annotations

import json
import re
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gateway.configuration.known_parts import known_parts
from tests.documentation import EXAMPLES, LEFT_BY_EXAMPLES, example
from tests.embedded_gateway import client_of
from tests.example_gateway import (
    ADDRESS,
    DEMO,
    DEMO_WITHOUT_PAUSES,
    ENVIRONMENT,
    example_gateway,
    output,
    program_output,
)
from tests.running_gateway import Frame, parse_frames, run_body

ANSWER = "3,519,000"
QUESTION = "What was the population of Seattle in 2023?"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")


def said(frames: list[Frame]) -> str:
    return "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")


def results(frames: list[Frame]) -> list[str]:
    return [frame.data["content"] for frame in frames if frame.type == "TOOL_CALL_RESULT"]


def program(name: str, monkeypatch: pytest.MonkeyPatch, directory: Path) -> Any:
    """The `app` of an example's program, which finds its files in `directory`."""
    shutil.copytree((EXAMPLES / name).parent, directory, ignore=LEFT_BY_EXAMPLES, dirs_exist_ok=True)
    configuration = directory / "gateway.yaml"
    configuration.write_text(configuration.read_text("utf-8").replace(DEMO, DEMO_WITHOUT_PAUSES), "utf-8")
    monkeypatch.chdir(directory)
    names: dict[str, Any] = {"__name__": "main"}
    exec(example(name), names)
    return names["app"]


@needs_curl
async def test_the_shell_reads_a_run_its_rest_and_the_thread(tmp_path: Path) -> None:
    async with example_gateway("shell/gateway.yaml", tmp_path) as gateway:
        answers = await program_output("shell/main.sh", gateway, tmp_path)

    streams, _, thread = answers.rpartition("\n\n")
    frames = parse_frames(f"{streams}\n\n".encode())
    end = [frame.type for frame in frames].index("RUN_FINISHED") + 1
    run, rest = frames[:end], frames[end:]
    assert ANSWER in said(run)
    assert (said(rest), rest[0].id) == (said(run), 4)
    question, *_, answer = json.loads(thread)["messages"]
    assert question["content"] == QUESTION
    assert ANSWER in answer["content"]


async def test_fastapi_serves_its_own_path_and_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = program("fastapi/main.py", monkeypatch, tmp_path)
    async with app.router.lifespan_context(app), client_of(app) as client:
        home = (await client.get("/")).json()
        agents = (await client.get(home["agents"])).json()["agents"]
        answer = await client.post(f"/gateway/agents/{agents[0]['id']}/run", json=run_body(QUESTION))

    assert ANSWER in said(parse_frames(answer.content))


async def test_the_tool_of_the_mcp_server_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ENVIRONMENT["PATH"])
    async with example_gateway("mcp/gateway.yaml", tmp_path) as gateway:
        frames = await gateway.client.run("assistant", run_body("What is the weather forecast for Paris?"))

    assert results(frames) == ["It will be sunny in Paris, with 21 degrees."]
    assert "21 degrees" in said(frames)


async def test_the_package_s_tool_comes_alive_once_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, installed = tmp_path / "source", tmp_path / "installed"
    shutil.copytree(EXAMPLES / "plug-in", source, ignore=LEFT_BY_EXAMPLES)
    await output("python", "-m", "hatchling", "build", "-t", "wheel", directory=source)
    [wheel] = (source / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    monkeypatch.syspath_prepend(installed)

    async with example_gateway("plug-in/gateway.yaml", tmp_path, parts=known_parts()) as gateway:
        frames = await gateway.client.run("assistant", run_body("Roll a dice with 6 sides"))
    for module in [name for name in sys.modules if name.partition(".")[0] == "dice_plugin"]:
        del sys.modules[module]

    [rolled] = results(frames)
    assert 1 <= int(rolled) <= 6


@needs_curl
async def test_the_adapter_answers_at_once_and_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "adapter")
    app = program("adapter/main.py", monkeypatch, tmp_path)
    del sys.modules["custom_adapter"]
    async with app.lifespan(), client_of(app) as client:
        script = example("adapter/ask.sh").replace(ADDRESS, str(client.base_url).rstrip("/"))
        at_once, _, words = (await output("sh", "-c", script, directory=tmp_path)).partition("}")

    assert ANSWER in json.loads(at_once + "}")["answer"]
    assert ANSWER in "".join(re.findall(r"^data: (.*)$", words, re.MULTILINE))
