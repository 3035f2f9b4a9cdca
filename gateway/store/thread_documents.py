"""The documents that a store makes of messages, for searches.

Below: documents, threads. Above: the store.
"""

from __future__ import annotations

from typing import Protocol

from gateway.clock import Kept as Kept  # what a store's writes give
from gateway.documents.document import DocumentKind
from gateway.messages import JsonObject, Message
from gateway.store.threads import ThreadSummary

DOCUMENTS_AT_ONCE = 100
"""So many documents of a thread are written in one transaction at most."""


class ThreadDocuments(Protocol):
    """What is searched of threads in a collection: a document for the thread, and one for each message that its current
    version shows. They belong to the thread's owner and are deleted with the thread.

    The store writes them in the transaction that writes the message, the thread's own in the one that gives it its
    collection, unless it has one. Where one write changes more than DOCUMENTS_AT_ONCE of them, they follow a slice at a
    time, so that others can write meanwhile: whoever wrote is told when all are there, and after a crash `remove_logs`
    makes the rest. A message that is not in the current version any more has no document any more; where a message
    changes, or its number, its document is made anew. A document that cannot be made or stored is left out.
    Both kinds have `own_ids`; a thread's document has the thread's id. The methods are pure, and may be called in
    another thread.
    """

    @property
    def thread_kind(self) -> DocumentKind: ...

    @property
    def message_kind(self) -> DocumentKind: ...

    def of_thread(self, thread: ThreadSummary) -> JsonObject: ...

    def id_of(self, thread_id: str, message_id: str) -> str:
        """The id of a message's document."""

    def of_message(self, thread: ThreadSummary, message: Message, number: int, at: float) -> JsonObject | None:
        """A message's document; None: it has none. `number` is its place in the thread, from 0; `at`: when it came (see
        Store.message_times), or when the thread was made where that is not known.
        """
