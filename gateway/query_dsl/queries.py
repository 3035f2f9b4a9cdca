"""Parses the part of OpenSearch's query DSL that the embedded search engine supports into clauses. Pure.

Source: https://docs.opensearch.org/latest/query-dsl/ (3.x). Supported queries mean the same as there. Anything else is
refused, with the list of supported queries, and never ignored. Below: clauses, options, the two query strings. Above:
search_body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gateway.query_dsl.clauses import (
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_IDS,
    Bool,
    Clause,
    ConstantScore,
    DisjunctionMax,
    Exists,
    Fuzziness,
    Ids,
    Match,
    MatchAll,
    MatchPhrase,
    MultiMatch,
    Nested,
    Pattern,
    QueryError,
    Range,
    Scalar,
    Terms,
)
from gateway.query_dsl.name_patterns import MAX_PATTERNS, check_pattern
from gateway.query_dsl.options import Json, QueryOptions, as_list, described, finite_number, fuzziness_in, quoted
from gateway.query_dsl.query_string import StringRules, parse_query_string
from gateway.query_dsl.simple_query_string import parse_simple_query_string


def parse_query(query: Json) -> Clause:
    """The clause of a query in JSON values.

    Raises:
        QueryError: the query is wrong, or uses something that is not supported.
    """
    return _Parser().clause(query)


@dataclass(slots=True)
class _Parser:
    """A parser that counts clauses and levels, and refuses queries with too many of them."""

    depth: int = 0
    clauses: int = 0

    def clause(self, query: Json) -> Clause:
        if not isinstance(query, dict) or len(query) != 1:
            raise QueryError(
                f"a query is an object with one key, the type of the query, and not {described(query)}; the types are "
                f"{quoted(_QUERIES)}"
            )
        ((name, value),) = query.items()
        if name in _WITHOUT_MODELS:
            raise QueryError(
                f"the query {name!r} needs embeddings, which this search engine does not have; "
                "search for words with 'match' or 'multi_match' instead"
            )
        if name not in _QUERIES:
            raise QueryError(f"the query {name!r} is not supported; there are: {quoted(_QUERIES)}")
        if not isinstance(value, dict):
            raise QueryError(f"{name!r} takes an object, not {described(value)}")
        self.depth += 1
        self.count()
        parsed = _QUERIES[name](self, value)
        self.depth -= 1
        return parsed

    def count(self) -> None:
        self.clauses += 1
        if self.depth > MAX_DEPTH or self.clauses > MAX_CLAUSES:
            raise QueryError(f"the query is too large: at most {MAX_CLAUSES} clauses, nested at most {MAX_DEPTH} deep")

    def clauses_of(self, value: Json) -> tuple[Clause, ...]:
        return tuple(self.clause(query) for query in as_list(value))


def _field_query(query: str, value: dict[str, Json], shorthand: str) -> tuple[str, QueryOptions]:
    """The field and options in `{"field": {...}}` or `{"field": value}`; the value is then the option `shorthand`."""
    if len(value) != 1:
        raise QueryError(f"{query!r} takes one field, as in {{{query!r}: {{'field': ...}}}}; this one has {len(value)}")
    ((name, options),) = value.items()
    return name, QueryOptions(query, options if isinstance(options, dict) else {shorthand: options})


def _match(parser: _Parser, value: dict[str, Json]) -> Clause:
    name, options = _field_query("match", value, "query")
    clause = Match(
        name,
        options.text("query"),
        options.choice("operator", ("or", "and")),
        options.take("minimum_should_match"),
        options.number("boost", 1.0),
        fuzziness_in(options),
    )
    options.done()
    return clause


def _fuzzy(parser: _Parser, value: dict[str, Json]) -> Clause:
    name, options = _field_query("fuzzy", value, "value")
    fuzziness = fuzziness_in(options) or Fuzziness()
    options.take("transpositions")
    clause = Match(name, options.text("value"), "and", boost=options.number("boost", 1.0), fuzziness=fuzziness)
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
    options = QueryOptions("multi_match", value)
    clause = MultiMatch(
        _boosted_fields(options.take("fields")),
        options.text("query"),
        options.choice("type", ("best_fields", "most_fields", "phrase", "phrase_prefix")),
        options.choice("operator", ("or", "and")),
        options.take("minimum_should_match"),
        options.number("tie_breaker", 0.0),
        options.number("boost", 1.0),
        fuzziness_in(options),
    )
    if clause.fuzziness is not None and clause.kind in ("phrase", "phrase_prefix"):
        raise QueryError(f"'fuzziness' cannot be used with the type {clause.kind!r}")
    options.done()
    return clause


def _boosted_fields(names: Json) -> tuple[tuple[str, float], ...]:
    listed = as_list(names)
    if len(listed) > MAX_PATTERNS:
        raise QueryError(f"'fields' has {len(listed)} names; at most {MAX_PATTERNS} are possible")
    return tuple(map(_boosted_field, listed))


def _boosted_field(name: Json) -> tuple[str, float]:
    if not isinstance(name, str):
        raise QueryError(f"'fields' are names such as 'title^2', not {described(name)}")
    field_name, caret, boost = name.partition("^")
    try:
        return check_pattern(field_name, "fields"), float(boost) if caret else 1.0
    except ValueError:
        raise QueryError(f"the boost of {name!r} is not a number") from None


def _query_string(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("query_string", value)
    text, fields, default = str(options.text("query")), options.take("fields"), options.take("default_field")
    if fields is not None and default is not None:
        raise QueryError("'query_string' takes 'fields' or 'default_field', not both")
    best = options.choice("type", ("best_fields", "most_fields")) == "best_fields"
    rules = StringRules(
        _boosted_fields(default if fields is None else fields),
        options.choice("default_operator", ("or", "and")),
        options.number("tie_breaker", 0.0 if best else 1.0),
        options.take("allow_leading_wildcard", True) is not False,
        fuzziness_in(options) or Fuzziness(),
    )
    return _weighed(options, lambda: parse_query_string(text, rules, parser.count))


def _simple_query_string(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("simple_query_string", value)
    text, fields = str(options.text("query")), _boosted_fields(options.take("fields"))
    rules = StringRules(fields, options.choice("default_operator", ("or", "and")))
    return _weighed(options, lambda: parse_simple_query_string(text, rules, parser.count))


def _weighed(options: QueryOptions, parse: Callable[[], Clause]) -> Clause:
    """The clause of a query string, with the options that both kinds of query strings have, which are checked first."""
    # Words with wildcards are always brought to the form of the index, and values that do not fit a field's type are
    # left out where there are other fields: these two change nothing.
    options.take("analyze_wildcard")
    options.take("lenient")
    minimum, boost = options.take("minimum_should_match"), options.number("boost", 1.0)
    options.done()
    clause = parse()
    if minimum is not None and isinstance(clause, Bool):
        clause = replace(clause, minimum=minimum)
    return replace(clause, boost=clause.boost * boost)


def _match_all(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("match_all", value)
    boost = options.number("boost", 1.0)
    options.done()
    return MatchAll(boost=boost)


def _match_none(parser: _Parser, value: dict[str, Json]) -> Clause:
    QueryOptions("match_none", value).done()
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
    return Terms(name, tuple(values), finite_number(value, "boost") if "boost" in value else 1.0)


def _ids(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("ids", value)
    values = as_list(options.take("values"))
    if len(values) > MAX_IDS:
        raise QueryError(f"'ids' has {len(values)} values; at most {MAX_IDS} are possible")
    boost = options.number("boost", 1.0)
    options.done()
    return Ids(tuple(str(item) for item in values), boost)


def _exists(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("exists", value)
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
    options = QueryOptions("constant_score", value)
    clause = ConstantScore(parser.clause(options.take("filter")), options.number("boost", 1.0))
    options.done()
    return clause


def _dis_max(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("dis_max", value)
    queries = parser.clauses_of(options.take("queries"))
    clause = DisjunctionMax(queries, options.number("tie_breaker", 0.0), options.number("boost", 1.0))
    options.done()
    return clause


def _bool(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("bool", value)
    must, filters, should, must_not = (
        parser.clauses_of(options.take(occurrence)) for occurrence in ("must", "filter", "should", "must_not")
    )
    minimum, boost = options.take("minimum_should_match"), options.number("boost", 1.0)
    options.done()
    return Bool(must, filters, should, must_not, minimum, boost)


def _nested(parser: _Parser, value: dict[str, Json]) -> Clause:
    options = QueryOptions("nested", value)
    path, query = options.text("path"), parser.clause(options.take("query"))
    mode = options.choice("score_mode", ("avg", "sum", "min", "max", "none"))
    ignore, boost = options.take("ignore_unmapped", False) is True, options.number("boost", 1.0)
    options.done()
    return Nested(str(path), query, mode, ignore, boost)


_QUERIES: Mapping[str, Callable[[_Parser, dict[str, Json]], Clause]] = {
    "bool": _bool,
    "constant_score": _constant_score,
    "dis_max": _dis_max,
    "exists": _exists,
    "fuzzy": _fuzzy,
    "ids": _ids,
    "match": _match,
    "match_all": _match_all,
    "match_none": _match_none,
    "match_phrase": _match_phrase,
    "match_phrase_prefix": _match_phrase_prefix,
    "multi_match": _multi_match,
    "nested": _nested,
    "prefix": _prefix,
    "query_string": _query_string,
    "simple_query_string": _simple_query_string,
    "range": _range,
    "term": _term,
    "terms": _terms,
    "wildcard": _wildcard,
}

_WITHOUT_MODELS = frozenset({"neural", "neural_sparse", "knn", "hybrid", "semantic"})
