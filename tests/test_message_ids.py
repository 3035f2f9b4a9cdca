"""Messages whose ids the gateway makes: they are UUIDs wherever they are shown, as some clients read nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest

from gateway.events import ReasoningStarted, TextStarted
from gateway.messages import new_message_id
from gateway.model import ModelRequest
from gateway.providers.answer_builder import AnswerBuilder
from tests.running_gateway import agent, local_gateway, parse_frames, run_body, scripted

RESPONSES: list[list[dict[str, Any]]] = [
    [{"reasoning": "hm"}, {"text": "I look."}, {"tool": "ListIndexTool"}, {"tool": "show", "arguments": {}}],
    [{"text": "Done."}],
]
SHOW = {"name": "show", "description": "Show it.", "parameters": {"type": "object"}}


def ids_in(value: Any) -> set[str]:
    """The messages' ids in an event."""
    names = ("messageId", "parentMessageId")
    found = {value[name] for name in names if name in value}
    return found | {each["id"] for each in value.get("messages", ())}


async def test_ids_that_the_gateway_makes_are_uuids_on_the_wire_and_in_the_thread(tmp_path: Path) -> None:
    talker = agent("talker", scripted(*RESPONSES), tools=[{"type": "ListIndexTool"}])
    async with local_gateway(tmp_path, [talker]) as gateway:
        unnamed = [{"role": "user", "content": "hello"}]
        frames = await gateway.client.run("talker", run_body(messages=unnamed, tools=[SHOW]))
        async with gateway.client.stream("talker", run_body(messages=[]), to="connect") as stream:
            frames += await stream.rest()
        replay = await gateway.client.http.get("/runs/run-1/events")
        frames += parse_frames(replay.content)
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
    shown = {id for frame in frames for id in ids_in(frame.data)}
    stored = {message["id"] for message in messages}
    assert [message["role"] for message in messages].count("tool") == 1
    assert len(stored) == len(messages) == 4
    assert shown == stored
    assert [id for id in stored if str(UUID(id)) != id] == []


@pytest.mark.parametrize("response_id", [None, "resp_1"])
def test_answers_are_named_by_uuids_and_again_by_the_same_where_they_are_read_again(response_id: str | None) -> None:
    def ids() -> list[str]:
        builder = AnswerBuilder(ModelRequest("turn", ()), "provider", "model")
        if response_id is not None:
            builder.name_after(response_id)
        builder.reasoning("r", "hm")
        builder.text("t", "hello")
        builder.tool_started("c", "call_1", "show")
        started = [event for event in builder.take() if isinstance(event, ReasoningStarted | TextStarted)]
        return [event.message_id for event in started]

    first, second = ids(), ids()
    assert len(set(first)) == 2
    assert [str(UUID(id)) for id in first] == first
    assert (first == second) is (response_id is not None)


def test_fresh_ids_are_random_uuids_as_their_specification_writes_them() -> None:
    ids = [new_message_id() for _ in range(200)]
    assert len(set(ids)) == len(ids)
    for id in ids:
        read = UUID(id)
        assert (str(read), read.version, read.variant) == (id, 4, RFC_4122)
