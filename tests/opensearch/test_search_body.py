"""Which other indices the body of a search names, wherever a query can be in it, and what is refused."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ToolError
from gateway.messages import JsonObject
from gateway.opensearch.search_body import _AGGREGATIONS, _BODY, _HITS, _QUERIES, MOST_HITS, names_in_body

OTHER = "other"
LOOKUP: JsonObject = {"terms": {"name": {"index": OTHER, "id": "1", "path": "names"}}}
MATCH: JsonObject = {"match_all": {}}
SCRIPT: JsonObject = {"source": "1"}


def query(clause: JsonObject) -> JsonObject:
    return {"query": clause}


def aggregated(kind: str, options: JsonObject) -> JsonObject:
    return {"aggs": {"a": {kind: options}}}


# The name stands directly in these.
NAMING: list[JsonObject] = [
    query(LOOKUP),
    query({"terms": {"boost": 2, "name": {"index": OTHER, "query": MATCH, "path": "names"}}}),
    query({"more_like_this": {"like": {"_index": OTHER, "_id": "1"}}}),
    query({"more_like_this": {"like": ["a text", {"_index": OTHER, "_id": "1"}]}}),
    query({"more_like_this": {"like": "a text", "unlike": [{"_index": OTHER, "doc": {"name": "a"}}]}}),
    query({"percolate": {"field": "query", "index": OTHER, "id": "1"}}),
    query({"geo_shape": {"place": {"indexed_shape": {"index": OTHER, "id": "1", "path": "shape"}}}}),
    query({"xy_shape": {"place": {"indexed_shape": {"index": OTHER, "id": "1"}, "relation": "within"}}}),
    {"indices_boost": [{OTHER: 2}]},
    {"indices_boost": {OTHER: 2}},
]

# A query with the name stands in these.
HOLDING: list[JsonObject] = [
    *(query({"bool": {each: [MATCH, LOOKUP]}}) for each in ("must", "should", "filter", "must_not")),
    query({"bool": {"filter": LOOKUP}}),
    query({"bool": {"must": {"bool": {"must": {"bool": {"must": LOOKUP}}}}}}),
    query({"boosting": {"positive": MATCH, "negative": LOOKUP, "negative_boost": 0.5}}),
    query({"constant_score": {"filter": LOOKUP}}),
    query({"dis_max": {"queries": [LOOKUP]}}),
    query({"function_score": {"query": LOOKUP}}),
    query({"function_score": {"functions": [{"filter": LOOKUP, "weight": 2}]}}),
    query({"nested": {"path": "p", "query": LOOKUP}}),
    query({"nested": {"path": "p", "query": MATCH, "inner_hits": {"highlight": {"highlight_query": LOOKUP}}}}),
    query({"has_child": {"type": "t", "query": LOOKUP}}),
    query({"has_parent": {"parent_type": "t", "query": LOOKUP}}),
    query({"hybrid": {"queries": [MATCH, LOOKUP]}}),
    query({"hybrid": {"queries": [MATCH], "filter": LOOKUP}}),
    query({"knn": {"vector": {"vector": [1], "k": 1, "filter": LOOKUP}}}),
    query({"neural": {"vector": {"query_text": "a", "model_id": "m", "filter": LOOKUP}}}),
    query({"neural_sparse": {"vector": {"query_text": "a", "method_parameters": {"filter": LOOKUP}}}}),
    query({"terms": {"name": {"index": "one", "path": "names", "query": LOOKUP}}}),
    query({"span_near": {"clauses": [{"span_multi": {"match": LOOKUP}}]}}),
    query({"span_or": {"clauses": [LOOKUP]}}),
    query({"span_not": {"include": MATCH, "exclude": LOOKUP}}),
    query({"span_first": {"match": LOOKUP, "end": 3}}),
    query({"span_containing": {"little": MATCH, "big": LOOKUP}}),
    query({"span_within": {"little": LOOKUP, "big": MATCH}}),
    query({"field_masking_span": {"query": LOOKUP, "field": "f"}}),
    {"post_filter": LOOKUP},
    {"rescore": {"window_size": 5, "query": {"rescore_query": LOOKUP}}},
    {"rescore": [{"query": {"rescore_query": LOOKUP}}]},
    {"sort": [{"p.price": {"order": "asc", "nested": {"path": "p", "filter": LOOKUP}}}]},
    {"sort": {"p.q.price": {"nested": {"path": "p", "nested": {"path": "p.q", "filter": LOOKUP}}}}},
    {"sort": {"_geo_distance": {"place": [1, 2], "nested": {"path": "p", "filter": LOOKUP}}}},
    {"highlight": {"fields": {"a": {"highlight_query": LOOKUP}}}},
    {"highlight": {"fields": [{"a": {"highlight_query": LOOKUP}}]}},
    {"highlight": {"highlight_query": LOOKUP, "fields": {"a": {}}}},
    {"collapse": {"field": "f", "inner_hits": [{"name": "n", "highlight": {"highlight_query": LOOKUP}}]}},
    aggregated("filter", LOOKUP),
    aggregated("filters", {"filters": {"one": LOOKUP}}),
    aggregated("filters", {"filters": [LOOKUP], "other_bucket": True}),
    aggregated("adjacency_matrix", {"filters": {"one": LOOKUP}}),
    aggregated("significant_terms", {"field": "f", "background_filter": LOOKUP}),
    aggregated("significant_text", {"field": "f", "background_filter": LOOKUP}),
    aggregated("top_hits", {"highlight": {"highlight_query": LOOKUP}}),
    aggregated("top_hits", {"sort": [{"a": {"nested": {"path": "p", "filter": LOOKUP}}}]}),
    {"aggs": {"a": {"terms": {"field": "f"}, "aggs": {"b": {"filter": LOOKUP}}}}},
    {"aggregations": {"a": {"global": {}, "aggregations": {"b": {"filter": LOOKUP}}}}},
]

SCRIPTED: list[JsonObject] = [
    query({"script": {"script": SCRIPT}}),
    query({"script_score": {"query": MATCH, "script": SCRIPT}}),
    query({"function_score": {"script_score": {"script": SCRIPT}}}),
    query({"function_score": {"functions": [{"script_score": {"script": SCRIPT}}]}}),
    query({"terms_set": {"name": {"terms": ["a"], "minimum_should_match_script": SCRIPT}}}),
    query({"intervals": {"name": {"match": {"query": "a b", "filter": {"script": SCRIPT}}}}}),
    query(
        {"intervals": {"name": {"all_of": {"intervals": [{"match": {"query": "a", "filter": {"script": SCRIPT}}}]}}}}
    ),
    {"sort": {"_script": {"type": "number", "script": SCRIPT}}},
    {"sort": ["_score", {"_script": {"type": "number", "script": SCRIPT}}]},
    {"script_fields": {"one": {"script": SCRIPT}}},
    {"derived": {"one": {"type": "keyword", "script": SCRIPT}}},
    query({"nested": {"path": "p", "query": MATCH, "inner_hits": {"script_fields": {"one": {"script": SCRIPT}}}}}),
    aggregated("scripted_metric", {"map_script": SCRIPT}),
    aggregated("avg", {"script": SCRIPT}),
    aggregated("terms", {"script": {"id": "stored"}}),
    aggregated("weighted_avg", {"value": {"script": SCRIPT}, "weight": {"field": "w"}}),
    aggregated("composite", {"sources": [{"one": {"terms": {"script": SCRIPT}}}]}),
    aggregated("significant_terms", {"field": "f", "script_heuristic": {"script": SCRIPT}}),
    aggregated("bucket_script", {"buckets_path": {}, "script": "1"}),
    aggregated("bucket_selector", {"buckets_path": {}, "script": "1"}),
    aggregated("moving_fn", {"buckets_path": "a", "window": 2, "script": "1"}),
    aggregated("top_hits", {"script_fields": {"one": {"script": SCRIPT}}}),
]

HIDDEN: list[tuple[JsonObject, str]] = [
    (query({"wrapper": {"query": "e30="}}), "'wrapper' hides a query"),
    (query({"template": {"source": {}}}), "'template' hides a query"),
    (
        {"suggest": {"one": {"text": "a", "phrase": {"collate": {"query": {"source": "{}"}}}}}},
        "'collate' hides a query",
    ),
    ({"search_pipeline": {"request_processors": []}}, "'search_pipeline' cannot be named"),
    ({"search_pipeline": "mine"}, "'search_pipeline' cannot be named"),
    ({"pit": {"id": "x"}}, "the search cannot have 'pit' here; there are: "),
    ({"ext": {"more": {}}}, "cannot have 'ext'"),
    ({"slice": {"id": 0, "max": 2}}, "cannot have 'slice'"),
    ({"profile": True}, "cannot have 'profile'"),
    (query({"of_a_plugin": {"index": OTHER}}), "a query cannot have 'of_a_plugin' here; there are: bool, boosting"),
    (query({"bool": {"must": {"of_a_plugin": {}}}}), "cannot have 'of_a_plugin'"),
    (query({"bool": {"of_a_plugin": {"index": OTHER}}}), "bool cannot have 'of_a_plugin'"),
    (query({"more_like_this": {"docs": [{"_index": OTHER}]}}), "more_like_this cannot have 'docs'"),
    (query({"percolate": {"field": "q", "more": [{"index": OTHER}]}}), "percolate cannot have 'more'"),
    (aggregated("of_a_plugin", {}), "an aggregation cannot have 'of_a_plugin'"),
    (query({"terms": {"name": {"id": "1", "path": "names"}}}), "a terms lookup needs 'index'"),
    (query({"terms": {"name": {"index": [OTHER], "id": "1"}}}), "a terms lookup needs the name of an index"),
    ({"query": "title:a"}, "a query has to be an object, not str"),
    ({"aggs": []}, "aggregations has to be an object, not list"),
    ({"size": MOST_HITS + 1}, "size 1001 is too large; it is at most 1000"),
]

PLAIN: list[JsonObject] = [
    {},
    {"query": MATCH, "size": 3, "from": 2, "_source": {"includes": ["a*"]}, "sort": ["_score", {"a": "desc"}]},
    query({"match": {"index": {"query": "a field of that name", "operator": "and"}}}),
    query({"term": {"script": "a field of that name"}}),
    query({"terms": {"_index": ["a", "b"], "boost": 1}}),
    query({"geo_shape": {"place": {"shape": {"type": "point", "coordinates": [1, 2]}}, "ignore_unmapped": True}}),
    query({"more_like_this": {"fields": ["a"], "like": ["text", {"_id": "1"}], "min_term_freq": 1}}),
    query({"percolate": {"field": "query", "document": {"index": {"index": "x"}}}}),
    query({"function_score": {"field_value_factor": {"field": "a"}, "functions": [{"gauss": {"a": {"origin": 1}}}]}}),
    query({"span_near": {"clauses": [{"span_term": {"a": "b"}}], "slop": 2, "in_order": True}}),
    query({"range": {"at": {"gte": "now-1d/d"}}}),
    {"suggest": {"text": "a", "one": {"term": {"field": "title"}}}},
    {
        "aggs": {
            "script": {"terms": {"field": "a", "order": [{"_count": "desc"}]}, "aggs": {"b": {"avg": {"field": "b"}}}}
        }
    },
    aggregated("date_histogram", {"field": "at", "calendar_interval": "month"}),
]


def ids(value: object) -> str | None:
    return json.dumps(value)[:80] if isinstance(value, dict) else None


@pytest.mark.parametrize("body", [*NAMING, *HOLDING], ids=ids)
def test_a_name_is_found_wherever_it_is(body: JsonObject) -> None:
    assert OTHER in names_in_body(body, allows_scripts=False)


def test_a_shape_without_an_index_is_in_shapes() -> None:
    body = query({"geo_shape": {"place": {"indexed_shape": {"id": "1"}}}})

    assert names_in_body(body, allows_scripts=False) == ("shapes",)


@pytest.mark.parametrize("body", SCRIPTED, ids=ids)
def test_scripts_are_refused_unless_they_are_allowed(body: JsonObject) -> None:
    with pytest.raises(ToolError, match="scripts are turned off"):
        names_in_body(body, allows_scripts=False)

    assert names_in_body(body, allows_scripts=True) == ()


@pytest.mark.parametrize(("body", "said"), HIDDEN, ids=ids)
def test_what_could_hide_a_name_is_refused(body: JsonObject, said: str) -> None:
    for allows_scripts in (False, True):
        with pytest.raises(ToolError) as refused:
            names_in_body(body, allows_scripts=allows_scripts)
        assert said in refused.value.message


@pytest.mark.parametrize("body", PLAIN, ids=ids)
def test_other_searches_are_not_refused(body: JsonObject) -> None:
    assert names_in_body(body, allows_scripts=False) == ()


@pytest.mark.parametrize("name", ["a,b", "a*", "*", "_all", "-a", "far:a", "", "a b", "../a", "%61"])
def test_a_body_names_one_index_at_each_place(name: str) -> None:
    with pytest.raises(ToolError):
        names_in_body(json.loads(json.dumps(query(LOOKUP)).replace(OTHER, name)), allows_scripts=False)


WORDS = sorted(
    {*_BODY, *_HITS, *_QUERIES, *_AGGREGATIONS, "index", "_index", "filter", "like", "inner_hits", "functions"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(OTHER),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(sorted(_BODY)), VALUES, max_size=3))
def test_whatever_a_model_writes_is_read_or_refused(body: JsonObject) -> None:
    with contextlib.suppress(ToolError):
        names_in_body(body, allows_scripts=False)


def test_deep_wide_and_large_bodies_are_refused() -> None:
    deep: Any = MATCH
    for _ in range(5_000):
        deep = {"bool": {"must": deep}}
    many: Any = [{"terms": {"a": {"index": f"i{number}", "id": "1", "path": "p"}}} for number in range(11)]
    with pytest.raises(ToolError, match="more than 60 levels"):
        names_in_body({"query": deep}, allows_scripts=False)
    with pytest.raises(ToolError, match="more than 10 other indices"):
        names_in_body({"query": {"bool": {"must": many}}}, allows_scripts=False)
    with pytest.raises(ToolError, match="too large"):
        names_in_body({"query": {"match": {"a": "x" * 200_000}}}, allows_scripts=False)
