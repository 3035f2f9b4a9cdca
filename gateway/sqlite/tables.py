"""Threads, messages, runs and pending deletions at providers as rows.

Below: records, the contract's data. Above: the store. Every function takes a connection inside a transaction; none uses
threads, futures or caches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.agent import ABSENT, Absent
from gateway.errors import ConflictError, StoreError
from gateway.events import OpenInterrupt, Usage
from gateway.frozen import quickly_made
from gateway.messages import Message
from gateway.model_state import decode_states, encode_states
from gateway.records import decode_message, decode_record, dump_json, encode_message, encode_record, load_json
from gateway.sqlite import stored_bytes
from gateway.store import Approval, DueDeletion, RunRecord, RunStatus, Thread, ThreadSummary

Record = TypeVar("Record")

# The owner of deleted threads while their messages are being deleted: equal to no text.
_NOBODY = b""
_SLICE_ROWS = 500
_SLICE_BYTES = 1_000_000

# Several rows by one statement, see event_log.
_STATEMENT_ROWS = (64, 16, 4, 1)
_INSERT_MESSAGES = {
    count: "INSERT INTO messages (thread, position, record) VALUES " + ", ".join(["(?, ?, ?)"] * count)
    for count in _STATEMENT_ROWS
}

_RUN_COLUMNS = (
    "owner, id, thread_id, agent_id, input_digest, created_at, status, started_at, finished_at, error_code,"
    " error_message, usage, reused_id"
)
_NEXT_RUN_KEY = "1 + max(ifnull((SELECT max(key) FROM runs), 0), ifnull((SELECT max(run) FROM forgotten_logs), 0))"
_INSERT_RUN = f"INSERT INTO runs (key, {_RUN_COLUMNS}, log_kept) VALUES ({_NEXT_RUN_KEY}, {', '.join('?' * 13)}, 1)"
# Only the run's state changes. Columns that cannot change are left out: setting them would rewrite their index entries.
_UPDATE_RUN = (
    "UPDATE runs SET status = ?, started_at = ?, finished_at = ?, error_code = ?, error_message = ?, usage = ?"
    " WHERE key = ?"
)
# Only if it has not ended and its log ends at this number.
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
_RUNS_OF_CLIENT = (
    f"SELECT {_RUN_COLUMNS}, key FROM runs WHERE owner = ? AND id = ? AND reused_id IS NULL"
    f" UNION ALL SELECT {_RUN_COLUMNS}, key FROM runs WHERE owner = ? AND reused_id = ?"
    " ORDER BY key DESC"
)
_IS_NEW = (
    "SELECT EXISTS (SELECT 1 FROM runs WHERE owner = ? AND id = ?),"
    " EXISTS (SELECT 1 FROM threads WHERE owner = ? AND id = ?)"
)
_MESSAGES_BEHIND = "FROM messages WHERE thread = ? AND position >= ?"
_SUMMARY_COLUMNS = "id, title, agent_id, created_at, updated_at"


@quickly_made
@dataclass(frozen=True, slots=True)
class KeptThread:
    """What a thread became when it was written.

    `title` and `created_at` are the stored ones. `sizes` are the bytes of each message after the first `keep`,
    `state_size` those of its state.
    """

    title: str | None
    created_at: float
    sizes: list[int]
    state_size: int


@dataclass(frozen=True, slots=True)
class LoadedThread:
    """A thread and the bytes of each of its messages and of its state."""

    thread: Thread
    sizes: list[int]
    state_size: int


# --- threads


def find_thread(connection: sqlite3.Connection, owner: str, thread_id: str) -> int | None:
    """The thread's key."""
    row = connection.execute(
        "SELECT key FROM threads WHERE owner = ? AND id = ?", (to_text(owner), to_text(thread_id))
    ).fetchone()
    return None if row is None else int(row[0])


def read_thread(connection: sqlite3.Connection, owner: str, thread_id: str) -> LoadedThread | None:
    """The whole thread."""
    row = connection.execute(
        "SELECT key, agent_id, title, created_at, updated_at, last_run_id, interrupts, state, model_states, listed"
        " FROM threads"
        " WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return None
    key, agent_id, title, created_at, updated_at, last_run_id, interrupts, state, model_states, listed = row
    records = [
        r[0] for r in connection.execute("SELECT record FROM messages WHERE thread = ? ORDER BY position", (key,))
    ]
    thread = Thread(
        owner=owner,
        thread_id=thread_id,
        agent_id=from_text(agent_id),
        created_at=created_at,
        updated_at=updated_at,
        title=from_optional_text(title),
        messages=tuple([decode_message(record) for record in records]),
        state=ABSENT if state is None else load_json(state),
        interrupts=split_records(OpenInterrupt, interrupts),
        last_run_id=from_optional_text(last_run_id),
        model_states={} if model_states is None else decode_states(model_states),
        listed=bool(listed),
    )
    return LoadedThread(thread, [len(record) for record in records], len(state or b""))


def write_thread(connection: sqlite3.Connection, thread: Thread, keep: int) -> KeptThread:
    """Write the thread. Its messages from `keep` on replace the stored ones from there.

    A stored title stays: the thread may have been renamed during the run.

    Raises:
        StoreError: fewer than `keep` messages are stored.
    """
    row = connection.execute(
        "SELECT key, title, created_at, message_count, ifnull(length(state), 0), interrupts <> x'' FROM threads"
        " WHERE owner = ? AND id = ?",
        (to_text(thread.owner), to_text(thread.thread_id)),
    ).fetchone()
    key, title, created_at, count, state_size, had_interrupts = row or (None, None, thread.created_at, 0, 0, 0)
    if keep > min(count, len(thread.messages)):
        raise StoreError(f"thread {thread.thread_id!r} has {count} stored messages, fewer than the {keep} to keep")
    state = None if isinstance(thread.state, Absent) else dump_json(thread.state)
    title = to_optional_text(thread.title) if title is None else title
    fields = (
        to_text(thread.agent_id),
        title,
        thread.updated_at,
        len(thread.messages),
        to_optional_text(thread.last_run_id),
        join_records(thread.interrupts),
        state,
        encode_states(thread.model_states) if thread.model_states else None,
        thread.listed,
    )
    if key is None:
        key = _insert_thread(connection, thread, fields)
    else:
        connection.execute(
            "UPDATE threads SET agent_id = ?, title = ?, updated_at = ?, message_count = ?, last_run_id = ?,"
            " interrupts = ?, state = ?, model_states = ?, listed = ? WHERE key = ?",
            (*fields, key),
        )
    records = [encode_message(message) for message in thread.messages[keep:]]
    kept = KeptThread(from_optional_text(title), created_at, [len(record) for record in records], len(state or b""))
    grown = sum(kept.sizes) + kept.state_size - state_size
    if count > keep:
        behind = (key, keep)
        (gone,) = connection.execute(f"SELECT sum(length(record)) {_MESSAGES_BEHIND}", behind).fetchone()
        connection.execute(f"DELETE {_MESSAGES_BEHIND}", behind)
        grown -= gone
    _insert_messages(connection, key, keep, records)
    if had_interrupts or thread.interrupts:
        _write_approvals(connection, key, thread.interrupts)
    stored_bytes.count(connection, thread.owner, grown)
    return kept


def rename_thread(connection: sqlite3.Connection, owner: str, thread_id: str, title: str | None) -> bool:
    """Set the title; False where there is no such thread."""
    changed = connection.execute(
        "UPDATE threads SET title = ? WHERE owner = ? AND id = ?",
        (to_optional_text(title), to_text(owner), to_text(thread_id)),
    )
    return changed.rowcount > 0


def delete_thread(connection: sqlite3.Connection, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
    """Delete the thread and its runs; mark its messages (see sweep_struck) and its runs' logs (see event_log) as
    deleted. False where there is no such thread. `due` is stored: the deletions that this makes due at providers.

    However large the thread is, this changes a few pages: there may be no room for more.
    """
    key = find_thread(connection, owner, thread_id)
    if key is None:
        return False
    stored_bytes.discount_thread(connection, owner, key)
    runs = (to_text(owner), to_text(thread_id))
    connection.execute(
        "INSERT OR IGNORE INTO forgotten_logs (run) SELECT key FROM runs WHERE owner = ? AND thread_id = ?", runs
    )
    connection.execute("DELETE FROM runs WHERE owner = ? AND thread_id = ?", runs)
    connection.execute("DELETE FROM approvals WHERE thread = ?", (key,))
    connection.execute(
        "UPDATE threads SET owner = ?, id = key, title = NULL, last_run_id = NULL, interrupts = x'', state = NULL,"
        " model_states = NULL WHERE key = ?",
        (_NOBODY, key),
    )
    connection.executemany(
        "INSERT INTO due_deletions (id, agent_id, holder, names, since, tries) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (each.deletion_id, to_text(each.agent_id), to_text(each.holder), _names(each), each.since, each.tries)
            for each in due
        ],
    )
    return True


def sweep_struck(connection: sqlite3.Connection) -> bool:
    """Delete a slice of deleted threads' messages. Gives whether there are more."""
    row = connection.execute("SELECT key FROM threads WHERE owner = ? LIMIT 1", (_NOBODY,)).fetchone()
    if row is None:
        return False
    sizes = connection.execute(
        "SELECT position, length(record) FROM messages WHERE thread = ? ORDER BY position LIMIT ?", (*row, _SLICE_ROWS)
    ).fetchall()
    last, total = -1, 0
    for position, size in sizes:
        last, total = position, total + size
        if total >= _SLICE_BYTES:
            break
    connection.execute("DELETE FROM messages WHERE thread = ? AND position <= ?", (*row, last))
    if not sizes:
        connection.execute("DELETE FROM threads WHERE key = ?", row)
    return True


def read_idle_visitors(connection: sqlite3.Connection, before: float, limit: int) -> list[tuple[str, str]]:
    """Owners and ids of visitors' threads that were last updated before then, the oldest first."""
    rows = connection.execute(
        "SELECT owner, id FROM threads WHERE owner GLOB 'visitor:*' AND updated_at < ? ORDER BY updated_at LIMIT ?",
        (before, limit),
    )
    return [(from_text(owner), from_text(thread_id)) for owner, thread_id in rows]


def read_summaries(
    connection: sqlite3.Connection, owner: str, limit: int, before: tuple[float, int] | None
) -> list[tuple[int, ThreadSummary]]:
    """Threads with their keys, latest first, after `before` (time, key)."""
    where, values = ("", ()) if before is None else (" AND (updated_at, key) < (?, ?)", before)
    rows = connection.execute(
        f"SELECT key, {_SUMMARY_COLUMNS} FROM threads WHERE owner = ? AND listed = 1{where}"
        " ORDER BY updated_at DESC, key DESC LIMIT ?",
        (to_text(owner), *values, limit),
    ).fetchall()
    return [
        (
            key,
            ThreadSummary(
                owner, from_text(thread_id), from_optional_text(title), from_text(agent_id), created_at, updated_at
            ),
        )
        for key, thread_id, title, agent_id, created_at, updated_at in rows
    ]


def read_messages(
    connection: sqlite3.Connection, owner: str, thread_id: str, limit: int, start: int
) -> list[tuple[int, Message]]:
    """Messages with their positions, in order, from the position `start`."""
    rows = connection.execute(
        "SELECT position, record FROM messages"
        " WHERE thread = (SELECT key FROM threads WHERE owner = ? AND id = ?) AND position >= ?"
        " ORDER BY position LIMIT ?",
        (to_text(owner), to_text(thread_id), start, limit),
    ).fetchall()
    return [(position, decode_message(record)) for position, record in rows]


def read_interrupts(connection: sqlite3.Connection, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
    """The thread's open interrupts; None where there is no such thread."""
    row = connection.execute(
        "SELECT interrupts FROM threads WHERE owner = ? AND id = ?", (to_text(owner), to_text(thread_id))
    ).fetchone()
    return None if row is None else split_records(OpenInterrupt, row[0])


def _insert_thread(connection: sqlite3.Connection, thread: Thread, fields: tuple[object, ...]) -> int | None:
    return connection.execute(
        "INSERT INTO threads (owner, id, created_at, agent_id, title, updated_at, message_count, last_run_id,"
        " interrupts, state, model_states, listed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (to_text(thread.owner), to_text(thread.thread_id), thread.created_at, *fields),
    ).lastrowid


def _insert_messages(connection: sqlite3.Connection, thread: int | None, position: int, records: list[bytes]) -> None:
    start = 0
    for count in _STATEMENT_ROWS:
        while len(records) - start >= count:
            values: list[object] = []
            for offset in range(start, start + count):
                values += (thread, position + offset, records[offset])
            connection.execute(_INSERT_MESSAGES[count], values)
            start += count


# --- approvals


def _write_approvals(connection: sqlite3.Connection, thread: int | None, interrupts: Iterable[OpenInterrupt]) -> None:
    """Make these the open interrupts of the thread."""
    connection.execute("UPDATE approvals SET waits = 0 WHERE thread = ? AND waits = 1", (thread,))
    connection.executemany(
        "INSERT INTO approvals (id, thread, expires_at, waits) VALUES (?, ?, ?, 1)"
        " ON CONFLICT (id) DO UPDATE SET waits = 1",
        [(item.approval_id, thread, item.interrupt.expires_at) for item in interrupts if item.approval_id],
    )


def read_approvals(connection: sqlite3.Connection, now: float, limit: int, after: int) -> list[tuple[int, Approval]]:
    """Open ones that have not expired by `now`, with their keys, after the key `after`."""
    rows = connection.execute(
        "SELECT approvals.key, approvals.id, owner, threads.id, interrupts FROM approvals"
        " JOIN threads ON threads.key = thread"
        " WHERE waits = 1 AND approvals.key > ? AND ifnull(expires_at > ?, 1) ORDER BY approvals.key LIMIT ?",
        (after, now, limit),
    ).fetchall()
    found: list[tuple[int, Approval]] = []
    for key, approval_id, owner, thread_id, interrupts in rows:
        items = split_records(OpenInterrupt, interrupts)
        asked = [item for item in items if item.approval_id == approval_id]
        found += [(key, Approval(from_text(owner), from_text(thread_id), item)) for item in asked]
    return found


def find_approval(connection: sqlite3.Connection, approval_id: str) -> tuple[str, str] | None:
    """Owner and id of the approval's thread."""
    row = connection.execute(
        "SELECT owner, threads.id FROM approvals JOIN threads ON threads.key = thread WHERE approvals.id = ?",
        (to_text(approval_id),),
    ).fetchone()
    return None if row is None else (from_text(row[0]), from_text(row[1]))


# --- runs


def is_new(connection: sqlite3.Connection, owner: str, run_id: str, thread_id: str) -> tuple[bool, bool]:
    """Whether there is no such run, and no such thread: two index look-ups, nothing is decoded."""
    key = to_text(owner)
    run, thread = connection.execute(_IS_NEW, (key, to_text(run_id), key, to_text(thread_id))).fetchone()
    return not run, not thread


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


def read_runs(connection: sqlite3.Connection, owner: str, client_id: str) -> list[RunRecord]:
    """The runs with this client's id for a run, newest first."""
    rows = connection.execute(_RUNS_OF_CLIENT, (to_text(owner), to_text(client_id)) * 2).fetchall()
    return [_run_record(row[:-1]) for row in rows]


def read_unfinished_runs(connection: sqlite3.Connection) -> list[RunRecord]:
    """Runs that are queued or running, oldest first."""
    rows = connection.execute(
        f"SELECT {_RUN_COLUMNS} FROM runs"
        " WHERE log_kept = 1 AND finished_at IS NULL AND status IN ('queued', 'running') ORDER BY key"
    ).fetchall()
    return [_run_record(row) for row in rows]


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
    try:
        return insert_run(connection, run)
    except ConflictError:
        row = connection.execute(_FIND_WAITING, (to_text(run.owner), to_text(run.run_id))).fetchone()
        if row is None:
            raise
        update_run(connection, row[0], run)
        return int(row[0])


def _run_values(run: RunRecord) -> tuple[object, ...]:
    return (
        to_text(run.owner),
        to_text(run.run_id),
        to_text(run.thread_id),
        to_text(run.agent_id),
        to_text(run.input_digest),
        run.created_at,
        *_state_values(run),
        to_optional_text(run.reused_id),
    )


def _state_values(run: RunRecord) -> tuple[object, ...]:
    return (
        run.status.value,
        run.started_at,
        run.finished_at,
        to_optional_text(run.error_code),
        to_optional_text(run.error_message),
        join_records(run.usage),
    )


def _run_record(row: Sequence[Any]) -> RunRecord:
    owner, run_id, thread_id, agent_id, digest, created, status, started, finished, code, message, usage, reused = row
    return RunRecord(
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
    )


# --- what is to be deleted elsewhere


def read_due_deletions(connection: sqlite3.Connection) -> list[DueDeletion]:
    """Oldest first."""
    rows = connection.execute(
        "SELECT id, agent_id, holder, names, since, tries FROM due_deletions ORDER BY since, id"
    ).fetchall()
    return [
        DueDeletion(id_, from_text(agent_id), from_text(holder), tuple(load_json(names)), *rest)
        for id_, agent_id, holder, names, *rest in rows
    ]


def update_deletion(connection: sqlite3.Connection, deletion: DueDeletion) -> None:
    """Write its state; one without names is deleted."""
    if deletion.names:
        connection.execute(
            "UPDATE due_deletions SET names = ?, tries = ? WHERE id = ?",
            (_names(deletion), deletion.tries, deletion.deletion_id),
        )
    else:
        connection.execute("DELETE FROM due_deletions WHERE id = ?", (deletion.deletion_id,))


def _names(deletion: DueDeletion) -> bytes:
    return dump_json(list(deletion.names))


# --- secrets


def keep_secret(connection: sqlite3.Connection, name: str, fresh: bytes) -> bytes:
    """The secret of that name; `fresh` is stored as it where there was none."""
    connection.execute("INSERT OR IGNORE INTO secrets (name, content) VALUES (?, ?)", (name, fresh))
    return bytes(connection.execute("SELECT content FROM secrets WHERE name = ?", (name,)).fetchone()[0])


# --- text and records


def to_text(value: str) -> str | bytes:
    """The text as SQLite takes it. Text with lone surrogates is not UTF-8 and is stored as bytes."""
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")
    return value


def from_text(value: str | bytes) -> str:
    """The text that `to_text` encoded."""
    return value if isinstance(value, str) else value.decode("utf-8", "surrogatepass")


def to_optional_text(value: str | None) -> str | bytes | None:
    return None if value is None else to_text(value)


def from_optional_text(value: str | bytes | None) -> str | None:
    return None if value is None else from_text(value)


def join_records(records: Iterable[object]) -> bytes:
    """Records as bytes, a line each."""
    return b"\n".join([encode_record(record) for record in records])


def split_records(kind: type[Record], data: bytes) -> tuple[Record, ...]:
    """The records that `join_records` joined."""
    return tuple([decode_record(kind, line) for line in data.split(b"\n")]) if data else ()
