"""A search over the documents that an owner may see: what was read of it is written for the cluster, and its answer is
given in the form of the embedded index.

Below: document_queries, document_aggregations, document_index. Above: documents. A search takes two requests: the
places of the hits, then their documents, of which no more are read than a process can bear. Scored words take one more,
and fuzzy words and beginnings of words another one (see document_words). A document that somebody deletes between the
requests is left out; one that is replaced is shown as it is now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.documents.document import DocumentKind
from gateway.embedded_index.budget import Budget, SearchSteps
from gateway.embedded_index.evaluation import plain
from gateway.errors import InvalidRequestError, ToolError
from gateway.messages import JsonObject, JsonValue
from gateway.opensearch.document_aggregations import AggregationWriter
from gateway.opensearch.document_fields import Field, Layout
from gateway.opensearch.document_index import DocumentIndex, counting, seen_by, size_of, total_of
from gateway.opensearch.document_queries import Count, QueryWriter
from gateway.opensearch.document_records import Stored, id_at, place_of
from gateway.opensearch.document_words import Query, WordLookup
from gateway.query_dsl.clauses import QueryError, Scalar
from gateway.query_dsl.field_mapping import MappingError, plain_text
from gateway.query_dsl.search_body import SearchBody, SortKey, parse_search_body
from gateway.records import load_json

_STEPS: Final = SearchSteps(500_000, 0)
_ALL_STEPS: Final = 10**9
_BYTES_PER_STEP: Final = 100  # of the hits' documents: at most about 50 MB
_TIMEOUT: Final = "4s"  # of the cluster's own work, below that of a request
_AFTER_ALL: Final = 2**62
# By the version: its own, or the one that the index gives.
_VERSION = "doc['version'].size() > 0 ? doc['version'].value : params.base + doc['_seq_no'].value + 1"
# The first or last of the values at one path of a flat_object, after a 1; without any, a 0 or a 2.
_AT_PATH = (
    "String found = null; for (term in doc[params.field]) { if (term.startsWith(params.path)) {"
    " String value = '1' + term.substring(params.path.length());"
    " if (found == null || params.last == (value.compareTo(found) > 0)) { found = value } } }"
    " return found == null ? params.missing : found"
)


async def search_documents(
    index: DocumentIndex, kind: DocumentKind, body: JsonObject, owner: str, now: float
) -> JsonObject:
    """The result of DocumentStore.search, at `now`."""
    try:
        search = _Search(index, index.layout(kind), parse_search_body(body), owner, now)
        return await search.run()
    except (QueryError, MappingError) as error:
        raise InvalidRequestError(str(error), code="invalid_search", status=400) from error
    except ToolError as error:
        raise InvalidRequestError(error.message, code="search_too_large", status=400) from error


@dataclass(frozen=True, slots=True)
class _Hit:
    key: str
    score: float | None
    sort: Sequence[JsonValue]


class _Search:
    def __init__(self, index: DocumentIndex, layout: Layout, asked: SearchBody, owner: str, now: float) -> None:
        self._index = index
        self._layout = layout
        self._asked = asked
        self._owner = owner
        self._now = now
        self._filters = seen_by(layout.kind, owner)
        self._budget = Budget(0, _STEPS)
        self._lookup = WordLookup(self._budget)
        self._by_score = not asked.sort or any(key.field == "_score" for key in asked.sort)
        self._fields = QueryWriter(layout, self._lookup, now, Count())

    async def run(self) -> JsonObject:
        await self._index.prepare(self._layout)
        answer = await self._answer()
        if answer["timed_out"]:
            self._budget.spend(_ALL_STEPS)
        hits = [self._hit(each) for each in answer["hits"]["hits"]][: self._asked.size]
        sizes = {each["_id"]: size_of(each) for each in answer["hits"]["hits"][: self._asked.size]}
        wanted = self._asked.source.wanted
        self._budget.spend(sum(sizes.values()) // _BYTES_PER_STEP if wanted else 0)
        stored = {
            key: found async for key, found in self._index.read_many(sizes, body=wanted) if found.seen_by(self._owner)
        }
        return await asyncio.to_thread(self._shown, answer, hits, stored)

    async def _answer(self) -> Mapping[str, Any]:
        """The cluster's answer, after it was asked what the search depends on."""
        current: Query = {"term": {"indexed_as": self._layout.digest}}
        stale = counting({"bool": {"filter": [*self._filters], "must_not": [current]}})
        while True:
            body, questions = await asyncio.to_thread(self._written)
            if questions:
                visible: Query = {"bool": {"filter": self._filters}}
                body = {"size": 0, "query": visible, "aggs": questions, "timeout": _TIMEOUT}
            old, answer = await self._index.search(stale, body)
            if total_of(old):
                await self._index.index_again(self._layout, self._filters)
            elif not questions:
                return answer
            elif answer["timed_out"]:
                self._budget.spend(_ALL_STEPS)
            else:
                await asyncio.to_thread(self._lookup.learn, answer["aggregations"])

    # --- what is asked --------------------------------------------------------------------------------------------

    def _written(self) -> tuple[Query, Query]:
        """The search for the cluster, and what has to be known before it can be written."""
        asked = self._asked
        scored = self._by_score or asked.minimum_score is not None
        writer = QueryWriter(self._layout, self._lookup, self._now, Count(), scored=scored)
        query: Query = {"bool": {"must": [writer.write(asked.query)], "filter": self._filters}}
        sort = [self._sort_of(key) for key in asked.sort] or [{"_score": {"order": "desc"}}]
        body: Query = {
            "query": query,
            "from": asked.start if asked.size else 0,
            # the best score of all hits comes with the first one
            "size": max(asked.size, 1) if self._by_score else asked.size,
            "sort": [*sort, _by_version(self._index.base)],
            "track_total_hits": True,
            "track_scores": self._by_score,
            "_source": False,
            "docvalue_fields": ["bytes"],
            "timeout": _TIMEOUT,
        }
        if asked.minimum_score is not None:
            body["min_score"] = asked.minimum_score
        if asked.after is not None:
            after = [self._after_of(key, value) for key, value in zip(asked.sort, asked.after, strict=True)]
            body["search_after"] = [*after, _AFTER_ALL]  # documents with the same values do not come again
        if asked.aggregations:
            body["aggs"] = AggregationWriter(writer).write(asked.aggregations)
        return body, self._lookup.questions()

    def _sort_of(self, key: SortKey) -> Query:
        order = "desc" if key.descending else "asc"
        if key.field in ("_score", "_id"):
            return {"place" if key.field == "_id" else key.field: {"order": order}}
        if key.field == "_doc":
            return _by_version(self._index.base, order)
        field = self._field(key)
        missing = {"missing": "_first" if key.missing_first else "_last"}
        if field is None:
            return {"nothing.k": {"order": order, **missing}}
        if not field.prefix:
            return {field.listed: {"order": order, "mode": "max" if key.descending else "min", **missing}}
        params = {
            "field": field.listed,
            "path": field.prefix,
            "last": key.descending,
            "missing": "0" if key.missing_first != key.descending else "2",
        }
        return {"_script": {"type": "string", "order": order, "script": {"source": _AT_PATH, "params": params}}}

    def _field(self, key: SortKey) -> Field | None:
        field = self._fields.field(key.field)
        if field is not None and field.kind == "text":
            raise QueryError(f"{key.field!r} is text, which has no order; sort by a keyword, number or date field")
        return field

    def _after_of(self, key: SortKey, value: Scalar | None) -> JsonValue:
        """A sort value of `search_after` in the form of the cluster's."""
        if key.field == "_id":
            return place_of(str(value))
        if key.field in ("_score", "_doc"):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise QueryError(f"the value for {key.field!r} in 'search_after' is a number, not {value!r}")
            return value
        field = self._field(key)
        if field is None:
            return None if value is None else str(value)
        if value is None:
            missing = "0" if key.missing_first != key.descending else "2"
            return missing if field.prefix else None
        kept = plain(key.field, field.kind, value, self._now)
        return f"1{kept}" if field.prefix else field.term(kept)

    # --- what is answered -----------------------------------------------------------------------------------------

    def _hit(self, found: Mapping[str, Any]) -> _Hit:
        values = [self._sort_value(key, value) for key, value in zip(self._asked.sort, found["sort"], strict=False)]
        return _Hit(found["_id"], found["_score"] if self._by_score else None, values)

    def _sort_value(self, key: SortKey, value: Any) -> JsonValue:
        if key.field == "_score":
            return float(value)
        if key.field == "_doc":
            return int(value)
        if key.field == "_id":
            return plain_text(id_at(value))
        field = self._field(key)
        if field is None or value is None:
            return None
        if field.prefix:
            return str(value[1:]) if value[0] == "1" else None
        return field.value(value)

    def _shown(self, answer: Mapping[str, Any], hits: Sequence[_Hit], stored: Mapping[str, Stored]) -> JsonObject:
        found: JsonObject = {
            "max_score": answer["hits"]["max_score"] if self._by_score else None,
            "hits": [self._shown_hit(hit, stored[hit.key]) for hit in hits if hit.key in stored],
        }
        if self._asked.total:
            found = {"total": {"value": total_of(answer), "relation": "eq"}, **found}
        shown: JsonObject = {
            "took": 0,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": found,
        }
        if self._asked.aggregations:
            aggregations = AggregationWriter(self._fields)
            shown["aggregations"] = aggregations.read(self._asked.aggregations, answer["aggregations"])
        return shown

    def _shown_hit(self, hit: _Hit, stored: Stored) -> JsonObject:
        shown: JsonObject = {
            "_index": self._layout.kind.name,
            "_id": stored.document_id,
            "_version": stored.version,
            "_owner": stored.owner,
            "_public": stored.public,
            "_score": hit.score,
        }
        if self._asked.source.wanted:
            shown["_source"] = self._asked.source.of(load_json(stored.source))
        if self._asked.sort:
            shown["sort"] = list(hit.sort)
        return shown


def _by_version(base: int, order: str = "asc") -> Query:
    script = {"source": _VERSION, "params": {"base": base}}
    return {"_script": {"type": "number", "order": order, "script": script}}
