"""How much strangers may push to a model: everything that they send counts, over real sockets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.running_gateway import LocalGateway, agent, local_gateway
from tests.website import keys, visitor

MUCH = "x" * 900_000
HELLO = {"id": "u", "role": "user", "content": "hello"}
TOOL = {"name": "pick", "description": "Pick.", "parameters": {"type": "object", "properties": {}}}
LONG_ANSWER = "word " * 10_000


@asynccontextmanager
async def shop(directory: Path, model: ChatServer, **more: Any) -> AsyncGenerator[LocalGateway]:
    behind = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": model.endpoint}
    agents = [agent(name, behind, **more) for name in ("helper", "sleeper")]
    async with local_gateway(directory, agents, server=keys(), search=None) as gateway:
        yield gateway


@pytest.mark.parametrize(
    ("pointer", "body"),
    [
        ("/messages", {"messages": [{**HELLO, "content": MUCH}]}),
        ("/messages", {"messages": [{"id": "a", "role": "assistant", "content": MUCH}, HELLO]}),
        ("/messages", {"messages": [HELLO, {"id": "r", "role": "reasoning", "content": MUCH}]}),
        ("/messages", {"messages": [HELLO, {"id": "t", "role": "tool", "toolCallId": "c", "content": MUCH}]}),
        ("/messages", {"messages": [{"id": f"u{n}", "role": "user", "content": "x" * 15_000} for n in range(60)]}),
        ("/messages", {"messages": [{"id": f"message-{n}", "role": "user", "content": ""} for n in range(9_900)]}),
        ("/messages", {"messages": [{**HELLO, "metadata": {"a": MUCH}}]}),
        ("/tools", {"tools": [{**TOOL, "description": MUCH}]}),
        ("/tools", {"tools": [{**TOOL, "parameters": {"type": "object", "description": MUCH}}]}),
        ("/tools", {"tools": [{**TOOL, "name": f"pick{n}", "description": "x" * 15_000} for n in range(60)]}),
        ("/context/0", {"context": [{"description": "page", "value": MUCH}]}),
        ("/state", {"state": {"a": MUCH}}),
        ("/forwardedProps", {"forwardedProps": {"a": MUCH}}),
        ("/resume", {"resume": [{"interruptId": "i", "status": "resolved", "payload": MUCH}]}),
    ],
)
async def test_much_of_anything_is_refused_by_its_field(tmp_path: Path, pointer: str, body: dict[str, Any]) -> None:
    async with chat_server() as model, shop(tmp_path, model) as gateway:
        stranger = await visitor(gateway.client)
        refused = await stranger.run(**{"messages": [HELLO], **body})
        assert refused.status == 413
        assert refused.code in ("message_too_large", "input_too_large")
        assert refused.json["errors"][0]["pointer"] == pointer
        assert model.requests == []
        assert (await stranger.ask("GET", "/threads")).json["threads"] == [], "nothing is stored of it"
        model.answers(completion("hi"))
        assert (await stranger.run(messages=[HELLO], tools=[TOOL])).status == 200, "the run's id is free"


async def test_a_long_conversation_with_pictures_and_a_growing_state_is_served(tmp_path: Path) -> None:
    """As a widget sends it: all it knows each time, much more than may be new."""
    async with chat_server() as model, shop(tmp_path, model) as gateway:
        stranger = await visitor(gateway.client)
        picture = {
            "type": "image",
            "source": {"type": "data", "value": b64encode(bytes(60_000)).decode(), "mimeType": "image/png"},
        }
        known: list[dict[str, Any]] = []
        state: dict[str, Any] = {"notes": []}
        for number in range(6):
            model.answers(completion(LONG_ANSWER))
            text = {"type": "text", "text": f"{number} " + "why " * 3_000}
            new = {"id": f"u{number}", "role": "user", "content": [text, picture]}
            state = {"notes": [*state["notes"], "x" * 10_000]}
            context = [{"description": "page", "value": "p" * 10_000}]
            answer = await stranger.run(
                messages=[*known, new], run_id=f"r{number}", state=state, context=context, tools=[TOOL]
            )
            assert answer.status == 200, answer.response.text
            assert answer.types[-1] == "RUN_FINISHED"
            known = (await stranger.ask("GET", "/threads/thread-1/messages")).json["messages"]
        assert len(model.requests[-1].body) > 500_000
        repeated = await stranger.run(messages=[*known[:-1]], run_id="r5", state=state)
        assert repeated.status == 200, "a request that was made before is no new run"


async def test_a_thread_grows_by_no_more_than_that_with_each_request(tmp_path: Path) -> None:
    """The same words over and over under other ids: known once, and new each time where they are appended."""
    for history in ("replace", "append"):
        directory = tmp_path / history
        directory.mkdir()
        async with chat_server() as model, shop(directory, model, history=history) as gateway:
            stranger = await visitor(gateway.client)
            many = [{"id": f"u{n}", "role": "user", "content": "x" * 15_000} for n in range(8)]
            model.answers(completion("one"), completion("two"))
            assert (await stranger.run(messages=many[:4])).status == 200
            assert (await stranger.run(messages=many, run_id="r2")).status == 200
            again = [{**message, "id": f"again-{message['id']}"} for message in many]
            model.answers(completion("three"))
            repeated = await stranger.run(messages=again, run_id="r3")
            assert repeated.status == (200 if history == "replace" else 413)
            assert (await stranger.run(messages=[*many, *again], run_id="r4")).code == "input_too_large"
