"""What is served, as an OpenAPI 3.1 document. Pure.

Below: schemas. Above: routes. Written out by hand: most of what matters (streams, cursors, what a repeated request
does) no framework derives from signatures. A test holds it against the application's routes.
https://spec.openapis.org/oas/v3.1.1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gateway import __version__
from gateway.messages import JsonObject, JsonValue
from gateway.openapi.schemas import SCHEMAS

_INTRODUCTION = """\
Agents over AG-UI 1.0 (https://docs.ag-ui.com), with runs that outlive the connection that started them.
Every answer carries `x-request-id`. Errors before the first byte are RFC 9457 problems; errors after it are events.
Where keys are configured, everything but health and the documentation needs `Authorization: Bearer <key>`; threads and
runs belong to the key's name, and another's id is simply unknown. Visitors of a website come with
`Authorization: Bearer <visitorToken>` and an `Origin` of the site: POST /visitors gives the token out for a
publishable key; threads and runs belong to the visitor. What is not for visitors answers them 403."""

_STREAM = """\
Server-sent events: one AG-UI event per `data:` line. `id:` is the decimal number of the event in the run's log,
strictly increasing; only the last frame of an event carries it. Comments keep the connection open and carry none."""

Operation: TypeAlias = "tuple[str, str, JsonObject]"


def openapi_document() -> JsonObject:
    """The document."""
    paths: dict[str, JsonValue] = {}
    for path, method, operation in (*_agents(), *_runs(), *_threads(), *_approvals(), *_visitors(), *_service()):
        item = paths.setdefault(path, {})
        assert isinstance(item, dict)
        item[method] = operation
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "agui-gateway",
            "version": __version__,
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "agents", "description": "Run an agent, or learn what it can do."},
            {"name": "runs", "description": "Look at a run, follow it, stop it."},
            {"name": "threads", "description": "The conversations that are kept."},
            {"name": "approvals", "description": "For those who approve other people's calls."},
            {"name": "visitors", "description": "For strangers on a website that has a publishable key."},
            {"name": "service", "description": "For those who operate the gateway."},
        ],
        # an empty requirement: keys are needed only where they are configured
        "security": [{"key": []}, {"visitor": []}, {}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "responses": _problem_responses(),
            "parameters": _parameters(),
            "headers": {"requestId": {"description": _REQUEST_ID, "schema": {"type": "string"}}},
            "securitySchemes": {
                "key": _bearer("One of server.api_keys."),
                "visitor": _bearer("A visitor's token, from POST /visitors; from a page of the key's origins."),
                "publishableKey": _bearer("One of server.publishable_keys; from a page of its origins."),
            },
        },
    }


# --- the operations -------------------------------------------------------------------------------------------------


def _agents() -> Sequence[Operation]:
    return [
        (
            "/agents",
            "get",
            _operation("agents", "listAgents", "The agents", {"200": _json("AgentList", "All agents.")}),
        ),
        ("/agents/{agentId}/run", "post", _run()),
        ("/agents/{agentId}/connect", "post", _connect()),
        (
            "/agents/{agentId}/capabilities",
            "get",
            _operation(
                "agents",
                "getCapabilities",
                "What an agent can do",
                {"200": _json("AgentCapabilities", "AG-UI AgentCapabilities, true for this agent.")},
                parameters=["agentId"],
                problems=["404"],
            ),
        ),
    ]


def _run() -> JsonObject:
    return _operation(
        "agents",
        "runAgent",
        "Run an agent",
        {"200": _stream("The run, from RUN_STARTED to RUN_FINISHED or RUN_ERROR.")},
        description=(
            "Repeating a request with its `runId` and the same messages attaches to the run, or replays it once it has "
            "ended. `resume` for interrupts that a run left open may come under that run's own `runId`: it means the "
            "newest run of that id from then on. Anything else under a used `runId` is a 409. A second run on a busy "
            "thread is a 409, waits its turn (429 where too many wait), or ends the first one, as the agent is "
            "configured; a run that nobody watches any more gives way. Calls of the request's own tools end the run: "
            "send their results as tool messages."
        ),
        parameters=["agentId"],
        body=_body("RunAgentInput", "An AG-UI RunAgentInput; `messages` is the whole history."),
        problems=["400", "404", "409", "413", "415", "422", "429", "503"],
    )


def _connect() -> JsonObject:
    return _operation(
        "agents",
        "connectAgent",
        "Pick a thread up again",
        {"200": _stream("RUN_STARTED, the thread's state and messages, then what is left of the live run.")},
        description=(
            "For a page that was reloaded. RUN_STARTED and the terminal event carry the live or last run's id, so that "
            "pending calls and interrupts come back. An unknown thread is RUN_STARTED and RUN_FINISHED. The body's "
            "messages are not read."
        ),
        parameters=["agentId"],
        body=_body("RunAgentInput", "An AG-UI RunAgentInput; its `threadId` is what counts."),
        problems=["400", "404", "413", "415", "422", "503"],
    )


def _runs() -> Sequence[Operation]:
    return [
        (
            "/runs/{runId}",
            "get",
            _operation(
                "runs",
                "getRun",
                "How a run is doing",
                {"200": _json("Run", "The run.")},
                parameters=["runId"],
                problems=["404", "503"],
            ),
        ),
        (
            "/runs/{runId}/events",
            "get",
            _operation(
                "runs",
                "followRun",
                "Follow a run",
                {
                    "200": _stream("The events after the cursor, to the run's end; the whole log without a cursor."),
                    "204": _empty("The run has ended, and the cursor is at its end: nothing will come."),
                },
                description="Any number of viewers may follow one run, while it goes on and afterwards.",
                parameters=["runId", "lastEventId", "after", "protocolVersion"],
                problems=["400", "404", "503"],
            ),
        ),
        (
            "/runs/{runId}/cancel",
            "post",
            _operation(
                "runs",
                "cancelRun",
                "Stop a run",
                {
                    "200": _json("Run", "It had ended already."),
                    "202": _json("Run", "It ends within a second, as `cancelled`."),
                },
                parameters=["runId"],
                problems=["404", "503"],
            ),
        ),
    ]


def _threads() -> Sequence[Operation]:
    return [
        (
            "/threads",
            "get",
            _operation(
                "threads",
                "listThreads",
                "The threads, latest first",
                {"200": _json("ThreadList", "A page of them.")},
                parameters=["limit", "cursor"],
                problems=["400", "503"],
            ),
        ),
        (
            "/threads/{threadId}/messages",
            "get",
            _operation(
                "threads",
                "listMessages",
                "A thread's messages, from the first",
                {"200": _json("MessageList", "A page of them.")},
                parameters=["threadId", "limit", "cursor", "protocolVersion"],
                problems=["400", "404", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "patch",
            _operation(
                "threads",
                "renameThread",
                "Give a thread a title",
                {"204": _empty("It has the title now.")},
                parameters=["threadId"],
                body=_body("ThreadChange", "What to change."),
                problems=["400", "404", "413", "415", "422", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "delete",
            _operation(
                "threads",
                "deleteThread",
                "Forget a thread",
                {"204": _empty("The thread is gone, with its messages, runs and logs.")},
                description="A run that is under way on the thread is cancelled first. What a stateful model's "
                "provider keeps of the thread is deleted there, too, once this request is answered.",
                parameters=["threadId"],
                problems=["404", "503"],
            ),
        ),
    ]


def _approvals() -> Sequence[Operation]:
    listed = _operation(
        "approvals",
        "listApprovals",
        "What waits for approval, the oldest first",
        {"200": _json("ApprovalList", "A page of it, of all owners' conversations.")},
        description="For keys with `approvals: true`. What has expired is not there any more.",
        parameters=["limit", "cursor"],
        problems=["400", "503"],
    )
    answered = _operation(
        "approvals",
        "answerApproval",
        "Approve a call, or deny it",
        {"202": _json("StartedRun", "The run that goes on with it has begun, or waits for its turn.")},
        description=(
            "For keys with `approvals: true`, against whose limits the run counts. It belongs to the thread's owner,"
            " who sees it over /connect. A 409 is an approval that was answered (`approval_answered`) or has expired"
            " (`approval_expired`), or a busy thread."
        ),
        parameters=["approvalId"],
        body=_body("ApprovalDecision", "The answer."),
        problems=["400", "404", "409", "413", "415", "422", "429", "503"],
    )
    listed["security"] = answered["security"] = [{"key": []}]
    return [("/approvals", "get", listed), ("/approvals/{approvalId}", "post", answered)]


def _visitors() -> Sequence[Operation]:
    welcome = _operation(
        "visitors",
        "welcomeVisitor",
        "Be somebody: get a visitor's token",
        {"201": _json("Visitor", "A token for the visitor of `visitorToken`, or for a new one.")},
        description=(
            "Keep the token, and send it here again before it expires or within 30 days after: it is renewed for the"
            " same visitor, who keeps its threads. A token that says nothing any more makes a new visitor; `renewed`"
            " tells which it was."
        ),
        body=_body("VisitorRequest", "The visitor's token, where there is one already."),
        problems=["400", "413", "415", "422", "429"],
    )
    welcome["security"] = [{"publishableKey": []}]
    return [("/visitors", "post", welcome)]


def _service() -> Sequence[Operation]:
    metrics = _operation("service", "getMetrics", "Metrics for Prometheus", {"200": _metrics()})
    metrics["security"] = [{"key": []}, {}]
    ready: JsonObject = {
        "200": _json("Readiness", "Requests are served."),
        "503": _json("Readiness", "Not now: shutting down, or the store cannot be written."),
    }
    return [
        (
            "/healthz",
            "get",
            _operation(
                "service", "getHealth", "Whether the process is alive", {"200": _json("Health", "It is.")}, False
            ),
        ),
        ("/readyz", "get", _operation("service", "getReadiness", "Whether requests are served", ready, False)),
        ("/metrics", "get", metrics),
        ("/openapi.json", "get", _operation("service", "getOpenapi", "This document", {"200": _document()}, False)),
    ]


# --- their pieces ---------------------------------------------------------------------------------------------------


def _operation(
    tag: str,
    operation_id: str,
    summary: str,
    responses: JsonObject,
    needs_key: bool = True,
    *,
    description: str = "",
    parameters: Sequence[str] = (),
    body: JsonObject | None = None,
    problems: Sequence[str] = (),
) -> JsonObject:
    answers: JsonObject = dict(responses)
    for status in ["401", "403", *problems] if needs_key else problems:
        answers[status] = {"$ref": f"#/components/responses/problem{status}"}
    operation: JsonObject = {"tags": [tag], "operationId": operation_id, "summary": summary}
    if description:
        operation["description"] = description
    if parameters:
        operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in parameters]
    if body is not None:
        operation["requestBody"] = body
    if not needs_key:
        operation["security"] = []
    operation["responses"] = dict(sorted(answers.items()))
    return operation


def _bearer(description: str) -> JsonObject:
    return {"type": "http", "scheme": "bearer", "description": description}


def _answer(description: str, content: JsonObject | None = None) -> JsonObject:
    answer: JsonObject = {
        "description": description,
        "headers": {"x-request-id": {"$ref": "#/components/headers/requestId"}},
    }
    if content is not None:
        answer["content"] = content
    return answer


def _json(schema: str, description: str) -> JsonObject:
    return _answer(description, {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}})


def _stream(description: str) -> JsonObject:
    example = 'id: 1\ndata: {"type":"RUN_STARTED","threadId":"thread-1","runId":"run-1"}\n\n'
    content: JsonObject = {"text/event-stream": {"schema": {"type": "string"}, "example": example}}
    return _answer(f"{description} {_STREAM}", content)


def _empty(description: str) -> JsonObject:
    return _answer(description)


def _metrics() -> JsonObject:
    return _answer("All metrics, or OpenMetrics by Accept.", {"text/plain": {"schema": {"type": "string"}}})


def _document() -> JsonObject:
    return _answer("An OpenAPI 3.1 document.", {"application/json": {"schema": {"type": "object"}}})


def _body(schema: str, description: str) -> JsonObject:
    return {
        "required": True,
        "description": description,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


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


def _problem_responses() -> JsonObject:
    schema: JsonObject = {"schema": {"$ref": "#/components/schemas/Problem"}}
    responses: JsonObject = {}
    for status, meaning in _PROBLEMS.items():
        answer = _answer(meaning, {"application/problem+json": schema, "application/json": schema})
        headers = answer["headers"]
        assert isinstance(headers, dict)
        if status in ("429", "503"):
            headers["retry-after"] = {"description": "Seconds.", "schema": {"type": "integer"}}
        if status == "401":
            headers["www-authenticate"] = {"schema": {"type": "string"}}
        responses[f"problem{status}"] = answer
    return responses


def _parameters() -> JsonObject:
    cursor: JsonObject = {"type": "string", "pattern": "^([^:]+:)?[0-9]+$"}
    page: JsonObject = {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    return {
        "agentId": _parameter("path", "agentId", "The agent's id.", {"type": "string"}),
        "runId": _parameter("path", "runId", "The run's id.", {"$ref": "#/components/schemas/Id"}),
        "approvalId": _parameter("path", "approvalId", "The approval's id.", {"type": "string"}),
        "threadId": _parameter("path", "threadId", "The thread's id.", {"$ref": "#/components/schemas/Id"}),
        "lastEventId": _parameter("header", "Last-Event-ID", "The `id` of the last event that arrived.", cursor),
        "after": _parameter("query", "after", "The same, where a header cannot be set.", cursor),
        "protocolVersion": _parameter(
            "query",
            "protocolVersion",
            "The AG-UI version the client speaks, `1.0` where absent; `0.1` leaves out what older clients refuse.",
            {"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"},
        ),
        "limit": _parameter("query", "limit", "How many at most.", page),
        "cursor": _parameter("query", "cursor", "`nextCursor` of the page before.", {"type": "string"}),
    }


def _parameter(place: str, name: str, description: str, schema: JsonObject) -> JsonObject:
    return {"name": name, "in": place, "required": place == "path", "description": description, "schema": schema}
