"""What memory containers hold, over HTTP: sessions, data, long-term memory and its history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import MlGateway, ml_gateway

KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


async def new_container(ml: MlGateway, configuration: dict[str, Any] | None = None, **more: Any) -> str:
    """The path of a new container's memories."""
    body = {"name": "n", "configuration": configuration or {}}
    status, made = await ml.call("POST", "/memory_containers/_create", body, **more)
    assert status == 200, made
    return f"/memory_containers/{made['memory_container_id']}/memories"


async def found_ids(ml: MlGateway, path: str, query: dict[str, Any], **more: Any) -> list[str]:
    status, found = await ml.call("POST", f"{path}/_search", {"query": query}, **more)
    assert status == 200, found
    return [hit["_id"] for hit in found["hits"]["hits"]]


async def test_k5_a_session_is_made_and_pinned(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        body = {"summary": "Plans for June", "metadata": {"a": 1}, "namespace": {"user_id": "u1"}}
        status, made = await ml.call("POST", f"{memories}/sessions", body)
        assert (status, made["status"]) == (200, "created")
        path = f"{memories}/sessions/{made['session_id']}"
        _, session = await ml.call("GET", path)
        assert session["summary"] == "Plans for June"
        assert session["namespace"] == {"user_id": "u1"}
        assert session["memory_container_id"] in memories
        assert session["pinned"] is False
        status, changed = await ml.call("PUT", path, {"pinned": True, "unknown": 1})
        assert (status, changed["result"]) == (200, "updated")
        _, pinned = await ml.call("GET", path)
    assert pinned == {**session, "pinned": True}, "pinning is no change of what the session says"


@pytest.mark.parametrize(
    ("memory_type", "body"),
    [
        ("sessions", {"summary": "s", "metadata": {"a": {"b": 1, "c": 2}, "d": 3}}),
        ("working", {"structured_data": {"a": {"b": 1, "c": 2}, "d": 3}}),
    ],
)
async def test_a_change_is_merged_and_null_removes_a_member(
    tmp_path: Path, memory_type: str, body: dict[str, Any]
) -> None:
    name = next(name for name in body if name != "summary")
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        _, made = await ml.call("POST", f"{memories}/sessions" if memory_type == "sessions" else memories, body)
        path = f"{memories}/{memory_type}/{made.get('session_id') or made['working_memory_id']}"
        for change in ({name: {"a": {"b": None, "e": 4}}}, {name: {"d": None}}):
            assert (await ml.call("PUT", path, change))[0] == 200
        _, shown = await ml.call("GET", path)
        assert shown[name] == {"a": {"c": 2, "e": 4}}
        assert (await ml.call("PUT", path, {name: None}))[0] == 200
        assert name not in (await ml.call("GET", path))[1]


async def test_a_long_term_memory_keeps_its_text(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        _, made = await ml.call("POST", f"{memories}/long-term", {"memory": "tea", "tags": {"a": "1", "b": "2"}})
        path = f"{memories}/long-term/{made['memory_id']}"
        status, answer = await ml.call("PUT", path, {"memory": None})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/memory")
        assert (await ml.call("PUT", path, {"tags": {"a": None}}))[0] == 200
        assert (await ml.call("GET", path))[1]["tags"] == {"b": "2"}


async def test_a_session_is_a_thread_and_both_go_together(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        for session_id in ("s1", "s2"):
            body = {"session_id": session_id, "summary": f"About {session_id}"}
            assert (await ml.call("POST", f"{memories}/sessions", body))[0] == 200
            data = {"structured_data": {"x": session_id}, "namespace": {"session_id": session_id}}
            assert (await ml.call("POST", memories, data))[0] == 200
        threads = await ml.gateway.client.get("/threads")
        assert {(each["id"], each["title"]) for each in threads["threads"]} == {("s1", "About s1"), ("s2", "About s2")}

        status, gone = await ml.call("DELETE", f"{memories}/sessions/s1")
        assert (status, gone["result"]) == (200, "deleted")
        assert (await ml.http.delete("/threads/s2")).status_code == 204

        assert (await ml.gateway.client.get("/threads"))["threads"] == []
        for memory_type in ("sessions", "working"):
            assert await found_ids(ml, f"{memories}/{memory_type}", {"match_all": {}}) == []
        assert (await ml.call("GET", f"{memories}/sessions/s2"))[0] == 404


async def test_a_thread_that_there_is_becomes_a_session_once(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories, others = await new_container(ml), await new_container(ml)
        await ml.gateway.client.run("configured", {"threadId": "t", "runId": "r", "messages": [], "tools": []})
        status, made = await ml.call("POST", f"{memories}/sessions", {"session_id": "t"})
        assert (status, made["session_id"]) == (200, "t")
        again = {"session_id": "t", "summary": "other"}
        status, answer = await ml.call("POST", f"{memories}/sessions", again)
        assert (status, answer) == (200, {"session_id": "t", "status": "exists"})
        assert "summary" not in (await ml.call("GET", f"{memories}/sessions/t"))[1], "it stays as it is"
        data = {"structured_data": {}, "namespace": {"session_id": "t"}}
        for path, body in ((f"{others}/sessions", again), (others, data)):
            status, answer = await ml.call("POST", path, body)
            assert (status, answer["error"]["reason"].split(";")[0]) == (
                409,
                "the session 't' belongs to another memory container",
            )


async def test_data_is_kept_as_it_was_given_and_searched(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        body = {
            "payload_type": "data",
            "structured_data": {"city": "Oslo", "size": 3},
            "structured_data_blob": {"message": "any", "deep": [1, {"a": None}]},
            "binary_data": "aGk=",
            "namespace": {"user_id": "u1", "number": 7},
            "metadata": {"source": "form"},
            "tags": {"topic": "travel"},
            "checkpoint_id": "c1",
        }
        status, made = await ml.call("POST", memories, body)
        assert status == 200
        assert made.keys() == {"working_memory_id"}
        path = f"{memories}/working/{made['working_memory_id']}"
        _, seen = await ml.call("GET", path)
        for name in ("payload_type", "structured_data", "structured_data_blob", "binary_data", "metadata", "tags"):
            assert seen[name] == body[name]
        assert seen["namespace"] == {"user_id": "u1", "number": "7"}
        assert (seen["namespace_size"], seen["infer"]) == (2, False)
        for query in (
            {"term": {"structured_data.city": "Oslo"}},
            {"term": {"namespace.user_id": "u1"}},
            {"bool": {"filter": [{"term": {"tags.topic": "travel"}}, {"range": {"created_time": {"gte": 0}}}]}},
        ):
            assert await found_ids(ml, f"{memories}/working", query) == [made["working_memory_id"]]
        assert await found_ids(ml, f"{memories}/working", {"term": {"tags.topic": "food"}}) == []

        status, _ = await ml.call("PUT", path, {"tags": {"topic": "food"}, "payload_type": "x", "messages": []})
        assert status == 200
        _, changed = await ml.call("GET", path)
        assert changed == {**seen, "tags": {"topic": "food"}}
        assert (await ml.call("DELETE", path))[0] == 200
        status, missing = await ml.call("GET", path)
        assert (status, missing["error"]["reason"]) == (404, "Memory not found")


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ({"infer": True}, "/infer", "No messages provided when inferring memory"),
        ({"payload_type": "other"}, "/payload_type", "Invalid payload type: other"),
        ({"structured_data": {}, "pinned": True}, "/pinned", "pinned field is not supported for working memory type."),
        ({"structured_data": "x"}, "/structured_data", "structured_data must be an object, not a string"),
        ({"structured_data": {}, "namespace": 3}, "/namespace", "namespace must be an object, not a number"),
    ],
)
async def test_k7_wrong_working_memory_is_refused_by_field(
    tmp_path: Path, body: dict[str, Any], field: str, reason: str
) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, answer = await ml.call("POST", await new_container(ml), body)
    assert status == 400
    assert answer["error"]["reason"].startswith(reason)
    assert [each["field"] for each in answer["error"]["fields"]] == [field]


async def test_inferring_memory_of_messages_says_what_is_missing(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        message = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
        status, answer = await ml.call("POST", await new_container(ml), {"messages": [message], "infer": True})
    assert status == 400
    assert answer["error"]["reason"].startswith("infer=true requires llm_model_id to be configured in memory storage")


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        (
            "hybrid",
            {"query": "x", "bm25_weight": 0.7, "neural_weight": 0.7},
            "bm25_weight and neural_weight must sum to 1.0, got 1.4",
        ),
        ("semantic", {"query": "x", "k": 0}, "k must be between 1 and 10000"),
        ("semantic", {"query": " "}, "query cannot be null or blank"),
        ("hybrid", {"query": "x"}, "Hybrid search needs an embedding model"),
        ("semantic", {"query": "x", "k": 3}, "Semantic search needs an embedding model"),
    ],
)
async def test_k10_searches_by_vectors_say_what_is_wrong_then_what_is_missing(
    tmp_path: Path, kind: str, body: dict[str, Any], reason: str
) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        status, answer = await ml.call("POST", f"{memories}/long-term/_{kind}_search", body)
    assert status == 400
    assert answer["error"]["reason"].startswith(reason)


async def test_long_term_memories_are_written_searched_and_their_changes_recorded(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        ids = []
        for text in ("She likes Chinese food", "He lives in Oslo"):
            body = {"memory": text, "namespace": {"user_id": "u1"}, "tags": {"a": "b"}}
            status, made = await ml.call("POST", f"{memories}/long-term", body)
            assert (status, made["status"]) == (200, "created")
            ids.append(made["memory_id"])
        assert await found_ids(ml, f"{memories}/long-term", {"match": {"memory": "food"}}) == [ids[0]]

        path = f"{memories}/long-term/{ids[0]}"
        assert (await ml.call("PUT", path, {"memory": "She likes no Chinese food now"}))[0] == 200
        assert (await ml.call("PUT", path, {"pinned": True}))[0] == 200
        assert (await ml.call("DELETE", path))[0] == 200

        asked = {"query": {"term": {"memory_id": ids[0]}}, "sort": ["created_time", "_doc"]}
        _, found = await ml.call("GET", f"{memories}/history/_search", asked)
        history = [hit["_source"] for hit in found["hits"]["hits"]]
        said = [(each["action"], each["before"].get("memory"), each["after"].get("memory")) for each in history]
        assert said == [
            ("ADD", None, "She likes Chinese food"),
            ("UPDATE", "She likes Chinese food", "She likes no Chinese food now"),
            ("DELETE", "She likes no Chinese food now", None),
        ]
        assert await found_ids(ml, f"{memories}/history", {"match": {"after.memory": "Oslo"}}) != []
        status, answer = await ml.call("PUT", f"{memories}/history/{found['hits']['hits'][0]['_id']}", {"tags": {}})
    assert (status, answer["error"]["reason"]) == (404, "Can't update memory history")


async def test_a_container_without_history_records_nothing_but_what_clients_write(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml, {"disable_history": True})
        assert (await ml.call("POST", f"{memories}/long-term", {"memory": "m"}))[0] == 200
        assert await found_ids(ml, f"{memories}/history", {"match_all": {}}) == []
        record = {"action": "UPDATE", "memory_id": "m1", "before": {"memory": "a"}, "after": {"memory": "b"}}
        status, made = await ml.call("POST", f"{memories}/history", record)
        assert status == 200
        _, seen = await ml.call("GET", f"{memories}/history/{made['memory_id']}")
        assert {name: seen[name] for name in record} == record
        status, answer = await ml.call("POST", f"{memories}/history", {"action": "MOVE"})
        assert (status, answer["error"]["reason"]) == (400, "action must be one of ADD, UPDATE, DELETE")
        status, answer = await ml.call("POST", f"{memories}/long-term", {"tags": {}})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/memory")


async def test_what_a_query_finds_is_deleted(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories, others = await new_container(ml), await new_container(ml)
        for path in (memories, others):
            for number in range(4):
                body = {"memory": f"note {number}", "tags": {"kind": "odd" if number % 2 else "even"}}
                assert (await ml.call("POST", f"{path}/long-term", body))[0] == 200
        status, answer = await ml.call(
            "POST", f"{memories}/long-term/_delete_by_query", {"query": {"term": {"tags.kind": "odd"}}}
        )
        assert (status, answer["total"], answer["deleted"], answer["updated"], answer["failures"]) == (200, 2, 2, 0, [])
        for path, left in ((memories, 2), (others, 4)):
            assert len(await found_ids(ml, f"{path}/long-term", {"match_all": {}})) == left
        status, answer = await ml.call("POST", f"{memories}/long-term/_delete_by_query", {})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/query")


@pytest.mark.parametrize(
    ("query", "body", "left"),
    [
        ("", None, {"working", "long-term", "history"}),
        ("?delete_all_memories=true", None, set()),
        ("?delete_memories=long-term,history", None, {"working"}),
        ("", {"delete_memories": ["sessions"]}, {"long-term", "history"}),
        ("?delete_memories=working", {"delete_all_memories": False}, {"long-term", "history"}),
    ],
)
async def test_a_container_takes_the_memories_with_it_that_are_named(
    tmp_path: Path, query: str, body: dict[str, Any] | None, left: set[str]
) -> None:
    """And its sessions, whose threads stay where they are not named."""
    async with ml_gateway(tmp_path) as ml:
        container = {"name": "n", "memory_container_id": "c"}
        memories = "/memory_containers/c/memories"
        await ml.call("POST", "/memory_containers/_create", container)
        assert (await ml.call("POST", f"{memories}/sessions", {"session_id": "s"}))[0] == 200
        assert (await ml.call("POST", memories, {"structured_data": {}, "namespace": {"session_id": "s"}}))[0] == 200
        assert (await ml.call("POST", f"{memories}/long-term", {"memory": "m"}))[0] == 200
        status, answer = await ml.call("DELETE", f"/memory_containers/c{query}", body)
        assert status == 200, answer
        assert (await ml.call("GET", f"{memories}/sessions/s"))[0] == 404, "no container, no memories"
        assert (await ml.call("POST", "/memory_containers/_create", container))[0] == 200
        types = ("sessions", "working", "long-term", "history")
        kept = {each for each in types if await found_ids(ml, f"{memories}/{each}", {"match_all": {}})}
    assert kept == left


async def test_a_container_is_not_deleted_with_memories_of_an_unknown_type(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        container = memories.removesuffix("/memories")
        status, answer = await ml.call("DELETE", f"{container}?delete_memories=bogus")
        assert (status, answer["error"]["reason"].split(".")[0]) == (400, "Invalid memory type: bogus")
        assert (await ml.call("GET", container))[0] == 200
        status, answer = await ml.call("GET", f"{memories}/bogus/x")
        assert (status, answer["error"]["reason"].split(".")[0]) == (400, "Invalid memory type: bogus")


async def test_memories_of_others_are_unknown_and_change_no_score(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        mine, theirs = await new_container(ml, **as_("alice")), await new_container(ml, **as_("bob"))
        _, made = await ml.call("POST", f"{mine}/long-term", {"memory": "blue bicycle"}, **as_("alice"))
        search = {"query": {"match": {"memory": "bicycle"}}}
        _, before = await ml.call("POST", f"{mine}/long-term/_search", search, **as_("alice"))
        for _ in range(3):
            await ml.call("POST", f"{theirs}/long-term", {"memory": "red bicycle"}, **as_("bob"))
        _, after = await ml.call("POST", f"{mine}/long-term/_search", search, **as_("alice"))
        assert before["hits"] == after["hits"]
        for path in (f"{mine}/long-term/{made['memory_id']}", f"{theirs}/long-term/{made['memory_id']}"):
            for method, body in (("GET", None), ("PUT", {"memory": "x"}), ("DELETE", None)):
                assert (await ml.call(method, path, body, **as_("bob")))[0] == 404
        for path in ("/long-term", "/sessions", "/history", ""):
            assert (await ml.call("POST", f"{mine}{path}", {"memory": "x"}, **as_("bob")))[0] == 404
        assert (await ml.call("POST", f"{mine}/long-term/_search", {}, **as_("bob")))[0] == 404


async def test_opensearchs_client_works_with_a_container(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        ask = ml.opensearch.transport.perform_request
        base = "/_plugins/_ml/memory_containers"
        made = await ask("POST", f"{base}/_create", body={"name": "n"})
        memories = f"{base}/{made['memory_container_id']}/memories"
        session = await ask("POST", f"{memories}/sessions", body={"summary": "s"})
        assert (await ask("GET", f"{memories}/sessions/{session['session_id']}"))["summary"] == "s"
        found = await ask("GET", f"{memories}/sessions/_search", body={"query": {"match": {"summary": "s"}}})
        assert found["hits"]["hits"][0]["_index"] == ".plugins-ml-am-default-memory-sessions"
        assert (await ask("DELETE", f"{base}/{made['memory_container_id']}"))["result"] == "deleted"


async def test_each_write_counts_as_one_run_of_the_caller(tmp_path: Path) -> None:
    key = {"name": "alice", "key": "alice-key-0123456789", "limits": {"runs_per_minute": 4}}
    async with ml_gateway(tmp_path, server={"api_keys": [key]}) as ml:
        memories = await new_container(ml, **as_("alice"))
        writes: list[tuple[str, dict[str, Any]]] = [
            ("/sessions", {"session_id": "s"}),
            ("/long-term", {"memory": "m"}),
            ("", {"messages": [{"role": "user", "content": "hi"}]}),
        ]
        for path, body in writes:
            assert (await ml.call("POST", f"{memories}{path}", body, **as_("alice")))[0] == 200
        status, answer = await ml.call("POST", f"{memories}/long-term", {"memory": "m"}, **as_("alice"))
        assert (status, answer["status"]) == (429, 429)
        for memory_type in ("sessions", "long-term", "history"):
            found = await found_ids(ml, f"{memories}/{memory_type}", {"match_all": {}}, **as_("alice"))
            assert len(found) == (2 if memory_type == "sessions" else 1)


# --- sessions and their containers


async def in_container(ml: MlGateway, container_id: str, session_id: str, text: str) -> tuple[int, Any]:
    """Post a message to a session of a container, which is made where there is none."""
    await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": container_id})
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    body = {"payload_type": "conversational", "messages": [message], "namespace": {"session_id": session_id}}
    return await ml.call("POST", f"/memory_containers/{container_id}/memories", body)


@pytest.mark.parametrize("later", ["c", "d"])
async def test_a_session_of_a_deleted_container_is_free_once_its_thread_is_gone(tmp_path: Path, later: str) -> None:
    """Also for a container that has the deleted one's id."""
    async with ml_gateway(tmp_path) as ml:
        assert (await in_container(ml, "c", "s", "before"))[0] == 200
        status, answer = await in_container(ml, "e", "s", "beside")
        assert (status, "belongs to another memory container" in answer["error"]["reason"]) == (409, True)
        assert (await ml.call("DELETE", "/memory_containers/c"))[0] == 200
        assert (await ml.call("GET", "/memory/s"))[0] == 200, "the thread stays"
        status, answer = await in_container(ml, later, "s", "after")
        assert (status, "DELETE /_plugins/_ml/memory/s" in answer["error"]["reason"]) == (409, True)
        for kind in ("sessions", "working"):
            assert await found_ids(ml, f"/memory_containers/{later}/memories/{kind}", {"match_all": {}}) == []
        assert (await ml.call("DELETE", "/memory/s"))[0] == 200
        assert (await in_container(ml, later, "s", "after"))[0] == 200
        _, found = await ml.call("POST", f"/memory_containers/{later}/memories/working/_search", {})
        assert [hit["_source"]["messages"][0]["content"][0]["text"] for hit in found["hits"]["hits"]] == ["after"]


async def test_a_container_with_many_sessions_leaves_all_of_their_threads(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        for number in range(5):
            await in_container(ml, "c", f"s{number}", "hello")
        assert (await ml.call("DELETE", "/memory_containers/c"))[0] == 200
        await ml.call("POST", "/memory_containers/_create", {"name": "n", "memory_container_id": "c"})
        for kind in ("sessions", "working"):
            assert await found_ids(ml, f"/memory_containers/c/memories/{kind}", {"match_all": {}}) == []
        _, listed = await ml.call("GET", "/memory")
        assert {each["memory_id"] for each in listed["memories"]} == {f"s{number}" for number in range(5)}


async def test_a_container_without_sessions_shows_none(tmp_path: Path) -> None:
    """`disable_session`: messages are kept in threads, as ever."""
    async with ml_gateway(tmp_path) as ml:
        body = {"name": "n", "memory_container_id": "c", "configuration": {"disable_session": True}}
        assert (await ml.call("POST", "/memory_containers/_create", body))[0] == 200
        memories = "/memory_containers/c/memories"
        message = {"role": "user", "content": [{"type": "text", "text": "hello"}]}
        status, answer = await ml.call("POST", memories, {"messages": [message]})
        assert (status, set(answer)) == (200, {"working_memory_id", "working_memory_ids"})
        status, answer = await in_container(ml, "c", "s", "again")
        assert (status, answer["session_id"]) == (200, "s")
        status, answer = await ml.call("POST", f"{memories}/sessions", {"session_id": "t"})
        assert (status, "disable_session" in answer["error"]["reason"]) == (400, True)
        assert await found_ids(ml, f"{memories}/sessions", {"match_all": {}}) == []
        assert (await ml.call("GET", f"{memories}/sessions/s"))[0] == 404
        assert len(await found_ids(ml, f"{memories}/working", {"match_all": {}})) == 2


MESSAGE: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "x"}]}


@pytest.mark.parametrize("sent", [{"structured_data": {"a": 1}}, {"messages": [MESSAGE]}])
async def test_working_memory_is_not_pinned(tmp_path: Path, sent: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        status, answer = await ml.call("POST", memories, {**sent, "pinned": True})
        assert (status, "pin the session" in answer["error"]["reason"]) == (400, True)
        _, made = await ml.call("POST", memories, sent)
        one = f"{memories}/working/{made['working_memory_id']}"
        status, answer = await ml.call("PUT", one, {"pinned": True, "tags": {"a": "b"}})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/pinned")
        assert "tags" not in (await ml.call("GET", one))[1]
