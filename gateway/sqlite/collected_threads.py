"""Writes threads and, in the same transaction, the documents of threads that are in a collection.

Below: tables, summary_rows, document_rows. Above: the store. Every method is called within a transaction. A thread
without a collection costs no further statement. Where many documents change, the transaction only notes which (in the
table `late_documents`), and the store writes them later, a slice at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from gateway.clock import Clock
from gateway.documents.document import DocumentKind
from gateway.embedded_index.document_values import searched_in
from gateway.history.versions import Rewrite
from gateway.messages import JsonObject, Message
from gateway.records import decode_message, dump_json, encode_message
from gateway.sqlite import document_rows, summary_rows, tables, version_rows
from gateway.sqlite.document_rows import NewDocument
from gateway.sqlite.message_rows import NOBODY, read_records
from gateway.sqlite.row_values import from_text, to_text
from gateway.sqlite.tables import KeptThread
from gateway.sqlite.version_rows import layout_of
from gateway.store import DOCUMENTS_AT_ONCE, Thread, ThreadChange, ThreadDocuments, ThreadSummary
from gateway.store.spans import cut

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_SLICE = 50  # documents: writing them takes some 20 ms
_MANY = 500  # messages: encoding them takes some 5 ms
GONE = -1
_LATE_GONE = "SELECT message FROM late_documents WHERE thread = ? AND number = ? LIMIT ?"
_LATE_STRETCH = "SELECT number, message FROM late_documents WHERE thread = ? AND number >= 0 ORDER BY number LIMIT 1"
_WRITTEN = "DELETE FROM late_documents WHERE thread = ? AND number = ? AND message = ?"


class _Documented(NamedTuple):
    """A thread's collection and messages before a write. The `first` messages are left out: the write keeps them."""

    collection: str = ""
    messages: Sequence[Message] = ()
    first: int = 0


class CollectedThreads:
    """`documents` makes the documents of threads and messages; None: no thread has any."""

    def __init__(self, documents: ThreadDocuments | None, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._late: set[tuple[str, str]] = set()

    def write_thread(
        self,
        connection: sqlite3.Connection,
        thread: Thread,
        keep: int,
        rewrite: Rewrite | None = None,
        *,
        replaces: bool = False,
        at_once: bool = False,
        encoded: Sequence[bytes] | None = None,
    ) -> KeptThread:
        """As tables.write_thread. `replaces`: stored messages from `keep` on may be replaced even without a `rewrite`.
        `at_once`: all documents are written in this transaction.
        """
        before = _Documented(first=keep)  # a thread may have got its collection since `thread` was read
        if thread.collection or rewrite is not None or replaces:
            before = self._before(connection, thread, keep, rewrite)
        kept = tables.write_thread(connection, thread, keep, rewrite, encoded)
        if kept.collection:
            self._follow(connection, thread.owner, thread.thread_id, before, thread.messages, at_once=at_once)
        return kept

    def create_thread(
        self,
        connection: sqlite3.Connection,
        thread: Thread,
        metadata: JsonObject,
        encoded: Sequence[bytes] | None = None,
    ) -> KeptThread:
        """Write a new thread with its metadata; `encoded` as for tables.write_thread."""
        kept = tables.write_thread(connection, thread, 0, encoded=encoded)
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
        """Do `work`, which changes the messages that a thread shows, or its collection; then write its documents."""
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
        *,
        at_once: bool = False,
    ) -> None:
        """Write and delete documents of a thread that now has these messages; if they are many, only note which."""
        thread = summary_rows.read_summary(connection, owner, thread_id)
        if self._documents is None or thread is None:
            return
        stays = thread.collection == before.collection
        if thread.collection and not stays:
            self._put_thread(connection, thread)
        gone = {message.id: (number, message) for number, message in enumerate(before.messages)}
        fresh: list[tuple[int, Message]] = []
        for place in enumerate(messages[before.first :], before.first) if thread.collection else ():
            known = gone.pop(place[1].id, None)
            if not (stays and known == place):
                fresh.append(place)
        if not (gone or fresh):
            return
        key = tables.find_thread(connection, owner, thread_id)
        assert key is not None, "its summary was read"
        _forget(connection, key, fresh)
        if len(gone) + len(fresh) > DOCUMENTS_AT_ONCE and not at_once:
            late = [(key, GONE, to_text(message_id)) for message_id in gone]
            late += [(key, first, str(stop)) for first, stop in _stretches([number for number, _ in fresh])]
            connection.executemany(
                "INSERT OR REPLACE INTO late_documents (thread, number, message) VALUES (?, ?, ?)", late
            )
            self._late.add((owner, thread_id))
            return
        self._document(connection, thread, list(gone), fresh)

    def is_late(self, owner: str, thread_id: str) -> bool:
        """Whether `catch_up` has documents of the thread to write."""
        return (owner, thread_id) in self._late

    def catch_up(self, connection: sqlite3.Connection, owner: str, thread_id: str) -> None:
        """Write a slice of the thread's late documents."""
        key = tables.find_thread(connection, owner, thread_id)
        if key is None or not self._slice(connection, key):
            self._late.discard((owner, thread_id))

    def catch_up_any(self, connection: sqlite3.Connection) -> bool:
        """Write a slice of late documents that a crash left, of any thread. Gives whether there may be more."""
        row = connection.execute("SELECT thread FROM late_documents LIMIT 1").fetchone()
        if row is not None and not self._slice(connection, row[0]):
            connection.execute("DELETE FROM late_documents WHERE thread = ?", row)
        return row is not None

    def _slice(self, connection: sqlite3.Connection, key: int) -> bool:
        """Write a slice of the thread's late documents. Gives whether there were any that could be written."""
        named = connection.execute("SELECT owner, id FROM threads WHERE key = ?", (key,)).fetchone()
        if named is None or named[0] == NOBODY or self._documents is None:
            return False
        owner, thread_id = map(from_text, named)
        thread = summary_rows.read_summary(connection, owner, thread_id)
        assert thread is not None, "it has a row"
        gone = connection.execute(_LATE_GONE, (key, GONE, _SLICE)).fetchall()
        if gone:
            self._document(connection, thread, [from_text(message_id) for (message_id,) in gone], ())
            connection.executemany(_WRITTEN, [(key, GONE, message_id) for (message_id,) in gone])
            return True
        row = connection.execute(_LATE_STRETCH, (key,)).fetchone()
        if row is None:
            return False
        first, stop = row[0], int(row[1])
        connection.execute(_WRITTEN, (key, *row))
        if stop > first + _SLICE:
            rest = (key, first + _SLICE, row[1])
            connection.execute("INSERT OR REPLACE INTO late_documents (thread, number, message) VALUES (?, ?, ?)", rest)
        shown = tables.read_messages(connection, owner, thread_id, min(stop - first, _SLICE), first)[0]
        if thread.collection:
            self._document(connection, thread, (), list(enumerate(shown, first)))
        return True

    def _document(
        self,
        connection: sqlite3.Connection,
        thread: ThreadSummary,
        gone: Sequence[str],
        fresh: Sequence[tuple[int, Message]],
    ) -> None:
        """Delete the documents of the messages `gone`, and write those of the numbered messages `fresh`."""
        assert self._documents is not None, "the caller checks that there are documents"
        for message_id in gone:
            self._delete_message(connection, thread, message_id)
        if not fresh:
            return
        first = fresh[0][0]
        count = fresh[-1][0] + 1 - first
        times = version_rows.read_message_times(connection, thread.owner, thread.thread_id, first, count)
        for number, message in fresh:
            at = times[number - first]
            self._put_message(connection, thread, message, number, thread.created_at if at is None else at)

    def _put_thread(self, connection: sqlite3.Connection, thread: ThreadSummary) -> None:
        """Write the document of a thread that has come into a collection, unless there is one."""
        assert self._documents is not None, "the caller checks that there are documents"
        kind = self._documents.thread_kind
        if document_rows.read(connection, kind, thread.thread_id, thread.owner) is not None:
            return
        try:
            body = self._documents.of_thread(thread)
            new = _new_document(kind, thread.thread_id, thread, body)
        except Exception:  # the run that writes the thread must not fail for its document
            logger.exception("a thread gets no document", extra={"thread_id": thread.thread_id})
            return
        document_rows.put(connection, kind, new, None, self._clock.now())

    def _put_message(
        self, connection: sqlite3.Connection, thread: ThreadSummary, message: Message, number: int, at: float
    ) -> None:
        assert self._documents is not None, "the caller checks that there are documents"
        kind, document_id = self._documents.message_kind, self._documents.id_of(thread.thread_id, message.id)
        new = None
        try:
            if (body := self._documents.of_message(thread, message, number, at)) is not None:
                new = _new_document(kind, document_id, thread, body)
        except Exception:
            logger.exception("a message gets no document", extra={"thread_id": thread.thread_id})
        if new is None:
            self._delete_message(connection, thread, message.id)
        else:
            document_rows.put(connection, kind, new, None, self._clock.now())

    def _delete_message(self, connection: sqlite3.Connection, thread: ThreadSummary, message_id: str) -> None:
        assert self._documents is not None, "the caller checks that there are documents"
        document_id = self._documents.id_of(thread.thread_id, message_id)
        document_rows.delete(connection, self._documents.message_kind, document_id, thread.owner, None)


async def encoded_messages(messages: Sequence[Message]) -> Sequence[bytes] | None:
    """The messages as they are stored, encoded in a thread, so that no other write waits for it. None: they are few."""
    if len(messages) <= _MANY:
        return None
    return await asyncio.to_thread(lambda: list(map(encode_message, messages)))


def _forget(connection: sqlite3.Connection, key: int, fresh: Sequence[tuple[int, Message]]) -> None:
    """Strike out noted deletions of these messages' documents: the messages are there again."""
    if connection.execute(_LATE_GONE, (key, GONE, 1)).fetchone() is not None:
        connection.executemany(_WRITTEN, [(key, GONE, to_text(message.id)) for _, message in fresh])


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of consecutive numbers: the first of each, and the number after its last."""
    begin = 0
    for place, number in enumerate(numbers):
        if place + 1 == len(numbers) or numbers[place + 1] != number + 1:
            yield numbers[begin], number + 1
            begin = place + 1


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
