"""Who watches a run sees what is kept of it, whole, from wherever it joined."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent import ABSENT, Absent
from gateway.commit_window import CommitWindow
from gateway.errors import StoreError
from gateway.events import (
    Completed,
    Custom,
    Event,
    Events,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningStarted,
    RunFinished,
    StateChanged,
    StateReplaced,
    StepStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallStarted,
    Usage,
    UsageReported,
    count_of,
)
from gateway.messages import JsonValue, Message, TextBlock
from gateway.runs.viewer import END, Viewer, read_log
from gateway.store import NumberedEvent, Store, Thread
from gateway.transcript import OpenCall, OpenItems, OpenText
from tests.event_samples import batches_of_a_run
from tests.invariants import check_log, check_replay, check_thread
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
    read_ready,
    settle,
    words,
)
from tests.movable_clock import MovableClock
from tests.viewer_screen import Screen
from tests.word_samples import REPEATABLE

# --- nothing is seen before it is kept


async def test_a_viewer_sees_what_is_kept_and_nothing_before() -> None:
    scene = Scene()
    assert await read_ready(scene.first_viewer) == [NumberedEvent(1, START)]
    scene.live.accept([TextStarted("m"), *words("a")])
    scene.live.accept(words("b"))
    assert await read_ready(scene.first_viewer) == []
    assert (scene.live.sequence, scene.live.kept, scene.live.backlog) == (4, 1, 3)
    scene.store.keep()
    expected = [NumberedEvent(2, TextStarted("m")), NumberedEvent(3, words("a")[0]), NumberedEvent(4, words("b")[0])]
    assert await read_ready(scene.first_viewer) == expected
    assert scene.live.backlog == 0


async def test_each_commit_shows_its_own_events_only() -> None:
    scene = Scene()
    await read_ready(scene.first_viewer)
    scene.live.accept([TextStarted("m")])
    scene.store.keep()
    scene.live.accept(words("not kept"))
    assert await read_ready(scene.first_viewer) == [NumberedEvent(2, TextStarted("m"))]
    scene.live.accept(words("nor this"))
    scene.store.keep()
    assert [row.sequence for row in await read_ready(scene.first_viewer)] == [3, 4]


async def test_what_breaks_the_order_is_put_in_order_before_it_is_numbered() -> None:
    scene = Scene()
    await scene.say(TextDelta("m", "x"), TextEnded("other"), START)
    await scene.end()
    check_log(scene.store.log)
    assert scene.live.sealed
    assert [row.event for row in scene.store.log[1:3]] == [TextStarted("m"), TextDelta("m", "x")]


async def test_a_batch_of_which_nothing_may_leave_takes_no_number() -> None:
    scene = Scene()
    scene.live.accept([START])
    assert scene.live.sequence == 1
    assert scene.store.appends == 0


@pytest.mark.parametrize("sign", [TextStarted("m"), ReasoningStarted("r"), ToolCallStarted("c", "tool", "m")])
async def test_the_first_sign_of_an_answer_is_kept_at_once_and_nothing_else(sign: Event) -> None:
    scene = Scene(window=CommitWindow(1000.0))
    await scene.clock.advance(3)
    scene.live.accept([StepStarted("s")])
    assert scene.store.appends == 0
    scene.live.accept([Custom("c", 1), sign])
    assert scene.store.appends == 1
    scene.live.accept([TextDelta("x", "y")])
    scene.live.accept([TextStarted("z")])
    assert scene.store.appends == 1
    assert scene.live.first_sign_at == scene.clock.now()


async def test_deltas_that_come_alone_are_one_event_once_they_are_handed_over() -> None:
    scene = Scene(window=CommitWindow(1000.0))
    scene.live.accept([TextStarted("m")])
    for text in "abc":
        scene.live.accept(words(text))
    assert scene.live.backlog == 4
    scene.live.hand_over()
    scene.store.keep()
    await settle()
    batch = await scene.first_viewer.next(0)
    assert batch is not None
    assert batch.events == [START, TextStarted("m"), TextDelta("m", ["a", "b", "c"])]
    assert (scene.live.sequence, scene.live.backlog) == (5, 0)


async def test_deltas_that_wait_are_counted_and_folded_for_whoever_asks() -> None:
    scene = Scene(window=CommitWindow(1000.0))
    scene.live.accept([TextStarted("m")])
    scene.live.accept(words("a", "b"))
    assert scene.live.sequence == 4
    scene.live.accept(words("c"))
    assert [message.text for message in scene.live.fold.messages] == ["abc"]
    scene.live.accept(words("d"))
    scene.live.give_up(FAILED)
    assert [message.text for message in scene.live.fold.messages] == ["abcd"]


async def test_deltas_that_wait_are_not_lost_with_a_batch_that_is_refused() -> None:
    scene = Scene(window=CommitWindow(1000.0))
    scene.live.accept([TextStarted("m")])
    scene.live.accept(words("a"))
    with pytest.raises(TypeError, match="a loop yields lists"):
        scene.live.accept([cast(Event, "no event")])
    scene.live.hand_over()
    scene.store.keep()
    assert scene.store.log[-1] == NumberedEvent(3, TextDelta("m", "a"))


async def test_what_many_runs_say_in_one_moment_goes_to_the_store_in_one_turn_of_the_loop() -> None:
    window = CommitWindow(0.001)
    scenes = [Scene(window=window) for _ in range(3)]
    for scene in scenes:
        for text in "abc":
            scene.live.accept([Custom(text, 1)])
    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(*(scene.store.appended.wait() for scene in scenes))
    assert [scene.store.appends for scene in scenes] == [1] * 3
    for scene in scenes:
        scene.store.keep()
        assert [row.sequence for row in await read_ready(scene.first_viewer)] == [1, 2, 3, 4]


async def test_whoever_waits_for_what_was_said_does_not_wait_for_more_to_be_said() -> None:
    scene = Scene(window=CommitWindow(1000.0))
    scene.live.accept([Custom("a", 1)])
    waiting = asyncio.create_task(scene.live.wait_kept())
    await asyncio.sleep(0)
    assert scene.store.appends == 1
    scene.store.keep()
    await waiting
    scene.live.accept([Custom("b", 1)])
    joining = asyncio.create_task(scene.live.join())
    await asyncio.sleep(0)
    assert scene.store.appends == 2
    scene.store.keep()
    (await joining).close()


async def test_the_end_goes_behind_all_that_was_said_before() -> None:
    scene = Scene(window=CommitWindow(1000.0))
    scene.live.accept([Custom("a", 1)])
    first, _ = scene.live.number(scene.live.follow([RunFinished(Completed())]))
    assert (first, scene.store.appends) == (3, 1)


async def test_state_and_usage_are_known_at_every_moment() -> None:
    scene = Scene()
    states: list[JsonValue | Absent] = [scene.live.fold.state]
    for event in (StateReplaced({"n": 1}), StateChanged(({"op": "add", "path": "/m", "value": 2},), {"n": 1, "m": 2})):
        await scene.say(event)
        states.append(scene.live.fold.state)
    assert states == [ABSENT, {"n": 1}, {"n": 1, "m": 2}]
    usage = Usage("p", "m", 1, 2)
    await scene.say(ModelCallStarted("turn", "p", "m"), UsageReported(usage), ModelCallEnded(StopReason.END_TURN))
    assert scene.live.fold.usage.total == (usage,)


# --- viewers


async def test_all_viewers_get_the_same_numbers_and_end_after_the_terminal_event() -> None:
    scene = Scene()
    second = scene.live.watch()
    await scene.say(TextStarted("m"), *words("a", "b"))
    await scene.end()
    first, other = numbered(await read_all(scene.first_viewer)), numbered(await read_all(second))
    assert first == scene.store.log
    assert other == first[1:], "who watches from a moment on gets what was not published by then"
    assert await second.next(0) == END


async def test_a_viewer_that_joins_is_told_what_is_closed_what_is_open_and_then_the_rest() -> None:
    scene = Scene()
    before = Message("u", "user", (TextBlock("question"),))
    scene.live.begin_with(Thread(OWNER, THREAD, "agent", 0.0, 0.0, messages=(before,), state={"n": 1}), None)
    await scene.say(
        StepStarted("step"),
        TextStarted("done"),
        TextDelta("done", "said"),
        TextEnded("done"),
        ToolCallStarted("c", "tool", "done"),
        ToolCallDelta("c", "{"),
        TextStarted("m"),
        *words("so ", "far"),
    )
    viewer = await scene.live.join()
    assert viewer.prelude is not None
    assert (viewer.prelude.thread_id, viewer.prelude.run_id, viewer.prelude.state) == (THREAD, RUN, {"n": 1})
    assert [message.id for message in viewer.prelude.messages] == ["u", "done"]
    assert viewer.prelude.open_items == OpenItems(
        ("step",), (OpenText("m", "assistant", "so far"),), (), (OpenCall("c", "tool", "done", "{", ended=False),)
    )
    told = len(scene.store.log)
    await scene.say(*words(" more"))
    await scene.end()
    assert numbered(await read_all(viewer)) == scene.store.log[told:]


async def test_a_viewer_that_joins_waits_until_what_it_is_told_is_kept() -> None:
    scene = Scene()
    scene.live.accept([TextStarted("m"), *words("not kept")])
    joining = asyncio.create_task(scene.live.join())
    await settle()
    assert not joining.done()
    scene.live.accept(words(" yet"))
    scene.store.keep()
    viewer = await joining
    assert viewer.prelude is not None
    assert viewer.prelude.open_items.texts == (OpenText("m", "assistant", "not kept"),)
    await scene.end()
    assert numbered(await read_all(viewer)) == scene.store.log[3:]


@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("ended", [False, True])
async def test_a_cursor_gives_the_log_from_there_on_and_then_what_comes(after: int, ended: bool) -> None:
    scene = Scene()
    await scene.say(TextStarted("m"), *words("a", "b"))
    scene.live.accept(words("c", "d"))
    if ended:
        await scene.end()
    viewer = await scene.live.follow_from(after)
    if not ended:
        await scene.end()
    assert numbered(await read_all(viewer)) == scene.store.log[after:]


async def test_a_long_log_is_read_in_pages() -> None:
    scene = Scene()
    await scene.say(TextStarted("m"))
    for _ in range(9):
        await scene.say(*words(*[str(n) for n in range(500)]))
    viewer = await scene.live.follow_from(0)
    first = await viewer.next(0)
    assert first is not None
    assert 0 < count_of(first.events) < 4_000
    await scene.end()
    assert numbered([first, *await read_all(viewer)]) == scene.store.log


async def test_a_log_may_be_read_without_a_run() -> None:
    scene = Scene()
    await scene.say(TextStarted("m"), *words("a", "b"))
    store = cast(Store, scene.store)
    batches = [batch async for batch in read_log(store, OWNER, RUN, after=1, until=3)]
    assert numbered(batches) == scene.store.log[1:3]
    assert [batch async for batch in read_log(store, OWNER, RUN, after=4, until=None)] == []


async def test_a_viewer_waits_as_long_as_it_is_told() -> None:
    scene = Scene()
    await read_ready(scene.first_viewer)
    reading = asyncio.create_task(scene.first_viewer.next(15.0))
    await scene.clock.advance(14.9)
    assert not reading.done()
    await scene.clock.advance(0.2)
    assert await reading is None
    assert scene.clock.pending == [], "no timer is left behind"


async def test_a_viewer_may_be_read_to_its_end_however_long_that_takes() -> None:
    scene = Scene()

    async def whole() -> list[tuple[int, Event]]:
        batches = [batch async for batch in scene.first_viewer]
        return [(batch.first + place, event) for batch in batches for place, event in enumerate(batch.events)]

    reading = asyncio.create_task(whole())
    await scene.clock.advance(3600.0)
    await scene.say(TextStarted("m"), TextDelta("m", "late"), TextEnded("m"))
    await scene.clock.advance(3600.0)
    assert not reading.done()
    await scene.end()
    assert await reading == [(row.sequence, row.event) for row in scene.store.log]
    scene.first_viewer.close()
    assert scene.clock.pending == [], "no timer is left behind"


async def test_a_slow_viewer_is_dropped_and_resumes_from_the_log_while_others_go_on() -> None:
    scene = Scene(max_viewer_events=5)
    slow = await scene.live.follow_from(0)
    fast: list[NumberedEvent] = await read_ready(scene.first_viewer)
    for number in range(10):
        await scene.say(TextDelta("m", str(number)))
        fast += await read_ready(scene.first_viewer)
    assert slow.dropped
    assert not scene.first_viewer.dropped
    seen = numbered(await read_all(slow))
    slow.close()
    resumed = await scene.live.follow_from(seen[-1].sequence if seen else 0)
    await scene.end()
    assert seen + numbered(await read_all(resumed)) == scene.store.log
    assert fast + numbered(await read_all(scene.first_viewer)) == scene.store.log


async def test_a_viewer_that_was_dropped_is_not_told_of_an_end_that_it_did_not_get_to() -> None:
    scene = Scene(max_viewer_events=2)
    await scene.say(TextStarted("m"), *words("a", "b"))
    dropped_by_a_burst = scene.first_viewer.dropped  # however much comes at once, it may still be read
    await scene.say(*words("c"))
    assert (dropped_by_a_burst, scene.first_viewer.dropped) == (False, True)
    scene.live.give_up(FAILED)
    assert await read_all(scene.first_viewer) == []


async def test_a_viewer_that_left_gets_nothing_more_and_wakes_who_reads_for_it() -> None:
    scene = Scene()
    await read_ready(scene.first_viewer)
    reading = asyncio.create_task(scene.first_viewer.next(15.0))
    await settle()
    scene.first_viewer.close()
    assert await reading == END
    scene.first_viewer.close()
    await scene.say(TextStarted("m"))
    assert await scene.first_viewer.next(0) == END
    assert not scene.live.audience.has_viewers


async def test_a_read_of_the_log_that_breaks_off_never_leaves_a_gap() -> None:
    scene = Scene()
    await scene.say(TextStarted("m"), *words("a"))
    cancelled, failed = await scene.live.follow_from(0), await scene.live.follow_from(0)
    await scene.say(*words("b"))
    reading = asyncio.create_task(cancelled.next(0))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    scene.store.broken = StoreError("gone")
    scene.live.give_up(FAILED)
    with pytest.raises(StoreError):
        await failed.next(0)
    for viewer in (cancelled, failed):
        assert viewer.dropped
        assert await viewer.next(0) == END


async def test_a_viewer_of_a_thread_at_rest_is_told_its_history_and_how_it_ended() -> None:
    viewer = Viewer(MovableClock())
    viewer.feed_unnumbered([START, FINISHED])
    viewer.finish()
    (batch,) = await read_all(viewer)
    assert list(batch.events) == [START, FINISHED]
    assert batch.first + len(batch.events) - 1 < 1, "none of them has a number"


# --- nobody watches


async def test_a_run_is_abandoned_when_nobody_watched_for_the_grace_period() -> None:
    scene = Scene()
    second = scene.live.watch()
    second.close()
    await scene.clock.advance(GRACE_SECONDS + 1)
    assert scene.abandoned == [], "one still watches"
    scene.first_viewer.close()
    await scene.clock.advance(GRACE_SECONDS - 0.1)
    assert scene.abandoned == []
    await scene.clock.advance(0.2)
    assert scene.abandoned == [scene.live]
    await scene.clock.advance(10 * GRACE_SECONDS)
    assert scene.abandoned == [scene.live], "once"


@pytest.mark.parametrize("way", ["watch", "join", "follow_from"])
async def test_who_comes_back_in_time_keeps_the_run_alive(way: str) -> None:
    scene = Scene()
    scene.first_viewer.close()
    await scene.clock.advance(GRACE_SECONDS - 1)
    match way:
        case "watch":
            viewer = scene.live.watch()
        case "join":
            viewer = await scene.live.join()
        case _:
            viewer = await scene.live.follow_from(0)
    await scene.clock.advance(2 * GRACE_SECONDS)
    assert scene.abandoned == []
    viewer.close()
    await scene.clock.advance(GRACE_SECONDS)
    assert scene.abandoned == [scene.live]


async def test_a_run_that_has_ended_is_not_abandoned() -> None:
    scene = Scene()
    second = scene.live.watch()
    scene.first_viewer.close()
    second.close()
    await scene.end()
    await scene.clock.advance(2 * GRACE_SECONDS)
    assert scene.abandoned == []
    third = scene.live.watch()
    third.close()
    await scene.clock.advance(2 * GRACE_SECONDS)
    assert scene.abandoned == []
    assert scene.clock.pending == []


async def test_who_gives_up_joining_is_no_viewer_any_more() -> None:
    scene = Scene()
    scene.live.accept([TextStarted("m")])
    joining = asyncio.create_task(scene.live.join())
    await settle()
    scene.first_viewer.close()
    watched_while_joining = scene.live.audience.has_viewers
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert (watched_while_joining, scene.live.audience.has_viewers) == (True, False)
    await scene.clock.advance(GRACE_SECONDS)
    assert scene.abandoned == [scene.live]


async def test_one_can_wait_until_nobody_watches() -> None:
    scene = Scene()
    second = scene.live.watch()
    waiting = [asyncio.create_task(scene.live.audience.gone(DEADLINE_SECONDS)) for _ in range(2)]
    await settle()
    waiting[0].cancel()
    scene.first_viewer.close()
    await settle()
    assert not waiting[1].done()
    second.close()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await waiting[1]
        await scene.live.audience.gone(DEADLINE_SECONDS)


# --- any moment, any order


moves = st.lists(
    st.sampled_from(["say", "say", "say", "keep", "join", "cursor", "watch", "read", "settle"]), max_size=30
)


@settings(REPEATABLE, max_examples=120)
@given(batches_of_a_run, moves, st.data())
def test_every_viewer_ends_up_with_the_whole_run_whenever_it_came(
    batches: list[Events], moves: list[str], data: st.DataObject
) -> None:
    asyncio.run(_play(batches, moves, data))


async def _play(batches: list[Events], moves: list[str], data: st.DataObject) -> None:
    scene = Scene()
    rest = iter([batch for batch in batches[1:] if batch])
    joining: list[asyncio.Task[Viewer]] = []
    followers: list[tuple[int, Viewer, list[NumberedEvent]]] = [(0, scene.first_viewer, [])]
    for move in moves:
        match move:
            case "say":
                scene.live.accept(list(next(rest, [])))
            case "keep":
                scene.store.keep()
            case "join":
                joining.append(asyncio.create_task(scene.live.join()))
            case "cursor":
                after = data.draw(st.integers(0, scene.live.kept))
                followers.append((after, await scene.live.follow_from(after), []))
            case "watch":
                followers.append((scene.live.kept, scene.live.watch(), []))
            case "read":
                _, viewer, seen = data.draw(st.sampled_from(followers))
                seen += await read_ready(viewer)
            case _:
                await settle()
        await asyncio.sleep(0)
    await scene.end()
    log = scene.store.log
    check_log(log)
    check_thread(log, scene.live.fold.messages)
    for after, viewer, seen in followers:
        seen += numbered(await read_all(viewer))
        assert seen == log[after:]
        check_replay(seen, log)
    told_all = Screen()
    told_all.follow([row.event for row in log])
    for task in joining:
        viewer = await task
        assert viewer.prelude is not None
        screen = Screen()
        screen.show(viewer.prelude.messages, viewer.prelude.open_items)
        screen.follow([row.event for row in numbered(await read_all(viewer))])
        assert screen == told_all
