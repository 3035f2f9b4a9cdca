"""The documents of threads in a collection, for tests: what messages say, and how threads are called."""

from __future__ import annotations

from typing import Final

from gateway.documents.document import Document, DocumentKind
from gateway.messages import JsonObject, Message
from gateway.store import Store, ThreadSummary
from tests.stored_samples import OWNER, within

TALK: Final = DocumentKind("talk", {"title": {"type": "text"}, "collection": {"type": "keyword"}}, own_ids=True)
SAID: Final = DocumentKind(
    "said",
    {
        "text": {"type": "text"},
        "number": {"type": "integer"},
        "thread": {"type": "keyword"},
        "collection": {"type": "keyword"},
    },
    own_ids=True,
)


class CollectedWords:
    """A message that says so has no document, fails, or has one that cannot be stored."""

    thread_kind = TALK
    message_kind = SAID

    def of_thread(self, thread: ThreadSummary) -> JsonObject:
        if thread.title == "fails":
            raise ValueError("no title")
        return {"title": thread.title, "collection": thread.collection, "metadata": thread.metadata}

    def id_of(self, thread_id: str, message_id: str) -> str:
        return document_id(thread_id, message_id)

    def of_message(self, thread: ThreadSummary, message: Message, number: int, at: float) -> JsonObject | None:
        if message.text == "nothing":
            return None
        if message.text == "fails":
            raise ValueError("no words")
        text = " ".join(map(str, range(11_000))) if message.text == "too long" else message.text
        body: JsonObject = {"text": text, "number": "x" if text == "misfit" else number, "thread": thread.thread_id}
        return {**body, "collection": thread.collection, "at": at}


def document_id(thread_id: str, message_id: str) -> str:
    return f"{thread_id}/{message_id}"


async def found(store: Store, query: JsonObject, owner: str = OWNER) -> list[JsonObject]:
    """The messages that a search finds, by their place in their thread."""
    asked: JsonObject = {"query": query, "size": 1000, "sort": ["thread", "number"]}
    answer = await within(store.documents.search(SAID, asked, owner))
    hits = answer["hits"]
    assert isinstance(hits, dict)
    return [hit["_source"] for hit in hits["hits"]]  # type: ignore[union-attr,index,call-overload,misc]


async def documented(store: Store, thread_id: str = "t1", owner: str = OWNER) -> list[tuple[object, object]]:
    """Number and text of each message of the thread that has a document."""
    return [(each["number"], each["text"]) for each in await found(store, {"term": {"thread": thread_id}}, owner)]


async def talk(store: Store, thread_id: str = "t1") -> Document | None:
    return await within(store.documents.get(TALK, thread_id, OWNER))
