"""Threads, messages and pending deletions at providers as rows.

Below: row_values, records, the contract's data. Above: the store. Every function takes a connection inside a
transaction; none uses threads, futures or caches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.agent import ABSENT, Absent
from gateway.errors import StoreError
from gateway.events import OpenInterrupt
from gateway.frozen import quickly_made
from gateway.messages import Message
from gateway.model_state import decode_states, encode_states
from gateway.records import decode_message, dump_json, encode_message, load_json
from gateway.sqlite import document_rows, stored_bytes
from gateway.sqlite.row_values import (
    from_optional_text,
    from_text,
    join_records,
    split_records,
    to_optional_text,
    to_text,
)
from gateway.store import LEAST_LIFE_SECONDS, Approval, DueDeletion, Thread

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

_MESSAGES_BEHIND = "FROM messages WHERE thread = ? AND position >= ?"


@quickly_made
@dataclass(frozen=True, slots=True)
class KeptThread:
    """What a thread became when it was written.

    `title`, `created_at`, `listed`, `hidden` and `expires_at` are the stored ones. `sizes` are the bytes of each
    message after the first `keep`, `state_size` those of its state.
    """

    title: str | None
    created_at: float
    listed: bool
    hidden: bool
    expires_at: float | None
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
        "SELECT key, agent_id, title, created_at, updated_at, last_run_id, interrupts, state, model_states, listed,"
        " hidden, expires_at FROM threads"
        " WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return None
    key, agent_id, title, created_at, updated_at, last_run_id, interrupts, state, model_states, listed, *rest = row
    hidden, expires_at = rest
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
        hidden=bool(hidden),
        expires_at=expires_at,
    )
    return LoadedThread(thread, [len(record) for record in records], len(state or b""))


def write_thread(connection: sqlite3.Connection, thread: Thread, keep: int) -> KeptThread:
    """Write the thread. Its messages from `keep` on replace the stored ones from there.

    A stored title stays, and whether it is hidden or expires: that may have been changed during the run.

    Raises:
        StoreError: fewer than `keep` messages are stored.
    """
    row = connection.execute(
        "SELECT key, title, created_at, message_count, ifnull(length(state), 0), interrupts <> x'', hidden, expires_at"
        " FROM threads WHERE owner = ? AND id = ?",
        (to_text(thread.owner), to_text(thread.thread_id)),
    ).fetchone()
    key, title, created_at, count, state_size, had_interrupts, hidden, expires_at = row or (
        *(None, None, thread.created_at, 0, 0, 0, thread.hidden, thread.expires_at),
    )
    if keep > min(count, len(thread.messages)):
        raise StoreError(f"thread {thread.thread_id!r} has {count} stored messages, fewer than the {keep} to keep")
    state = None if isinstance(thread.state, Absent) else dump_json(thread.state)
    title = to_optional_text(thread.title) if title is None else title
    listed = thread.listed and not hidden
    if row is not None and expires_at is not None:
        expires_at = max(expires_at, thread.updated_at + LEAST_LIFE_SECONDS)
    fields = (
        to_text(thread.agent_id),
        title,
        thread.updated_at,
        len(thread.messages),
        to_optional_text(thread.last_run_id),
        join_records(thread.interrupts),
        state,
        encode_states(thread.model_states) if thread.model_states else None,
        listed,
        hidden,
        expires_at,
    )
    if key is None:
        key = _insert_thread(connection, thread, fields)
    else:
        connection.execute(
            "UPDATE threads SET agent_id = ?, title = ?, updated_at = ?, message_count = ?, last_run_id = ?,"
            " interrupts = ?, state = ?, model_states = ?, listed = ?, hidden = ?, expires_at = ? WHERE key = ?",
            (*fields, key),
        )
    records = [encode_message(message) for message in thread.messages[keep:]]
    sizes = [len(record) for record in records]
    stored = (from_optional_text(title), created_at, listed, bool(hidden), expires_at)
    kept = KeptThread(*stored, sizes, len(state or b""))
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
        " model_states = NULL, metadata = NULL, expires_at = NULL WHERE key = ?",
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
    """Delete a slice of deleted threads' documents and messages. Gives whether there are more."""
    row = connection.execute("SELECT key FROM threads WHERE owner = ? LIMIT 1", (_NOBODY,)).fetchone()
    if row is None:
        return False
    if document_rows.sweep_thread(connection, row[0]):
        return True
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
        " interrupts, state, model_states, listed, hidden, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
        " WHERE waits = 1 AND approvals.key > ? AND ifnull(approvals.expires_at > ?, 1) ORDER BY approvals.key LIMIT ?",
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
