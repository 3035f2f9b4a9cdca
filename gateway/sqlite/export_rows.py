"""Everything in the file as pieces for another store (see gateway.store.transfer).

Below: collected_threads, tables, run_rows, document_rows. Above: the store. Reads within one transaction, a row at a
time, however large the store is. What becomes of each table:

- Carried over: secrets, due_deletions, threads, versions, messages, late_documents, approvals, runs, events,
  document_indices, documents. A fork gets a copy of the messages that it shares; messages that no version has are left.
- Made anew by import_rows: stored_bytes, fields, field_values, words, the rows of nested objects; all keys, in the same
  order, and with them the spans of threads and versions.
- Not needed: borrowed_messages, loose_messages and deleted threads with their documents; forgotten_logs; write_probe.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from pathlib import Path

from gateway.sqlite import document_rows, run_rows, tables
from gateway.sqlite.collected_threads import GONE
from gateway.sqlite.database import snapshot
from gateway.sqlite.message_rows import NOBODY
from gateway.sqlite.row_values import from_optional_text, from_text
from gateway.sqlite.schema import has_documents
from gateway.sqlite.version_rows import layout_of
from gateway.store.spans import numbered, union
from gateway.store.transfer import (
    Moved,
    MovedApproval,
    MovedEvents,
    MovedLate,
    MovedMessage,
    MovedSecret,
    MovedStore,
    MovedThread,
    MovedVersion,
)

_THREADS = """
    SELECT key, owner, id, created_at, updated_at, title, metadata, listed, hidden, expires_at, paused, collection,
        version, last_version,
        1 + (SELECT count(*) FROM versions WHERE thread = threads.key AND number <> threads.version)
    FROM threads WHERE owner <> ? ORDER BY key
"""
# A thread's versions by number. What the current one has is in the thread's row.
_VERSIONS = """
    SELECT number, created_at, parent, from_message, shortened, {columns} FROM versions
    WHERE thread = :thread AND number <> (SELECT version FROM threads WHERE key = :thread)
    UNION ALL
    SELECT version, ifnull(versions.created_at, threads.created_at), parent, from_message, ifnull(shortened, 0),
        threads.{current}
    FROM threads LEFT JOIN versions ON thread = threads.key AND number = version WHERE threads.key = :thread
    ORDER BY number
"""
_LAYOUTS, _CONTENTS = (
    _VERSIONS.format(columns=", ".join(names), current=", threads.".join(names))
    for names in (("message_count", "spans"), ("agent_id", "last_run_id", "interrupts", "state", "model_states"))
)
_MESSAGES = "SELECT record, at FROM messages WHERE thread = ? AND position >= ? AND position < ? ORDER BY position"
_LATE = "SELECT number, message FROM late_documents WHERE thread = ? ORDER BY number, message"
_APPROVALS = (
    "SELECT approvals.id, owner, threads.id, approvals.expires_at, waits FROM approvals"
    " JOIN threads ON threads.key = thread ORDER BY approvals.key"
)
_EVENTS = "SELECT first, last, records, at FROM events WHERE run = ? ORDER BY first"


def read_file(path: Path) -> Generator[Moved]:
    """Everything in the file, as it is now, also while another process uses it. Raises as database.snapshot."""
    with snapshot(path) as connection:
        yield _store(connection)
        for name, content in connection.execute("SELECT name, content FROM secrets ORDER BY name"):
            yield MovedSecret(name, content)
        yield from tables.read_due_deletions(connection)
        yield from _threads(connection)
        for approval_id, owner, thread_id, expires_at, waits in connection.execute(_APPROVALS):
            yield MovedApproval(from_text(approval_id), from_text(owner), from_text(thread_id), expires_at, bool(waits))
        for key, run in run_rows.read_every_run(connection):
            yield run
            for row in connection.execute(_EVENTS, (key,)) if run.has_log else ():
                yield MovedEvents(*row)
        if has_documents(connection):
            yield from document_rows.read_every_document(connection)


def _store(connection: sqlite3.Connection) -> MovedStore:
    if not has_documents(connection):
        return MovedStore()
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
    return MovedStore(tuple(sorted(document_rows.sealed_key_ids(connection))), last[0] if last else 0)


def _threads(connection: sqlite3.Connection) -> Iterator[Moved]:
    for key, owner, thread_id, created_at, updated_at, title, metadata, *rest in connection.execute(
        _THREADS, (NOBODY,)
    ):
        listed, hidden, expires_at, paused, collection, *versions = rest
        names = (from_text(owner), from_text(thread_id), created_at, updated_at, from_optional_text(title), metadata)
        flags = (bool(listed), bool(hidden), expires_at, bool(paused), from_text(collection))
        yield MovedThread(*names, *flags, *versions)
        yield from _messages_and_versions(connection, key)
        for number, message in connection.execute(_LATE, (key,)):
            yield MovedLate(gone=from_text(message)) if number == GONE else MovedLate(number, int(message))


def _messages_and_versions(connection: sqlite3.Connection, thread: int) -> Iterator[MovedMessage | MovedVersion]:
    rows = connection.execute(_LAYOUTS, {"thread": thread}).fetchall()
    layouts = [layout_of(thread, count, spans) for *_, count, spans in rows]
    stretches = union(span for layout in layouts for span in layout.spans)
    for source, first, length in stretches:
        for record, at in connection.execute(_MESSAGES, (source, first, first + length)):
            yield MovedMessage(record, at)
    contents = connection.execute(_CONTENTS, {"thread": thread})
    for (hidden, spans), row in zip(layouts, contents, strict=True):
        number, created_at, parent, from_message, shortened, agent_id, last_run_id, *states = row
        origin = (parent, from_optional_text(from_message), bool(shortened))
        content = (from_optional_text(last_run_id), *states, hidden, numbered(spans, stretches))
        yield MovedVersion(number, created_at, from_text(agent_id), *origin, *content)
