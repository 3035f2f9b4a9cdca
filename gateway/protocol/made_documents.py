"""Searches documents that are made for one request, from what threads show at that moment.

Below: the embedded index. Above: the rooms of protocols that answer searches over such documents. A search blocks for
up to a second, so it runs in a thread of `DocumentSearches`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TypeAlias

from gateway.embedded_index.budget import USUAL_STEPS, Budget
from gateway.embedded_index.documents import count_documents, find_indices, prepare, put_documents
from gateway.embedded_index.search import search_in
from gateway.embedded_index.search_slots import SearchSlots
from gateway.messages import JsonObject
from gateway.query_dsl.search_body import SearchBody

Rest: TypeAlias = Callable[[], None]
"""Lets other callers' searches work for a while."""
_AT_ONCE, _CHARACTERS_AT_ONCE = 100, 20_000


class DocumentSearches(SearchSlots):
    """The searches of all callers, who share the processor: `run` gives a search its thread."""


def search_made(
    index: str,
    documents: Sequence[JsonObject],
    properties: dict[str, JsonObject],
    search: SearchBody,
    shown: Callable[[str], tuple[JsonObject, JsonObject]],
    *,
    now: float,
    rest: Rest,
) -> JsonObject:
    """OpenSearch's answer to a search over these documents at `now`. Each document has its id as `_id`, and the
    fields of `properties` that it has. `shown` gives a hit's own members and its `_source`, by the document's id.

    Raises:
        QueryError, MappingError: the search does not fit the mapping.
        ToolError: the search would take too long.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        prepare(database)
        for some in _in_slices(documents):
            put_documents(database, index, some, {"properties": properties})
            rest()

        def read(row: int) -> tuple[JsonObject, JsonObject]:
            (name,) = database.execute("SELECT id FROM documents WHERE row = ?", (row,)).fetchone()
            return shown(name)

        budget = Budget(count_documents(database), USUAL_STEPS, rest, owns_connection=True)
        return search_in(database, find_indices(database, [index]), search, budget, read, now=now, strict=False)


def _in_slices(documents: Sequence[JsonObject]) -> Iterator[list[JsonObject]]:
    """The documents, in parts that take about as long to index as a slice of a search. One part if there are none."""
    some: list[JsonObject] = []
    characters = 0
    for document in documents:
        some.append(document)
        characters += sum(len(str(value)) for value in document.values())
        if len(some) >= _AT_ONCE or characters >= _CHARACTERS_AT_ONCE:
            yield some
            some, characters = [], 0
    if some or not documents:
        yield some
