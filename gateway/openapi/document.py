"""The gateway's API as an OpenAPI 3.1 document, built from the protocols' descriptions of their paths. Pure.

Below: description, shapes. Above: the composition root. The parts are written by hand, as data
beside each room: no framework derives from signatures the things that matter most (streams, cursors, what a repeated
request does). A test compares the document with the application's routes.
https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway import __version__
from gateway.errors import ConfigurationError
from gateway.messages import JsonObject
from gateway.openapi.description import ApiDescription, ApiPart, answer, parameter
from gateway.openapi.shapes import list_of, object_of, text

_INTRODUCTION = """\
Agents over AG-UI 1.0 (https://docs.ag-ui.com), with runs that outlive the connection that started them.
Every answer carries `x-request-id`. Errors before the first byte are RFC 9457 problems; errors after it are events.
Where keys are configured, everything but health and the documentation needs `Authorization: Bearer <key>`; threads and
runs belong to the key's name, and another's id is simply unknown. Visitors of a website come with
`Authorization: Bearer <visitorToken>` and an `Origin` of the site: POST /visitors gives the token out for a
publishable key; threads and runs belong to the visitor. What is not for visitors answers them 403."""

_REQUEST_ID = "The request's id in the log: the caller's own where it sent a sane one."

_PROBLEMS = {
    "400": "The body is not JSON, or a cursor is none of ours.",
    "401": "A key is needed, and there was none that is known; `visitor_needed` and `visitor_expired`: POST /visitors.",
    "403": "The page's origin, or the host name, may not use the gateway, or this is not for visitors.",
    "404": "There is none, or none of the caller's.",
    "409": (
        "The thread is busy, or the run's id is taken; or `stale_history`: the thread has messages that the client has "
        "not `seen`, which are in `missing`, behind the message `after`."
    ),
    "413": "The body is larger than `server.max_body_bytes`, or it or a message larger than the key allows.",
    "415": "The body is not `application/json`.",
    "422": "Fields are wrong; `errors` lists them.",
    "429": "Too many runs wait for the thread, or a limit of the key is reached: `limit_...` names the setting.",
    "503": "The gateway is shutting down, `overloaded`, or the store cannot be written; it passes.",
}


def openapi_document(parts: Sequence[ApiPart]) -> JsonObject:
    """The document of these protocols, in their order.

    Raises:
        ConfigurationError: two protocols use one name for different things.
    """
    operations: JsonObject = {}
    schemas: JsonObject = {}
    parameters = _page_parameters()
    tags: dict[str, str] = {}
    problem_members: JsonObject = {}
    for part in parts:
        described = part if isinstance(part, ApiDescription) else part()
        tags |= described.tags
        problem_members |= described.problem_members
        _add(operations, {f"{method} {path}": each for path, method, each in described.operations})
        _add(schemas, described.schemas)
        _add(parameters, described.parameters)
    _add(schemas, _shared_schemas(problem_members))
    paths: dict[str, JsonObject] = {}
    for name, each in operations.items():
        method, _, path = name.partition(" ")
        paths.setdefault(path, {})[method] = each
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "agui-gateway",
            "version": __version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": meaning} for name, meaning in tags.items()],
        # an empty requirement: a key is needed only if keys are configured
        "security": [{"key": []}, {"visitor": []}, {}],
        "paths": {**paths},
        "components": {
            "schemas": schemas,
            "responses": _problem_responses(),
            "parameters": parameters,
            "headers": {"requestId": {"description": _REQUEST_ID, "schema": {"type": "string"}}},
            "securitySchemes": {
                "key": _bearer("One of server.api_keys."),
                "password": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "One of server.api_keys as the password of its name, on ml-commons' paths.",
                },
                "visitor": _bearer("A visitor's token, from POST /visitors; from a page of the key's origins."),
                "publishableKey": _bearer("One of server.publishable_keys; from a page of its origins."),
            },
        },
    }


def _add(components: JsonObject, more: JsonObject) -> None:
    for name, described in more.items():
        if components.setdefault(name, described) != described:
            raise ConfigurationError(f"two protocols describe {name!r} differently in the API document; rename one")


def _problem_responses() -> JsonObject:
    schema: JsonObject = {"schema": {"$ref": "#/components/schemas/Problem"}}
    responses: JsonObject = {}
    for status, meaning in _PROBLEMS.items():
        response = answer(meaning, {"application/problem+json": schema, "application/json": schema})
        headers = response["headers"]
        assert isinstance(headers, dict)
        if status in ("429", "503"):
            headers["retry-after"] = {"description": "Seconds.", "schema": {"type": "integer"}}
        if status == "401":
            headers["www-authenticate"] = {"schema": {"type": "string"}}
        responses[f"problem{status}"] = response
    return responses


def _page_parameters() -> JsonObject:
    page: JsonObject = {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    return {
        "limit": parameter("query", "limit", "How many at most.", page),
        "cursor": parameter("query", "cursor", "`nextCursor` of the page before.", {"type": "string"}),
    }


def _shared_schemas(problem_members: JsonObject) -> JsonObject:
    """The schemas that all protocols share. `problem_members`: what problems have besides."""
    return {
        "Id": {
            "type": "string",
            "minLength": 1,
            "maxLength": 256,
            "pattern": "^[^\\u0000-\\u001f\\u007f]+$",
            "description": "1 to 256 characters, none of them a control character.",
        },
        "Problem": object_of(
            ["type", "title", "status", "detail", "code", "errors"],
            {
                "type": text(),
                "title": text("The status in words."),
                "status": {"type": "integer"},
                "detail": text("What was wrong, then what would be right."),
                "code": text("Stable: programs match on it."),
                "errors": list_of("FieldProblem"),
                **problem_members,
            },
            "RFC 9457 problem details.",
        ),
        "FieldProblem": object_of(
            ["pointer", "detail"],
            {"pointer": text("RFC 6901, into the body."), "detail": text("What is wrong with the field.")},
        ),
    }


def _bearer(description: str) -> JsonObject:
    return {"type": "http", "scheme": "bearer", "description": description}
