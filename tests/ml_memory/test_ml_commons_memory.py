"""Conversation memory over HTTP: memories, and the messages that clients put into them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from opensearchpy.exceptions import NotFoundError

from gateway.messages import JsonObject
from gateway.ml_memory import message_endpoints
from gateway.ml_memory.interactions import Turn, interaction_json
from gateway.protocol import pages
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.movable_clock import MovableClock
from tests.running_gateway import run_body
from tests.website import ALICE_KEY, visitor, website

KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


async def made(ml: MlGateway, body: object = None, **more: Any) -> str:
    status, answer = await ml.call("POST", "/memory", body, **more)
    assert (status, list(answer)) == (200, ["memory_id"])
    memory_id: str = answer["memory_id"]
    return memory_id


async def posted(ml: MlGateway, memory_id: str, **said: Any) -> str:
    status, answer = await ml.call("POST", f"/memory/{memory_id}/messages", said)
    assert (status, list(answer)) == (200, ["message_id"])
    message_id: str = answer["message_id"]
    return message_id


async def listed(ml: MlGateway, query: str = "", **more: Any) -> tuple[list[str], Any]:
    """The ids of a page of memories, and its next_token."""
    status, answer = await ml.call("GET", f"/memory{query}", **more)
    assert status == 200, answer
    return [each["memory_id"] for each in answer["memories"]], answer.get("next_token")


async def messages(ml: MlGateway, memory_id: str, query: str = "") -> Any:
    status, answer = await ml.call("GET", f"/memory/{quote(memory_id, safe='')}/messages{query}")
    assert status == 200, answer
    return answer


async def test_j2_a_fresh_server_has_no_memories(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert await ml.call("GET", "/memory") == (200, {"memories": []})


async def test_j3_the_newest_memory_is_first_and_the_next_token_is_its_place(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        first, second = await made(ml), await made(ml, {})
        assert await listed(ml, "?max_results=1") == ([second], 1)
        assert await listed(ml, "?max_results=1&next_token=1") == ([first], None)
        assert await listed(ml, "?max_results=2") == ([second, first], None)
        assert await listed(ml, "?next_token=7") == ([], None)


async def test_a_page_of_memories_is_ten_of_them(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        there = [await made(ml) for _ in range(11)][::-1]
        assert await listed(ml) == (there[:10], 10)
        assert await listed(ml, "?next_token=10") == (there[10:], None)


async def test_a_memory_has_an_id_of_twenty_characters_a_name_and_what_else_was_said(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml, {"name": "n", "application_type": "chat", "additional_info": {"k": "v", "n": 1}})
        assert len(memory_id) == 20
        status, seen = await ml.call("GET", f"/memory/{memory_id}")
        assert status == 200
        assert seen["create_time"] == seen["updated_time"]
        assert seen == {
            "memory_id": memory_id,
            "create_time": seen["create_time"],
            "updated_time": seen["updated_time"],
            "name": "n",
            "application_type": "chat",
            "additional_info": {"k": "v", "n": "1"},
        }
        nameless = await made(ml)
        assert (await ml.call("GET", f"/memory/{nameless}"))[1]["name"] is None


async def test_a_memory_is_changed_in_what_a_request_names(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml, {"name": "n", "additional_info": {"k": "v"}})
        status, changed = await ml.call("PUT", f"/memory/{memory_id}", {"name": "m", "unknown": 1})
        assert (status, changed["result"], changed["_id"]) == (200, "updated", memory_id)
        assert changed["_index"] == ".plugins-ml-memory-meta"
        _, seen = await ml.call("GET", f"/memory/{memory_id}")
        assert (seen["name"], seen["additional_info"]) == ("m", {"k": "v"})
        await ml.call("PUT", f"/memory/{memory_id}", {"additional_info": {"other": "w"}})
        _, seen = await ml.call("GET", f"/memory/{memory_id}")
        assert (seen["name"], seen["additional_info"]) == ("m", {"k": "v", "other": "w"})
        await ml.call("PUT", f"/memory/{memory_id}", {"name": None, "additional_info": {"k": None}})
        _, seen = await ml.call("GET", f"/memory/{memory_id}")
        assert (seen["name"], seen["additional_info"]) == (None, {"other": "w"})
        status, refused = await ml.call("PUT", f"/memory/{memory_id}", {"user": "x"})
        assert status == 400
        assert "name or additional_info" in refused["error"]["reason"]


async def test_what_a_memory_says_stays_beside_other_metadata_of_its_thread(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml, {"additional_info": {"k": "v"}})
        _, threads = await ml.call("GET", "/memory")
        response = await ml.http.patch(f"/threads/{memory_id}", json={"title": "given there"})
        assert response.status_code == 204
        _, seen = await ml.call("GET", f"/memory/{memory_id}")
        assert (seen["name"], seen["additional_info"]) == ("given there", {"k": "v"})
        assert [each["memory_id"] for each in threads["memories"]] == [memory_id]


async def test_a_changed_memory_is_the_latest(tmp_path: Path) -> None:
    clock = MovableClock()
    async with ml_gateway(tmp_path, clock=clock) as ml:
        first = await made(ml)
        await clock.advance(60)
        second = await made(ml)
        await clock.advance(60)
        assert (await listed(ml))[0] == [second, first]
        await ml.call("PUT", f"/memory/{first}", {"name": "renamed"})
        assert (await listed(ml))[0] == [first, second]
        _, seen = await ml.call("GET", f"/memory/{first}")
        assert seen["updated_time"] > seen["create_time"]
        await clock.advance(60)
        await posted(ml, second, input="q")
        assert (await listed(ml))[0] == [second, first]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": 1}, "/name"), ({"additional_info": []}, "/additional_info"), ({"name": "n" * 5000}, "/name")],
)
async def test_a_wrong_memory_is_refused_by_its_field(tmp_path: Path, body: object, field: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, refused = await ml.call("POST", "/memory", body)
        assert status == 400
        assert [each["field"] for each in refused["error"]["fields"]] == [field]
        assert await listed(ml) == ([], None)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?max_results=0", "Validation Failed: 1: Can't list 0 or negative conversations;"),
        ("?max_results=-1", "Can't list 0 or negative conversations"),
        ("?next_token=-1", "[from] parameter cannot be negative, found [-1]"),
        ("?max_results=x", "Failed to parse int parameter [max_results] with value [x]"),
        ("?next_token=99999999999", "Failed to parse int parameter [next_token] with value [99999999999]"),
        ("?max_results=10001", "it must be from 1 to 10000"),
    ],
)
async def test_a_wrong_page_of_memories_is_refused_with_the_reason(tmp_path: Path, query: str, reason: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, refused = await ml.call("GET", f"/memory{query}")
    assert status == 400
    assert reason in refused["error"]["reason"]
    assert refused["error"]["fields"][0]["field"] in query


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("?max_results=0", "Validation Failed: 1: The number of interactions to retrieve must be positive;"),
        ("?next_token=-1", "The starting position must be nonnegative"),
        ("?order=up", "it must be asc (the oldest first) or desc"),
    ],
)
async def test_a_wrong_page_of_messages_is_refused_with_the_reason(tmp_path: Path, query: str, reason: str) -> None:
    async with ml_gateway(tmp_path) as ml:
        status, refused = await ml.call("GET", f"/memory/{await made(ml)}/messages{query}")
    assert status == 400
    assert reason in refused["error"]["reason"]


async def test_j5_a_message_that_says_nothing_is_refused(tmp_path: Path) -> None:
    expected = (
        "At least one of the following parameters must be non-empty: "
        "input, prompt_template, response, origin, additional_info"
    )
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        for body in ({}, {"input": " ", "additional_info": {}}):
            status, refused = await ml.call("POST", f"/memory/{memory_id}/messages", body)
            assert (status, refused["error"]["reason"]) == (400, expected)
        assert (await messages(ml, memory_id))["messages"] == []


async def test_a_message_with_a_field_that_is_not_known_is_refused(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        body = {"input": "q", "answer": "a"}
        status, refused = await ml.call("POST", f"/memory/{await made(ml)}/messages", body)
    assert status == 400
    assert "Invalid field [answer] found in request body" in refused["error"]["reason"]


async def test_j6_the_oldest_message_is_first_and_the_last_page_has_no_next_token(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        first = await posted(ml, memory_id, input="q1", response="a1")
        second = await posted(ml, memory_id, input="q2", response="a2")
        page = await messages(ml, memory_id, "?max_results=1")
        assert ([each["message_id"] for each in page["messages"]], page["next_token"]) == ([first], 1)
        page = await messages(ml, memory_id, "?max_results=1&next_token=1")
        assert ([each["message_id"] for each in page["messages"]], "next_token" in page) == ([second], False)
        page = await messages(ml, memory_id, "?max_results=1&order=desc")
        assert ([each["message_id"] for each in page["messages"]], page["next_token"]) == ([second], 1)


async def test_a_page_of_large_items_ends_early_and_its_next_token_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES", 3_000)
    large = "x" * 2_000
    async with ml_gateway(tmp_path) as ml:
        memories = [await made(ml, {"name": large}) for _ in range(3)]
        assert await listed(ml) == (memories[:0:-1], 2)
        assert await listed(ml, "?next_token=2") == (memories[:1], None)
        said = [await posted(ml, memories[0], input=large, response="a") for _ in range(3)]
        page = await messages(ml, memories[0])
        assert ([each["message_id"] for each in page["messages"]], page["next_token"]) == (said[:2], 2)
        page = await messages(ml, memories[0], "?next_token=2")
        assert ([each["message_id"] for each in page["messages"]], "next_token" in page) == (said[2:], False)


async def test_j8_deleting_an_unknown_memory_is_a_success_until_there_are_memories(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        assert await ml.call("DELETE", "/memory/nope") == (200, {"success": True})
        await made(ml)
        status, missing = await ml.call("DELETE", "/memory/nope")
        assert (status, missing["error"]["reason"]) == (404, "Memory [nope] not found")
        assert missing["error"]["type"] == "resource_not_found_exception"


async def test_j9_a_deleted_memory_is_gone_with_its_messages(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        await posted(ml, memory_id, input="q", response="a")
        assert await ml.call("DELETE", f"/memory/{memory_id}") == (200, {"success": True})
        assert await ml.call("GET", "/memory") == (200, {"memories": []})
        for method, path in (("GET", ""), ("GET", "/messages"), ("POST", "/messages")):
            body = {"input": "q"} if method == "POST" else None
            status, missing = await ml.call(method, f"/memory/{memory_id}{path}", body)
            assert (status, missing["error"]["reason"]) == (404, f"Memory [{memory_id}] not found")


async def test_a_message_keeps_all_that_was_said_of_it(tmp_path: Path) -> None:
    said = {
        "input": "What is it?",
        "prompt_template": "Hello, can you answer this?",
        "response": "It is this.",
        "origin": "MyWrapper",
        "additional_info": {"suggestion": "api.example.com"},
    }
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        message_id = await posted(ml, memory_id, **said)
        assert len(message_id) == 20
        (seen,) = (await messages(ml, memory_id))["messages"]
        times = {"create_time": seen["create_time"], "updated_time": seen["create_time"]}
        assert seen == {"memory_id": memory_id, "message_id": message_id, **times, **said}


@pytest.mark.parametrize("said", [{"response": "only this"}, {"origin": "o"}, {"input": "asked", "response": ""}])
async def test_a_message_may_lack_its_question_or_its_answer(tmp_path: Path, said: dict[str, Any]) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        first = await posted(ml, memory_id, **said)
        second = await posted(ml, memory_id, **said)
        seen = (await messages(ml, memory_id))["messages"]
    assert [each["message_id"] for each in seen] == [first, second]
    for each in seen:
        shown = {name: each.get(name) for name in ("input", "response", "origin")}
        assert shown == {name: said.get(name) or None for name in ("input", "response", "origin")}


async def test_what_was_posted_is_what_the_model_goes_on_from(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        await posted(ml, memory_id, origin="without words")
        message_id = await posted(ml, memory_id, input="posted question", response="posted answer")
        history = (await ml.gateway.client.get(f"/threads/{memory_id}/messages"))["messages"]
        assert [each.get("content") for each in history] == ["", "posted question", "posted answer"]
        body = run_body(messages=[*history, {"id": "u9", "role": "user", "content": "and now?"}], thread_id=memory_id)
        frames = await ml.gateway.client.run("configured", body)
        assert frames[-1].type == "RUN_FINISHED"
        seen = (await messages(ml, memory_id))["messages"]
    assert [each["message_id"] for each in seen][1:] == [message_id, "u9"]
    assert (seen[2]["input"], seen[2]["response"], seen[2]["origin"]) == ("and now?", "from the file", "configured")


async def test_a_client_that_knows_no_metadata_takes_nothing_of_it_away(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        for number in range(2):
            await posted(ml, memory_id, input=f"q{number}", prompt_template="p", additional_info={"k": "v"})
        before = (await messages(ml, memory_id))["messages"]
        history = (await ml.gateway.client.get(f"/threads/{memory_id}/messages"))["messages"]
        plain = [{name: each[name] for name in ("id", "role", "content")} for each in history]
        plain.append({"id": "u9", "role": "user", "content": "and now?"})
        await ml.gateway.client.run("configured", run_body(messages=plain, thread_id=memory_id))
        assert (await messages(ml, memory_id))["messages"][:2] == before


async def test_another_owners_memory_is_not_there(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        memory_id = await made(ml, {"name": "n"}, **as_("alice"))
        _, seen = await ml.call("GET", f"/memory/{memory_id}", **as_("alice"))
        assert seen["user"] == "alice"
        assert await listed(ml, **as_("bob")) == ([], None)
        await made(ml, **as_("bob"))
        for method, path, body in (
            ("GET", "", None),
            ("PUT", "", {"name": "m"}),
            ("DELETE", "", None),
            ("GET", "/messages", None),
            ("POST", "/messages", {"input": "q"}),
        ):
            status, missing = await ml.call(method, f"/memory/{memory_id}{path}", body, **as_("bob"))
            assert (status, missing["error"]["reason"]) == (404, f"Memory [{memory_id}] not found")
        assert await listed(ml, **as_("alice")) == ([memory_id], None)


async def test_a_visitors_thread_is_nobodys_memory_and_visitors_have_none(tmp_path: Path) -> None:
    async with website(tmp_path) as local:
        somebody = await visitor(local.client)
        assert (await somebody.run(thread_id="t", run_id="r")).status == 200
        for method, path in (
            ("GET", "/memory"),
            ("POST", "/memory"),
            ("GET", "/memory/t"),
            ("GET", "/memory/t/messages"),
        ):
            assert (await somebody.ask(method, P + path)).status == 403
        key = {"authorization": f"Bearer {ALICE_KEY}"}
        assert (await local.client.http.get(f"{P}/memory", headers=key)).json() == {"memories": []}
        for path in ("/memory/t", "/memory/message/user-r"):
            assert (await local.client.http.get(P + path, headers=key)).status_code == 404


async def test_all_of_it_is_refused_while_the_memory_feature_is_off(tmp_path: Path) -> None:
    off = {"persistent": {"plugins.ml_commons.memory_feature_enabled": False}}
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        await ml.http.put("/_cluster/settings", json=off)
        for method, path in (
            ("POST", "/memory"),
            ("GET", "/memory"),
            ("GET", "/memory/_search"),
            ("GET", f"/memory/{memory_id}"),
            ("PUT", f"/memory/{memory_id}"),
            ("DELETE", f"/memory/{memory_id}"),
            ("GET", f"/memory/{memory_id}/_search"),
            ("GET", f"/memory/{memory_id}/messages"),
            ("POST", f"/memory/{memory_id}/messages"),
            ("GET", "/memory/message/m"),
            ("PUT", "/memory/message/m"),
            ("GET", "/memory/message/m/traces"),
        ):
            status, refused = await ml.call(method, path)
            assert status == 403, path
            assert refused["error"]["reason"].startswith("The Conversation Memory feature is not enabled")
        await ml.http.put("/_cluster/settings", json={"persistent": {"plugins.*": None}})
        assert await listed(ml) == ([memory_id], None)


async def test_opensearchs_client_writes_and_reads_a_memory(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path) as ml:
        perform = ml.opensearch.transport.perform_request
        memory_id = (await perform("POST", f"{P}/memory", body={"name": "n"}))["memory_id"]
        await perform("POST", f"{P}/memory/{memory_id}/messages", body={"input": "q", "response": "a"})
        read = await perform("GET", f"{P}/memory/{memory_id}/messages", params={"max_results": 3})
        assert [each["response"] for each in read["messages"]] == ["a"]
        assert len((await perform("GET", f"{P}/memory"))["memories"]) == 1
        assert await perform("DELETE", f"{P}/memory/{memory_id}") == {"success": True}
        await perform("POST", f"{P}/memory")
        with pytest.raises(NotFoundError):
            await perform("GET", f"{P}/memory/{memory_id}")


async def test_interactions_are_written_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_in: list[threading.Thread] = []

    def noted(memory_id: str, turn: Turn) -> JsonObject:
        written_in.append(threading.current_thread())
        return interaction_json(memory_id, turn)

    monkeypatch.setattr(message_endpoints, "interaction_json", noted)
    async with ml_gateway(tmp_path) as ml:
        memory_id = await made(ml)
        await posted(ml, memory_id, input="q", response="a")
        status, answer = await ml.call("GET", f"/memory/{memory_id}/messages")
    assert (status, [each["response"] for each in answer["messages"]]) == (200, ["a"])
    assert len(written_in) == 1
    assert written_in[0] is not threading.current_thread(), "one may have many large questions"
