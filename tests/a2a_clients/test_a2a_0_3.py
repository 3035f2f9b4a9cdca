"""The official client of A2A 0.3, the a2a-sdk package of that version, before a gateway on a real socket.

It cannot be installed beside the client of 1.0, so it plays its scenes in a process of its own: see client_0_3.py.
`make clients` runs this.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.missing_parts import missing_part
from tests.openai_chat_server import Script, chat_server
from tests.openai_scene import AGENTS, PICTURE
from tests.running_gateway import agent, local_gateway, scripted

HERE: Final = Path(__file__).parent
PYTHON: Final = HERE / ".venv/bin/python"
CLIENT_SECONDS: Final = 100.0
SEPARATORS: Final = "one\u2028two\u2029three\u0085four\nfive"
MORE_AGENTS: Final = [
    agent("lines", scripted([{"text": SEPARATORS, "chunk_characters": 4}])),
    agent("wordy", scripted([{"text": "0123456789" * 500, "chunk_characters": 10}])),
    agent("asks", scripted([{"tool": "ask_user", "arguments": {}}], [{"text": "It said {{result}}."}])),
]

pytestmark = pytest.mark.timeout(CLIENT_SECONDS + 20)


async def scenes_played(directory: Path) -> dict[str, Any]:
    """What the client's scenes came to, by their names; and the tasks that were posted to its receiver."""
    server = {"allowed_private_hosts": ["127.0.0.1"]}
    async with (
        chat_server() as receiver,
        local_gateway(directory, [*AGENTS, *MORE_AGENTS], server=server) as gateway,
    ):
        receiver.answers(Script(202))
        receiver.repeat = True
        hook = f"http://127.0.0.1:{receiver.port}/hook"
        process = await asyncio.create_subprocess_exec(
            str(PYTHON), str(HERE / "client_0_3.py"), gateway.client.base_url, hook,
            stdout=subprocess.PIPE, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                printed, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        while not receiver.requests or receiver.requests[-1].json["status"]["state"] != "completed":
            await receiver.received(len(receiver.requests) + 1)
        told: dict[str, Any] = json.loads(printed)
        return {**told, "posted": [request.json["kind"] for request in receiver.requests]}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not PYTHON.exists():
        missing_part("the client of A2A 0.3 is not installed here; 'make clients' installs it")
    return asyncio.run(scenes_played(tmp_path_factory.mktemp("client")))


def test_a_message_is_answered_whole_and_its_task_is_read(told: dict[str, Any]) -> None:
    assert told["whole"] == ["completed", "I heard: hello", None, "I heard: hello", 1]


def test_a_stream_begins_with_the_task_and_ends_with_its_state(told: dict[str, Any]) -> None:
    kinds = ["artifact-update", "status-update", "task"]
    assert told["streamed"] == ["0.3.0", "task", "status-update", kinds, "completed", "I heard: hello"]


def test_line_separators_in_a_stream_stay_what_they_are(told: dict[str, Any]) -> None:
    assert told["separators"] == SEPARATORS


def test_a_long_stream_comes_whole(told: dict[str, Any]) -> None:
    assert told["long"] == [True, 5_000]


def test_a_task_is_watched_again_and_cancelled_once(told: dict[str, Any]) -> None:
    assert told["cancelled"] == [True, "canceled", ["canceled", "canceled"], -32002]


def test_a_tool_of_the_client_is_asked_for_and_answered(told: dict[str, Any]) -> None:
    assert told["client_tool"] == ["input-required", "ask_user", True, "completed", "It said yes."]


def test_an_approval_is_asked_for_and_given(told: dict[str, Any]) -> None:
    assert told["approval"] == ["input-required", "refund", "completed", "It said:"]


def test_files_go_in_and_come_out(told: dict[str, Any]) -> None:
    assert told["files"] == ["file", "c29tZSBieXRlcw==", "in.png", "image/png", PICTURE[:8]]


def test_a_failure_ends_the_stream_with_a_failed_task_that_says_why(told: dict[str, Any]) -> None:
    assert told["failure"] == ["failed", True]


def test_push_configs_are_kept_and_get_whole_tasks(told: dict[str, Any]) -> None:
    assert told["push"] == [True, True]
    assert set(told["posted"]) == {"task"}


def test_an_unknown_task_is_an_error_of_its_code(told: dict[str, Any]) -> None:
    assert told["unknown"] == -32001
