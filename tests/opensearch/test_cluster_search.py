"""The search engine of a cluster, on a real node with two tenants: what alice's searches read, by every road."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import ToolSettings
from gateway.clock import SystemClock
from gateway.errors import ToolError
from gateway.http_client.clients import HttpClients
from gateway.messages import JsonObject, JsonValue, TextBlock
from gateway.opensearch.cluster_search import ClusterSearchEngine
from gateway.search_engine import Asker
from gateway.tool import SharedState, ToolContext, ToolEnvironment
from gateway.tools.search_index import TOOL_TYPE as SEARCH_INDEX
from tests.openai_chat_server import Received
from tests.opensearch.front import PASS, Fate, Front, Hold, Rule, front_before
from tests.opensearch.two_tenants import SECRET, Tenants, document, two_tenants

DEADLINE_SECONDS = 30.0
EVERYTHING: JsonObject = {"query": {"match_all": {}}}


@pytest.fixture(scope="module")
def tenants(opensearch_url: str) -> Iterator[Tenants]:
    with two_tenants(opensearch_url) as made:
        yield made


@pytest.fixture
async def engine(tenants: Tenants) -> AsyncIterator[ClusterSearchEngine]:
    async with asyncio.timeout(DEADLINE_SECONDS), tenants.engine() as opened:
        yield opened


def hits(response: JsonObject) -> list[tuple[str, str]]:
    found: Any = response["hits"]
    return sorted((hit["_index"], hit["_id"]) for hit in found["hits"])


async def refusal(engine: ClusterSearchEngine, index: str, body: JsonObject = EVERYTHING) -> str:
    with pytest.raises(ToolError) as refused:
        await engine.search(index, body)
    assert SECRET not in refused.value.message
    return refused.value.message


# --- what is searched


class TestSearchedNames:
    async def test_lead_to_alice_s_own_indices(self, tenants: Tenants, engine: ClusterSearchEngine) -> None:
        books, alice = tenants.books, tenants.alice
        own = {"1", "2"}
        for name in (books, f"{books},{books}", f"{tenants.bob}-door", f"{alice}-b*", f" {books} "):
            assert {found for index, found in hits(await engine.search(name, EVERYTHING)) if index == books} == own

    async def test_a_pattern_means_what_may_be_searched(self, tenants: Tenants, engine: ClusterSearchEngine) -> None:
        for name in ("*", "_all", f"{tenants.alice}-*", "*-books", f"{tenants.bob}-*,*"):
            found = hits(await engine.search(name, {**EVERYTHING, "size": 100}))
            indices = {index for index, _ in found}
            assert tenants.books in indices
            assert all(index.startswith((f"{tenants.alice}-", f".ds-{tenants.alice}-log-")) for index in indices)
            assert not any("store" in index for index in indices)
        excluded = hits(await engine.search(f"*-papers,*-books,-{tenants.books}", EVERYTHING))
        assert excluded == [(f"{tenants.alice}-papers", "1")]

    async def test_a_filtered_alias_keeps_its_filter(self, tenants: Tenants, engine: ClusterSearchEngine) -> None:
        assert hits(await engine.search(f"{tenants.alice}-cheap", EVERYTHING)) == [(tenants.books, "1")]

    async def test_date_math_and_data_streams_are_followed(self, tenants: Tenants, engine: ClusterSearchEngine) -> None:
        year = f"<{tenants.alice}-{{now/y{{yyyy}}}}>"
        assert hits(await engine.search(year, EVERYTHING)) == [(tenants.of_this_year, "1")]
        [(index, _)] = hits(await engine.search(f"{tenants.alice}-log", EVERYTHING))
        assert index.startswith(f".ds-{tenants.alice}-log-")

    @pytest.mark.parametrize(
        "name",
        [
            "{bob}-books",
            "{bob}-b*",
            "{alice}-books,{bob}-books",
            "{alice}-lent",
            "{alice}-len*",
            "<{bob}-{{now/y{{yyyy}}}}>",
            "{bob}-log",
            ".ds-{bob}-log-000001",
            "{alice}-store-threads",
            "{alice}-store-*",
            ".{alice}-hidden",
            ".{alice}-*",
            "agui-gateway-*",
            "nothing-at-all",
            "<nothing-{{now/d}}>",
        ],
    )
    async def test_what_is_not_alice_s_is_not_there(
        self, tenants: Tenants, engine: ClusterSearchEngine, name: str
    ) -> None:
        given = name.format(alice=tenants.alice, bob=tenants.bob)

        said = await refusal(engine, given)

        assert said.endswith("that may be searched; ListIndexTool tells which there are")
        assert said.startswith("there is no index '")

    @pytest.mark.parametrize(
        "name",
        [
            *("far:{bob}-books", "*:{bob}-books", "<far:{bob}-{{now/d}}>", "+{bob}-books", "_cluster"),
            *("", ",", "..", "a/../b", "a b", "a?b", "a%2fb", "a#b", '"a"', "<a"),
        ],
    )
    async def test_what_is_no_name_is_refused_without_a_request(self, tenants: Tenants, name: str) -> None:
        async with tenants.engine("http://127.0.0.1:1") as engine:
            said = await refusal(engine, name.format(bob=tenants.bob))
        assert "another cluster" in said or "is no name of an index" in said

    async def test_hundreds_of_indices_are_searched_at_once(
        self, tenants: Tenants, engine: ClusterSearchEngine
    ) -> None:
        """Their names have no room in a URL, and an alias for each is as good as an index."""
        names = [f"{tenants.alice}-{'x' * 40}-{number}" for number in range(100)]
        actions: Any = [{"add": {"index": tenants.books, "alias": name}} for name in names]
        tenants.ask("POST", "/_aliases", {"actions": actions})
        assert len(hits(await engine.search(f"{tenants.alice}-xxx*", EVERYTHING))) == 2
        removed: Any = [{"remove": {"index": tenants.books, "aliases": names}}]
        tenants.ask("POST", "/_aliases", {"actions": removed})


# --- the roads by which a body reads from another index


def terms(index: str) -> JsonObject:
    return {"query": {"terms": {"word": {"index": index, "id": "1", "path": "words"}}}}


def more_like_this(index: str) -> JsonObject:
    options: JsonObject = {"fields": ["title"], "like": [{"_index": index, "_id": "1"}], "min_term_freq": 1}
    options["min_doc_freq"] = 1
    return {"query": {"more_like_this": options}}


def percolate(index: str) -> JsonObject:
    return {"query": {"percolate": {"field": "asked", "index": index, "id": "1"}}}


def geo_shape(index: str) -> JsonObject:
    shape: JsonObject = {"index": index, "id": "1", "path": "place"}
    return {"query": {"geo_shape": {"place": {"indexed_shape": shape, "relation": "intersects"}}}}


def lookup_of_an_aggregation(index: str) -> JsonObject:
    return {**EVERYTHING, "size": 0, "aggs": {"found": {"filter": terms(index)["query"]}}}


def lookup_of_a_rescore(index: str) -> JsonObject:
    return {**EVERYTHING, "rescore": {"query": {"rescore_query": terms(index)["query"], "rescore_query_weight": 100}}}


def lookup_of_a_filter(index: str) -> JsonObject:
    return {**EVERYTHING, "post_filter": {"bool": {"filter": [terms(index)["query"]]}}}


ROADS: list[Callable[[str], JsonObject]] = [
    terms,
    more_like_this,
    percolate,
    geo_shape,
    lookup_of_an_aggregation,
    lookup_of_a_rescore,
    lookup_of_a_filter,
]


def evidence(response: JsonObject) -> Any:
    """What of an answer depends on the index that the body named."""
    hits, aggregations = response["hits"], response.get("aggregations")
    assert isinstance(hits, dict)
    return hits["total"], hits["max_score"], aggregations


@pytest.mark.parametrize("road", ROADS, ids=lambda road: str(road.__name__))
class TestRoads:
    async def test_are_open_to_alice_s_own_indices(
        self, tenants: Tenants, engine: ClusterSearchEngine, road: Callable[[str], JsonObject]
    ) -> None:
        for name in (tenants.books, f"{tenants.bob}-door", f"<{tenants.alice}-{{now/y{{yyyy}}}}>"):
            body = road(name)
            assert evidence(await engine.search(tenants.books, body)) == evidence(
                tenants.ask("POST", f"/{tenants.books}/_search", body)
            )

    async def test_would_lead_to_bob_s_without_the_gateway(
        self, tenants: Tenants, engine: ClusterSearchEngine, road: Callable[[str], JsonObject]
    ) -> None:
        """Else the next test would prove nothing: a guess about bob's document changes the node's answer."""
        tenants.ask("PUT", f"/{tenants.books}/_doc/guess?refresh=true", document(SECRET, 40))
        own = tenants.ask("POST", f"/{tenants.books}/_search", road(f"{tenants.alice}-papers"))
        bobs = tenants.ask("POST", f"/{tenants.books}/_search", road(tenants.secrets))
        tenants.ask("DELETE", f"/{tenants.books}/_doc/guess?refresh=true")
        assert evidence(own) != evidence(bobs)

    @pytest.mark.parametrize(
        "name",
        [
            "{bob}-books",
            "{alice}-lent",
            "<{bob}-{{now/y{{yyyy}}}}>",
            ".{alice}-hidden",
            "{alice}-store-threads",
            "nothing-at-all",
        ],
    )
    async def test_lead_to_nothing_that_is_not_alice_s(
        self, tenants: Tenants, engine: ClusterSearchEngine, road: Callable[[str], JsonObject], name: str
    ) -> None:
        given = name.format(alice=tenants.alice, bob=tenants.bob)

        said = await refusal(engine, tenants.books, road(given))

        assert said.startswith("there is no index ")

    @pytest.mark.parametrize(
        "name", ["far:{bob}-books", "{bob}-*", "_all", "{alice}-books,{bob}-books", "-{bob}-books"]
    )
    async def test_lead_to_one_index_of_this_cluster(
        self, tenants: Tenants, engine: ClusterSearchEngine, road: Callable[[str], JsonObject], name: str
    ) -> None:
        await refusal(engine, tenants.books, road(name.format(alice=tenants.alice, bob=tenants.bob)))


async def test_boosts_do_not_tell_which_indices_there_are(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    there = await refusal(engine, tenants.books, {**EVERYTHING, "indices_boost": [{tenants.secrets: 2}]})
    not_there = await refusal(engine, tenants.books, {**EVERYTHING, "indices_boost": [{"nothing": 2}]})
    assert there.replace(tenants.secrets, "nothing") == not_there


async def test_a_name_in_a_query_for_names_filters_only(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    body: JsonObject = {"query": {"terms": {"_index": [tenants.secrets, tenants.books]}}}
    assert {index for index, _ in hits(await engine.search("*", body))} == {tenants.books}


# --- an alias that moves


def first_to(path: str, fate: Hold) -> Rule:
    """Hold the first request to that path, and pass the others."""

    def rule(number: int, request: Received) -> Fate:
        return fate if request.target.startswith(path) and not fate.released.is_set() else PASS

    return rule


@pytest.mark.parametrize("road", ["searched", "looked up"])
async def test_an_alias_that_moves_while_it_is_searched_shows_nothing(tenants: Tenants, road: str) -> None:
    alias, hold = f"{tenants.alice}-moving", Hold()
    tenants.point(alias, tenants.books)
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        front_before(tenants.url) as front,
        tenants.engine(front.url) as engine,
    ):
        front.rule = first_to("/_msearch", hold)
        search = engine.search(alias, EVERYTHING) if road == "searched" else engine.search(tenants.books, terms(alias))
        task = asyncio.ensure_future(search)
        await front.received(2 if road == "searched" else 3)
        tenants.point(alias, tenants.secrets)
        hold.release()
        with pytest.raises(ToolError, match="there is no index"):
            await task
    tenants.ask("DELETE", f"/*/_alias/{alias}")


# --- the other requests


async def test_only_alice_s_indices_are_listed(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    rows = await engine.list_indices()
    names = [str(row["index"]) for row in rows]
    assert {tenants.books, f"{tenants.alice}-papers"} <= set(names)
    assert all(name.startswith((f"{tenants.alice}-", f".ds-{tenants.alice}-log-")) for name in names)
    assert not any("store" in name for name in names)
    assert rows[0].keys() >= {"health", "status", "docs.count", "store.size"}
    [row] = await engine.list_indices((tenants.books,))
    assert row["docs.count"] == "2"
    assert [row["index"] for row in await engine.list_indices(("*-books",))] == [tenants.books]
    for name in (tenants.secrets, f"{tenants.alice}-lent", f"{tenants.alice}-store-threads"):
        with pytest.raises(ToolError, match="there is no index"):
            await engine.list_indices((name,))


async def test_only_alice_s_mappings_are_told(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    found: Any = await engine.mapping((f"{tenants.bob}-door", "*-papers"))
    assert list(found) == [tenants.books, f"{tenants.alice}-papers"]
    assert found[tenants.books]["mappings"]["properties"]["word"] == {"type": "keyword"}
    assert found[tenants.books]["settings"]["index"]["number_of_replicas"] == "0"
    for name in (tenants.secrets, f"{tenants.alice}-lent", f".{tenants.alice}-hidden", "_nodes"):
        with pytest.raises(ToolError):
            await engine.mapping((name,))


async def test_the_tool_shows_what_a_search_asked_for(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    clock = SystemClock()
    environment = ToolEnvironment(clock, HttpClients(clock), Path(), engine)
    [tool] = await SEARCH_INDEX.open(ToolSettings("SearchIndexTool"), environment).tools()
    query: JsonObject = {
        "query": {"match": {"title": "stories"}},
        "size": 1,
        "highlight": {"fields": {"title": {}}},
        "fields": ["price"],
        "suggest": {"better": {"text": "storis", "term": {"field": "title"}}},
    }
    context = ToolContext("c", "alice", "t", "r", "a", SharedState(None))
    [block] = await tool.call({"index": tenants.books, "query": query}, context)
    assert isinstance(block, TextBlock)
    hit, suggested = (json.loads(line) for line in block.text.splitlines())
    assert "<em>stories</em>" in hit["highlight"]["title"][0]
    assert hit["fields"] == {"price": [hit["_source"]["price"]]}
    assert suggested["suggest"]["better"][0]["options"][0]["text"] == "stories"


# --- who asks


class TestImpersonation:
    async def test_each_request_has_the_name_of_the_key(self, tenants: Tenants) -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            front_before(tenants.url) as front,
            tenants.engine(front.url, identity="impersonate") as engine,
        ):
            alice = Asker("alice@example.com")
            await engine.search(tenants.books, terms(tenants.books), alice)
            await engine.list_indices((), alice)
            await engine.mapping((tenants.books,), alice)
            with pytest.raises(ToolError, match="opensearch-sql"):
                await engine.ppl(f"source={tenants.books}", None, alice)
        assert len(front.requests) == 10
        assert {_impersonated(front, number) for number in range(10)} == {"alice@example.com"}

    @pytest.mark.parametrize("owner", ["visitor:shop:v1", "local", "", ":gateway"])
    async def test_who_has_no_key_is_refused_without_a_request(self, tenants: Tenants, owner: str) -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            front_before(tenants.url) as front,
            tenants.engine(front.url, identity="impersonate") as engine,
        ):
            with pytest.raises(ToolError, match="this caller has none"):
                await engine.search(tenants.books, EVERYTHING, Asker(owner))
        assert front.requests == []

    async def test_a_service_asks_by_its_own_name(self, tenants: Tenants) -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            front_before(tenants.url) as front,
            tenants.engine(front.url.replace("http://", "http://svc:pass%20word@")) as engine,
        ):
            await engine.search(tenants.books, EVERYTHING, Asker("alice"))
        assert {_impersonated(front, number) for number in range(3)} == {None}
        assert front.requests[0].headers["authorization"] == "Basic c3ZjOnBhc3Mgd29yZA=="


def _impersonated(front: Front, number: int) -> str | None:
    return front.requests[number].headers.get("opendistro_security_impersonate_as")


# --- bounds


async def test_a_search_ends_in_time(tenants: Tenants) -> None:
    hold = Hold()
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        front_before(tenants.url) as front,
        tenants.engine(front.url, timeout_seconds=0.3) as engine,
    ):
        front.rule = first_to("/_msearch", hold)
        assert "within 0.3 seconds; make the search narrower" in await refusal(engine, tenants.books)
        hold.release()
        [head, body] = [json.loads(line) for line in front.requests[1].body.splitlines()]
        assert front.requests[1].target == "/_msearch?cancel_after_time_interval=270ms"
    assert head["allow_partial_search_results"] is False
    assert body == {**EVERYTHING, "timeout": "270ms"}


async def test_the_cluster_says_that_a_search_took_too_long(tenants: Tenants) -> None:
    source = "double x = params.n; for (int i = 0; i < 900000; i++) { x += Math.sin(i) } return x * x"
    scripts: list[JsonObject] = [{"source": source, "params": {"n": n}} for n in range(60)]  # one by one: none is alike
    slow: list[JsonValue] = [{"script_score": {"query": {"match_all": {}}, "script": script}} for script in scripts]
    many: JsonObject = {"query": {"bool": {"should": slow}}}
    async with tenants.engine(scripts=True, timeout_seconds=0.5) as engine:
        said = await refusal(engine, f"{tenants.alice}-*", many)
    assert "make it narrower" in said or "make the search narrower" in said


async def test_a_large_answer_is_not_read(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    large: JsonObject = {**document("stories", 10), "more": "x" * 50_000}
    tenants.ask("PUT", f"/{tenants.alice}-large/_doc/1?refresh=true", large)
    async with tenants.engine(max_response_bytes=10_000) as bounded:
        assert "more than 10000 bytes; ask for less" in await refusal(bounded, f"{tenants.alice}-large")
        assert hits(await bounded.search(f"{tenants.alice}-large", {**EVERYTHING, "_source": ["word"]}))
    tenants.ask("DELETE", f"/{tenants.alice}-large")


async def test_a_cluster_that_is_away_is_not_named(tenants: Tenants) -> None:
    async with tenants.engine("http://127.0.0.1:1", timeout_seconds=0.3) as engine:
        assert (
            await refusal(engine, "a")
            == "the cluster gave no answer within 0.3 seconds; make the search narrower, or try later"
        )


async def test_scripts_run_where_they_are_allowed(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    script: JsonObject = {"source": "doc['price'].value * params.two", "params": {"two": 2}}
    body: JsonObject = {**EVERYTHING, "script_fields": {"double": {"script": script}}}
    assert "scripts are turned off" in await refusal(engine, tenants.books, body)
    async with tenants.engine(scripts=True) as allowing:
        response: Any = await allowing.search(tenants.books, body)
    assert sorted(hit["fields"]["double"] for hit in response["hits"]["hits"]) == [[20], [22]]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"match": {"title": {"quer": 1}}}, "[match] query does not support [quer]"),
        ({"range": {"price": {"gt": "abc"}}}, "failed to create query"),
        ({"neural": {"v": {"query_text": "a", "model_id": "m"}}}, "its plugin 'neural-search' is not installed"),
        ({"neural_sparse": {"v": {"query_text": "a", "model_id": "m"}}}, "its plugin 'neural-search' is not installed"),
        ({"hybrid": {"queries": []}}, "its plugin 'neural-search' is not installed"),
        ({"knn": {"v": {"vector": [1], "k": 1}}}, "its plugin 'opensearch-knn' is not installed"),
        ({"nested": {"path": "none", "query": {"match_all": {}}}}, "failed to find nested object under path [none]"),
    ],
)
async def test_a_refusal_says_what_to_mend(
    tenants: Tenants, engine: ClusterSearchEngine, query: JsonObject, said: str
) -> None:
    told = await refusal(engine, tenants.books, {"query": query})
    assert said in told
    assert "xception" not in told
    assert "org." not in told


@pytest.mark.parametrize("value", [2**70, "a\ud800"])
async def test_what_no_json_can_have_is_refused(tenants: Tenants, engine: ClusterSearchEngine, value: Any) -> None:
    assert "no Unicode" in await refusal(engine, tenants.books, {"query": {"term": {"price": value}}})
    with pytest.raises(ToolError, match="is no name of an index"):
        await engine.search("a\ud800", EVERYTHING)
    with pytest.raises(ToolError, match="no Unicode"):
        await engine.ppl("source = books | where a = 'a\ud800'")


async def test_ppl_needs_a_plugin(tenants: Tenants, engine: ClusterSearchEngine) -> None:
    with pytest.raises(ToolError, match="its plugin 'opensearch-sql' is not installed"):
        await engine.ppl(f"source = {tenants.books} | head 3")
    with pytest.raises(ToolError, match="there is no index"):
        await engine.ppl(f"source = {tenants.secrets} | head 3")
    with pytest.raises(ToolError, match="has to be 'other'"):
        await engine.ppl(f"source = {tenants.books}", "other")
