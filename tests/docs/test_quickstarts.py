"""The quick starts: each page's files, programs and lines do what the page says, in their order."""

from __future__ import annotations

import asyncio
import configparser
import json
import os
import shlex
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.cli import main
from gateway.configuration.sections import ServerSection
from gateway.sqlite.address import parse_address
from tests.documentation import PAGES, ROOT, snippet
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, local_gateway

ADDRESS = "http://127.0.0.1:8000"
KEY = "alice-key-of-the-quick-starts"
ANSWER = "3,519,000"


@asynccontextmanager
async def gateway_of(page: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[LocalGateway]:
    """The gateway that the page's configuration makes."""
    monkeypatch.setenv("ALICE_KEY", KEY)
    file = yaml.safe_load(snippet(page, "yaml", "alice"))
    sections = {"protocols": file["protocols"]} if "protocols" in file else {}
    async with local_gateway(directory, file["agents"], server=file["server"], sections=sections) as gateway:
        yield gateway


async def printed(gateway: LocalGateway, code: str, directory: Path) -> str:
    """The output of a program of a page."""
    file = directory / "program.py"
    file.write_text(code.replace(ADDRESS, gateway.client.base_url), "utf-8")
    return await output(sys.executable, str(file), directory=directory)


async def said_to(gateway: LocalGateway, line: str, directory: Path) -> str:
    """The output of a line of curl."""
    line = line.replace(ADDRESS, gateway.client.base_url).replace("curl ", "curl -sS -q --noproxy '*' ", 1)
    return await output("sh", "-c", line, directory=directory)


async def output(*command: str, directory: Path) -> str:
    environ = {**os.environ, "ALICE_KEY": KEY, "NO_PROXY": "*"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, cwd=directory, env=environ, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(3 * DEADLINE_SECONDS):
        said, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    return said.decode()


async def test_the_sdk_gets_an_answer_and_a_chat_of_open_webui_is_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = "docs/quickstart-openai.md"
    async with gateway_of(page, tmp_path, monkeypatch) as gateway:
        said = await printed(gateway, snippet("docs/quickstart-openai.md", "python", "import OpenAI"), tmp_path)
        headers = {"authorization": f"Bearer {KEY}", "x-openwebui-chat-id": "chat-1"}
        body = {"model": "assistant", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
        await gateway.client.http.post("/v1/chat/completions", json=body, headers=headers)
        listed = json.loads(await said_to(gateway, snippet(page, "sh", "/threads"), tmp_path))

    assert said.startswith("['assistant']\n")
    assert ANSWER in said
    assert [thread["id"] for thread in listed["threads"]] == ["chat-1"]


async def test_a_script_for_ml_commons_works_with_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/quickstart-ml-commons.md"
    async with gateway_of(page, tmp_path, monkeypatch) as gateway:
        code = snippet("docs/quickstart-ml-commons.md", "python", "opensearchpy")
        *answer, question = (await printed(gateway, code, tmp_path)).splitlines()
        chunks = await said_to(gateway, snippet(page, "sh", "_execute/stream"), tmp_path)

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
