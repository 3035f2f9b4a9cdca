"""ml-commons' REST API: memory containers.

Below: the protocols' environment; ml_commons. The documents in a container: container_memory_endpoints.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.documents.owned import OwnedDocuments
from gateway.errors import ConflictError
from gateway.messages import JsonObject
from gateway.ml_commons.answers import id_taken, search_answer, write_answer
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
from gateway.ml_memory.memory_containers import CONTAINER_ID, changed_container, new_container
from gateway.ml_memory.memory_kinds import CONTAINER_INDEX, CONTAINERS
from gateway.ml_memory.memory_requests import types_to_delete
from gateway.ml_memory.retention_sweep import apply_policy, policy_result, sweep, sweep_of
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id

_CONTAINERS = PREFIX + "/memory_containers"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._settings = environment.shared(ClusterSettings)

    def _documents(self, request: Request) -> OwnedDocuments:
        return self._environment.documents(caller_of(request))

    async def _sent(self, request: Request) -> JsonObject:
        """The body that makes or changes a container."""
        body = await read_object(request)
        configuration = body.get("configuration")
        if isinstance(configuration, dict) and configuration.get("retention_policy") is not None:
            self._settings.check("memory.retention_enabled")
        return body

    async def create(self, request: Request) -> Response:
        documents, body = self._documents(request), await self._sent(request)
        container_id, document = new_container(body, documents.owner, self._environment.now())
        try:
            await documents.put(CONTAINERS, container_id, document, if_version=0)
        except ConflictError as error:
            raise id_taken(CONTAINER_ID, container_id) from error
        return ml_response(request, {"memory_container_id": container_id, "status": "created"})

    async def container(self, request: Request) -> Response:
        found = await container_of(self._documents(request), path_id(request, "container_id"))
        return ml_response(request, found.body)

    async def update(self, request: Request) -> Response:
        documents, body = self._documents(request), await self._sent(request)
        found = await container_of(documents, path_id(request, "container_id"))
        changed = changed_container(found.body, body, self._environment.now())
        version = await documents.put(CONTAINERS, found.document_id, changed, if_version=found.version)
        return ml_response(request, write_answer(CONTAINER_INDEX, found.document_id, "updated", version))

    async def delete(self, request: Request) -> Response:
        caller, documents, body = caller_of(request), self._documents(request), await read_object(request)
        found = await container_of(documents, path_id(request, "container_id"))
        contained = ContainerMemories(self._environment, caller, found)
        types = types_to_delete(request.query_params, body)
        self._environment.count(caller)
        for memories in types:
            await contained.delete_found(memories, None, counted=False)
        await contained.leave()
        await documents.delete(CONTAINERS, found.document_id)
        return ml_response(request, write_answer(CONTAINER_INDEX, found.document_id, "deleted", found.version))

    async def execute_retention(self, request: Request) -> Response:
        return await self._retention(request, dry=False)

    async def try_retention(self, request: Request) -> Response:
        return await self._retention(request, dry=True)

    async def _retention(self, request: Request, *, dry: bool) -> Response:
        self._settings.check("memory.retention_enabled")
        if not dry:
            self._environment.count(caller_of(request))
        results = await sweep_of(self._environment, caller_of(request), dry=dry)
        return ml_response(request, {"dry_run": dry, "containers": results})

    async def try_retention_of(self, request: Request) -> Response:
        self._settings.check("memory.retention_enabled")
        caller = caller_of(request)
        found = await container_of(self._documents(request), path_id(request, "container_id"))
        counts = await apply_policy(ContainerMemories(self._environment, caller, found), dry=True)
        return ml_response(request, {"dry_run": True, "containers": [policy_result(found, counts)]})

    async def search(self, request: Request) -> Response:
        found = await self._documents(request).search(CONTAINERS, await read_search(request))
        return ml_response(request, search_answer(found, CONTAINER_INDEX, lambda document: document))


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(f"{_CONTAINERS}/_create", on.create, methods=["POST"]),
        Route(f"{_CONTAINERS}/_search", on.search, methods=["GET", "POST"]),
        Route(f"{_CONTAINERS}/_retention/_execute", on.execute_retention, methods=["POST"]),
        Route(f"{_CONTAINERS}/_retention/_dry_run", on.try_retention, methods=["POST"]),
        Route(_CONTAINERS + "/{container_id}/_retention/_dry_run", on.try_retention_of, methods=["POST"]),
        Route(_CONTAINERS + "/{container_id}", on.container, methods=["GET"]),
        Route(_CONTAINERS + "/{container_id}", on.update, methods=["PUT"]),
        Route(_CONTAINERS + "/{container_id}", on.delete, methods=["DELETE"]),
    ]
    return ml_routes(environment, routes, "agentic_memory_enabled")


PROTOCOL = WireProtocol(
    "ml_containers",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_memory", "ml_containers"),
    sweep=sweep,
    settings=SETTINGS,
)
