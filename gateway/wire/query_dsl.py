"""The part of OpenSearch's query DSL that the embedded search engine has: a search body in, clauses out. Pure.

Source: https://docs.opensearch.org/latest/query-dsl/ and https://docs.opensearch.org/latest/api-reference/search-apis/search/
(3.x). What is here means what it means there; what is not here is refused with the list of what is, never ignored.
Above: the search engines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

MAX_DEPTH = 20
MAX_CLAUSES = 1_024
MAX_RESULT_WINDOW = 10_000

Scalar: TypeAlias = str | int | float | bool
Json: TypeAlias = Any  # wire formats stand beside messages.py, whose JsonValue this would be


class QueryError(ValueError):
    """A search that cannot be run; the text says what was wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class MatchAll:
    """Every document (`match_none`: not `all`)."""

    all: bool = True
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Match:
    """Words in a field. `minimum` is a `minimum_should_match`, None for what the operator says."""

    field: str
    text: Scalar
    operator: Literal["or", "and"] = "or"
    minimum: str | int | None = None
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class MatchPhrase:
    """Words in their order; with `prefix` the last one may go on."""

    field: str
    text: Scalar
    prefix: bool = False
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class MultiMatch:
    """One text in several fields (patterns; empty: all text fields), each with its boost.

    `kind`: the best field counts, or all of them together.
    """

    fields: tuple[tuple[str, float], ...]
    text: Scalar
    kind: Literal["best_fields", "most_fields", "phrase", "phrase_prefix"] = "best_fields"
    operator: Literal["or", "and"] = "or"
    minimum: str | int | None = None
    tie_breaker: float = 0.0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Terms:
    """A field that has one of these exact values. `term` is this with one."""

    field: str
    values: tuple[Scalar, ...]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Ids:
    """Documents by their ids."""

    values: tuple[str, ...]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Exists:
    """Documents that have a value in a field."""

    field: str
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Range:
    """Values between bounds: numbers, dates, or keywords in the order of their characters."""

    field: str
    bounds: Mapping[Literal["gt", "gte", "lt", "lte"], Scalar]
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Pattern:
    """Values that fit a pattern in which `*` is any text and `?` any character; `literal`: a prefix, with neither."""

    field: str
    pattern: str
    literal: bool
    case_insensitive: bool = False
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class ConstantScore:
    """A query whose hits all get `boost` as their score."""

    query: Clause
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class DisjunctionMax:
    """Any of the queries; the best score, and `tie_breaker` of the others'."""

    queries: tuple[Clause, ...]
    tie_breaker: float = 0.0
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Bool:
    """Queries together. `minimum` is a `minimum_should_match`, None for the default."""

    must: tuple[Clause, ...] = ()
    filter: tuple[Clause, ...] = ()
    should: tuple[Clause, ...] = ()
    must_not: tuple[Clause, ...] = ()
    minimum: str | int | None = None
    boost: float = 1.0


Clause: TypeAlias = (
    MatchAll
    | Match
    | MatchPhrase
    | MultiMatch
    | Terms
    | Ids
    | Exists
    | Range
    | Pattern
    | ConstantScore
    | DisjunctionMax
    | Bool
)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One key of a sort: a field, `_score` or `_doc`."""

    field: str
    descending: bool
    missing_first: bool = False


@dataclass(frozen=True, slots=True)
class SourceFilter:
    """Which fields of a document are given: patterns; no `includes` means all. `wanted` False: no source at all."""

    wanted: bool = True
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchBody:
    """A whole search."""

    query: Clause = MatchAll()
    size: int = 10
    start: int = 0
    source: SourceFilter = SourceFilter()
    sort: tuple[SortKey, ...] = ()
    total: bool = True
    minimum_score: float | None = None


def parse_search_body(body: Json) -> SearchBody:
    """A search body of JSON values.

    Raises:
        QueryError: it is wrong, or has something that is not here.
    """
    if not isinstance(body, dict):
        raise QueryError(f"a search is a JSON object such as {{'query': {{...}}, 'size': 5}}, not {_kind(body)}")
    unknown = body.keys() - _BODY_KEYS
    if unknown:
        raise QueryError(f"the search has {_names(unknown)}, which is not supported; a search has {_names(_BODY_KEYS)}")
    start, size = _whole_number(body, "from", 0), _whole_number(body, "size", 10)
    if start + size > MAX_RESULT_WINDOW:
        raise QueryError(f"'from' + 'size' is {start + size}; at most {MAX_RESULT_WINDOW} is possible")
    query = body.get("query")
    return SearchBody(
        query=MatchAll() if query is None else _Parser().clause(query),
        size=size,
        start=start,
        source=_source_filter(body.get("_source", True)),
        sort=tuple(_sort_key(key) for key in _as_list(body.get("sort"))),
        total=body.get("track_total_hits", True) is not False,
        minimum_score=_number(body, "min_score") if "min_score" in body else None,
    )


_BODY_KEYS = frozenset({"query", "from", "size", "_source", "sort", "track_total_hits", "min_score", "timeout"})


def minimum_matches(minimum: str | int | None, count: int, default: int) -> int:
    """How many of `count` optional clauses have to match: `2`, `-1`, `"75%"`, `"-25%"`, None for `default`."""
    if minimum is None:
        return default
    text = str(minimum).strip()
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            required = math.floor(count * share) if share >= 0 else count - math.floor(count * -share)
        else:
            required = int(text) if int(text) >= 0 else count + int(text)
    except (ValueError, OverflowError):
        raise QueryError(
            f"minimum_should_match {minimum!r} is neither a number nor a percentage such as '75%'"
        ) from None
    return max(0, min(required, count))


@dataclass(slots=True)
class _Parser:
    """Counts as it goes, so that no query is deeper or longer than can be answered."""

    depth: int = 0
    clauses: int = 0

    def clause(self, query: Json) -> Clause:
        if not isinstance(query, dict) or len(query) != 1:
            raise QueryError(
                f"a query is an object with one key, the type of the query, and not {_kind(query)}; the types are "
                f"{_names(_QUERIES)}"
            )
        ((name, value),) = query.items()
        if name in _WITHOUT_MODELS:
            raise QueryError(
                f"the query {name!r} needs embeddings, which this search engine does not have; "
                "search for words with 'match' or 'multi_match' instead"
            )
        if name not in _QUERIES:
            raise QueryError(f"the query {name!r} is not supported; there are: {_names(_QUERIES)}")
        if not isinstance(value, dict):
            raise QueryError(f"{name!r} takes an object, not {_kind(value)}")
        self.depth += 1
        self.clauses += 1
        if self.depth > MAX_DEPTH or self.clauses > MAX_CLAUSES:
            raise QueryError(f"the query is too large: at most {MAX_CLAUSES} clauses, nested at most {MAX_DEPTH} deep")
        parsed = _QUERIES[name](self, value)
        self.depth -= 1
        return parsed

    def clauses_of(self, value: Json) -> tuple[Clause, ...]:
        return tuple(self.clause(query) for query in _as_list(value))


@dataclass(slots=True)
class _Options:
    """The options of one query: whatever is left when all that is known was taken is an error."""

    query: str
    values: dict[str, Json]
    taken: set[str] = field(default_factory=set)

    def take(self, name: str, default: Json = None) -> Json:
        self.taken.add(name)
        return self.values.get(name, default)

    def text(self, name: str) -> Scalar:
        value = self.take(name)
        if not isinstance(value, str | int | float):
            raise QueryError(f"{self.query!r} needs {name!r}: text or a number, not {_kind(value)}")
        return value

    def number(self, name: str, default: float) -> float:
        self.taken.add(name)
        return _number(self.values, name) if name in self.values else default

    def choice(self, name: str, choices: tuple[str, ...]) -> Any:
        value = self.take(name, choices[0])
        if not isinstance(value, str) or value.lower() not in choices:
            raise QueryError(f"{name!r} of {self.query!r} is one of {_names(choices)}, not {value!r}")
        return value.lower()

    def done(self) -> None:
        left = self.values.keys() - self.taken
        if left:
            raise QueryError(f"{self.query!r} does not support {_names(left)} here; it has {_names(self.taken)}")


def _field_query(query: str, value: dict[str, Json], shorthand: str) -> tuple[str, _Options]:
    """`{"field": {...}}` or `{"field": value}`, where the value is the option called `shorthand`."""
    if len(value) != 1:
        raise QueryError(f"{query!r} takes one field, as in {{{query!r}: {{'field': ...}}}}; this one has {len(value)}")
    ((name, options),) = value.items()
    return name, _Options(query, options if isinstance(options, dict) else {shorthand: options})


def _match(parser: _Parser, value: dict[str, Json]) -> Clause:
    name, options = _field_query("match", value, "query")
    clause = Match(
        name,
        options.text("query"),
        options.choice("operator", ("or", "and")),
        options.take("minimum_should_match"),
        options.number("boost", 1.0),
    )
    options.done()
    return clause


def _match_phrase(parser: _Parser, value: dict[str, Json], *, prefix: bool = False) -> Clause:
    name, options = _field_query("match_phrase_prefix" if prefix else "match_phrase", value, "query")
    clause = MatchPhrase(name, options.text("query"), prefix, options.number("boost", 1.0))
    options.done()
    return clause


def _match_phrase_prefix(parser: _Parser, value: dict[str, Json]) -> Clause:
    return _match_phrase(parser, value, prefix=True)


def _multi_match(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("multi_match", value)
    clause = MultiMatch(
        tuple(_boosted_field(name) for name in _as_list(options.take("fields"))),
        options.text("query"),
        options.choice("type", ("best_fields", "most_fields", "phrase", "phrase_prefix")),
        options.choice("operator", ("or", "and")),
        options.take("minimum_should_match"),
        options.number("tie_breaker", 0.0),
        options.number("boost", 1.0),
    )
    options.done()
    return clause


def _boosted_field(name: Json) -> tuple[str, float]:
    if not isinstance(name, str):
        raise QueryError(f"'fields' of 'multi_match' are names such as 'title^2', not {_kind(name)}")
    field_name, caret, boost = name.partition("^")
    try:
        return field_name, float(boost) if caret else 1.0
    except ValueError:
        raise QueryError(f"the boost of {name!r} is not a number") from None


def _match_all(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("match_all", value)
    boost = options.number("boost", 1.0)
    options.done()
    return MatchAll(boost=boost)


def _match_none(parser: _Parser, value: dict[str, Json]) -> Clause:
    _Options("match_none", value).done()
    return MatchAll(all=False)


def _term(parser: _Parser, value: dict[str, Json]) -> Clause:
    name, options = _field_query("term", value, "value")
    clause = Terms(name, (options.text("value"),), options.number("boost", 1.0))
    options.done()
    return clause


def _terms(parser: _Parser, value: dict[str, Json]) -> Clause:
    fields = {name: values for name, values in value.items() if name != "boost"}
    if len(fields) != 1 or not isinstance(next(iter(fields.values())), list):
        raise QueryError("'terms' takes one field and a list of values, as in {'terms': {'field': ['a', 'b']}}")
    ((name, values),) = fields.items()
    if len(values) > MAX_CLAUSES or not all(isinstance(item, str | int | float) for item in values):
        raise QueryError(f"the values of 'terms' are text or numbers, at most {MAX_CLAUSES} of them")
    return Terms(name, tuple(values), _number(value, "boost") if "boost" in value else 1.0)


def _ids(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("ids", value)
    values = _as_list(options.take("values"))
    boost = options.number("boost", 1.0)
    options.done()
    return Ids(tuple(str(item) for item in values), boost)


def _exists(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("exists", value)
    name, boost = options.text("field"), options.number("boost", 1.0)
    options.done()
    return Exists(str(name), boost)


def _range(parser: _Parser, value: dict[str, Json]) -> Clause:
    name, options = _field_query("range", value, "value")
    bounds: dict[Literal["gt", "gte", "lt", "lte"], Scalar] = {}
    for bound in _BOUNDS:
        if options.values.get(bound) is not None:
            bounds[bound] = options.text(bound)
        options.taken.add(bound)
    boost = options.number("boost", 1.0)
    options.done()
    return Range(name, bounds, boost)


_BOUNDS: tuple[Literal["gt", "gte", "lt", "lte"], ...] = ("gt", "gte", "lt", "lte")


def _prefix(parser: _Parser, value: dict[str, Json]) -> Clause:
    return _pattern("prefix", value, literal=True)


def _wildcard(parser: _Parser, value: dict[str, Json]) -> Clause:
    return _pattern("wildcard", value, literal=False)


def _pattern(query: str, value: dict[str, Json], *, literal: bool) -> Clause:
    name, options = _field_query(query, value, "value")
    if query == "wildcard" and "wildcard" in options.values and "value" not in options.values:
        options.values["value"] = options.take("wildcard")
    pattern = str(options.text("value"))
    insensitive, boost = options.take("case_insensitive", False) is True, options.number("boost", 1.0)
    options.done()
    return Pattern(name, pattern, literal, insensitive, boost)


def _constant_score(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("constant_score", value)
    clause = ConstantScore(parser.clause(options.take("filter")), options.number("boost", 1.0))
    options.done()
    return clause


def _dis_max(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("dis_max", value)
    queries = parser.clauses_of(options.take("queries"))
    clause = DisjunctionMax(queries, options.number("tie_breaker", 0.0), options.number("boost", 1.0))
    options.done()
    return clause


def _bool(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = _Options("bool", value)
    must, filters, should, must_not = (
        parser.clauses_of(options.take(occurrence)) for occurrence in ("must", "filter", "should", "must_not")
    )
    minimum, boost = options.take("minimum_should_match"), options.number("boost", 1.0)
    options.done()
    return Bool(must, filters, should, must_not, minimum, boost)


_QUERIES: Mapping[str, Callable[[_Parser, dict[str, Json]], Clause]] = {
    "bool": _bool,
    "constant_score": _constant_score,
    "dis_max": _dis_max,
    "exists": _exists,
    "ids": _ids,
    "match": _match,
    "match_all": _match_all,
    "match_none": _match_none,
    "match_phrase": _match_phrase,
    "match_phrase_prefix": _match_phrase_prefix,
    "multi_match": _multi_match,
    "prefix": _prefix,
    "range": _range,
    "term": _term,
    "terms": _terms,
    "wildcard": _wildcard,
}

_WITHOUT_MODELS = frozenset({"neural", "neural_sparse", "knn", "hybrid", "semantic"})


def _source_filter(value: Json) -> SourceFilter:
    match value:
        case bool():
            return SourceFilter(wanted=value)
        case str():
            return SourceFilter(includes=(value,))
        case list() if all(isinstance(item, str) for item in value):
            return SourceFilter(includes=tuple(value))
        case dict() if value.keys() <= {"includes", "excludes", "include", "exclude"}:
            includes = _as_list(value.get("includes", value.get("include")))
            excludes = _as_list(value.get("excludes", value.get("exclude")))
            return SourceFilter(includes=tuple(map(str, includes)), excludes=tuple(map(str, excludes)))
        case _:
            raise QueryError(
                "'_source' is true, false, a field, a list of fields, or {'includes': [...], 'excludes': [...]}"
            )


def _sort_key(key: Json) -> SortKey:
    if isinstance(key, str):
        return SortKey(key, descending=key == "_score")
    if not isinstance(key, dict) or len(key) != 1:
        raise QueryError(f"a key of 'sort' is a field or {{'field': {{'order': 'desc'}}}}, not {_kind(key)}")
    ((name, value),) = key.items()
    options = _Options("sort", value if isinstance(value, dict) else {"order": value})
    order = options.choice("order", ("desc", "asc") if name == "_score" else ("asc", "desc"))
    missing = options.choice("missing", ("_last", "_first"))
    options.take("unmapped_type")  # says what an unknown field would be; such fields sort as missing anyway
    options.done()
    return SortKey(name, order == "desc", missing == "_first")


def _as_list(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _whole_number(body: Mapping[str, Json], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise QueryError(f"{name!r} is a whole number from 0, not {value!r}")
    return value


def _number(values: Mapping[str, Json], name: str) -> float:
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise QueryError(f"{name!r} is a number, not {value!r}")
    return float(value)


def _names(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def _kind(value: Json) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return f"an object with {_names(value)}" if value else "an empty object"
        case list():
            return "a list"
        case _:
            return repr(value)[:100]
