"""ml-commons' REST API: conversation memory. Threads are memories, their turns are messages.

Below: the protocols' environment; ml_commons. Every thread of the caller's is a memory, whichever protocol began it.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.agent import ABSENT, Absent
from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import JsonObject
from gateway.ml_commons.answers import new_document_id, write_answer
from gateway.ml_commons.routes import (
    PREFIX,
    SETTINGS,
    ml_response,
    ml_routes,
    opensearch_error_form,
    read_object,
    read_search,
)
from gateway.ml_memory.memories import MEMORY_INDEX, memory_json, memory_words, stretch_asked
from gateway.ml_memory.memory_reading import memory_named
from gateway.ml_memory.memory_search import (
    MOST_SEARCHED,
    check_latest_suffice,
    document_searches,
    latest_wanted,
    search_documents,
    with_total,
)
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.protocol.made_documents import Rest
from gateway.store import ThreadChange

_MEMORY = PREFIX + "/memory"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._searches = environment.shared(document_searches)

    async def create(self, request: Request) -> Response:
        words = memory_words(await read_object(request))
        memory_id, metadata = new_document_id(), words.metadata({})
        title = None if isinstance(words.name, Absent) else words.name
        await self._environment.create_thread(caller_of(request), memory_id, title=title, metadata=metadata)
        return ml_response(request, {"memory_id": memory_id})

    async def memories(self, request: Request) -> Response:
        asked = stretch_asked(request.query_params, too_few="Can't list 0 or negative conversations")
        caller = caller_of(request)
        page = await self._environment.threads(caller, limit=asked.most, skip=asked.start)
        there = asked.start + len(page.items) + (page.next_cursor is not None)
        memories = (memory_json(thread, caller.key_name) for thread in page.items)
        return ml_response(request, asked.answer("memories", memories, there))

    async def search(self, request: Request) -> Response:
        caller, body = caller_of(request), await read_search(request)
        wanted = await self._searches.run(caller.owner, lambda rest: latest_wanted(body))
        page = await self._environment.threads(caller, limit=MOST_SEARCHED)
        is_exact = page.next_cursor is None
        if wanted is None and not is_exact:
            check_latest_suffice(body, page.items[-1].updated_at, self._environment.now())

        def found(rest: Rest) -> JsonObject:
            memories = {each.thread_id: memory_json(each, caller.key_name) for each in page.items[:wanted]}
            return search_documents(MEMORY_INDEX, memories, body, self._environment.now(), rest)

        answer = await self._searches.run(caller.owner, found)
        if wanted is not None:
            answer = with_total(answer, len(page.items), is_exact=is_exact)
        return ml_response(request, answer)

    async def memory(self, request: Request) -> Response:
        caller, memory_id = caller_of(request), path_id(request, "conversation_id")
        with memory_named(memory_id):
            thread = await self._environment.thread(caller, memory_id)
        return ml_response(request, memory_json(thread, caller.key_name))

    async def update(self, request: Request) -> Response:
        caller, memory_id = caller_of(request), path_id(request, "conversation_id")
        words = memory_words(await read_object(request))
        if words.says_nothing:
            raise InvalidRequestError("nothing to update: give name or additional_info", status=400)
        with memory_named(memory_id):
            thread = await self._environment.thread(caller, memory_id)
            metadata = words.metadata(thread.metadata) if words.noted else ABSENT
            change = ThreadChange(words.name, metadata, updated_at=self._environment.now())
            await self._environment.update_thread(caller, memory_id, change)
        return ml_response(request, write_answer(MEMORY_INDEX, memory_id, "updated"))

    async def delete(self, request: Request) -> Response:
        caller, memory_id = caller_of(request), path_id(request, "conversation_id")
        try:
            with memory_named(memory_id):
                await self._environment.delete(caller, memory_id)
        except NotFoundError:
            # ml-commons refuses an unknown memory only if the caller has others
            if (await self._environment.threads(caller, limit=1)).items:
                raise
        return ml_response(request, {"success": True})


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(_MEMORY, on.create, methods=["POST"]),
        Route(_MEMORY, on.memories, methods=["GET"]),
        Route(_MEMORY + "/_search", on.search, methods=["GET", "POST"]),
        Route(_MEMORY + "/{conversation_id}", on.memory, methods=["GET"]),
        Route(_MEMORY + "/{conversation_id}", on.update, methods=["PUT"]),
        Route(_MEMORY + "/{conversation_id}", on.delete, methods=["DELETE"]),
    ]
    return ml_routes(environment, routes, "memory_feature_enabled")


PROTOCOL = WireProtocol(
    "ml_memory",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_memory", "ml_memory"),
    settings=SETTINGS,
)
