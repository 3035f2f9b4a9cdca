"""ml-commons' REST API: the documents in memory containers. Sessions, working memory, long-term memory and its history.

Below: the protocols' environment; ml_commons.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject
from gateway.ml_commons.answers import deleted_by_query, write_answer
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.routes import (
    PREFIX,
    SETTINGS,
    ml_response,
    ml_routes,
    opensearch_error_form,
    read_object,
    read_search,
)
from gateway.ml_memory.container_memories import ContainerMemories
from gateway.ml_memory.memory_access import container_of
from gateway.ml_memory.memory_documents import memories_of
from gateway.ml_memory.memory_kinds import Memories, MemoryType
from gateway.ml_memory.memory_messages import ThreadsAsMemory
from gateway.ml_memory.memory_requests import no_vectors, payload_type
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.protocol.fields import Fields

_MEMORIES = PREFIX + "/memory_containers/{container_id}/memories"
_OF_TYPE = _MEMORIES + "/{memory_type}"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._settings = environment.shared(ClusterSettings)

    async def add(self, request: Request) -> Response:
        container, fields = await self._container(request), Fields(await read_object(request))
        return ml_response(request, await container.add(fields, payload_type(fields)))

    async def create_session(self, request: Request) -> Response:
        container = await self._container(request)
        session_id, is_new = await container.create_session(await self._sent(request))
        return ml_response(request, {"session_id": session_id, "status": "created" if is_new else "exists"})

    async def add_long_term(self, request: Request) -> Response:
        return await self._add_record(request, "long-term")

    async def add_history(self, request: Request) -> Response:
        return await self._add_record(request, "history")

    async def _add_record(self, request: Request, memory_type: MemoryType) -> Response:
        container = await self._container(request)
        memory_id = await container.add_record(memory_type, await self._sent(request))
        return ml_response(request, {"memory_id": memory_id, "status": "created"})

    async def memory(self, request: Request) -> Response:
        container, memories = await self._container(request), _type(request)
        return ml_response(request, await container.shown(memories, path_id(request, "memory_id")))

    async def change(self, request: Request) -> Response:
        container, memories = await self._container(request), _type(request)
        memory_id = path_id(request, "memory_id")
        version = await container.change(memories, memory_id, await self._sent(request))
        return ml_response(request, write_answer(memories.index, memory_id, "updated", version))

    async def delete(self, request: Request) -> Response:
        container, memories = await self._container(request), _type(request)
        memory_id = path_id(request, "memory_id")
        version = await container.delete(memories, memory_id)
        return ml_response(request, write_answer(memories.index, memory_id, "deleted", version))

    async def search(self, request: Request) -> Response:
        container, memories = await self._container(request), _type(request)
        return ml_response(request, await container.search(memories, await read_search(request)))

    async def delete_by_query(self, request: Request) -> Response:
        container, memories = await self._container(request), _type(request)
        body, started = await read_object(request), time.monotonic()
        if body.get("query") is None:
            message = "query is missing; to delete all, send {'query': {'match_all': {}}}"
            raise InvalidRequestError(message, status=400, problems=[FieldProblem("/query", message)])
        deleted = await container.delete_found(memories, body["query"])
        return ml_response(request, deleted_by_query(deleted, time.monotonic() - started))

    async def semantic_search(self, request: Request) -> Response:
        await self._container(request)
        raise no_vectors(await read_object(request), hybrid=False)

    async def hybrid_search(self, request: Request) -> Response:
        await self._container(request)
        raise no_vectors(await read_object(request), hybrid=True)

    async def _sent(self, request: Request) -> JsonObject:
        """The body that makes or changes a memory."""
        body = await read_object(request)
        if body.get("pinned"):
            self._settings.check("memory.retention_enabled")
        return body

    async def _container(self, request: Request) -> ContainerMemories:
        caller = caller_of(request)
        found = await container_of(self._environment.documents(caller), path_id(request, "container_id"))
        return ContainerMemories(self._environment, caller, found)


def _type(request: Request) -> Memories:
    return memories_of(path_id(request, "memory_type"))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(_MEMORIES, on.add, methods=["POST"]),
        Route(f"{_MEMORIES}/sessions", on.create_session, methods=["POST"]),
        Route(f"{_MEMORIES}/long-term", on.add_long_term, methods=["POST"]),
        Route(f"{_MEMORIES}/history", on.add_history, methods=["POST"]),
        Route(f"{_MEMORIES}/long-term/_semantic_search", on.semantic_search, methods=["GET", "POST"]),
        Route(f"{_MEMORIES}/long-term/_hybrid_search", on.hybrid_search, methods=["GET", "POST"]),
        Route(f"{_OF_TYPE}/_search", on.search, methods=["GET", "POST"]),
        Route(f"{_OF_TYPE}/_delete_by_query", on.delete_by_query, methods=["POST"]),
        Route(_OF_TYPE + "/{memory_id}", on.memory, methods=["GET"]),
        Route(_OF_TYPE + "/{memory_id}", on.change, methods=["PUT"]),
        Route(_OF_TYPE + "/{memory_id}", on.delete, methods=["DELETE"]),
    ]
    return ml_routes(environment, routes, "agentic_memory_enabled")


PROTOCOL = WireProtocol(
    "ml_container_memories",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_memory", "ml_container_memories"),
    thread_documents=ThreadsAsMemory(),
    settings=SETTINGS,
)
