"""What every store promises of what is to be deleted elsewhere because a thread is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gateway.store import DueDeletion, Store
from tests.stored_samples import OWNER, begin, within

FIRST = DueDeletion("d1", "assistant", "https://host/é model \ud83d", ("resp_1", "resp_2", "half \ud83d"), 1000.25)
SECOND = DueDeletion("d2", "another", "", ("resp_3",), 1000.5, 3)


async def test_what_is_due_is_kept_with_the_deletion(store: Store) -> None:
    assert await within(store.due_deletions()) == []
    for thread_id, run_id, due in (("t2", "r2", [SECOND]), ("t1", "r1", [FIRST]), ("t3", "r3", [])):
        await begin(store, run_id, thread_id)
        assert await within(store.delete_thread(OWNER, thread_id, due))
        assert await within(store.load_thread(OWNER, thread_id)) is None
    assert await within(store.due_deletions()) == [FIRST, SECOND]


async def test_nothing_is_due_where_there_is_no_thread(store: Store) -> None:
    assert not await within(store.delete_thread(OWNER, "t1", [FIRST]))
    assert await within(store.due_deletions()) == []


async def test_what_is_due_grows_less_until_it_is_forgotten(store: Store) -> None:
    await begin(store)
    await within(store.delete_thread(OWNER, "t1", [FIRST, SECOND]))
    less = replace(FIRST, names=("resp_2",), tries=1)
    await within(store.update_deletion(less))
    assert await within(store.due_deletions()) == [less, SECOND]
    await within(store.update_deletion(replace(less, names=())))
    assert await within(store.due_deletions()) == [SECOND]


async def test_what_is_done_does_not_become_due_again(store: Store) -> None:
    await within(store.update_deletion(FIRST))
    await within(store.update_deletion(replace(FIRST, names=())))
    assert await within(store.due_deletions()) == []


async def test_what_is_due_outlives_the_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    await begin(store)
    await within(store.delete_thread(OWNER, "t1", [FIRST]))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.due_deletions()) == [FIRST]
    await within(store.close())
