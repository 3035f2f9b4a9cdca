"""Runs that have to call a tool of the client's, over real sockets: CopilotKit asks for suggestions so, on threads that
no person ever opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.observed_runs import observe
from tests.openai_chat_server import ChatServer, completion
from tests.running_gateway import LocalGateway, agent, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

SUGGEST: Json = {"name": "copilotkitSuggest", "description": "Suggest.", "parameters": {"type": "object"}}
ADD: Json = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
AGENTS = [
    agent(
        "suggesting",
        scripted(
            [{"text": "Hello there"}],
            rules=[{"when": {"tool_choice": "copilotkitSuggest"}, "response": [{"tool": "copilotkitSuggest"}]}],
        ),
    ),
]


def forcing(name: str, *tools: Json) -> Json:
    """The members of a request that has to call that tool."""
    return {
        "tools": list(tools),
        "forwardedProps": {"toolChoice": {"type": "function", "function": {"name": name}}},
    }


async def listed(gateway: LocalGateway, thread_id: str) -> bool:
    page = await gateway.client.get("/threads?limit=500")
    assert page["nextCursor"] is None
    return thread_id in [thread["id"] for thread in page["threads"]]


async def test_a_forced_tool_of_the_client_is_called_and_ends_the_run(gateway: LocalGateway, fresh: Fresh) -> None:
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), **forcing("copilotkitSuggest", SUGGEST))
    frames = await gateway.client.run("suggesting", body)
    assert [frame.type for frame in frames] == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END",
                                                "RUN_FINISHED"]  # fmt: skip


async def test_the_provider_is_told_the_tool_in_its_own_words(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    upstream.answers(completion("ok"))
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), **forcing("copilotkitSuggest", SUGGEST))
    await observe(gateway, "openai", body)
    sent = upstream.requests[0].json
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "copilotkitSuggest"}}
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["add", "copilotkitSuggest"]


async def test_a_tool_of_the_backend_is_never_forced(gateway: LocalGateway, upstream: ChatServer, fresh: Fresh) -> None:
    """Not by its name, nor by a tool of the client's that has its name: which tools run here is the agent's affair."""
    upstream.answers(completion("ok"), completion("ok"))
    thread_id = fresh("thread")
    for tools in ((SUGGEST,), (ADD, SUGGEST)):
        body = run_body("hi", thread_id=thread_id, run_id=fresh("run"), **forcing("add", *tools))
        await observe(gateway, "openai", body)
    assert ["tool_choice" in request.json for request in upstream.requests] == [False, False]
    assert await listed(gateway, thread_id)


async def test_a_new_thread_whose_runs_force_a_tool_is_unlisted_until_an_ordinary_run(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    thread_id = fresh("thread")
    for _ in range(2):
        body = run_body("hi", thread_id=thread_id, run_id=fresh("run"), **forcing("copilotkitSuggest", SUGGEST))
        await observe(gateway, "suggesting", body)
        assert not await listed(gateway, thread_id)
    assert (await gateway.client.get(f"/threads/{thread_id}/messages"))["messages"]

    await observe(gateway, "suggesting", run_body("hello", thread_id=thread_id, run_id=fresh("run")))
    assert await listed(gateway, thread_id)

    body = run_body("hi", thread_id=thread_id, run_id=fresh("run"), **forcing("copilotkitSuggest", SUGGEST))
    await observe(gateway, "suggesting", body)
    assert await listed(gateway, thread_id)
