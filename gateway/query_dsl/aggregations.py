"""Parses the aggregations of a search, which count and measure all of its hits. Pure.

Source: https://docs.opensearch.org/latest/aggregations/ (3.x). There are the metrics avg, min, max, sum, value_count,
cardinality (exact) and stats, and the buckets terms, range, histogram, date_histogram, filter, filters and missing,
which may hold further aggregations. Anything else is refused, with the list of the supported ones. Above: search_body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from gateway.query_dsl.clauses import Clause, QueryError, Scalar
from gateway.query_dsl.options import Json, QueryOptions, as_list, described, finite_number, quoted
from gateway.query_dsl.queries import parse_query

MAX_AGGREGATIONS = 100
MAX_DEPTH = 5
MAX_BUCKETS = 10_000
MAX_RANGES = 1_024
MAX_ORDERS = 16

MetricKind: TypeAlias = Literal["avg", "min", "max", "sum", "value_count", "cardinality", "stats"]
CalendarUnit: TypeAlias = Literal["minute", "hour", "day", "week", "month", "quarter", "year"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A number computed from a field's values. `missing` is the value of documents without any."""

    kind: MetricKind
    field: str
    missing: Scalar | None = None


@dataclass(frozen=True, slots=True)
class TermBuckets:
    """A bucket for each value of a field: the first `size` in the `order` of (key, descending) pairs.

    A key is `_count`, `_key`, or an inner metric (`price`; with several numbers, `price.avg`).
    """

    field: str
    inner: Aggregations
    size: int = 10
    order: tuple[tuple[str, bool], ...] = (("_count", True), ("_key", False))
    least: int = 1
    missing: Scalar | None = None


@dataclass(frozen=True, slots=True)
class RangeBuckets:
    """A bucket for each range: its name if it has one, its lower bound, and its upper bound, which is exclusive."""

    field: str
    inner: Aggregations
    ranges: tuple[tuple[str | None, float | None, float | None], ...]


@dataclass(frozen=True, slots=True)
class HistogramBuckets:
    """A bucket for each interval of a field of numbers or dates (`milliseconds`, or a unit of the calendar).

    `least` 0: empty intervals between others also get a bucket.
    """

    field: str
    inner: Aggregations
    interval: float | CalendarUnit
    dates: bool = False
    offset: float = 0.0
    least: int = 0


@dataclass(frozen=True, slots=True)
class FilterBuckets:
    """A bucket for each query, by its name. For `filter`, which is one bucket, the name is None."""

    filters: tuple[tuple[str | None, Clause], ...]
    inner: Aggregations
    named: bool = True


@dataclass(frozen=True, slots=True)
class MissingBucket:
    """The documents without a value of a field."""

    field: str
    inner: Aggregations


Aggregation: TypeAlias = Metric | TermBuckets | RangeBuckets | HistogramBuckets | FilterBuckets | MissingBucket
Aggregations: TypeAlias = Mapping[str, Aggregation]


def parse_aggregations(value: Json) -> Aggregations:
    """The aggregations by their names.

    Raises:
        QueryError: an aggregation is wrong or not supported.
    """
    return _Reader().all_of(value)


@dataclass(slots=True)
class _Reader:
    depth: int = 0
    count: int = 0

    def all_of(self, value: Json) -> Aggregations:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise QueryError(f"'aggs' is an object such as {{'name': {{'terms': {{...}}}}}}, not {described(value)}")
        self.depth += 1
        self.count += len(value)
        if self.depth > MAX_DEPTH or self.count > MAX_AGGREGATIONS:
            raise QueryError(f"at most {MAX_AGGREGATIONS} aggregations are possible, nested at most {MAX_DEPTH} deep")
        found = {name: self.one(name, body) for name, body in value.items()}
        self.depth -= 1
        return found

    def one(self, name: str, body: Json) -> Aggregation:
        if not isinstance(body, dict):
            raise QueryError(f"the aggregation {name!r} is an object with its type as the key, not {described(body)}")
        types = body.keys() - {"aggs", "aggregations", "meta"}
        if len(types) != 1:
            raise QueryError(f"the aggregation {name!r} has one type, and not {quoted(types) or 'none'}")
        (kind,) = types
        if kind not in _METRICS and kind not in _BUCKETS:
            known = quoted([*_METRICS, *_BUCKETS])
            raise QueryError(f"the aggregation type {kind!r} is not supported; there are: {known}")
        options = body[kind]
        if not isinstance(options, dict):
            raise QueryError(f"{kind!r} takes an object, not {described(options)}")
        inner = self.all_of(body.get("aggs", body.get("aggregations")))
        if kind in _METRICS:
            if inner:
                raise QueryError(f"{name!r} is a metric and cannot hold aggregations; put them beside it")
            return _metric(_METRICS[kind], options)
        return _BUCKETS[kind](options, inner)


def _metric(kind: MetricKind, values: dict[str, Json]) -> Aggregation:
    options = QueryOptions(kind, values)
    metric = Metric(kind, _field(options), _missing_value(options))
    options.take("precision_threshold")  # cardinality is exact here
    options.done()
    return metric


def _field(options: QueryOptions) -> str:
    name = options.take("field")
    if not isinstance(name, str) or not name:
        raise QueryError(f"{options.query!r} needs 'field': the name of a field, not {described(name)}")
    return name


def _missing_value(options: QueryOptions) -> Scalar | None:
    return None if options.take("missing") is None else options.text("missing")


def _terms(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("terms", values)
    field, size = _field(options), _count(options, "size", 10)
    order = [_order(item) for item in as_list(options.take("order"))]
    if len(order) > MAX_ORDERS:
        raise QueryError(f"'order' has {len(order)} entries; at most {MAX_ORDERS} are possible")
    for what, _ in order:
        _check_order(what, inner)
    least, missing = _count(options, "min_doc_count", 1), _missing_value(options)
    options.take("shard_size")  # there are no shards
    options.done()
    ends = [("_key", False)] if order else [("_count", True), ("_key", False)]
    return TermBuckets(field, inner, size, (*order, *ends), max(least, 1), missing)


def _check_order(what: str, inner: Aggregations) -> None:
    name, _, part = what.partition(".")
    metric = inner.get(name)
    if what in ("_count", "_key"):
        return
    if not isinstance(metric, Metric):
        raise QueryError(f"terms can be ordered by '_count', '_key' or a metric in 'aggs', not by {what!r}")
    parts = ("count", "min", "max", "avg", "sum") if metric.kind == "stats" else ("", "value")
    if part not in parts:
        raise QueryError(f"terms cannot be ordered by {what!r}; {name!r} has {quoted(filter(None, parts))}")


def _order(value: Json) -> tuple[str, bool]:
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value.values())) not in ("asc", "desc"):
        raise QueryError(f"an order is an object such as {{'_count': 'desc'}}, not {described(value)}")
    ((what, direction),) = value.items()
    return str(what), direction == "desc"


def _range(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("range", values)
    field = _field(options)
    ranges: list[tuple[str | None, float | None, float | None]] = []
    for item in as_list(options.take("ranges")):
        if not isinstance(item, dict) or not item.keys() & {"from", "to"} or item.keys() - {"from", "to", "key"}:
            raise QueryError(f"a range is an object with 'from', 'to' or both, not {described(item)}")
        lower, upper = (finite_number(item, end) if item.get(end) is not None else None for end in ("from", "to"))
        name = item.get("key")
        ranges.append((str(name) if name is not None else None, lower, upper))
    options.done()
    if len(ranges) > MAX_RANGES:
        raise QueryError(f"'ranges' has {len(ranges)} entries; at most {MAX_RANGES} are possible")
    if not ranges:
        raise QueryError("'range' needs 'ranges', such as [{'to': 10}, {'from': 10}]")
    return RangeBuckets(field, inner, tuple(ranges))


def _histogram(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("histogram", values)
    field, interval = _field(options), options.number("interval", 0.0)
    if interval <= 0:
        raise QueryError("'histogram' needs 'interval', a number above 0")
    buckets = HistogramBuckets(
        field, inner, interval, offset=options.number("offset", 0.0), least=_count(options, "min_doc_count", 0)
    )
    options.done()
    return buckets


_UNITS: Mapping[str, CalendarUnit] = {
    **{name: name for name in ("minute", "hour", "day", "week", "month", "quarter", "year")},
    **{"1m": "minute", "1h": "hour", "1d": "day", "1w": "week", "1M": "month", "1q": "quarter", "1y": "year"},
}
_FIXED = re.compile(r"([1-9]\d{0,8})(ms|s|m|h|d)", re.ASCII)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _date_histogram(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("date_histogram", values)
    field, least = _field(options), _count(options, "min_doc_count", 0)
    calendar, fixed = options.take("calendar_interval"), options.take("fixed_interval")
    if (asked := options.take("format")) not in (None, "strict_date_optional_time", "date_time"):
        raise QueryError(f"the format {asked!r} is not supported: 'key_as_string' is in ISO 8601")
    options.done()
    if isinstance(calendar, str) and fixed is None and calendar in _UNITS:
        return HistogramBuckets(field, inner, _UNITS[calendar], dates=True, least=least)
    if isinstance(fixed, str) and calendar is None and (match := _FIXED.fullmatch(fixed)):
        return HistogramBuckets(field, inner, float(int(match[1]) * _MILLISECONDS[match[2]]), dates=True, least=least)
    raise QueryError(
        f"'date_histogram' needs a 'calendar_interval' ({quoted(_UNITS)}) or a 'fixed_interval' such as '12h' or '30d'"
    )


def _filter(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    return FilterBuckets(((None, parse_query(values)),), inner, named=False)


def _filters(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("filters", values)
    filters = options.take("filters")
    options.done()
    if isinstance(filters, dict) and filters:
        return FilterBuckets(tuple((name, parse_query(query)) for name, query in filters.items()), inner)
    if isinstance(filters, list) and filters:
        return FilterBuckets(tuple((None, parse_query(query)) for query in filters), inner)
    raise QueryError("'filters' needs 'filters': queries by names of yours, or a list of queries")


def _missing(values: dict[str, Json], inner: Aggregations) -> Aggregation:
    options = QueryOptions("missing", values)
    field = _field(options)
    options.done()
    return MissingBucket(field, inner)


def _count(options: QueryOptions, name: str, default: int) -> int:
    value = options.take(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_BUCKETS:
        raise QueryError(f"{name!r} of {options.query!r} is a whole number from 0 to {MAX_BUCKETS}, not {value!r}")
    return value


_METRICS: Mapping[str, MetricKind] = {
    name: name for name in ("avg", "min", "max", "sum", "value_count", "cardinality", "stats")
}
_BUCKETS: Mapping[str, Callable[[dict[str, Json], Aggregations], Aggregation]] = {
    "terms": _terms,
    "range": _range,
    "histogram": _histogram,
    "date_histogram": _date_histogram,
    "filter": _filter,
    "filters": _filters,
    "missing": _missing,
}
