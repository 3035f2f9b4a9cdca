"""Tokens for the visitors of websites: gives the holder of a publishable key an identity of its own.

Below: visitors. The access middleware lets every request to this path pass: the publishable key is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import bearer_in
from gateway.access.compression import NOT_PACKED
from gateway.errors import FieldProblem, ForbiddenError, InvalidRequestError
from gateway.messages import JsonValue
from gateway.openapi.data import api_data
from gateway.protocol import ProtocolEnvironment, WireProtocol, json_response, read_json

_PATH = "/visitors"
_MAX_BODY_BYTES = 4_096


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._visitors = environment.visitors

    async def issue_token(self, request: Request) -> Response:
        if self._visitors is None:
            raise ForbiddenError(
                "this gateway has no publishable keys; its operator can add server.publishable_keys",
                code="publishable_key_needed",
            )
        key = self._visitors.key(bearer_in(request.headers.get("authorization")))
        request.scope["state"]["key_name"] = key.name
        key.check_origin(request.headers)
        former = _former_token(await read_json(request, max_bytes=_MAX_BODY_BYTES))
        address, _ = request.scope.get("client") or ("", 0)
        self._visitors.note_proxy(request.headers, address)
        issued = self._visitors.issue_token(key, former, address)
        expires_at = datetime.fromtimestamp(issued.expires_at, UTC).isoformat().replace("+00:00", "Z")
        return json_response(
            {"visitorToken": issued.token, "expiresAt": expires_at, "renewed": issued.renewed},
            status=201,
            headers={"cache-control": f"no-store, {NOT_PACKED}"},
        )


def _former_token(body: JsonValue) -> str | None:
    if not isinstance(body, dict):
        raise InvalidRequestError('the body is no JSON object; send {} or {"visitorToken": "..."}')
    problems = [FieldProblem(f"/{name}", "is not known here") for name in body if name != "visitorToken"]
    former = body.get("visitorToken")
    if not (former is None or isinstance(former, str)):
        problems.append(FieldProblem("/visitorToken", "expected a string, or nothing"))
    if problems or not (former is None or isinstance(former, str)):
        raise InvalidRequestError("a visitor cannot be greeted like that", problems=problems)
    return former


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    return [Route(_PATH, _Endpoints(environment).issue_token, methods=["POST"])]


PROTOCOL = WireProtocol("visitors", _routes, open_paths=[_PATH], api=api_data("gateway.protocols", "visitors"))
