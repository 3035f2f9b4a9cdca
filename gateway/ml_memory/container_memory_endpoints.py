"""ml-commons' REST API: what memory containers hold. Sessions, working memory, long-term memory and its history.

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
from gateway.ml_commons.api_document import ml_api, ml_operation
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
from gateway.openapi.description import Operation
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


# --- in the API document

_IN_ALL = "/memory_containers/{containerId}/memories"
_IN_TYPE = _IN_ALL + "/{memoryType}"
_OF_CONTAINER = ("containerId",)
_OF_A_TYPE = ("containerId", "memoryType")
_OF_ONE = ("containerId", "memoryType", "memoryId")
_SEARCH = "A search in OpenSearch's query language; without one all are found."


def _writes() -> Sequence[Operation]:
    added = ml_operation(
        "post",
        _IN_ALL,
        "addWorkingMemory",
        "Add to the working memory",
        body="`messages` for a session, or data: `structured_data`, `structured_data_blob`, `binary_data`; with "
        "`namespace`, `metadata`, `tags`.",
        result="The id of the working memory, and of its session.",
        parameters=_OF_CONTAINER,
    )
    session = ml_operation(
        "post",
        f"{_IN_ALL}/sessions",
        "createSession",
        "Make a session, which is a thread",
        body="`session_id`, `summary`, `metadata`, `agents`, `additional_info`, `namespace`; all may be absent.",
        result="The session's id.",
        parameters=_OF_CONTAINER,
    )
    long_term = ml_operation(
        "post",
        f"{_IN_ALL}/long-term",
        "addLongTermMemory",
        "Remember a text",
        body="`memory`, the text; also `tags`, `namespace`, `strategy_type`, `pinned`.",
        result="The memory's id.",
        parameters=_OF_CONTAINER,
    )
    history = ml_operation(
        "post",
        f"{_IN_ALL}/history",
        "addMemoryHistory",
        "Record a change of a long-term memory",
        body="`action`, one of ADD, UPDATE and DELETE; also `memory_id`, `before`, `after`, `namespace`, `tags`.",
        result="The record's id.",
        parameters=_OF_CONTAINER,
    )
    return [added, session, long_term, history]


def _of_types() -> Sequence[Operation]:
    searches = [
        ml_operation(method, f"{_IN_TYPE}/_search", name, title, body=_SEARCH, parameters=_OF_A_TYPE)
        for method, name, title in (
            ("get", "searchMemoriesByGet", "Search a container's memories, with a body"),
            ("post", "searchMemories", "Search a container's memories"),
        )
    ]
    deleted = ml_operation(
        "post",
        f"{_IN_TYPE}/_delete_by_query",
        "deleteMemoriesByQuery",
        "Delete the memories that a query finds",
        body="The `query`.",
        result="How many were deleted.",
        parameters=_OF_A_TYPE,
    )
    one = f"{_IN_TYPE}/{{memoryId}}"
    return [
        *searches,
        deleted,
        ml_operation("get", one, "getMemory", "One memory of a container", parameters=_OF_ONE),
        ml_operation("put", one, "changeMemory", "Change a memory", body="What is to be another.", parameters=_OF_ONE),
        ml_operation("delete", one, "deleteMemory", "Delete a memory", parameters=_OF_ONE),
    ]


def _vector_searches() -> Sequence[Operation]:
    return [
        ml_operation(
            method,
            f"{_IN_ALL}/long-term/_{kind}_search",
            f"{kind}Search{how}",
            f"{kind.capitalize()} search, which needs models that are not here yet: a 400{title}",
            body="The search.",
            parameters=_OF_CONTAINER,
        )
        for kind in ("semantic", "hybrid")
        for method, how, title in (("get", "ByGet", ", by GET"), ("post", "", ""))
    ]


_API = ml_api(
    [*_writes(), *_of_types(), *_vector_searches()],
    containerId="The memory container's id.",
    memoryType="One of `sessions`, `working`, `long-term` and `history`.",
    memoryId="The document's id; that of a session is its thread's.",
)

PROTOCOL = WireProtocol(
    "ml_container_memories",
    _routes,
    error_form=opensearch_error_form,
    api=_API,
    thread_documents=ThreadsAsMemory(),
    settings=SETTINGS,
)
