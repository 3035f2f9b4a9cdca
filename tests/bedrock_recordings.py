"""The recorded traffic of Bedrock Converse beside the tests, and what it should give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "recordings" / "bedrock-converse"


def recordings(kind: str) -> list[dict[str, Any]]:
    """The manifest's entries of one kind: `eventstream` or `json`. `uri`, `status`, `expect`, names of the files."""
    entries: list[dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())
    return [entry for entry in entries if entry["kind"] == kind]


def recorded_bytes(entry: dict[str, Any]) -> bytes:
    return (FOLDER / str(entry["response"])).read_bytes()


def recorded_request(entry: dict[str, Any]) -> dict[str, Any]:
    request: dict[str, Any] = json.loads((FOLDER / entry["request"]).read_text())
    return request


def recorded_model_id(entry: dict[str, Any]) -> str:
    """Of the path `/model/<id>/converse-stream`."""
    return str(entry["uri"]).split("/model/")[1].split("/")[0].replace("%3A", ":")
