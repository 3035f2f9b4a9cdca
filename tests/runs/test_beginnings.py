"""Who asked about a thread hears of the runs that begin on it, and nobody else does."""

from __future__ import annotations

from gateway.runs.beginnings import Beginnings
from gateway.store import RunRecord, RunStatus


def record(run_id: str, *, owner: str = "ann", thread_id: str = "t1") -> RunRecord:
    return RunRecord(owner, run_id, thread_id, "agent", RunStatus.RUNNING, created_at=1.0)


def test_a_listener_hears_of_the_runs_on_its_own_thread_alone() -> None:
    beginnings, heard = Beginnings(), list[str]()
    beginnings.listen("ann", "t1", lambda run: heard.append(run.run_id))
    for run in (record("r1"), record("r2", thread_id="t2"), record("r3", owner="bob"), record("r4")):
        beginnings.tell(run)
    assert heard == ["r1", "r4"]


def test_a_listener_that_stopped_hears_nothing_more_and_the_others_do() -> None:
    beginnings, first, second = Beginnings(), list[str](), list[str]()
    stop = beginnings.listen("ann", "t1", lambda run: first.append(run.run_id))
    beginnings.listen("ann", "t1", lambda run: second.append(run.run_id))
    stop()
    beginnings.tell(record("r1"))
    assert (first, second) == ([], ["r1"])


def test_a_listener_may_stop_while_it_hears_of_a_run() -> None:
    beginnings, heard = Beginnings(), list[str]()

    def once(run: RunRecord) -> None:
        heard.append(run.run_id)
        stop()

    stop = beginnings.listen("ann", "t1", once)
    beginnings.tell(record("r1"))
    beginnings.tell(record("r2"))
    assert heard == ["r1"]
