"""What every store promises of threads that are written outside a run, and of what their owners say of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.agent import ABSENT
from gateway.errors import ConflictError, NotFoundError
from gateway.frozen import replace
from gateway.messages import JsonObject
from gateway.owners import visitor_owner
from gateway.records import dump_json, encode_message
from gateway.store import LEAST_LIFE_SECONDS, PAUSED_LIFE_SECONDS, Store, ThreadChange, ThreadSummary
from tests.stored_samples import OWNER, begin, ended, message, messages, records, run, thread, within

METADATA: JsonObject = {"name": "half \ud83d", "nested": {"list": [1, None, 2**70]}}
UNLISTED = replace(thread("unlisted"), listed=False, hidden=True, last_run_id=None)


async def listed(store: Store) -> list[str]:
    return [each.thread_id for each in (await within(store.list_threads(OWNER, limit=10, cursor=None))).items]


async def summary(store: Store, thread_id: str = "t1") -> ThreadSummary:
    found = await within(store.load_summary(OWNER, thread_id))
    assert found is not None
    return found


# --- written outside a run


async def test_a_thread_is_made_without_a_run(store: Store) -> None:
    made = replace(thread(count=3), title="A title", agent_id="", last_run_id=None, expires_at=10_000.0)
    await within(store.create_thread(made, METADATA))
    assert await within(store.load_thread(OWNER, "t1")) == made
    told = ThreadSummary(OWNER, "t1", "A title", "", 100.0, 100.0, METADATA, True, 10_000.0)
    assert await summary(store) == told
    assert (await within(store.list_threads(OWNER, limit=5, cursor=None))).items == (told,)
    with pytest.raises(ConflictError) as refused:
        await within(store.create_thread(thread(), {}))
    assert refused.value.code == "thread_exists"
    assert await within(store.load_thread(OWNER, "t1")) == made
    assert await within(store.load_summary(OWNER, "t2")) is None
    assert await within(store.load_summary("key-2", "t1")) is None


async def test_a_thread_is_added_to_without_a_run(store: Store) -> None:
    await begin(store)
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    longer = replace(held, messages=(*held.messages, message(7), message(8)), updated_at=150.0)
    await within(store.write_thread(longer, keep=1))
    assert await within(store.load_thread(OWNER, "t1")) == longer
    page = await within(store.list_messages(OWNER, "t1", limit=5, cursor=None))
    assert page.items == longer.messages
    await within(store.end_run(ended(), longer, keep=3, first=1, records=records(1, 1)))
    assert await within(store.load_thread(OWNER, "t1")) == longer


async def test_a_thread_that_was_deleted_is_not_written_again(store: Store) -> None:
    with pytest.raises(NotFoundError):
        await within(store.write_thread(thread(), keep=0))
    await begin(store)
    await within(store.delete_thread(OWNER, "t1"))
    with pytest.raises(NotFoundError) as refused:
        await within(store.write_thread(thread(), keep=0))
    assert refused.value.code == "thread_not_found"
    assert await within(store.load_thread(OWNER, "t1")) is None


async def test_what_was_written_outside_a_run_outlives_the_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    made = replace(UNLISTED, expires_at=5000.5)
    await within(store.create_thread(made, METADATA))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.load_thread(OWNER, "unlisted")) == made
    assert (await summary(store, "unlisted")).metadata == METADATA
    await within(store.close())


# --- what owners say


async def test_a_change_changes_what_it_names_alone(store: Store) -> None:
    await within(store.create_thread(replace(thread(), title="A"), METADATA))
    before = await summary(store)
    for change in (
        ThreadChange(),
        ThreadChange(title="B"),
        ThreadChange(metadata={"b": 1}),
        ThreadChange(listed=False),
        ThreadChange(expires_at=77.5),
        ThreadChange(title=None, metadata={}, listed=True, expires_at=None),
        ThreadChange(updated_at=170.5),
    ):
        assert await within(store.update_thread(OWNER, "t1", change))
        fields = {name: getattr(change, name) for name in ("title", "metadata", "listed", "expires_at", "updated_at")}
        before = replace(before, **{name: value for name, value in fields.items() if value is not ABSENT})
        assert await summary(store) == before
    assert not await within(store.update_thread("key-2", "t1", ThreadChange(listed=False)))
    assert await summary(store) == before


async def test_a_hidden_thread_is_not_listed_whatever_is_written(store: Store) -> None:
    await within(store.create_thread(UNLISTED, {}))
    assert await listed(store) == []
    await within(store.begin_run(run(thread_id="unlisted"), replace(UNLISTED, listed=True, hidden=False), keep=1))
    assert await listed(store) == []
    held = await within(store.load_thread(OWNER, "unlisted"))
    assert held is not None
    assert (held.listed, held.hidden) == (False, True)
    await within(store.update_thread(OWNER, "unlisted", ThreadChange(listed=True)))
    assert await listed(store) == ["unlisted"]


async def test_what_an_owner_says_during_a_run_stays_after_it(store: Store) -> None:
    await begin(store)
    change = ThreadChange(title="said", metadata={"a": 1}, listed=False, expires_at=900_000.0)
    await within(store.update_thread(OWNER, "t1", change))
    end = replace(thread(at=200.0), listed=True)
    await within(store.end_run(ended(), end, keep=1, first=1, records=records(1, 1)))
    told = await summary(store)
    assert (told.title, told.metadata, told.listed, told.expires_at) == ("said", {"a": 1}, False, 900_000.0)
    for _ in range(2):  # as it was written, and as it is read
        held = await within(store.load_thread(OWNER, "t1"))
        assert held is not None
        assert (held.title, held.listed, held.hidden, held.expires_at) == ("said", False, True, 900_000.0)
        await within(store.update_thread(OWNER, "t1", ThreadChange()))


async def test_metadata_goes_with_its_thread_and_counts_for_its_site(store: Store) -> None:
    anna = visitor_owner("shop", "a")
    made = thread(owner=anna, count=2)
    size = sum(len(encode_message(each)) for each in made.messages)
    await within(store.create_thread(made, {"a": 1}))
    assert await within(store.stored_bytes("shop")) == size + len(dump_json({"a": 1}))
    await within(store.update_thread(anna, "t1", ThreadChange(metadata=METADATA)))
    assert await within(store.stored_bytes("shop")) == size + len(dump_json(METADATA))
    await within(store.update_thread(anna, "t1", ThreadChange(metadata={})))
    assert await within(store.stored_bytes("shop")) == size
    await within(store.update_thread(anna, "t1", ThreadChange(metadata=METADATA)))
    assert await within(store.delete_thread(anna, "t1"))
    assert await within(store.stored_bytes("shop")) == 0
    await within(store.create_thread(thread(owner=anna), {}))
    assert (await within(store.load_summary(anna, "t1"))) == ThreadSummary(anna, "t1", None, "assistant", 100.0, 100.0)


# --- what expires


async def expired(store: Store, by: float, limit: int = 10) -> list[str]:
    return [thread_id for _, thread_id in await within(store.expired_threads(by=by, limit=limit))]


async def test_threads_that_have_expired_are_found_in_order(store: Store) -> None:
    for name, expires_at in (("b", 20.0), ("a", 10.0), ("never", None), ("c", 30.0)):
        await within(store.create_thread(thread(name), {}))
        await within(store.update_thread(OWNER, name, ThreadChange(expires_at=expires_at)))
    assert await expired(store, 30.0) == ["a", "b"]
    assert await expired(store, 31.0, limit=2) == ["a", "b"]
    assert await expired(store, 1e12) == ["a", "b", "c"]
    await within(store.delete_thread(OWNER, "a"))
    await within(store.update_thread(OWNER, "b", ThreadChange(expires_at=None)))
    await within(store.update_thread(OWNER, "never", ThreadChange(expires_at=5.0)))
    assert await expired(store, 1e12) == ["never", "c"]


async def test_each_write_of_a_thread_that_expires_keeps_it_for_the_least_life(store: Store) -> None:
    await within(store.create_thread(replace(thread(), expires_at=110.0), {}))
    held = await within(store.load_thread(OWNER, "t1"))
    assert held is not None
    assert held.expires_at == 100.0 + LEAST_LIFE_SECONDS
    await within(store.update_thread(OWNER, "t1", ThreadChange(expires_at=110.0)))
    await within(store.begin_run(run(), replace(held, updated_at=105.0), keep=1))
    begun = await within(store.load_thread(OWNER, "t1"))
    assert begun is not None
    assert begun.expires_at == 105.0 + LEAST_LIFE_SECONDS
    await within(store.end_run(ended(), replace(begun, updated_at=500.0), keep=1, first=1, records=records(1, 1)))
    assert (await summary(store)).expires_at == 500.0 + LEAST_LIFE_SECONDS
    late = 500.0 + 2 * LEAST_LIFE_SECONDS
    await within(store.update_thread(OWNER, "t1", ThreadChange(expires_at=late)))
    await within(store.write_thread(replace(begun, updated_at=600.0, messages=messages(2)), keep=1))
    assert (await summary(store)).expires_at == late, "it has longer to live already"


async def test_a_thread_that_waits_for_somebody_lives_longer_until_it_does_not_wait_any_more(store: Store) -> None:
    held = replace(thread(), expires_at=110.0, paused=True)
    await within(store.begin_run(run(), replace(held, paused=False), keep=0))
    await within(store.end_run(ended(), held, keep=1, first=1, records=records(1, 1)))
    waits_until = 100.0 + PAUSED_LIFE_SECONDS
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded is not None
    assert (loaded.paused, (await summary(store)).expires_at) == (True, waits_until)
    assert await expired(store, waits_until) == []
    assert await expired(store, waits_until + 1) == ["t1"]
    await within(store.begin_run(run("r2"), replace(loaded, updated_at=500.0, paused=False), keep=1))
    assert (await summary(store)).expires_at == 500.0 + LEAST_LIFE_SECONDS
    assert await expired(store, 501.0 + LEAST_LIFE_SECONDS) == ["t1"]


async def test_a_paused_thread_that_never_expires_does_not_do_so_later(store: Store) -> None:
    await within(store.create_thread(replace(thread(), paused=True), {}))
    assert (await summary(store)).expires_at is None
    assert await expired(store, 1e12) == []


async def test_a_thread_that_does_not_expire_is_not_made_to_by_a_write(store: Store) -> None:
    await begin(store)
    short = replace(thread(), expires_at=1.0)
    await within(store.end_run(ended(), short, keep=1, first=1, records=records(1, 1)))
    assert (await summary(store)).expires_at is None
    assert await within(store.load_thread(OWNER, "t1")) == thread()
