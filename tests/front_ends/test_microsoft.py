"""Microsoft's agent-framework-ag-ui, in a Python of its own: it wants another version of the protocol's package."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.front_end_pages import FRONT_ENDS
from tests.missing_parts import missing_part
from tests.running_gateway import DEADLINE_SECONDS, agent, gateway_process, scripted, write_configuration

PYTHON = FRONT_ENDS / ".venv/bin/python"
CHOOSING = agent(
    "assistant",
    scripted(
        [{"text": "I heard: {{user}}"}],
        rules=[
            {
                "when": {"last_user_contains": "colour", "turn": 0},
                "response": [{"tool": "pick_color", "arguments": {"mood": "calm"}}],
            },
            {"when": {"after_tool": "pick_color"}, "response": [{"text": "Then it is {{result}}."}]},
        ],
    ),
)


@pytest.mark.timeout(120)
async def test_it_gets_answers_and_runs_its_own_tool_once(tmp_path: Path) -> None:
    if not PYTHON.exists():
        missing_part("agent-framework-ag-ui is not installed here; 'make clients' installs it")
    async with gateway_process(write_configuration(tmp_path, [CHOOSING])) as gateway:
        process = await asyncio.create_subprocess_exec(
            str(PYTHON), str(FRONT_ENDS / "microsoft_client.py"), gateway.client.run_url("assistant"),
            stdout=subprocess.PIPE, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert json.loads(printed) == {
        "answers": ["I heard: hello", "Then it is green.", "I heard: and now?"],
        "calls": ["calm"],
    }
