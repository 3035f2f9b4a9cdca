"""Writes the aggregations of a search for the cluster, and reads their results in the form of the embedded index.

Below: document_queries, embedded_index.aggregation. Above: document_search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.embedded_index.aggregation import Value, bucket_begins, key_of, shown_metric
from gateway.embedded_index.evaluation import plain
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.document_fields import Field
from gateway.opensearch.document_queries import QueryWriter
from gateway.opensearch.document_words import Query
from gateway.query_dsl.aggregations import (
    MAX_BUCKETS,
    Aggregation,
    Aggregations,
    FilterBuckets,
    HistogramBuckets,
    Metric,
    MissingBucket,
    RangeBuckets,
    TermBuckets,
)
from gateway.query_dsl.clauses import QueryError, Scalar
from gateway.query_dsl.field_mapping import Kind, plain_text

# The cluster counts more values than that about. Each bucket takes memory for so many.
_MOST_EXACT = 40_000
_MOST_EXACT_IN_BUCKETS = 3_000
_STATS: Final = ("min", "max", "avg", "sum")
# The values at one path of a flat_object, whose terms begin with the path.
_AT_PATH = (
    "def found = []; for (term in doc[params.field]) { if (term.startsWith(params.path))"
    " { found.add(term.substring(params.path.length())) } } return found"
)


@dataclass(slots=True)
class AggregationWriter:
    """Writes aggregations with the queries of `queries`, and reads the results. The cluster knows them by numbers, as
    callers' names may have any characters.
    """

    queries: QueryWriter
    _buckets: int = 0
    _depth: int = 0

    def write(self, aggregations: Aggregations) -> Query:
        """The aggregations for the cluster.

        Raises:
            QueryError, MappingError, ToolError: a field does not allow the aggregation, or it is too much work.
        """
        return {str(number): self._one(each) for number, each in enumerate(aggregations.values())}

    def read(self, aggregations: Aggregations, found: Mapping[str, Any]) -> JsonObject:
        """The results by the aggregations' names.

        Raises:
            QueryError: there are too many buckets.
        """
        return {
            name: self._result(each, found[str(number)]) for number, (name, each) in enumerate(aggregations.items())
        }

    # --- what is asked --------------------------------------------------------------------------------------------

    def _one(self, aggregation: Aggregation) -> Query:
        match aggregation:
            case Metric():
                return self._metric(aggregation)
            case TermBuckets():
                return self._with(aggregation.inner, self._terms(aggregation))
            case RangeBuckets():
                return self._with(aggregation.inner, self._ranges(aggregation))
            case HistogramBuckets():
                return self._with(aggregation.inner, self._histogram(aggregation))
            case FilterBuckets():
                queries = self.queries.unscored()
                written = [queries.write(query) for _, query in aggregation.filters]
                return self._with(aggregation.inner, _filters(written))
            case MissingBucket():
                field = self._field(aggregation.field, allow_text=True)
                there = {"match_none": {}} if field is None else self.queries.has_value(field)
                return self._with(aggregation.inner, {"filter": {"bool": {"must_not": [there]}}})

    def _with(self, inner: Aggregations, aggregation: Query) -> Query:
        if not inner:
            return aggregation
        self._depth += 1
        written = {**aggregation, "aggs": self.write(inner)}
        self._depth -= 1
        return written

    def _field(self, path: str, *, allow_text: bool = False) -> Field | None:
        field = self.queries.field(path)
        if field is not None and field.kind == "text" and not allow_text:
            raise QueryError(
                f"{path!r} is text, which is not aggregated; use a keyword field, such as '{path}.keyword'"
            )
        return field

    def _numbers(self, path: str, what: str) -> tuple[Kind | None, str]:
        """The type of a field, and what has its values as numbers."""
        field = self._field(path)
        if field is None:
            return None, "nothing.d"
        if field.kind == "keyword":
            raise QueryError(f"{what!r} needs numbers or dates, and {path!r} is keyword")
        return field.kind, field.number

    def _value(self, field: Field | None, value: Scalar) -> Value:
        if field is None:
            return plain_text(value)
        return plain(field.path, field.kind, value, self.queries.now)

    def _metric(self, metric: Metric) -> Query:
        field = self._field(metric.field)
        missing = None if metric.missing is None else self._value(field, metric.missing)
        if metric.kind == "cardinality":
            exact = {"precision_threshold": _MOST_EXACT_IN_BUCKETS if self._depth else _MOST_EXACT}
            return {"cardinality": {**_terms_of(field), **exact, **_missing_term(field, missing)}}
        if metric.kind == "value_count":
            if field is not None and field.prefix:
                return {"value_count": {**_terms_of(field), **_missing_term(field, missing)}}
            counted = "nothing.n" if field is None else field.count
            if field is None or field.kind == "keyword":
                return {"sum": {"field": counted, **({} if missing is None else {"missing": 1})}}
            return {"value_count": {"field": field.number, **({} if missing is None else {"missing": missing})}}
        _, numbers = self._numbers(metric.field, metric.kind)
        return {"stats": {"field": numbers, **({} if missing is None else {"missing": missing})}}

    def _terms(self, terms: TermBuckets) -> Query:
        field = self._field(terms.field)
        missing = None if terms.missing is None else self._value(field, terms.missing)
        asked: Query = {**_terms_of(field), **_missing_term(field, missing)}
        if _is_ours(terms):
            asked["size"] = MAX_BUCKETS
        else:
            asked |= {"size": max(terms.size, 1), "order": _order(terms)}
        return {"terms": asked}

    def _ranges(self, ranges: RangeBuckets) -> Query:
        self._numbers(ranges.field, "range")
        queries: list[Query] = []
        for _, lower, upper in ranges.ranges:
            field = self.queries.field(ranges.field)
            bounds = {}
            if field is not None:
                listed = (("gte", lower), ("lt", upper))
                bounds = {bound: field.term(_whole(value)) for bound, value in listed if value is not None}
            queries.append({"match_none": {}} if field is None else {"range": {field.listed: bounds}})
        return _filters(queries)

    def _histogram(self, histogram: HistogramBuckets) -> Query:
        kind, numbers = self._numbers(histogram.field, "date_histogram" if histogram.dates else "histogram")
        if histogram.dates and kind not in ("date", None):
            raise QueryError(f"'date_histogram' needs dates, and {histogram.field!r} is {kind}; use 'histogram'")
        # empty buckets between others are added here: the cluster would add any number of them
        asked: Query = {"field": numbers, "min_doc_count": max(histogram.least, 1)}
        if not histogram.dates:
            return {"histogram": {**asked, "interval": histogram.interval, "offset": histogram.offset}}
        if isinstance(histogram.interval, str):
            return {"date_histogram": {**asked, "calendar_interval": histogram.interval}}
        return {"date_histogram": {**asked, "fixed_interval": f"{int(histogram.interval)}ms"}}

    # --- what is answered -----------------------------------------------------------------------------------------

    def _result(self, aggregation: Aggregation, found: Mapping[str, Any]) -> JsonObject:
        match aggregation:
            case Metric():
                return self._measured(aggregation, found)
            case TermBuckets():
                return self._listed(aggregation, found)
            case RangeBuckets():
                return self._in_ranges(aggregation, found)
            case HistogramBuckets():
                return self._in_intervals(aggregation, found)
            case FilterBuckets():
                return self._filtered(aggregation, found)
            case MissingBucket():
                return self._bucket(aggregation.inner, found)

    def _bucket(self, inner: Aggregations, found: Mapping[str, Any], **keys: JsonValue) -> JsonObject:
        self._buckets += 1
        if self._buckets > MAX_BUCKETS:
            raise QueryError(f"the aggregations have more than {MAX_BUCKETS} buckets; ask for larger or fewer ones")
        return {**keys, "doc_count": found["doc_count"], **self.read(inner, found)}

    def _kind(self, path: str) -> Kind | None:
        field = self.queries.field(path)
        return None if field is None else field.kind

    def _measured(self, metric: Metric, found: Mapping[str, Any]) -> JsonObject:
        if metric.kind in ("value_count", "cardinality"):
            return {"value": int(found["value"])}
        stats = {name: found[name] for name in _STATS}
        return shown_metric(metric.kind, found["count"], stats, self._kind(metric.field))

    def _listed(self, terms: TermBuckets, found: Mapping[str, Any]) -> JsonObject:
        buckets, others = found["buckets"], found["sum_other_doc_count"]
        if _is_ours(terms):
            buckets = [each for each in buckets if each["doc_count"] >= terms.least]
            buckets.sort(key=lambda each: each["key"])
            for what, descending in reversed(terms.order):
                self._sort(buckets, terms, what, descending)
            others += sum(each["doc_count"] for each in buckets[terms.size :])
        elif not terms.size:
            others += sum(each["doc_count"] for each in buckets)
        return {
            "doc_count_error_upper_bound": 0,
            "sum_other_doc_count": others,
            "buckets": [self._of_term(terms, each) for each in buckets[: terms.size]],
        }

    def _of_term(self, terms: TermBuckets, found: Mapping[str, Any]) -> JsonObject:
        field = self.queries.field(terms.field)
        if field is None:
            return self._bucket(terms.inner, found, **key_of(found["key"], None))
        value = found["key"] if field.prefix else field.value(found["key"])
        return self._bucket(terms.inner, found, **key_of(value, field.kind))

    def _sort(self, buckets: list[Mapping[str, Any]], terms: TermBuckets, what: str, descending: bool) -> None:
        if what in ("_key", "_count"):
            name = "key" if what == "_key" else "doc_count"
            buckets.sort(key=lambda each: each[name], reverse=descending)
            return
        name, _, part = what.partition(".")
        number, metric = next((str(n), each) for n, (key, each) in enumerate(terms.inner.items()) if key == name)
        assert isinstance(metric, Metric), "parse_aggregations has looked"
        values = {each["key"]: self._measured(metric, each[number])[part or "value"] for each in buckets}
        having = [each for each in buckets if values[each["key"]] is not None]
        without = [each for each in buckets if values[each["key"]] is None]
        having.sort(key=lambda each: values[each["key"]], reverse=descending)  # type: ignore[arg-type,return-value]
        buckets[:] = having + without

    def _in_ranges(self, ranges: RangeBuckets, found: Mapping[str, Any]) -> JsonObject:
        buckets: list[JsonValue] = []
        for each, (name, lower, upper) in zip(found["buckets"], ranges.ranges, strict=True):
            shown = ["*" if bound is None else str(float(bound)) for bound in (lower, upper)]
            keys: JsonObject = {"key": name or "-".join(shown)}
            keys |= {end: float(bound) for end, bound in (("from", lower), ("to", upper)) if bound is not None}
            buckets.append(self._bucket(ranges.inner, each, **keys))
        return {"buckets": buckets}

    def _in_intervals(self, histogram: HistogramBuckets, found: Mapping[str, Any]) -> JsonObject:
        groups: dict[float, Mapping[str, Any]] = {float(each["key"]): each for each in found["buckets"]}
        buckets: list[JsonValue] = []
        for begin in bucket_begins(groups, histogram):
            keys = key_of(int(begin), "date") if histogram.dates else {"key": begin}
            each = groups.get(begin) or _empty_bucket(histogram.inner)
            buckets.append(self._bucket(histogram.inner, each, **keys))
        return {"buckets": buckets}

    def _filtered(self, filters: FilterBuckets, found: Mapping[str, Any]) -> JsonObject:
        made = [
            (name, self._bucket(filters.inner, each))
            for (name, _), each in zip(filters.filters, found["buckets"], strict=True)
        ]
        if not filters.named:
            return made[0][1]
        if made[0][0] is None:
            return {"buckets": [bucket for _, bucket in made]}
        return {"buckets": {str(name): bucket for name, bucket in made}}


def _empty_bucket(inner: Aggregations) -> Query:
    """What the cluster would give for a bucket without documents."""
    return {"doc_count": 0, **{str(number): _of_nothing(each) for number, each in enumerate(inner.values())}}


def _of_nothing(aggregation: Aggregation) -> Query:
    match aggregation:
        case Metric():
            return {"value": 0, "count": 0, "min": None, "max": None, "avg": None, "sum": 0.0}
        case TermBuckets() | HistogramBuckets():
            return {"buckets": [], "sum_other_doc_count": 0}
        case RangeBuckets():
            return {"buckets": [_empty_bucket(aggregation.inner)] * len(aggregation.ranges)}
        case FilterBuckets():
            return {"buckets": [_empty_bucket(aggregation.inner)] * len(aggregation.filters)}
        case MissingBucket():
            return _empty_bucket(aggregation.inner)


def _filters(queries: Sequence[Query]) -> Query:
    return {"filters": {"filters": list(queries)}}


def _terms_of(field: Field | None) -> Query:
    """What has a field's values as terms."""
    if field is None:
        return {"field": "nothing.k"}
    if not field.prefix:
        return {"field": field.listed}
    return {"script": {"source": _AT_PATH, "params": {"field": field.listed, "path": field.prefix}}}


def _missing_term(field: Field | None, missing: Value | None) -> Query:
    if missing is None:
        return {}
    return {"missing": missing if field is None or field.prefix else field.term(missing)}


def _is_ours(terms: TermBuckets) -> bool:
    """Whether the buckets are sorted here: the cluster sorts documents without a value as if they had an extreme one,
    and counts what has too few documents among the others.
    """
    return terms.least > 1 or any(what not in ("_count", "_key") for what, _ in terms.order)


def _order(terms: TermBuckets) -> list[Query]:
    return [{what: "desc" if descending else "asc"} for what, descending in terms.order]


def _whole(number: float) -> int | float:
    """The number in the form of a field's values."""
    return int(number) if number.is_integer() and abs(number) < 2**63 else number
