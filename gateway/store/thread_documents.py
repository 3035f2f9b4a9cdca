"""The documents that a store makes of messages, for searches.

Below: documents, threads. Above: the store.
"""

from __future__ import annotations

from typing import Protocol

from gateway.documents.document import DocumentKind
from gateway.messages import JsonObject, Message
from gateway.store.threads import ThreadSummary

DOCUMENTS_AT_ONCE = 100
"""The most documents of a thread that one transaction writes."""


class ThreadDocuments(Protocol):
    """Makes the documents by which threads in a collection are searched: one for the thread, and one for each message
    that its current version shows. They belong to the thread's owner and are deleted with the thread.

    The store writes a message's document in the transaction that writes the message. It writes the thread's own
    document in the transaction that puts the thread into its collection, unless that document exists. If one write
    changes more than DOCUMENTS_AT_ONCE documents, they follow in slices, so that others can write meanwhile: the write
    is done when all of them are stored, and after a crash `remove_logs` makes the rest. A message that leaves the
    current version loses its document. If a message or its number changes, its document is made anew. A document that
    cannot be made or stored is left out. Both kinds have `own_ids`; a thread's document has the thread's id. The
    methods are pure, and may be called in another thread.
    """

    @property
    def thread_kind(self) -> DocumentKind: ...

    @property
    def message_kind(self) -> DocumentKind: ...

    def of_thread(self, thread: ThreadSummary) -> JsonObject: ...

    def id_of(self, thread_id: str, message_id: str) -> str:
        """The id of a message's document."""

    def of_message(self, thread: ThreadSummary, message: Message, number: int, at: float) -> JsonObject | None:
        """A message's document; None: it gets none. `number` is its place in the thread, from 0; `at`: when it came
        (see Store.message_times), or when the thread was created if that is unknown.
        """
