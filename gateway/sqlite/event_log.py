"""The runs' events as rows: one row for one run's events in one commit.

Below: records. Above: group_commit and the store. A log is deleted in two steps: the run is marked, so that readers no
longer see its log; then its rows are deleted a slice at a time, so that no other write waits long.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from gateway.sqlite.stored_bytes import discount_logs
from gateway.store import NumberedEvent
from gateway.store.log_lines import numbered_events, without_words

# run key, number of the first event, of the last, their lines and time (records.EventRecords)
EventRow: TypeAlias = tuple[int, int, int, bytes, float | None]

SLICE_RUNS = 100
SLICE_ROWS = 500

# How many rows one statement inserts: each statement releases the GIL, and under load taking it again costs a wait.
_STATEMENT_ROWS = (64, 16, 4, 1)
_INSERT = {
    count: "INSERT INTO events (run, first, last, records, at) VALUES " + ", ".join(["(?, ?, ?, ?, ?)"] * count)
    for count in _STATEMENT_ROWS
}

# From the row that contains the event after `after`.
_READ = """
    SELECT first, records, at FROM events
    WHERE run = :run AND first >= coalesce((SELECT max(first) FROM events WHERE run = :run AND first <= :after + 1), 0)
    ORDER BY first
"""


def insert_events(connection: sqlite3.Connection, rows: Sequence[EventRow]) -> None:
    """Insert the rows; each begins with its run's key."""
    if len(rows) == 1:  # the usual case: only one run is writing
        connection.execute(_INSERT[1], rows[0])
        return
    start = 0
    for count in _STATEMENT_ROWS:
        while len(rows) - start >= count:
            values = [value for row in rows[start : start + count] for value in row]
            connection.execute(_INSERT[count], values)
            start += count


def read_events(connection: sqlite3.Connection, run: int, after: int, limit: int) -> list[NumberedEvent]:
    """The first `limit` events whose number is greater than `after`."""
    found: list[NumberedEvent] = []
    for event in _events(connection, run, after):
        found.append(event)
        if event.last >= max(after, 0) + limit:
            break
    return found


def erase_words(connection: sqlite3.Connection, run: int, message_ids: frozenset[str]) -> None:
    """Remove the text from these messages' deltas, and their media. The events keep their numbers;
    clients no longer see them.
    """
    for first, lines in connection.execute("SELECT first, records FROM events WHERE run = ?", (run,)).fetchall():
        erased = without_words(lines, message_ids)
        if erased is not lines:
            connection.execute("UPDATE events SET records = ? WHERE run = ? AND first = ?", (erased, run, first))


def last_sequence(connection: sqlite3.Connection, run: int) -> int:
    """The number of the last event; 0 when there is none."""
    row = connection.execute("SELECT last FROM events WHERE run = ? ORDER BY first DESC LIMIT 1", (run,)).fetchone()
    return 0 if row is None else int(row[0])


def read_whole(connection: sqlite3.Connection, run: int) -> tuple[list[NumberedEvent], int]:
    """All events of a run, and how many bytes they take."""
    rows = connection.execute(_READ, {"run": run, "after": 0}).fetchall()
    return [*_numbered(rows, 0)], sum(len(lines) for _, lines, _ in rows)


def forget_logs(connection: sqlite3.Connection, finished_before: float) -> int:
    """Mark as deleted the logs of some runs that ended before this time. Gives how many; 0 when none are left."""
    keys = connection.execute(
        "SELECT key FROM runs WHERE log_kept = 1 AND finished_at < ? AND status NOT IN ('queued', 'running')"
        " ORDER BY finished_at LIMIT ?",
        (finished_before, SLICE_RUNS),
    ).fetchall()
    discount_logs(connection, [key for (key,) in keys])
    connection.executemany("INSERT INTO forgotten_logs (run) VALUES (?)", keys)
    connection.executemany("UPDATE runs SET log_kept = 0 WHERE key = ?", keys)
    return len(keys)


def sweep_forgotten(connection: sqlite3.Connection) -> bool:
    """Delete a slice of the marked logs. Gives whether there are more."""
    row = connection.execute("SELECT run FROM forgotten_logs LIMIT 1").fetchone()
    if row is None:
        return False
    deleted = connection.execute(
        "DELETE FROM events WHERE run = :run AND first IN (SELECT first FROM events WHERE run = :run LIMIT :rows)",
        {"run": row[0], "rows": SLICE_ROWS},
    ).rowcount
    if deleted < SLICE_ROWS:
        connection.execute("DELETE FROM forgotten_logs WHERE run = ?", row)
    return True


def _events(connection: sqlite3.Connection, run: int, after: int) -> Iterator[NumberedEvent]:
    return _numbered(connection.execute(_READ, {"run": run, "after": after}), after)


def _numbered(rows: Iterable[tuple[int, bytes, float | None]], after: int) -> Iterator[NumberedEvent]:
    for first, lines, at in rows:
        yield from numbered_events(first, lines, at, after)
