"""The memories of one container: makes, reads, changes, searches and deletes them for their owner.

Below: memory_documents, memory_access, the protocols' environment. Above: the protocol. A session is a thread: both
have one id, and are deleted together, with the session's working memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.access.callers import Caller
from gateway.documents.document import Document
from gateway.documents.owned import OwnedDocuments
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue, Message
from gateway.ml_commons.answers import hits_of, new_document_id, search_answer
from gateway.ml_memory.memory_access import is_session
from gateway.ml_memory.memory_containers import keeps_history, keeps_sessions
from gateway.ml_memory.memory_documents import (
    CONVERSATIONAL,
    SESSION,
    Place,
    change_record,
    changed_document,
    new_data,
    new_record,
    new_session,
    read_namespace,
)
from gateway.ml_memory.memory_kinds import HISTORY, MEMORIES, SESSIONS, WORKING, Memories, MemoryType
from gateway.ml_memory.memory_messages import (
    MESSAGE,
    PostedMessages,
    changed_message,
    document_id,
    named_message,
    posted_messages,
    shown_document,
)
from gateway.ml_memory.memory_requests import (
    check_not_pinned,
    shown_fields,
    source_asked,
    too_large_hits,
)
from gateway.protocol import ProtocolEnvironment, staying_here
from gateway.protocol.fields import Fields
from gateway.protocol.pages import PAGE_BYTES
from gateway.query_dsl.search_body import MAX_RESULT_WINDOW, SourceFilter
from gateway.store import ThreadChange
from gateway.wire import strict_json

_Name: TypeAlias = tuple[str, str]  # of a message: its session's id and its own

_AT_ONCE = 500
_SHOWN_AT_ONCE = 50
_MOST_SHOWN_BYTES = 50_000_000
_TITLE_CHARACTERS = 200
_TIME = "created_time"


@dataclass(frozen=True, slots=True)
class ContainerMemories:
    """The documents of `caller` in `container`, which is its own."""

    environment: ProtocolEnvironment
    caller: Caller
    container: Document

    @property
    def _documents(self) -> OwnedDocuments:
        return self.environment.documents(self.caller)

    @property
    def _consequences(self) -> OwnedDocuments:
        """The documents for writes that follow from another write: only that one is counted."""
        return self.environment.documents(self.caller, counted=False)

    @property
    def _place(self) -> Place:
        return Place(self.container.document_id, self.caller.owner, self.environment.now())

    async def create_session(self, body: JsonObject) -> tuple[str, bool]:
        """Make a session, and its thread if there is none. Gives the session's id and whether it is new: an existing
        one stays as it is.

        Raises:
            ConflictError: the id names a session of another container.
            InvalidRequestError: the container has no sessions.
        """
        if not keeps_sessions(self.container.body):
            raise InvalidRequestError("the memory container has no sessions: its disable_session is true", status=400)
        session_id, document = new_session(body, self._place)
        session_id = session_id or new_document_id()
        if await self._is_session(session_id):
            return session_id, False
        await self._put_session(session_id, document)
        return session_id, True

    async def add(self, fields: Fields, payload_type: str) -> JsonObject:
        """Add to the working memory: messages to the session's thread, or data; the ids."""
        # in a thread: it takes 200 ms for 10,000 messages
        if payload_type == CONVERSATIONAL and (posted := await asyncio.to_thread(posted_messages, fields)) is not None:
            fields.value.clear()  # nobody reads it any more, and it takes ten times its bytes while they are written
            return await self._add_messages(posted)
        return await self._add_data(fields, payload_type)

    async def _add_messages(self, posted: PostedMessages) -> JsonObject:
        session_id, kept = posted.session_id or new_document_id(), None
        if not await self._is_session(session_id):
            _, document = new_session({"namespace": posted.namespace}, self._place)
            kept = await self._put_session(session_id, document, posted.messages)
        if kept is None:
            kept = await self.environment.append_messages(self.caller, session_id, posted.messages, waits=True)
        ids: list[JsonValue] = [document_id(session_id, message.id) for message in kept]
        named = posted.session_id is not None or keeps_sessions(self.container.body)
        return {**({SESSION: session_id} if named else {}), "working_memory_id": ids[0], "working_memory_ids": ids}

    async def _add_data(self, fields: Fields, payload_type: str) -> JsonObject:
        namespace = read_namespace(fields)
        document = new_data(fields, payload_type, namespace, self._place)
        session_id, memory_id = namespace.get(SESSION), new_document_id()
        if session_id is not None and not await self._is_session(session_id):
            others: JsonObject = {name: value for name, value in namespace.items() if name != SESSION}
            _, session = new_session({"namespace": others}, self._place)
            await self._put_session(session_id, session)
        await self._documents.put(WORKING, memory_id, document, if_version=0, thread_id=session_id)
        return {**({} if session_id is None else {SESSION: session_id}), "working_memory_id": memory_id}

    async def _is_session(self, session_id: str) -> bool:
        return await is_session(self._documents, session_id, self.container.document_id)

    async def add_record(self, memory_type: MemoryType, body: JsonObject) -> str:
        """Keep a long-term memory or a record of history; its id."""
        memory_id, document = new_document_id(), new_record(memory_type, body, self._place)
        await self._documents.put(MEMORIES[memory_type].kind, memory_id, document, if_version=0)
        if memory_type == "long-term":
            await self._record("ADD", memory_id, None, document)
        return memory_id

    async def find(self, memories: Memories, memory_id: str) -> Document:
        """The document of that id. Raises NotFoundError."""
        found = None if self._hides(memories) else await self._documents.get(memories.kind, memory_id)
        if found is None or found.body["memory_container_id"] != self.container.document_id:
            raise NotFoundError("Memory not found")
        return found

    async def shown(self, memories: Memories, memory_id: str) -> JsonObject:
        """The document of that id as clients see it. Raises NotFoundError."""
        found = await self.find(memories, memory_id)
        if memories.type != "working":
            return found.body
        name = named_message(found.body)
        messages = [message async for _, message in self._messages([name] if name else [])]
        return shown_document(found.body, messages[0] if messages else None)

    async def change(self, memories: Memories, memory_id: str, body: JsonObject) -> int:
        """Change a document as the body says; its version."""
        found = await self.find(memories, memory_id)
        if memories.type == "working":
            check_not_pinned(body)
        if memories.type == "working" and (named := named_message(found.body)) is not None:
            await self._change_message(*named, found.body, body)
            return (await self.find(memories, memory_id)).version
        changed = changed_document(memories.type, found.body, body, self.environment.now())
        version = await self._documents.put(
            memories.kind, memory_id, changed, if_version=found.version, thread_id=found.thread_id
        )
        if memories.type == "long-term" and changed["memory"] != found.body["memory"]:
            await self._record("UPDATE", memory_id, found.body, changed)
        return version

    async def delete(self, memories: Memories, memory_id: str, *, counted: bool = True) -> int:
        """Delete a document: a session with its thread, a message from its thread. Gives the version that it had."""
        found = await self.find(memories, memory_id)
        with self.environment.counted_change(self.caller) if counted else nullcontext():
            return await self._delete(memories, memory_id, found)

    async def _delete(self, memories: Memories, memory_id: str, found: Document) -> int:
        if memories.type == "sessions":
            await self.environment.delete(self.caller, memory_id, counted=False)
            return found.version
        if memories.type == "working" and (named := named_message(found.body)) is not None:
            await self._remove_messages([named])
            return found.version
        await self._documents.delete(memories.kind, memory_id)
        if memories.type == "long-term":
            await self._record("DELETE", memory_id, found.body, None)
        return found.version

    async def search(self, memories: Memories, body: JsonObject) -> JsonObject:
        """OpenSearch's answer to a search over this type of the container's memories."""
        if memories.type != "working":
            found = await self._documents.search(memories.kind, self._inside(memories, body))
            return search_answer(found, memories.index, lambda document: document)
        wanted = source_asked(body)
        found = await self._documents.search(memories.kind, self._inside(memories, {**body, "_source": wanted.wanted}))
        if not wanted.wanted:
            return search_answer(found, memories.index, lambda document: document)
        await self._show(hits_of(found), wanted)
        return search_answer(found, memories.index, lambda document: document)

    async def _show(self, hits: Iterable[dict[str, Any]], wanted: SourceFilter) -> None:
        """Put the messages that the hits name into them, and leave the fields that were asked for. Each message is let
        go once it is in its hit, so that no more of a long session is held than is shown.

        Raises:
            InvalidRequestError: the hits are too large.
        """
        named: dict[_Name, dict[str, Any]] = {}
        for hit in hits:
            if (name := named_message(hit["_source"])) is None:
                hit["_source"] = shown_fields(wanted, shown_document(hit["_source"], None))
            else:
                named[name] = hit
        size = 0
        async with aclosing(self._messages(list(named))) as messages:
            async for name, message in messages:
                hit = named.pop(name)
                hit["_source"] = shown_fields(wanted, shown_document(hit["_source"], message))
                size += len(strict_json.dump(hit["_source"]))
                if size > _MOST_SHOWN_BYTES:
                    raise too_large_hits(_MOST_SHOWN_BYTES)
                if len(named) % _SHOWN_AT_ONCE == 0:
                    await asyncio.sleep(0)  # there may be thousands
        for hit in named.values():
            hit["_source"] = shown_fields(wanted, shown_document(hit["_source"], None))

    async def delete_found(self, memories: Memories, query: JsonValue, *, counted: bool = True) -> int:
        """Delete the memories that the query finds, null: all. Gives their number. They are counted as one change.

        Raises:
            ConflictError: another gateway is at work on one of their threads.
        """
        found = await self._all_found(memories, query)
        if counted and found:
            self.environment.count(self.caller)
        named = {memory_id: name for memory_id, each in found.items() if (name := named_message(each)) is not None}
        deleted = len(named)
        with staying_here():
            await self._remove_messages(named.values())
            for memory_id in found.keys() - named.keys():
                with suppress(NotFoundError):  # it went with its session
                    await self.delete(memories, memory_id, counted=False)
                    deleted += 1
        return deleted

    async def leave(self) -> None:
        """Take the sessions' threads out of the container before it is deleted: their messages are no working memory
        any more. The sessions' ids stay taken as long as the threads exist (memory_access.is_session).

        Raises:
            ConflictError: another gateway is at work on one of the threads.
        """
        sessions = MEMORIES["sessions"].kind
        for session_id in await self._all_found(MEMORIES["sessions"], None):
            with suppress(NotFoundError), staying_here():  # it was deleted meanwhile
                await self.environment.update_thread(
                    self.caller, session_id, ThreadChange(collection=""), counted=False
                )
                session = await self._documents.get(sessions, session_id)
                if session is not None:
                    left: JsonObject = {**session.body, "memory_container_id": ""}
                    await self._consequences.put(sessions, session_id, left, thread_id=session_id)

    async def _all_found(self, memories: Memories, query: JsonValue) -> dict[str, JsonObject]:
        """The documents that the query finds now, by id. Deleting some may change the hits, as messages have running
        numbers.
        """
        found: dict[str, JsonObject] = {}
        since: JsonValue = 0
        while True:
            body = self._inside(memories, {"query": query})
            later: JsonObject = {"bool": {"must": [body["query"]], "filter": [{"range": {_TIME: {"gte": since}}}]}}
            page = await self._documents.search(
                memories.kind,
                {"query": later, "sort": [_TIME], "size": MAX_RESULT_WINDOW, "_source": [SESSION, MESSAGE]},
            )
            hits = hits_of(page)
            before = len(found)
            found |= {hit["_id"]: hit["_source"] for hit in hits}
            if len(hits) < MAX_RESULT_WINDOW or len(found) == before:
                return found
            since = hits[-1]["sort"][0]

    async def _remove_messages(self, named: Iterable[tuple[str, str]]) -> None:
        """Take messages out of their threads, each thread's together: later messages are numbered anew."""
        of_sessions: dict[str, list[str]] = {}
        for session_id, message_id in named:
            of_sessions.setdefault(session_id, []).append(message_id)
        for session_id, message_ids in of_sessions.items():
            with suppress(NotFoundError):  # they were deleted meanwhile
                await self.environment.remove_messages(self.caller, session_id, message_ids)

    async def _change_message(self, session_id: str, message_id: str, document: JsonObject, body: JsonObject) -> None:
        def edited(messages: tuple[Message, ...]) -> tuple[Message, ...]:
            return tuple(changed_message(each, document, body) if each.id == message_id else each for each in messages)

        await self.environment.edit_messages(self.caller, session_id, edited)

    async def _messages(self, names: Iterable[_Name]) -> AsyncGenerator[tuple[_Name, Message]]:
        """The messages of these names. One that is gone meanwhile is missing."""
        wanted: dict[str, set[str]] = {}
        for session_id, message_id in names:
            wanted.setdefault(session_id, set()).add(message_id)
        for session_id, message_ids in wanted.items():
            async with aclosing(self._said_in(session_id)) as messages:
                async for message in messages:
                    if message.id in message_ids:
                        message_ids.remove(message.id)
                        yield (session_id, message.id), message
                    if not message_ids:
                        break

    async def _said_in(self, session_id: str) -> AsyncGenerator[Message]:
        cursor: str | None = None
        with suppress(NotFoundError):
            while True:
                page = await self.environment.messages(
                    self.caller, session_id, limit=_AT_ONCE, cursor=cursor, max_bytes=PAGE_BYTES
                )
                for message in page.items:
                    yield message
                if (cursor := page.next_cursor) is None:
                    return

    def _hides(self, memories: Memories) -> bool:
        """Whether the container shows no memories of this type: without sessions, threads still have the messages."""
        return memories.type == "sessions" and not keeps_sessions(self.container.body)

    def _inside(self, memories: Memories, body: JsonObject) -> JsonObject:
        """The search, over this container's documents alone."""
        asked: JsonValue = {"match_none": {}} if self._hides(memories) else body.get("query")
        own: JsonObject = {"term": {"memory_container_id": self.container.document_id}}
        query: JsonObject = {"bool": {"must": [{"match_all": {}} if asked is None else asked], "filter": [own]}}
        return {**body, "query": query}

    async def _put_session(
        self, session_id: str, document: JsonObject, messages: Sequence[Message] = ()
    ) -> Sequence[Message] | None:
        """Make a session with these messages, or make an existing thread a session. Gives the messages; None: the
        thread existed.
        """
        summary, collection = document.get("summary"), self.container.document_id
        title = (
            " ".join(summary.split(maxsplit=_TITLE_CHARACTERS))[:_TITLE_CHARACTERS]
            if isinstance(summary, str)
            else None
        )
        kept: Sequence[Message] | None = messages
        try:
            await self.environment.create_thread(
                self.caller, session_id, messages, title=title or None, collection=collection
            )
        except ConflictError as error:
            kept = None
            try:
                change = ThreadChange(collection=collection)
                await self.environment.update_thread(self.caller, session_id, change, counted=False)
            except NotFoundError:  # a run is about to make it
                raise error from None
        made = await self._documents.get(SESSIONS, session_id)  # with the thread
        known = {} if made is None else made.body
        await self._consequences.put(SESSIONS, session_id, {**known, **document}, thread_id=session_id)
        return kept

    async def _record(self, action: str, memory_id: str, before: JsonObject | None, after: JsonObject | None) -> None:
        """Write the change of a long-term memory into the history."""
        if keeps_history(self.container.body):
            record = change_record(action, memory_id, before, after, self._place)
            await self._consequences.put(HISTORY, new_document_id(), record, if_version=0)
