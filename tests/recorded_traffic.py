"""Recorded traffic of model providers, what it should give, and the ways in which a network may cut it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pytest

Entry: TypeAlias = dict[str, Any]
"""Of a manifest: `kind`, `uri`, `status`, `expect`, and the names of the files `request` and `response`."""


class Recordings:
    """One folder of them."""

    def __init__(self, name: str) -> None:
        self.folder = Path(__file__).parent / "recordings" / name
        self.entries: list[Entry] = json.loads((self.folder / "manifest.json").read_text())

    def of_kind(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry["kind"] == kind]

    def answer(self, entry: Entry) -> bytes:
        """The body of the recorded response."""
        return (self.folder / str(entry["response"])).read_bytes()

    def request(self, entry: Entry) -> dict[str, Any]:
        request: dict[str, Any] = json.loads((self.folder / str(entry["request"])).read_text())
        return request

    def check_manifest(self) -> None:
        """Every file is in it, and everything in it is a file."""
        named = {str(entry[part]) for entry in self.entries for part in ("request", "response")}
        assert {path.name for path in self.folder.iterdir()} == named | {"manifest.json"}


def each(entries: Sequence[Entry]) -> pytest.MarkDecorator:
    """A test of each `entry`."""
    return pytest.mark.parametrize("entry", entries, ids=[str(entry["response"]) for entry in entries])


def ways_to_cut(data: bytes) -> Iterator[list[bytes]]:
    """Whole, byte by byte, and into pieces of any size, from few to hundreds; always the same ones."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for seed in range(8):
        places = random.Random(seed).sample(range(len(data)), k=min(len(data) - 1, 2 ** (seed + 1)))
        yield [data[a:b] for a, b in pairwise([0, *sorted(places), len(data)])]


def beginnings(data: bytes, end: int) -> Iterator[bytes]:
    """What has come where a stream breaks off somewhere before `end`."""
    for place in range(0, end, max(1, end // 40)):
        yield data[:place]
