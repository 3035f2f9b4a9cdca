"""What the search tools search in, and the `SearchEngineType` part.

Below: messages. The embedded engine and a cluster are two values of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.messages import JsonObject


class SearchEngine(Protocol):
    """Indices of JSON documents, asked in (a subset of) the OpenSearch query DSL."""

    async def list_indices(self, names: tuple[str, ...] = ()) -> list[JsonObject]:
        """A row per index as `_cat/indices?format=json` has it: `health status index uuid pri rep docs.count ...`.

        Raises:
            ToolError: an index of that name is not there.
        """

    async def mapping(self, names: tuple[str, ...]) -> JsonObject:
        """`{index: {"mappings": {...}, "settings": {...}}}`.

        Raises:
            ToolError: an index of that name is not there.
        """

    async def search(self, index: str, body: JsonObject) -> JsonObject:
        """An OpenSearch `_search` answer: `{took, timed_out, hits: {total, max_score, hits: [...]}, ...}`.

        Raises:
            ToolError: no such index, or a query that this engine does not have; the message says what it has.
        """

    async def close(self) -> None:
        """Let go of files and connections."""


@dataclass(frozen=True, slots=True)
class SearchEngineType:
    """A part: `open(url, directory)` for the URLs whose scheme is `name` (`embedded:`, `opensearch:`...).

    Relative paths in the URL are relative to `directory`.
    """

    name: str
    open: Callable[[str, Path], SearchEngine]
