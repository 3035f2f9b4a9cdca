"""Reads the summaries of threads for lists, writes their owners' changes, and finds expired threads.

Below: row_values, the contract's data. Above: the store. Every function takes a connection inside a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from gateway.agent import Absent
from gateway.records import dump_json, load_json
from gateway.sqlite import stored_bytes
from gateway.sqlite.row_values import from_optional_text, from_text, to_optional_text, to_text
from gateway.store import PAUSED_LIFE_SECONDS, ThreadChange, ThreadSummary

_LONGER = f"max(expires_at, updated_at + {PAUSED_LIFE_SECONDS})"
_EXPIRES_AT = f"CASE WHEN paused THEN {_LONGER} ELSE expires_at END"
_COLUMNS = f"owner, id, title, agent_id, created_at, updated_at, metadata, listed, {_EXPIRES_AT}, collection"


def read_summary(connection: sqlite3.Connection, owner: str, thread_id: str) -> ThreadSummary | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM threads WHERE owner = ? AND id = ?", (to_text(owner), to_text(thread_id))
    ).fetchone()
    return None if row is None else _summary(row)


def read_summaries(
    connection: sqlite3.Connection, owner: str, limit: int, before: tuple[float, int] | None, skip: int = 0
) -> list[tuple[int, ThreadSummary]]:
    """Listed threads with their keys, newest first, after the (time, key) of `before`, without the first `skip`.

    SQLite counts the skipped ones along the index: 8 ms for 100,000.
    """
    where, values = ("", ()) if before is None else (" AND (updated_at, key) < (?, ?)", before)
    rows = connection.execute(
        f"SELECT key, {_COLUMNS} FROM threads WHERE owner = ? AND listed = 1{where}"
        " ORDER BY updated_at DESC, key DESC LIMIT ? OFFSET ?",
        (to_text(owner), *values, limit, skip),
    ).fetchall()
    return [(key, _summary(row)) for key, *row in rows]


def update_thread(connection: sqlite3.Connection, owner: str, thread_id: str, change: ThreadChange) -> bool:
    """Apply the change to the thread. False where there is no such thread."""
    row = connection.execute(
        "SELECT key, ifnull(length(metadata), 0) FROM threads WHERE owner = ? AND id = ?",
        (to_text(owner), to_text(thread_id)),
    ).fetchone()
    if row is None:
        return False
    key, metadata_size = row
    fields: dict[str, object] = {}
    if not isinstance(change.title, Absent):
        fields["title"] = to_optional_text(change.title)
    if not isinstance(change.listed, Absent):
        fields |= {"listed": change.listed, "hidden": not change.listed}
    if not isinstance(change.expires_at, Absent):
        fields["expires_at"] = change.expires_at
    if not isinstance(change.updated_at, Absent):
        fields["updated_at"] = change.updated_at
    if not isinstance(change.collection, Absent):
        fields["collection"] = to_text(change.collection)
    if not isinstance(change.metadata, Absent):
        metadata = dump_json(change.metadata) if change.metadata else None
        fields["metadata"] = metadata
        stored_bytes.count(connection, owner, len(metadata or b"") - metadata_size)
    if fields:
        names = ", ".join(f"{name} = ?" for name in fields)
        connection.execute(f"UPDATE threads SET {names} WHERE key = ?", (*fields.values(), key))
    return True


def read_expired(connection: sqlite3.Connection, by: float, limit: int) -> list[tuple[str, str]]:
    """Owners and ids of threads that expired before the time `by`, the earliest first."""
    rows = connection.execute(
        f"SELECT owner, id FROM threads WHERE expires_at < ? AND {_EXPIRES_AT} < ? ORDER BY expires_at LIMIT ?",
        (by, by, limit),
    )
    return [(from_text(owner), from_text(thread_id)) for owner, thread_id in rows]


def _summary(row: Sequence[Any]) -> ThreadSummary:
    owner, thread_id, title, agent_id, created_at, updated_at, metadata, listed, expires_at, collection = row
    return ThreadSummary(
        from_text(owner),
        from_text(thread_id),
        from_optional_text(title),
        from_text(agent_id),
        created_at,
        updated_at,
        {} if metadata is None else load_json(metadata),
        bool(listed),
        expires_at,
        from_text(collection),
    )
