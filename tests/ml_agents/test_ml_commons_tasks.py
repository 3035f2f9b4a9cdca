"""The tasks of executions that nobody waits for."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.access.callers import LOCAL_CALLER, Caller
from gateway.access.limits import Meter
from gateway.errors import NotFoundError
from gateway.events import Event
from gateway.messages import JsonObject
from gateway.ml_agents.tasks import Tasks, begin_task
from gateway.ml_commons.answers import hits_of
from gateway.protocol import ProtocolEnvironment
from gateway.store import RunRecord
from gateway.transcript import Transcript
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.running_gateway import (
    LocalGateway,
    agent,
    gateway_process,
    local_gateway,
    run_body,
    scripted,
    write_configuration,
)
from tests.waiting import until_answered

SAYS = agent("says", scripted([{"text": "done"}]))


class Said:
    """Renders a run as the text that it said."""

    def __init__(self, record: RunRecord, to_operator: bool) -> None:
        self._transcript = Transcript()

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        self._transcript.follow(events)
        return ()

    def final(self) -> JsonObject:
        return {"said": "".join(message.text for message in self._transcript.messages)}


def tasks_of(gateway: LocalGateway) -> tuple[ProtocolEnvironment, Tasks]:
    application = gateway.application
    runs = Meter(application.clock, "runs", most_at_once=None)
    environment = ProtocolEnvironment(application.runner, application.streams, runs)
    return environment, Tasks(environment, Said)


async def begun(gateway: LocalGateway, environment: ProtocolEnvironment, run_id: str, **body: Any) -> str:
    await gateway.client.run("says", run_body(run_id=run_id, thread_id=f"of-{run_id}", **body))
    answer = await begin_task(environment, LOCAL_CALLER, run_id, {"memory_id": f"of-{run_id}"})
    assert answer["status"] == "RUNNING"
    return str(answer["task_id"])


async def test_a_task_has_the_answer_of_its_run_and_is_found_by_its_state(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        found = await tasks.search(LOCAL_CALLER, {"query": {"term": {"state": "COMPLETED"}}})
        [hit] = hits_of(found)
        task = await tasks.task(LOCAL_CALLER, task_id)
        assert (hit["_id"], hit["_source"]) == (task_id, task)
        assert (task["task_type"], task["state"], task["response"]) == (
            "AGENT_EXECUTION",
            "COMPLETED",
            {"said": "done"},
        )
        none = await tasks.search(LOCAL_CALLER, {"query": {"terms": {"state": ["CREATED", "RUNNING", "FAILED"]}}})
        assert hits_of(none) == []


async def test_a_task_goes_with_its_memory(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        await tasks.task(LOCAL_CALLER, task_id)
        await environment.delete(LOCAL_CALLER, "of-r1")
        with pytest.raises(NotFoundError):
            await tasks.task(LOCAL_CALLER, task_id)


async def test_another_owners_task_is_unknown(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [SAYS]) as gateway:
        environment, tasks = tasks_of(gateway)
        task_id = await begun(gateway, environment, "r1")
        with pytest.raises(NotFoundError):
            await tasks.task(Caller("somebody"), task_id)


# --- over HTTP


ECHO = agent("echo", scripted([{"text": "you said {{user}}"}]))
FAILS = agent("fails", scripted([{"error": "server", "message": "broken"}]))
SLOW = agent("slow", scripted([{"hang": True}]), on_disconnect="continue")
KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-of-the-tests"} for name in ("alice", "bob")]}


async def async_execution(ml: MlGateway, agent_id: str, body: object, **more: Any) -> str:
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute?async=true", body, **more)
    assert status == 200, answer
    assert answer["status"] == "RUNNING"
    assert answer["response"]["memory_id"]
    return str(answer["task_id"])


async def until_state(ml: MlGateway, task_id: str, *states: str, **more: Any) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        status, task = await ml.call("GET", f"/tasks/{task_id}", **more)
        assert status == 200, task
        return dict(task)

    return await until_answered(ask, lambda task: task["state"] in states)


async def test_an_execution_that_nobody_waits_for_has_its_answer_in_its_task(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        task_id = await async_execution(ml, "echo", {"input": "hi"})
        assert len(task_id) == 20
        task = await until_state(ml, task_id, "COMPLETED")
        [inference] = task["response"]["inference_results"]
        said = {each["name"]: each.get("dataAsMap", each.get("result")) for each in inference["output"]}
        assert said["response"]["response"] == "you said hi"
        assert task["create_time"] <= task["last_update_time"]
        assert (task["task_type"], task["function_name"], task["is_async"]) == ("AGENT_EXECUTION", "AGENT", True)
        found = await ml.opensearch.transport.perform_request(
            "GET", f"{P}/tasks/_search", body={"query": {"term": {"state": "COMPLETED"}}}
        )
        [hit] = found["hits"]["hits"]
        assert (hit["_index"], hit["_id"], hit["_source"]) == (".plugins-ml-task", task_id, task)


async def test_an_execution_that_failed_says_why_in_its_task(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [FAILS]) as ml:
        task = await until_state(ml, await async_execution(ml, "fails", {"input": "hi"}), "FAILED")
        assert task["error"]
        assert task["response"].pop("error_message") == task["error"]
        memory_id = task["response"]["memory_id"]
        assert (await ml.http.get(f"{P}/memory/{memory_id}")).json()["memory_id"] == memory_id
        assert task["response"].keys() == {"memory_id", "parent_interaction_id"}


async def test_callers_without_a_key_of_an_open_gateway_do_not_read_why_a_model_failed(tmp_path: Path) -> None:
    refused = agent("refused", scripted([{"error": "authentication", "message": "key 7 is wrong"}]))
    for server, is_told in (({}, True), ({"allow_unauthenticated": True}, False)):
        async with ml_gateway(tmp_path, [refused], server=server) as ml:
            task = await until_state(ml, await async_execution(ml, "refused", {"input": "hi"}), "FAILED")
            assert ("key 7" in task["error"]) is is_told


async def test_a_task_is_cancelled_once_and_forgotten(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [SLOW, ECHO]) as ml:
        task_id = await async_execution(ml, "slow", {"input": "hi"})
        await until_state(ml, task_id, "RUNNING")
        assert await ml.call("POST", f"/tasks/{task_id}/_cancel") == (200, {"status": "OK"})
        await until_state(ml, task_id, "CANCELLED")
        assert await ml.call("POST", f"/tasks/{task_id}/_cancel") == (200, {"status": "OK"})
        done = await async_execution(ml, "echo", {"input": "hi"})
        await until_state(ml, done, "COMPLETED")
        status, answer = await ml.call("POST", f"/tasks/{done}/_cancel")
        assert status == 409
        assert "COMPLETED" in answer["error"]["reason"]
        status, answer = await ml.call("DELETE", f"/tasks/{task_id}")
        assert (status, answer["result"], answer["_id"]) == (200, "deleted", task_id)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/_cancel")):
            status, answer = await ml.call(method, f"/tasks/{task_id}{path}")
            said = f"Failed to find task with the provided task id: {task_id}"
            assert (status, answer["error"]["reason"]) == (404, said)


async def test_an_execution_that_waits_for_its_memory_is_created(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [SLOW], server={"drain_seconds": 0}) as ml:
        body = {"input": "hi", "parameters": {"memory_id": "m1"}}
        first = await async_execution(ml, "slow", body)
        await until_state(ml, first, "RUNNING")
        second = await async_execution(ml, "slow", body)
        _, found = await ml.call("POST", "/tasks/_search", {"query": {"term": {"state": "CREATED"}}})
        assert [hit["_id"] for hit in found["hits"]["hits"]] == [second]
        await ml.call("POST", f"/tasks/{second}/_cancel")
        task = await until_state(ml, second, "CANCELLED")
        assert "error" in task


async def test_a_task_whose_memory_was_deleted_under_it_has_failed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [SLOW], server={"drain_seconds": 0}) as ml:
        body = {"input": "hi", "parameters": {"memory_id": "m1"}}
        task_id = await async_execution(ml, "slow", body)
        await until_state(ml, task_id, "RUNNING")
        assert (await ml.http.delete("/threads/m1")).is_success
        _, found = await ml.call("POST", "/tasks/_search", {"query": {"term": {"state": "FAILED"}}})
        assert [hit["_id"] for hit in found["hits"]["hits"]] == [task_id]
        task = await until_state(ml, task_id, "FAILED")
        assert task["error"] == "its memory or its run was deleted"


@pytest.mark.thorough
async def test_an_answer_that_is_too_large_for_its_task_is_read_from_the_run(tmp_path: Path) -> None:
    long = agent("long", scripted([{"text": "x" * 5_000_000}]), parameters={"max_answer_bytes": 9_000_000})
    async with ml_gateway(tmp_path, [long]) as ml:
        task_id = await async_execution(ml, "long", {"input": "hi"})
        await until_state(ml, task_id, "COMPLETED")
        _, found = await ml.call("POST", "/tasks/_search", {"query": {"term": {"state": "COMPLETED"}}})
        assert [hit["_id"] for hit in found["hits"]["hits"]] == [task_id]
        for _ in range(2):
            task = await until_state(ml, task_id, "COMPLETED")
            [inference] = task["response"]["inference_results"]
            assert len(str(inference)) > 5_000_000


async def test_nobody_sees_anothers_task(tmp_path: Path) -> None:
    alice, bob = ({"auth": (name, f"{name}-key-of-the-tests")} for name in ("alice", "bob"))
    async with ml_gateway(tmp_path, [ECHO], server=KEYS) as ml:
        task_id = await async_execution(ml, "echo", {"input": "hi"}, **alice)
        await until_state(ml, task_id, "COMPLETED", **alice)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/_cancel")):
            assert (await ml.call(method, f"/tasks/{task_id}{path}", **bob))[0] == 404
        _, found = await ml.call("GET", "/tasks/_search", {"query": {"match_all": {}}}, **bob)
        assert found["hits"]["total"]["value"] == 0


async def test_a_task_is_no_run_of_its_own(tmp_path: Path) -> None:
    limited = {"api_keys": [{"name": "alice", "key": "alice-key-of-the-tests", "limits": {"runs_per_minute": 1}}]}
    alice = {"auth": ("alice", "alice-key-of-the-tests")}
    async with ml_gateway(tmp_path, [ECHO], server=limited) as ml:
        await until_state(ml, await async_execution(ml, "echo", {"input": "hi"}, **alice), "COMPLETED", **alice)


async def test_a_search_with_a_get_needs_json_too(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        wrong = {"content-type": "application/x-www-form-urlencoded"}
        answer = await ml.http.request("GET", f"{P}/tasks/_search", content="a=b", headers=wrong)
        assert answer.status_code == 415
        assert (await ml.call("GET", "/tasks/_search"))[0] == 200
        assert (await ml.call("GET", "/tasks/_search", {"query": {"nonsense": {}}}))[0] == 400


async def test_a_task_tells_of_a_kill_after_the_restart(tmp_path: Path) -> None:
    path = write_configuration(tmp_path, [SLOW])
    async with gateway_process(path) as gateway:
        http = gateway.client.http
        begun = await http.post(f"{P}/agents/slow/_execute?async=true", json={"input": "hi"})
        task_id = begun.json()["task_id"]
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(path) as gateway:
        http = gateway.client.http
        found = await http.post(f"{P}/tasks/_search", json={"query": {"term": {"state": "FAILED"}}})
        [hit] = found.json()["hits"]["hits"]
        assert hit["_id"] == task_id
        task = (await http.get(f"{P}/tasks/{task_id}")).json()
        assert (task["state"], task["response"]["error_message"]) == ("FAILED", task["error"])
