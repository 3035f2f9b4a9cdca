"""Tokens for the visitors of websites: a publishable key comes in, an identity of one's own goes out.

Below: visitors. The path is open to everybody as far as the door is concerned: who comes is looked at here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.access.callers import bearer_in
from gateway.errors import FieldProblem, ForbiddenError, InvalidRequestError
from gateway.messages import JsonValue
from gateway.openapi.description import ApiDescription, Operation, json_answer, json_body, operation
from gateway.openapi.shapes import TIME, nullable, object_of, text
from gateway.protocol import ProtocolEnvironment, WireProtocol, json_response, read_json

_MAX_BODY_BYTES = 4_096


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._visitors = environment.visitors

    async def welcome(self, request: Request) -> Response:
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
        welcome = self._visitors.welcome(key, former, address)
        expires_at = datetime.fromtimestamp(welcome.expires_at, UTC).isoformat().replace("+00:00", "Z")
        return json_response(
            {"visitorToken": welcome.token, "expiresAt": expires_at, "renewed": welcome.renewed}, status=201
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
    return [Route("/visitors", _Endpoints(environment).welcome, methods=["POST"])]


# --- in the API document


def _operations() -> Sequence[Operation]:
    welcome = operation(
        "visitors",
        "welcomeVisitor",
        "Be somebody: get a visitor's token",
        {"201": json_answer("Visitor", "A token for the visitor of `visitorToken`, or for a new one.")},
        description=(
            "Keep the token, and send it here again before it expires or within 30 days after: it is renewed for the"
            " same visitor, who keeps its threads. A token that says nothing any more makes a new visitor; `renewed`"
            " tells which it was."
        ),
        body=json_body("VisitorRequest", "The visitor's token, where there is one already."),
        problems=["400", "413", "415", "422", "429"],
    )
    welcome["security"] = [{"publishableKey": []}]
    return [("/visitors", "post", welcome)]


_API = ApiDescription(
    {"visitors": "For strangers on a website that has a publishable key."},
    _operations(),
    {
        "VisitorRequest": object_of([], {"visitorToken": nullable("string", "The token that the visitor has.")}),
        "Visitor": object_of(
            ["visitorToken", "expiresAt", "renewed"],
            {
                "visitorToken": text("Opaque; keep it where the site's other pages find it."),
                "expiresAt": TIME,
                "renewed": {
                    "type": "boolean",
                    "description": "For the visitor whose token was sent; else for a new one.",
                },
            },
        ),
    },
)


PROTOCOL = WireProtocol("visitors", _routes, api=_API)
