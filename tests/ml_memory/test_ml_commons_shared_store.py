"""What touches several memories where another gateway of the store is at work on one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.access.callers import LOCAL_CALLER
from gateway.messages import JsonObject
from gateway.ml_agents.tasks import begin_task
from gateway.ml_commons.answers import hits_of
from gateway.store import HeldElsewhereError
from tests.ml_agents.test_ml_commons_tasks import tasks_of
from tests.ml_commons_scene import P
from tests.openai_scene import SLOW
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import LocalGateway, run_body
from tests.two_gateways import two_gateways
from tests.waiting import until_answered

CONTAINER = "/memory_containers/c"


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


async def asked(gateway: LocalGateway, method: str, path: str, body: object = None) -> tuple[int, Any]:
    answer = await gateway.client.http.request(method, P + path, json=body)
    return answer.status_code, answer.json()


async def test_a_busy_thread_is_no_reason_to_go_to_another_gateway_in_the_middle(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [SLOW]) as (one, two):
        policy = {"retention_policy": {"sessions": {"max_count": 1}}}
        body = {"name": "n", "memory_container_id": "c", "configuration": policy}
        assert (await asked(one, "POST", "/memory_containers/_create", body))[0] == 200
        sessions = f"{CONTAINER}/memories/sessions"
        assert (await asked(one, "POST", sessions, {"session_id": "busy"}))[0] == 200
        async with one.client.stream("slow", run_body("hi", thread_id="busy")) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            assert (await asked(two, "POST", sessions, {"session_id": "free"}))[0] == 200

            async def found() -> int:
                _, answer = await asked(two, "POST", f"{sessions}/_search", {"size": 10})
                return len(hits_of(answer))

            await until_answered(found, lambda count: count == 2)
            status, answer = await asked(two, "POST", "/memory_containers/_retention/_execute")
            assert (status, answer["containers"][0]["memories"]) == (200, {"sessions": 0}), "it stays until it is free"
            every: JsonObject = {"query": {"match_all": {}}}
            status, answer = await asked(two, "POST", f"{sessions}/_delete_by_query", every)
            assert (status, "is busy at another gateway" in answer["error"]["reason"]) == (409, True), answer
            status, answer = await asked(two, "DELETE", CONTAINER)
            assert (status, "is busy at another gateway" in answer["error"]["reason"]) == (409, True), answer
        await one.client.http.post("/runs/run-1/cancel")
        await one.client.until_status("run-1", "cancelled")
        assert (await asked(two, "DELETE", f"{CONTAINER}?delete_all_memories=true"))[0] == 200


async def test_a_search_of_tasks_shows_those_that_another_gateway_has_under_way(tmp_path: Path) -> None:
    async with two_gateways(tmp_path, [SLOW]) as (one, two), one.client.stream("slow", run_body("hi")) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        environment, _ = tasks_of(one)
        task_id = (await begin_task(environment, LOCAL_CALLER, "run-1", {"memory_id": "thread-1"}))["task_id"]
        _, tasks = tasks_of(two)
        found = hits_of(await tasks.search(LOCAL_CALLER, {"query": {"match_all": {}}}))
        assert [(hit["_id"], hit["_source"]["state"]) for hit in found] == [(task_id, "RUNNING")]
        with pytest.raises(HeldElsewhereError):
            await tasks.task(LOCAL_CALLER, str(task_id))
