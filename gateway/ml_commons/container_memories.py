"""The memories of one container: makes, reads, changes, searches and deletes them for their owner.

Below: memory_documents, memory_access, the protocols' environment. Above: the protocol. A session is a thread: both
have one id, and are deleted together, with the session's working memory.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gateway.access.callers import Caller
from gateway.documents.document import Document
from gateway.documents.owned import OwnedDocuments
from gateway.errors import ConflictError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.answers import hits_of, id_taken, new_document_id, search_answer
from gateway.ml_commons.fields import Fields
from gateway.ml_commons.memory_containers import keeps_history
from gateway.ml_commons.memory_documents import (
    DATA,
    SESSION,
    Place,
    change_record,
    changed_document,
    new_data,
    new_record,
    new_session,
    read_namespace,
)
from gateway.ml_commons.memory_kinds import HISTORY, MEMORIES, SESSIONS, WORKING, Memories, MemoryType
from gateway.protocol import ProtocolEnvironment

_AT_ONCE = 500
_TITLE_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ContainerMemories:
    """What `caller` has in `container`, which is its own."""

    environment: ProtocolEnvironment
    caller: Caller
    container: Document

    @property
    def _documents(self) -> OwnedDocuments:
        return self.environment.documents(self.caller)

    @property
    def _place(self) -> Place:
        return Place(self.container.document_id, self.caller.owner, self.environment.now())

    async def create_session(self, body: JsonObject) -> str:
        """Make a session, and its thread unless there is one; its id."""
        session_id, document = new_session(body, self._place)
        session_id = session_id or new_document_id()
        if await self._documents.get(SESSIONS, session_id) is not None:
            raise id_taken("session id", session_id)
        await self._put_session(session_id, document)
        return session_id

    async def add_data(self, fields: Fields, payload_type: str = DATA) -> JsonObject:
        """Keep working memory that is no message."""
        namespace = read_namespace(fields)
        document = new_data(fields, payload_type, namespace, self._place)
        session_id, memory_id = namespace.get(SESSION), new_document_id()
        if session_id is not None:
            await self.ensure_session(session_id)
        await self._documents.put(WORKING, memory_id, document, if_version=0, thread_id=session_id)
        return {**({} if session_id is None else {SESSION: session_id}), "working_memory_id": memory_id}

    async def ensure_session(self, session_id: str) -> None:
        """Make the session of that id, unless there is one.

        Raises:
            ConflictError: it is a session of another container.
        """
        found = await self._documents.get(SESSIONS, session_id)
        if found is None:
            _, document = new_session({"namespace": {SESSION: session_id}}, self._place)
            await self._put_session(session_id, document)
        elif found.body["memory_container_id"] != self.container.document_id:
            raise ConflictError(f"the session '{session_id}' belongs to another memory container; use another id")

    async def add_record(self, memory_type: MemoryType, body: JsonObject) -> str:
        """Keep a long-term memory or a record of history; its id."""
        memory_id, document = new_document_id(), new_record(memory_type, body, self._place)
        await self._documents.put(MEMORIES[memory_type].kind, memory_id, document, if_version=0)
        if memory_type == "long-term":
            await self._record("ADD", memory_id, None, document)
        return memory_id

    async def find(self, memories: Memories, memory_id: str) -> Document:
        """The document of that id. Raises NotFoundError."""
        found = await self._documents.get(memories.kind, memory_id)
        if found is None or found.body["memory_container_id"] != self.container.document_id:
            raise NotFoundError("Memory not found")
        return found

    async def change(self, memories: Memories, memory_id: str, body: JsonObject) -> int:
        """Change a document as the body says; its version."""
        found = await self.find(memories, memory_id)
        changed = changed_document(memories.type, found.body, body, self.environment.now())
        version = await self._documents.put(
            memories.kind, memory_id, changed, if_version=found.version, thread_id=found.thread_id
        )
        if memories.type == "long-term" and changed["memory"] != found.body["memory"]:
            await self._record("UPDATE", memory_id, found.body, changed)
        return version

    async def delete(self, memories: Memories, memory_id: str) -> int:
        """Delete a document, and what belongs to it; the version that it had."""
        found = await self.find(memories, memory_id)
        if memories.type == "sessions":
            await self.environment.delete(self.caller, memory_id)
            return found.version
        await self._documents.delete(memories.kind, memory_id)
        if memories.type == "long-term":
            await self._record("DELETE", memory_id, found.body, None)
        return found.version

    async def search(self, memories: Memories, body: JsonObject) -> JsonObject:
        """OpenSearch's answer to a search over this type of the container's memories."""
        found = await self._documents.search(memories.kind, self._inside(body))
        return search_answer(found, memories.index, lambda document: document)

    async def delete_found(self, memories: Memories, query: JsonValue) -> int:
        """Delete all that the query finds, null: all there are; how many."""
        deleted, seen = 0, set[str]()
        body = self._inside({"query": query, "size": _AT_ONCE, "_source": False})
        while True:
            found = await self._documents.search(memories.kind, body)
            fresh = [hit["_id"] for hit in hits_of(found) if hit["_id"] not in seen]
            if not fresh:
                return deleted
            seen.update(fresh)
            for memory_id in fresh:
                with suppress(NotFoundError):  # it went with its session
                    await self.delete(memories, memory_id)
                    deleted += 1

    def _inside(self, body: JsonObject) -> JsonObject:
        """The search, over this container's documents alone."""
        asked = body.get("query")
        own: JsonObject = {"term": {"memory_container_id": self.container.document_id}}
        query: JsonObject = {"bool": {"must": [{"match_all": {}} if asked is None else asked], "filter": [own]}}
        return {**body, "query": query}

    async def _put_session(self, session_id: str, document: JsonObject) -> None:
        summary = document.get("summary")
        title = " ".join(summary.split())[:_TITLE_CHARACTERS] if isinstance(summary, str) else None
        try:
            await self.environment.create_thread(self.caller, session_id, title=title or None)
        except ConflictError as error:
            try:
                await self.environment.thread(self.caller, session_id)
            except NotFoundError:  # a run is about to make it
                raise error from None
        await self._documents.put(SESSIONS, session_id, document, thread_id=session_id)

    async def _record(self, action: str, memory_id: str, before: JsonObject | None, after: JsonObject | None) -> None:
        """Write the change of a long-term memory into the history."""
        if keeps_history(self.container.body):
            record = change_record(action, memory_id, before, after, self._place)
            await self._documents.put(HISTORY, new_document_id(), record, if_version=0)
