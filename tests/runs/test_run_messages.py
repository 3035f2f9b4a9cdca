"""What a run was given and what it said, read from its thread: also long after its log is gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.agent import InterruptAnswer
from gateway.errors import NotFoundError
from gateway.events import Interrupted, RunFinished, TextDelta
from gateway.frozen import replace
from gateway.messages import Message, TextBlock, ToolResult, ToolSpec
from gateway.runs.thread_points import RunMessages, message_runs
from tests.agent_inputs import agent_input
from tests.loop_runs import adder, user
from tests.runner_scene import HANGS, OWNER, Scene, agent_of, end_of, question, read, read_until, runner_scene
from tests.waiting import until

ECHO: list[list[dict[str, Any]]] = [[{"text": "I heard: {{user}}"}]]
ADD: dict[str, Any] = {"tool": "add", "arguments": {"a": 1, "b": 2}}


async def ask(scene: Scene, run_id: str, text: str = "", agent_id: str = "a", **more: Any) -> None:
    await scene.clock.advance(1)
    given = question(text or f"question {run_id}", run_id=run_id, **{"history": "append", **more})
    await read(await scene.start(agent_id, given))
    await scene.until_idle()
    await scene.clock.advance(1)


async def of(scene: Scene, run_id: str) -> RunMessages:
    return await scene.runner.run_messages(OWNER, run_id)


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text or message.role for message in messages]


async def thread_messages(scene: Scene) -> tuple[Message, ...]:
    thread = await scene.store.load_thread(OWNER, "t")
    assert thread is not None
    messages: tuple[Message, ...] = thread.messages
    return messages


@pytest.mark.parametrize("log_is_gone", [False, True])
async def test_each_run_of_a_thread_has_its_own(log_is_gone: bool) -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        for run_id in ("r1", "r2", "r3"):
            await ask(scene, run_id)
        if log_is_gone:
            assert await scene.store.remove_logs(finished_before=scene.clock.now() + 1) == 3
        whole = await thread_messages(scene)
        for number in (1, 2, 3):
            last = 2 * number
            found = await of(scene, f"r{number}")
            assert found == RunMessages(whole[: last - 2], whole[last - 2 : last - 1], whole[last - 1 : last])


async def test_calls_their_results_and_the_answer_are_what_a_run_produced() -> None:
    async with runner_scene(agent_of("a", [[ADD], [{"text": "3"}]], (adder(), "never"))) as scene:
        await ask(scene, "r1")
        assert said((await of(scene, "r1")).produced) == ["assistant", "tool", "3"]


async def test_an_approved_call_belongs_to_the_run_that_carried_it_out() -> None:
    async with runner_scene(agent_of("a", [[ADD], [{"text": "3"}]], (adder(), "always"))) as scene:
        events = await read(await scene.start("a", question(run_id="r1", history="append")))
        await scene.until_idle()
        await scene.clock.advance(1)
        end = end_of(events)
        assert isinstance(end, RunFinished)
        assert isinstance(end.outcome, Interrupted)
        answers = tuple(InterruptAnswer(each.id, "resolved", approved=True) for each in end.outcome.interrupts)
        await ask(scene, "r2", "by the way", answers=answers)
        assert said((await of(scene, "r1")).produced) == ["assistant"]
        second = await of(scene, "r2")
        assert (said(second.given), said(second.produced)) == (["by the way"], ["tool", "assistant"])


async def test_a_clients_result_is_what_the_next_run_was_given() -> None:
    pick = ToolSpec("pick", "Pick.", {"type": "object"})
    async with runner_scene(agent_of("a", [[{"tool": "pick", "id": "c1"}], [{"text": "done"}]])) as scene:
        await ask(scene, "r1", tools=(pick,))
        result = Message("o", "tool", (ToolResult("c1", (TextBlock("red"),)),))
        await scene.clock.advance(1)
        await read(await scene.start("a", agent_input("t", "r2", (result,), tools=(pick,), history="append")))
        await scene.until_idle()
        found = await of(scene, "r2")
        assert (found.given, said(found.produced)) == ((result,), ["done"])


async def test_an_edit_changes_nothing_of_the_runs_before_it() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        await ask(scene, "r2")
        before, whole = await of(scene, "r2"), await thread_messages(scene)
        edited = (*whole[:2], user("instead", "u3"))
        await scene.clock.advance(1)
        await read(await scene.start("a", agent_input("t", "r3", edited, history="replace")))
        await scene.until_idle()
        assert await of(scene, "r2") == before
        third = await of(scene, "r3")
        assert (said(third.before), said(third.given)) == (said(whole[:2]), ["instead"])
        head = await scene.runner.thread_head(OWNER, "t")
        assert head is not None
        assert (head.last_run_id, head.messages) == ("r3", tuple(await thread_messages(scene)))
        await scene.runner.versions.select(OWNER, "t", 1)
        head = await scene.runner.thread_head(OWNER, "t")
        assert head is not None
        assert (head.last_run_id, head.messages) == ("r2", tuple(whole))
        assert await of(scene, "r3") == third


async def test_a_thread_that_began_as_a_fork_counts_what_it_began_with_as_before() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        point = (await scene.runner.run(OWNER, "r1")).end
        await ask(scene, "f1", thread_id="fork", begins_from=point)
        found = await of(scene, "f1")
        assert (said(found.given), said(found.produced)) == (["question f1"], ["I heard: question f1"])
        assert found.before == await thread_messages(scene)


async def test_each_message_of_a_thread_says_which_run_brought_it() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        for number in range(1, 4):
            await ask(scene, f"r{number}")
        point = (await scene.runner.run(OWNER, "r2")).end
        await ask(scene, "f1", thread_id="fork", begins_from=point)
        await scene.runner.writes.append(OWNER, agent_input("t", "", (user("without a run", "u9"),)))
        by_run = [f"r{number}" for number in (1, 1, 2, 2, 3, 3)]
        assert await message_runs(scene.store, OWNER, "t") == [*by_run, None]
        assert await message_runs(scene.store, OWNER, "fork") == [None] * 4 + ["f1"] * 2
        assert await message_runs(scene.store, OWNER, "unknown") == []


async def test_what_the_thread_hid_from_a_run_was_not_before_it() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        await ask(scene, "r2")
        for number in (3, 4):  # a client that sends the latest exchange alone
            sent = (*(await thread_messages(scene))[-2:], user(f"question r{number}", f"u{number}"))
            await read(await scene.start("a", agent_input("t", f"r{number}", sent, history="replace")))
            await scene.until_idle()
            await scene.clock.advance(1)
        third, fourth = await of(scene, "r3"), await of(scene, "r4")
        assert said(third.before) == ["question r2", "I heard: question r2"]
        assert said(fourth.before) == ["question r3", "I heard: question r3"]
        assert said(fourth.given) == ["question r4"]


async def test_a_message_that_somebody_changes_stays_the_runs() -> None:
    """With other metadata, or less in it: no version is made of that."""

    def noted(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return tuple(replace(message, metadata={"note": number}) for number, message in enumerate(messages))

    def shorter(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        return (*messages[:1], replace(messages[1], content=(TextBlock("I heard"),)), *messages[2:])

    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        await ask(scene, "r2")
        await scene.runner.writes.edit(OWNER, "t", noted)
        await scene.clock.advance(1)
        await scene.runner.writes.leave(OWNER, "t", shorter)
        whole = await thread_messages(scene)
        assert await of(scene, "r1") == RunMessages((), whole[:1], whole[1:2])
        assert await of(scene, "r2") == RunMessages(whole[:2], whole[2:3], whole[3:])
        assert said(whole[1:2]) == ["I heard"]


async def test_a_run_under_way_has_said_what_came_so_far() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        viewer = await scene.start("a", question(run_id="r1"))
        await read_until(viewer, TextDelta)
        await until(lambda: scene.runner._runs[OWNER, "r1"].fold.messages[-1:] != ())
        found = await of(scene, "r1")
        assert (said(found.given), found.produced[-1].role) == (["hi"], "assistant")


async def test_a_cancelled_run_has_what_it_was_given() -> None:
    async with runner_scene(agent_of("a", HANGS)) as scene:
        viewer = await scene.start("a", question("one", run_id="r1", history="append"))
        await scene.clock.advance(1)
        await scene.runner.cancel(OWNER, "r1")
        await read(viewer)
        await scene.until_idle()
        assert said((await of(scene, "r1")).given) == ["one"]


async def test_a_run_that_is_cancelled_while_it_waits_has_what_it_was_given_once_its_turn_has_come() -> None:
    async with runner_scene(agent_of("a", HANGS, on_concurrent_run="enqueue")) as scene:
        running = await scene.start("a", question("one", run_id="r1", history="append"))
        await scene.clock.advance(1)
        waiting = await scene.start("a", question("two", run_id="r2", history="append"))
        assert await of(scene, "r2") == RunMessages()
        await scene.runner.cancel(OWNER, "r2")
        await read(waiting)
        assert await of(scene, "r2") == RunMessages()
        await scene.clock.advance(1)
        scene.store.reached["begin_run"].clear()
        scene.store.hold("begin_run")
        await scene.runner.cancel(OWNER, "r1")
        await read(running)
        await scene.store.reached["begin_run"].wait()
        await scene.clock.advance(1)
        scene.store.release("begin_run")
        await scene.until_idle()
        found = await of(scene, "r2")
        assert (said(found.before[:1]), said(found.given), found.produced) == (["one"], ["two"], ())


async def test_a_failed_run_has_what_it_was_given_and_said() -> None:
    async with runner_scene(agent_of("a", [[{"text": "I am"}, {"error": "invalid"}]])) as scene:
        await ask(scene, "r1")
        found = await of(scene, "r1")
        assert (said(found.given), said(found.produced)) == (["question r1"], ["I am"])


async def test_what_was_taken_out_of_the_thread_is_not_there() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        await ask(scene, "r2")
        whole = await thread_messages(scene)
        await scene.runner.writes.remove(OWNER, "t", [whole[1].id])
        assert (await of(scene, "r1")).produced == ()
        await scene.runner.writes.remove(OWNER, "t", [whole[0].id])
        assert await of(scene, "r1") == RunMessages()
        assert said((await of(scene, "r2")).produced) == ["I heard: question r2"]


async def test_a_version_that_was_deleted_is_not_there() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        await ask(scene, "r2")
        edited = ((await thread_messages(scene))[0], user("instead", "u3"))
        await read(await scene.start("a", agent_input("t", "r3", edited, history="replace")))
        await scene.until_idle()
        await scene.runner.versions.delete(OWNER, "t", 1)
        with pytest.raises(NotFoundError) as caught:
            await of(scene, "r1")
        assert caught.value.code == "version_not_found"


async def test_a_log_that_is_gone_is_said_to_be_gone_where_it_is_needed() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await ask(scene, "r1")
        viewer = await scene.runner.attach(OWNER, "r1", after=0, needs_log=True)
        assert viewer is not None
        viewer.close()
        await scene.store.remove_logs(finished_before=scene.clock.now() + 1)
        assert await scene.runner.attach(OWNER, "r1", after=0) is None
        for after in (0, 3):
            with pytest.raises(NotFoundError) as caught:
                await scene.runner.attach(OWNER, "r1", after=after, needs_log=True)
            assert caught.value.code == "log_expired"


async def test_nobody_knows_of_a_run_that_there_is_not() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        with pytest.raises(NotFoundError):
            await of(scene, "unknown")
        assert await scene.runner.thread_head(OWNER, "unknown") is None
        await ask(scene, "r1")
        with pytest.raises(NotFoundError):
            await scene.runner.run_messages("somebody else", "r1")
