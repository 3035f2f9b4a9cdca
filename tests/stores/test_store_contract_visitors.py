"""What every store promises of websites' visitors: how much a site has is counted, and what is old is found."""

from __future__ import annotations

from collections.abc import Callable

from gateway.frozen import replace
from gateway.messages import JsonValue
from gateway.owners import visitor_owner
from gateway.records import encode_message
from gateway.store import Store, Thread
from tests.stored_samples import ended, records, run, thread, within

ANNA, BEN, CARL = visitor_owner("shop", "a"), visitor_owner("shop", "b"), visitor_owner("blog", "c")
STATE: JsonValue = {"list": ["x" * 500]}
STATE_BYTES = len('{"list":[""]}') + 500


def size(held: Thread) -> int:
    return sum(len(encode_message(message)) for message in held.messages)


async def begun(store: Store, held: Thread, run_id: str, keep: int = 0) -> None:
    asked = run(run_id, held.thread_id, owner=held.owner)
    await within(store.begin_run(asked, held, keep=keep, records=records(1, 3)))


async def done(store: Store, held: Thread, run_id: str, keep: int, *, at: float = 200.0) -> None:
    end = ended(run_id, held.thread_id, owner=held.owner, at=at)
    await within(store.end_run(end, held, keep=keep, first=4, records=records(4, 5)))


def log_size() -> int:
    """Of what a run of these tests has said."""
    return len(records(1, 3).lines) + len(records(4, 5).lines)


async def test_what_a_sites_visitors_have_is_counted_as_it_comes_and_goes(store: Store) -> None:
    assert await within(store.stored_bytes("shop")) == 0
    short, long = thread("t1", owner=ANNA, count=2), thread("t1", owner=ANNA, count=5, text="longer")
    await begun(store, short, "r1")
    assert await within(store.stored_bytes("shop")) == size(short)
    stated = replace(long, state=STATE)
    await done(store, stated, "r1", keep=0)
    one = size(stated) + STATE_BYTES + log_size()
    assert await within(store.stored_bytes("shop")) == one
    edited = replace(stated, messages=stated.messages[:1], state={})
    await begun(store, edited, "r2", keep=1)
    await done(store, edited, "r2", keep=1)
    one = size(edited) + 2 + 2 * log_size()
    assert await within(store.stored_bytes("shop")) == one
    other = thread("t1", owner=BEN)
    await begun(store, other, "r1")
    assert await within(store.stored_bytes("shop")) == one + size(other)
    assert await within(store.delete_thread(ANNA, "t1"))
    assert await within(store.stored_bytes("shop")) == size(other)
    await within(store.append_events(BEN, "r1", 4, records(4, 5)))
    assert await within(store.delete_thread(BEN, "t1")), "with a run under way"
    assert await within(store.stored_bytes("shop")) == 0


async def test_logs_that_are_forgotten_are_not_counted_any_more(store: Store) -> None:
    held = thread("t1", owner=ANNA)
    for number, at in enumerate((200.0, 300.0), 1):
        await begun(store, held, f"r{number}", keep=number > 1)
        await done(store, held, f"r{number}", keep=1, at=at)
    assert await within(store.stored_bytes("shop")) == size(held) + 2 * log_size()
    assert await within(store.remove_logs(finished_before=250.0)) == 1
    assert await within(store.stored_bytes("shop")) == size(held) + log_size()
    assert await within(store.delete_thread(ANNA, "t1"))
    assert await within(store.stored_bytes("shop")) == 0


async def test_each_site_has_its_own_count_and_keys_have_none(store: Store) -> None:
    await begun(store, thread("t1", owner=CARL, count=3), "r1")
    await begun(store, thread("t1", owner="shop"), "r1")
    assert await within(store.stored_bytes("blog")) == size(thread(count=3))
    assert await within(store.stored_bytes("shop")) == 0


async def test_the_count_outlives_the_process(open_again: Callable[[], Store]) -> None:
    held = thread("t1", owner=ANNA)
    for _ in range(2):
        store = open_again()
        await within(store.open())
        if await within(store.load_thread(ANNA, "t1")) is None:
            await begun(store, held, "r1")
        assert await within(store.stored_bytes("shop")) == size(held)
        await within(store.close())


async def test_visitors_threads_whose_last_run_is_long_ago_are_found_the_oldest_first(store: Store) -> None:
    for owner, thread_id, at in (
        (ANNA, "old", 100.0),
        (ANNA, "new", 300.0),
        (CARL, "older", 50.0),
        ("shop", "a key's", 10.0),
        (BEN, "just", 200.0),
    ):
        held = replace(thread(thread_id, owner=owner, at=at), listed=thread_id != "old")
        await begun(store, held, f"r-{thread_id}")
    found = await within(store.idle_visitor_threads(before=200.0, limit=10))
    assert found == [(CARL, "older"), (ANNA, "old")]
    assert await within(store.idle_visitor_threads(before=300.5, limit=3)) == [*found, (BEN, "just")]
