"""What every store promises of runs that are over: what they remember, that they are listed, that one is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import ConflictError, InvalidRequestError
from gateway.events import (
    Cancelled,
    Completed,
    Interrupt,
    Interrupted,
    RemoteError,
    RunFailed,
    RunFinished,
    Usage,
)
from gateway.messages import JsonObject, ToolCall
from gateway.owners import visitor_owner
from gateway.store import RunFilter, RunRecord, RunStatus, Store, Terminal
from tests.pieces import rows_of_pieces
from tests.stored_samples import OWNER, begin, ended, logged, numbered, records, run, thread, within

REQUEST: JsonObject = {"metadata": {"a": "\ud83d"}, "input": ["item_1"], "temperature": 0.5, "large": 2**70}


async def over(store: Store, run_id: str, thread_id: str = "t1", *, owner: str = OWNER) -> RunRecord:
    """A run that has begun, said two things and ended."""
    await begin(store, run_id, thread_id, owner=owner)
    end = ended(run_id, thread_id, owner=owner)
    await within(store.end_run(end, thread(thread_id, owner=owner), keep=1, first=1, records=records(1, 2)))
    return end


async def listed(store: Store, limit: int, owner: str = OWNER, thread_id: str = "t1") -> list[list[str]]:
    """The ids of a thread's runs, by page."""
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = await within(store.list_runs(owner, thread_id, limit=limit, cursor=cursor))
        pages.append([record.run_id for record in page.items])
        if (cursor := page.next_cursor) is None:
            return pages


async def test_a_run_remembers_how_it_was_asked_for_and_what_it_left(store: Store) -> None:
    asked = replace(run(), origin="some_protocol", request=REQUEST)
    await within(store.queue_run(replace(asked, status=RunStatus.QUEUED, started_at=None)))
    await within(store.begin_run(asked, thread(), keep=0))
    assert await within(store.load_run(OWNER, "r1")) == asked
    left = replace(ended(), origin="some_protocol", request=REQUEST, thread_version=3, thread_length=12)
    left = replace(left, last_message_id="half \ud83d")
    await within(store.end_run(left, thread(), keep=1, first=1, records=records(1, 1)))
    assert await within(store.load_run(OWNER, "r1")) == left


_QUESTION = Interrupt("i1", "tool_call", "May I?", "c1", {"type": "object"}, 900.0)
_USAGE = (Usage("openai", "gpt", 3, 4, 1, 2, None),)


@pytest.mark.parametrize(
    ("status", "terminal"),
    [
        (RunStatus.COMPLETED, RunFinished(Completed(), _USAGE)),
        (RunStatus.COMPLETED, RunFinished(Completed((ToolCall("c2", "ask", '{"half": "\ud83d"}'),)))),
        (RunStatus.COMPLETED, RunFinished(Completed(limit="max_iterations"), _USAGE)),
        (RunStatus.INTERRUPTED, RunFinished(Interrupted((_QUESTION,), (ToolCall("c2", "ask", "{}"),)), _USAGE)),
        (RunStatus.CANCELLED, RunFinished(Cancelled())),
        (RunStatus.FAILED, RunFailed("model_timeout", "too slow", _USAGE)),
        (RunStatus.FAILED, RunFailed("model_refused", "no", remote=RemoteError(400, "wrong"))),
    ],
    ids=["completed", "client tools", "limit", "interrupted", "cancelled", "failed", "refused"],
)
@pytest.mark.parametrize("has_custom", [False, True])
async def test_a_run_remembers_the_event_with_which_it_ended(
    store: Store, status: RunStatus, terminal: Terminal, *, has_custom: bool
) -> None:
    end = replace(ended(), status=status, usage=terminal.usage, terminal=terminal, has_custom=has_custom)
    if isinstance(terminal, RunFailed):
        end = replace(end, error_code=terminal.code, error_message=terminal.message)
    await begin(store, "r1")
    await within(store.end_run(end, thread(), keep=1, first=1, records=records(1, 1)))
    assert await within(store.load_run(OWNER, "r1")) == end
    assert (await within(store.list_runs(OWNER, "t1", limit=5, cursor=None))).items == (end,)


async def test_a_threads_runs_are_listed_the_newest_first(store: Store) -> None:
    assert await listed(store, 5) == [[]]
    for number in range(1, 6):
        await over(store, f"r{number}")
    await begin(store, "r6")
    await over(store, "elsewhere", "t2")
    await over(store, "r1", owner="key-2")
    assert await listed(store, 10) == [["r6", "r5", "r4", "r3", "r2", "r1"]]
    assert await listed(store, 4) == [["r6", "r5", "r4", "r3"], ["r2", "r1"]]
    assert await listed(store, 3) == [["r6", "r5", "r4"], ["r3", "r2", "r1"]]
    assert await listed(store, 3, "key-2") == [["r1"]]
    page = await within(store.list_runs(OWNER, "t2", limit=1, cursor=None))
    assert page.items == (ended("elsewhere", "t2"),)


@pytest.mark.parametrize("cursor", ["", "nonsense", "cgAAAAAAAAAB!", "bQAAAAAAAAAB"])
async def test_a_cursor_of_something_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequestError):
        await within(store.list_runs(OWNER, "t1", limit=1, cursor=cursor))


async def asked(
    store: Store,
    run_id: str,
    thread_id: str,
    *,
    ended_at: float | None = None,
    origin: str = "a2a",
    agent_id: str = "assistant",
) -> None:
    """A run that came by a protocol at 100.0, and has ended if it says when."""
    begun = replace(run(run_id, thread_id), origin=origin, agent_id=agent_id)
    await within(store.begin_run(begun, thread(thread_id), keep=0))
    if ended_at is not None:
        end = replace(ended(run_id, thread_id, at=ended_at), origin=origin)
        await within(store.end_run(end, thread(thread_id), keep=1, first=1, records=records(1, 1)))


async def found(store: Store, wanted: RunFilter, limit: int = 10, owner: str = OWNER) -> tuple[list[list[str]], int]:
    pages: list[list[str]] = []
    cursor: str | None = None
    while True:
        page, count = await within(store.find_runs(owner, wanted, limit=limit, cursor=cursor))
        pages.append([record.run_id for record in page.items])
        if (cursor := page.next_cursor) is None:
            return pages, count


async def test_runs_of_a_protocol_are_found_the_one_that_changed_last_first(store: Store) -> None:
    task = RunFilter("a2a", stem=6)
    assert await found(store, task) == ([[]], 0)
    await asked(store, "task_1", "t1", ended_at=500.0)
    await asked(store, "task_2", "t2")
    await asked(store, "task_3", "t1", ended_at=300.0)
    await asked(store, "other", "t1", ended_at=900.0, origin="responses")
    assert await found(store, task) == ([["task_1", "task_3", "task_2"]], 3)
    assert await found(store, task, limit=1) == ([["task_1"], ["task_3"], ["task_2"]], 3)
    assert await found(store, task, owner="key-2") == ([[]], 0)
    assert await found(store, replace(task, thread_id="t1")) == ([["task_1", "task_3"]], 2)
    assert await found(store, replace(task, since=300.0)) == ([["task_1", "task_3"]], 2)
    statuses = frozenset({RunStatus.RUNNING, RunStatus.FAILED})
    assert await found(store, replace(task, statuses=statuses)) == ([["task_2"]], 1)
    assert await found(store, replace(task, statuses=frozenset())) == ([[]], 0)
    assert await found(store, RunFilter("responses", stem=6)) == ([["other"]], 1)
    await asked(store, "task_4", "t2", agent_id="poet")
    assert await found(store, replace(task, agent_id="poet")) == ([["task_4"]], 1)
    assert await found(store, replace(task, agent_id="poet", thread_id="t1")) == ([[]], 0)
    page, _ = await within(store.find_runs(OWNER, task, limit=3, cursor=None))
    behind = [await within(store.find_runs(OWNER, task, limit=1, cursor=cursor)) for cursor in page.cursors]
    assert [[each.run_id for each in next_page.items] for next_page, _ in behind] == [
        ["task_3"],
        ["task_4"],
        ["task_2"],
    ]
    with pytest.raises(InvalidRequestError):
        await within(store.find_runs(OWNER, task, limit=1, cursor="cgAAAAAAAAAB"))


async def test_of_runs_that_are_one_piece_of_work_the_newest_is_found(store: Store) -> None:
    for number, run_id in enumerate(("task_1", "task_2", "task_1_2", "task_1_10", "task_1\u00e9"), 1):
        await asked(store, run_id, "t1", ended_at=100.0 * number)
    await asked(store, "task_2_2", "t1", ended_at=900.0, origin="responses")
    assert await found(store, RunFilter("a2a", stem=6)) == ([["task_1\u00e9", "task_2"]], 2)
    assert await found(store, RunFilter("a2a", stem=6), limit=1) == ([["task_1\u00e9"], ["task_2"]], 2)
    assert await within(store.delete_run(OWNER, "task_1\u00e9"))
    assert await found(store, RunFilter("a2a", stem=6)) == ([["task_1_10", "task_2"]], 2)
    assert await found(store, RunFilter("a2a", stem=6, statuses=frozenset({RunStatus.RUNNING}))) == ([[]], 0)


async def test_runs_that_another_one_followed_on_their_thread_are_found_by_a_status_of_their_own(store: Store) -> None:
    for number, (run_id, thread_id) in enumerate((("task_1", "t1"), ("task_2", "t2"), ("task_3", "t3"))):
        await asked(store, run_id, thread_id, ended_at=200.0 + number)
    await asked(store, "other", "t2", origin="ag_ui")
    followed = frozenset({RunStatus.COMPLETED})
    wanted = RunFilter("a2a", stem=6, statuses=frozenset({RunStatus.RUNNING}), followed=followed)
    assert await found(store, wanted) == ([["task_2"]], 1)
    await asked(store, "task_4", "t3")
    assert await found(store, wanted, limit=1) == ([["task_3"], ["task_2"], ["task_4"]], 3)
    assert await found(store, replace(wanted, statuses=frozenset())) == ([["task_3", "task_2"]], 2)


async def test_runs_whose_number_is_known_are_not_counted(store: Store) -> None:
    for number in (1, 2):
        await asked(store, f"task_{number}", f"t{number}")
    wanted = RunFilter("a2a", stem=6)
    for limit in (1, 2):
        _, total = await within(store.find_runs(OWNER, wanted, limit=limit, cursor=None, total=7))
        assert total == 7


async def test_a_run_that_is_deleted_goes_with_its_log_alone(store: Store) -> None:
    await over(store, "r1")
    await over(store, "r2")
    held = await within(store.load_thread(OWNER, "t1"))
    assert await within(store.delete_run(OWNER, "r1"))
    assert await within(store.load_run(OWNER, "r1")) is None
    assert await logged(store) == []
    assert await listed(store, 5) == [["r2"]]
    assert await logged(store, "r2") == numbered(2)
    assert await within(store.load_thread(OWNER, "t1")) == held
    assert not await within(store.delete_run(OWNER, "r1"))
    assert not await within(store.delete_run("key-2", "r2"))
    await over(store, "r1")
    assert await logged(store) == numbered(2), "its id is free again"


async def test_a_run_that_has_not_ended_is_not_deleted(store: Store) -> None:
    await within(store.queue_run(run("waits", "t2", status=RunStatus.QUEUED)))
    await begin(store)
    await within(store.append_events(OWNER, "r1", 1, records(1, 2)))
    for run_id in ("waits", "r1"):
        with pytest.raises(ConflictError):
            await within(store.delete_run(OWNER, run_id))
    assert await logged(store) == numbered(2)
    assert len(await within(store.unfinished_runs())) == 2


async def test_the_bytes_of_a_deleted_run_are_a_sites_no_more(store: Store) -> None:
    anna = visitor_owner("shop", "a")
    await begin(store, owner=anna)
    before = await within(store.stored_bytes("shop"))
    end = ended(owner=anna, at=100.0)
    await within(store.end_run(end, thread(owner=anna), keep=1, first=1, records=records(1, 2)))
    assert await within(store.stored_bytes("shop")) > before
    assert await within(store.delete_run(anna, "r1"))
    assert await within(store.stored_bytes("shop")) == before
    await over(store, "r2", owner=anna)
    assert await within(store.remove_logs(finished_before=1000.0)) == 1
    assert await within(store.delete_run(anna, "r2"))
    assert await within(store.stored_bytes("shop")) == before, "a log that was gone already"


async def test_events_keep_the_times_at_which_they_came(store: Store) -> None:
    await within(store.begin_run(run(), thread(), keep=0, records=replace(records(1, 2), at=10.25)))
    later = [replace(records(3, 3), at=20.5), replace(records(4, 4), at=20.75)]
    for first, said in enumerate(later, 3):
        await within(store.append_events(OWNER, "r1", first, said))
    # In one commit, and so with one time, the first's:
    store.append_events(OWNER, "r1", 5, replace(records(5, 5), at=25.0))
    await within(store.append_events(OWNER, "r1", 6, replace(records(6, 6), at=26.0)))
    await within(store.end_run(ended(), thread(), keep=1, first=7, records=records(7, 7)))
    rows = rows_of_pieces(await within(store.read_events(OWNER, "r1", after=0, limit=100)))
    assert [row.at for row in rows] == [10.25, 10.25, 20.5, 20.75, 25.0, 25.0, None]
