"""Memories and their messages are searched as OpenSearch searches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject
from gateway.ml_memory.memories import MEMORY_INDEX, MESSAGE_INDEX
from gateway.ml_memory.memory_search import (
    MOST_SEARCHED,
    check_count,
    check_latest_suffice,
    latest_wanted,
    search_documents,
    with_total,
)
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.running_gateway import agent, run_body, scripted

ADD = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add"}}
STEPS: list[list[dict[str, Any]]] = [
    [{"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"}],
    [{"text": "It is five."}],
]
CALCULATOR = agent("calculator", scripted(*STEPS), tools=[ADD])
KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


async def made(ml: MlGateway, **words: Any) -> str:
    _, answer = await ml.call("POST", "/memory", words)
    memory_id: str = answer["memory_id"]
    return memory_id


async def hits(ml: MlGateway, path: str, body: object = None, method: str = "POST", **more: Any) -> list[Any]:
    status, answer = await ml.call(method, f"{path}/_search", body, **more)
    assert status == 200, answer
    found: list[Any] = answer["hits"]["hits"]
    return found


# --- memories


async def test_memories_are_found_by_what_is_said_of_them(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, (CALCULATOR,)) as ml:
        first = await made(ml, name="All about boats", application_type="chat", additional_info={"k": "v"})
        second = await made(ml, name="All about trains")
        await ml.gateway.client.run("calculator", run_body("boats or trains?", thread_id="by / ag-ui"))
        for query, expected in (
            ({"match": {"name": "boats"}}, {first, "by / ag-ui"}),
            ({"match": {"name": {"query": "about trains", "operator": "and"}}}, {second}),
            ({"term": {"application_type": "chat"}}, {first}),
            ({"term": {"additional_info.k": "v"}}, {first}),
            ({"ids": {"values": ["by / ag-ui"]}}, {"by / ag-ui"}),
            ({"exists": {"field": "application_type"}}, {first}),
            ({"range": {"create_time": {"gte": "2001-01-01"}}}, {first, second, "by / ag-ui"}),
            ({"query_string": {"query": "tra*"}}, {second, "by / ag-ui"}),
            ({"term": {"nothing_of_that_name": 1}}, set()),
        ):
            assert {hit["_id"] for hit in await hits(ml, "/memory", {"query": query})} == expected, query


async def test_a_found_memory_has_the_shape_of_opensearchs_hits(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        first, second = await made(ml, name="n"), await made(ml)
        status, answer = await ml.call("GET", "/memory/_search")
        assert status == 200
        assert answer["hits"]["total"] == {"value": 2, "relation": "eq"}
        assert answer["timed_out"] is False
        found = await hits(ml, "/memory", {"sort": [{"updated_time": "desc"}], "size": 1, "from": 1}, "GET")
        assert [(hit["_index"], hit["_id"]) for hit in found] == [(".plugins-ml-memory-meta", first)]
        source = found[0]["_source"]
        assert source.keys() == {"name", "create_time", "updated_time"}
        assert {"_version", "_seq_no", "_primary_term"} <= found[0].keys()
        (nameless,) = await hits(ml, "/memory", {"query": {"ids": {"values": [second]}}})
        assert nameless["_source"]["name"] is None


async def test_a_search_sees_no_other_owners_memories(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        _, memory = await ml.call("POST", "/memory", {"name": "secret boat"}, **as_("alice"))
        everything: dict[str, Any] = {"query": {"match_all": {}}}
        assert await hits(ml, "/memory", everything, **as_("bob")) == []
        assert len(await hits(ml, "/memory", {"query": {"term": {"user": "alice"}}}, **as_("alice"))) == 1
        status, missing = await ml.call("POST", f"/memory/{memory['memory_id']}/_search", everything, **as_("bob"))
        assert (status, missing["error"]["reason"]) == (404, f"Memory [{memory['memory_id']}] not found")


# --- messages


async def test_interactions_and_traces_are_found_in_their_memory(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, (CALCULATOR,)) as ml:
        await ml.gateway.client.run("calculator", run_body("2 and 3?", thread_id="t", run_id="r1"))
        _, posted = await ml.call(
            "POST", "/memory/t/messages", {"input": "boats?", "response": "Ships.", "origin": "me"}
        )
        trace = {"response": "looked it up", "origin": "Book", "parent_message_id": posted["message_id"]}
        _, traced = await ml.call("POST", "/memory/t/messages", trace)
        no_traces = {"bool": {"must_not": {"exists": {"field": "trace_number"}}}}
        for query, expected in (
            ({"match": {"response": "five"}}, {"user-r1"}),
            ({"match": {"input": "boats"}}, {posted["message_id"]}),
            ({"term": {"origin": "Book"}}, {traced["message_id"]}),
            ({"term": {"origin": "calculator"}}, {"user-r1"}),
            ({"term": {"parent_message_id": posted["message_id"]}}, {traced["message_id"]}),
            (no_traces, {"user-r1", posted["message_id"]}),
        ):
            found = await hits(ml, "/memory/t", {"query": query})
            assert {hit["_id"] for hit in found} == expected, query
            assert {hit["_index"] for hit in found} == {".plugins-ml-memory-message"}
        (tool,) = await hits(ml, "/memory/t", {"query": {"term": {"origin": "add"}}}, "GET")
        assert (tool["_source"]["response"], tool["_source"]["parent_message_id"]) == ("5.0", "user-r1")
        oldest = {
            "query": no_traces,
            "sort": [{"create_time": "asc"}],
            "_source": ["input", "trace_number", "memory_id"],
        }
        assert [hit["_source"] for hit in await hits(ml, "/memory/t", oldest)] == [
            {"input": "2 and 3?", "trace_number": None, "memory_id": "t"},
            {"input": "boats?", "trace_number": None, "memory_id": "t"},
        ]


@pytest.mark.parametrize("path", ["/memory", "/memory/t"])
async def test_a_wrong_search_is_refused_with_the_reason(tmp_path: Path, path: str) -> None:
    async with ml_gateway(tmp_path, (CALCULATOR,)) as ml:
        await ml.gateway.client.run("calculator", run_body("2 and 3?", thread_id="t"))
        no_date = {"query": {"range": {"create_time": {"gte": "x"}}}}
        wrong: list[dict[str, Any]] = [{"query": {"nope": {}}}, {"size": -1}, {"unknown": 1}, no_date]
        for body in wrong:
            status, refused = await ml.call("POST", f"{path}/_search", body)
            assert status == 400, body
            assert refused["error"]["reason"]


async def test_opensearchs_client_searches(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml, name="boats")
        perform = ml.opensearch.transport.perform_request
        body = {"query": {"match": {"name": "boats"}}}
        for method in ("GET", "POST"):
            answer = await perform(method, f"{P}/memory/_search", body=body)
            assert [hit["_id"] for hit in answer["hits"]["hits"]] == [memory_id]


# --- bounds

DAY = 86_400.0


def refused(work: Any) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        work()
    assert (caught.value.status, caught.value.code) == (400, "search_too_large")
    return caught.value.message


def test_a_search_over_more_than_the_latest_memories_says_what_would_be_right() -> None:
    in_name: JsonObject = {"query": {"match": {"name": "boats"}}}
    assert "1970-01-02T00:00:00.000Z" in refused(lambda: check_latest_suffice(in_name, DAY, DAY))
    for too_early in ("1970-01-01", 86_400_000, "no date"):
        body: Any = {"query": {"range": {"updated_time": {"gte": too_early}}}}
        refused(lambda body=body: check_latest_suffice(body, DAY, DAY))
    later: Any = {"range": {"updated_time": {"gt": "1970-01-02T00:00:01Z"}}}
    both: Any = {"bool": {"filter": [later], "must": [{"match": {"name": "boats"}}]}}
    check_latest_suffice({"query": later}, DAY, DAY)
    check_latest_suffice({"query": both}, DAY, DAY)
    refused(lambda: check_latest_suffice({"query": {"bool": {"should": [later]}}}, DAY, DAY))


def test_a_list_of_all_memories_needs_only_those_that_it_shows() -> None:
    latest: Any = {"query": {"match_all": {}}, "sort": [{"updated_time": {"order": "desc"}}], "size": 3, "from": 4}
    assert (latest_wanted({}), latest_wanted(latest)) == (10, 7)
    counts: Any = {"aggs": {"n": {"value_count": {"field": "name"}}}}
    chosen: Any = {"query": {"match": {"name": "boats"}}}
    none: Any = {"query": {"match_none": {}}}
    then_by_name: Any = {"sort": [{"updated_time": "desc"}, {"application_type": "asc"}]}
    others: list[Any] = [{"sort": [{"updated_time": "asc"}]}, counts, {"min_score": 1}, chosen, none, then_by_name]
    for body in others:
        assert latest_wanted(body) is None


@pytest.mark.parametrize(("is_exact", "relation"), [(True, "eq"), (False, "gte")])
def test_the_total_is_that_of_all_memories(*, is_exact: bool, relation: str) -> None:
    answer = search_documents(MEMORY_INDEX, {"m": {"name": "n"}}, {}, DAY)
    hits: Any = with_total(answer, 500, is_exact=is_exact)["hits"]
    assert hits["total"] == {"value": 500, "relation": relation}
    silent = search_documents(MEMORY_INDEX, {"m": {"name": "n"}}, {"track_total_hits": False}, DAY)
    assert with_total(silent, 500, is_exact=is_exact) == silent


async def test_a_list_of_all_memories_is_counted_whole(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        there = [await made(ml, name=str(number)) for number in range(4)]
        body = {"size": 2, "from": 1, "sort": [{"updated_time": "desc"}]}
        _, answer = await ml.call("POST", "/memory/_search", body)
    assert [hit["_id"] for hit in answer["hits"]["hits"]] == [there[2], there[1]]
    assert answer["hits"]["total"] == {"value": 4, "relation": "eq"}


def test_more_than_can_be_searched_is_refused() -> None:
    check_count(MOST_SEARCHED)
    assert "page by page" in refused(lambda: check_count(MOST_SEARCHED + 1))
    documents: dict[str, JsonObject] = {f"m{number}": {"input": "x", "response": "y" * 600_000} for number in range(2)}
    in_answers: JsonObject = {"query": {"match": {"response": "y"}}}
    assert "fewer fields" in refused(lambda: search_documents(MESSAGE_INDEX, documents, in_answers, DAY))
    in_questions: JsonObject = {"query": {"match": {"input": "x"}}, "_source": False}
    found: Any = search_documents(MESSAGE_INDEX, documents, in_questions, DAY)
    assert found["hits"]["total"]["value"] == 2
