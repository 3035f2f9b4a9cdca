"""ml-commons' REST API: memory containers.

Below: the protocols' environment; ml_commons. What a container holds: ml_container_memories.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.errors import ConflictError
from gateway.ml_commons.answers import id_taken, search_answer, write_answer
from gateway.ml_commons.api_document import ml_api, ml_operation
from gateway.ml_commons.container_memories import ContainerMemories
from gateway.ml_commons.memory_access import container_of
from gateway.ml_commons.memory_containers import CONTAINER_ID, changed_container, new_container
from gateway.ml_commons.memory_kinds import CONTAINER_INDEX, CONTAINERS
from gateway.ml_commons.memory_requests import types_to_delete
from gateway.ml_commons.routes import PREFIX, ml_response, opensearch_error_form, read_object
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id

_CONTAINERS = PREFIX + "/memory_containers"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def create(self, request: Request) -> Response:
        caller, body = caller_of(request), await read_object(request)
        container_id, document = new_container(body, caller.owner, self._environment.now())
        try:
            await self._environment.documents(caller).put(CONTAINERS, container_id, document, if_version=0)
        except ConflictError as error:
            raise id_taken(CONTAINER_ID, container_id) from error
        return ml_response(request, {"memory_container_id": container_id, "status": "created"})

    async def container(self, request: Request) -> Response:
        documents = self._environment.documents(caller_of(request))
        found = await container_of(documents, path_id(request, "container_id"))
        return ml_response(request, found.body)

    async def update(self, request: Request) -> Response:
        documents, body = self._environment.documents(caller_of(request)), await read_object(request)
        found = await container_of(documents, path_id(request, "container_id"))
        changed = changed_container(found.body, body, self._environment.now())
        version = await documents.put(CONTAINERS, found.document_id, changed, if_version=found.version)
        return ml_response(request, write_answer(CONTAINER_INDEX, found.document_id, "updated", version))

    async def delete(self, request: Request) -> Response:
        caller, body = caller_of(request), await read_object(request)
        documents = self._environment.documents(caller)
        found = await container_of(documents, path_id(request, "container_id"))
        for memories in types_to_delete(request.query_params, body):
            await ContainerMemories(self._environment, caller, found).delete_found(memories, None)
        await documents.delete(CONTAINERS, found.document_id)
        return ml_response(request, write_answer(CONTAINER_INDEX, found.document_id, "deleted", found.version))

    async def search(self, request: Request) -> Response:
        found = await self._environment.documents(caller_of(request)).search(CONTAINERS, await read_object(request))
        return ml_response(request, search_answer(found, CONTAINER_INDEX, lambda document: document))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        Route(f"{_CONTAINERS}/_create", on.create, methods=["POST"]),
        Route(f"{_CONTAINERS}/_search", on.search, methods=["GET", "POST"]),
        Route(_CONTAINERS + "/{container_id}", on.container, methods=["GET"]),
        Route(_CONTAINERS + "/{container_id}", on.update, methods=["PUT"]),
        Route(_CONTAINERS + "/{container_id}", on.delete, methods=["DELETE"]),
    ]


# --- in the API document

_API = ml_api(
    [
        ml_operation(
            "post",
            "/memory_containers/_create",
            "createMemoryContainer",
            "Make a memory container",
            body="Its `name`; also `description`, `memory_container_id`, `configuration`.",
            result="Its id.",
        ),
        *(
            ml_operation(
                method,
                "/memory_containers/_search",
                f"searchMemoryContainers{how}",
                f"Search your memory containers{', with a body' if method == 'get' else ''}",
                body="A search in OpenSearch's query language; without one all are found.",
                result="OpenSearch's answer to a search.",
            )
            for method, how in (("get", "ByGet"), ("post", ""))
        ),
        ml_operation(
            "get",
            "/memory_containers/{containerId}",
            "getMemoryContainer",
            "A memory container",
            parameters=["containerId"],
        ),
        ml_operation(
            "put",
            "/memory_containers/{containerId}",
            "changeMemoryContainer",
            "Change a memory container",
            body="What is to be another; a `retention_policy` of null is removed.",
            parameters=["containerId"],
        ),
        ml_operation(
            "delete",
            "/memory_containers/{containerId}",
            "deleteMemoryContainer",
            "Delete a memory container",
            parameters=["containerId"],
            description="Its memories stay unless the query or the body has `delete_all_memories`, or names some types "
            "in `delete_memories`: `sessions,working`. A session's thread and working memory go with it.",
        ),
    ],
    containerId="The memory container's id.",
)

PROTOCOL = WireProtocol("ml_containers", _routes, error_form=opensearch_error_form, api=_API)
