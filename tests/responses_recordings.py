"""The recorded traffic of Responses APIs beside the tests, and what it should give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

FOLDER = Path(__file__).parent / "recordings" / "openai-responses"


def recordings(kind: str) -> list[dict[str, Any]]:
    """The manifest's entries of one kind: `sse` or `json`. `uri`, `status`, `expect`, names of the files."""
    entries: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())
    return [entry for entry in entries if entry["kind"] == kind]


def recording(name: str) -> dict[str, Any]:
    """The entry of a stream whose file's name begins so."""
    (entry,) = [entry for entry in recordings("sse") if str(entry["response"]).startswith(name)]
    return entry


def recorded_bytes(entry: dict[str, Any]) -> bytes:
    return (FOLDER / str(entry["response"])).read_bytes()


def recorded_request(entry: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = json.loads((FOLDER / entry["request"]).read_text())
    return request


def recorded_events(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a recorded stream."""
    lines = recorded_bytes(entry).split(b"\n")
    return [orjson.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


def recorded_response(entry: dict[str, Any]) -> dict[str, Any]:
    """The whole response, as the last event has it."""
    response: dict[str, Any] = recorded_events(entry)[-1]["response"]
    return response
