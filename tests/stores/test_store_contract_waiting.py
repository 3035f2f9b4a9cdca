"""What every store promises of messages that wait with a run for its turn (queue_run, waiting_runs)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.errors import ConflictError
from gateway.messages import Base64Source, ImageBlock, Message, TextBlock
from gateway.store import RunRecord, RunStatus, Store
from tests.stored_samples import OWNER, begin, ended, logged, messages, numbered, records, run, thread, within

SAID = (
    Message("u1", "user", (TextBlock("a line\nand half a pair \ud83d"),), metadata={"from": "a test"}),
    Message("u2", "user", (ImageBlock(Base64Source("image/png", "AAAA")), TextBlock("what is that?"))),
)


def waits(run_id: str = "r1", thread_id: str = "t1", *, owner: str = OWNER) -> RunRecord:
    return replace(run(run_id, thread_id, owner=owner, status=RunStatus.QUEUED), started_at=None)


def left(run_id: str = "r1") -> RunRecord:
    """A run that left the queue."""
    return replace(waits(run_id), status=RunStatus.CANCELLED, finished_at=105.0)


async def waiting(store: Store) -> dict[str, tuple[Message, ...]]:
    return {record.run_id: said for record, said in await within(store.waiting_runs())}


async def test_messages_wait_with_their_run_until_it_begins(store: Store) -> None:
    await begin(store, "r0")
    await within(store.queue_run(waits(), SAID))
    assert await within(store.waiting_runs()) == [(waits(), SAID)]
    assert await within(store.load_run(OWNER, "r1")) == waits()
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    assert held.messages == messages(1), "no thread has them"
    await within(store.begin_run(run(), replace(held, messages=(*held.messages, *SAID)), keep=1))
    assert await within(store.waiting_runs()) == []
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    assert held.messages == (*messages(1), *SAID)


async def test_waiting_runs_are_in_the_order_of_the_queue(store: Store) -> None:
    await within(store.queue_run(waits("second"), SAID[1:]))
    await within(store.queue_run(waits("first", owner="key-2")))
    await within(store.queue_run(waits("last", "t2"), SAID[:1]))
    await begin(store, "running")
    await within(store.begin_run(replace(run("begun"), thread_id="t9"), thread("t9"), keep=0))
    assert list((await waiting(store)).items()) == [("second", SAID[1:]), ("first", ()), ("last", SAID[:1])]


async def test_messages_of_a_run_that_leaves_the_queue_wait_until_it_ends_with_its_input(store: Store) -> None:
    await within(store.queue_run(waits(), SAID))
    await within(store.queue_run(waits("without")))
    for run_id in ("r1", "without"):
        await within(store.queue_run(left(run_id)))
    assert await within(store.waiting_runs()) == [(left(), SAID)]
    assert await within(store.unfinished_runs()) == []
    end = replace(ended(), status=RunStatus.CANCELLED)
    held = replace(thread(), messages=SAID)
    await within(store.end_run(end, held, keep=0, first=1, records=records(1, 2)))
    assert await within(store.waiting_runs()) == []
    assert await within(store.load_run(OWNER, "r1")) == end
    assert await within(store.load_thread(OWNER, "t1")) == held
    assert await logged(store) == numbered(2)
    with pytest.raises(ConflictError):
        await within(store.end_run(end, held, keep=2, first=3, records=records(3, 3)))


async def test_a_run_that_left_the_queue_and_begins_takes_its_messages_along(store: Store) -> None:
    await within(store.queue_run(waits(), SAID))
    await within(store.queue_run(left()))
    await within(store.begin_run(run(), thread(), keep=0))
    assert await within(store.waiting_runs()) == []


async def test_messages_that_wait_go_with_their_thread_or_their_run(store: Store) -> None:
    await begin(store, "r0")
    for run_id in ("deleted", "r1"):
        await within(store.queue_run(waits(run_id), SAID))
    await within(store.queue_run(left("deleted")))
    await within(store.queue_run(waits("elsewhere", "t2"), SAID))
    assert await within(store.delete_run(OWNER, "deleted"))
    assert list(await waiting(store)) == ["r1", "elsewhere"]
    assert await within(store.delete_thread(OWNER, "t1"))
    assert list(await waiting(store)) == ["elsewhere"]


async def test_messages_wait_for_the_next_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    await within(store.queue_run(waits(), SAID))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.waiting_runs()) == [(waits(), SAID)]
    await within(store.close())
