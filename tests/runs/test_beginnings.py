"""Who asked about a thread hears of the runs that begin on it, and nobody else does."""

from __future__ import annotations

from pathlib import Path

from gateway.runs.beginnings import Beginnings
from gateway.store import RunRecord, RunStatus
from tests.stored_samples import memory_store


def record(run_id: str, *, owner: str = "ann", thread_id: str = "t1") -> RunRecord:
    return RunRecord(owner, run_id, thread_id, "agent", RunStatus.RUNNING, created_at=1.0)


def _beginnings() -> Beginnings:
    return Beginnings(memory_store(Path()), lambda owner, thread_id: False)


async def test_a_listener_hears_of_the_runs_on_its_own_thread_alone() -> None:
    beginnings, heard = _beginnings(), list[str]()
    await beginnings.listen("ann", "t1", lambda run: heard.append(run.run_id))
    for run in (record("r1"), record("r2", thread_id="t2"), record("r3", owner="bob"), record("r4")):
        beginnings.tell(run)
    assert heard == ["r1", "r4"]


async def test_a_listener_that_stopped_hears_nothing_more_and_the_others_do() -> None:
    beginnings, first, second = _beginnings(), list[str](), list[str]()
    stop = await beginnings.listen("ann", "t1", lambda run: first.append(run.run_id))
    await beginnings.listen("ann", "t1", lambda run: second.append(run.run_id))
    stop()
    beginnings.tell(record("r1"))
    assert (first, second) == ([], ["r1"])


async def test_a_listener_may_stop_while_it_hears_of_a_run() -> None:
    beginnings, heard = _beginnings(), list[str]()

    def once(run: RunRecord) -> None:
        heard.append(run.run_id)
        stop()

    stop = await beginnings.listen("ann", "t1", once)
    beginnings.tell(record("r1"))
    beginnings.tell(record("r2"))
    assert heard == ["r1"]


async def test_who_listens_is_told_once_that_the_thread_is_lost_and_listens_no_more() -> None:
    beginnings, heard = _beginnings(), list[str]()
    stop = await beginnings.listen(
        "ann", "t1", lambda run: heard.append(run.run_id), lambda: heard.append("lost the first")
    )
    await beginnings.listen("ann", "t2", lambda run: heard.append(run.run_id))
    beginnings.give_up()
    again = await beginnings.listen("ann", "t1", lambda run: heard.append(f"{run.run_id} again"))
    stop()
    beginnings.tell(record("r1"))
    beginnings.tell(record("r2", thread_id="t2"))
    assert heard == ["lost the first", "r1 again"]
    again()
    assert not beginnings.are_awaited("ann", "t1")
