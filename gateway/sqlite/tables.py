"""Threads, messages and pending deletions at providers as rows.

Below: row_values, records, the contract's data. Above: the store. Every function takes a connection inside a
transaction; none uses threads, futures or caches.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from gateway.agent import ABSENT, Absent
from gateway.errors import ConflictError, StoreError
from gateway.events import OpenInterrupt
from gateway.frozen import quickly_made, replace
from gateway.history.versions import Rewrite
from gateway.messages import Message
from gateway.model_state import decode_states, encode_states
from gateway.owners import site_of
from gateway.records import decode_message, dump_json, encode_message, join_records, load_json, split_records
from gateway.sqlite import stored_bytes, version_rows
from gateway.sqlite.message_rows import NOBODY, insert_messages, let_go, read_records, read_times, sources_of
from gateway.sqlite.row_values import (
    from_optional_text,
    from_text,
    to_optional_text,
    to_text,
)
from gateway.sqlite.version_rows import CurrentVersion
from gateway.store import LEAST_LIFE_SECONDS, Approval, DueDeletion, Thread, VersionContent
from gateway.store.spans import Span, cut, rewritten, shown_spans

_UPDATE_THREAD = (
    "UPDATE threads SET agent_id = ?, title = ?, updated_at = ?, message_count = ?, last_run_id = ?, interrupts = ?,"
    " state = ?, model_states = ?, listed = ?, hidden = ?, expires_at = ?, paused = ?, collection = ? WHERE key = ?"
)
# The columns that each version has of its own, and those that all versions of a thread share.
_CONTENT = "agent_id, last_run_id, interrupts, state, model_states"
_STATE = 3
_OF_ALL_VERSIONS = "title, threads.created_at, updated_at, listed, hidden, expires_at, paused, last_version, collection"
_VERSION_ROW = (
    f"SELECT key, {_CONTENT}, {_OF_ALL_VERSIONS} FROM threads WHERE owner = :owner AND id = :id AND version = :number"
    " UNION ALL SELECT threads.key, "
    + ", ".join(f"versions.{name}" for name in _CONTENT.split(", "))
    + f", {_OF_ALL_VERSIONS} FROM threads JOIN versions ON thread = threads.key"
    " WHERE owner = :owner AND id = :id AND number = :number AND version <> :number"
)
_MESSAGES_BEHIND = "FROM messages WHERE thread = ? AND position >= ?"


@quickly_made
@dataclass(frozen=True, slots=True)
class KeptThread:
    """A thread after a write.

    `title`, `created_at`, `listed`, `hidden`, `expires_at` and `collection` are the stored ones. `sizes` are the bytes
    of each message after the first `keep`, None where some of these were stored before; `state_size` those of its
    state. `has_lost`: there were messages that no version of it has any more.
    """

    title: str | None
    created_at: float
    listed: bool
    hidden: bool
    expires_at: float | None
    collection: str
    sizes: list[int] | None
    state_size: int
    has_lost: bool


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


def has_thread(connection: sqlite3.Connection, owner: str, thread_id: str) -> bool:
    return find_thread(connection, owner, thread_id) is not None


def read_thread(connection: sqlite3.Connection, owner: str, thread_id: str) -> LoadedThread | None:
    """The whole thread."""
    row = connection.execute(
        f"SELECT key, message_count, spans, {_CONTENT}, {_OF_ALL_VERSIONS}, version FROM threads"
        " WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return None
    key, count, spans, *content, version = row
    layout = version_rows.layout_of(key, count, spans)
    records = list(read_records(connection, cut(layout.spans, layout.hidden, count)))
    shortened = spans is not None and version_rows.is_shortened(connection, key, version)
    thread = _thread(owner, thread_id, content, version, records, shortened=shortened)
    return LoadedThread(thread, [len(record) for record in records], len(content[_STATE] or b""))


def read_version(connection: sqlite3.Connection, owner: str, thread_id: str, number: int) -> VersionContent | None:
    """A version with all of its messages, also those that it hides."""
    layout = version_rows.find_layout(connection, owner, thread_id, number)
    if layout is None:
        return None
    row = connection.execute(
        _VERSION_ROW, {"owner": to_text(owner), "id": to_text(thread_id), "number": number}
    ).fetchone()
    key, *content = row
    spans = shown_spans(layout)
    shortened = version_rows.is_shortened(connection, key, number)
    thread = _thread(owner, thread_id, content, number, read_records(connection, spans), shortened=shortened)
    return VersionContent(thread, tuple(read_times(connection, spans)))


def _thread(
    owner: str, thread_id: str, content: Sequence[Any], version: int, records: Iterable[bytes], *, shortened: bool
) -> Thread:
    """The thread of these columns (_CONTENT and _OF_ALL_VERSIONS) and messages."""
    agent_id, last_run_id, interrupts, state, model_states, title, created_at, updated_at, *rest = content
    listed, hidden, expires_at, paused, last_version, collection = rest
    return Thread(
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
        paused=bool(paused),
        version=version,
        last_version=last_version,
        shortened=shortened,
        collection=from_text(collection),
    )


def write_thread(
    connection: sqlite3.Connection,
    thread: Thread,
    keep: int,
    rewrite: Rewrite | None = None,
    encoded: Sequence[bytes] | None = None,
) -> KeptThread:
    """Write the thread. Its messages from `keep` on are new, except those that stay by `rewrite`. If the thread has
    another version number than the stored one, the stored version is kept beside it.

    `encoded`: its messages from `keep` on, if they are encoded already.

    The stored title, collection, `hidden` and time of expiry stay: they may have been changed during the run.

    Raises:
        StoreError: fewer messages are stored than are to stay, or the new version exists already.
    """
    row = connection.execute(
        "SELECT key, title, created_at, message_count, ifnull(length(state), 0), interrupts <> x'', hidden, expires_at,"
        " version, spans, collection FROM threads WHERE owner = ? AND id = ?",
        (to_text(thread.owner), to_text(thread.thread_id)),
    ).fetchone()
    key, title, created_at, count, state_size, had_interrupts, hidden, expires_at, version, spans, collection = row or (
        *(None, None, thread.created_at, 0, 0, 0, thread.hidden, thread.expires_at, thread.version, None, ""),
    )
    if keep > min(count, len(thread.messages)):
        raise StoreError(f"thread {thread.thread_id!r} has {count} stored messages, fewer than the {keep} to keep")
    state = None if isinstance(thread.state, Absent) else dump_json(thread.state)
    title = to_optional_text(thread.title) if title is None else title
    listed = thread.listed and not hidden
    if expires_at is not None:
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
        thread.paused,
        collection or to_text(thread.collection),
    )
    before = None
    if key is None:
        key = _insert_thread(connection, thread, fields)
    else:
        if version != thread.version or spans is not None or (rewrite is not None and rewrite.hides):
            before = _current_or_next_version(connection, thread, rewrite)
        connection.execute(_UPDATE_THREAD, (*fields, key))
    if before is None:
        sizes, gone = _write_messages(connection, key, thread, keep, count, rewrite, encoded)
        has_lost = count > keep
    else:
        (sizes, has_lost), gone = _write_spans(connection, before, thread, keep, rewrite, encoded), 0
    if had_interrupts or thread.interrupts:
        _write_approvals(connection, key, thread.interrupts)
    state_bytes = len(state or b"")
    gone += state_size if version == thread.version else 0  # otherwise the earlier version still has the old state
    stored_bytes.count(connection, thread.owner, sum(sizes) + state_bytes - gone)
    known = sizes if before is None or rewrite is None or not rewrite.stays else None
    stored = (from_optional_text(title), created_at, listed, bool(hidden), expires_at, from_text(fields[-1]))
    return KeptThread(*stored, known, state_bytes, has_lost)


def _write_messages(
    connection: sqlite3.Connection,
    key: int,
    thread: Thread,
    keep: int,
    count: int,
    rewrite: Rewrite | None,
    encoded: Sequence[bytes] | None,
) -> tuple[list[int], int]:
    """Write the messages of a thread whose only version has its rows from the first on. Gives the sizes of the new
    rows, and the bytes of the replaced ones.
    """
    gone, messages = 0, thread.messages[keep:]
    times: list[float | None] = [thread.updated_at] * len(messages)
    if count > keep:
        replaced = (key, keep)
        if rewrite is not None and (rewrite.stays or rewrite.changes):
            before = list(read_times(connection, [Span(key, keep, count - keep)]))
            for at, stored, length in rewrite.stays:
                times[at - keep : at - keep + length] = before[stored - keep : stored - keep + length]
            for at, stored in rewrite.changes:
                times[at - keep] = before[stored - keep]
        (gone,) = connection.execute(f"SELECT sum(length(record)) {_MESSAGES_BEHIND}", replaced).fetchone()
        connection.execute(f"DELETE {_MESSAGES_BEHIND}", replaced)
    records = list(map(encode_message, messages)) if encoded is None else encoded
    insert_messages(connection, key, keep, records, times)
    return list(map(len, records)), gone


def _current_or_next_version(
    connection: sqlite3.Connection, thread: Thread, rewrite: Rewrite | None
) -> CurrentVersion | None:
    """The stored thread's version. If `thread` has another number, the stored one is set aside and a new one begins."""
    before = version_rows.find_current(connection, thread.owner, thread.thread_id)
    if before is None or before.number == thread.version:
        return before
    changed = connection.execute(
        "UPDATE threads SET version = ?, last_version = ? WHERE key = ? AND last_version < ?",
        (thread.version, thread.version, before.thread, thread.version),
    )
    if changed.rowcount == 0:
        raise StoreError(f"thread {thread.thread_id!r} has had a version {thread.version} before")
    version_rows.begin_version(connection, before, thread, None if rewrite is None else rewrite.from_message)
    return before


def _write_spans(
    connection: sqlite3.Connection,
    before: CurrentVersion,
    thread: Thread,
    keep: int,
    rewrite: Rewrite | None,
    encoded: Sequence[bytes] | None,
) -> tuple[list[int], bool]:
    """Write the messages of a thread with versions. Gives the sizes of the new ones, and KeptThread.has_lost."""
    fresh = Span(before.thread, before.next_position, 0)
    is_new = thread.version != before.number
    written = rewritten(before.layout, fresh, len(thread.messages), keep, rewrite, in_new_version=is_new)
    if encoded is None:
        records = [encode_message(thread.messages[number]) for number in written.fresh]
    else:
        records = [encoded[number - keep] for number in written.fresh]
    version_rows.write_layout(connection, before.thread, written.layout, before.next_position + len(records))
    times: dict[int, float | None] = dict.fromkeys(written.fresh, thread.updated_at)
    if rewrite is not None and rewrite.changes and not is_new:
        came = list(read_times(connection, shown_spans(before.layout)))
        times |= {at: came[stored] for at, stored in rewrite.changes}
    insert_messages(connection, before.thread, before.next_position, records, [times[place] for place in written.fresh])
    has_lost = written.has_lost and not is_new
    if has_lost:
        let_go(connection, sources_of(connection, before.thread))
    return [len(record) for record in records], has_lost


def delete_thread(connection: sqlite3.Connection, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
    """Delete the thread with its versions and its runs; mark its messages (see message_rows) and its runs' logs (see
    event_log) as deleted. False where there is no such thread. `due`, the deletions that providers must now do, is
    stored.

    However large the thread is, this changes only a few pages: the disk may have no room for more.
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
    let_go(connection, sources_of(connection, key))
    connection.execute("DELETE FROM borrowed_messages WHERE thread = ?", (key,))
    connection.execute(
        "UPDATE threads SET owner = ?, id = key, title = NULL, last_run_id = NULL, interrupts = x'', state = NULL,"
        " model_states = NULL, metadata = NULL, expires_at = NULL, spans = NULL, counts_for = ? WHERE key = ?",
        (NOBODY, site_of(owner), key),
    )
    insert_due(connection, due)
    return True


def select_version(connection: sqlite3.Connection, owner: str, thread_id: str, number: int) -> bool:
    """Make this version the thread's current one, with its open interrupts. False where there is no such version."""
    key = version_rows.bring_back(connection, owner, thread_id, number)
    if key is None:
        return False
    _write_approvals(connection, key, read_interrupts(connection, owner, thread_id) or ())
    return True


def delete_version(
    connection: sqlite3.Connection, owner: str, thread_id: str, number: int, due: Sequence[DueDeletion] = ()
) -> bool:
    """As version_rows.delete_version; `due`, the deletions that providers must now do, is stored."""
    if not version_rows.delete_version(connection, owner, thread_id, number):
        return False
    insert_due(connection, due)
    return True


def fork_thread(
    connection: sqlite3.Connection, owner: str, thread_id: str, fork: Thread, number: int | None = None, start: int = 0
) -> bool:
    """Write a thread whose messages are those of a version of another thread from `start` on. Without a number that is
    the current version, as it is shown. False where there is no such thread or version.

    Raises:
        ConflictError: the version has other messages, or the fork's id is taken.
    """
    layout = version_rows.share(connection, owner, thread_id, fork, number, start)
    if layout is None:
        return False
    if find_thread(connection, fork.owner, fork.thread_id) is not None:
        raise ConflictError(f"there is a thread {fork.thread_id!r}")
    write_thread(connection, replace(fork, messages=()), 0)
    key = find_thread(connection, fork.owner, fork.thread_id)
    assert key is not None, "it was just written"
    connection.execute("UPDATE threads SET message_count = ? WHERE key = ?", (len(fork.messages), key))
    version_rows.write_layout(connection, key, layout, 0)
    version_rows.borrow(connection, key, layout.spans)
    return True


def insert_due(connection: sqlite3.Connection, due: Sequence[DueDeletion]) -> None:
    """Store deletions that are due."""
    connection.executemany(
        "INSERT INTO due_deletions (id, agent_id, holder, names, since, tries) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (each.deletion_id, to_text(each.agent_id), to_text(each.holder), _names(each), each.since, each.tries)
            for each in due
        ],
    )


def read_idle_visitors(connection: sqlite3.Connection, before: float, limit: int) -> list[tuple[str, str]]:
    """Owners and ids of visitors' threads that were last updated before this time, the oldest first."""
    rows = connection.execute(
        "SELECT owner, id FROM threads WHERE owner GLOB 'visitor:*' AND updated_at < ? ORDER BY updated_at LIMIT ?",
        (before, limit),
    )
    return [(from_text(owner), from_text(thread_id)) for owner, thread_id in rows]


def read_messages(
    connection: sqlite3.Connection,
    owner: str,
    thread_id: str,
    limit: int,
    start: int,
    version: int | None = None,
    max_bytes: int | None = None,
) -> tuple[list[Message], bool]:
    """The messages of a version (None: the current one) from number `start` on, in order: at most `limit` messages and
    about `max_bytes`; and whether there are more.
    """
    layout = version_rows.find_layout(connection, owner, thread_id, version)
    if layout is None:
        return [], False
    found: list[Message] = []
    size = 0
    with closing(read_records(connection, cut(layout.spans, layout.hidden + start, limit + 1))) as records:
        for record in records:
            if len(found) == limit or (max_bytes is not None and size >= max_bytes):
                return found, True
            found.append(decode_message(record))
            size += len(record)
    return found, False


def read_interrupts(connection: sqlite3.Connection, owner: str, thread_id: str) -> tuple[OpenInterrupt, ...] | None:
    """The thread's open interrupts; None where there is no such thread."""
    row = connection.execute(
        "SELECT interrupts FROM threads WHERE owner = ? AND id = ?", (to_text(owner), to_text(thread_id))
    ).fetchone()
    return None if row is None else split_records(OpenInterrupt, row[0])


def _insert_thread(connection: sqlite3.Connection, thread: Thread, fields: tuple[object, ...]) -> int:
    values = (to_text(thread.owner), to_text(thread.thread_id), thread.created_at, *fields)
    row = connection.execute(
        "INSERT INTO threads (owner, id, created_at, agent_id, title, updated_at, message_count, last_run_id,"
        " interrupts, state, model_states, listed, hidden, expires_at, paused, collection, version, last_version)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*values, thread.version, thread.last_version),
    )
    return row.lastrowid or 0


# --- approvals


def _write_approvals(connection: sqlite3.Connection, thread: int, interrupts: Iterable[OpenInterrupt]) -> None:
    """Make these the open interrupts of the thread."""
    connection.execute("UPDATE approvals SET waits = 0 WHERE thread = ? AND waits = 1", (thread,))
    connection.executemany(
        "INSERT INTO approvals (id, thread, expires_at, waits) VALUES (?, ?, ?, 1)"
        " ON CONFLICT (id) DO UPDATE SET waits = 1",
        [(item.approval_id, thread, item.interrupt.expires_at) for item in interrupts if item.approval_id],
    )


def read_approvals(connection: sqlite3.Connection, now: float, limit: int, after: int) -> list[tuple[int, Approval]]:
    """Open approvals that have not expired by `now`, with their keys, after the key `after`."""
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


# --- deletions that are due at providers


def read_due_deletions(connection: sqlite3.Connection) -> list[DueDeletion]:
    """All due deletions, oldest first."""
    rows = connection.execute(
        "SELECT id, agent_id, holder, names, since, tries FROM due_deletions ORDER BY since, id"
    ).fetchall()
    return [
        DueDeletion(id_, from_text(agent_id), from_text(holder), tuple(load_json(names)), *rest)
        for id_, agent_id, holder, names, *rest in rows
    ]


def update_deletion(connection: sqlite3.Connection, deletion: DueDeletion) -> None:
    """Write the deletion's state, or delete it if it has no names left."""
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
    """The secret of this name; if there is none yet, `fresh` is stored as the secret."""
    connection.execute("INSERT OR IGNORE INTO secrets (name, content) VALUES (?, ?)", (name, fresh))
    return bytes(connection.execute("SELECT content FROM secrets WHERE name = ?", (name,)).fetchone()[0])
