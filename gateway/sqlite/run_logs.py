"""Writes and reads the logs of runs within a transaction, and checks that events follow the last one.

Below: event_log, run_rows, writes. Above: the store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gateway.errors import ConflictError, NotFoundError, StoreError
from gateway.records import EventRecords
from gateway.sqlite import event_log, run_rows
from gateway.sqlite.writes import RunLog
from gateway.store import NumberedEvent, RunRecord


def begin(connection: sqlite3.Connection, key: int, records: EventRecords) -> None:
    """Write the first events of a run."""
    if records.count:
        event_log.insert_events(connection, [_event_row(key, 1, records)])


def append(connection: sqlite3.Connection, owner: str, run_id: str, first: int, records: EventRecords) -> None:
    """Write events of a run that has not ended; `first` is the number of the first one.

    Raises:
        StoreError: they do not follow the last event.
        NotFoundError: there is no such run.
        ConflictError: the run has ended.
    """
    key, last = _open_log(connection, owner, run_id)
    if first != last + 1 or not records.count:
        raise out_of_order(run_id, last + 1, first, records)
    event_log.insert_events(connection, [_event_row(key, first, records)])


def out_of_order(run_id: str, expected: int, first: int, records: EventRecords) -> StoreError:
    """The error for events that do not follow the last one."""
    return StoreError(f"run {run_id!r} goes on with event {expected}, not with {records.count} from {first}")


def _open_log(connection: sqlite3.Connection, owner: str, run_id: str) -> tuple[int, int]:
    """The key of a run that has not ended, and the number of its last event."""
    found = run_rows.find_log(connection, owner, run_id)
    if found is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    key, status, last = found
    if status.ended:
        raise ConflictError(f"run {run_id!r} has ended")
    return key, last


def end(connection: sqlite3.Connection, log: RunLog | None, run: RunRecord, first: int, records: EventRecords) -> int:
    """Write the run's last events and its end; gives its key. `log`: the run's state in memory, if any; the tables must
    confirm it.
    """
    if log is not None and records.count and run_rows.end_run(connection, log.key, run, first - 1):
        key = log.key
    else:
        waiting = run_rows.find_waiting(connection, run.owner, run.run_id)
        key, last = _open_log(connection, run.owner, run.run_id) if waiting is None else (waiting, 0)
        if records.count and first != last + 1:
            raise StoreError(f"the log of run {run.run_id!r} ends with event {last}, not before event {first}")
        run_rows.update_run(connection, key, run)
        if waiting is not None:
            run_rows.forget_messages(connection, key)
    if records.count:
        event_log.insert_events(connection, [_event_row(key, first, records)])
    return key


def kept_log(connection: sqlite3.Connection, owner: str, run_id: str) -> int | None:
    """The key of the run, if its log is kept."""
    found = run_rows.find_run(connection, owner, run_id)
    return found[0] if found is not None and found[2] else None


def read_logs(
    connection: sqlite3.Connection, owner: str, run_ids: Sequence[str], limit: int, max_bytes: int
) -> dict[str, list[NumberedEvent]]:
    """As Store.read_logs."""
    found: dict[str, list[NumberedEvent]] = {}
    size = 0
    for run_id in run_ids:
        key = kept_log(connection, owner, run_id)
        if key is not None and 0 < event_log.last_sequence(connection, key) < limit:
            found[run_id], taken = event_log.read_whole(connection, key)
            size += taken
        if size >= max_bytes:
            break
    return found


def _event_row(key: int, first: int, records: EventRecords) -> event_log.EventRow:
    return key, first, first + records.count - 1, records.lines, records.at
