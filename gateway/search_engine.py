"""The contract of search engines, and the `SearchEngineType` part.

Below: messages. The embedded engine and a cluster implement it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway.messages import JsonObject


class SearchEngine(Protocol):
    """Indices of JSON documents, searched with (a subset of) the OpenSearch query DSL."""

    async def list_indices(self, names: tuple[str, ...] = ()) -> list[JsonObject]:
        """A row per index as in `_cat/indices?format=json`: `health status index uuid pri rep docs.count ...`.

        Raises:
            ToolError: there is no index of that name.
        """

    async def mapping(self, names: tuple[str, ...]) -> JsonObject:
        """`{index: {"mappings": {...}, "settings": {...}}}`.

        Raises:
            ToolError: there is no index of that name.
        """

    async def search(self, index: str, body: JsonObject, owner: str = "") -> JsonObject:
        """The response of an OpenSearch `_search`: `{took, timed_out, hits: {total, max_score, hits: [...]}, ...}`.
        `owner`: the owner whose search it is, for engines that divide their time between owners.

        Raises:
            ToolError: there is no such index, or this engine does not support the query; the message names the
            supported queries.
        """

    async def close(self) -> None:
        """Close files and connections."""


@dataclass(frozen=True, slots=True)
class SearchEngineType:
    """A part: `open(url, directory)` for the URLs whose scheme is `name` (`embedded:`, `opensearch:`...).

    Relative paths in the URL are relative to `directory`.
    """

    name: str
    open: Callable[[str, Path], SearchEngine]
