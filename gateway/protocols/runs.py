"""Runs and threads over REST: list, look at, replay, stop and delete them.

Below: protocol, and ag_ui for messages and events. Shapes are camelCase; lists are paged by
`nextCursor`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.ag_ui.events import interrupt_json
from gateway.ag_ui.messages import ag_ui_messages
from gateway.ag_ui.peer import PROTOCOL_VERSION, PeerProfile, profile_of
from gateway.ag_ui.shapes import AG_UI_SHAPES, events_response
from gateway.ag_ui.stream import event_stream
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.openapi.description import (
    ApiDescription,
    Operation,
    answer,
    described_json,
    json_body,
    operation,
    parameter,
)
from gateway.openapi.shapes import (
    MAYBE_COUNT,
    MAYBE_TIME,
    NEXT_PAGE,
    TIME,
    list_of,
    nullable,
    object_of,
    ref,
    text,
    words,
)
from gateway.protocol import (
    Endpoint,
    ProtocolEnvironment,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    page_asked,
    path_id,
    read_json,
    time_text,
)
from gateway.providers.failure_words import public_message
from gateway.store import RunRecord, ThreadChange, ThreadSummary

_MAX_TITLE = 500
_MAX_CURSOR_DIGITS = 18
_PACE = re.compile(r"[0-9]{1,3}(\.[0-9]{1,6})?", re.ASCII)
_SLOWEST, _FASTEST = 0.1, 100


class _Endpoints:
    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment

    async def run(self, request: Request) -> Response:
        caller = caller_of(request)
        record = await self._environment.run(caller, path_id(request, "run_id"))
        return json_response(run_json(record, to_operator=self._environment.is_operators(caller)))

    async def events(self, request: Request) -> Response:
        caller, run_id = caller_of(request), path_id(request, "run_id")
        profile = _profile(request)
        record = await self._environment.run(caller, run_id)
        log_id, after = _cursor(request)
        viewer = await self._environment.attach(caller, run_id, after=after, log_id=log_id, pace=_pace(request))
        if viewer is None:
            return Response(status_code=204)
        return event_stream(self._environment, caller, viewer, profile, record.thread_id, run_id)

    async def cancel(self, request: Request) -> Response:
        caller = caller_of(request)
        record = await self._environment.cancel(caller, path_id(request, "run_id"))
        to_operator = self._environment.is_operators(caller)
        return json_response(run_json(record, to_operator=to_operator), 200 if record.status.ended else 202)

    async def threads(self, request: Request) -> Response:
        limit, cursor = page_asked(request)
        page = await self._environment.threads(caller_of(request), limit=limit, cursor=cursor)
        return json_response({"threads": [_thread_json(item) for item in page.items], "nextCursor": page.next_cursor})

    async def messages(self, request: Request) -> Response:
        limit, cursor = page_asked(request)
        thread_id = path_id(request, "thread_id")
        caller = caller_of(request)
        page = await self._environment.messages(caller, thread_id, limit=limit, cursor=cursor)
        answer: JsonObject = {
            "messages": [*ag_ui_messages(page.items, _profile(request))],
            "incomplete": [message.id for message in page.items if message.incomplete],
            "interrupts": [interrupt_json(each) for each in await self._environment.interrupts(caller, thread_id)],
            "nextCursor": page.next_cursor,
        }
        return json_response(answer)

    async def thread(self, request: Request) -> Response:
        return await (self._delete(request) if request.method == "DELETE" else self._rename(request))

    async def _rename(self, request: Request) -> Response:
        title = _title(await read_json(request))
        change = ThreadChange(title)
        await self._environment.update_thread(caller_of(request), path_id(request, "thread_id"), change)
        return Response(status_code=204)

    async def _delete(self, request: Request) -> Response:
        await self._environment.delete(caller_of(request), path_id(request, "thread_id"))
        return Response(status_code=204)


def run_json(record: RunRecord, *, to_operator: bool = False) -> JsonObject:
    """A run as `GET /runs/{run_id}` shows it. `to_operator`: the caller may see why a model failed."""
    error: JsonValue = None
    if record.error_code is not None:
        message = record.error_message or ""
        said = message if to_operator else public_message(record.error_code, message)
        error = {"code": record.error_code, "message": said}
    return {
        "runId": record.client_id,
        "threadId": record.thread_id,
        "agentId": record.agent_id,
        "status": record.status.value,
        "error": error,
        "usage": [
            {
                "provider": usage.provider,
                "model": usage.model,
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "totalTokens": usage.total_tokens,
                "reasoningTokens": usage.reasoning_tokens,
                "cachedInputTokens": usage.cached_input_tokens,
                "cacheWriteInputTokens": usage.cache_write_input_tokens,
            }
            for usage in record.usage
        ],
        "createdAt": time_text(record.created_at),
        "startedAt": time_text(record.started_at),
        "finishedAt": time_text(record.finished_at),
    }


def _thread_json(thread: ThreadSummary) -> JsonObject:
    return {
        "id": thread.thread_id,
        "title": thread.title,
        "agentId": thread.agent_id,
        "createdAt": time_text(thread.created_at),
        "updatedAt": time_text(thread.updated_at),
    }


def _profile(request: Request) -> PeerProfile:
    try:
        return profile_of(request.query_params.get("protocolVersion", PROTOCOL_VERSION))
    except ValueError as error:
        raise InvalidRequestError(str(error), code="unsupported_protocol_version", status=400) from None


def _cursor(request: Request) -> tuple[str, int]:
    """The last event that the caller has: the log's id, if its `id` has one, and its number, 0 for none.

    The query counts before the header, which browsers set by themselves.
    """
    text = request.query_params.get("after", request.headers.get("last-event-id", ""))
    if not text:
        return "", 0
    log_id, _, number = text.rpartition(":")
    if not (number.isascii() and number.isdigit() and len(number) <= _MAX_CURSOR_DIGITS):
        raise InvalidRequestError(
            f"{text[:64]!r} is not a cursor; give the `id` of the last event that you have",
            code="invalid_cursor",
            status=400,
        )
    return log_id, int(number)


def _pace(request: Request) -> float | None:
    """The speed at which the log is shown, 1 as it came; None: at once."""
    text = request.query_params.get("pace")
    if text is None:
        return None
    if not (_PACE.fullmatch(text) and _SLOWEST <= float(text) <= _FASTEST):
        raise InvalidRequestError(
            f"pace is {text[:64]!r}; it has to be a number from {_SLOWEST} to {_FASTEST}, 1 for the pace at which the"
            " events came",
            code="invalid_pace",
            status=400,
        )
    return float(text)


def _title(body: JsonValue) -> str | None:
    if not isinstance(body, dict) or "title" not in body:
        raise InvalidRequestError("nothing to change", problems=[FieldProblem("/title", "expected a string or null")])
    unknown = [FieldProblem(f"/{name}", "only title can be changed") for name in body if name != "title"]
    title = body["title"]
    if not (title is None or (isinstance(title, str) and len(title.strip()) > 0 and len(title) <= _MAX_TITLE)):
        unknown.append(FieldProblem("/title", f"expected null or a string of 1 to {_MAX_TITLE} characters"))
    if unknown:
        raise InvalidRequestError("the thread cannot be changed like that", problems=unknown)
    return title.strip() if isinstance(title, str) else None


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/runs/{run_id:path}/events", Endpoint(on.events), methods=["GET"]),
        VisitorRoute("/runs/{run_id:path}/cancel", on.cancel, methods=["POST"]),
        VisitorRoute("/runs/{run_id:path}", on.run),
        VisitorRoute("/threads", on.threads),
        VisitorRoute("/threads/{thread_id:path}/messages", on.messages),
        # one route: with several, a 405 would name only the methods of the first
        VisitorRoute("/threads/{thread_id:path}", on.thread, methods=["PATCH", "DELETE"]),
    ]


# --- in the API document


def _run_operations() -> Sequence[Operation]:
    return [
        (
            "/runs/{runId}",
            "get",
            operation(
                "runs",
                "getRun",
                "How a run is doing",
                {"200": described_json("Run", "The run.")},
                parameters=["runId"],
                problems=["404", "503"],
            ),
        ),
        (
            "/runs/{runId}/events",
            "get",
            operation(
                "runs",
                "followRun",
                "Follow a run",
                {
                    "200": events_response(
                        "The events after the cursor, to the run's end; the whole log without a cursor."
                    ),
                    "204": answer("The run has ended, and the cursor is at its end: nothing will come."),
                },
                description="Any number of viewers may follow one run, while it goes on and afterwards.",
                parameters=["runId", "lastEventId", "after", "pace", "protocolVersion"],
                problems=["400", "404", "503"],
            ),
        ),
        (
            "/runs/{runId}/cancel",
            "post",
            operation(
                "runs",
                "cancelRun",
                "Stop a run",
                {
                    "200": described_json("Run", "It had ended already."),
                    "202": described_json("Run", "It ends within a second, as `cancelled`."),
                },
                parameters=["runId"],
                problems=["404", "503"],
            ),
        ),
    ]


def _thread_operations() -> Sequence[Operation]:
    return [
        (
            "/threads",
            "get",
            operation(
                "threads",
                "listThreads",
                "The threads, latest first",
                {"200": described_json("ThreadList", "A page of them.")},
                parameters=["limit", "cursor"],
                problems=["400", "503"],
            ),
        ),
        (
            "/threads/{threadId}/messages",
            "get",
            operation(
                "threads",
                "listMessages",
                "A thread's messages, from the first",
                {"200": described_json("MessageList", "A page of them.")},
                parameters=["threadId", "limit", "cursor", "protocolVersion"],
                problems=["400", "404", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "patch",
            operation(
                "threads",
                "renameThread",
                "Give a thread a title",
                {"204": answer("It has the title now.")},
                parameters=["threadId"],
                body=json_body("ThreadChange", "What to change."),
                problems=["400", "404", "413", "415", "422", "503"],
            ),
        ),
        (
            "/threads/{threadId}",
            "delete",
            operation(
                "threads",
                "deleteThread",
                "Forget a thread",
                {"204": answer("The thread is gone, with its messages, runs and logs.")},
                description="A run that is under way on the thread is cancelled first. What a stateful model's "
                "provider keeps of the thread is deleted there, too, once this request is answered.",
                parameters=["threadId"],
                problems=["404", "503"],
            ),
        ),
    ]


def _parameters() -> JsonObject:
    an_id: JsonObject = {"$ref": "#/components/schemas/Id"}
    cursor: JsonObject = {"type": "string", "pattern": "^([^:]+:)?[0-9]+$"}
    return {
        "runId": parameter("path", "runId", "The run's id.", an_id),
        "threadId": parameter("path", "threadId", "The thread's id.", an_id),
        "lastEventId": parameter("header", "Last-Event-ID", "The `id` of the last event that arrived.", cursor),
        "after": parameter("query", "after", "The same, where a header cannot be set.", cursor),
        "pace": parameter(
            "query",
            "pace",
            "Show what the log has with the pauses that were between the events: `1` as they came, `2` twice as fast."
            " Without it the log comes at once, as do events of earlier versions, which kept no times. What a run under"
            " way says from now on comes as it is said.",
            {"type": "number", "minimum": _SLOWEST, "maximum": _FASTEST},
        ),
        "protocolVersion": parameter(
            "query",
            "protocolVersion",
            "The AG-UI version the client speaks, `1.0` where absent; `0.1` leaves out what older clients refuse.",
            {"type": "string", "pattern": "^[0-9]+\\.[0-9]+$"},
        ),
    }


_API = ApiDescription(
    {"runs": "Look at a run, follow it, stop it.", "threads": "The conversations that are kept."},
    [*_run_operations(), *_thread_operations()],
    {
        "Run": object_of(
            ["runId", "threadId", "agentId", "status", "error", "usage", "createdAt", "startedAt", "finishedAt"],
            {
                "runId": ref("Id"),
                "threadId": ref("Id"),
                "agentId": text(),
                "status": words("queued", "running", "completed", "interrupted", "cancelled", "failed"),
                "error": {"anyOf": [ref("RunError"), {"type": "null"}]},
                "usage": list_of("Usage"),
                "createdAt": TIME,
                "startedAt": MAYBE_TIME,
                "finishedAt": MAYBE_TIME,
            },
        ),
        "RunError": object_of(["code", "message"], {"code": text("As in RUN_ERROR."), "message": text()}),
        "Usage": object_of(
            [
                "provider",
                "model",
                "inputTokens",
                "outputTokens",
                "totalTokens",
                "reasoningTokens",
                "cachedInputTokens",
                "cacheWriteInputTokens",
            ],
            {
                "provider": text(
                    "As in the configuration: `openai/v1/responses`; in events the vendor alone: `openai`."
                ),
                "model": text(),
                "inputTokens": MAYBE_COUNT,
                "outputTokens": MAYBE_COUNT,
                "totalTokens": MAYBE_COUNT,
                "reasoningTokens": MAYBE_COUNT,
                "cachedInputTokens": MAYBE_COUNT,
                "cacheWriteInputTokens": MAYBE_COUNT,
            },
            "Tokens of one provider and model; null where the provider did not say.",
        ),
        "ThreadList": object_of(["threads", "nextCursor"], {"threads": list_of("Thread"), "nextCursor": NEXT_PAGE}),
        "Thread": object_of(
            ["id", "title", "agentId", "createdAt", "updatedAt"],
            {
                "id": ref("Id"),
                "title": nullable("string"),
                "agentId": text("The agent that ran last."),
                "createdAt": TIME,
                "updatedAt": TIME,
            },
        ),
        "ThreadChange": object_of(
            ["title"],
            {
                "title": {
                    "type": ["string", "null"],
                    "minLength": 1,
                    "maxLength": 500,
                    "description": "null takes the title away.",
                }
            },
        ),
        "MessageList": object_of(
            ["messages", "incomplete", "interrupts", "nextCursor"],
            {
                "messages": list_of("Message"),
                "incomplete": {
                    "type": "array",
                    "items": ref("Id"),
                    "description": "Those of the page's messages that were cut off, because their run failed or was"
                    " stopped.",
                },
                "interrupts": {
                    "type": "array",
                    "items": ref("Interrupt"),
                    "description": "The thread's questions that wait for an answer, the same on each page.",
                },
                "nextCursor": NEXT_PAGE,
            },
        ),
        **AG_UI_SHAPES,
    },
    _parameters(),
)

PROTOCOL = WireProtocol("runs", _routes, api=_API)
