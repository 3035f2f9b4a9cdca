"""What the URLs of ml-commons' API may say: unknown parameters are refused, `filter_path` and `q` are obeyed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import JsonValue
from gateway.ml_commons.filter_path import filtered
from tests.ml_commons_scene import ml_gateway
from tests.movable_clock import MovableClock

BODY: JsonValue = {
    "took": 3,
    "hits": {"total": {"value": 2}, "hits": [{"_id": "a", "_source": {"n": 1, "m": 2}}, {"_id": "b", "_source": {}}]},
    "aggregations": {"x": {"value": 1}, "y": {"value": 2}},
}
FILTERED: list[tuple[str, Any]] = [
    ("took", {"took": 3}),
    ("hits.hits._id", {"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}}),
    ("hits.hits._source.n,took", {"took": 3, "hits": {"hits": [{"_source": {"n": 1}}]}}),
    ("hits.t*", {"hits": {"total": {"value": 2}}}),
    ("**.value", {"hits": {"total": {"value": 2}}, "aggregations": {"x": {"value": 1}, "y": {"value": 2}}}),
    ("aggregations.**", {"aggregations": {"x": {"value": 1}, "y": {"value": 2}}}),
    ("*.x", {"aggregations": {"x": {"value": 1}}}),
    ("nothing", {}),
    ("-hits,-aggregations.x", {"took": 3, "aggregations": {"y": {"value": 2}}}),
    ("hits,-hits.hits._source", {"hits": {"total": {"value": 2}, "hits": [{"_id": "a"}, {"_id": "b"}]}}),
    ("**._id,-hits.total", {"hits": {"hits": [{"_id": "a"}, {"_id": "b"}]}}),
    ("", BODY),
]


@pytest.mark.parametrize(("wanted", "left"), FILTERED)
def test_a_filter_path_leaves_what_it_names(wanted: str, left: JsonValue) -> None:
    assert filtered(BODY, wanted) == left


def test_filter_paths_are_bounded() -> None:
    with pytest.raises(InvalidRequestError, match="101 paths; at most 100"):
        filtered(BODY, ",".join(["a"] * 101))


async def test_every_answer_is_filtered_and_no_error_is(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        agent_id = await ml.register(AGENT)
        for method, path, body, wanted, left in (
            ("GET", f"/agents/{agent_id}", None, "name", {"name": "weather"}),
            ("POST", "/agents/_search", {}, "hits.total.value", {"hits": {"total": {"value": 1}}}),
            ("POST", "/memory", {"name": "n"}, "-memory_id", {}),
            ("GET", "/tools/ListIndexTool", None, "name", {"name": "ListIndexTool"}),
        ):
            status, answer = await ml.call(method, f"{path}?filter_path={wanted}", body)
            assert (status, answer) == (200, left), path
        status, answer = await ml.call("GET", "/agents/nope?filter_path=name")
        assert (status, "error" in answer) == (404, True)
        settings = await ml.http.get("/_cluster/settings?filter_path=persistent&flat_settings=true&pretty")
        assert settings.json() == {"persistent": {}}


AGENT: dict[str, Any] = {
    "name": "weather",
    "type": "conversational",
    "model": {
        "model_id": "m",
        "model_provider": "openai/v1/chat/completions",
        "endpoint": "http://127.0.0.1:9/v1",
        "credential": {"openai_api_key": "sk-test"},
    },
}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/_plugins/_ml/agents/_search"),
        ("GET", "/_plugins/_ml/memory"),
        ("GET", "/_plugins/_ml/memory/m/messages"),
        ("POST", "/_plugins/_ml/agents/configured/_execute"),
        ("POST", "/_plugins/_ml/agents/configured/_execute/stream"),
        ("GET", "/_plugins/_ml/tasks/t"),
        ("DELETE", "/_plugins/_ml/memory_containers/c"),
        ("GET", "/_cluster/settings"),
    ],
)
async def test_an_unknown_parameter_is_refused_by_its_name(tmp_path: Path, method: str, path: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        refused = await ml.http.request(method, f"{path}?pretty&nonsense=1&unheard=2")
        assert refused.status_code == 400
        error = refused.json()["error"]
        text = json.dumps(error)
        assert f"request [{path}] contains unrecognized parameters: [nonsense], [unheard]" in text
        known = await ml.http.request(method, f"{path}?pretty=true&human=false&error_trace=true&format=json")
        assert "unrecognized" not in known.text


async def test_a_url_may_say_what_is_searched(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        for name in ("Sea", "Sky", "Sea and sky"):
            await ml.call("POST", "/memory", {"name": name})

        async def names(parameters: str, body: Any = None) -> list[str]:
            status, answer = await ml.call("GET", f"/memory/_search?{parameters}", body)
            assert status == 200, answer
            return [hit["_source"].get("name") for hit in answer["hits"]["hits"]]

        assert sorted(await names("q=name:sea")) == ["Sea", "Sea and sky"]
        assert await names("q=sea+sky&default_operator=AND&df=name") == ["Sea and sky"]
        assert await names("q=name:sky&sort=create_time:asc", {"query": {"match_none": {}}}) == ["Sky", "Sea and sky"]
        assert await names("sort=create_time:desc&size=1") == ["Sea and sky"]
        assert await names("sort=create_time:desc&size=1&from=2") == ["Sea"]
        assert await names("q=name:sky&size=1&_source=user") == [None]
        source = quote(json.dumps({"query": {"match": {"name": "and"}}}))
        assert await names(f"source={source}&source_content_type=application/json") == ["Sea and sky"]
        status, answer = await ml.call("GET", "/memory/_search?source=[]")
        assert (status, answer["error"]["reason"]) == (400, "source must be a JSON object, as the body would be")


async def test_dates_are_reckoned_from_now(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        for text in ("old", "new"):
            await ml.call("POST", "/memory_containers/c/memories/long-term", {"memory": text})
            await ml.call("POST", "/memory", {"name": text})
            clock.put_forward(7 * 86_400)
        for path, field, name in (
            ("/memory_containers/c/memories/long-term/_search", "created_time", "memory"),
            ("/memory/_search", "create_time", "name"),
        ):
            for bound, found in (({"gte": "now-10d"}, ["new"]), ({"lt": "now-1w-1d"}, ["old"]), ({"gt": "now/d"}, [])):
                _, answer = await ml.call("POST", path, {"query": {"range": {field: bound}}})
                assert [hit["_source"][name] for hit in answer["hits"]["hits"]] == found, (path, bound)


async def test_messages_are_searched_as_nested_objects(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        memories = "/memory_containers/c/memories"
        said = [("user", "a seat at the window"), ("assistant", "noted")]
        messages = [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in said]
        await ml.call("POST", memories, {"payload_type": "conversational", "messages": messages})

        async def roles(query: dict[str, Any]) -> list[str]:
            nested = {"nested": {"path": "messages", "query": query}}
            status, answer = await ml.call("POST", f"{memories}/working/_search", {"query": nested})
            assert status == 200, answer
            return [hit["_source"]["messages"][0]["role"] for hit in answer["hits"]["hits"]]

        assert await roles({"term": {"messages.role": "assistant"}}) == ["assistant"]
        assert await roles({"term": {"messages.content.text": "a seat at the window"}}) == ["user"]
        assert await roles({"prefix": {"messages.content.text": "a seat"}}) == ["user"]
        assert await roles({"term": {"messages.role": "tool"}}) == []
