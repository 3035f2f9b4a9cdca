"""What the store has of runs that wait for their turn, and what the next process makes of it."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gateway.agent import AgentInput, InterruptAnswer, ThreadPoint
from gateway.agents.open_agent import OpenAgent
from gateway.events import (
    Cancelled,
    Interrupt,
    Interrupted,
    OpenInterrupt,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
)
from gateway.frozen import replace
from gateway.history.recognition import common_beginning
from gateway.messages import JsonObject, Message, TextBlock, ToolCall, ToolResult, answered_calls
from gateway.protocol.input_cache import known_and_new
from gateway.runs.endings import input_digest
from gateway.store import RunRecord, RunStatus, Thread
from gateway.tool import ToolContext
from tests.agent_inputs import agent_input, changed
from tests.collected_words import CollectedWords, documented
from tests.loop_runs import FunctionTool
from tests.runner_scene import (
    HANGS,
    OWNER,
    SAYS_HELLO,
    BrokenToolbox,
    Scene,
    agent_of,
    end_of,
    question,
    read,
    read_until,
    runner_scene,
)
from tests.waiting import until


def enqueues() -> OpenAgent:
    return agent_of("a", HANGS, on_concurrent_run="enqueue", history="append")


def user(text: str, message_id: str = "") -> Message:
    return Message(message_id or f"user-{text}", "user", (TextBlock(text),))


async def waiting(scene: Scene) -> dict[str, list[str]]:
    """What waits in the store, by the runs."""
    return {record.run_id: [each.text for each in said] for record, said in await scene.store.waiting_runs()}


async def texts(scene: Scene) -> list[str]:
    thread = await scene.store.load_thread(OWNER, "t")
    return [] if thread is None else [message.text for message in thread.messages]


async def begin(scene: Scene) -> None:
    """A run at work, which hangs."""
    await read_until(await scene.start("a", question("first", run_id="first")), TextDelta)


# --- while it waits


async def test_a_message_waits_in_the_store_and_comes_into_its_thread_once_with_its_turn() -> None:
    async with runner_scene(enqueues()) as scene:
        await begin(scene)
        viewer = await scene.start("a", question("second", run_id="second"))
        assert await waiting(scene) == {"second": ["second"]}
        assert await texts(scene) == ["first"]
        await scene.runner.cancel(OWNER, "first")
        await read_until(viewer, TextDelta)
        assert await waiting(scene) == {}
        assert (await texts(scene)).count("second") == 1


async def test_a_run_that_does_not_wait_is_stored_by_its_begin_alone() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO, on_concurrent_run="enqueue")) as scene:
        for run_id in ("one", "two"):
            await read(await scene.start("a", question(run_id=run_id, history="append")))
            await scene.until_idle()
        assert not scene.store.reached["queue_run"].is_set()


async def test_of_a_whole_history_only_the_users_new_messages_wait() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await begin(scene)
        answer = Message("somebody", "assistant", (TextBlock("I never said that"),))
        told = Message("told", "tool", (ToolResult("c1", (TextBlock("42"),)),))
        sent = [user("first", "user-first"), answer, told, Message("rules", "system", (TextBlock("be kind"),))]
        for text in ("second", "third"):
            sent.append(user(text))
            await scene.start("a", changed(question(run_id=text), messages=tuple(sent)))
        assert await waiting(scene) == {"second": ["second"], "third": ["third"]}


async def test_answers_and_results_do_not_wait_in_the_store() -> None:
    async with runner_scene(enqueues()) as scene:
        await begin(scene)
        result = Message("r1", "tool", (ToolResult("c1", (TextBlock("refunded"),)),))
        yes = InterruptAnswer("i1", "resolved", approved=True)
        given = question("second", run_id="second", answers=(yes,))
        await scene.start("a", changed(given, messages=(result, *given.sent.messages)))
        await scene.start("a", changed(given, run_id="third", messages=(result,)))
        assert await waiting(scene) == {"second": ["second"], "third": []}


async def test_what_a_client_sends_again_without_ids_does_not_wait_twice() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        await begin(scene)
        sent = [user("first", "new-1"), Message("new-2", "assistant", (TextBlock("one two three "),))]
        for text in ("second", "third"):
            sent = [replace(each, id=f"{each.id} again") for each in sent]
            sent.append(user(text, f"new-{text}"))
            recognise = partial(known_and_new, beginning=common_beginning)
            given = changed(question(run_id=text), messages=tuple(sent), recognition=recognise)
            await scene.start("a", given)
        assert await waiting(scene) == {"second": ["second"], "third": ["third"]}


async def test_behind_a_run_that_has_not_read_its_thread_only_what_is_new_waits() -> None:
    box = BrokenToolbox()
    async with runner_scene(agent_of("a", SAYS_HELLO, box, on_concurrent_run="enqueue")) as scene:
        await read(await scene.start("a", question("before", run_id="before")))
        await scene.until_idle()
        box.waits = asyncio.Event()
        box.asked.clear()
        begins = asyncio.create_task(scene.start("a", question("first", run_id="first", history="append")))
        await until(box.asked.is_set)
        sent = (user("before", "user-before"), user("second"))
        await scene.start("a", changed(question(run_id="second"), messages=sent))
        assert await waiting(scene) == {"second": ["second"]}
        box.waits.set()
        await begins


async def behind_a_run_that_begins(*given: AgentInput) -> list[tuple[RunRecord, tuple[Message, ...]]]:
    """What the store has of these, which wait behind a run whose begin is not stored: a process that is killed now
    leaves nothing else.
    """
    box = BrokenToolbox()
    box.waits = asyncio.Event()
    async with runner_scene(agent_of("a", SAYS_HELLO, box, on_concurrent_run="enqueue")) as scene:
        first = changed(question("first", run_id="first"), messages=(user("first", "sent-1"),))
        begins = asyncio.create_task(scene.start("a", first))
        await until(box.asked.is_set)
        for each in given:
            await scene.start("a", each)
        left: list[tuple[RunRecord, tuple[Message, ...]]] = await scene.store.waiting_runs()
        box.waits.set()
        await begins
        return left


def without_ids(run_id: str, *said: str, **more: object) -> AgentInput:
    """A whole history of a client that has no ids for it."""
    messages = tuple([user(text, f"{run_id}-{number}") for number, text in enumerate(said)])
    given = changed(question(run_id=run_id), messages=messages, minted_ids=frozenset([m.id for m in messages]))
    return changed(given, recognition=partial(known_and_new, beginning=common_beginning), **more)


async def test_what_waited_with_a_run_that_fails_as_it_begins_stands_in_its_thread() -> None:
    box = BrokenToolbox()
    async with runner_scene(agent_of("a", HANGS, box, on_concurrent_run="enqueue", history="append")) as scene:
        await begin(scene)
        viewer = await scene.start("a", question("second", run_id="second"))
        box.broken = True
        await scene.runner.cancel(OWNER, "first")
        assert isinstance(end_of(await read(viewer)), RunFailed)
        await scene.until_idle()
        assert (await texts(scene))[-1] == "second"
        assert await waiting(scene) == {}


# --- in the next process


def record(run_id: str, status: RunStatus = RunStatus.QUEUED, **more: object) -> RunRecord:
    return replace(RunRecord(OWNER, run_id, "t", "a", status, 1.0), **more)  # type: ignore[arg-type]


def thread(*messages: Message, **more: object) -> Thread:
    return replace(Thread(OWNER, "t", "a", 1.0, 1.0, messages=messages), **more)  # type: ignore[arg-type]


async def test_what_waited_stands_behind_what_was_under_way_in_the_order_of_the_queue() -> None:
    async with runner_scene(enqueues()) as scene:
        await scene.store.queue_run(record("second"), [user("second")])
        under_way = record("first", RunStatus.RUNNING, started_at=1.0)
        await scene.store.begin_run(under_way, thread(user("first"), title="A title", last_run_id="first"), keep=0)
        await scene.store.queue_run(record("third"), [user("third"), user("and more")])
        await scene.runner.driver.recover()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert [each.text for each in kept.messages] == ["first", "second", "third", "and more"]
        assert (kept.title, kept.version, kept.last_version, kept.last_run_id) == ("A title", 1, 1, "third")
        for run_id, length in (("first", 1), ("second", 2), ("third", 4)):
            run = await scene.runner.run(OWNER, run_id)
            assert (run.status, run.error_code, run.thread_length) == (RunStatus.FAILED, "server_restarted", length)
            assert len(await scene.kept_events(run_id)) == 2
        before = kept
        await scene.runner.driver.recover()
        assert await scene.store.load_thread(OWNER, "t") == before, "once"


async def test_a_thread_that_was_not_there_yet_begins_with_what_waited() -> None:
    async with runner_scene(enqueues()) as scene:
        await scene.store.queue_run(record("only"), [user("hello")])
        await scene.runner.driver.recover()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert (kept.title, [each.text for each in kept.messages]) == ("hello", ["hello"])


async def test_what_waited_is_not_added_to_a_thread_that_has_it() -> None:
    async with runner_scene(enqueues()) as scene:
        await scene.store.create_thread(thread(user("one")), {})
        await scene.store.queue_run(record("r"), [user("one"), user("two")])
        await scene.runner.driver.recover()
        assert await texts(scene) == ["one", "two"]


@pytest.mark.parametrize("status", [RunStatus.CANCELLED, RunStatus.FAILED])
async def test_a_run_that_had_left_the_queue_keeps_its_end(status: RunStatus) -> None:
    async with runner_scene(enqueues()) as scene:
        await scene.store.create_thread(thread(user("one")), {})
        await scene.store.queue_run(record("r"), [user("two")])
        code = "server_shutdown" if status is RunStatus.FAILED else None
        await scene.store.queue_run(record("r", status, finished_at=2.0, error_code=code))
        await scene.runner.driver.recover()
        assert await texts(scene) == ["one", "two"]
        run = await scene.runner.run(OWNER, "r")
        assert (run.status, run.error_code) == (status, code)
        started, end = await scene.kept_events("r")
        assert started == RunStarted("t", "r")
        assert end == RunFailed("server_shutdown", "") if code else RunFinished(Cancelled())


async def test_a_thread_for_who_asks_for_no_memory_stays_hidden_and_expires() -> None:
    async with runner_scene(enqueues()) as scene:
        hidden = thread(user("one"), listed=False, hidden=True, expires_at=scene.clock.now() + 3600)
        await scene.store.create_thread(hidden, {})
        await scene.store.queue_run(record("r"), [user("two")])
        await scene.runner.driver.recover()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert (kept.listed, kept.hidden, len(kept.messages)) == (False, True, 2)
        await scene.clock.advance(3601)
        assert await scene.runner.delete_expired() == 1


async def test_a_thread_of_which_nothing_was_stored_begins_as_the_run_would_have_begun_it() -> None:
    given = changed(question("second", run_id="second"), collection="c1", short_lived=True)
    left = await behind_a_run_that_begins(given)
    async with runner_scene(enqueues(), thread_documents=CollectedWords()) as scene:
        for each in left:
            await scene.store.queue_run(*each)
        await scene.runner.driver.recover()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert [each.text for each in kept.messages] == ["second"]
        assert (kept.collection, kept.hidden, kept.listed) == ("c1", True, False)
        assert await documented(scene.store, "t", OWNER) == [(0, "second")]
        await scene.clock.advance(3601)
        assert await scene.runner.delete_expired() == 1


@pytest.mark.parametrize("status", [RunStatus.QUEUED, RunStatus.CANCELLED])
async def test_a_thread_of_which_nothing_was_stored_begins_as_the_fork_that_it_is(status: RunStatus) -> None:
    async with runner_scene(enqueues()) as scene:
        await scene.store.create_thread(thread(user("one"), user("two"), thread_id="before"), {})
        point = ThreadPoint("before", 1, 1, "user-one")
        given = changed(question("second", run_id="second", thread_id="t"), begins_from=point)
        ((waits, said),) = await behind_a_run_that_begins(given)
        await scene.store.queue_run(waits, said)
        if status.ended:
            await scene.store.queue_run(replace(waits, status=status, finished_at=scene.clock.now()))
        await scene.clock.advance(1)
        await scene.runner.driver.recover()
        assert await texts(scene) == ["one", "second"]
        run = await scene.runner.run(OWNER, "second")
        assert (run.status, run.thread_length) == (status if status.ended else RunStatus.FAILED, 2)
        assert run.finished_at == scene.clock.now() - status.ended
        assert len(await scene.kept_events("second")) == 2
        assert await scene.store.waiting_runs() == []


async def test_what_a_thread_was_to_begin_from_may_be_gone() -> None:
    given = changed(question("second", run_id="second"), begins_from=ThreadPoint("before", 1, 1, "user-one"))
    ((waits, said),) = await behind_a_run_that_begins(given)
    async with runner_scene(enqueues()) as scene:
        await scene.store.queue_run(waits, said)
        await scene.runner.driver.recover()
        assert await texts(scene) == ["second"]


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_history_without_ids_stands_once_whether_the_run_in_front_stored_it_or_not(is_stored: bool) -> None:
    left = await behind_a_run_that_begins(
        without_ids("second", "first", "second"), without_ids("third", "first", "second", "third")
    )
    async with runner_scene(enqueues()) as scene:
        if is_stored:
            under_way = record("first", RunStatus.RUNNING, started_at=1.0)
            await scene.store.begin_run(under_way, thread(user("first", "sent-1"), last_run_id="first"), keep=0)
        for each in left:
            await scene.store.queue_run(*each)
        await scene.runner.driver.recover()
        assert await texts(scene) == ["first", "second", "third"]


async def test_the_same_words_again_are_new_where_a_history_without_ids_has_them_twice() -> None:
    left = await behind_a_run_that_begins(without_ids("second", "first", "first"))
    async with runner_scene(enqueues()) as scene:
        under_way = record("first", RunStatus.RUNNING, started_at=1.0)
        await scene.store.begin_run(under_way, thread(user("first", "sent-1"), last_run_id="first"), keep=0)
        for each in left:
            await scene.store.queue_run(*each)
        await scene.runner.driver.recover()
        assert await texts(scene) == ["first", "first"]


async def test_a_question_stays_open_behind_which_a_message_waited() -> None:
    async with runner_scene(enqueues()) as scene:
        call = ToolCall("c1", "refund", "{}")
        asks = Message("m1", "assistant", (call,), turn_id="turn-1")
        asked = OpenInterrupt(Interrupt("i1", "tool_call", "Refund?", "c1"), call, "approval-1", "a", 1.0)
        await scene.store.create_thread(thread(user("one"), asks, interrupts=(asked,), paused=True), {})
        await scene.store.queue_run(record("r"), [user("two")])
        await scene.runner.driver.recover()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert (kept.messages[-1].text, kept.interrupts, kept.paused) == ("two", (asked,), True)


async def test_a_result_that_waited_is_taken_in_when_its_request_comes_again() -> None:
    async with runner_scene(agent_of("a", SAYS_HELLO)) as scene:
        asks = Message("m1", "assistant", (ToolCall("c1", "pick", "{}"),), turn_id="turn-1")
        await scene.store.create_thread(thread(user("one"), asks), {})
        told = Message("told", "tool", (ToolResult("c1", (TextBlock("red"),)),))
        given = agent_input("t", "again", (told, user("two")), history="append")
        await scene.store.queue_run(record("r", input_digest=input_digest(given)), [user("two")])
        await scene.runner.driver.recover()
        await read(await scene.start("a", given))
        await scene.until_idle()
        kept = await scene.store.load_thread(OWNER, "t")
        assert kept is not None
        assert answered_calls(kept.messages) == {"c1"}
        assert [each.text for each in kept.messages].count("two") == 1


async def test_an_answer_that_waited_is_applied_when_its_request_comes_again() -> None:
    ran: list[str] = []

    async def refund(arguments: JsonObject, context: ToolContext) -> str:
        ran.append(context.call_id)
        return "refunded"

    asks = [[{"tool": "refund", "id": "c1"}], [{"text": "done"}]]
    async with runner_scene(agent_of("a", asks, (FunctionTool("refund", refund), "always"))) as scene:
        asked = end_of(await read(await scene.start("a", question("one", run_id="one"))))
        assert isinstance(asked, RunFinished)
        assert isinstance(asked.outcome, Interrupted)
        yes = InterruptAnswer(asked.outcome.interrupts[0].id, "resolved", approved=True)
        given = question("two", run_id="again", answers=(yes,), history="append")
        await scene.until_idle()
        await scene.store.queue_run(record("r", input_digest=input_digest(given)), given.sent.messages)
        await scene.runner.driver.recover()
        assert ran == []
        await read(await scene.start("a", given))
        assert len(ran) == 1


async def test_what_waits_goes_with_its_thread() -> None:
    async with runner_scene(enqueues()) as scene:
        await begin(scene)
        viewer = await scene.start("a", question("second", run_id="second"))
        await scene.runner.delete_thread(OWNER, "t")
        end_of(await read(viewer))
        await scene.until_idle()
        assert await waiting(scene) == {}
        assert await texts(scene) == []
