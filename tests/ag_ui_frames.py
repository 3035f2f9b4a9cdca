"""Frames of AG-UI as a client reads them, each held against the package's models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import Event as PackageEvent
from pydantic import TypeAdapter

PACKAGE: TypeAdapter[Any] = TypeAdapter(PackageEvent)


def read(stream: bytes) -> list[tuple[int | None, dict[str, Any]]]:
    """The frames as (id, event); every one is checked against the package."""
    assert b"\r" not in stream
    *frames, rest = stream.split(b"\n\n")
    assert rest == b""
    read_frames = []
    for frame in frames:
        data, *more = frame.split(b"\n")
        payload = json.loads(data.removeprefix(b"data: "), parse_constant=pytest.fail)
        parsed = PACKAGE.validate_python(payload)
        assert not parsed.model_extra, parsed.model_extra
        assert json.loads(parsed.model_dump_json(by_alias=True)) == payload
        assert len(more) <= 1
        read_frames.append((int(more[0].removeprefix(b"id: ")) if more else None, payload))
    return read_frames
