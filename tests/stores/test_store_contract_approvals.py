"""What every store promises of interrupts that wait for an answer, and of runs that clients know by one id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gateway.errors import InvalidRequestError
from gateway.events import Interrupt, OpenInterrupt
from gateway.messages import ToolCall
from gateway.store import Approval, Store
from tests.stored_samples import OWNER, begin, run, thread, within

NOW = 1_000.0


def asked(name: str, expires_at: float | None = NOW + 1) -> OpenInterrupt:
    call = ToolCall(f"call-{name}", "refund", "{}")
    interrupt = Interrupt(f"int-{name}", "tool_call", "Refund?", call.call_id, expires_at=expires_at)
    return OpenInterrupt(interrupt, call, f"approval-{name}", "assistant", 900.0)


async def ask(store: Store, *interrupts: OpenInterrupt, thread_id: str = "t1", run_id: str = "r1") -> None:
    """A run on the thread, and these interrupts wait from then on."""
    given = replace(thread(thread_id), interrupts=interrupts)
    await within(store.begin_run(run(run_id, thread_id), given, keep=0))


async def waiting(store: Store, *, now: float = NOW, limit: int = 100) -> list[Approval]:
    return [*(await within(store.list_approvals(now=now, limit=limit, cursor=None))).items]


async def test_what_waits_is_listed_in_the_order_in_which_it_was_asked(store: Store) -> None:
    assert await waiting(store) == []
    await ask(store, asked("b"), asked("a"), thread_id="t2", run_id="r1")
    await ask(store, asked("c", None), thread_id="t1", run_id="r2")
    assert await waiting(store) == [
        Approval(OWNER, "t2", asked("b")),
        Approval(OWNER, "t2", asked("a")),
        Approval(OWNER, "t1", asked("c", None)),
    ]


async def test_what_waits_is_listed_page_by_page(store: Store) -> None:
    names = [f"{number}" for number in range(5)]
    for name in names:
        await ask(store, asked(name), thread_id=f"t{name}", run_id=f"r{name}")
    seen, cursor = [], None
    for size in (2, 2, 1):
        page = await within(store.list_approvals(now=NOW, limit=2, cursor=cursor))
        assert len(page.items) == size
        seen += [item.asked.approval_id for item in page.items]
        cursor = page.next_cursor
    assert seen == [f"approval-{name}" for name in names]
    assert cursor is None


async def test_what_has_expired_is_not_listed(store: Store) -> None:
    await ask(store, asked("old", NOW), asked("new", NOW + 0.5))
    assert [item.asked.approval_id for item in await waiting(store)] == ["approval-new"]
    assert await waiting(store, now=NOW + 1) == []


async def test_what_was_answered_waits_no_more_and_is_still_found(store: Store) -> None:
    await ask(store, asked("a"), asked("b"))
    await ask(store, asked("b"), asked("c"), run_id="r2")
    assert [item.asked.approval_id for item in await waiting(store)] == ["approval-b", "approval-c"]
    for name in "abc":
        assert await within(store.find_approval(f"approval-{name}")) == (OWNER, "t1")
    await ask(store, run_id="r3")
    assert await waiting(store) == []
    assert await within(store.find_approval("approval-c")) == (OWNER, "t1")
    assert await within(store.find_approval("approval-d")) is None


async def test_what_waits_goes_with_its_thread(store: Store) -> None:
    await ask(store, asked("a"))
    await ask(store, asked("b"), thread_id="t2", run_id="r2")
    assert await within(store.delete_thread(OWNER, "t1"))
    assert [item.asked.approval_id for item in await waiting(store)] == ["approval-b"]
    assert await within(store.find_approval("approval-a")) is None


async def test_an_interrupt_from_before_there_were_approvals_is_none(store: Store) -> None:
    await ask(store, replace(asked("a"), approval_id=""))
    assert await waiting(store) == []
    assert await within(store.list_interrupts(OWNER, "t1")) == (replace(asked("a"), approval_id=""),)


async def test_a_cursor_of_another_list_is_a_bad_request(store: Store) -> None:
    await ask(store)
    await ask(store, thread_id="t2", run_id="r2")
    other = (await within(store.list_threads(OWNER, limit=1, cursor=None))).next_cursor
    assert other is not None
    for cursor in (other, "", "%%%"):
        with pytest.raises(InvalidRequestError):
            await within(store.list_approvals(now=NOW, limit=1, cursor=cursor))


async def test_a_threads_interrupts_are_read_without_its_messages(store: Store) -> None:
    await ask(store, asked("a"), asked("b", NOW - 1))
    assert await within(store.list_interrupts(OWNER, "t1")) == (asked("a"), asked("b", NOW - 1))
    assert await within(store.list_interrupts(OWNER, "t2")) is None
    assert await within(store.list_interrupts("key-2", "t1")) is None


async def test_approvals_outlive_the_process(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    await ask(store, asked("a"))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await waiting(store) == [Approval(OWNER, "t1", asked("a"))]
    await within(store.close())


# --- runs of one id


async def test_the_runs_that_clients_know_by_one_id_are_listed_newest_first(store: Store) -> None:
    assert await within(store.runs_known_as(OWNER, "r1")) == []
    await begin(store)
    again = [replace(run(f"own{number}"), reused_id="r1") for number in range(2)]
    for record in again:
        await within(store.begin_run(record, thread(), keep=0))
    await begin(store, "r2")
    assert await within(store.runs_known_as(OWNER, "r1")) == [again[1], again[0], run()]
    assert await within(store.runs_known_as(OWNER, "r2")) == [run("r2")]
    assert await within(store.runs_known_as(OWNER, "own0")) == [], "clients know it by another id"
    assert await within(store.runs_known_as("key-2", "r1")) == []
    assert await within(store.load_run(OWNER, "own0")) == again[0]
    assert await within(store.load_run(OWNER, "r1")) == run()
    assert [record.client_id for record in await within(store.unfinished_runs())] == ["r1", "r1", "r1", "r2"]
