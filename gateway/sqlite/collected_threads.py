"""Writes threads, and in the same transaction the documents of those that are in a collection.

Below: tables, summary_rows, document_rows. Above: the store. Every method is called within a transaction. A thread
without a collection costs no statement more.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from gateway.clock import Clock
from gateway.documents.document import DocumentKind
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.records import decode_message, dump_json
from gateway.sqlite import document_rows, summary_rows, tables, version_rows
from gateway.sqlite.document_rows import NewDocument, searched_in
from gateway.sqlite.message_rows import read_records
from gateway.sqlite.row_values import from_text, to_text
from gateway.sqlite.spans import cut
from gateway.sqlite.tables import KeptThread
from gateway.sqlite.version_rows import layout_of
from gateway.store import Thread, ThreadChange, ThreadDocuments, ThreadSummary

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


class _Documented(NamedTuple):
    """What has documents before a write: a thread's collection, and its messages. The `first` ones are left out: they
    stay as they are.
    """

    collection: str = ""
    messages: Sequence[Message] = ()
    first: int = 0


class CollectedThreads:
    """`documents` says what the documents are; None: no thread has any."""

    def __init__(self, documents: ThreadDocuments | None, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock

    def write_thread(
        self,
        connection: sqlite3.Connection,
        thread: Thread,
        keep: int,
        rewrite: Rewrite | None = None,
        *,
        replaces: bool = False,
    ) -> KeptThread:
        """As tables.write_thread. `replaces`: what is stored behind `keep` may be replaced even without a `rewrite`."""
        before = _Documented(first=keep)  # a thread may have got its collection since `thread` was read
        if thread.collection or rewrite is not None or replaces:
            before = self._before(connection, thread, keep, rewrite)
        kept = tables.write_thread(connection, thread, keep, rewrite)
        if kept.collection:
            self._follow(connection, thread.owner, thread.thread_id, before, thread.messages)
        return kept

    def create_thread(self, connection: sqlite3.Connection, thread: Thread, metadata: JsonObject) -> KeptThread:
        """Write a new thread with its metadata."""
        kept = tables.write_thread(connection, thread, 0)
        if metadata:
            summary_rows.update_thread(connection, thread.owner, thread.thread_id, ThreadChange(metadata=metadata))
        if thread.collection:
            self._follow(connection, thread.owner, thread.thread_id, _Documented(), thread.messages)
        return kept

    def fork_thread(
        self,
        connection: sqlite3.Connection,
        owner: str,
        thread_id: str,
        fork: Thread,
        number: int | None = None,
        start: int = 0,
    ) -> bool:
        """As tables.fork_thread."""
        made = tables.fork_thread(connection, owner, thread_id, fork, number, start)
        if made and fork.collection:
            self._follow(connection, fork.owner, fork.thread_id, _Documented(), fork.messages)
        return made

    def change(self, connection: sqlite3.Connection, owner: str, thread_id: str, work: Callable[[], Result]) -> Result:
        """Do `work`, which changes what a thread shows, or its collection."""
        before = self._shown(connection, owner, thread_id)
        done = work()
        after = self._shown(connection, owner, thread_id)
        if before.collection or after.collection:
            self._follow(connection, owner, thread_id, before, after.messages)
        return done

    def _before(
        self, connection: sqlite3.Connection, thread: Thread, keep: int, rewrite: Rewrite | None
    ) -> _Documented:
        row = connection.execute(
            "SELECT collection, version, message_count FROM threads WHERE owner = ? AND id = ?",
            (to_text(thread.owner), to_text(thread.thread_id)),
        ).fetchone()
        if row is None or not row[0]:
            return _Documented()
        if rewrite is None and row[1:] == (thread.version, keep):
            return _Documented(from_text(row[0]), first=keep)
        return self._shown(connection, thread.owner, thread.thread_id)

    def _shown(self, connection: sqlite3.Connection, owner: str, thread_id: str) -> _Documented:
        """All messages of the thread's current version, if it is in a collection."""
        row = connection.execute(
            "SELECT key, collection, message_count, spans FROM threads WHERE owner = ? AND id = ?",
            (to_text(owner), to_text(thread_id)),
        ).fetchone()
        if self._documents is None or row is None or not row[1]:
            return _Documented()
        key, collection, count, spans = row
        layout = layout_of(key, count, spans)
        records = read_records(connection, cut(layout.spans, layout.hidden, count))
        return _Documented(from_text(collection), [decode_message(record) for record in records])

    def _follow(
        self,
        connection: sqlite3.Connection,
        owner: str,
        thread_id: str,
        before: _Documented,
        messages: Sequence[Message],
    ) -> None:
        """Make the documents of a thread what they are to be, now that it has these messages."""
        thread = summary_rows.read_summary(connection, owner, thread_id)
        if self._documents is None or thread is None:
            return
        stays = thread.collection == before.collection
        if thread.collection and not stays:
            self._put_thread(connection, thread)
        gone = {message.id: (number, message) for number, message in enumerate(before.messages)}
        fresh: list[tuple[int, Message]] = []
        for place in enumerate(messages[before.first :], before.first):
            if stays and gone.get(place[1].id) == place:
                del gone[place[1].id]
            else:
                fresh.append(place)
        for number, message in gone.values():
            if (found := self._of_message(thread, message, number, thread.created_at)) is not None:
                document_rows.delete(connection, self._documents.message_kind, found[0], owner, None)
        times = version_rows.read_message_times(connection, owner, thread_id, before.first) if fresh else []
        for number, message in fresh:
            at = times[number - before.first]
            self._put_message(connection, thread, message, number, thread.created_at if at is None else at)

    def _put_thread(self, connection: sqlite3.Connection, thread: ThreadSummary) -> None:
        """Give a thread that has come into a collection its document, if there is none."""
        assert self._documents is not None, "whoever calls has looked"
        kind = self._documents.thread_kind
        if document_rows.read(connection, kind, thread.thread_id, thread.owner) is not None:
            return
        try:
            body = self._documents.of_thread(thread)
            new = _new_document(kind, thread.thread_id, thread, body)
        except Exception:  # no document is worth a run
            logger.exception("a thread gets no document", extra={"thread_id": thread.thread_id})
            return
        document_rows.put(connection, kind, new, None, self._clock.now())

    def _put_message(
        self, connection: sqlite3.Connection, thread: ThreadSummary, message: Message, number: int, at: float
    ) -> None:
        assert self._documents is not None, "whoever calls has looked"
        kind = self._documents.message_kind
        if (found := self._of_message(thread, message, number, at)) is None:
            return
        try:
            new = _new_document(kind, found[0], thread, found[1])
        except Exception:
            logger.exception("a message gets no document", extra={"thread_id": thread.thread_id})
            return
        document_rows.put(connection, kind, new, None, self._clock.now())

    def _of_message(
        self, thread: ThreadSummary, message: Message, number: int, at: float
    ) -> tuple[str, JsonObject] | None:
        assert self._documents is not None, "whoever calls has looked"
        try:
            return self._documents.of_message(thread, message, number, at)
        except Exception:
            logger.exception("a message gets no document", extra={"thread_id": thread.thread_id})
            return None


def _new_document(kind: DocumentKind, document_id: str, thread: ThreadSummary, body: JsonObject) -> NewDocument:
    source = dump_json(body)
    return NewDocument(
        document_id,
        thread.owner,
        public=False,
        thread_id=thread.thread_id,
        source=source,
        sealed=None,
        searched=searched_in(kind, source),
    )
