"""A search's body: the query, the page of hits, their order, and the parts of each that are given. Pure.

Source: https://docs.opensearch.org/latest/api-reference/search-apis/search/ (3.x). Supported members mean the same as
there. Anything else is refused, with the list of supported members, and never ignored. Above: the search engines.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from gateway.query_dsl.aggregations import Aggregations, parse_aggregations
from gateway.query_dsl.clauses import Clause, MatchAll, QueryError, Scalar
from gateway.query_dsl.name_patterns import NamePatterns
from gateway.query_dsl.options import Json, QueryOptions, as_list, described, finite_number, quoted, whole_number
from gateway.query_dsl.queries import parse_query
from gateway.query_dsl.search_size import check_size

MAX_RESULT_WINDOW = 10_000
MAX_SORT_KEYS = 32


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of a sort: a field, `_score` or `_doc`."""

    field: str
    descending: bool
    missing_first: bool = False


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Selects the fields of a document that are given; no `includes` means all. `wanted` False: no source at all."""

    wanted: bool = True
    includes: NamePatterns = field(default_factory=NamePatterns)
    excludes: NamePatterns = field(default_factory=NamePatterns)

    def of(self, document: dict[str, Json]) -> dict[str, Json]:
        """The document with only the selected fields. Raises QueryError: the patterns are too much work."""
        if not (self.includes or self.excludes):
            return document
        return self._of(document, "", all_of_it=not self.includes)

    def _of(self, document: dict[str, Json], prefix: str, *, all_of_it: bool) -> dict[str, Json]:
        kept: dict[str, Json] = {}
        for name, value in document.items():
            path = prefix + name
            if self.excludes.name(path):
                continue
            included = all_of_it or self.includes.name(path)
            if isinstance(value, dict):
                inner = self._of(value, f"{path}.", all_of_it=included)
                if included or inner:
                    kept[name] = inner
            elif included:
                kept[name] = value
        return kept


@dataclass(frozen=True, slots=True)
class SearchBody:
    """A whole search."""

    query: Clause
    size: int = 10
    start: int = 0
    source: SourceFilter = field(default_factory=SourceFilter)
    sort: tuple[SortKey, ...] = ()
    total: bool = True
    minimum_score: float | None = None
    after: tuple[Scalar | None, ...] | None = None  # only hits after these sort values
    aggregations: Aggregations = field(default_factory=dict)


def parse_search_body(body: Json) -> SearchBody:
    """The search in a body of JSON values.

    Raises:
        QueryError: the body is wrong, or uses something that is not supported.
    """
    if not isinstance(body, dict):
        raise QueryError(f"a search is a JSON object such as {{'query': {{...}}, 'size': 5}}, not {described(body)}")
    check_size(body)
    body = _without_lone_surrogates(body)
    unknown = body.keys() - _BODY_KEYS
    if unknown:
        raise QueryError(f"the search has {quoted(unknown)}, which is not supported; a search has {quoted(_BODY_KEYS)}")
    start, size = whole_number(body, "from", 0), whole_number(body, "size", 10)
    if start + size > MAX_RESULT_WINDOW:
        raise QueryError(f"'from' + 'size' is {start + size}; at most {MAX_RESULT_WINDOW} is possible")
    query = body.get("query")
    sort = tuple(_sort_key(key) for key in _at_most(MAX_SORT_KEYS, "sort", body.get("sort")))
    return SearchBody(
        query=MatchAll() if query is None else parse_query(query),
        size=size,
        start=start,
        source=parse_source_filter(body.get("_source", True)),
        sort=sort,
        total=body.get("track_total_hits", True) is not False,
        minimum_score=finite_number(body, "min_score") if "min_score" in body else None,
        after=_after(body.get("search_after"), sort, start),
        aggregations=parse_aggregations(body.get("aggs", body.get("aggregations"))),
    )


_BODY_KEYS = frozenset(
    {
        *("query", "from", "size", "_source", "sort", "search_after", "track_total_hits", "min_score", "timeout"),
        *("aggs", "aggregations"),
    }
)


def _without_lone_surrogates(body: dict[str, Json]) -> dict[str, Json]:
    """The search with '?' instead of lone surrogates, which databases refuse."""
    try:
        orjson.dumps(body)
    except TypeError:
        with suppress(RecursionError):  # so deep a body is refused later, too
            cleaned: dict[str, Json] = json.loads(json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"))
            return cleaned
    return body


def _at_most(most: int, name: str, value: Json) -> list[Json]:
    listed = as_list(value)
    if len(listed) > most:
        raise QueryError(f"{name!r} has {len(listed)} entries; at most {most} are possible")
    return listed


def parse_source_filter(value: Json) -> SourceFilter:
    """A search's `_source`. Raises QueryError."""
    match value:
        case bool():
            return SourceFilter(wanted=value)
        case str():
            return SourceFilter(includes=NamePatterns([value]))
        case list() if all(isinstance(item, str) for item in value):
            return SourceFilter(includes=NamePatterns(value))
        case dict() if value.keys() <= {"includes", "excludes", "include", "exclude"}:
            includes = map(str, as_list(value.get("includes", value.get("include"))))
            excludes = map(str, as_list(value.get("excludes", value.get("exclude"))))
            return SourceFilter(
                includes=NamePatterns(includes, "_source.includes"), excludes=NamePatterns(excludes, "_source.excludes")
            )
        case _:
            raise QueryError(
                "'_source' is true, false, a field, a list of fields, or {'includes': [...], 'excludes': [...]}"
            )


def _after(value: Json, sort: tuple[SortKey, ...], start: int) -> tuple[Scalar | None, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(each is None or isinstance(each, str | int | float) for each in value):
        raise QueryError("'search_after' is a list of sort values, such as those in the 'sort' of the last hit")
    if not sort:
        raise QueryError("'search_after' needs a 'sort' with at least one field")
    if len(value) != len(sort):
        raise QueryError(f"'search_after' has {len(value)} values, and 'sort' has {len(sort)} keys; give one for each")
    if start:
        raise QueryError("'from' must be 0 or absent where there is a 'search_after'")
    return tuple(value)


def _sort_key(key: Json) -> SortKey:
    if isinstance(key, str):
        return SortKey(key, descending=key == "_score")
    if not isinstance(key, dict) or len(key) != 1:
        raise QueryError(f"a key of 'sort' is a field or {{'field': {{'order': 'desc'}}}}, not {described(key)}")
    ((name, value),) = key.items()
    options = QueryOptions("sort", value if isinstance(value, dict) else {"order": value})
    order = options.choice("order", ("desc", "asc") if name == "_score" else ("asc", "desc"))
    missing = options.choice("missing", ("_last", "_first"))
    options.take("unmapped_type")  # the type of an unknown field; such fields sort as missing anyway
    options.done()
    return SortKey(name, order == "desc", missing == "_first")
