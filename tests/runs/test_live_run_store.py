"""A live run and its store: what is not kept is not shown, whatever fails; and the store that there is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.errors import StoreError, StoreFullError
from gateway.events import (
    TextDelta,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
)
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.viewer import Viewer
from gateway.store import NumberedEvent, RunRecord, RunStatus, Store, StoreEnvironment, Thread
from gateway.stores.sqlite import STORE
from tests.invariants import check_log, check_replay
from tests.live_run_scene import (
    DEADLINE_SECONDS,
    FAILED,
    FINISHED,
    GRACE_SECONDS,
    OWNER,
    RUN,
    START,
    THREAD,
    Scene,
    numbered,
    read_all,
    settle,
    words,
)
from tests.pieces import rows_of_pieces
from tests.runner_scene import SAYS_HELLO, agent_of

# --- the store fails


async def test_what_could_not_be_kept_is_not_shown_and_stops_the_run() -> None:
    scene = Scene()
    work = asyncio.create_task(asyncio.Event().wait())
    scene.live.work_in(work)  # type: ignore[arg-type]  # any that takes long
    await settle()
    await scene.say(TextStarted("m"), *words("kept"))
    scene.live.accept(words("lost"))
    waiting = asyncio.create_task(scene.live.wait_kept())
    await settle()
    scene.store.fail(StoreFullError("the store is full"))
    with pytest.raises(StoreFullError):
        await waiting
    with pytest.raises(asyncio.CancelledError):
        await work
    assert isinstance(scene.live.failure, StoreFullError)
    scene.live.accept(words("never sent"))
    assert scene.store.appends == 2, "nothing more is handed to the store: it would leave a gap"
    scene.live.give_up(FAILED)
    *seen, farewell = await read_all(scene.first_viewer)
    assert numbered(seen) == scene.store.log
    assert (farewell.first < 1, list(farewell.events)) == (True, [FAILED])


async def test_a_store_that_was_closed_is_a_failure_too() -> None:
    scene = Scene()
    scene.live.accept([TextStarted("m")])
    scene.store.close()
    await settle()
    assert isinstance(scene.live.failure, StoreError)


@pytest.mark.parametrize("given_up", [True, False])
async def test_who_joins_while_the_store_fails_is_told_so(given_up: bool) -> None:
    scene = Scene()
    scene.live.accept([TextStarted("m"), *words("lost")])
    joining = asyncio.create_task(scene.live.join())
    await settle()
    scene.store.fail(StoreError("the disk is gone"))
    await settle()
    if given_up:
        scene.live.give_up(FAILED)
        scene.live.enter(Phase.ENDING)
        scene.live.block(StoreError("the disk is still gone"))
    else:
        scene.live.finish()
    async with asyncio.timeout(DEADLINE_SECONDS):
        with pytest.raises(StoreError, match="try again"):
            await joining
        with pytest.raises(StoreError, match="try again"):
            await scene.live.join()
    scene.first_viewer.close()
    assert not scene.live.audience.has_viewers


async def test_a_cursor_works_while_the_store_fails() -> None:
    scene = Scene()
    await scene.say(TextStarted("m"), *words("kept"))
    scene.live.accept(words("lost"))
    scene.store.fail(StoreError("the disk is gone"))
    await settle()
    async with asyncio.timeout(DEADLINE_SECONDS):
        viewer = await scene.live.follow_from(1)
    scene.live.give_up(FAILED)
    *seen, farewell = await read_all(viewer)
    assert numbered(seen) == scene.store.log[1:]
    assert list(farewell.events) == [FAILED]


# --- with the store that there is


@pytest.fixture
async def sqlite() -> AsyncGenerator[Store]:
    store = STORE.open("sqlite://:memory:", StoreEnvironment(SystemClock(), Path()))
    await store.open()
    yield store
    await store.close()


async def begin(store: Store, abandoned: Callable[[LiveRun], None] = lambda _: None) -> tuple[LiveRun, Viewer]:
    record = RunRecord(OWNER, RUN, THREAD, "agent", RunStatus.RUNNING, 0.0)
    agent = agent_of("agent", SAYS_HELLO)
    live = LiveRun(record, agent, store, SystemClock(), grace_seconds=GRACE_SECONDS, on_abandoned=abandoned)
    viewer = live.watch()
    _, records = live.number(live.follow([START]))
    await store.begin_run(record, Thread(OWNER, THREAD, "agent", 0.0, 0.0), keep=0, records=records)
    live.publish_numbered()
    return live, viewer


async def test_with_a_real_store_everybody_gets_all_of_it(sqlite: Store) -> None:
    live, first = await begin(sqlite)
    reading = [asyncio.create_task(read_all(first))]
    joined: list[Viewer] = []
    live.accept([TextStarted("m")])
    for number in range(300):
        live.accept(words(str(number)))
        if number % 50 == 20:
            viewer = await live.join()
            joined.append(viewer)
            reading.append(asyncio.create_task(read_all(viewer)))
            reading.append(asyncio.create_task(read_all(await live.follow_from(0))))
        await asyncio.sleep(0)
    number_of_end, records = live.number(live.follow([FINISHED]))
    ended = replace(live.record, status=RunStatus.COMPLETED, finished_at=1.0)
    thread = Thread(OWNER, THREAD, "agent", 0.0, 1.0, messages=live.fold.messages)
    await sqlite.end_run(ended, thread, keep=0, first=number_of_end, records=records)
    live.publish_numbered()
    live.finish()
    log = rows_of_pieces(await sqlite.read_events(OWNER, RUN, after=0, limit=1_000))
    check_log(log)
    assert len(log) == 304
    for batches in await asyncio.gather(*reading):
        check_replay(numbered(batches), log)
    assert len(joined) == 6
    for viewer in joined:
        assert viewer.prelude is not None
        (text,) = viewer.prelude.open_items.texts
        assert text.text == "".join(str(n) for n in range(300))[: len(text.text)]
        assert text.text


async def test_with_a_real_store_that_is_full_the_run_fails_with_its_words() -> None:
    store = STORE.open("sqlite://:memory:?max_size_bytes=200000", StoreEnvironment(SystemClock(), Path()))
    await store.open()
    live, viewer = await begin(store)
    work = asyncio.create_task(asyncio.Event().wait())
    live.work_in(work)  # type: ignore[arg-type]  # any that takes long
    live.accept([TextStarted("m"), TextDelta("m", "kept")])
    await live.wait_kept()
    live.accept([ToolCallStarted("c", "tool", "m"), ToolCallDelta("c", "x" * 400_000), ToolCallEnded("c")])
    with pytest.raises(StoreFullError):
        await live.wait_kept()
    await settle()
    assert isinstance(live.failure, StoreFullError)
    assert live.failure.code == "store_full"
    live.give_up(FAILED)
    *seen, farewell = await read_all(viewer)
    assert numbered(seen) == rows_of_pieces(await store.read_events(OWNER, RUN, after=0, limit=10))
    assert list(farewell.events) == [FAILED]
    await asyncio.wait([work])
    await store.close()


async def test_a_run_does_not_end_in_the_log_behind_words_that_the_log_has_no_room_for() -> None:
    store = STORE.open("sqlite://:memory:?max_size_bytes=200000", StoreEnvironment(SystemClock(), Path()))
    await store.open()
    live, _ = await begin(store)
    live.accept([TextStarted("m"), TextDelta("m", "x" * 400_000)])
    first, records = live.number(live.follow([FINISHED]))
    ended = replace(live.record, status=RunStatus.COMPLETED, finished_at=1.0)
    with pytest.raises(StoreError):
        await store.end_run(ended, Thread(OWNER, THREAD, "agent", 0.0, 1.0), keep=0, first=first, records=records)
    assert isinstance(live.failure, StoreFullError)
    assert await store.read_events(OWNER, RUN, after=0, limit=10) == [NumberedEvent(1, START)]
    await store.close()
