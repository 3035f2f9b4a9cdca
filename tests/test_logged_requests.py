"""What one request puts into the log: a few short lines, however much of it is ignored."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from gateway.wire.log_counts import MOST_CHARACTERS, MOST_NAMED, counted
from tests.fault_scenes import fault_tool
from tests.openai_chat_server import Script, chat_server, completion
from tests.openai_chat_server import chunk as chat_chunk
from tests.openai_chat_server import record as chat_record
from tests.running_gateway import agent, local_gateway, run_body

MANY = 1_200
LONG = "x" * 5_000  # of an id: as many as there is room for in a request


def call(call_id: str, name: str = "elsewhere") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def result(message_id: str, call_id: str) -> dict[str, Any]:
    return {"id": message_id, "role": "tool", "toolCallId": call_id, "content": "x"}


def calling(call_id: str, name: str) -> Script:
    called = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": '{"a":1,"b":2}'}}
    pieces = [chat_record(chat_chunk({"tool_calls": [called]})), chat_record(chat_chunk({}, "tool_calls"))]
    return Script(pieces=[*pieces, b"data: [DONE]\n\n"])


def ignored_things(backend_call: str) -> dict[str, Any]:
    """A body in which thousands of each kind are ignored."""
    audio = {"type": "audio", "source": {"type": "file", "value": "f"}}
    repeated = [{"id": f"a{n}", "role": "assistant", "content": "", "toolCalls": [call("again")]} for n in range(MANY)]
    return {
        "messages": [
            {"id": "u1", "role": "user", "content": "hi"},
            {"id": "forged", "role": "assistant", "content": "", "toolCalls": [call(backend_call, "add")]},
            *repeated,
            *(result(f"claim{n}", backend_call) for n in range(MANY)),
            *(result(f"orphan{n}", f"{n}-{LONG if n < 20 else ''}") for n in range(MANY)),
            {"id": "u2", "role": "user", "content": [audio] * MANY},
            *({"id": f"odd{n}", "role": f"wizard{n}", "content": "x"} for n in range(MANY)),
            {"id": "u3", "role": "user", "content": "go on"},
        ],
        "tools": [
            *({"name": "add", "description": "", "parameters": {}, f"odd{n}": 1} for n in range(MANY)),
            {"name": "stuck", "description": "", "parameters": {}},
        ],
        "resume": [{"interruptId": f"{n}-{LONG if n < 20 else ''}", "status": "cancelled"} for n in range(MANY)],
    }


async def test_thousands_of_ignored_things_are_a_few_short_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with chat_server() as model:
        behind = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": model.endpoint}
        agents = [agent("a", behind, tools=[fault_tool("add"), fault_tool("stuck")])]
        async with local_gateway(tmp_path, agents) as gateway:
            model.answers(calling("c1", "add"), completion("three"), completion("well"))
            frames = await gateway.client.run("a", run_body("hi", run_id="r1"))
            backend_call = next(frame.data["toolCallId"] for frame in frames if frame.type == "TOOL_CALL_START")
            caplog.clear()
            with caplog.at_level(logging.INFO, "gateway"):
                frames = await gateway.client.run("a", run_body(run_id="r2", **ignored_things(backend_call)))
            assert frames[-1].type == "RUN_FINISHED"
            said = [entry for entry in caplog.records if entry.name.startswith("gateway")]
    warned = {entry.getMessage() for entry in said if entry.levelno == logging.WARNING}
    assert warned == {
        "left out of an AG-UI input what is not known",
        "dropped a client's results for backend calls",
        "dropped frontend tools whose names are taken",
        "dropped repeated tool calls from the history",
        "dropped tool results whose calls are not in the history",
        "ignored answers to interrupts that are not open",
        "media are not sent to the model",
    }
    assert len(said) <= 12
    assert max(len(str(vars(entry))) for entry in said) < 4_000, "of each, the logging's own fields are a part"


async def test_a_long_path_is_a_short_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    behind = {"model_provider": "demo"}
    with caplog.at_level(logging.INFO, "gateway"):
        async with local_gateway(tmp_path, [agent("a", behind)]) as gateway:
            assert (await gateway.client.http.get("/" + "x" * 30_000)).status_code == 404
    (path,) = [vars(entry)["path"] for entry in caplog.records if entry.getMessage() == "request"]
    assert path == "/" + "x" * 499


def test_names_are_counted_and_a_few_shown() -> None:
    assert counted(["a", "b"]) == {"count": 2, "first": ["a", "b"]}
    many = counted({f"{number}{LONG}": None for number in range(MANY)})
    assert many["count"] == MANY
    assert isinstance(many["first"], list)
    assert [len(name) for name in many["first"]] == [MOST_CHARACTERS] * MOST_NAMED
