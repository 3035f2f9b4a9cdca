"""The page about agents made at run time: what it says to send is sent, and its commands are run."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from gateway.cli import main
from tests.documentation import snippet
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

KEY = "alice-key-of-the-tests"
SERVER = {"api_keys": [{"name": "alice", "key": KEY}]}
CONFIGURED = agent("configured", scripted([{"text": "hi"}]))


async def sent(gateway: LocalGateway, line: str, files: dict[str, str]) -> httpx.Response:
    """The request that a curl line makes, sent to this gateway."""
    words = iter(shlex.split(line)[1:])
    method, url, headers, body = "GET", "", {}, None
    for word in words:
        match word:
            case "-X":
                method = next(words)
            case "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value.replace("$AGUI_GATEWAY_KEY", KEY)
            case "-d":
                body = files[next(words).removeprefix("@")]
            case _:
                url = word.removeprefix("http://127.0.0.1:8000")
    return await gateway.client.http.request(method, url, headers=headers, content=body)


async def test_the_lines_of_curl_make_list_and_delete_the_agent(tmp_path: Path) -> None:
    files = {"agent.json": snippet("docs/agents.md", "json")}
    async with local_gateway(tmp_path, [CONFIGURED], server=SERVER) as gateway:
        lines = snippet("docs/agents.md", "sh", "curl").splitlines()
        put, listed, deleted = [await sent(gateway, line, files) for line in lines]
    assert (put.status_code, put.json()["id"]) == (201, "proofreader")
    assert [row["name"] for row in listed.json()["agents"]] == ["configured", "Proofreader"]
    assert deleted.status_code == 204


async def test_the_commands_store_list_and_remove_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGUI_GATEWAY_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "the-key-of-the-account")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proofreader.yaml").write_text(snippet("docs/agents.md", "yaml", "id: proofreader"))
    said: list[str] = []
    async with local_gateway(tmp_path, [CONFIGURED], server=SERVER) as gateway:
        for line in snippet("docs/agents.md", "sh", "agents add").splitlines():
            words: Sequence[str] = shlex.split(line.partition(" --url")[0])[1:]
            assert await asyncio.to_thread(main, [*words, "--url", gateway.client.base_url]) == 0
            said.append(capsys.readouterr().out)
    assert said[0].startswith("stored the agent 'proofreader': ")
    assert "proofreader  Proofreader: yours" in said[1]
    assert said[2] == "removed the agent 'proofreader'\n"


def test_what_is_sent_and_what_is_written_in_a_file_is_the_same_agent() -> None:
    body = json.loads(snippet("docs/agents.md", "json"))
    written = snippet("docs/agents.md", "yaml", "id: proofreader")
    assert all(body[name] in written for name in ("name", "system_prompt"))
    assert body["model"]["model_id"] in written
