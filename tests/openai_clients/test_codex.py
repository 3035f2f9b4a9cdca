"""The unmodified Codex CLI with an MCP server of its own, over Responses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documentation import snippet
from tests.missing_parts import missing_part
from tests.openai_clients.conftest import CLIENT_SECONDS, CLIENTS
from tests.running_gateway import agent, local_gateway, scripted

CODEX: Final = CLIENTS / "node_modules/.bin/codex"
CODER: Final = agent(
    "assistant",
    scripted(
        [{"text": "I look."}, {"tool": "mcp__skies__forecast", "arguments": {"city": "Paris"}}],
        [{"text": "It is {{result}}."}],
        rules=[{"when": {"last_user_contains": "again"}, "response": [{"text": "As I said."}]}],
    ),
)
ADDRESS: Final = "http://127.0.0.1:8000"
CONFIGURATION: Final = """
check_for_update_on_startup = false
{told}
[analytics]
enabled = false

[mcp_servers.skies]
command = {python}
args = [{server}]
"""
SECTIONS: Final = {"protocols": {"responses": {"thread_headers": ["session-id"]}}}
pytestmark = pytest.mark.timeout(120)


async def asked_codex(home: Path, *words: str) -> list[dict[str, Any]]:
    """What Codex tells of one turn."""
    quiet = {
        "CODEX_HOME": str(home),
        "ALICE_KEY": "key",
        "NO_PROXY": "127.0.0.1",
        "HTTPS_PROXY": "http://127.0.0.1:9",
    }
    process = await asyncio.create_subprocess_exec(
        str(CODEX), "exec", *words, "--json", "--skip-git-repo-check",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=home, env={**os.environ, **quiet},
    )  # fmt: skip
    try:
        async with asyncio.timeout(CLIENT_SECONDS):
            printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return [json.loads(line) for line in printed.splitlines() if line.startswith(b"{")]


async def test_codex_runs_what_its_mcp_server_has_and_goes_on(tmp_path: Path) -> None:
    if not CODEX.exists():
        missing_part("Codex is not installed here; 'make clients' installs it")
    home = tmp_path / "codex"
    home.mkdir()
    async with local_gateway(tmp_path, [CODER], sections=SECTIONS) as gateway:
        configuration = CONFIGURATION.format(
            told=snippet("docs/openai.md", "", "model_providers").replace(ADDRESS, gateway.client.base_url),
            python=json.dumps(sys.executable),
            server=json.dumps(str(CLIENTS / "skies_server.py")),
        )
        (home / "config.toml").write_text(configuration)
        first = await asked_codex(home, "What is the weather in Paris?")
        second = await asked_codex(home, "resume", "--last", "And again?")
        [session] = {event["thread_id"] for event in (*first, *second) if event["type"] == "thread.started"}
        stored = (await gateway.client.get(f"/threads/{session}/messages"))["messages"]
        versions = (await gateway.client.get(f"/threads/{session}/versions"))["versions"]

    items = [event["item"] for event in first if event["type"] == "item.completed"]
    [call] = [item for item in items if item["type"] == "mcp_tool_call"]
    assert (call["server"], call["tool"], call["status"]) == ("skies", "forecast", "completed")
    look, answer = [item["text"] for item in items if item["type"] == "agent_message"]
    assert (look, answer.endswith("sunny in Paris.")) == ("I look.", True)
    told = [event["item"] for event in second if event["type"] == "item.completed"]
    assert [item["text"] for item in told if item["type"] == "agent_message"] == ["As I said."]
    calls = [call["function"]["name"] for message in stored for call in message.get("toolCalls", ())]
    assert (calls, len(versions)) == (["mcp__skies__forecast"], 1)
