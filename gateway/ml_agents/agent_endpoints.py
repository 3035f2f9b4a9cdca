"""ml-commons' REST API: agents: register, show, change, search and delete them.

Below: the protocols' environment, which says who may; ml_commons.registration, which reads the bodies.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import Caller
from gateway.agent import AgentDefinition
from gateway.agents.stored import ABOUT, AGENTS, shown_in, shown_of
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.messages import JsonObject
from gateway.ml_agents.agent_form import agent_form, shown_memory
from gateway.ml_agents.registration import AGENT_ID, Registration, read_change, read_registration, registered_id
from gateway.ml_agents.registration_tools import names_mcp_server
from gateway.ml_commons.answers import hits_of, id_taken, search_answer, write_answer
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
from gateway.ml_memory.memory_access import container_of
from gateway.ml_memory.memory_containers import new_container
from gateway.ml_memory.memory_kinds import CONTAINERS
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, caller_of, path_id
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)

INDEX: Final = ".plugins-ml-agent"
_AGENTS: Final = f"{PREFIX}/agents"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._settings = environment.shared(ClusterSettings)

    async def register(self, request: Request) -> Response:
        caller = caller_of(request)
        self._environment.check_maker(caller)  # before anything of the request is called wrong
        body = await read_object(request)
        if body.get("model") is not None:
            self._settings.check("unified_agent_api_enabled")
        self._check_parts(body)
        agent_id = registered_id(body)
        found = read_registration(body, self._environment.parts_for_callers)
        _warn_of_unknown(agent_id, found)
        async with self._container(caller, found):
            with _in_callers_words(agent_id, found):
                await self._environment.create_agent(caller, agent_id, found.agent)
        return ml_response(request, {"agent_id": agent_id})

    async def agent(self, request: Request) -> Response:
        return ml_response(request, await self._shown(caller_of(request), path_id(request, "agent_id")))

    async def update(self, request: Request) -> Response:
        caller, agent_id = caller_of(request), path_id(request, "agent_id")
        self._environment.check_maker(caller)
        body, parts = await read_object(request), self._environment.parts_for_callers
        self._check_parts(body)
        if self._configured(caller, agent_id) is not None:
            raise ConflictError(f"the agent {agent_id!r} is in the configuration file; change it there")
        stored = await self._environment.agent_document(caller, agent_id)
        if stored is None or stored.owner != caller.owner:
            raise _no_agent_to_change(agent_id)
        found = read_change(body, stored, parts)
        _warn_of_unknown(agent_id, found)
        body = found.with_container(body)
        async with self._container(caller, found):
            with _in_callers_words(agent_id, found):
                version = await self._environment.update_agent(
                    caller, agent_id, lambda document: read_change(body, document, parts).agent
                )
        return ml_response(request, write_answer(INDEX, agent_id, "updated", version))

    def _check_parts(self, body: JsonObject) -> None:
        """Refuse an agent with parts that are off."""
        if body.get("model") is not None:
            self._settings.check("remote_inference.enabled")
        if names_mcp_server(body):
            self._settings.check("mcp_connector_enabled")

    async def delete(self, request: Request) -> Response:
        caller, agent_id = caller_of(request), path_id(request, "agent_id")
        stored = await self._environment.agent_document(caller, agent_id)
        try:
            await self._environment.delete_agent(caller, agent_id)
        except NotFoundError as error:
            raise NotFoundError("Fail to find ml agent", code=error.code) from error
        version = 1 if stored is None else stored.version
        return ml_response(request, write_answer(INDEX, agent_id, "deleted", version + 1))

    async def search(self, request: Request) -> Response:
        documents = self._environment.documents(caller_of(request))
        found = await documents.search(AGENTS, await read_search(request))
        for hit in hits_of(found):
            if "_source" in hit:
                hit["_source"] = _public_members(hit["_source"], own=hit["_owner"] == documents.owner)
        return ml_response(request, search_answer(found, INDEX, lambda document: document))

    def _configured(self, caller: Caller, agent_id: str) -> AgentDefinition | None:
        agents = (agent.definition for agent in self._environment.agents(caller))
        return next((agent for agent in agents if agent.id == agent_id), None)

    async def _shown(self, caller: Caller, agent_id: str) -> JsonObject:
        if (configured := self._configured(caller, agent_id)) is not None:
            return shown_of(configured)
        stored = await self._environment.agent_document(caller, agent_id)
        if stored is None:
            raise NotFoundError(f"Failed to find agent with the provided agent id: {agent_id}", code="agent_not_found")
        return _public_members(stored.body, own=stored.owner == caller.owner)

    @asynccontextmanager
    async def _container(self, caller: Caller, found: Registration) -> AsyncGenerator[None]:
        """Check that the agent's memory container exists, or make it; delete the new one again if the block fails."""
        documents = self._environment.documents(caller)
        if found.container_id is None:
            if found.named_container_id is not None:
                await container_of(documents, found.named_container_id)
            yield
            return
        self._settings.check("agentic_memory_enabled")
        body: JsonObject = {"name": found.name, "memory_container_id": found.container_id}
        container_id, document = new_container(body, caller.owner, self._environment.now())
        await documents.put(CONTAINERS, container_id, document, if_version=0)
        try:
            yield
        except BaseException:
            await documents.delete(CONTAINERS, container_id)
            raise


def _public_members(body: JsonObject, *, own: bool) -> JsonObject:
    """The members of an agent's document that a caller sees; the memory container only of its own agents."""
    shown = {name: value for name, value in shown_in(body).items() if name != "id"}
    memory, about = shown.get("memory"), body.get(ABOUT)
    if isinstance(memory, dict) and not (own and about is None):
        container_id = agent_form(about).memory_container_id if isinstance(about, dict) else None
        shown["memory"] = shown_memory(memory, container_id, public=not own)
    return shown


@contextmanager
def _in_callers_words(agent_id: str, found: Registration) -> Generator[None]:
    """Errors of the definition as ones of the caller's body."""
    try:
        yield
    except ConflictError as error:
        if error.code == "id_taken":
            raise id_taken(AGENT_ID, agent_id) from error
        raise
    except NotFoundError as error:
        raise _no_agent_to_change(agent_id) from error
    except InvalidRequestError as error:
        if error.code == "invalid_agent":
            raise found.in_callers_words(error) from error
        raise


def _no_agent_to_change(agent_id: str) -> NotFoundError:
    return NotFoundError(f"Failed to get agent with ID {agent_id}", code="agent_not_found")


def _warn_of_unknown(agent_id: str, found: Registration) -> None:
    if found.unknown:
        extra = {"agent_id": agent_id, **counted(found.unknown)}
        logger.warning("members of an agent's body are skipped that nobody knows", extra=extra)


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    routes = [
        Route(f"{_AGENTS}/_register", on.register, methods=["POST"]),
        Route(f"{_AGENTS}/_search", on.search, methods=["GET", "POST"]),
        Route(_AGENTS + "/{agent_id}", on.agent, methods=["GET"]),
        Route(_AGENTS + "/{agent_id}", on.update, methods=["PUT"]),
        Route(_AGENTS + "/{agent_id}", on.delete, methods=["DELETE"]),
    ]
    return ml_routes(environment, routes, "agent_framework_enabled")


PROTOCOL = WireProtocol(
    "ml_agents",
    _routes,
    error_form=opensearch_error_form,
    api=api_data("gateway.ml_agents", "ml_agents"),
    settings=SETTINGS,
)
