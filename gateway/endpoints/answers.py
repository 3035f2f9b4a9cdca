"""Plain JSON answers, and times in them."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
from starlette.responses import Response

from gateway.messages import JsonValue


def time_text(seconds: float | None) -> str | None:
    """A time in Unix seconds as text for answers (RFC 3339, UTC)."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_response(value: JsonValue, status: int = 200) -> Response:
    """A JSON answer that must not be cached."""
    headers = {"cache-control": "no-store", "content-type": "application/json"}
    return Response(orjson.dumps(value), status, headers)
