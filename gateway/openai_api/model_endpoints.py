"""OpenAI's list of models: the agents that a caller may use. All of `/v1` that no other protocol serves is its own.
It is there while Chat Completions or Responses is.

Below: the protocols' environment, openai_api.
https://platform.openai.com/docs/api-reference/models
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import Caller
from gateway.messages import JsonObject
from gateway.openai_api.errors import unknown_model
from gateway.openai_api.routes import PATHS_WITHOUT_PREFIX, PREFIXES, openai_error_form, openai_routes
from gateway.openai_api.settings import CHAT_SECTION, RESPONSES_SECTION
from gateway.openapi.data import api_data
from gateway.protocol import Endpoint, ProtocolEnvironment, StoredAgent, WireProtocol, caller_of, path_id
from gateway.protocol.answers import json_response

_PAGE: Final = 500
_NO_TIME: Final = 0  # the configuration file does not say when an agent was made


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def models(self, request: Request) -> Response:
        caller = caller_of(request)
        listed = [_model(agent.definition.id) for agent in self._environment.agents(caller)]
        listed += [
            _stored_model(each.agent_id, each.created_at, caller, own=each.own) async for each in self._stored(caller)
        ]
        return json_response({"object": "list", "data": [*listed]})

    async def _stored(self, caller: Caller) -> AsyncGenerator[StoredAgent]:
        after: str | None = ""
        while after is not None:
            found, after = await self._environment.stored_agents(caller, limit=_PAGE, after=after)
            for agent in found:
                yield agent

    async def model(self, request: Request) -> Response:
        caller, name = caller_of(request), path_id(request, "model")
        if any(agent.definition.id == name for agent in self._environment.agents(caller)):
            return json_response(_model(name))
        stored = await self._environment.agent_document(caller, name)
        if stored is None:
            raise unknown_model(name)
        return json_response(_stored_model(name, stored.created_at, caller, own=stored.owner == caller.owner))


def _model(agent_id: str, *, created: int = _NO_TIME, owner: str = "gateway") -> JsonObject:
    return {"id": agent_id, "object": "model", "created": created, "owned_by": owner}


def _stored_model(agent_id: str, created_at: float, caller: Caller, *, own: bool) -> JsonObject:
    # of an agent that somebody else made public, nobody is told who that is
    return _model(agent_id, created=int(created_at), owner=caller.owner if own else "another")


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return openai_routes([Route("/models", Endpoint(on.models)), Route("/models/{model}", Endpoint(on.model))])


PROTOCOL = WireProtocol(
    "openai_models",
    _routes,
    paths=[path for begin in (*PREFIXES, *PATHS_WITHOUT_PREFIX) for path in (begin, f"{begin}/{{rest:path}}")],
    error_form=openai_error_form,
    api=api_data("gateway.openai_api", "openai_models"),
    settings={**CHAT_SECTION, **RESPONSES_SECTION},
)
