"""What every store promises of runs and their logs: the contract of gateway.store, the same tests for each of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import ConflictError, NotFoundError, StoreError
from gateway.events import (
    Event,
    MediaGiven,
    MessageRetracted,
    MessagesReplaced,
    ReasoningDelta,
    RunFailed,
    StateReplaced,
    TextDelta,
    TextStarted,
    Usage,
    count_of,
)
from gateway.messages import NO_DATA, Base64Source, ImageBlock
from gateway.records import encode_events
from gateway.store import RunsAndThread, RunStatus, Store
from tests.pieces import rows_of_pieces
from tests.stored_samples import (
    OWNER,
    begin,
    ended,
    logged,
    messages,
    numbered,
    records,
    run,
    thread,
    within,
)

# --- runs


async def test_a_run_comes_back_as_it_was_given(store: Store) -> None:
    usage = (Usage("openai", "gpt", 3, 4, 1, 2, None), Usage("demo", "demo"))
    given = replace(run(), input_digest="sha", usage=usage)
    await within(store.begin_run(given, thread(), keep=0))
    assert await within(store.load_run(OWNER, "r1")) == given
    failed = replace(
        given,
        status=RunStatus.FAILED,
        finished_at=300.5,
        error_code="model_timeout",
        error_message="too slow",
        usage=(),
    )
    await within(store.end_run(failed, thread(), keep=1, first=1, records=records(1, 1)))
    assert await within(store.load_run(OWNER, "r1")) == failed


async def test_what_a_run_begins_from_is_the_run_and_its_thread_as_they_are(store: Store) -> None:
    assert await within(store.load_start(OWNER, "r1", "t1")) == RunsAndThread([], None)
    await within(store.begin_run(run(), thread(), keep=0))
    assert await within(store.load_start(OWNER, "r1", "t1")) == RunsAndThread([run()], thread())
    assert await within(store.load_start(OWNER, "r2", "t1")) == RunsAndThread([], thread())
    assert await within(store.load_start(OWNER, "r1", "t2")) == RunsAndThread([run()], None)
    assert await within(store.load_start("key-2", "r1", "t1")) == RunsAndThread([], None)
    assert await within(store.load_thread(OWNER, "t1")) == thread()
    await within(store.delete_thread(OWNER, "t1"))
    assert await within(store.load_start(OWNER, "r1", "t1")) == RunsAndThread([], None)
    assert await within(store.load_thread(OWNER, "t1")) is None


async def test_a_run_leads_to_its_thread_and_to_the_later_runs_of_its_id(store: Store) -> None:
    assert await within(store.load_start(OWNER, "r1")) == RunsAndThread([], None)
    ended = replace(run(), status=RunStatus.INTERRUPTED, finished_at=300.0)
    await within(store.begin_run(run(), thread(), keep=0))
    await within(store.end_run(ended, thread(), keep=1, first=1, records=records(1, 1)))
    later = replace(run(), run_id="r2", reused_id="r1")
    await within(store.begin_run(later, thread(), keep=1))
    assert await within(store.load_start(OWNER, "r1")) == RunsAndThread([later, ended], thread())
    assert await within(store.load_start(OWNER, "r2")) == RunsAndThread([], None)


async def test_a_runs_first_events_are_kept_with_its_begin(store: Store) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 2)))
    assert await logged(store) == numbered(2)
    await within(store.append_events(OWNER, "r1", 3, records(3, 3)))
    assert await logged(store) == numbered(3)


async def test_a_queued_run_is_there_before_its_thread_and_can_begin(store: Store) -> None:
    queued = run(status=RunStatus.QUEUED)
    await within(store.queue_run(queued))
    assert await within(store.load_run(OWNER, "r1")) == queued
    assert await within(store.load_thread(OWNER, "t1")) is None
    await within(store.begin_run(run(), thread(), keep=0))
    assert await within(store.load_run(OWNER, "r1")) == run()
    await within(store.append_events(OWNER, "r1", 1, records(1, 2)))
    assert await logged(store) == numbered(2)


async def test_a_queued_run_can_end_without_having_begun(store: Store) -> None:
    await within(store.queue_run(run(status=RunStatus.QUEUED)))
    await within(store.end_run(ended(), thread(), keep=0, first=1, records=records(1, 2)))
    assert await logged(store) == numbered(2)
    assert await within(store.unfinished_runs()) == []


async def test_a_run_that_left_the_queue_is_kept_as_ended_and_begins_all_the_same(store: Store) -> None:
    await within(store.queue_run(run(status=RunStatus.QUEUED)))
    left = replace(run(status=RunStatus.CANCELLED, finished_at=105.0), started_at=None)
    await within(store.queue_run(left))
    assert await within(store.load_run(OWNER, "r1")) == left
    assert await within(store.unfinished_runs()) == []
    begun = run()
    await within(store.begin_run(begun, thread(), keep=0, records=records(1, 1)))
    assert await within(store.load_run(OWNER, "r1")) == begun
    with pytest.raises(ConflictError):
        await within(store.queue_run(left))
    await within(store.end_run(ended(), thread(), keep=1, first=2, records=records(2, 2)))
    assert await logged(store) == numbered(2)


async def test_a_run_begins_and_ends_once(store: Store) -> None:
    await begin(store)
    with pytest.raises(ConflictError):
        await within(store.begin_run(run(), thread(count=3), keep=0))
    with pytest.raises(ConflictError):
        await within(store.queue_run(run(status=RunStatus.QUEUED)))
    await within(store.end_run(ended(), thread(), keep=1, first=1, records=records(1, 1)))
    with pytest.raises(ConflictError):
        await within(store.end_run(ended(), thread(count=3), keep=0, first=2, records=records(2, 2)))
    with pytest.raises(ConflictError):
        await within(store.begin_run(run(), thread(count=3), keep=0))
    assert await within(store.load_thread(OWNER, "t1")) == thread()
    assert await logged(store) == numbered(1)


async def test_ending_an_unknown_run_stores_nothing(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await within(store.end_run(ended(), thread(), keep=0, first=1, records=records(1, 1)))
    assert await within(store.load_thread(OWNER, "t1")) is None
    assert await within(store.load_run(OWNER, "r1")) is None


async def test_unfinished_runs_are_those_queued_or_running(store: Store) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    await within(store.queue_run(run("r3", "t2", status=RunStatus.QUEUED)))
    await begin(store, "r4", "t4", owner="key-2")
    await within(store.end_run(ended("r2", "t2"), thread("t2"), keep=1, first=1, records=records(1, 1)))
    found = await within(store.unfinished_runs())
    assert [(item.owner, item.run_id, item.status.value) for item in found] == [
        (OWNER, "r1", "running"),
        (OWNER, "r3", "queued"),
        ("key-2", "r4", "running"),
    ]


# --- events


async def test_events_come_back_by_number(store: Store) -> None:
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, records(1, 2)))
    await within(store.append_events(OWNER, "r1", 3, records(3, 3)))
    await within(store.append_events(OWNER, "r1", 4, records(4, 10)))
    for after in range(12):
        rows = await within(store.read_events(OWNER, "r1", after=after, limit=100))
        assert [(row.sequence, row.event) for row in rows_of_pieces(rows)] == numbered(10)[after:]
    assert await within(store.last_sequence(OWNER, "r1")) == 10


async def test_a_log_is_read_a_page_at_a_time(store: Store) -> None:
    await begin(store)
    first = 1
    for size in (1, 7, 1, 30, 2, 1, 9):
        await within(store.append_events(OWNER, "r1", first, records(first, first + size - 1)))
        first += size
    for limit in (1, 2, 5, 50, 1000):
        after, found = 0, []
        while rows := await within(store.read_events(OWNER, "r1", after=after, limit=limit)):
            assert count_of(row.event for row in rows) <= limit + 50, "a few more, not all"
            found += [(row.sequence, row.event) for row in rows_of_pieces(rows)]
            after = rows[-1].last
        assert found == numbered(first - 1)


async def test_short_logs_are_read_together(store: Store) -> None:
    for number in (1, 2, 3, 4):
        await begin(store, f"r{number}", f"t{number}")
    await within(store.append_events(OWNER, "r1", 1, records(1, 3)))
    await within(store.append_events(OWNER, "r1", 4, records(4, 4)))
    await within(store.append_events(OWNER, "r2", 1, records(1, 9)))
    await within(store.append_events(OWNER, "r4", 1, records(1, 1)))
    ids = ["r1", "r2", "r3", "r4", "r5"]
    logs = await within(store.read_logs(OWNER, ids, limit=9, max_bytes=1_000_000))
    assert {run_id: [(row.sequence, row.event) for row in rows_of_pieces(rows)] for run_id, rows in logs.items()} == {
        "r1": numbered(4),
        "r4": numbered(1),
    }, "r2's is too long, r3 has none, r5 is not there"
    assert [*await within(store.read_logs(OWNER, ids, limit=9, max_bytes=1))] == ["r1"]
    assert not await within(store.read_logs("key-2", ids, limit=9, max_bytes=1_000_000))


@pytest.mark.parametrize("after", [-1, -(2**80), 0])
async def test_a_number_before_the_first_reads_from_the_start(store: Store, after: int) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 2)))
    rows = await within(store.read_events(OWNER, "r1", after=after, limit=9))
    assert [row.sequence for row in rows_of_pieces(rows)] == [1, 2]


@pytest.mark.parametrize("after", [2, 3, 2**63, 2**200])
async def test_a_number_behind_the_last_reads_nothing(store: Store, after: int) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 2)))
    assert await within(store.read_events(OWNER, "r1", after=after, limit=9)) == []


async def test_an_unknown_run_has_no_log(store: Store) -> None:
    assert await within(store.load_run(OWNER, "r1")) is None
    assert await logged(store) == []
    assert await within(store.last_sequence(OWNER, "r1")) == 0
    with pytest.raises(NotFoundError):
        await within(store.append_events(OWNER, "r1", 1, records(1, 1)))


async def test_appends_of_many_runs_made_together_are_all_stored(store: Store) -> None:
    futures = set()
    for number in range(20):
        await begin(store, f"r{number}", f"t{number}")
    for first in (1, 3, 5):
        for number in range(20):
            futures.add(store.append_events(OWNER, f"r{number}", first, records(first, first + 1)))
    await within(asyncio.gather(*futures))
    for number in range(20):
        assert await logged(store, f"r{number}") == numbered(6)


async def test_who_is_cancelled_while_a_run_ends_learns_all_the_same_that_it_is_kept(store: Store) -> None:
    await begin(store)
    end = store.end_run(ended(), thread(count=2), keep=1, first=1, records=records(1, 1))
    waiting = asyncio.create_task(end.shielded())
    await asyncio.sleep(0)
    waiting.cancel()
    await within(waiting)
    assert end.done()
    assert await within(store.load_run(OWNER, "r1")) == ended()


async def test_one_waiting_task_that_is_cancelled_takes_no_other_with_it(store: Store) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")

    async def wait_for(run_id: str) -> None:
        await store.append_events(OWNER, run_id, 1, records(1, 1))

    first, second = asyncio.create_task(wait_for("r1")), asyncio.create_task(wait_for("r2"))
    await asyncio.sleep(0)
    first.cancel()
    await within(asyncio.wait([first, second]))
    assert first.cancelled()
    assert second.exception() is None
    assert await logged(store, "r1") == await logged(store, "r2") == numbered(1)


@pytest.mark.parametrize("first", [0, 1, 2, 4, 100])
async def test_events_that_do_not_follow_the_last_are_refused(store: Store, first: int) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 2)))
    with pytest.raises(StoreError):
        await within(store.append_events(OWNER, "r1", first, records(1, 1)))
    await within(store.append_events(OWNER, "r1", 3, records(3, 3)))
    assert await logged(store) == numbered(3)


async def test_events_after_the_end_are_refused(store: Store) -> None:
    await begin(store)
    await within(store.end_run(ended(), thread(), keep=1, first=1, records=records(1, 1)))
    with pytest.raises(ConflictError):
        await within(store.append_events(OWNER, "r1", 2, records(2, 2)))
    assert await logged(store) == numbered(1)


async def test_the_last_events_come_behind_those_appended_before(store: Store) -> None:
    await begin(store)
    appended = store.append_events(OWNER, "r1", 1, records(1, 5))
    await within(store.end_run(ended(), thread(), keep=1, first=6, records=records(6, 7)))
    assert appended.done()
    assert await logged(store) == numbered(7)


async def test_an_end_with_numbers_that_are_taken_is_refused(store: Store) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 3)))
    with pytest.raises(StoreError):
        await within(store.end_run(ended(), thread(count=2), keep=1, first=3, records=records(3, 4)))
    assert await within(store.load_run(OWNER, "r1")) == run()
    assert await within(store.load_thread(OWNER, "t1")) == thread()
    await within(store.end_run(ended(), thread(), keep=1, first=4, records=records(4, 4)))
    assert await logged(store) == numbered(4)


async def test_an_end_behind_events_that_were_not_kept_is_refused(store: Store) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=records(1, 2)))
    failed = encode_events([RunFailed("store_full", "x")])
    with pytest.raises(StoreError):
        await within(store.end_run(ended(), thread(count=2), keep=1, first=9, records=failed))
    assert await within(store.load_run(OWNER, "r1")) == run()
    assert await logged(store) == numbered(2)
    await within(store.end_run(ended(), thread(), keep=1, first=3, records=failed))
    assert [number for number, _ in await logged(store)] == [1, 2, 3]


async def test_large_and_odd_events_come_back(store: Store) -> None:
    given: list[Event] = [
        TextDelta("m", "\n\r\u2028\u2029\u0085\0 😀 \\n"),
        TextDelta("m", "x" * 2_000_000),
        StateReplaced({"key\n": [None, 2**60, 0.1, "\ud83d"]}),
        MessagesReplaced(messages(300)),
    ]
    await within(store.begin_run(run(), thread(), keep=0, records=encode_events(given)))
    assert await logged(store) == list(enumerate(given, 1))


async def test_what_was_taken_back_loses_its_words_in_the_log_and_nothing_else_does(store: Store) -> None:
    given: list[Event] = [
        TextStarted("secret"),
        TextDelta("secret", "for"),
        TextDelta("secret", "ty"),
        ReasoningDelta("thought", "two"),
        TextDelta("other", "speaks of secret"),
        TextDelta("secret", "-two"),
        MessageRetracted("secret", "Not that."),
        MediaGiven("picture", ImageBlock(Base64Source("aGk=", "image/png"), index=1)),
        MediaGiven("other picture", ImageBlock(Base64Source("aGk=", "image/png"))),
    ]
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, encode_events(given[:3])))
    await within(store.append_events(OWNER, "r1", 4, encode_events(given[3:6])))
    erase = frozenset({"secret", "thought", "picture"})
    await within(store.end_run(ended(), thread(), keep=1, first=7, records=encode_events(given[6:]), erase=erase))
    erased: dict[int, Event] = dict.fromkeys((2, 3, 6), TextDelta("secret", ""))
    erased |= {4: ReasoningDelta("thought", ""), 8: MediaGiven("picture", ImageBlock(NO_DATA))}
    assert await logged(store) == [(number, erased.get(number, event)) for number, event in enumerate(given, 1)]


# --- logs that are removed


async def test_only_logs_of_runs_that_ended_before_are_removed(store: Store) -> None:
    for number, at in enumerate((10.0, 20.0, 30.0)):
        await begin(store, f"r{number}", f"t{number}")
        last = ended(f"r{number}", f"t{number}", at=at)
        await within(store.end_run(last, thread(f"t{number}"), keep=0, first=1, records=records(1, 3)))
    await begin(store, "live", "t9")
    await within(store.append_events(OWNER, "live", 1, records(1, 3)))
    assert await within(store.remove_logs(finished_before=30.0)) == 2
    assert [len(await logged(store, name)) for name in ("r0", "r1", "r2", "live")] == [0, 0, 3, 3]
    assert await within(store.last_sequence(OWNER, "r0")) == 0
    assert (await within(store.load_run(OWNER, "r0"))) is not None
    assert (await within(store.load_thread(OWNER, "t1"))) is not None
    assert await within(store.remove_logs(finished_before=30.0)) == 0


async def test_many_and_long_logs_are_removed_whole(store: Store) -> None:
    for number in range(230):
        count = 1200 if number == 7 else 1
        await begin(store, f"r{number}", f"t{number}")
        for first in range(1, count + 1, 1):
            store.append_events(OWNER, f"r{number}", first, records(first, first))
        end = ended(f"r{number}", f"t{number}", at=10.0)
        await within(store.end_run(end, thread(f"t{number}"), keep=1, first=count + 1, records=records(1, 1)))
    assert await within(store.remove_logs(finished_before=11.0)) == 230
    assert [await within(store.last_sequence(OWNER, f"r{number}")) for number in range(230)] == [0] * 230
