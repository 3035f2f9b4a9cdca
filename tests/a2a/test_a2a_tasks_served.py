"""A2A over real sockets: tasks that are read, canceled and watched."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from gateway.store import Store
from tests.a2a_scene import (
    A2AScene,
    a2a_gateway,
    asked_in,
    of_agent,
    results,
    said,
    sent,
    state_of,
    waiting_task,
    words_of,
)
from tests.openai_chat_server import Script, chat_server
from tests.openai_scene import AGENTS, REFUNDER, WORDS
from tests.running_gateway import DEADLINE_SECONDS, OpenStream, parts_with_store, run_body
from tests.waiting import until_answered

AT_ONCE = {"returnImmediately": True}


async def _working(a2a: A2AScene, **more: Any) -> Any:
    """A task that is at work until it is canceled."""
    task = (await a2a.call("SendMessage", said("go", configuration=AT_ONCE, **more), to=of_agent("slow")))["task"]
    return await a2a.until(task["id"], "WORKING")


async def _first(stream: OpenStream, count: int) -> list[Any]:
    """The first results of a stream."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while len(stream.frames) < count:
            assert await stream.read(), "it ended"
    return results(stream.frames)


# --- reading


async def test_a_history_has_as_many_messages_as_are_asked_for(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        ended = (await a2a.call("SendMessage", said("approve", taskId=waiting["id"])))["task"]
        whole = ended["history"]
        assert [each["role"] for each in whole] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]
        last = await a2a.call("GetTask", {"id": ended["id"], "historyLength": 1})
        none = await a2a.call("GetTask", {"id": ended["id"], "historyLength": 0})
        error = await a2a.error("GetTask", {"id": ended["id"], "historyLength": -1})
    assert last["history"] == whole[-1:]
    assert "history" not in none
    assert (error["code"], error["data"][1]["fieldViolations"][0]["field"]) == (-32602, "historyLength")


async def test_a_run_of_another_protocol_is_a_task_too(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        await a2a.client.run("words", run_body("hello", thread_id="t1", run_id="r1"))
        task = await a2a.task("r1")
    assert (task["id"], task["contextId"], state_of(task)) == ("r1", "t1", "COMPLETED")
    assert (words_of(task), task["history"][0]["parts"]) == ("I heard: hello", [{"text": "hello"}])


async def test_an_answer_by_another_protocol_goes_on_with_the_task(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        thread = await a2a.gateway.application.store.load_thread("local", waiting["contextId"])
        assert thread is not None
        answer = {
            "interruptId": thread.interrupts[0].interrupt.id,
            "status": "resolved",
            "payload": {"approved": True},
        }
        body = run_body(thread_id=waiting["contextId"], run_id="r2", messages=[], resume=[answer])
        async with a2a.stream("SubscribeToTask", {"id": waiting["id"]}) as stream:
            await _first(stream, 1)
            await a2a.client.run("refunder", body)
            frames = results(await stream.rest())
        task = await a2a.task(waiting["id"])
    assert state_of(frames[-1]["statusUpdate"]) == "COMPLETED"
    assert (task["id"], state_of(task), "refunded" in words_of(task)) == (waiting["id"], "COMPLETED", True)


async def test_another_s_task_is_not_there(tmp_path: Path) -> None:
    keys = [{"name": name, "key": f"{name}-0123456789abcdef"} for name in ("alice", "bob")]
    async with a2a_gateway(tmp_path, server={"api_keys": keys}) as a2a:
        alice, bob = ({"authorization": f"Bearer {each['key']}"} for each in keys)
        task = (await a2a.call("SendMessage", said("hello"), **alice))["task"]
        for method in ("GetTask", "CancelTask", "SubscribeToTask"):
            error = await a2a.error(method, {"id": task["id"]}, **bob)
            assert (error["code"], error["data"][0]["reason"]) == (-32001, "TASK_NOT_FOUND")
        assert (await a2a.error("SendMessage", said("x", taskId=task["id"]), **bob))["code"] == -32001
        assert (await a2a.call("ListTasks", {}, **bob))["tasks"] == []
        refused = await a2a.post({}, authorization="Bearer no-such-key-0123456789")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, -32000)


# --- canceling


async def test_a_task_that_waits_can_be_canceled_and_nobody_can_approve_its_call_any_more(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        canceled = await a2a.call("CancelTask", {"id": waiting["id"]})
        assert (canceled["id"], state_of(canceled)) == (waiting["id"], "CANCELED")
        assert (await a2a.error("SendMessage", said("approve", taskId=waiting["id"])))["code"] == -32004
        error = await a2a.error("CancelTask", {"id": waiting["id"]})
        assert (error["code"], error["data"][0]["reason"]) == (-32002, "TASK_NOT_CANCELABLE")
        thread = await a2a.gateway.application.store.load_thread("local", waiting["contextId"])
        assert thread is not None
        assert thread.interrupts == ()
        again = (await a2a.call("SendMessage", said("hello", contextId=waiting["contextId"])))["task"]
    assert state_of(again) == "COMPLETED"


async def test_a_task_that_is_canceled_while_another_begins_in_its_context_leaves_no_question_open(
    tmp_path: Path,
) -> None:
    async with held_gateway(tmp_path) as (a2a, store):
        waiting = await waiting_task(a2a)
        async with held_up(a2a, store, waiting["contextId"]):
            canceled = await a2a.call("CancelTask", {"id": waiting["id"]})
            assert state_of(canceled) == "CANCELED", "at once, though its turn has not come"
            assert (await a2a.error("CancelTask", {"id": waiting["id"]}))["code"] == -32002
        await until_nothing_is_asked(a2a, waiting["contextId"])
        assert state_of(await a2a.task(waiting["id"])) == "CANCELED"


@pytest.mark.parametrize("words", ["approve", "deny", "what is that?"])
async def test_an_answer_that_is_canceled_before_its_turn_leaves_no_question_open(tmp_path: Path, words: str) -> None:
    async with held_gateway(tmp_path) as (a2a, store):
        waiting = await waiting_task(a2a)
        async with held_up(a2a, store, waiting["contextId"]):
            await a2a.call("SendMessage", said(words, taskId=waiting["id"], configuration=AT_ONCE))
            assert state_of(await a2a.task(waiting["id"])) == "SUBMITTED"
            cancelled = await a2a.http.post(f"/runs/{waiting['id']}_2/cancel")
            assert cancelled.status_code in (200, 202), "another protocol cancels the run"
            await a2a.until(waiting["id"], "CANCELED")
            stored = await a2a.gateway.application.store.load_run("local", f"{waiting['id']}_2")
            assert stored is not None
            assert not stored.status.ended, "a process that is killed now leaves it to the next one"
        await until_nothing_is_asked(a2a, waiting["contextId"])
        assert state_of(await a2a.task(waiting["id"])) == "CANCELED"


async def test_an_approval_that_is_canceled_before_its_turn_leaves_the_task_to_be_answered(tmp_path: Path) -> None:
    async with held_gateway(tmp_path, [WORDS, {**REFUNDER, "on_concurrent_run": "enqueue"}]) as (a2a, store):
        waiting = await waiting_task(a2a)
        (asked,) = await asked_in(a2a, waiting["contextId"])
        answer = {"interruptId": asked, "status": "resolved", "payload": {"approved": True}}
        body = run_body(thread_id=waiting["contextId"], run_id="r2", messages=[], resume=[answer])
        async with held_up(a2a, store, waiting["contextId"]), asyncio.TaskGroup() as group:
            group.create_task(a2a.client.run("refunder", body))
            await until_answered(lambda: a2a.http.get("/runs/r2"), lambda answer: answer.status_code == 200)
            assert state_of(await a2a.task(waiting["id"])) == "SUBMITTED"
            await a2a.http.post("/runs/r2/cancel")
            await a2a.until(waiting["id"], "INPUT_REQUIRED")
            assert await asked_in(a2a, waiting["contextId"]) == [asked]
        await a2a.call("SendMessage", said("approve", taskId=waiting["id"]))
        assert asked not in await asked_in(a2a, waiting["contextId"])


async def _asking_the_same(a2a: A2AScene) -> tuple[Any, Any]:
    """Two tasks of one context that wait for one approval: the second one is only told of it."""
    first = await waiting_task(a2a)
    more = said("hello", contextId=first["contextId"])
    second = (await a2a.call("SendMessage", more, to=of_agent("refunder")))["task"]
    assert [state_of(each) for each in (first, second)] == ["INPUT_REQUIRED"] * 2
    return first, second


@pytest.mark.parametrize("place", [0, 1])
async def test_tasks_that_wait_for_one_approval_go_on_together(tmp_path: Path, place: int) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        tasks = await _asking_the_same(a2a)
        answered, other = tasks[place], tasks[1 - place]
        async with a2a.stream("SubscribeToTask", {"id": other["id"]}) as stream:
            await _first(stream, 1)
            again = (await a2a.call("SendMessage", said("approve", taskId=answered["id"])))["task"]
            frames = results(await stream.rest())
        asking = await a2a.task(other["id"])
        done = (await a2a.call("SendMessage", said("approve", taskId=other["id"])))["task"]
        too = await a2a.task(answered["id"])
    assert [state_of(each) for each in (again, asking)] == ["INPUT_REQUIRED"] * 2, "the agent asks for one more"
    assert asking["status"] == frames[-1]["statusUpdate"]["status"]
    assert asking["status"]["message"]["parts"] == again["status"]["message"]["parts"]
    assert {message["taskId"] for message in asking["history"]} == {other["id"]}
    assert [state_of(each) for each in (done, too)] == ["COMPLETED"] * 2
    assert ("refunded" in words_of(done), words_of(too)) == (True, words_of(done))


async def test_tasks_that_wait_for_one_approval_are_canceled_together(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        first, second = await _asking_the_same(a2a)
        await a2a.call("CancelTask", {"id": second["id"]})
        assert await asked_in(a2a, first["contextId"]) == []
        assert state_of(await a2a.task(first["id"])) == "CANCELED"
        assert (await a2a.error("SendMessage", said("approve", taskId=first["id"])))["code"] == -32004


async def test_tasks_that_wait_for_one_approval_go_on_where_another_protocol_answers_it(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        first, second = await _asking_the_same(a2a)
        (asked,) = await asked_in(a2a, first["contextId"])
        answer = {"interruptId": asked, "status": "resolved", "payload": {"approved": True}}
        body = run_body(thread_id=first["contextId"], run_id="r2", messages=[], resume=[answer])
        await a2a.client.run("refunder", body)
        await a2a.call("SendMessage", said("approve", taskId=second["id"]))
        states = [state_of(await a2a.task(each["id"])) for each in (first, second)]
    assert states == ["COMPLETED"] * 2


async def until_nothing_is_asked(a2a: A2AScene, context_id: str) -> None:
    await until_answered(lambda: asked_in(a2a, context_id), lambda asked: not asked)


@contextlib.asynccontextmanager
async def held_gateway(
    directory: Path, agents: Sequence[Mapping[str, Any]] = AGENTS
) -> AsyncGenerator[tuple[A2AScene, SlowToBegin]]:
    """A gateway whose runs can be held up as they begin."""
    stores: list[SlowToBegin] = []

    def slow(store: Store) -> Store:
        stores.append(SlowToBegin(store))
        return cast(Store, stores[0])

    async with a2a_gateway(directory, agents, parts=parts_with_store(slow)) as a2a:
        yield a2a, stores[0]


@contextlib.asynccontextmanager
async def held_up(a2a: A2AScene, store: SlowToBegin, context_id: str) -> AsyncGenerator[None]:
    """While a new task begins in the context; at the end it begins and works."""
    store.free.clear()
    store.asked.clear()
    async with asyncio.TaskGroup() as group:
        group.create_task(a2a.call("SendMessage", said("hello", contextId=context_id)))
        await store.asked.wait()
        try:
            yield
        finally:
            store.free.set()


async def test_a_task_whose_log_is_gone_still_takes_the_answer_that_it_waits_for(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        assert await a2a.gateway.application.store.remove_logs(finished_before=1e12)
        ended = (await a2a.call("SendMessage", said("approve", taskId=waiting["id"])))["task"]
    assert (ended["id"], state_of(ended), "refunded" in words_of(ended)) == (waiting["id"], "COMPLETED", True)


class SlowToBegin:
    """A store that lets no run begin while `free` is not set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.free, self.asked = asyncio.Event(), asyncio.Event()
        self.free.set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def begin_run(self, *values: Any, **named: Any) -> None:
        self.asked.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.free.wait()
        await self._store.begin_run(*values, **named)


# --- watching


async def test_who_watches_a_task_gets_it_first_and_then_what_remains(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        working = await _working(a2a)
        async with a2a.stream("SubscribeToTask", {"id": working["id"]}) as one:
            async with a2a.stream("SubscribeToTask", {"id": working["id"]}) as left:
                await _first(left, 1)
            async with a2a.stream("tasks/resubscribe", {"id": working["id"]}) as other:
                (first,) = await _first(one, 1)
                await _first(other, 1)
                await a2a.call("CancelTask", {"id": working["id"]})
                rest, others = results(await one.rest()), results(await other.rest())
    assert (first["task"]["id"], state_of(first["task"])) == (working["id"], "WORKING")
    assert state_of(rest[-1]["statusUpdate"]) == "CANCELED"
    assert (others[0]["kind"], others[-1]["status"]["state"]) == ("task", "canceled")


async def test_who_watches_a_task_that_waits_sees_it_go_on(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, server={"heartbeat_seconds": 600}) as a2a:  # it looks again with each of these
        waiting = await waiting_task(a2a)
        async with a2a.stream("SubscribeToTask", {"id": waiting["id"]}) as stream:
            (first,) = await _first(stream, 1)
            assert state_of(first["task"]) == "INPUT_REQUIRED"
            await a2a.call("SendMessage", said("approve", taskId=waiting["id"]))
            frames = results(await stream.rest())
    assert state_of(frames[1]["statusUpdate"]) == "WORKING"
    assert state_of(frames[-1]["statusUpdate"]) == "COMPLETED"


async def test_who_watches_a_task_that_waits_sees_it_canceled(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        async with a2a.stream("SubscribeToTask", {"id": waiting["id"]}) as stream:
            await _first(stream, 1)
            await a2a.call("CancelTask", {"id": waiting["id"]})
            frames = results(await stream.rest())
    assert state_of(frames[-1]["statusUpdate"]) == "CANCELED"


async def test_a_task_that_has_ended_cannot_be_watched(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        ended = (await a2a.call("SendMessage", said("hello")))["task"]
        error = await a2a.error("SubscribeToTask", {"id": ended["id"]})
    assert error["code"] == -32004


async def test_a_message_to_a_task_may_be_streamed_and_shows_what_was_before(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
        frames = await a2a.frames("SendStreamingMessage", said("approve", taskId=waiting["id"]))
    assert frames[0]["task"]["id"] == waiting["id"]
    assert len(frames[0]["task"]["history"]) == 3
    assert state_of(frames[-1]["statusUpdate"]) == "COMPLETED"


async def test_a_task_whose_log_is_gone_is_read_from_its_thread(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path, AGENTS) as a2a:
        done = (await a2a.call("SendMessage", said("hello")))["task"]
        store = a2a.gateway.application.store
        assert await store.remove_logs(finished_before=2**40) == 1
        task = await a2a.task(done["id"])
    assert (state_of(task), words_of(task), task["history"]) == ("COMPLETED", "I heard: hello", done["history"])


async def test_a_message_too_large_for_its_run_s_record_is_shown_whole(tmp_path: Path) -> None:
    words = "word " * 30_000
    async with a2a_gateway(tmp_path) as a2a:
        working = await _working(a2a)
        waits = said(words, configuration={"blocking": False}, contextId=working["contextId"])
        task = await a2a.call("message/send", waits)
        assert state_of(task) == "submitted"
        await a2a.call("CancelTask", {"id": working["id"]})
        ended = await a2a.until(task["id"], "COMPLETED")
    assert ended["history"][0]["parts"] == [{"text": words}]


async def test_a_run_s_record_keeps_nothing_large_of_a_message(tmp_path: Path) -> None:
    words, own = "word " * 30_000, {"large": "x" * 70_000}
    async with a2a_gateway(tmp_path) as a2a:
        tools = {"tools": [{"name": "get_weather", "parameters": {"type": "object"}}]}
        asking = said("weather", metadata=tools)
        asked = (await a2a.call("SendMessage", asking, to=of_agent("weather")))["task"]
        assert state_of(asked) == "INPUT_REQUIRED"
        (call_id,) = [part["data"]["tool_call_id"] for part in asked["status"]["message"]["parts"] if "data" in part]
        output = {"tool_call_id": call_id, "output": words}
        answer = sent([{"data": output}], taskId=asked["id"], metadata=own)
        task = (await a2a.call("SendMessage", answer))["task"]
        record = await a2a.gateway.application.store.load_run("local", f"{asked['id']}_2")
        small = (await a2a.call("SendMessage", sent([{"data": {"a": 1}}], metadata=own)))["task"]["history"][0]
    assert task["history"][-1]["parts"] == [{"data": output, "mediaType": "application/json"}]
    assert record is not None
    assert len(str(record.request)) < 1_000
    assert (small["parts"], "metadata" in small) == ([{"data": {"a": 1}}], False), "only what is large is left out"


async def test_a_task_that_waits_for_its_turn_is_canceled_at_once(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        working = await _working(a2a)
        more = said("then", configuration=AT_ONCE, contextId=working["contextId"])
        queued = (await a2a.call("SendMessage", more))["task"]
        assert state_of(await a2a.call("CancelTask", {"id": queued["id"]})) == "CANCELED"
        assert state_of(await a2a.task(working["id"])) == "WORKING"
        await a2a.call("CancelTask", {"id": working["id"]})


# --- an agent that was removed


async def test_a_removed_agent_s_url_still_serves_its_tasks_but_begins_none(tmp_path: Path) -> None:
    mine, held = of_agent("mine"), asyncio.Event()
    async with chat_server() as models:
        models.answers(Script(hold=held))
        callers = {"endpoints": [rf"^http://127\.0\.0\.1:{models.port}/.*$"], "private_addresses": True}
        async with a2a_gateway(tmp_path, callers=callers) as a2a:
            model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": models.endpoint}
            body = {"model": {**model, "credential": {"openai_api_key": "sk-mine"}}}
            assert (await a2a.http.put("/agents/mine", json=body)).status_code == 201
            begun = (await a2a.call("SendMessage", said("go", configuration=AT_ONCE), to=mine))["task"]
            elsewhere = (await a2a.call("SendMessage", said("hello")))["task"]
            await models.received()
            assert (await a2a.http.delete("/agents/mine")).status_code == 204
            got = await a2a.call("GetTask", {"id": begun["id"]}, to=mine)
            listed = await a2a.call("ListTasks", {}, to=mine)
            refused = [
                await a2a.error(method, params, to=mine)
                for method, params in (
                    ("SendMessage", said("hello")),
                    ("GetExtendedAgentCard", {}),
                    ("GetTask", {"id": elsewhere["id"]}),
                )
            ]
            async with a2a.stream("SubscribeToTask", {"id": begun["id"]}, to=mine) as stream:
                (first,) = await _first(stream, 1)
                canceled = await a2a.call("CancelTask", {"id": begun["id"]}, to=mine)
                last = results(await stream.rest())[-1]
            held.set()
    assert [task["id"] for task in (got, *listed["tasks"], first["task"], canceled)] == [begun["id"]] * 4
    assert state_of(canceled) == state_of(last["statusUpdate"]) == "CANCELED"
    assert {error["data"][0]["reason"] for error in refused} == {"AGENT_NOT_FOUND"}


async def test_a_task_that_waits_can_be_canceled_at_the_url_of_its_agent_that_has_left_the_file(tmp_path: Path) -> None:
    async with a2a_gateway(tmp_path) as a2a:
        waiting = await waiting_task(a2a)
    async with a2a_gateway(tmp_path, [WORDS]) as a2a:
        got = await a2a.call("GetTask", {"id": waiting["id"]}, to=of_agent("refunder"))
        canceled = await a2a.call("CancelTask", {"id": waiting["id"]}, to=of_agent("refunder"))
        await until_nothing_is_asked(a2a, waiting["contextId"])
    assert state_of(got) == "INPUT_REQUIRED"
    assert state_of(canceled) == "CANCELED"
