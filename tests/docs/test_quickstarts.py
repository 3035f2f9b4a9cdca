"""The quick starts: each page's files, programs and lines do what the page says, in their order."""

from __future__ import annotations

import configparser
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.configuration.sections import ServerSection
from gateway.sqlite.address import parse_address
from tests.documentation import PAGES, ROOT, snippet
from tests.example_gateway import ADDRESS, ALICE_KEY, example_gateway, output, program_output
from tests.running_gateway import LocalGateway

ANSWER = "3,519,000"


async def said_to(gateway: LocalGateway, line: str, directory: Path) -> str:
    """The output of a line of curl."""
    line = line.replace(ADDRESS, gateway.client.base_url).replace("curl ", "curl -sS -q --noproxy '*' ", 1)
    return await output("sh", "-c", line, directory=directory)


async def test_the_sdk_gets_an_answer_and_a_chat_of_open_webui_is_a_thread(tmp_path: Path) -> None:
    async with example_gateway("openai-sdk/gateway.yaml", tmp_path) as gateway:
        said = await program_output("openai-sdk/main.py", gateway, tmp_path)
        headers = {"authorization": f"Bearer {ALICE_KEY}", "x-openwebui-chat-id": "chat-1"}
        body = {"model": "assistant", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        await gateway.client.http.post("/v1/chat/completions", json=body, headers=headers)
        line = snippet("docs/quickstart-openai.md", "sh", "/threads")
        listed = json.loads(await said_to(gateway, line, tmp_path))

    assert said.startswith("['assistant']\n")
    assert ANSWER in said
    assert [thread["id"] for thread in listed["threads"]] == ["chat-1"]


async def test_a_script_for_ml_commons_works_with_another_host(tmp_path: Path) -> None:
    async with example_gateway("opensearch-py/gateway.yaml", tmp_path) as gateway:
        *answer, question = (await program_output("opensearch-py/main.py", gateway, tmp_path)).splitlines()
        line = snippet("docs/quickstart-ml-commons.md", "sh", "_execute/stream")
        chunks = await said_to(gateway, line, tmp_path)

    assert ANSWER in "".join(answer)
    assert question == "What was the population of Seattle in 2023?"
    read = [json.loads(each.removeprefix("data: ")) for each in chunks.strip().split("\n\n")]
    words: list[Any] = [each["inference_results"][0]["output"][2]["dataAsMap"]["content"] for each in read]
    assert ANSWER in "".join(words)


def test_the_service_starts_the_command_and_gives_runs_their_time(capsys: pytest.CaptureFixture[str]) -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # its names have capitals
    unit.read(ROOT / "deploy" / "agui-gateway.service")
    service = unit["Service"]
    program, command, *options = shlex.split(service["ExecStart"])
    assert main([command, "--help"]) == 0
    helped = capsys.readouterr().out
    assert [each for each in options if each.startswith("--") and each not in helped] == []
    assert Path(program).name == "agui-gateway"
    store = options[options.index("--store") + 1]
    assert parse_address(store, Path("/")).path == Path(f"/var/lib/{service['StateDirectory']}/gateway.db")
    assert int(service["TimeoutStopSec"]) > ServerSection().drain_seconds


def test_the_server_s_page_names_files_that_are_there() -> None:
    words = PAGES["docs/quickstart-server.md"].split()
    named = {word.strip("`,.") for word in words if word.strip("`").startswith("deploy/")}
    assert {f"deploy/{name}" for name in ("gateway.yaml", "agui-gateway.service", "Caddyfile")} <= named
    assert [name for name in named if not (ROOT / name).is_file()] == []
