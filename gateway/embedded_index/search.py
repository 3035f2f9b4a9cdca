"""A search over the indices of one SQLite database: sorts the hits, gives a page of them, and aggregates over all.

Below: evaluation, aggregation, budget, documents. Above: the embedded search engine, which runs it in a thread, since
it blocks.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from gateway.embedded_index.aggregation import Aggregator, FieldValues
from gateway.embedded_index.budget import Budget, SearchSteps
from gateway.embedded_index.documents import Index, count_documents, find_indices
from gateway.embedded_index.entries import field_numbers
from gateway.embedded_index.evaluation import Evaluation, plain
from gateway.embedded_index.search_slots import Rest
from gateway.embedded_index.words import Work
from gateway.messages import JsonObject
from gateway.query_dsl import clauses
from gateway.query_dsl.field_mapping import plain_text
from gateway.query_dsl.search_body import SearchBody, SortKey, parse_search_body


def search_indices(
    database: sqlite3.Connection, names: str, body: JsonObject, most: SearchSteps, rest: Rest
) -> JsonObject:
    """The result of `_search`; `names` are separated by commas and may be patterns. `rest` lets other searches work.

    Raises:
        ToolError: there is no such index, or the search is too much work.
        QueryError, MappingError: the search is wrong, or uses something that is not supported.
    """
    search = parse_search_body(body)
    indices = find_indices(database, [name.strip() for name in names.split(",") if name.strip()])

    def read(row: int) -> tuple[JsonObject, JsonObject]:
        id_, source = database.execute("SELECT id, source FROM documents WHERE row = ?", (row,)).fetchone()
        return {"_id": id_}, orjson.loads(source)

    return search_in(database, indices, search, Budget(count_documents(database), most, rest), read, now=time.time())


def search_in(
    database: sqlite3.Connection,
    indices: Sequence[Index],
    search: SearchBody,
    budget: Budget,
    read: Callable[[int], tuple[JsonObject, JsonObject]],
    *,
    now: float,
    hidden: AbstractSet[int] = frozenset(),
    strict: bool = True,
) -> JsonObject:
    """The result of `_search` over these indices. `now` is in Unix seconds, for dates such as `now-7d`.

    `read` gives the document of a row: the members of its hit besides the score, and its source. Rows in `hidden` are
    left out. `strict`: a query for a field that no index has is an error; otherwise it finds nothing.

    Raises:
        ToolError: the search is too much work.
        QueryError, MappingError: the search does not fit the fields.
    """
    with budget.of(database):
        return _answer(_evaluations(database, indices, budget, now, strict=strict), search, budget, read, hidden)


def _answer(
    evaluations: Sequence[Evaluation],
    search: SearchBody,
    budget: Budget,
    read: Callable[[int], tuple[JsonObject, JsonObject]],
    hidden: AbstractSet[int],
) -> JsonObject:
    hits: list[_Hit] = []
    for evaluation in evaluations:
        index, scores = evaluation.index, evaluation.run(search.query)
        if hidden:
            scores = {row: score for row, score in scores.items() if row not in hidden}
        if search.minimum_score is not None:
            scores = {row: score for row, score in scores.items() if score >= search.minimum_score}
        budget.spend(len(scores) * (1 + len(search.sort)))
        keys = [evaluation.sort_values(key, scores) for key in search.sort]
        hits += [_Hit(index.name, row, score, [key.get(row) for key in keys]) for row, score in scores.items()]
    total, rows = len(hits), {hit.row for hit in hits} if search.aggregations else set()
    best = max((hit.score for hit in hits), default=None)
    if search.after is not None:
        after = [_kept(evaluations, key, value) for key, value in zip(search.sort, search.after, strict=True)]
        hits = [hit for hit in hits if _is_after(hit.keys, after, search.sort)]
    _order(hits, search.sort)
    page = hits[search.start : search.start + search.size]
    by_score = not search.sort or any(key.field == "_score" for key in search.sort)
    found: JsonObject = {
        "max_score": best if by_score else None,
        "hits": [_rendered(hit, read(hit.row), search, by_score=by_score) for hit in page],
    }
    if search.total:
        found = {"total": {"value": total, "relation": "eq"}, **found}
    shards = len(evaluations)
    answer: JsonObject = {
        "took": 0,
        "timed_out": False,
        "_shards": {"total": shards, "successful": shards, "skipped": 0, "failed": 0},
        "hits": found,
    }
    if search.aggregations:
        aggregator = _aggregator(evaluations, budget)
        answer["aggregations"] = aggregator.run(search.aggregations, rows)
    return answer


def _evaluations(
    database: sqlite3.Connection, indices: Sequence[Index], budget: Budget, now: float, *, strict: bool
) -> list[Evaluation]:
    searched = {path: known for index in indices for path, known in index.types.items()} if strict else {}
    numbers = [field_numbers(database, index.id) for index in indices]
    fields: dict[str, list[int]] = {}
    for path, number in (item for each in numbers for item in each.items()):
        fields.setdefault(path, []).append(number)
    work = Work(database, budget, now, fields)
    return [Evaluation(database, index, each, searched, work) for index, each in zip(indices, numbers, strict=True)]


def _aggregator(evaluations: Sequence[Evaluation], budget: Budget) -> Aggregator:
    """An aggregator over all searched indices. No row is in two of them."""

    def values(path: str) -> FieldValues:
        known = [evaluation.values(path) for evaluation in evaluations]
        kinds = {each.kind for each in known if each.kind is not None}
        if len(kinds) > 1:
            raise clauses.QueryError(f"{path!r} is {' and '.join(sorted(kinds))} in different indices")
        return FieldValues(kinds.pop() if kinds else None, {row: of for each in known for row, of in each.of.items()})

    def found(query: clauses.Clause) -> set[int]:
        return {row for evaluation in evaluations for row in evaluation.run(query)}

    def value_of(path: str, value: clauses.Scalar) -> str | int | float:
        for evaluation in evaluations:
            if (kind := evaluation.kind_of(path)) is not None:
                return plain(path, kind, value, evaluation.work.now)
        return plain_text(value)

    return Aggregator(values, found, value_of, budget)


@dataclass(frozen=True, slots=True)
class _Hit:
    index: str
    row: int
    score: float
    keys: list[str | int | float | None]


def _order(hits: list[_Hit], sort: Sequence[SortKey]) -> None:
    """Sort the hits. It sorts by the last key first, since sorting keeps the order of equal hits."""
    hits.sort(key=lambda hit: (hit.index, hit.row))
    if not sort:
        hits.sort(key=lambda hit: hit.score, reverse=True)
    for position, key in reversed(list(enumerate(sort))):
        having = [hit for hit in hits if hit.keys[position] is not None]
        missing = [hit for hit in hits if hit.keys[position] is None]
        having.sort(key=partial(_sortable, position), reverse=key.descending)
        hits[:] = missing + having if key.missing_first else having + missing


def _sortable(position: int, hit: _Hit) -> tuple[bool, Any]:
    value = hit.keys[position]
    return isinstance(value, str), value


def _kept(evaluations: Sequence[Evaluation], key: SortKey, value: clauses.Scalar | None) -> str | int | float | None:
    """A sort value of `search_after`, in the form of the hits' values."""
    if value is None or key.field in ("_score", "_doc", "_id"):
        return value
    for evaluation in evaluations:
        if (kind := evaluation.kind_of(key.field)) is not None:
            return plain(key.field, kind, value, evaluation.work.now)
    return value


def _is_after(
    keys: Sequence[str | int | float | None], after: Sequence[str | int | float | None], sort: Sequence[SortKey]
) -> bool:
    """Whether a hit with these sort values comes after a hit with those of `after`; equal ones do not."""
    for value, other, key in zip(keys, after, sort, strict=True):
        if (value is None) != (other is None):
            return (value is None) != key.missing_first
        if value is None or other is None or value == other:
            continue
        left, right = (isinstance(value, str), value), (isinstance(other, str), other)
        return bool(left < right if key.descending else left > right)
    return False


def _rendered(hit: _Hit, document: tuple[JsonObject, JsonObject], search: SearchBody, *, by_score: bool) -> JsonObject:
    members, content = document
    rendered: JsonObject = {"_index": hit.index, **members, "_score": hit.score if by_score else None}
    if search.source.wanted:
        rendered["_source"] = search.source.of(content)
    if search.sort:
        rendered["sort"] = list(hit.keys)
    return rendered
