"""Computes aggregations: counts and numbers over all hits of a search.

Below: query_dsl.aggregations. Above: search, which provides the documents' values and the hits of queries.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, TypeAlias

from gateway.embedded_index.budget import Budget
from gateway.messages import JsonObject, JsonValue
from gateway.query_dsl.aggregations import (
    MAX_BUCKETS,
    Aggregation,
    Aggregations,
    CalendarUnit,
    FilterBuckets,
    HistogramBuckets,
    Metric,
    MissingBucket,
    RangeBuckets,
    TermBuckets,
)
from gateway.query_dsl.clauses import Clause, QueryError, Scalar

Rows: TypeAlias = AbstractSet[int]
Value: TypeAlias = str | int | float

_value_of = itemgetter(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FieldValues:
    """The documents' values in a field, by their rows. `kind` is the field's type; None where no index has it."""

    kind: str | None
    of: Mapping[int, Sequence[Value]]


@dataclass(slots=True)
class Aggregator:
    """Aggregates over the documents of one search. `values` and `found` look them up in the searched indices.

    `value_of` converts a `missing` to the form of the field's values.
    """

    values: Callable[[str], FieldValues]
    found: Callable[[Clause], Rows]
    value_of: Callable[[str, Scalar], Value]
    budget: Budget
    _cached: dict[str, FieldValues] = field(default_factory=dict)
    _rows: dict[int, Rows] = field(default_factory=dict)  # a query's hits, by the id of its object: many buckets use it
    _buckets: int = 0

    def run(self, aggregations: Aggregations, rows: Rows) -> JsonObject:
        """The results by the aggregations' names.

        Raises:
            QueryError: a field does not allow the aggregation, or there are too many buckets.
        """
        return {name: self._one(aggregation, rows) for name, aggregation in aggregations.items()}

    def _one(self, aggregation: Aggregation, rows: Rows) -> JsonObject:
        self.budget.spend(1 + len(rows) // 2)
        match aggregation:
            case Metric():
                return self._metric(aggregation, rows)
            case TermBuckets():
                return self._terms(aggregation, rows)
            case RangeBuckets():
                return self._ranges(aggregation, rows)
            case HistogramBuckets():
                return self._histogram(aggregation, rows)
            case FilterBuckets():
                return self._filters(aggregation, rows)
            case MissingBucket():
                known = self._values(aggregation.field, allow_text=True)
                return self._bucket(aggregation.inner, {row for row in rows if not known.of.get(row)})

    # --- values ---------------------------------------------------------------------------------------------------

    def _values(self, path: str, *, allow_text: bool = False) -> FieldValues:
        if path not in self._cached:
            self._cached[path] = self.values(path)
        known = self._cached[path]
        if known.kind == "text" and not allow_text:
            raise QueryError(
                f"{path!r} is text, which is not aggregated; use a keyword field, such as '{path}.keyword'"
            )
        return known

    def _numbers(self, path: str, what: str) -> FieldValues:
        known = self._values(path)
        if known.kind == "keyword":
            raise QueryError(f"{what!r} needs numbers or dates, and {path!r} is keyword")
        return known

    def _rows_of(self, path: str, rows: Rows, missing: Scalar | None) -> Iterable[tuple[int, Sequence[Value]]]:
        known = self._values(path)
        instead: Sequence[Value] = () if missing is None else (self.value_of(path, missing),)
        return ((row, known.of.get(row) or instead) for row in rows)

    # --- numbers --------------------------------------------------------------------------------------------------

    def _metric(self, metric: Metric, rows: Rows) -> JsonObject:
        counted = metric.kind in ("value_count", "cardinality")
        known = self._values(metric.field) if counted else self._numbers(metric.field, metric.kind)
        values = [value for _, each in self._rows_of(metric.field, rows, metric.missing) for value in each]
        match metric.kind:
            case "value_count":
                return {"value": len(values)}
            case "cardinality":
                return {"value": len(set(values))}
            case _:
                return _measured(metric.kind, values, known.kind)  # type: ignore[arg-type]  # no keywords, as looked at

    # --- buckets --------------------------------------------------------------------------------------------------

    def _bucket(self, inner: Aggregations, rows: Rows, **keys: JsonValue) -> JsonObject:
        self._buckets += 1
        if self._buckets > MAX_BUCKETS:
            raise QueryError(f"the aggregations have more than {MAX_BUCKETS} buckets; ask for larger or fewer ones")
        return {**keys, "doc_count": len(rows), **self.run(inner, rows)}

    def _terms(self, terms: TermBuckets, rows: Rows) -> JsonObject:
        groups: dict[Value, set[int]] = {}
        for row, values in self._rows_of(terms.field, rows, terms.missing):
            for value in set(values):
                groups.setdefault(value, set()).add(row)
        listed = [(value, members) for value, members in groups.items() if len(members) >= terms.least]
        listed.sort(key=lambda item: item[0])
        for what, descending in reversed(terms.order):
            self._sort(listed, terms, what, descending)
        first, others = listed[: terms.size], listed[terms.size :]
        kind = self._values(terms.field).kind
        return {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": sum(len(members) for _, members in others),
            "buckets": [self._bucket(terms.inner, members, **key_of(value, kind)) for value, members in first],
        }

    def _sort(self, listed: list[tuple[Value, set[int]]], terms: TermBuckets, what: str, descending: bool) -> None:
        if what == "_key":
            listed.sort(key=lambda item: item[0], reverse=descending)
            return
        if what == "_count":
            listed.sort(key=lambda item: len(item[1]), reverse=descending)
            return
        name, _, part = what.partition(".")
        metric = terms.inner[name]
        assert isinstance(metric, Metric), "parse_aggregations has looked"
        measured: dict[Value, Any] = {}
        for value, members in listed:
            measured[value] = self._metric(metric, members)[part or "value"]
        having = [item for item in listed if measured[item[0]] is not None]
        without = [item for item in listed if measured[item[0]] is None]
        having.sort(key=lambda item: measured[item[0]], reverse=descending)
        listed[:] = having + without

    def _ranges(self, ranges: RangeBuckets, rows: Rows) -> JsonObject:
        known = self._numbers(ranges.field, "range")
        buckets: list[JsonValue] = []
        ordered: list[tuple[Any, int]] = sorted((value, row) for row in rows for value in known.of.get(row, ()))
        for name, lower, upper in ranges.ranges:
            first = 0 if lower is None else bisect_left(ordered, lower, key=_value_of)
            last = len(ordered) if upper is None else bisect_left(ordered, upper, key=_value_of)
            members = {row for _, row in ordered[first:last]}
            shown = ["*" if bound is None else str(float(bound)) for bound in (lower, upper)]
            keys: JsonObject = {"key": name or "-".join(shown)}
            keys |= {end: float(bound) for end, bound in (("from", lower), ("to", upper)) if bound is not None}
            buckets.append(self._bucket(ranges.inner, members, **keys))
        return {"buckets": buckets}

    def _histogram(self, histogram: HistogramBuckets, rows: Rows) -> JsonObject:
        known = self._numbers(histogram.field, "date_histogram" if histogram.dates else "histogram")
        if histogram.dates and known.kind not in ("date", None):
            raise QueryError(f"'date_histogram' needs dates, and {histogram.field!r} is {known.kind}; use 'histogram'")
        groups: dict[float, set[int]] = {}
        for row in rows:
            for value in known.of.get(row, ()):
                assert not isinstance(value, str), "numbers and dates are numbers"
                groups.setdefault(_begin(value, histogram), set()).add(row)
        buckets: list[JsonValue] = []
        for begin in bucket_begins(groups, histogram):
            members = groups.get(begin, set())
            if len(members) >= histogram.least:
                keys = key_of(int(begin), "date") if histogram.dates else {"key": float(begin)}
                buckets.append(self._bucket(histogram.inner, members, **keys))
        return {"buckets": buckets}

    def _filters(self, filters: FilterBuckets, rows: Rows) -> JsonObject:
        made = [(name, self._bucket(filters.inner, rows & self._found(query))) for name, query in filters.filters]
        if not filters.named:
            return made[0][1]
        if made[0][0] is None:
            return {"buckets": [bucket for _, bucket in made]}
        return {"buckets": {str(name): bucket for name, bucket in made}}

    def _found(self, query: Clause) -> Rows:
        if id(query) not in self._rows:
            self._rows[id(query)] = self.found(query)
        return self._rows[id(query)]


def _measured(kind: str, values: Sequence[int | float], field_kind: str | None) -> JsonObject:
    total = math.fsum(values)
    stats: dict[str, float | None] = {
        "min": float(min(values)) if values else None,
        "max": float(max(values)) if values else None,
        "avg": total / len(values) if values else None,
        "sum": total,
    }
    return shown_metric(kind, len(values), stats, field_kind)


def shown_metric(kind: str, count: int, stats: Mapping[str, float | None], field_kind: str | None) -> JsonObject:
    """The result of a metric over so many numbers, of which `stats` are min, max, avg and sum."""
    if kind == "stats":
        return {"count": count, **stats}
    answer: JsonObject = {"value": stats[kind]}
    if field_kind == "date" and stats[kind] is not None and kind != "sum":
        answer["value_as_string"] = _iso(stats[kind] or 0.0)
    return answer


def key_of(value: Value, kind: str | None) -> JsonObject:
    """A bucket's key as OpenSearch writes it. `kind` is the type of the field."""
    match kind:
        case "date":
            return {"key_as_string": _iso(value), "key": value}
        case "boolean":
            return {"key": value, "key_as_string": "true" if value else "false"}
        case _:
            return {"key": value}


def _moment(milliseconds: Value) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=int(milliseconds))
    except OverflowError:
        raise QueryError(f"a document has the date {milliseconds!r}, which is beyond all calendars") from None


def _iso(milliseconds: Value) -> str:
    moment = _moment(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def _begin(value: int | float, histogram: HistogramBuckets) -> float:
    interval = histogram.interval
    if isinstance(interval, str):
        return _milliseconds(_floor(_moment(value), interval))
    try:
        return math.floor((value - histogram.offset) / interval) * interval + histogram.offset
    except OverflowError:
        raise QueryError(f"the interval {interval!r} is too small for the value {value!r}") from None


def bucket_begins(groups: Mapping[float, object], histogram: HistogramBuckets) -> Iterable[float]:
    """The beginnings of the buckets, in order; with those of empty buckets between others, if they are wanted."""
    if histogram.least > 0 or not groups:
        return sorted(groups)
    begins, last = [min(groups)], max(groups)
    while begins[-1] < last:
        if len(begins) > MAX_BUCKETS:
            raise QueryError(
                f"the histogram has more than {MAX_BUCKETS} buckets; use a larger interval, or 'min_doc_count': 1"
            )
        begins.append(_next(begins[-1], histogram))
    return begins


def _next(begin: float, histogram: HistogramBuckets) -> float:
    interval = histogram.interval
    if isinstance(interval, str):
        return _milliseconds(_floor(_moment(begin) + _LONGEST[interval], interval))
    # Computed from the interval's number: repeated addition would drift.
    return (round((begin - histogram.offset) / interval) + 1) * interval + histogram.offset


def _milliseconds(moment: datetime) -> float:
    return float((moment - _EPOCH) // timedelta(milliseconds=1))


_LONGEST: Mapping[CalendarUnit, timedelta] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "quarter": timedelta(days=92),
    "year": timedelta(days=366),
}


def _floor(moment: datetime, unit: CalendarUnit) -> datetime:
    """The beginning of the minute, hour, day, week (a Monday), month, quarter or year."""
    if unit == "minute":
        return moment.replace(second=0, microsecond=0)
    if unit == "hour":
        return moment.replace(minute=0, second=0, microsecond=0)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "week":
            return day - timedelta(days=day.weekday())
        case "month":
            return day.replace(day=1)
        case "quarter":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "year":
            return day.replace(month=1, day=1)
        case _:
            return day
