"""Runs as rows.

Below: row_values, the contract's data. Above: the store. Every function takes a connection inside a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from gateway.errors import ConflictError
from gateway.events import Usage
from gateway.frozen import replace
from gateway.messages import Message
from gateway.records import (
    decode_events,
    decode_message,
    dump_json,
    encode_message,
    encode_record,
    join_records,
    load_json,
    split_records,
)
from gateway.sqlite import stored_bytes
from gateway.sqlite.row_values import (
    from_optional_text,
    from_text,
    to_optional_text,
    to_text,
)
from gateway.sqlite.schema import CHANGED_AT
from gateway.store import RunFilter, RunRecord, RunStatus, Terminal
from gateway.store.transfer import MovedRun

_RUN_COLUMNS = (
    "owner, id, thread_id, agent_id, input_digest, created_at, reused_id, origin, request, status, started_at,"
    " finished_at, error_code, error_message, usage, thread_version, thread_length, last_message_id, terminal,"
    " has_custom"
)
_NEXT_RUN_KEY = "1 + max(ifnull((SELECT max(key) FROM runs), 0), ifnull((SELECT max(run) FROM forgotten_logs), 0))"
_INSERT_RUN = f"INSERT INTO runs (key, {_RUN_COLUMNS}, log_kept) VALUES ({_NEXT_RUN_KEY}, {', '.join('?' * 20)}, 1)"
# Only the run's state changes. Columns that cannot change are left out: setting them would rewrite their index entries.
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, started_at = ?, finished_at = ?, error_code = ?, error_message = ?, usage = ?,"
    " thread_version = ?, thread_length = ?, last_message_id = ?, terminal = ?,"
    " has_custom = ? WHERE key = ?"
)
# Only if the run has not ended and its log ends at this number.
_END_RUN = (
    f"{_UPDATE_RUN} AND id = ? AND status IN ('queued', 'running')"
    " AND ifnull((SELECT last FROM events WHERE run = key ORDER BY first DESC LIMIT 1), 0) = ?"
)
# Also a run that has left the queue, as long as it has no start.
_FIND_WAITING = "SELECT key FROM runs WHERE owner = ? AND id = ? AND (status = 'queued' OR started_at IS NULL)"
_FIND_LOG = (
    "SELECT key, status, ifnull((SELECT last FROM events WHERE run = key ORDER BY first DESC LIMIT 1), 0) FROM runs"
    " WHERE owner = ? AND id = ?"
)
# Each half of the union uses its own index.
_WAITING_RUNS = (
    f"SELECT {_RUN_COLUMNS}, waiting_messages FROM runs WHERE key IN ("
    "SELECT key FROM runs WHERE log_kept = 1 AND finished_at IS NULL AND status = 'queued'"
    " UNION SELECT key FROM runs WHERE waiting_messages IS NOT NULL) ORDER BY key"
)
_RUNS_OF_CLIENT = (
    f"SELECT {_RUN_COLUMNS}, key FROM runs WHERE owner = ? AND id = ? AND reused_id IS NULL"
    f" UNION ALL SELECT {_RUN_COLUMNS}, key FROM runs WHERE owner = ? AND reused_id = ?"
    " ORDER BY key DESC LIMIT ?"
)
_RUNS_OF_THREAD = (
    f"SELECT {_RUN_COLUMNS}, key FROM runs WHERE owner = ? AND thread_id = ? AND key < ? ORDER BY key DESC LIMIT ?"
)
# Whether a run is the newest of those whose ids begin with the same `stem` characters. An id may be shorter.
_IS_NEWEST = (
    "NOT EXISTS (SELECT 1 FROM runs AS later WHERE later.owner = runs.owner AND later.key > runs.key"
    " AND later.id >= substr(runs.id, 1, :stem) AND later.id < substr(runs.id, 1, :stem) || char(1114111)"
    " AND substr(later.id, 1, :stem) = substr(runs.id, 1, :stem) AND later.origin = runs.origin)"
)
# The same for all of an owner's runs at once, which takes half the time of a look-up for each run. Of two runs that
# share a beginning, one has an id that is longer than it, and few runs have such an id.
_IS_NEWEST_OF_ALL = (
    "key NOT IN (SELECT min(runs.key, other.key) FROM runs JOIN runs AS other ON other.owner = runs.owner"
    " AND other.id >= substr(runs.id, 1, :stem) AND other.id < substr(runs.id, 1, :stem) || char(1114111)"
    " AND substr(other.id, 1, :stem) = substr(runs.id, 1, :stem) AND other.key != runs.key"
    " AND other.origin = runs.origin WHERE runs.owner = :owner AND {origin} AND length(runs.id) > :stem)"
)
_IS_FOLLOWED = (
    "EXISTS (SELECT 1 FROM runs AS next WHERE next.owner = runs.owner AND next.thread_id = runs.thread_id"
    " AND next.key > runs.key)"
)


def find_run(connection: sqlite3.Connection, owner: str, run_id: str) -> tuple[int, RunStatus, bool] | None:
    """The run's key, its status, and whether its log is kept."""
    row = connection.execute(
        "SELECT key, status, log_kept FROM runs WHERE owner = ? AND id = ?", (to_text(owner), to_text(run_id))
    ).fetchone()
    return None if row is None else (int(row[0]), RunStatus(row[1]), bool(row[2]))


def find_log(connection: sqlite3.Connection, owner: str, run_id: str) -> tuple[int, RunStatus, int] | None:
    """The run's key, its status, and the number of its last event, 0 for none."""
    row = connection.execute(_FIND_LOG, (to_text(owner), to_text(run_id))).fetchone()
    return None if row is None else (int(row[0]), RunStatus(row[1]), int(row[2]))


def read_run(connection: sqlite3.Connection, owner: str, run_id: str) -> RunRecord | None:
    row = connection.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs WHERE owner = ? AND id = ?", (to_text(owner), to_text(run_id))
    ).fetchone()
    return None if row is None else _run_record(row)


def read_known_as(connection: sqlite3.Connection, owner: str, client_id: str, limit: int = -1) -> list[RunRecord]:
    """The runs that the client calls by this id, newest first: all of them, or the first `limit`."""
    ids = (to_text(owner), to_text(client_id))
    rows = connection.execute(_RUNS_OF_CLIENT, (*ids, *ids, limit)).fetchall()
    return [_run_record(row[:-1]) for row in rows]


def read_runs(
    connection: sqlite3.Connection, owner: str, thread_id: str, limit: int, before: int
) -> list[tuple[int, RunRecord]]:
    """The thread's runs whose keys are below `before`, with their keys, newest first."""
    rows = connection.execute(_RUNS_OF_THREAD, (to_text(owner), to_text(thread_id), before, limit)).fetchall()
    return [(row[-1], _run_record(row[:-1])) for row in rows]


def find_runs(
    connection: sqlite3.Connection,
    owner: str,
    wanted: RunFilter,
    limit: int,
    before: tuple[float, int] | None,
    total: int | None = None,
) -> tuple[list[tuple[int, RunRecord]], int]:
    """The wanted runs after the (time, key) of `before`, with their keys, the latest change first: one more than
    `limit`, if there are so many. And the number of all wanted runs: `total`, if the caller gives it.
    """
    where, values = _wanted(owner, wanted)
    if before is not None:
        where += f" AND ({CHANGED_AT}, key) < (:before, :before_key)"
        values |= {"before": before[0], "before_key": before[1]}
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS}, key FROM runs WHERE {where} ORDER BY {CHANGED_AT} DESC, key DESC LIMIT :limit",
        {**values, "limit": limit + 1},
    ).fetchall()
    if total is None:
        are_all = before is None and len(rows) <= limit
        total = len(rows) if are_all else _count_runs(connection, owner, wanted)
    return [(row[-1], _run_record(row[:-1])) for row in rows], total


def _count_runs(connection: sqlite3.Connection, owner: str, wanted: RunFilter) -> int:
    where, values = _wanted(owner, wanted, of_all=wanted.thread_id is None)
    return int(connection.execute(f"SELECT count(*) FROM runs WHERE {where}", values).fetchone()[0])


def _wanted(owner: str, wanted: RunFilter, *, of_all: bool = False) -> tuple[str, dict[str, object]]:
    """The SQL condition for the wanted runs, with its values. `of_all`: nearly all the owner's runs are tested."""
    # The origin is a constant, not a parameter: otherwise SQLite does not use the partial index.
    origin = "origin = '{}'".format(wanted.origin.replace("'", "''"))
    where = [f"owner = :owner AND {origin}"]
    values: dict[str, object] = {"owner": to_text(owner), "stem": wanted.stem}
    if wanted.thread_id is not None:
        where.append("thread_id = :thread_id")
        values["thread_id"] = to_text(wanted.thread_id)
    if wanted.agent_id is not None:
        where.append("agent_id = :agent_id")
        values["agent_id"] = to_text(wanted.agent_id)
    if wanted.since is not None:
        where.append(f"{CHANGED_AT} >= :since")
        values["since"] = wanted.since
    if wanted.statuses is not None:
        has_status = _one_of("status", wanted.statuses, values)
        if wanted.followed:
            has_status = f"({has_status} OR ({_one_of('followed', wanted.followed, values)} AND {_IS_FOLLOWED}))"
        where.append(has_status)
    is_newest = _IS_NEWEST_OF_ALL.format(origin=f"runs.{origin}") if of_all else _IS_NEWEST
    return " AND ".join([*where, is_newest]), values


def _one_of(name: str, statuses: Collection[RunStatus], values: dict[str, object]) -> str:
    """The SQL condition that the status is one of these; its values are added to `values`."""
    named = {f"{name}{number}": status.value for number, status in enumerate(sorted(statuses))}
    values |= named
    return f"status IN ({', '.join(f':{each}' for each in named)})"


def read_unfinished_runs(connection: sqlite3.Connection) -> list[RunRecord]:
    """Runs that are queued or running, oldest first."""
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs"
        " WHERE log_kept = 1 AND finished_at IS NULL AND status IN ('queued', 'running') ORDER BY key"
    ).fetchall()
    return [_run_record(row) for row in rows]


def read_waiting_runs(connection: sqlite3.Connection) -> list[tuple[RunRecord, tuple[Message, ...]]]:
    """Runs that wait, or whose messages wait, with these messages; the one that was queued first is the first."""
    rows = connection.execute(_WAITING_RUNS).fetchall()
    return [(_run_record(row), _messages(messages)) for *row, messages in rows]


def read_every_run(connection: sqlite3.Connection) -> Iterator[tuple[int, MovedRun]]:
    """All runs with their keys, in the order of these."""
    rows = connection.execute(f"SELECT key, log_kept, waiting_messages, {_RUN_COLUMNS} FROM runs ORDER BY key")
    for key, log_kept, waiting_messages, *row in rows:
        yield key, MovedRun(_run_record(row), bool(log_kept), waiting_messages)


def restore_run(connection: sqlite3.Connection, moved: MovedRun) -> int:
    """Insert a run of another store; gives its key."""
    key = insert_run(connection, moved.run)
    if moved.waiting_messages is not None or not moved.has_log:
        state = (moved.waiting_messages, moved.has_log, key)
        connection.execute("UPDATE runs SET waiting_messages = ?, log_kept = ? WHERE key = ?", state)
    return key


def _messages(lines: bytes | None) -> tuple[Message, ...]:
    return () if lines is None else tuple([decode_message(line) for line in lines.split(b"\n")])


def queue_run(connection: sqlite3.Connection, run: RunRecord, messages: Sequence[Message]) -> None:
    """Insert a run that waits with these messages; or write the end of a run that waited, whose messages stay.

    Raises:
        ConflictError: there is a run with this id that does not wait.
    """
    if run.status is not RunStatus.QUEUED:
        _insert_or_update(connection, run)
        return
    key = insert_run(connection, run)
    if messages:
        lines = b"\n".join(map(encode_message, messages))
        connection.execute("UPDATE runs SET waiting_messages = ? WHERE key = ?", (lines, key))


def forget_messages(connection: sqlite3.Connection, key: int) -> None:
    """Remove the run's waiting messages."""
    connection.execute("UPDATE runs SET waiting_messages = NULL WHERE key = ?", (key,))


def insert_run(connection: sqlite3.Connection, run: RunRecord) -> int:
    """Insert a new run; gives its key.

    Raises:
        ConflictError: there is a run with this id.
    """
    try:
        return connection.execute(_INSERT_RUN, _run_values(run)).lastrowid or 0
    except sqlite3.IntegrityError as error:
        raise ConflictError(f"run {run.run_id!r} exists already; use another id") from error


def update_run(connection: sqlite3.Connection, key: int, run: RunRecord) -> None:
    """Write the run's state."""
    connection.execute(_UPDATE_RUN, (*_state_values(run), key))


def end_run(connection: sqlite3.Connection, key: int, run: RunRecord, last: int) -> bool:
    """Write the run's state if it has not ended and its last event is number `last`. Gives whether it was written."""
    values = (*_state_values(run), key, to_text(run.run_id), last)
    return connection.execute(_END_RUN, values).rowcount == 1


def start_run(connection: sqlite3.Connection, run: RunRecord) -> int:
    """Insert a new run, or start a waiting one; gives its key.

    Raises:
        ConflictError: the run has begun.
    """
    key, waited = _insert_or_update(connection, run)
    if waited:
        forget_messages(connection, key)
    return key


def find_waiting(connection: sqlite3.Connection, owner: str, run_id: str) -> int | None:
    """The key of the run, if it waits, or has left the queue and has not begun."""
    row = connection.execute(_FIND_WAITING, (to_text(owner), to_text(run_id))).fetchone()
    return None if row is None else int(row[0])


def _insert_or_update(connection: sqlite3.Connection, run: RunRecord) -> tuple[int, bool]:
    """Insert the run, or update it if it waits. Gives its key, and whether it has waited."""
    try:
        return insert_run(connection, run), False
    except ConflictError:
        key = find_waiting(connection, run.owner, run.run_id)
        if key is None:
            raise
        update_run(connection, key, run)
        return key, True


def delete_run(connection: sqlite3.Connection, owner: str, run_id: str) -> bool:
    """Delete the run and mark its log as deleted (see event_log); False where there is no such run.

    Raises:
        ConflictError: the run has not ended.
    """
    found = find_run(connection, owner, run_id)
    if found is None:
        return False
    key, status, log_kept = found
    if not status.ended:
        raise ConflictError(f"run {run_id!r} has not ended")
    if log_kept:
        stored_bytes.discount_logs(connection, [key])
    connection.execute("INSERT OR IGNORE INTO forgotten_logs (run) VALUES (?)", (key,))
    connection.execute("DELETE FROM runs WHERE key = ?", (key,))
    return True


def _run_values(run: RunRecord) -> tuple[object, ...]:
    return (
        to_text(run.owner),
        to_text(run.run_id),
        to_text(run.thread_id),
        to_text(run.agent_id),
        to_text(run.input_digest),
        run.created_at,
        to_optional_text(run.reused_id),
        run.origin,
        None if run.request is None else dump_json(run.request),
        *_state_values(run),
    )


def _state_values(run: RunRecord) -> tuple[object, ...]:
    return (
        run.status.value,
        run.started_at,
        run.finished_at,
        to_optional_text(run.error_code),
        to_optional_text(run.error_message),
        join_records(run.usage),
        run.thread_version,
        run.thread_length,
        to_optional_text(run.last_message_id),
        _terminal_value(run),
        run.has_custom,
    )


def _terminal_value(run: RunRecord) -> bytes | None:
    """The terminal event as it is stored: empty if it follows from the run's other columns."""
    if run.terminal is None:
        return None
    return b"" if run.terminal == run.plain_terminal else encode_record(run.terminal)


def _run_record(row: Sequence[Any]) -> RunRecord:
    owner, run_id, thread_id, agent_id, digest, created, reused, origin, request, *state = row
    status, started, finished, code, message, usage, version, length, last_message, terminal, has_custom = state
    run = RunRecord(
        owner=from_text(owner),
        run_id=from_text(run_id),
        thread_id=from_text(thread_id),
        agent_id=from_text(agent_id),
        status=RunStatus(status),
        created_at=created,
        started_at=started,
        finished_at=finished,
        error_code=from_optional_text(code),
        error_message=from_optional_text(message),
        usage=split_records(Usage, usage),
        input_digest=from_text(digest),
        reused_id=from_optional_text(reused),
        origin=origin,
        request=None if request is None else load_json(request),
        thread_version=version,
        thread_length=length,
        last_message_id=from_optional_text(last_message),
        has_custom=bool(has_custom),
    )
    if terminal is None:
        return run
    return replace(run, terminal=cast(Terminal, next(decode_events(terminal))) if terminal else run.plain_terminal)
