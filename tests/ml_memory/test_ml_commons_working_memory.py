"""Working memory that is messages: a view of its session's thread, whoever spoke on it."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.movable_clock import MovableClock
from tests.openai_chat_server import ChatServer, chat_server, completion
from tests.running_gateway import run_body

PIXEL = "iVBORw0KGgo="
KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


async def new_container(ml: MlGateway, container_id: str = "c", **more: Any) -> str:
    body = {"name": "n", "memory_container_id": container_id}
    status, made = await ml.call("POST", "/memory_containers/_create", body, **more)
    assert status == 200, made
    return f"/memory_containers/{container_id}/memories"


def said(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text} for text in texts]}


async def post(ml: MlGateway, memories: str, *messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"payload_type": "conversational", "messages": list(messages), **more}
    status, made = await ml.call("POST", memories, body)
    assert status == 200, made
    answer: dict[str, Any] = made
    return answer


async def found(ml: MlGateway, memories: str, query: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """What a search of the working memory finds, by the messages' numbers."""
    body = {"query": query, "sort": ["message_id"], **more}
    status, answer = await ml.call("POST", f"{memories}/working/_search", body)
    assert status == 200, answer
    hits: list[dict[str, Any]] = answer["hits"]["hits"]
    return hits


async def numbered_words(ml: MlGateway, memories: str, query: dict[str, Any]) -> list[tuple[int, str]]:
    hits = [hit["_source"] for hit in await found(ml, memories, query)]
    return [(each["message_id"], each["structured_data_blob"]["message"]["content"][0]["text"]) for each in hits]


def agent_of(models: ChatServer) -> dict[str, Any]:
    return {
        "name": "a",
        "type": "conversational_v2",
        "model": {
            "model_id": "m",
            "model_provider": "openai/v1/chat/completions",
            "endpoint": models.endpoint,
            "credential": {"openai_api_key": "sk-test"},
        },
        "tools": [],
        "memory": {"type": "agentic_memory", "memory_container_id": "c"},
    }


async def agentic_agent(ml: MlGateway, models: ChatServer) -> str:
    return await ml.register(agent_of(models))


async def execute(ml: MlGateway, agent_id: str, text: str, memory_id: str) -> None:
    body = {"input": text, "parameters": {"memory_id": memory_id}}
    status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", body)
    assert (status, answer.get("memory_id")) == (200, memory_id), answer


async def test_posted_messages_are_the_sessions_thread_and_its_documents(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        more = {"namespace": {"user_id": "u1", "session_id": "s"}, "tags": {"topic": "food"}, "metadata": {"k": "v"}}
        made = await post(ml, memories, said("user", "I like pasta"), said("assistant", "Noted"), **more)
        assert made["session_id"] == "s"
        assert made["working_memory_id"] == made["working_memory_ids"][0]
        assert len(made["working_memory_id"]) == 20
        page = await ml.gateway.client.get("/threads/s/messages")
        assert [(each["role"], each["content"]) for each in page["messages"]] == [
            ("user", "I like pasta"),
            ("assistant", "Noted"),
        ]
        _, first = await ml.call("GET", f"{memories}/working/{made['working_memory_id']}")
        times = first.pop("created_time"), first.pop("last_updated_time")
        assert times[0] == times[1]
        assert first == {
            "owner_id": "local",
            "memory_container_id": "c",
            "payload_type": "conversational",
            "message_id": 0,
            "infer": False,
            "namespace": {"user_id": "u1", "session_id": "s"},
            "namespace_size": 2,
            "session_id": "s",
            "metadata": {"k": "v", "type": "structured_message", "role": "user", "input_type": "TEXT"},
            "tags": {"topic": "food"},
            "messages": [said("user", "I like pasta")],
            "structured_data_blob": {
                "message": {"role": "user", "content": [{"type": "TEXT", "text": "I like pasta"}]}
            },
        }
        _, session = await ml.call("GET", f"{memories}/sessions/s")
    assert (session["summary"], session["namespace"]) == ("I like pasta", {"user_id": "u1"})
    assert session["pinned"] is False


async def test_messages_without_a_session_begin_one_and_later_ones_go_on(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        made = await post(ml, memories, said("user", "one"))
        assert len(made["session_id"]) == 20
        again = await post(ml, memories, said("assistant", "two"), namespace={"session_id": made["session_id"]})
        assert again["session_id"] == made["session_id"]
        assert await numbered_words(ml, memories, {"term": {"session_id": made["session_id"]}}) == [
            (0, "one"),
            (1, "two"),
        ]


async def test_a_message_as_agents_memory_has_it_is_a_message(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        image = {"type": "IMAGE", "image": {"type": "BASE64", "format": "png", "data": PIXEL}}
        message = {"role": "user", "content": [{"type": "TEXT", "text": "see"}, image]}
        body = {"payload_type": "conversational", "structured_data_blob": {"message": message}}
        status, made = await ml.call("POST", memories, body)
        assert status == 200, made
        _, seen = await ml.call("GET", f"{memories}/working/{made['working_memory_id']}")
        assert seen["structured_data_blob"] == {"message": message}
        assert seen["metadata"]["input_type"] == "CONTENT_BLOCKS"


async def test_what_is_said_on_the_thread_is_found_with_its_tools_and_whoever_said_it(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
        result = {**said("tool", "the pasta is fresh"), "toolCallId": "c1"}
        made = await post(
            ml, memories, said("user", "pasta?"), {"role": "assistant", "content": [], "toolCalls": [call]}, result
        )
        agent_id, session = await agentic_agent(ml, models), made["session_id"]
        models.answers(completion("Fresh pasta it is"))
        await execute(ml, agent_id, "so?", session)
        roles = [each["role"] for each in models.requests[0].json["messages"]]
        assert roles[-4:] == ["user", "assistant", "tool", "user"], "the agent reads what was posted"

        hits = await found(ml, memories, {"match": {"text": "pasta"}})
        assert [hit["_source"]["metadata"]["role"] for hit in hits] == ["user", "tool", "assistant"]
        assert hits[-1]["_source"]["namespace"]["session_id"] == session
        (called,) = [hit["_source"] for hit in await found(ml, memories, {"term": {"message_id": 1}})]
        assert called["structured_data_blob"]["message"]["toolCalls"] == [call]
        assert called["metadata"]["input_type"] == "MESSAGES"
        (answered,) = [hit["_source"] for hit in await found(ml, memories, {"term": {"message_id": 2}})]
        assert answered["structured_data_blob"]["message"]["toolCallId"] == "c1"


@pytest.mark.parametrize("way", ["ag_ui", "execute"])
async def test_a_thread_that_an_agent_of_the_container_begins_is_a_session(tmp_path: Path, way: str) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        agent_id = await agentic_agent(ml, models)
        models.answers(completion("Blue, then"))
        if way == "ag_ui":
            session = "t9"
            await ml.gateway.client.run(agent_id, run_body("my colour is blue", thread_id=session))
        else:
            status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": "my colour is blue"})
            assert status == 200, answer
            session = answer["memory_id"]
        status, seen = await ml.call("GET", f"{memories}/sessions/{session}")
        assert status == 200, seen
        assert (seen["summary"], seen["namespace"]) == ("my colour is blue", {"agent_id": agent_id})
        hits = await found(ml, memories, {"match": {"text": "blue"}})
        assert [hit["_source"]["namespace"] for hit in hits] == [{"agent_id": agent_id, "session_id": session}] * 2
        assert await numbered_words(ml, memories, {"match_all": {}}) == [(0, "my colour is blue"), (1, "Blue, then")]


async def test_searches_give_the_fields_that_they_ask_for(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        await post(ml, memories, said("user", "hi"), tags={"a": "b"}, namespace={"user_id": "u1"})
        everything: dict[str, Any] = {"match_all": {}}
        (hit,) = await found(ml, memories, everything, _source=["tags", "structured_data_blob.message.role"])
        assert hit["_source"] == {"tags": {"a": "b"}, "structured_data_blob": {"message": {"role": "user"}}}
        (hit,) = await found(ml, memories, everything, _source=False)
        assert "_source" not in hit
        (hit,) = await found(ml, memories, everything)
        assert hit["_source"].keys().isdisjoint({"text", "message"})
        queries: list[dict[str, Any]] = [
            {"term": {"tags.a": "b"}},
            {"term": {"namespace.user_id": "u1"}},
            {"range": {"message_id": {"lt": 1}}},
        ]
        for query in queries:
            assert len(await found(ml, memories, query)) == 1
        status, answer = await ml.call("POST", f"{memories}/working/_search", {"_source": 3})
        assert (status, answer["error"]["type"]) == (400, "illegal_argument_exception")
        counted = {"size": 0, "aggs": {"roles": {"terms": {"field": "metadata.role"}}}}
        status, answer = await ml.call("POST", f"{memories}/working/_search", counted)
        assert answer["aggregations"]["roles"]["buckets"] == [{"key": "user", "doc_count": 1}]


async def test_tags_and_words_of_a_message_are_changed_on_its_thread(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        agent_id = await agentic_agent(ml, models)
        made = await post(ml, memories, said("user", "I like pasta"), namespace={"session_id": "s"})
        models.answers(completion("I see"))
        await execute(ml, agent_id, "hm", "s")
        path = f"{memories}/working/{made['working_memory_id']}"
        status, answer = await ml.call("PUT", path, {"tags": {"x": "y"}, "metadata": {"k": "v"}})
        assert (status, answer["result"]) == (200, "updated")
        status, _ = await ml.call("PUT", path, {"messages": [said("user", "I like rice")]})
        assert status == 200
        _, seen = await ml.call("GET", path)
        assert (seen["tags"], seen["metadata"]["k"]) == ({"x": "y"}, "v")
        assert seen["messages"] == [said("user", "I like rice")]
        assert await numbered_words(ml, memories, {"match": {"text": "rice pasta"}}) == [(0, "I like rice")]
        page = await ml.gateway.client.get("/threads/s/messages")
        assert [each["content"] for each in page["messages"]] == ["I like rice", "hm", "I see"]

        (answered,) = await found(ml, memories, {"match": {"text": "see"}})
        status, answer = await ml.call(
            "PUT", f"{memories}/working/{answered['_id']}", {"messages": [said("assistant", "I saw")]}
        )
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/messages/0")
        for body, field in (
            ({"structured_data": {}}, "/structured_data"),
            ({"messages": []}, "/messages"),
            ({"messages": [said("assistant", "x")]}, "/messages/0"),
            ({"structured_data_blob": {"message": {"role": "user"}}}, "/structured_data_blob/message"),
            ({"tags": 3}, "/tags"),
        ):
            status, answer = await ml.call("PUT", path, body)
            assert (status, answer["error"]["fields"][0]["field"]) == (400, field)


async def test_a_deleted_message_is_gone_from_its_thread_with_the_results_of_its_calls(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        made = await post(
            ml,
            memories,
            said("user", "first"),
            {"role": "assistant", "content": [], "toolCalls": [call]},
            {**said("tool", "seen"), "toolCallId": "c1"},
            said("user", "last"),
        )
        status, answer = await ml.call("DELETE", f"{memories}/working/{made['working_memory_ids'][1]}")
        assert (status, answer["result"]) == (200, "deleted")
        page = await ml.gateway.client.get(f"/threads/{made['session_id']}/messages")
        assert [each["content"] for each in page["messages"]] == ["first", "last"]
        assert (await ml.gateway.client.get(f"/threads/{made['session_id']}/versions"))["versions"][-1]["version"] == 1
        assert await numbered_words(ml, memories, {"match_all": {}}) == [(0, "first"), (1, "last")]
        status, answer = await ml.call(
            "POST", f"{memories}/working/_delete_by_query", {"query": {"match": {"text": "first"}}}
        )
        assert (status, answer["deleted"]) == (200, 1)
        assert await numbered_words(ml, memories, {"match_all": {}}) == [(0, "last")]
        assert (await ml.call("DELETE", f"{memories}/sessions/{made['session_id']}"))[0] == 200
        assert await found(ml, memories, {"match_all": {}}) == []


async def test_long_messages_are_kept_and_found_by_their_beginning(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        text = " ".join(f"w{number}" for number in range(40_000))
        made = await post(ml, memories, said("user", text))
        (hit,) = await found(ml, memories, {"match": {"text": "w7"}})
        assert hit["_id"] == made["working_memory_id"]
        assert hit["_source"]["messages"][0]["content"][0]["text"] == text
        labels = {str(number): "x" for number in range(101)}
        status, answer = await ml.call("POST", memories, {"messages": [said("user", "x")], "tags": labels})
        assert (status, answer["error"]["fields"][0]["field"]) == (400, "/tags")


@pytest.mark.parametrize(
    ("messages", "field", "reason"),
    [
        ([{"content": [{"type": "text", "text": "x"}]}], "/messages/0", "Message must have role and content"),
        ([said("user", "x"), {"role": "user"}], "/messages/1", "Message must have role and content"),
        ([{"role": "user", "content": []}], "/messages/0/content", "user message must have content"),
        ("hi", "/messages", "messages must be an array of messages, each with role and content"),
        ([{"role": "tool", "content": "x"}], "/messages/0/toolCallId", "Tool message must have toolCallId"),
    ],
)
async def test_wrong_messages_are_refused_by_field(tmp_path: Path, messages: Any, field: str, reason: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        body = {"payload_type": "conversational", "messages": messages}
        status, answer = await ml.call("POST", memories, body)
        assert (status, answer["error"]["reason"]) == (400, reason)
        assert [each["field"] for each in answer["error"]["fields"]] == [field]
        assert (await ml.gateway.client.get("/threads"))["threads"] == []


async def test_messages_of_others_are_unknown(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        paths = {name: await new_container(ml, f"of-{name}", **as_(name)) for name in ("alice", "bob")}
        body = {"messages": [said("user", "secret")], "namespace": {"session_id": "s"}}
        _, made = await ml.call("POST", paths["alice"], body, **as_("alice"))
        for path in paths.values():
            one = f"{path}/working/{made['working_memory_id']}"
            for method, sent in (("GET", None), ("PUT", {"tags": {}}), ("DELETE", None)):
                assert (await ml.call(method, one, sent, **as_("bob")))[0] == 404
        _, answer = await ml.call("POST", f"{paths['bob']}/working/_search", {}, **as_("bob"))
        assert answer["hits"]["total"]["value"] == 0
        status, other = await ml.call("POST", paths["bob"], body, **as_("bob"))
        assert (status, other["session_id"]) == (200, "s"), "each owner has threads of its own"


async def test_a_changed_message_keeps_the_time_that_it_came(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock) as ml:
        memories = await new_container(ml)
        path = f"{memories}/working/{(await post(ml, memories, said('user', 'one')))['working_memory_id']}"
        times = []
        for change in ({}, {"tags": {"a": "b"}}, {"messages": [said("user", "two")]}):
            await clock.advance(100)
            if change:
                assert (await ml.call("PUT", path, change))[0] == 200
            _, seen = await ml.call("GET", path)
            times.append((seen["created_time"], seen["last_updated_time"]))
    first = times[0][0]
    assert times == [(first, first), (first, first), (first, first + 300_000)], "tags are no words"


async def test_what_others_say_to_a_public_agent_is_not_in_its_makers_container(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path, server=KEYS) as ml:
        memories = await new_container(ml, **as_("alice"))
        body = agent_of(models) | {"access_mode": "public"}
        agent_id = await ml.register(body, **as_("alice"))
        for name, text in (("alice", "my secret"), ("bob", "his secret")):
            models.answers(completion("I see"))
            status, answer = await ml.call("POST", f"/agents/{agent_id}/_execute", {"input": text}, **as_(name))
            assert status == 200, answer
            threads = (await ml.http.get("/threads", **as_(name))).json()["threads"]
            assert [each["id"] for each in threads] == [answer["memory_id"]]
        _, answer = await ml.call("POST", f"{memories}/working/_search", {}, **as_("alice"))
        said_here = [hit["_source"]["messages"][0]["content"][0]["text"] for hit in answer["hits"]["hits"]]
        assert sorted(said_here) == ["I see", "my secret"]
        assert (await ml.call("POST", f"{memories}/working/_search", {}, **as_("bob")))[0] == 404


async def test_a_query_deletes_what_it_found_and_not_what_has_its_number_then(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        await post(ml, memories, *(said("user", f"word {number}") for number in range(700)))
        first = {"query": {"range": {"message_id": {"lt": 600}}}}
        status, answer = await ml.call("POST", f"{memories}/working/_delete_by_query", first)
        assert (status, answer["deleted"]) == (200, 600)
        hits = await found(ml, memories, {"match_all": {}}, size=1000, _source=["message_id", "messages"])
        left = [hit["_source"]["messages"][0]["content"][0]["text"] for hit in hits]
        assert left == [f"word {number}" for number in range(600, 700)]
        assert [hit["_source"]["message_id"] for hit in hits] == list(range(100))


# --- content blocks of other forms


FOREIGN: list[dict[str, Any]] = [
    {"text": "look at this"},
    {"image": {"format": "png", "source": {"bytes": PIXEL}}},
    {"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 1}}},
    {"anything": [1, {"else": None}]},
]


async def test_content_blocks_without_a_type_are_any_objects(tmp_path: Path) -> None:
    """As Strands and Bedrock have them: they come back as they were sent."""
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        made = await post(ml, memories, {"role": "user", "content": FOREIGN}, namespace={"session_id": "s"})
        one = f"{memories}/working/{made['working_memory_id']}"
        shown = (await ml.call("GET", one))[1]
        assert shown["messages"] == [{"role": "user", "content": FOREIGN}]
        stored = [block["type"] for block in shown["structured_data_blob"]["message"]["content"]]
        assert stored == ["TEXT", "IMAGE", "TEXT", "TEXT"]
        assert len(await found(ml, memories, {"match": {"text": "anything"}})) == 1

        assert (await ml.call("PUT", one, {"tags": {"a": "b"}}))[0] == 200
        assert (await ml.call("GET", one))[1]["messages"] == [{"role": "user", "content": FOREIGN}]
        other = {"role": "user", "content": [{"cachePoint": {"type": "default"}}]}
        assert (await ml.call("PUT", one, {"messages": [other]}))[0] == 200
        assert (await ml.call("GET", one))[1]["messages"] == [other]
        assert (await ml.call("PUT", one, {"messages": [said("user", "plain")]}))[0] == 200
        assert (await ml.call("GET", one))[1]["messages"] == [said("user", "plain")]


async def test_an_agent_reads_what_such_blocks_say(tmp_path: Path) -> None:
    async with chat_server() as models, ml_gateway(tmp_path) as ml:
        models.answers(completion("a pixel"))
        memories = await new_container(ml)
        agent_id = await agentic_agent(ml, models)
        await post(ml, memories, {"role": "user", "content": FOREIGN}, namespace={"session_id": "s"})
        await execute(ml, agent_id, "what is it?", "s")
        first = models.requests[0].json["messages"][0]["content"]
    assert [part["type"] for part in first] == ["text", "image_url", "text", "text"]
    assert first[0]["text"] == "look at this"
    assert "toolUseId" in first[2]["text"]


@pytest.mark.thorough
async def test_a_post_of_many_messages_takes_about_twenty_times_its_bytes(tmp_path: Path) -> None:
    body = json.dumps(
        {"payload_type": "conversational", "messages": [{"role": "user", "content": [{"text": "word"}]}] * 9_900}
    ).encode()
    async with ml_gateway(tmp_path) as ml:
        memories = await new_container(ml)
        tracemalloc.start()
        try:
            answer = await ml.http.post(
                f"/_plugins/_ml{memories}",
                content=body,
                headers={"content-type": "application/json"},
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (answer.status_code, len(answer.json()["working_memory_ids"])) == (200, 9_900)
    assert peak <= 22 * len(body), f"{peak / len(body):.1f} times the body"
