"""What OpenSearch's clients do with an execution that failed: they must not send it again by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from opensearchpy import AsyncOpenSearch
from opensearchpy.exceptions import TransportError

from gateway.errors import StoreError
from gateway.store import Kept, Store
from tests.case_tools import python_tool
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import openai_model
from tests.openai_chat_server import ChatServer, Script, chat_server
from tests.running_gateway import DEADLINE_SECONDS, agent, parts_with_store, scripted
from tests.waiting import until

CALL: Mapping[str, Any] = {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"}


def chat_agent(server: ChatServer) -> dict[str, Any]:
    return agent("chat", openai_model(server))


async def asked_as_usual(ml: MlGateway, agent_id: str) -> TransportError:
    """The error of opensearch-py with its usual retries."""
    client = AsyncOpenSearch(hosts=[str(ml.http.base_url)])
    try:
        with pytest.raises(TransportError) as raised:
            await client.transport.perform_request("POST", f"{P}/agents/{agent_id}/_execute", body={"input": "hi"})
    finally:
        await client.close()
    return raised.value


async def calls_and_runs(ml: MlGateway) -> tuple[int, int]:
    """How many calls of tools there were over all threads, and how many runs."""
    store, calls, runs = ml.gateway.application.store, 0, 0
    for summary in (await store.list_threads("local", limit=10, cursor=None)).items:
        thread = await store.load_thread("local", summary.thread_id)
        calls += sum(len(message.tool_calls) for message in thread.messages) if thread else 0
        runs += len((await store.list_runs("local", summary.thread_id, limit=10, cursor=None)).items)
    return calls, runs


@pytest.mark.parametrize("kind", ["invalid", "overloaded", "timeout", "network"])
async def test_a_failed_execution_is_not_sent_again(tmp_path: Path, kind: str) -> None:
    failing = agent(
        "failing", scripted([CALL], [{"error": kind}]), tools=[python_tool("add")], parameters={"model_attempts": 1}
    )
    async with ml_gateway(tmp_path, [failing]) as ml:
        error = await asked_as_usual(ml, "failing")
        assert error.status_code == 500
        assert await calls_and_runs(ml) == (1, 1)


@pytest.mark.parametrize(("said", "shown"), [(502, 500), (503, 500), (504, 500), (400, 400), (404, 404), (429, 429)])
async def test_a_providers_4xx_keeps_its_status_and_its_5xx_is_not_repeated(
    tmp_path: Path, said: int, shown: int
) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(Script(said, [b"{}"], "application/json", [("x-should-retry", "false")], framing="length"))
        await ml.http.put("/agents/own", json={"model": chat_agent(server)["model"]})
        error = await asked_as_usual(ml, "own")
        assert (error.status_code, len(server.requests)) == (shown, 1)


class FailsOnceBegun:
    """A store that fails as soon as a run has begun."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append_events(self, *given: Any, **more: Any) -> Kept[None]:
        failed: Kept[None] = Kept()
        failed.set_exception(StoreError("the store failed"))
        return failed

    end_run = append_events


async def test_a_store_that_fails_once_a_run_has_begun_is_a_500(tmp_path: Path) -> None:
    parts = parts_with_store(lambda store: cast(Store, FailsOnceBegun(store)))
    async with ml_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))], parts=parts) as ml:
        error = await asked_as_usual(ml, "a")
    assert error.status_code == 500
    assert "the store failed" in str(error.info)


async def test_a_gateway_that_stops_ends_an_execution_with_a_500(tmp_path: Path) -> None:
    stops = {"drain_seconds": 0}
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)], server=stops) as ml:
        server.answers(Script(ending="silence"))
        asked = asyncio.create_task(ml.call("POST", "/agents/chat/_execute", {"input": "hi"}))
        await until(lambda: server.requests)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await ml.gateway.application.stop()
            status, _ = await asked
    assert status == 500


async def test_what_is_refused_before_its_run_may_be_sent_again(tmp_path: Path) -> None:
    key = {"name": "alice", "key": "alice-0123456789abcdef", "limits": {"runs_per_minute": 1}}
    headers = {"authorization": f"Bearer {key['key']}"}
    async with ml_gateway(tmp_path, [agent("a", scripted([{"text": "hi"}]))], server={"api_keys": [key]}) as ml:
        assert (await ml.call("POST", "/agents/a/_execute", {"input": "hi"}, headers=headers))[0] == 200
        refused = await ml.http.post(f"{P}/agents/a/_execute", json={"input": "hi"}, headers=headers)
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
