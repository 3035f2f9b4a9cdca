"""Which agents there are; and those that callers make: put, replaced and deleted over HTTP.

Below: the protocols' environment, which says who may; configuration.agent_body, which reads an agent. An agent in a
body has the fields of one in the configuration file, and `public`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import Caller
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.openapi.data import api_data
from gateway.protocol import (
    ProtocolEnvironment,
    StoredAgent,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    page_asked,
    path_id,
    read_json,
)

_PAGE: Final = 500
_CONFIGURED: Final = "c"  # cursors: the place in the configuration, then the id of a stored agent
_STORED: Final = "s"


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def agents(self, request: Request) -> Response:
        caller = caller_of(request)
        limit, cursor = page_asked(request, usual=_PAGE)
        kind, place = (_CONFIGURED, "0") if cursor is None else _read_cursor(cursor)
        rows: list[JsonValue] = []
        next_cursor = None
        if kind == _CONFIGURED:
            rows, next_cursor = self._configured(request, caller, int(place), limit)
            place = ""
        if len(rows) < limit:
            found, more = await self._environment.stored_agents(caller, limit=limit - len(rows), after=place)
            rows += [self._stored_row(request, each) for each in found]
            if more is not None:
                next_cursor = _cursor(_STORED, more)
        # a client that knows no pages gets what it always got
        return json_response({"agents": rows} | ({} if next_cursor is None else {"nextCursor": next_cursor}))

    def _configured(
        self, request: Request, caller: Caller, start: int, limit: int
    ) -> tuple[list[JsonValue], str | None]:
        agents = self._environment.agents(caller)
        rows: list[JsonValue] = []
        for agent in agents[start : start + limit]:
            known = agent.definition
            rows.append(self._row(request, known.id, known.name, known.description, known.type))
        end = start + limit
        return rows, _cursor(_CONFIGURED, str(end)) if end <= len(agents) and rows else None

    def _row(self, request: Request, agent_id: str, name: str, description: str, kind: str) -> JsonObject:
        url = self._environment.public_url(request) + f"/agents/{agent_id}/run"
        return {"id": agent_id, "name": name, "description": description, "type": kind, "url": url}

    def _stored_row(self, request: Request, agent: StoredAgent) -> JsonObject:
        row = self._row(request, agent.agent_id, agent.name, agent.description, agent.type)
        return {**row, "public": agent.public, "own": agent.own}

    async def put(self, request: Request) -> Response:
        caller, agent_id = caller_of(request), path_id(request, "agent_id")
        self._environment.check_maker(caller)  # before anything of the request is called wrong
        body = await read_json(request)
        if not isinstance(body, dict):
            raise InvalidRequestError(
                f"the body is {json_kind(body)}; it must be an agent, as in the configuration file", status=400
            )
        public = body.pop("public", False)
        if not isinstance(public, bool):
            detail = f"is {json_kind(public)}; it must be true or false"
            raise InvalidRequestError(
                f"'public' {detail}", code="invalid_agent", problems=[FieldProblem("/public", detail)]
            )
        created = await self._environment.put_agent(caller, agent_id, body, public=public)
        url = f"{self._environment.public_url(request)}/agents/{agent_id}/run"
        return json_response({"id": agent_id, "url": url, "public": public}, 201 if created else 200)

    async def delete(self, request: Request) -> Response:
        await self._environment.delete_agent(caller_of(request), path_id(request, "agent_id"))
        return Response(status_code=204)


def _cursor(kind: str, place: str) -> str:
    return base64.urlsafe_b64encode(f"{kind}{place}".encode()).decode()


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        text_ = base64.b64decode(cursor.encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        text_ = ""
    kind, place = text_[:1], text_[1:]
    known = (kind == _CONFIGURED and place.isascii() and place.isdigit() and len(place) < 10) or (
        kind == _STORED and bool(place)
    )
    if not known:
        raise InvalidRequestError(
            "the cursor is not one that GET /agents gave; send its nextCursor, or none",
            code="invalid_cursor",
            status=400,
        )
    return kind, place


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/agents", on.agents),
        Route("/agents/{agent_id}", on.put, methods=["PUT"]),
        Route("/agents/{agent_id}", on.delete, methods=["DELETE"]),
    ]


PROTOCOL = WireProtocol("agents", _routes, api=api_data("gateway.protocols", "agents"))
