"""Plain JSON answers, times in them, and the headers that name their run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import orjson
from starlette.responses import Response

from gateway.messages import JsonValue

THREAD_HEADER: Final = "x-thread-id"
"""On requests the thread that is meant, on answers the one that the run is on."""
_RUN_HEADER: Final = "x-run-id"


def time_text(seconds: float | None) -> str | None:
    """A time in Unix seconds as text for answers (RFC 3339, UTC)."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_response(value: JsonValue, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> Response:
    """A JSON answer that must not be cached. `headers` are additional."""
    return Response(orjson.dumps(value), status, {"cache-control": "no-store", **headers}, "application/json")


def run_headers(thread_id: str, run_id: str) -> Mapping[str, str]:
    """The headers of an answer that name the run and its thread. Their ids may be any text."""
    return {THREAD_HEADER: _sendable(thread_id), _RUN_HEADER: _sendable(run_id)}


def _sendable(value: str) -> str:
    if value.isascii() and value.isprintable():
        return value
    return value.encode().decode("latin-1") if value.isprintable() else quote(value, errors="replace")
