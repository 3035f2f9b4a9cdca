"""The versions of threads as rows.

Below: message_rows, spans. Above: tables and the store. A thread with one version has no row here. The current
version's content is in the row of its thread, where runs read and write it; its row here has only its number and where
it came from. The other versions have their content here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import NamedTuple

from gateway.errors import ConflictError
from gateway.model_state import ModelState, decode_states
from gateway.records import decode_message
from gateway.sqlite import stored_bytes
from gateway.sqlite.message_rows import let_go, read_records, read_times, sources_of
from gateway.sqlite.row_values import from_optional_text, to_optional_text, to_text
from gateway.store import Thread, ThreadVersion
from gateway.store.spans import Layout, Span, cut, decode_layout, encode_layout, joined, plain, shown_spans, total

_CONTENT = "agent_id, message_count, last_run_id, interrupts, state, model_states"
_SET_ASIDE = f"""
    INSERT INTO versions (thread, number, created_at, shortened, {_CONTENT}, spans)
    SELECT key, :number, created_at, 0, {_CONTENT}, :spans FROM threads WHERE key = :thread
    ON CONFLICT (thread, number) DO UPDATE SET agent_id = excluded.agent_id, message_count = excluded.message_count,
        last_run_id = excluded.last_run_id, interrupts = excluded.interrupts, state = excluded.state,
        model_states = excluded.model_states, spans = excluded.spans
"""
_BEGIN = (
    "INSERT INTO versions (thread, number, parent, from_message, created_at, shortened, agent_id, message_count,"
    " interrupts) VALUES (?, ?, ?, ?, ?, ?, '', 0, x'')"
)
_BRING_BACK = f"""
    UPDATE threads SET version = :number, ({_CONTENT}, spans) = (
        SELECT {_CONTENT}, spans FROM versions WHERE thread = :thread AND number = :number
    ) WHERE key = :thread
"""
_EMPTY = (
    "UPDATE versions SET interrupts = x'', state = NULL, model_states = NULL, spans = NULL"
    " WHERE thread = :thread AND number = :number"
)


class CurrentVersion(NamedTuple):
    """A thread's key, the number of its current version, and where its messages are."""

    thread: int
    number: int
    layout: Layout
    next_position: int


def find_current(connection: sqlite3.Connection, owner: str, thread_id: str) -> CurrentVersion | None:
    """The thread's current version; None where there is no such thread."""
    row = connection.execute(
        "SELECT key, version, message_count, spans, next_position FROM threads WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return None
    key, number, count, spans, position = row
    return CurrentVersion(key, number, layout_of(key, count, spans), count if position is None else position)


def layout_of(thread: int, count: int, spans: bytes | None) -> Layout:
    """The layout in a thread's row: without `spans` its messages are its own first `count` rows."""
    return plain(thread, count) if spans is None else decode_layout(spans)


def is_shortened(connection: sqlite3.Connection, thread: int, number: int) -> bool:
    """`Thread.shortened` of this version."""
    row = connection.execute(
        "SELECT shortened FROM versions WHERE thread = ? AND number = ?", (thread, number)
    ).fetchone()
    return row is not None and bool(row[0])


def begin_version(
    connection: sqlite3.Connection, before: CurrentVersion, thread: Thread, from_message: str | None
) -> None:
    """Set the current version aside, and insert the row of `thread`'s new one; the caller writes its content."""
    _set_aside(connection, before)
    connection.execute(
        _BEGIN,
        (
            before.thread,
            thread.version,
            before.number,
            to_optional_text(from_message),
            thread.updated_at,
            thread.shortened,
        ),
    )


def write_layout(connection: sqlite3.Connection, thread: int, layout: Layout, next_position: int) -> None:
    """Write the layout of the thread's current version, and the position of its next message."""
    connection.execute(
        "UPDATE threads SET spans = ?, next_position = ? WHERE key = ?",
        (encode_layout(layout), next_position, thread),
    )


def read_versions(
    connection: sqlite3.Connection, owner: str, thread_id: str, limit: int, after: int
) -> list[ThreadVersion]:
    """The thread's versions in the order of their numbers, after the number `after`."""
    row = connection.execute(
        "SELECT key, version, created_at, EXISTS (SELECT 1 FROM versions WHERE thread = threads.key) FROM threads"
        " WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return []
    key, current, created_at, has_rows = row
    if not has_rows:
        return [ThreadVersion(current, True, None, None, created_at)] if current > after else []
    rows = connection.execute(
        "SELECT number, parent, from_message, created_at FROM versions WHERE thread = ? AND number > ?"
        " ORDER BY number LIMIT ?",
        (key, after, limit),
    )
    return [
        ThreadVersion(number, number == current, parent, from_optional_text(from_message), at)
        for number, parent, from_message, at in rows
    ]


def find_layout(connection: sqlite3.Connection, owner: str, thread_id: str, number: int | None) -> Layout | None:
    """The layout of a version: without a number, of the current one. With a number, its hidden messages count as
    shown.
    """
    current = find_current(connection, owner, thread_id)
    if current is None:
        return None
    if number is None:
        return current.layout
    if number == current.number:
        return current.layout._replace(hidden=0)
    row = connection.execute(
        "SELECT spans FROM versions WHERE thread = ? AND number = ?", (current.thread, number)
    ).fetchone()
    return None if row is None else decode_layout(row[0])._replace(hidden=0)


def read_message_times(
    connection: sqlite3.Connection, owner: str, thread_id: str, start: int, count: int | None = None
) -> list[float | None]:
    """When the messages of the current version came, from number `start` on: `count` of them, or all. See
    message_rows.read_times.
    """
    layout = find_layout(connection, owner, thread_id, None)
    if layout is None:
        return []
    spans = shown_spans(layout, start) if count is None else cut(layout.spans, layout.hidden + start, count)
    return list(read_times(connection, spans))


def read_states(connection: sqlite3.Connection, owner: str, thread_id: str) -> dict[int, Mapping[str, ModelState]]:
    """Thread.model_states of each version that has any, by number."""
    thread = connection.execute(
        "SELECT key, version, model_states FROM threads WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if thread is None:
        return {}
    key, *current = thread
    others = connection.execute("SELECT number, model_states FROM versions WHERE thread = ? ORDER BY number", (key,))
    return {number: decode_states(states) for number, states in (*others, current) if states is not None}


def bring_back(connection: sqlite3.Connection, owner: str, thread_id: str, number: int) -> int | None:
    """Make the version the thread's current one. Gives the thread's key, None where there is no such version."""
    current = find_current(connection, owner, thread_id)
    if current is None or current.number == number:
        return None if current is None else current.thread
    there = {"thread": current.thread, "number": number}
    rows = connection.execute("SELECT 1 FROM versions WHERE thread = :thread AND number = :number", there).fetchall()
    if not rows:
        return None
    _set_aside(connection, current)
    connection.execute(_BRING_BACK, there)
    connection.execute(_EMPTY, there)
    return current.thread


def delete_version(connection: sqlite3.Connection, owner: str, thread_id: str, number: int) -> bool:
    """Delete a version; `message_rows.sweep` deletes messages that only it has. False where there is no such version.

    Raises:
        ConflictError: the version is the current one.
    """
    current = find_current(connection, owner, thread_id)
    if current is None:
        return False
    if current.number == number:
        raise ConflictError(
            f"version {number} of thread {thread_id!r} is the current one; make another one current first, or delete"
            " the thread",
            code="version_is_current",
        )
    there = (current.thread, number)
    row = connection.execute(
        "SELECT ifnull(length(state), 0) FROM versions WHERE thread = ? AND number = ?", there
    ).fetchone()
    if row is None:
        return False
    connection.execute("DELETE FROM versions WHERE thread = ? AND number = ?", there)
    connection.execute("UPDATE versions SET parent = NULL WHERE thread = ? AND parent = ?", there)
    stored_bytes.count(connection, owner, -row[0])
    let_go(connection, sources_of(connection, current.thread))
    return True


def share(
    connection: sqlite3.Connection, owner: str, thread_id: str, fork: Thread, number: int | None = None, start: int = 0
) -> Layout | None:
    """The layout of a fork: its messages are those of a version of this thread, as `find_layout` gives them, from
    `start` on. The caller writes the fork. None where there is no such thread or version.

    Raises:
        ConflictError: the version has other messages than the fork.
    """
    current = find_current(connection, owner, thread_id)
    layout = find_layout(connection, owner, thread_id, number)
    if current is None or layout is None:
        return None
    hidden, spans = layout
    count = len(fork.messages)
    shared = joined(cut(spans, hidden + start, count))
    last = [decode_message(record).id for record in read_records(connection, cut(shared, count - 1, 1))]
    if total(shared) != count or last != [message.id for message in fork.messages[-1:]]:
        raise ConflictError(f"thread {thread_id!r} was changed meanwhile; try again")
    write_layout(connection, current.thread, current.layout, current.next_position)
    return Layout(0, shared)


def borrow(connection: sqlite3.Connection, thread: int, spans: tuple[Span, ...]) -> None:
    """Note the threads whose rows this thread has."""
    connection.executemany(
        "INSERT INTO borrowed_messages (source, thread) VALUES (?, ?)",
        [(source, thread) for source in {span.thread for span in spans}],
    )


def _set_aside(connection: sqlite3.Connection, current: CurrentVersion) -> None:
    values = {"thread": current.thread, "number": current.number, "spans": encode_layout(current.layout)}
    connection.execute(_SET_ASIDE, values)
