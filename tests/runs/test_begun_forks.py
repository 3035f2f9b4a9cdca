"""A request that goes on from where an earlier run left its thread, on a thread of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.agent import AgentInput, InputThread, ThreadPoint
from gateway.errors import ConflictError, GatewayError, NotFoundError, StoreError, TooLargeError
from gateway.frozen import replace
from gateway.messages import Message
from gateway.runs.limits import RunLimits
from gateway.store import LEAST_LIFE_SECONDS, Thread
from tests.agent_inputs import agent_input, changed
from tests.loop_runs import user
from tests.runner_scene import HANGS, OWNER, Scene, agent_of, question, read, runner_scene

ECHO: list[list[dict[str, Any]]] = [[{"text": "I heard: {{user}}"}]]


async def talked(scene: Scene, *words: str) -> list[ThreadPoint]:
    """Runs r1, r2, ... on the thread t, and where each left it."""
    points = []
    for number, text in enumerate(words, 1):
        await read(await scene.start("a", question(text, run_id=f"r{number}", history="append", state={"n": number})))
        await scene.until_idle()
        await scene.clock.advance(1)
        end = (await scene.runner.run(OWNER, f"r{number}")).end
        assert end is not None
        points.append(end)
    return points


def onward(point: ThreadPoint, text: str = "and now?", **more: Any) -> AgentInput:
    return question(text, **{"thread_id": "fork", "run_id": "f1", "history": "append", "begins_from": point, **more})


async def thread_of(scene: Scene, thread_id: str) -> Thread:
    await scene.until_idle()
    thread: Thread | None = await scene.store.load_thread(OWNER, thread_id)
    assert thread is not None
    return thread


def texts(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages]


async def test_it_has_what_was_said_up_to_there_and_the_thread_stays_as_it_is() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one", "two")
        before = await thread_of(scene, "t")
        await read(await scene.start("a", onward(points[0])))
        fork = await thread_of(scene, "fork")
        assert texts(fork.messages) == ["one", "I heard: one", "and now?", "I heard: and now?"]
        assert fork.messages[:2] == before.messages[:2]
        assert (fork.title, fork.state, fork.last_run_id, fork.listed) == (before.title, {"n": 2}, "f1", True)
        assert await thread_of(scene, "t") == before


async def test_the_thread_goes_on_as_any_other_and_outlives_the_one_that_it_came_from() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one")
        await read(await scene.start("a", onward(points[0])))
        await scene.until_idle()
        await scene.runner.delete_thread(OWNER, "t")
        await read(await scene.start("a", onward(points[0], "more", run_id="f2")))
        assert texts((await thread_of(scene, "fork")).messages)[-2:] == ["more", "I heard: more"]


async def test_the_same_request_again_finds_its_run() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one")
        first = await read(await scene.start("a", onward(points[0])))
        assert await read(await scene.start("a", onward(points[0]))) == first
        assert len((await thread_of(scene, "fork")).messages) == 4


async def test_a_version_that_is_not_current_any_more_is_gone_on_from_too() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one", "two")
        thread = await thread_of(scene, "t")
        edited = (*thread.messages[:2], user("three", "u3"))
        await read(await scene.start("a", agent_input("t", "r3", edited, history="replace")))
        assert (await thread_of(scene, "t")).version == 2
        await read(await scene.start("a", onward(points[1])))
        assert texts((await thread_of(scene, "fork")).messages)[:4] == ["one", "I heard: one", "two", "I heard: two"]


@pytest.mark.parametrize(
    ("run_id", "said"),
    [
        ("r3", ["two", "I heard: two", "more 3", "I heard: more 3"]),
        ("r4", ["more 3", "I heard: more 3", "more 4", "I heard: more 4"]),
    ],
)
async def test_what_the_thread_showed_when_the_run_ended_counts_though_it_hides_it_by_now(
    run_id: str, said: list[str]
) -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        await talked(scene, "one", "two")
        for number in (3, 4):  # a client that sends the latest exchange alone
            sent = (*(await thread_of(scene, "t")).messages[-2:], user(f"more {number}", f"u{number}"))
            await read(await scene.start("a", agent_input("t", f"r{number}", sent, history="replace")))
            await scene.until_idle()
            await scene.clock.advance(1)
        point = (await scene.runner.run(OWNER, run_id)).end
        assert point is not None
        await read(await scene.start("a", onward(point)))
        assert texts((await thread_of(scene, "fork")).messages)[:-2] == said


@pytest.mark.parametrize("short_lived", [False, True])
async def test_how_long_it_lives_its_own_request_says(short_lived: bool) -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        given = question("one", run_id="r1", history="append", short_lived=not short_lived)
        await read(await scene.start("a", given))
        await scene.until_idle()
        point = (await scene.runner.run(OWNER, "r1")).end
        assert point is not None
        await read(await scene.start("a", onward(point, short_lived=short_lived)))
        fork = await thread_of(scene, "fork")
        assert (fork.expires_at is not None, fork.hidden, fork.listed) == (short_lived, short_lived, not short_lived)


async def test_one_that_is_not_to_be_kept_is_found_for_an_hour_and_takes_nothing_with_it() -> None:
    async with runner_scene(agent_of("a", ECHO), agent_of("hangs", HANGS)) as scene:
        points = await talked(scene, "one")
        before = await thread_of(scene, "t")
        given = onward(points[0], short_lived=True)
        viewer = await scene.start("hangs", given)
        assert not (await scene.runner.cancel(OWNER, "f1")).status.ended, "it is found to be cancelled"
        first = await read(viewer)
        await scene.until_idle()
        await scene.clock.advance(LEAST_LIFE_SECONDS)
        assert await scene.runner.delete_expired() == 0
        assert await read(await scene.start("hangs", given)) == first, "the same request again finds its run"
        await scene.clock.advance(1)
        assert await scene.runner.delete_expired() == 1
        with pytest.raises(NotFoundError):
            await scene.runner.run(OWNER, "f1")
        assert await scene.kept_events("f1") == []
        assert await scene.store.load_thread(OWNER, "fork") is None
        assert await thread_of(scene, "t") == before


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"thread_id": "unknown"}, "thread_not_found"),
        ({"version": 5}, "version_not_found"),
        ({"last_message_id": "unknown"}, "message_not_found"),
        ({"last_message_id": None, "length": 9}, "message_not_found"),
    ],
)
async def test_where_there_is_nothing_to_go_on_from_nothing_is_written(change: dict[str, Any], code: str) -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one")
        with pytest.raises(NotFoundError) as caught:
            await scene.start("a", onward(replace(points[0], **change)))
        assert caught.value.code == code
        assert await scene.store.load_thread(OWNER, "fork") is None
        assert await scene.store.load_run(OWNER, "f1") is None


@pytest.mark.parametrize("error", [StoreError("no"), ConflictError("no")])
async def test_a_run_that_cannot_begin_leaves_no_thread(error: GatewayError) -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one")
        scene.store.refuse("begin_run", error)
        with pytest.raises(type(error)):
            await scene.start("a", onward(points[0]))
        assert await scene.store.load_thread(OWNER, "fork") is None


async def test_what_it_goes_on_from_is_not_new_to_the_limits() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "x" * 600)
        before = (await thread_of(scene, "t")).messages
        limits = RunLimits(max_input_bytes=1000)
        sent = (*before, user("y" * 600, "u2"))
        given = changed(onward(points[0]), messages=sent, history="replace")
        (await scene.runner.start(OWNER, "a", given, limits=limits)).close()
        await scene.until_idle()
        with pytest.raises(TooLargeError):
            await scene.runner.start(OWNER, "a", changed(given, run_id="f2", thread=InputThread("n")), limits=limits)


async def test_a_thread_that_is_there_already_is_not_begun_again() -> None:
    async with runner_scene(agent_of("a", ECHO)) as scene:
        points = await talked(scene, "one", "two")
        await read(await scene.start("a", onward(points[0], thread_id="t")))
        assert texts((await thread_of(scene, "t")).messages)[2:5] == ["two", "I heard: two", "and now?"]
