"""The documents by which threads in a collection are searched; they follow the commits of their threads.

Below: documents, threads. Above: the store. A commit that changes them marks the thread's record as `late`, and once
they are written a second commit takes the mark away. So `catch_up` finds what a killed process left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from gateway.opensearch.documents import OpenSearchDocuments, ThreadDocument
from gateway.opensearch.thread_record import ThreadRecord, positions
from gateway.opensearch.threads import KeptMessage, Threads
from gateway.store import DOCUMENTS_AT_ONCE, ThreadDocuments, ThreadSummary

logger = logging.getLogger(__name__)


class CollectedThreads:
    """`made` makes the documents of threads and messages; None: no thread has any."""

    def __init__(self, made: ThreadDocuments | None, documents: OpenSearchDocuments, threads: Threads) -> None:
        self._made = made
        self._documents = documents
        self._threads = threads

    def changes(self, before: ThreadRecord | None, record: ThreadRecord) -> bool:
        """Whether a commit changes documents."""
        if self._made is None:
            return False
        then = "" if before is None else before.about.collection
        if before is None or then != record.about.collection:
            return then != record.about.collection
        return bool(then) and positions(before.current) != positions(record.current)

    async def follow(self, before: ThreadRecord | None, record: ThreadRecord) -> None:
        """Write and delete the documents that a commit changed. If some were late before, nobody knows which: those of
        all messages are made anew.
        """
        if self._made is None:
            return
        if before is not None and before.late:
            await self._documents.delete_of_thread(record.about.owner, record.about.thread_id, self._made.message_kind)
            before = None
        is_collected = bool(record.about.collection)
        then = positions(before.current) if before is not None and before.about.collection else []
        now = positions(record.current) if is_collected else []
        stays = before is not None and before.about.collection == record.about.collection
        same = _same(then, now) if stays else 0
        gone = {} if before is None else await self._messages(before, then, same)
        documents: list[ThreadDocument] = []
        if is_collected and not stays:
            documents += self._of_thread(record.summary)
        for number, kept in (await self._messages(record, now, same)).values():
            gone.pop(kept.message.id, None)
            documents.append(self._of_message(record.summary, kept, number))
        documents += [self._no_document(record.about.thread_id, message_id) for message_id in gone]
        for start in range(0, len(documents), DOCUMENTS_AT_ONCE):
            some = documents[start : start + DOCUMENTS_AT_ONCE]
            await self._documents.write_of_thread(record.about.owner, record.about.thread_id, some)

    async def _messages(
        self, record: ThreadRecord, places: Sequence[int], start: int
    ) -> dict[str, tuple[int, KeptMessage]]:
        """The messages at these positions from number `start` on, with their numbers, by their ids."""
        kept = await self._threads.messages(record, places[start:])
        return {each.message.id: (number, each) for number, each in enumerate(kept, start)}

    def _of_thread(self, thread: ThreadSummary) -> list[ThreadDocument]:
        assert self._made is not None, "the caller checks that"
        try:
            return [
                ThreadDocument(self._made.thread_kind, thread.thread_id, self._made.of_thread(thread), only_new=True)
            ]
        except Exception:  # the run that writes the thread must not fail for its document
            logger.exception("a thread gets no document", extra={"thread_id": thread.thread_id})
            return []

    def _of_message(self, thread: ThreadSummary, kept: KeptMessage, number: int) -> ThreadDocument:
        assert self._made is not None, "the caller checks that"
        at = thread.created_at if kept.at is None else kept.at
        document = self._no_document(thread.thread_id, kept.message.id)
        try:
            return replace(document, body=self._made.of_message(thread, kept.message, number, at))
        except Exception:
            logger.exception("a message gets no document", extra={"thread_id": thread.thread_id})
            return document

    def _no_document(self, thread_id: str, message_id: str) -> ThreadDocument:
        """Deletes a message's document."""
        assert self._made is not None, "the caller checks that"
        return ThreadDocument(self._made.message_kind, self._made.id_of(thread_id, message_id), None)


def _same(one: Sequence[int], other: Sequence[int]) -> int:
    """How many of the first positions are the same."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count
