"""Checks the body of a search: which other indices it names, and whether it has scripts. Pure.

The searched indices are in the request and not in the body, but a body can name others, from which the cluster reads
for it: a `terms` lookup, `more_like_this`, `percolate`, an indexed shape. So everything in a body that can hold a query
is read by the grammar of the query DSL. What is not known here is refused by its name: a plugin may bring a clause that
reads another index by a member that nobody here has heard of. Looking for members called `index` at any depth would not
find those, and would refuse a field of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NoReturn, TypeAlias

from gateway.errors import ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.index_names import single_name
from gateway.query_dsl.clauses import QueryError
from gateway.query_dsl.search_size import check_size

MOST_HITS: Final = 1_000
_MOST_NAMES = 10
_MOST_LEVELS = 60
_DEFAULT_SHAPES = "shapes"  # where the cluster looks for a shape if no index is named


@dataclass(slots=True)
class Reading:
    """What was found in a body so far: the other indices that it names."""

    allows_scripts: bool
    names: dict[str, None] = field(default_factory=dict)

    def name(self, value: JsonValue, where: str) -> None:
        if not isinstance(value, str):
            _refuse(f"{where} needs the name of an index")
        self.names[single_name(value)] = None
        if len(self.names) > _MOST_NAMES:
            _refuse(f"the search reads from more than {_MOST_NAMES} other indices")

    def script(self, where: str) -> None:
        if not self.allows_scripts:
            _refuse(f"{where} needs a script, and scripts are turned off here; search without one")


Others: TypeAlias = Literal["refused", "plain", "anything"]
Rule: TypeAlias = Callable[[Reading, JsonValue], None]
"""Reads the value of a clause, an aggregation or a member of the body."""


def names_in_body(body: JsonObject, *, allows_scripts: bool) -> tuple[str, ...]:
    """The other indices that a search reads from.

    Raises:
        ToolError: the search is too large, it has scripts that are not allowed, or something that is not known here.
    """
    try:
        check_size(body)
    except QueryError as error:
        raise ToolError(str(error)) from error
    _check_levels(body)
    size = body.get("size")
    if isinstance(size, int) and size > MOST_HITS:
        _refuse(f"size {size} is too large; it is at most {MOST_HITS}")
    reading = Reading(allows_scripts)
    _read_members(reading, body, _BODY, "the search")
    return tuple(reading.names)


def _refuse(text: str) -> NoReturn:
    raise ToolError(text)


def _check_levels(body: JsonValue) -> None:
    level: list[JsonValue] = [body]
    for _ in range(_MOST_LEVELS):
        level = [inner for value in level if isinstance(value, dict | list) for inner in _inner(value)]
        if not level:
            return
    _refuse(f"the search has more than {_MOST_LEVELS} levels; write it flatter")


def _inner(value: dict[str, JsonValue] | list[JsonValue]) -> list[JsonValue]:
    return value if isinstance(value, list) else list(value.values())


# --- rules


def _anything(reading: Reading, value: JsonValue) -> None:
    """What can neither name an index nor have a script, however it is written."""


def _script(what: str) -> Rule:
    return lambda reading, value: reading.script(what)


def _refused(text: str) -> Rule:
    return lambda reading, value: _refuse(text)


def _query(reading: Reading, value: JsonValue) -> None:
    """A query, or a list of them."""
    for each in value if isinstance(value, list) else [value]:
        _read_members(reading, _object(each, "a query"), _QUERIES, "a query")


def _members(what: str, **rules: Rule) -> Rule:
    """An object whose other members are no objects and no lists of them."""
    return lambda reading, value: _read_members(reading, _object(value, what), rules, what, others="plain")


def _by_name(rule: Rule) -> Rule:
    """An object or a list whose members have names, or numbers, that the author chose."""

    def read(reading: Reading, value: JsonValue) -> None:
        for each in _inner(value) if isinstance(value, dict | list) else ():
            rule(reading, each)

    return read


def _by_field(what: str, **rules: Rule) -> Rule:
    """An object with a field in it, whose options are read by these rules."""

    def read(reading: Reading, value: JsonValue) -> None:
        for options in _object(value, what).values():
            if isinstance(options, dict):
                _read_members(reading, options, rules, what, others="anything")

    return read


def _read_members(
    reading: Reading, value: JsonObject, rules: Mapping[str, Rule], what: str, *, others: Others = "refused"
) -> None:
    """Read each member by its rule. `others`: what becomes of members without one; those that have to be plain are no
    objects, and no lists of them.
    """
    for name, inner in value.items():
        rule = rules.get(name)
        if rule is not None:
            rule(reading, inner)
        elif others == "refused" or (others == "plain" and _has_objects(inner)):
            there_are = ", ".join(sorted(rules))
            _refuse(f"{what} cannot have {name[:100]!r} here" + (f"; there are: {there_are}" if there_are else ""))


def _has_objects(value: JsonValue) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(map(_has_objects, value)))


def _object(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, dict):
        _refuse(f"{what} has to be an object, not {type(value).__name__}")
    return value


def _scripts_below(reading: Reading, value: JsonValue) -> None:
    """Scripts at any depth. Of what is read so, only the sources of a `composite` have names that the author chose: one
    that is called `script` is refused, too.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "script" or name.endswith("_script") or name == "script_heuristic":
                reading.script(repr(name))
            _scripts_below(reading, inner)
    elif isinstance(value, list):
        for inner in value:
            _scripts_below(reading, inner)


# --- what reads from other indices


def _terms(reading: Reading, value: JsonValue) -> None:
    lookup = {"index": _named("a terms lookup"), "query": _query}
    for values in _object(value, "terms").values():
        if isinstance(values, dict):
            if "index" not in values:
                _refuse("a terms lookup needs 'index', 'id' and 'path'")
            _read_members(reading, values, lookup, "a terms lookup", others="plain")


def _named(what: str) -> Rule:
    return lambda reading, value: reading.name(value, what)


def _like(reading: Reading, value: JsonValue) -> None:
    """Texts, and documents: of another index, or written here."""
    rules = {
        "_index": _named("a document of more_like_this"),
        "doc": _anything,
        "fields": _anything,
        "per_field_analyzer": _anything,
    }
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            _read_members(reading, each, rules, "a document of more_like_this", others="plain")


def _shape(reading: Reading, value: JsonValue) -> None:
    for options in _object(value, "a shape query").values():
        if not isinstance(options, dict):
            continue
        if "indexed_shape" in options:
            shape = _object(options["indexed_shape"], "indexed_shape")
            reading.name(shape.get("index", _DEFAULT_SHAPES), "an indexed shape")
            _read_members(reading, shape, {}, "indexed_shape", others="plain")
        _read_members(
            reading, options, {"shape": _anything, "indexed_shape": _anything}, "a shape query", others="plain"
        )


def _boosted(reading: Reading, value: JsonValue) -> None:
    for each in value if isinstance(value, list) else [value]:
        for name in _object(each, "indices_boost"):
            reading.name(name, "indices_boost")


# --- queries


def _intervals(reading: Reading, value: JsonValue) -> None:
    for options in _object(value, "intervals").values():
        _scripts_below(reading, options)


def _inner_hits(reading: Reading, value: JsonValue) -> None:
    for each in value if isinstance(value, list) else [value]:
        _read_members(reading, _object(each, "inner_hits"), _HITS, "inner_hits")


_VECTOR = _by_field("a vector query", filter=_query, method_parameters=_members("method_parameters", filter=_query))
_FUNCTION: Final[Mapping[str, Rule]] = {
    "script_score": _script("'script_score'"),
    **dict.fromkeys(("random_score", "field_value_factor", "gauss", "linear", "exp"), _anything),
}
_FUNCTIONS = _by_name(_members("a function", filter=_query, **_FUNCTION))
_WRITE_IT = "; write the query itself"

_QUERIES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        (
            "match", "match_all", "match_none", "match_phrase", "match_phrase_prefix", "match_bool_prefix",
            "multi_match", "combined_fields", "query_string", "simple_query_string", "term", "range", "exists",
            "prefix", "wildcard", "regexp", "fuzzy", "ids", "rank_feature", "distance_feature", "geo_bounding_box",
            "geo_distance", "geo_polygon", "parent_id", "span_term", "span_gap",
        ),
        _anything,
    ),
    "bool": _members("bool", must=_query, should=_query, filter=_query, must_not=_query),
    "boosting": _members("boosting", positive=_query, negative=_query),
    "constant_score": _members("constant_score", filter=_query),
    "dis_max": _members("dis_max", queries=_query),
    "function_score": _members("function_score", query=_query, functions=_FUNCTIONS, **_FUNCTION),
    "script": _script("the query 'script'"),
    "script_score": _script("'script_score'"),
    "nested": _members("nested", query=_query, inner_hits=_inner_hits),
    "has_child": _members("has_child", query=_query, inner_hits=_inner_hits),
    "has_parent": _members("has_parent", query=_query, inner_hits=_inner_hits),
    "hybrid": _members("hybrid", queries=_query, filter=_query),
    "knn": _VECTOR,
    "neural": _VECTOR,
    "neural_sparse": _VECTOR,
    "intervals": _intervals,
    "terms": _terms,
    "terms_set": _by_field("terms_set", minimum_should_match_script=_script("'minimum_should_match_script'")),
    "more_like_this": _members("more_like_this", like=_like, unlike=_like),
    "percolate": _members("percolate", document=_anything, documents=_anything, index=_named("percolate")),
    "geo_shape": _shape,
    "xy_shape": _shape,
    "span_near": _members("span_near", clauses=_query),
    "span_or": _members("span_or", clauses=_query),
    "span_not": _members("span_not", include=_query, exclude=_query),
    "span_first": _members("span_first", match=_query),
    "span_containing": _members("span_containing", little=_query, big=_query),
    "span_within": _members("span_within", little=_query, big=_query),
    "span_multi": _members("span_multi", match=_query),
    "field_masking_span": _members("field_masking_span", query=_query),
    "wrapper": _refused(f"'wrapper' hides a query{_WRITE_IT}"),
    "template": _refused(f"'template' hides a query{_WRITE_IT}"),
}  # fmt: skip


# --- aggregations


def _aggregations(reading: Reading, value: JsonValue) -> None:
    for definition in _object(value, "aggregations").values():
        _read_members(reading, _object(definition, "an aggregation"), _AGGREGATIONS, "an aggregation")


def _top_hits(reading: Reading, value: JsonValue) -> None:
    _read_members(reading, _object(value, "top_hits"), _HITS, "top_hits")


def _significant(reading: Reading, value: JsonValue) -> None:
    options = dict(_object(value, "significant terms"))
    if "background_filter" in options:
        _query(reading, options.pop("background_filter"))
    _scripts_below(reading, options)


_FILTERS = _members("filters", filters=_by_name(_query))

_AGGREGATIONS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        (
            "avg", "sum", "min", "max", "stats", "extended_stats", "value_count", "cardinality", "percentiles",
            "percentile_ranks", "median_absolute_deviation", "weighted_avg", "geo_bounds", "geo_centroid",
            "matrix_stats", "terms", "rare_terms", "multi_terms", "histogram", "date_histogram",
            "auto_date_histogram", "variable_width_histogram", "range", "date_range", "ip_range", "geo_distance",
            "geohash_grid", "geotile_grid", "geohex_grid", "missing", "global", "nested", "reverse_nested",
            "children", "parent", "sampler", "diversified_sampler", "composite", "avg_bucket", "sum_bucket",
            "min_bucket", "max_bucket", "stats_bucket", "extended_stats_bucket", "percentiles_bucket", "derivative",
            "cumulative_sum", "moving_avg", "serial_diff", "bucket_sort",
        ),
        _scripts_below,
    ),
    "aggs": _aggregations,
    "aggregations": _aggregations,
    "meta": _anything,
    "filter": _query,
    "filters": _FILTERS,
    "adjacency_matrix": _FILTERS,
    "significant_terms": _significant,
    "significant_text": _significant,
    "top_hits": _top_hits,
    **{name: _script(repr(name)) for name in ("scripted_metric", "bucket_script", "bucket_selector", "moving_fn")},
}  # fmt: skip


# --- the rest of the body


def _sort(reading: Reading, value: JsonValue) -> None:
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            for name, options in each.items():
                if name == "_script":
                    reading.script("the sort '_script'")
                elif isinstance(options, dict):
                    _read_members(reading, options, {"nested": _nested_sort}, "sort", others="anything")


def _nested_sort(reading: Reading, value: JsonValue) -> None:
    _members("nested", filter=_query, nested=_nested_sort)(reading, value)


def _rescore(reading: Reading, value: JsonValue) -> None:
    rule = _members("rescore", query=_members("rescore", rescore_query=_query))
    for each in value if isinstance(value, list) else [value]:
        rule(reading, each)


def _suggest(reading: Reading, value: JsonValue) -> None:
    if isinstance(value, dict):
        if "collate" in value:
            _refuse(f"'collate' hides a query{_WRITE_IT}")
        for inner in value.values():
            _suggest(reading, inner)


def _collapse(reading: Reading, value: JsonValue) -> None:
    _members("collapse", inner_hits=_inner_hits, collapse=_collapse)(reading, value)


def _highlight(reading: Reading, value: JsonValue) -> None:
    """Fields are members, or a list of objects with one member each. Each may have a query of its own."""
    if isinstance(value, list):
        for each in value:
            _highlight(reading, each)
    elif isinstance(value, dict):
        for name, inner in value.items():
            (_query if name == "highlight_query" else _highlight)(reading, inner)


_HITS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        (
            "name", "size", "from", "_source", "fields", "docvalue_fields", "stored_fields", "explain", "version",
            "seq_no_primary_term", "track_scores", "ignore_unmapped",
        ),
        _anything,
    ),
    "sort": _sort,
    "highlight": _highlight,
    "collapse": _collapse,
    "script_fields": _script("'script_fields'"),
}  # fmt: skip

_BODY: Final[Mapping[str, Rule]] = {
    **{name: rule for name, rule in _HITS.items() if name not in ("name", "ignore_unmapped")},
    **dict.fromkeys(
        ("timeout", "track_total_hits", "min_score", "terminate_after", "search_after", "include_named_queries_score"),
        _anything,
    ),
    "query": _query,
    "post_filter": _query,
    "aggs": _aggregations,
    "aggregations": _aggregations,
    "rescore": _rescore,
    "suggest": _suggest,
    "indices_boost": _boosted,
    "derived": _script("'derived'"),
    "search_pipeline": _refused(
        "'search_pipeline' cannot be named in a search; the operator of the cluster can make it the index's default"
    ),
}  # fmt: skip
