"""Runs over REST: look at, replay and stop them.

Below: protocol, and ag_ui for messages and events. Shapes are camelCase; lists are paged by
`nextCursor`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from gateway.ag_ui.peer import profile_asked
from gateway.ag_ui.stream import event_stream
from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.openapi.data import api_data
from gateway.protocol import (
    Endpoint,
    ProtocolEnvironment,
    VisitorRoute,
    WireProtocol,
    caller_of,
    json_response,
    path_id,
    time_text,
)
from gateway.protocol.failure_words import shown_message
from gateway.protocol.requests import whole_number
from gateway.store import RunRecord

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
        profile = profile_asked(request.query_params.get("protocolVersion"))
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


def run_json(record: RunRecord, *, to_operator: bool = False) -> JsonObject:
    """A run as `GET /runs/{run_id}` shows it. `to_operator`: the caller may see why a model failed."""
    error: JsonValue = None
    if record.error_code is not None:
        said = shown_message(record.error_code, record.error_message or "", to_operator=to_operator)
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


def _cursor(request: Request) -> tuple[str, int]:
    """The last event that the caller has: the log's id, if its `id` has one, and its number, 0 for none.

    The query counts before the header, which browsers set by themselves.
    """
    text = request.query_params.get("after", request.headers.get("last-event-id", ""))
    if not text:
        return "", 0
    log_id, _, number = text.rpartition(":")
    if (after := whole_number(number, most_digits=_MAX_CURSOR_DIGITS)) is None:
        raise InvalidRequestError(
            f"{text[:64]!r} is not a cursor; give the `id` of the last event that you have",
            code="invalid_cursor",
            status=400,
        )
    return log_id, after


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


def _routes(environment: ProtocolEnvironment) -> Sequence[BaseRoute]:
    on = _Endpoints(environment)
    return [
        VisitorRoute("/runs/{run_id:path}/events", Endpoint(on.events), methods=["GET"]),
        VisitorRoute("/runs/{run_id:path}/cancel", on.cancel, methods=["POST"]),
        VisitorRoute("/runs/{run_id:path}", on.run),
    ]


PROTOCOL = WireProtocol("runs", _routes, api=api_data("gateway.protocols", "runs"))
