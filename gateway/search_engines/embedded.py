"""The embedded search engine: indices in SQLite, words ranked by BM25, searched by a subset of the query DSL.

`embedded:` is empty and in memory, `embedded:sample` has the sample documents in it (`sample_data/`), and
`embedded:/path/search.db` is a file, which is created if it does not exist. `query_dsl/` has the supported part of the
DSL. The engine differs from OpenSearch in three things: words are compared without their accents; scores are computed
over all searched indices together; and a query for a field that no searched index has is an error that names the
fields, so that the model that wrote the query can correct it. `took` is not measured.

Every statement runs in a thread, one search at a time (embedded_index.search_slots), so the event loop never waits for
a disk and SQLite sees one caller.
Below: search_engine (the contract), embedded_index.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import orjson

from gateway.embedded_index.budget import USUAL_STEPS, SearchSteps
from gateway.embedded_index.documents import cat_row, described, find_indices, prepare, put_documents
from gateway.embedded_index.search import search_indices
from gateway.embedded_index.search_slots import Rest, SearchSlots
from gateway.errors import ConfigurationError, ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.field_mapping import MappingError
from gateway.search_engine import SOMEBODY, Asker, SearchEngineType, SearchEnvironment, SearchSettings
from gateway.sqlite.private_files import make_private, tighten

ResultT = TypeVar("ResultT")


class EmbeddedSearchEngine:
    """Indices of JSON documents in one SQLite database. Opened at the first use."""

    has_plugins = False

    def __init__(self, path: Path | None, *, sample: bool = False, most: SearchSteps = USUAL_STEPS) -> None:
        """`most`: the steps that one search may take."""
        self._path = path
        self._sample = sample
        self._most = most
        self._slots = SearchSlots("embedded-search")
        self._database: sqlite3.Connection | None = None
        self._closed = False
        # The rows of `list_indices`, for an engine in memory, which only this process changes. Set in the threads, one
        # job at a time.
        self._listed: list[JsonObject] | None = None

    async def list_indices(self, names: tuple[str, ...] = (), asker: Asker = SOMEBODY) -> list[JsonObject]:
        """A row for each index, as in `_cat/indices?format=json`.

        Raises:
            ToolError: there is no index of that name.
        """

        def rows_of(database: sqlite3.Connection, rest: Rest) -> list[JsonObject]:
            rows = [cat_row(database, index) for index in find_indices(database, names)]
            if not names and self._path is None:
                self._listed = rows
            return rows

        known = self._listed
        rows = await self._run("", rows_of) if names or known is None or self._closed else known
        return [dict(row) for row in rows]

    async def mapping(self, names: tuple[str, ...], asker: Asker = SOMEBODY) -> JsonObject:
        """`{index: {"mappings": {...}, "settings": {...}}}`.

        Raises:
            ToolError: there is no index of that name.
        """
        return await self._run(
            "", lambda database, _: {index.name: described(index) for index in find_indices(database, names)}
        )

    async def search(self, index: str, body: JsonObject, asker: Asker = SOMEBODY) -> JsonObject:
        """The result of a `_search` in OpenSearch's form. `index` may be a pattern, or several, separated by commas.

        Raises:
            ToolError: there is no such index, or the query is wrong or not supported.
        """
        return await self._run(
            asker.owner, lambda database, rest: search_indices(database, index, body, self._most, rest)
        )

    async def ppl(self, query: str, index: str | None = None, asker: Asker = SOMEBODY) -> JsonObject:
        """Raises ToolError: there is no PPL here."""
        raise ToolError("the embedded search engine has no PPL; search by the query DSL")

    async def index(
        self, name: str, documents: Iterable[Mapping[str, JsonValue]], mappings: JsonObject | None = None
    ) -> list[str]:
        """Put documents into an index, which is created if it does not exist: all of them or, on an error, none.

        `mappings` is `{"properties": {...}}`; fields that are not in it get their types from the documents. A document
        replaces the one that has its `_id`; without `_id` it gets a fresh id. Gives the ids.

        Raises:
            ToolError: the name, the mapping or a value does not fit.
        """

        def put() -> list[str]:
            self._listed = None
            return put_documents(self._open(), name, list(documents), mappings)

        self._check_open()
        return await self._slots.run_alone(lambda: _with_tool_errors(put))

    async def close(self) -> None:
        """Close the database, after the searches that are under way."""
        if self._closed:
            return
        self._closed = True
        await self._slots.run_alone(self._close)
        await asyncio.to_thread(self._slots.close)

    async def _run(self, owner: str, work: Callable[[sqlite3.Connection, Rest], ResultT]) -> ResultT:
        self._check_open()
        return await self._slots.run(owner, lambda rest: _with_tool_errors(lambda: work(self._open(), rest)))

    def _check_open(self) -> None:
        if self._closed:
            raise ToolError("the search engine is closed")

    def _open(self) -> sqlite3.Connection:
        if self._database is None:
            if self._path is not None:
                make_private(self._path)
            database = sqlite3.connect(self._path or ":memory:", isolation_level=None, check_same_thread=False)
            try:
                prepare(database)
                if self._path is not None:
                    tighten(self._path)
                if self._sample:
                    _load_sample(database)
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None


def _with_tool_errors(work: Callable[[], ResultT]) -> ResultT:
    """The result of `work`. Raises ToolError: the search is wrong, or the file cannot be used."""
    try:
        return work()
    except (QueryError, MappingError) as error:
        raise ToolError(str(error)) from error
    except sqlite3.Error as error:
        raise ToolError("the search index cannot be used just now") from error


def _load_sample(database: sqlite3.Connection) -> None:
    for entry in sorted(files("gateway.search_engines").joinpath("sample_data").iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".json"):
            content = orjson.loads(entry.read_bytes())
            put_documents(database, entry.name.removesuffix(".json"), content["documents"], content["mappings"])


def open_embedded(settings: SearchSettings, environment: SearchEnvironment) -> EmbeddedSearchEngine:
    """The engine of an `embedded:` URL, all of whose indices everybody may search.

    Raises:
        ConfigurationError: the directory of the file does not exist, or a field is for clusters.
    """
    url, directory = settings.url, environment.directory
    if set_fields := [each.name for each in fields(settings) if getattr(settings, each.name) != each.default][1:]:
        raise ConfigurationError(
            "the embedded search engine has only a url",
            fields=[((name,), "is for an 'opensearch:' cluster; leave it out") for name in set_fields],
        )
    place = url.partition(":")[2]
    if place.startswith("//"):
        place = place[2:]
    if place in ("", "memory", "sample"):
        return EmbeddedSearchEngine(None, sample=place == "sample")
    path = directory / place
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigurationError(
            f"search {url!r}: {str(path)!r} cannot be a file; name one in a directory that is there, "
            "or 'embedded:sample'"
        )
    return EmbeddedSearchEngine(path)


ENGINE = SearchEngineType("embedded", open_embedded)
