"""Finds an owner's threads by the id of a message.

Below: version_rows, records. Above: the store, which calls it on the thread of searches. There is no index: it would
cost every run 25 us for each message that it writes, and without it 100,000 threads are searched in 0.2 s, the latest
in less than 1 ms.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from gateway.records import beginnings_of_message
from gateway.sqlite.row_values import from_text, to_text
from gateway.sqlite.version_rows import layout_of
from gateway.store.spans import cut, total

_HAS_ID = "substr(record, 1, :length) = :beginning OR substr(record, 1, :other_length) = :other"
# Threads that have such a row, or borrow from one that has.
_CANDIDATES = f"""
    SELECT key, id, message_count, spans FROM threads WHERE owner = :owner AND listed = :listed AND (
        EXISTS (SELECT 1 FROM messages WHERE thread = threads.key AND ({_HAS_ID}))
        OR spans IS NOT NULL AND EXISTS (
            SELECT 1 FROM borrowed_messages JOIN messages ON messages.thread = source
            WHERE borrowed_messages.thread = threads.key AND ({_HAS_ID})
        )
    ) ORDER BY updated_at DESC, key DESC
"""
_IN_SPAN = f"SELECT 1 FROM messages WHERE thread = :thread AND position >= :first AND position < :stop AND ({_HAS_ID})"


def find_message(connection: sqlite3.Connection, owner: str, message_id: str, limit: int) -> list[str]:
    """The ids of threads whose current version has the message, as Store.find_message."""
    found: list[str] = []
    for listed in (1, 0):
        for thread_id in _threads(connection, owner, message_id, listed):
            found.append(thread_id)
            if len(found) >= limit:
                return found
    return found


def _threads(connection: sqlite3.Connection, owner: str, message_id: str, listed: int) -> Iterator[str]:
    beginning, other = beginnings_of_message(message_id)
    asked = {"beginning": beginning, "length": len(beginning), "other": other, "other_length": len(other)}
    candidates = connection.execute(_CANDIDATES, {**asked, "owner": to_text(owner), "listed": listed})
    for key, thread_id, count, spans in candidates:
        layout = layout_of(key, count, spans)
        for span in cut(layout.spans, layout.hidden, total(layout.spans)):
            place = {"thread": span.thread, "first": span.first, "stop": span.first + span.length}
            if connection.execute(_IN_SPAN, {**asked, **place}).fetchone() is not None:
                yield from_text(thread_id)
                break
