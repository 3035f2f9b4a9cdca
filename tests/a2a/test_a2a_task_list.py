"""A2A over real sockets: tasks that are listed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.a2a import task_list
from gateway.a2a.stored_tasks import StoredTasks
from gateway.a2a.tasks import TaskFold
from gateway.access.callers import Caller
from gateway.protocol import pages
from gateway.store import Store
from tests.a2a_scene import DEFAULT, A2AScene, a2a_gateway, asked_in, of_agent, said, waiting_task, words_of
from tests.noted_store import NotedStore
from tests.running_gateway import parts_with_store, run_body


async def _listed(a2a: A2AScene, *, to: str = DEFAULT, **params: Any) -> list[Any]:
    """The pages of a list, to its last one."""
    pages = [await a2a.call("ListTasks", params, to=to)]
    while token := pages[-1]["nextPageToken"]:
        pages.append(await a2a.call("ListTasks", {**params, "pageToken": token}, to=to))
    return pages


def _ids(pages: Sequence[Any]) -> list[str]:
    return [task["id"] for page in pages for task in page["tasks"]]


async def test_tasks_are_listed_from_the_one_that_changed_last(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        done = [(await a2a.call("SendMessage", said(f"n{number}")))["task"] for number in range(4)]
        first, second = await _listed(a2a, pageSize=2)
    assert _ids([first, second]) == [task["id"] for task in reversed(done)]
    assert [(page["totalSize"], page["pageSize"]) for page in (first, second)] == [(4, 2)] * 2
    assert all("artifacts" not in task for task in first["tasks"])


async def test_a_list_has_the_tasks_of_the_agent_at_whose_url_it_is_asked_for(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        done = (await a2a.call("SendMessage", said("hello")))["task"]
        waiting = await waiting_task(a2a)
        elsewhere = (await a2a.call("SendMessage", said("more", contextId=waiting["contextId"])))["task"]
        lists = {
            to: _ids(await _listed(a2a, to=to)) for to in (DEFAULT, *map(of_agent, ("words", "refunder", "adder")))
        }
        rest = (await a2a.http.get(f"{of_agent('refunder')}/tasks")).json()
        by_id = await a2a.call("GetTask", {"id": waiting["id"]}, to=of_agent("adder"))
    default = [elsewhere["id"], done["id"]]
    assert list(lists.values()) == [default, default, [waiting["id"]], []]
    assert (_ids([rest]), rest["totalSize"]) == ([waiting["id"]], 1)
    assert by_id["id"] == waiting["id"], "an id leads to its task at each URL"


async def test_a_list_may_have_one_context_one_state_and_artifacts(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        done = (await a2a.call("SendMessage", said("hello")))["task"]
        waiting = await waiting_task(a2a)
        of_context = await a2a.call("ListTasks", {"contextId": done["contextId"], "includeArtifacts": True})
        by_state = {
            (agent_id, state): _ids(await _listed(a2a, to=of_agent(agent_id), status=f"TASK_STATE_{state}"))
            for state in ("COMPLETED", "INPUT_REQUIRED", "FAILED", "AUTH_REQUIRED")
            for agent_id in ("words", "refunder")
        }
        later = await a2a.call("ListTasks", {"statusTimestampAfter": "2999-01-01T00:00:00Z"})
    assert [words_of(task) for task in of_context["tasks"]] == ["I heard: hello"]
    assert {key: ids for key, ids in by_state.items() if ids} == {
        ("words", "COMPLETED"): [done["id"]], ("refunder", "INPUT_REQUIRED"): [waiting["id"]]
    }  # fmt: skip
    assert later["tasks"] == []


async def test_a_list_of_one_state_counts_it_exactly_on_each_page(tmp_path: Path) -> None:
    weather = of_agent("weather")
    tools = {"tools": [{"name": "get_weather", "parameters": {"type": "object"}}]}
    async with a2a_gateway(tmp_path) as a2a:
        for _ in range(3):
            await a2a.call("SendMessage", said("hello"), to=weather)
            await a2a.call("SendMessage", said("weather", metadata=tools), to=weather)
        lists = [
            await _listed(a2a, to=weather, pageSize=1, status=f"TASK_STATE_{state}")
            for state in ("COMPLETED", "INPUT_REQUIRED")
        ]
    assert [{page["totalSize"] for page in pages} for pages in lists] == [{3}, {3}]
    assert [len(_ids(pages)) for pages in lists] == [3, 3]


async def test_tasks_too_many_to_look_at_are_counted_as_they_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_list, "_MOST_COUNTED", 3)
    weather = of_agent("weather")
    tools = {"tools": [{"name": "get_weather", "parameters": {"type": "object"}}]}
    async with a2a_gateway(tmp_path) as a2a:
        for _ in range(3):
            await a2a.call("SendMessage", said("weather", metadata=tools), to=weather)
            await a2a.call("SendMessage", said("hello"), to=weather)
        pages = await _listed(a2a, to=weather, pageSize=1, status="TASK_STATE_COMPLETED")
    assert [page["totalSize"] for page in pages] == [6, 6, 6, 6], "none is looked at for a number that is none"
    assert len(_ids(pages)) == 3


class Asked:
    """A store that notes for which list of runs it had to count them all."""

    def __init__(self, store: Store, counted: list[bool]) -> None:
        self._store = store
        self._counted = counted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def find_runs(self, *given: Any, total: int | None = None, **more: Any) -> Any:
        self._counted.append(total is None)
        return await self._store.find_runs(*given, total=total, **more)


async def test_a_list_is_counted_once_and_looks_at_no_task_that_its_record_tells_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[bool] = []
    looked_at: list[str] = []
    folded = StoredTasks.folded

    async def noted(tasks: StoredTasks, caller: Caller, task_id: str, *more: Any) -> TaskFold:
        looked_at.append(task_id)
        return await folded(tasks, caller, task_id, *more)

    monkeypatch.setattr(StoredTasks, "folded", noted)
    refunder = of_agent("refunder")
    async with a2a_gateway(tmp_path, parts=parts_with_store(lambda store: cast(Store, Asked(store, counted)))) as a2a:
        for _ in range(3):
            await waiting_task(a2a)
        done = [(await a2a.call("SendMessage", said("hello")))["task"]["id"] for _ in range(3)]
        for state in ("FAILED", "WORKING", "CANCELED", "SUBMITTED", "COMPLETED"):
            assert _ids(await _listed(a2a, to=refunder, status=f"TASK_STATE_{state}")) == []
        assert looked_at == []
        for more in ({}, {"status": "TASK_STATE_COMPLETED"}):
            counted.clear()
            pages = await _listed(a2a, pageSize=1, **more)
            assert sorted(_ids(pages)) == sorted(done)
            assert counted[0], "it has to be counted"
            assert not any(counted[1:])


async def test_a_page_reads_its_tasks_together_and_a_task_s_log_once(tmp_path: Path) -> None:
    reads: list[str] = []
    async with a2a_gateway(
        tmp_path, parts=parts_with_store(lambda store: cast(Store, NotedStore(store, reads)))
    ) as a2a:
        done = [(await a2a.call("SendMessage", said("hello")))["task"]["id"] for _ in range(4)]

        def of_the_page() -> list[str]:
            """The reads since the last call, without those of the process's own rounds."""
            found = [name for name in reads if name in ("find_runs", "read_logs", "read_events", "load_run")]
            reads.clear()
            return found

        of_the_page()
        without = await _listed(a2a)
        assert len(_ids(without)) == 4
        assert of_the_page() == ["find_runs"]
        whole = await _listed(a2a, includeArtifacts=True)
        assert of_the_page() == ["find_runs", "read_logs"]
        for page in whole:
            for task in page["tasks"]:
                assert task.pop("artifacts")
        assert whole == without
        reads.clear()
        await a2a.task(done[0])
        assert reads.count("read_events") == 1


@pytest.mark.parametrize("binding", ["rpc", "rest"])
async def test_a_page_of_large_tasks_ends_early_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binding: str
) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES", 3_000)
    async with a2a_gateway(tmp_path) as a2a:
        done = [(await a2a.call("SendMessage", said("x" * 2_000)))["task"]["id"] for _ in range(5)]
        token = ""
        lists: list[Any] = []
        while token or not lists:
            if binding == "rest":
                answer = await a2a.http.get(f"{DEFAULT}/tasks", params={"pageToken": token})
                lists.append(answer.json())
            else:
                lists.append(await a2a.call("ListTasks", {"pageToken": token}))
            token = lists[-1]["nextPageToken"]
    assert [len(each["tasks"]) for each in lists] == [2, 2, 1]
    assert _ids(lists) == done[::-1]
    assert {each["totalSize"] for each in lists} == {5}


async def test_a_page_looks_at_no_more_tasks_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_list, "_MOST_LOOKED_AT", 2)
    weather = of_agent("weather")
    tools = {"tools": [{"name": "get_weather", "parameters": {"type": "object"}}]}
    async with a2a_gateway(tmp_path) as a2a:
        done = (await a2a.call("SendMessage", said("hello"), to=weather))["task"]["id"]
        for _ in range(3):
            await a2a.call("SendMessage", said("weather", metadata=tools), to=weather)
        pages = await _listed(a2a, to=weather, pageSize=1, status="TASK_STATE_COMPLETED")
    assert [[task["id"] for task in page["tasks"]] for page in pages] == [[], [done]]


async def test_a_task_that_another_protocol_answered_is_listed_by_its_state(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        (asked,) = await asked_in(a2a, waiting["contextId"])
        answer = {"interruptId": asked, "status": "resolved", "payload": {"approved": True}}
        await a2a.client.run(
            "refunder", run_body(thread_id=waiting["contextId"], run_id="r2", messages=[], resume=[answer])
        )
        lists = {
            state: _ids(await _listed(a2a, to=of_agent("refunder"), status=f"TASK_STATE_{state}"))
            for state in ("COMPLETED", "INPUT_REQUIRED")
        }
    assert lists == {"COMPLETED": [waiting["id"]], "INPUT_REQUIRED": []}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"pageSize": 0}, "pageSize"),
        ({"pageSize": 101}, "pageSize"),
        ({"pageToken": "no-token"}, "pageToken"),
        ({"pageToken": "3.no-token", "status": "TASK_STATE_COMPLETED"}, "pageToken"),
        ({"status": "TASK_STATE_GONE"}, "status"),
        ({"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        ({"contextId": 7}, "contextId"),
    ],
)
async def test_a_wrong_filter_is_named(tmp_path: Path, params: Any, field: str) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        error = await a2a.error("ListTasks", params)
    assert (error["code"], error["data"][1]["fieldViolations"][0]["field"]) == (-32602, field)
