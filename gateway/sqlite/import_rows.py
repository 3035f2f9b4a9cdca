"""Writes the rows of the pieces that another store gave (see gateway.store.transfer).

Below: collected_threads, tables, run_rows, document_rows. Above: the store. All in one transaction, which may be much
larger than the memory: SQLite writes it to the write-ahead log on the way.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from gateway.errors import ConfigurationError
from gateway.owners import site_of
from gateway.sqlite import event_log, run_rows, stored_bytes, tables
from gateway.sqlite.collected_threads import GONE
from gateway.sqlite.document_rows import RestoredIndex
from gateway.sqlite.message_rows import insert_messages
from gateway.sqlite.row_values import to_optional_text, to_text
from gateway.sqlite.schema import has_documents, make_documents
from gateway.store import DueDeletion
from gateway.store.spans import Layout, Span, encode_layout
from gateway.store.transfer import (
    Moved,
    MovedApproval,
    MovedDocument,
    MovedEvents,
    MovedIndex,
    MovedLate,
    MovedMessage,
    MovedRun,
    MovedSecret,
    MovedStore,
    MovedThread,
    MovedVersion,
)

_INSERT_THREAD = (
    "INSERT INTO threads (owner, id, created_at, updated_at, title, metadata, listed, hidden, expires_at, paused,"
    " collection, version, last_version, agent_id, message_count, interrupts)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, x'')"
)
_CONTENT = ("agent_id", "message_count", "last_run_id", "interrupts", "state", "model_states", "spans")
_SET_CURRENT = f"UPDATE threads SET next_position = ?, {', '.join(f'{name} = ?' for name in _CONTENT)} WHERE key = ?"
_INSERT_VERSION = (
    f"INSERT INTO versions (thread, number, created_at, parent, from_message, shortened, {', '.join(_CONTENT)})"
    f" VALUES ({', '.join('?' * 13)})"
)
# The content of the current version is in the thread's row.
_NO_CONTENT = ("", 0, None, b"", None, None, None)


def write_all(connection: sqlite3.Connection, moved: Iterable[Moved]) -> None:
    """Write the rows of all pieces.

    Raises:
        ConfigurationError: there are data in the file already.
    """
    names = ["threads", "runs", "secrets", "due_deletions", *["document_indices"] * has_documents(connection)]
    found = [name for name in names if connection.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone()]
    if found:
        raise ConfigurationError(
            f"the store is not empty: it has {' and '.join(found).replace('_', ' ')}. Name another store, or move the"
            " files of this one away"
        )
    rows = _Rows(connection)
    for piece in moved:
        rows.write(piece)
    rows.count_bytes()


class _Rows:
    """The rows of pieces that come in order: each belongs to the last thread, run or index before it."""

    _thread: MovedThread
    _thread_key: int
    _messages: int
    _run: MovedRun
    _run_key: int
    _index: RestoredIndex

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._bytes = Counter[str | None]()

    def count_bytes(self) -> None:
        """Write how much each site's visitors have."""
        for site, size in self._bytes.items():
            stored_bytes.count_site(self._connection, site, size)

    def write(self, piece: Moved) -> None:
        match piece:
            case MovedStore():
                self._write_store(piece)
            case MovedSecret():
                tables.keep_secret(self._connection, piece.name, piece.content)
            case DueDeletion():
                tables.insert_due(self._connection, [piece])
            case MovedThread():
                self._write_thread(piece)
            case MovedMessage():
                insert_messages(self._connection, self._thread_key, self._messages, [piece.record], [piece.at])
                self._messages += 1
                self._add(self._thread.owner, piece.record)
            case MovedVersion():
                self._write_version(piece)
            case MovedLate():
                late = (piece.first, str(piece.stop)) if piece.gone is None else (GONE, to_text(piece.gone))
                self._connection.execute("INSERT INTO late_documents VALUES (?, ?, ?)", (self._thread_key, *late))
            case MovedApproval():
                self._write_approval(piece)
            case MovedRun():
                self._run, self._run_key = piece, run_rows.restore_run(self._connection, piece)
            case MovedEvents():
                row = (self._run_key, piece.first, piece.last, piece.lines, piece.at)
                event_log.insert_events(self._connection, [row])
                if self._run.run.finished_at is not None:
                    self._add(self._run.run.owner, piece.lines)
            case MovedIndex():
                self._index = RestoredIndex(self._connection, piece)
            case MovedDocument():
                self._index.insert(piece)
                self._add(piece.owner, piece.source, piece.sealed)

    def _add(self, owner: str, *stored: bytes | None) -> None:
        if (site := site_of(owner)) is not None:
            self._bytes[site] += sum(len(each) for each in stored if each is not None)

    def _write_store(self, store: MovedStore) -> None:
        if store.last_document_version:
            make_documents(self._connection)
            sequence = ("documents", store.last_document_version)
            self._connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", sequence)

    def _write_thread(self, thread: MovedThread) -> None:
        names = (to_text(thread.owner), to_text(thread.thread_id), thread.created_at, thread.updated_at)
        words = (to_optional_text(thread.title), thread.metadata, thread.listed, thread.hidden, thread.expires_at)
        rest = (thread.paused, to_text(thread.collection), thread.version, thread.last_version)
        added = self._connection.execute(_INSERT_THREAD, (*names, *words, *rest))
        self._thread, self._thread_key, self._messages = thread, added.lastrowid or 0, 0
        self._add(thread.owner, thread.metadata)

    def _write_version(self, version: MovedVersion) -> None:
        thread, count = self._thread, self._messages
        layout = Layout(version.hidden, tuple([Span(self._thread_key, *stretch) for stretch in version.messages]))
        content = (
            to_text(version.agent_id),
            sum(length for _, length in version.messages) - version.hidden,
            to_optional_text(version.last_run_id),
            version.interrupts,
            version.state,
            version.model_states,
        )
        own = replace(version, agent_id="", last_run_id=None, interrupts=b"", state=None, model_states=None)
        usual = MovedVersion(thread.version, thread.created_at, messages=((0, count),) if count else ())
        is_usual = thread.versions == 1 and own == usual  # such a thread has neither spans nor a row of its version
        is_current = version.number == thread.version
        if is_current:
            spans, position = (None, None) if is_usual else (encode_layout(layout), count)
            self._connection.execute(_SET_CURRENT, (position, *content, spans, self._thread_key))
        if not is_usual:
            origin = (version.created_at, version.parent, to_optional_text(version.from_message), version.shortened)
            kept = _NO_CONTENT if is_current else (*content, encode_layout(layout))
            self._connection.execute(_INSERT_VERSION, (self._thread_key, version.number, *origin, *kept))
        self._add(thread.owner, version.state)

    def _write_approval(self, approval: MovedApproval) -> None:
        thread = tables.find_thread(self._connection, approval.owner, approval.thread_id)
        self._connection.execute(
            "INSERT INTO approvals (id, thread, expires_at, waits) VALUES (?, ?, ?, ?)",
            (to_text(approval.approval_id), thread, approval.expires_at, approval.waits),
        )
