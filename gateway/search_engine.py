"""The contract of search engines, and the `SearchEngineType` part.

Below: messages, owners, findings. The embedded engine and a cluster implement it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from gateway.findings import Finding
from gateway.messages import JsonObject
from gateway.owners import key_of

Identity: TypeAlias = Literal["service", "impersonate"]


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks: the owner of the run."""

    owner: str = ""

    @property
    def key(self) -> str | None:
        """The name of its API key; None for visitors, and where nobody needs a key."""
        return key_of(self.owner)


SOMEBODY = Asker()
"""Whoever asks, where it does not matter."""


class SearchEngine(Protocol):
    """Indices of JSON documents, searched with (a subset of) the OpenSearch query DSL.

    An engine bounds each request by itself: how long it takes, and how large the answer is. Cancelling a call ends it.
    """

    @property
    def has_plugins(self) -> bool:
        """Whether OpenSearch's plugins can be asked here: `ppl`, and queries by models of ml-commons."""

    async def list_indices(self, names: tuple[str, ...] = (), asker: Asker = SOMEBODY) -> list[JsonObject]:
        """A row per index as in `_cat/indices?format=json`: `health status index uuid pri rep docs.count ...`.

        Raises:
            ToolError: there is no index of that name.
        """

    async def mapping(self, names: tuple[str, ...], asker: Asker = SOMEBODY) -> JsonObject:
        """`{index: {"mappings": {...}, "settings": {...}}}`.

        Raises:
            ToolError: there is no index of that name.
        """

    async def search(self, index: str, body: JsonObject, asker: Asker = SOMEBODY) -> JsonObject:
        """The response of an OpenSearch `_search`: `{took, timed_out, hits: {total, max_score, hits: [...]}, ...}`.

        Raises:
            ToolError: there is no such index, or this engine does not support the query; the message names the
            supported queries.
        """

    async def ppl(self, query: str, index: str | None = None, asker: Asker = SOMEBODY) -> JsonObject:
        """The response of `_plugins/_ppl`. `index`: the only source that the query may have; None: any that may be
        searched.

        Raises:
            ToolError: the query is wrong or not allowed, there is no such index, or this engine has no PPL.
        """

    async def close(self) -> None:
        """Close files and connections."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """The section `search`; configuration.SearchSection explains its fields."""

    url: str
    indices: tuple[str, ...] = ()
    identity: Identity = "service"
    scripts: bool = False
    timeout_seconds: float = 10.0
    max_response_bytes: int = 5_000_000


@dataclass(frozen=True, slots=True)
class SearchEnvironment:
    """Relative paths in an engine's URL are relative to `directory`. `store` is the URL of the gateway's own store,
    which no search reads.
    """

    directory: Path
    store: str = ""


@dataclass(frozen=True, slots=True)
class SearchEngineType:
    """A part: opens the engine of the URLs whose scheme is `name` (`embedded:`, `opensearch:`...). `open` does no I/O;
    it raises ConfigurationError for settings that can never work. `examine` gives what `agui-gateway doctor` says of
    the engine; None: nothing.
    """

    name: str
    open: Callable[[SearchSettings, SearchEnvironment], SearchEngine]
    examine: Callable[[SearchSettings, SearchEnvironment], AsyncGenerator[Finding]] | None = None
