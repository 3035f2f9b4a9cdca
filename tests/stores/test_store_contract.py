"""What every store promises of threads, of order and of itself: the same tests for each of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from gateway.agent import ABSENT
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError, StoreError
from gateway.events import Interrupt, OpenInterrupt
from gateway.messages import Base64Source, ImageBlock, Message, Opaque, TextBlock, ToolCall, ToolResult
from gateway.store import RunStatus, Store, Thread, ThreadChange
from tests.stored_samples import (
    OWNER,
    begin,
    ended,
    logged,
    message,
    messages,
    numbered,
    records,
    run,
    thread,
    within,
)

ODD_IDS = ["a'b\"c;--", "ü/\\ ?#%00", "😀" * 64, "x" * 256, "half \ud83d", "null", " ", "a\u2028b"]


# --- threads


async def test_a_thread_comes_back_as_it_was_given(store: Store) -> None:
    opaque = Opaque("bedrock", "claude", "signature", "c2ln")
    call = ToolCall("c1", "refund", '{"amount": 3', opaque=opaque, provider_call_id="p1")
    said = (
        Message(
            "m1", "user", (TextBlock("Grüße 😀\n\u2028"), ImageBlock(Base64Source("aGk=", "image/png"))), name="Ada"
        ),
        Message("m2", "assistant", (TextBlock("I", index=0), call), turn_id="u1", incomplete=True),
        Message("m3", "tool", (ToolResult("c1", (TextBlock(""),), is_error=True),), metadata={"deep": [{"n": None}]}),
    )
    question = Interrupt("i1", "tool_approval", "May I?", "c1", {"type": "object"}, 1000.5, {"k": 1})
    given = Thread(
        OWNER,
        "t1",
        "assistant",
        100.25,
        200.5,
        "A title",
        said,
        {"a": [1, 2.5, None]},
        (OpenInterrupt(question, call),),
        "r1",
    )
    await within(store.begin_run(run(), given, keep=0))
    assert await within(store.load_thread(OWNER, "t1")) == given


@pytest.mark.parametrize("state", [ABSENT, None, {}, [], 0, "", {"k": "v"}], ids=repr)
async def test_no_state_and_an_empty_state_are_told_apart(store: Store, state: object) -> None:
    given = replace(thread(), state=state)  # type: ignore[arg-type]  # each is a JsonValue
    await within(store.begin_run(run(), given, keep=0))
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded is not None
    assert loaded.state == state
    assert (loaded.state is ABSENT) == (state is ABSENT)


async def test_messages_behind_those_kept_are_replaced(store: Store) -> None:
    await within(store.begin_run(run(), thread(count=4), keep=0))
    edited = (*messages(2), message(7, "edited"))
    await within(store.end_run(ended(), replace(thread(), messages=edited), keep=2, first=1, records=records(1, 1)))
    page = await within(store.list_messages(OWNER, "t1", limit=10, cursor=None))
    assert page.items == edited
    await begin_again(store, replace(thread(), messages=()), keep=0)
    page = await within(store.list_messages(OWNER, "t1", limit=10, cursor=None))
    assert page.items == ()


async def begin_again(store: Store, given: Thread, *, keep: int) -> None:
    await within(store.begin_run(run("r2"), given, keep=keep))


@pytest.mark.parametrize(("keep", "count"), [(4, 5), (3, 2)])
async def test_keeping_messages_that_are_not_stored_changes_nothing(store: Store, keep: int, count: int) -> None:
    await within(store.begin_run(run(), thread(count=3), keep=0))
    with pytest.raises(StoreError):
        await begin_again(store, thread(count=count, text="other"), keep=keep)
    assert await within(store.load_thread(OWNER, "t1")) == thread(count=3)
    assert await within(store.load_run(OWNER, "r2")) is None


async def test_an_unknown_thread_is_none_and_has_no_messages(store: Store) -> None:
    assert await within(store.load_thread(OWNER, "t1")) is None
    page = await within(store.list_messages(OWNER, "t1", limit=10, cursor=None))
    assert (page.items, page.next_cursor) == ((), None)


async def test_a_name_that_was_given_outlives_a_run_that_knew_the_old_one(store: Store) -> None:
    known = replace(thread(), title="old")
    await within(store.begin_run(run(), known, keep=0))
    assert await within(store.update_thread(OWNER, "t1", ThreadChange("new")))
    await within(store.end_run(ended(), known, keep=1, first=1, records=records(1, 1)))
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded is not None
    assert loaded.title == "new"
    assert await within(store.update_thread(OWNER, "t1", ThreadChange(None)))
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded is not None
    assert loaded.title is None


async def test_a_thread_without_a_title_takes_that_of_a_run(store: Store) -> None:
    await begin(store)
    await within(store.end_run(ended(), replace(thread(), title="found"), keep=1, first=1, records=records(1, 1)))
    page = await within(store.list_threads(OWNER, limit=10, cursor=None))
    assert [item.title for item in page.items] == ["found"]


async def test_renaming_or_deleting_an_unknown_thread_is_false(store: Store) -> None:
    assert not await within(store.update_thread(OWNER, "t1", ThreadChange("x")))
    assert not await within(store.delete_thread(OWNER, "t1"))


async def test_deleting_a_thread_takes_its_messages_runs_and_logs(store: Store) -> None:
    for thread_id, run_id in (("t1", "r1"), ("t2", "r2")):
        await begin(store, run_id, thread_id)
        await within(store.append_events(OWNER, run_id, 1, records(1, 3)))
    assert await within(store.delete_thread(OWNER, "t1"))
    assert await within(store.load_thread(OWNER, "t1")) is None
    assert await within(store.load_run(OWNER, "r1")) is None
    assert await logged(store, "r1") == []
    assert await within(store.last_sequence(OWNER, "r1")) == 0
    assert [item.run_id for item in await within(store.unfinished_runs())] == ["r2"]
    assert await logged(store, "r2") == numbered(3)
    assert not await within(store.delete_thread(OWNER, "t1"))


async def test_what_comes_late_for_a_deleted_thread_does_not_bring_it_back(store: Store) -> None:
    await begin(store)
    await within(store.delete_thread(OWNER, "t1"))
    with pytest.raises(NotFoundError):
        await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    with pytest.raises(NotFoundError):
        await within(store.end_run(ended(), thread(), keep=1, first=1, records=records(1, 1)))
    assert await within(store.load_thread(OWNER, "t1")) is None


async def test_ids_of_a_deleted_thread_are_new_again(store: Store) -> None:
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, records(1, 3)))
    await within(store.delete_thread(OWNER, "t1"))
    await begin(store)
    assert await logged(store) == []
    await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    assert await logged(store) == numbered(1)


# --- lists


async def test_threads_are_listed_latest_first_and_page_by_page(store: Store) -> None:
    times = [5.0, 3.0, 3.0, 3.0, 8.0, 1.0, 3.0]
    for number, at in enumerate(times):
        await within(store.begin_run(run(f"r{number}", f"t{number}"), thread(f"t{number}", at=at), keep=0))
    for limit in (1, 2, 3, 7, 50):
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = await within(store.list_threads(OWNER, limit=limit, cursor=cursor))
            assert len(page.items) <= limit
            found += [item.thread_id for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(found) == [f"t{number}" for number in range(7)]
        assert [times[int(name[1:])] for name in found] == sorted(times, reverse=True)


async def test_a_list_of_threads_begins_behind_as_many_as_are_skipped(store: Store) -> None:
    for number in range(5):
        await within(store.begin_run(run(f"r{number}", f"t{number}"), thread(f"t{number}", at=float(number)), keep=0))
    first = await within(store.list_threads(OWNER, limit=2, cursor=None, skip=1))
    assert [item.thread_id for item in first.items] == ["t3", "t2"]
    behind = await within(store.list_threads(OWNER, limit=2, cursor=first.next_cursor, skip=1))
    assert ([item.thread_id for item in behind.items], behind.next_cursor) == (["t0"], None)
    assert (await within(store.list_threads(OWNER, limit=2, cursor=None, skip=2**63))).items == ()


async def test_a_listed_thread_says_what_it_is(store: Store) -> None:
    await within(store.begin_run(run(), replace(thread(), title="T", updated_at=150.0), keep=0))
    (item,) = (await within(store.list_threads(OWNER, limit=1, cursor=None))).items
    assert (item.owner, item.thread_id, item.title, item.agent_id) == (OWNER, "t1", "T", "assistant")
    assert (item.created_at, item.updated_at) == (100.0, 150.0)


async def test_a_thread_that_is_not_listed_is_there_for_who_knows_its_id_until_it_is_listed(store: Store) -> None:
    for number in range(3):
        aside = replace(thread(f"t{number}", at=float(number)), listed=number != 1)
        await within(store.begin_run(run(f"r{number}", f"t{number}"), aside, keep=0))

    async def listed() -> list[str]:
        pages, cursor = list[str](), None
        while True:
            page = await within(store.list_threads(OWNER, limit=1, cursor=cursor))
            pages += [item.thread_id for item in page.items]
            if (cursor := page.next_cursor) is None:
                return pages

    assert await listed() == ["t2", "t0"]
    hidden = await within(store.load_thread(OWNER, "t1"))
    assert hidden is not None
    assert not hidden.listed
    await within(store.end_run(ended("r1", "t1"), replace(hidden, listed=True), keep=1, first=1, records=records(1, 1)))
    assert await listed() == ["t2", "t1", "t0"]


async def test_messages_are_listed_in_order_and_page_by_page(store: Store) -> None:
    await within(store.begin_run(run(), thread(count=7), keep=0))
    for limit in (1, 3, 7, 8):
        found: list[Message] = []
        cursor: str | None = None
        while True:
            page = await within(store.list_messages(OWNER, "t1", limit=limit, cursor=cursor))
            found += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        assert tuple(found) == messages(7)


async def test_a_page_of_messages_ends_early_where_they_are_large(store: Store) -> None:
    large = tuple(Message(f"m{number}", "user", (TextBlock("x" * 1000),)) for number in range(7))
    await within(store.begin_run(run(), replace(thread(), messages=large), keep=0))
    pages: list[int] = []
    found: list[Message] = []
    cursor: str | None = None
    while not pages or cursor is not None:
        page = await within(store.list_messages(OWNER, "t1", limit=5, cursor=cursor, max_bytes=1500))
        pages.append(len(page.items))
        found += page.items
        cursor = page.next_cursor
    assert pages == [2, 2, 2, 1]
    assert tuple(found) == large


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "!!!!", "é", "A" * 10_000, "bQ==", "-1", "\ud83d"], ids=ascii)
async def test_a_cursor_that_was_never_given_is_a_bad_request(store: Store, cursor: str) -> None:
    for work in (
        store.list_threads(OWNER, limit=5, cursor=cursor),
        store.list_messages(OWNER, "t1", limit=5, cursor=cursor),
    ):
        with pytest.raises(InvalidRequestError) as caught:
            await within(work)
        assert caught.value.status == 400


async def test_a_cursor_of_another_list_is_a_bad_request(store: Store) -> None:
    await within(store.begin_run(run(), thread(count=2), keep=0))
    await begin(store, "r2", "t2")
    threads = await within(store.list_threads(OWNER, limit=1, cursor=None))
    said = await within(store.list_messages(OWNER, "t1", limit=1, cursor=None))
    with pytest.raises(InvalidRequestError):
        await within(store.list_messages(OWNER, "t1", limit=1, cursor=threads.next_cursor))
    with pytest.raises(InvalidRequestError):
        await within(store.list_threads(OWNER, limit=1, cursor=said.next_cursor))


# --- who, and in which order


async def test_another_owners_things_are_not_there(store: Store) -> None:
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    assert await within(store.load_thread("key-2", "t1")) is None
    assert await within(store.load_run("key-2", "r1")) is None
    assert (await within(store.list_threads("key-2", limit=9, cursor=None))).items == ()
    assert (await within(store.list_messages("key-2", "t1", limit=9, cursor=None))).items == ()
    assert await logged(store, owner="key-2") == []
    assert await within(store.last_sequence("key-2", "r1")) == 0
    assert not await within(store.update_thread("key-2", "t1", ThreadChange("x")))
    assert not await within(store.delete_thread("key-2", "t1"))
    with pytest.raises(NotFoundError):
        await within(store.append_events("key-2", "r1", 2, records(2, 2)))
    await begin(store, owner="key-2")  # the same ids are another thread and another run
    assert await logged(store, owner="key-2") == []
    assert await within(store.delete_thread("key-2", "t1"))
    assert await within(store.load_thread(OWNER, "t1")) == thread()
    assert await logged(store) == numbered(1)


async def test_ids_may_be_any_text(store: Store) -> None:
    for name in ODD_IDS:
        given = replace(thread(name, owner=name), title=name, agent_id=name, last_run_id=name)
        await within(store.begin_run(run(name, name, owner=name), given, keep=0, records=records(1, 1)))
    for name in ODD_IDS:
        loaded = await within(store.load_thread(name, name))
        assert loaded is not None
        assert (loaded.thread_id, loaded.title, loaded.agent_id, loaded.last_run_id) == (name, name, name, name)
        assert await within(store.load_run(name, name)) == run(name, name, owner=name)
        assert [item.thread_id for item in (await within(store.list_threads(name, limit=9, cursor=None))).items] == [
            name
        ]
        assert await logged(store, name, owner=name) == numbered(1)
        assert await within(store.delete_thread(name, name))


async def test_writes_happen_in_the_order_of_the_calls(store: Store) -> None:
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: store.queue_run(run(status=RunStatus.QUEUED)),
        lambda: store.begin_run(run(), thread(), keep=0),
        lambda: store.append_events(OWNER, "r1", 1, records(1, 1)),
        lambda: store.update_thread(OWNER, "t1", ThreadChange("one")),
        lambda: store.append_events(OWNER, "r1", 2, records(2, 2)),
        lambda: store.end_run(ended(), thread(count=2), keep=1, first=3, records=records(3, 3)),
        lambda: store.begin_run(run("r2"), thread(count=3), keep=2),
        lambda: store.update_thread(OWNER, "t1", ThreadChange("two")),
    ]
    under_way = []
    for call in calls:
        under_way.append(asyncio.ensure_future(call()))
        await asyncio.sleep(0)
    await within(asyncio.gather(*under_way))
    assert await logged(store) == numbered(3)
    loaded = await within(store.load_thread(OWNER, "t1"))
    assert loaded == replace(thread(count=3), title="two")


async def test_a_write_that_fails_is_nobody_elses_failure(store: Store) -> None:
    await begin(store, "r1", "t1")
    await begin(store, "r2", "t2")
    outcomes = await within(
        asyncio.gather(
            store.append_events(OWNER, "r1", 1, records(1, 1)),
            store.begin_run(run("r1"), thread("t1", count=5), keep=0),
            store.begin_run(run("r3", "t3"), thread("t3"), keep=7),
            store.append_events(OWNER, "gone", 1, records(1, 1)),
            store.append_events(OWNER, "r2", 1, records(1, 1)),
            store.begin_run(run("r4", "t4"), thread("t4"), keep=0),
            return_exceptions=True,
        )
    )
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        ConflictError,
        StoreError,
        NotFoundError,
        type(None),
        type(None),
    ]
    assert await logged(store, "r1") == await logged(store, "r2") == numbered(1)
    assert await within(store.load_thread(OWNER, "t1")) == thread("t1")
    assert await within(store.load_thread(OWNER, "t3")) is None
    assert await within(store.load_thread(OWNER, "t4")) == thread("t4")


async def test_a_caller_that_is_cancelled_leaves_a_whole_write(store: Store) -> None:
    task = asyncio.create_task(store.begin_run(run(), thread(count=3), keep=0, records=records(1, 2)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(task)
    await within(store.update_thread(OWNER, "t1", ThreadChange()))  # writes are in order: the one before it is done
    assert await within(store.load_thread(OWNER, "t1")) == thread(count=3)
    assert await logged(store) == numbered(2)


async def test_a_thread_is_always_what_the_last_write_made_it(store: Store) -> None:
    """A walk of 300 writes, some refused, against a plain dictionary."""
    chance = random.Random(5)
    known: dict[str, Thread] = {}
    for step in range(300):
        name = f"t{chance.randrange(4)}"
        before = known.get(name)
        length = len(before.messages) if before else 0
        match chance.randrange(5):
            case 0 | 1:
                keep = chance.randint(0, length)
                said = (before.messages[:keep] if before else ()) + tuple(
                    message(step * 10 + n, f"{step}") for n in range(chance.randrange(4))
                )
                given = replace(
                    thread(name), messages=said, state={"step": step}, title=before.title if before else None
                )
                await within(store.begin_run(run(f"r{step}", name), given, keep=keep))
                known[name] = given
            case 2:
                with pytest.raises(StoreError):
                    await within(store.begin_run(run(f"r{step}", name), thread(name, count=length), keep=length + 1))
            case 3:
                assert await within(store.update_thread(OWNER, name, ThreadChange(f"title {step}"))) == (
                    before is not None
                )
                if before is not None:
                    known[name] = replace(before, title=f"title {step}")
            case _:
                assert await within(store.delete_thread(OWNER, name)) == (before is not None)
                known.pop(name, None)
        reads = await within(asyncio.gather(*[store.load_thread(OWNER, f"t{n}") for n in range(4)]))
        assert reads == [known.get(f"t{n}") for n in range(4)]


async def test_reads_that_race_with_writes_never_leave_an_old_thread_behind(store: Store) -> None:
    await within(store.begin_run(run("r0"), thread(), keep=0))
    for step in range(1, 60):
        await within(
            asyncio.gather(
                store.load_thread(OWNER, "t1"),
                store.begin_run(run(f"r{step}"), thread(count=step + 1), keep=step),
                store.load_thread(OWNER, "t1"),
                store.update_thread(OWNER, "t1", ThreadChange(f"{step}")),
                store.load_thread(OWNER, "t1"),
            )
        )
        loaded = await within(store.load_thread(OWNER, "t1"))
        assert loaded == replace(thread(count=step + 1), title=f"{step}")


# --- open and close


async def test_a_store_that_can_write_passes_its_check(store: Store) -> None:
    await within(asyncio.gather(*[store.check() for _ in range(5)]))


async def test_a_store_that_is_closed_says_so(store: Store) -> None:
    await begin(store)
    await within(store.close())
    with pytest.raises(StoreError):
        await within(store.check())
    with pytest.raises(StoreError):
        await within(store.load_run(OWNER, "r1"))
    with pytest.raises(StoreError):
        await within(store.append_events(OWNER, "r1", 1, records(1, 1)))
    with pytest.raises(StoreError):
        await within(store.begin_run(run("r2"), thread(), keep=0))
    await within(store.close())  # harmless


async def test_closing_writes_what_is_queued(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    await begin(store)
    futures = [store.append_events(OWNER, "r1", number, records(number, number)) for number in (1, 2, 3)]
    await within(store.close())
    assert all(future.done() and future.exception() is None for future in futures)
    store = open_again()
    await within(store.open())
    assert await logged(store) == numbered(3)
    await within(store.close())


async def test_everything_is_there_after_a_restart(open_again: Callable[[], Store]) -> None:
    store = open_again()
    await within(store.open())
    given = replace(thread(count=3), title="T", state={"n": 1})
    await within(store.begin_run(run(), given, keep=0, records=records(1, 2)))
    await within(store.end_run(ended(), given, keep=3, first=3, records=records(3, 3)))
    await begin(store, "r2", "t2")
    await within(store.append_events(OWNER, "r2", 1, records(1, 4)))
    await within(store.close())
    store = open_again()
    await within(store.open())
    assert await within(store.load_thread(OWNER, "t1")) == given
    assert await within(store.load_run(OWNER, "r1")) == ended()
    assert await logged(store) == numbered(3)
    assert [item.run_id for item in await within(store.unfinished_runs())] == ["r2"]
    assert await within(store.last_sequence(OWNER, "r2")) == 4
    failed = replace(ended("r2", "t2"), status=RunStatus.FAILED, error_code="server_restarted")
    await within(store.end_run(failed, thread("t2"), keep=1, first=5, records=records(5, 5)))
    assert await logged(store, "r2") == numbered(5)
    assert await within(store.unfinished_runs()) == []
    await within(store.close())
