"""The recorded traffic of Responses APIs."""

from __future__ import annotations

from typing import Any

import orjson

from tests.recorded_traffic import Entry, Recordings

RECORDINGS = Recordings("openai-responses")
recordings = RECORDINGS.of_kind  # `sse` or `json`
recorded_bytes = RECORDINGS.answer
recorded_request = RECORDINGS.request


def recording(name: str) -> Entry:
    """The entry of a stream whose file's name begins so."""
    (entry,) = [entry for entry in recordings("sse") if str(entry["response"]).startswith(name)]
    return entry


def recorded_events(entry: Entry) -> list[dict[str, Any]]:
    """The events of a recorded stream."""
    lines = recorded_bytes(entry).split(b"\n")
    return [orjson.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


def recorded_response(entry: Entry) -> dict[str, Any]:
    """The whole response, as the last event has it."""
    response: dict[str, Any] = recorded_events(entry)[-1]["response"]
    return response
