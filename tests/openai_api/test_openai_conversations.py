"""/v1/conversations over HTTP: OpenAI's SDK against a running gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from tests.openai_scene import openai_client, openai_gateway
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

ALICE, BOB = "alice-key-of-the-tests", "bob-key-of-the-tests-too"
SERVER = {"api_keys": [{"name": "alice", "key": ALICE}, {"name": "bob", "key": BOB}]}
AS_ALICE = {"authorization": f"Bearer {ALICE}"}
HELPER = agent("helper", scripted([{"reasoning": "let me think"}, {"text": "hello back"}], [{"text": "and again"}]))

ADDER = agent(
    "adder",
    scripted(
        [
            {"reasoning": "I add twice"},
            {"text": "let me see"},
            {"tool": "add", "arguments": {"a": 2, "b": 3}},
            {"tool": "add", "arguments": {"a": 4, "b": 5}},
        ],
        [{"text": "done"}],
    ),
    tools=[{"type": "PythonTool", "name": "add", "parameters": {"function": "gateway.sample_tools:add"}}],
    history="append",
)
MESSAGES = [{"id": f"u{number}", "role": "user", "content": "add"} for number in range(3)]


def sdk(gateway: LocalGateway, key: str = ALICE, prefix: str = "/v1") -> openai.AsyncOpenAI:
    return openai_client(gateway.client.base_url + prefix, key=key)


def user(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def dumped(item: Any) -> Any:
    return item.model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
async def test_a_conversation_is_made_read_changed_and_deleted(tmp_path: Path, prefix: str) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway, prefix=prefix) as client:
        made = await client.conversations.create(metadata={"topic": "demo"}, items=[user("hello")])
        assert made.id.startswith("conv_")
        assert (made.object, made.metadata) == ("conversation", {"topic": "demo"})
        assert await client.conversations.retrieve(made.id) == made

        changed = await client.conversations.update(made.id, metadata={"topic": "other"})
        assert changed.metadata == {"topic": "other"}
        assert (await client.conversations.update(made.id, metadata=None)).metadata == {}

        deleted = await client.conversations.delete(made.id)
        assert dumped(deleted) == {"id": made.id, "object": "conversation.deleted", "deleted": True}
        with pytest.raises(openai.NotFoundError) as missing:
            await client.conversations.retrieve(made.id)
    assert missing.value.body == {
        "message": f"Conversation with id '{made.id}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": "conversation_not_found",
    }


async def test_an_empty_conversation_has_no_items(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create()
        answer = await gateway.client.http.get(f"/v1/conversations/{made.id}/items", headers=AS_ALICE)
        bare = await gateway.client.http.post("/v1/conversations", headers=AS_ALICE)
    assert made.metadata == {}
    assert (bare.status_code, bare.json()["object"]) == (200, "conversation")
    assert answer.json() == {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


async def test_items_are_added_with_ids_of_their_own_and_read_back(tmp_path: Path) -> None:
    items: list[Any] = [
        {"role": "system", "content": "be brief"},
        user("look"),
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://pictures.test/a.png"}]},
        {"type": "reasoning", "id": "rs_theirs", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I see", "annotations": []}]},
    ]
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create()
        added = await client.conversations.items.create(made.id, items=items)
        listed = [item async for item in client.conversations.items.list(made.id, order="asc")]
        one = await client.conversations.items.retrieve(str(added.data[1].id), conversation_id=made.id)
    assert [dumped(each) for each in listed] == [dumped(each) for each in added.data]
    assert dumped(one) == dumped(added.data[1])
    assert (added.first_id, added.last_id, added.has_more) == (added.data[0].id, added.data[-1].id, False)
    shown = [{name: value for name, value in dumped(each).items() if name != "id"} for each in listed]
    text: dict[str, Any] = {"annotations": [], "logprobs": []}
    picture = {"type": "input_image", "detail": "auto", "image_url": "https://pictures.test/a.png"}
    done = {"status": "completed"}
    assert shown == [
        {**done, "type": "message", "role": "system", "content": [{"type": "input_text", "text": "be brief"}]},
        {**done, "type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}]},
        {**done, "type": "message", "role": "user", "content": [picture]},
        {**done, "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {**done, "type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {**done, "type": "function_call_output", "call_id": "c1", "output": "seen"},
        {**done, "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I see", **text}]},
    ]
    kinds = [each.id.partition("_")[0] for each in listed if each.id is not None]
    assert kinds == ["msg", "msg", "msg", "rs", "fc", "fco", "msg"]
    assert len({each.id for each in listed}) == len(items)


async def test_lists_have_pages_in_both_orders(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create(items=[user(str(number)) for number in range(7)])
        latest = [dumped(each) async for each in client.conversations.items.list(made.id, limit=3)]
        oldest = [dumped(each) async for each in client.conversations.items.list(made.id, limit=2, order="asc")]
        page = await client.conversations.items.list(made.id, limit=3, after=latest[2]["id"])
    assert [each["content"][0]["text"] for each in oldest] == [str(number) for number in range(7)]
    assert latest == oldest[::-1]
    assert [each.id for each in page.data] == [each["id"] for each in latest[3:6]]
    assert (page.has_more, page.last_id) == (True, latest[5]["id"])


async def test_any_thread_is_a_conversation(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        await gateway.client.run("helper", run_body("hi", thread_id="a/thread"), **AS_ALICE)
        found = await client.conversations.retrieve("a/thread")
        items = [item async for item in client.conversations.items.list("a/thread", order="asc")]
    assert found.id == "a/thread"
    assert [item.type for item in items] == ["message", "reasoning", "message"]
    assert items[0].id == "user-run-1"


async def ids_of(client: openai.AsyncOpenAI, conversation: str) -> list[str]:
    return [str(item.id) async for item in client.conversations.items.list(conversation, order="asc")]


async def test_the_items_of_a_run_are_those_of_its_response(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [ADDER], server=SERVER) as gateway, sdk(gateway) as client:
        for number in (1, 2):
            body = run_body("add", thread_id="t", run_id=f"r{number}", messages=[MESSAGES[number]])
            await gateway.client.run("adder", body, **AS_ALICE)
        items = [dumped(item) async for item in client.conversations.items.list("t", order="asc")]
        in_pages = [dumped(item) async for item in client.conversations.items.list("t", order="asc", limit=2)]
        latest_first = [dumped(item) async for item in client.conversations.items.list("t", limit=5)]
        one = await client.conversations.items.retrieve("mcp_r1_3", conversation_id="t")
    assert in_pages == items
    assert latest_first == items[::-1]
    assert dumped(one) == items[4]
    assert [item["id"] for item in items] == [
        "u1", "rs_r1_0", "msg_r1_1", "mcp_r1_2", "mcp_r1_3", "msg_r1_6",
        "u2", "rs_r2_0", "msg_r2_1", "mcp_r2_2", "mcp_r2_3", "msg_r2_6",
    ]  # fmt: skip
    assert items[3] == {
        "id": "mcp_r1_2",
        "type": "mcp_call",
        "status": "completed",
        "server_label": "gateway",
        "name": "add",
        "arguments": '{"a":2,"b":3}',
        "output": "5.0",
        "error": None,
        "approval_request_id": None,
    }


@pytest.mark.parametrize("gone", [1, 2, 3, 4, 5])
async def test_the_ids_of_a_runs_other_items_stay_when_one_is_deleted(tmp_path: Path, gone: int) -> None:
    async with local_gateway(tmp_path, [ADDER], server=SERVER) as gateway, sdk(gateway) as client:
        body = run_body("add", thread_id="t", run_id="r1", messages=[MESSAGES[1]])
        await gateway.client.run("adder", body, **AS_ALICE)
        there = await ids_of(client, "t")
        await client.conversations.items.delete(there[gone], conversation_id="t")
        assert await ids_of(client, "t") == [*there[:gone], *there[gone + 1 :]]
        for item_id in (*there[1:gone], *there[gone + 1 :]):
            await client.conversations.items.delete(item_id, conversation_id="t")
        assert await ids_of(client, "t") == ["u1"]


async def test_a_conversation_has_the_items_of_all_its_responses(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path) as scene:
        responses = scene.openai.responses
        asked = await responses.create(
            model="refunder", input="refund it", tools=[{"type": "mcp", "server_label": "gateway"}]
        )
        assert asked.conversation is not None
        [question] = asked.output
        yes: Any = [{"type": "mcp_approval_response", "approval_request_id": question.id, "approve": True}]
        ended = await responses.create(model="refunder", input=yes, previous_response_id=asked.id)
        more = await responses.create(model="words", input="thanks", conversation=asked.conversation.id)
        before = [dumped(item) async for item in scene.openai.conversations.items.list(asked.conversation.id)]
        await scene.gateway.application.store.remove_logs(finished_before=1e12)
        items = [dumped(item) async for item in scene.openai.conversations.items.list(asked.conversation.id)]
        again = await responses.retrieve(ended.id)
    assert ended.conversation == asked.conversation
    assert items == before
    said = [dumped(item) for response in (asked, ended, more) for item in response.output]
    assert [item for item in items[::-1] if item.get("role") != "user"] == said
    assert [item["type"] for item in said] == ["mcp_approval_request", "mcp_call", "message", "message"]
    assert dumped(again)["output"] == dumped(ended)["output"]


async def test_a_fork_shows_what_it_began_with_and_goes_its_own_way(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path) as scene:
        responses = scene.openai.responses
        first = await responses.create(model="words", input="one")
        await responses.create(model="words", input="two", previous_response_id=first.id)
        forked = await responses.create(model="adder", input="three", previous_response_id=first.id)
        assert forked.conversation is not None
        assert forked.conversation != first.conversation
        items = [dumped(item) async for item in scene.openai.conversations.items.list(forked.conversation.id)]
    texts = [item["content"][0]["text"] for item in items[::-1] if item["type"] == "message"]
    assert texts == ["one", "I heard: one", "three", "I add. ", "The sum is 5.0."]
    assert [item["id"] for item in items[:3]] == [item.id for item in forked.output[::-1]]


async def test_a_deleted_item_is_gone_and_the_others_stay(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create(items=[user("one"), user("two"), user("three")])
        before = [item.id async for item in client.conversations.items.list(made.id, order="asc")]
        left = await client.conversations.items.delete(str(before[1]), conversation_id=made.id)
        after = [item.id async for item in client.conversations.items.list(made.id, order="asc")]
        with pytest.raises(openai.NotFoundError) as missing:
            await client.conversations.items.retrieve(str(before[1]), conversation_id=made.id)
        versions = await gateway.client.http.get(f"/threads/{made.id}/versions", headers=AS_ALICE)
    assert left == made
    assert after == [before[0], before[2]]
    assert isinstance(missing.value.body, dict)
    assert missing.value.body["code"] == "item_not_found"
    assert len(versions.json()["versions"]) == 1, "no version keeps what was deleted"


async def test_one_call_of_several_is_deleted_with_its_result(tmp_path: Path) -> None:
    function = {"name": "look", "arguments": "{}"}
    messages: list[dict[str, Any]] = [
        {"id": "u", "role": "user", "content": "hi"},
        {
            "id": "a",
            "role": "assistant",
            "content": "wait",
            "toolCalls": [{"id": each, "type": "function", "function": function} for each in ("c1", "c2")],
        },
        *({"id": f"r{each}", "role": "tool", "toolCallId": each, "content": "seen"} for each in ("c1", "c2")),
    ]
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        await gateway.client.run("helper", run_body(messages=messages, thread_id="t"), **AS_ALICE)
        await client.conversations.items.delete("fc_c1", conversation_id="t")
        without_call = [item.id async for item in client.conversations.items.list("t", order="asc")]
        await client.conversations.items.delete("a", conversation_id="t")
        without_words = [item.id async for item in client.conversations.items.list("t", order="asc")]
    assert without_call[:4] == ["u", "a", "fc_c2", "rc2"]
    assert without_words[:3] == ["u", "fc_c2", "rc2"]


async def test_another_owners_conversation_is_not_there(tmp_path: Path) -> None:
    async with (
        local_gateway(tmp_path, [HELPER], server=SERVER) as gateway,
        sdk(gateway) as client,
        sdk(gateway, BOB) as bob,
    ):
        made = await client.conversations.create(items=[user("mine")])
        item_id = str((await client.conversations.items.list(made.id)).data[0].id)
        for request in (
            bob.conversations.retrieve(made.id),
            bob.conversations.update(made.id, metadata={"a": "b"}),
            bob.conversations.delete(made.id),
            bob.conversations.items.create(made.id, items=[user("theirs")]),
            bob.conversations.items.retrieve(item_id, conversation_id=made.id),
            bob.conversations.items.delete(item_id, conversation_id=made.id),
        ):
            with pytest.raises(openai.NotFoundError):
                await request
        with pytest.raises(openai.NotFoundError):
            await bob.conversations.items.list(made.id)
        assert await client.conversations.retrieve(made.id) == made


async def test_an_idempotency_key_makes_one_conversation_and_adds_once(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        key = {"Idempotency-Key": "k1"}
        made = await client.conversations.create(items=[user("one")], extra_headers=key)
        again = await client.conversations.create(items=[user("one")], extra_headers=key)
        for _ in range(2):
            await client.conversations.items.create(made.id, items=[user("two")], extra_headers=key)
        items = [item.id async for item in client.conversations.items.list(made.id)]
    assert again == made
    assert len(items) == 2


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"items": [user("x")] * 21}, "items"),
        ("", {"items": [{"type": "item_reference", "id": "msg_1"}]}, "items[0]"),
        ("", {"items": [user("x"), {"type": "web_search_call", "id": "x"}]}, "items[1].type"),
        ("", {"metadata": {str(number): "x" for number in range(17)}}, "metadata"),
        ("", {"metadata": {"x" * 65: "x"}}, "metadata"),
        ("", {"metadata": {"x": "y" * 513}}, "metadata.x"),
        ("", {"metadata": {"x": 1}}, "metadata.x"),
        ("", {"metadata": []}, "metadata"),
        ("/{id}", {}, "metadata"),
        ("/{id}/items", {}, "items"),
        ("/{id}/items", {"items": []}, "items"),
        ("/{id}/items", {"items": [user("x")] * 21}, "items"),
    ],
)
async def test_what_is_wrong_in_a_body_is_named(tmp_path: Path, path: str, body: Any, param: str) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create()
        url = "/v1/conversations" + path.format(id=made.id)
        answer = await gateway.client.http.post(url, json=body, headers=AS_ALICE)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("order=up", "order"),
        ("after=no", "after"),
        ("include[]=x", "include"),
    ],
)
async def test_what_is_wrong_in_a_query_is_named(tmp_path: Path, query: str, param: str) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        made = await client.conversations.create(items=[user("x")])
        answer = await gateway.client.http.get(f"/v1/conversations/{made.id}/items?{query}", headers=AS_ALICE)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param


async def test_items_change_only_while_no_run_is_at_work(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path) as scene:
        client = scene.openai
        made = await client.conversations.create(items=[user("before")])
        (item,) = (await client.conversations.items.list(made.id)).data
        working = await client.responses.create(model="slow", input="x", conversation=made.id, background=True)
        with pytest.raises(openai.ConflictError) as added:
            await client.conversations.items.create(made.id, items=[user("meanwhile")])
        with pytest.raises(openai.ConflictError) as deleted:
            await client.conversations.items.delete(str(item.id), conversation_id=made.id)
        await client.responses.cancel(working.id)
        await client.conversations.items.create(made.id, items=[user("after")])
        await client.conversations.items.delete(str(item.id), conversation_id=made.id)
        kept = await scene.stored(made.id)

    for refused in (added.value, deleted.value):
        assert refused.code == "thread_busy"
        assert "x-should-retry" not in refused.response.headers, "it passes"
    assert [message["content"] for message in kept if message["role"] == "user"] == ["x", "after"]


async def test_what_other_protocols_note_of_a_thread_stays(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER], server=SERVER) as gateway, sdk(gateway) as client:
        memory = "/_plugins/_ml/memory"
        body = {"name": "n", "additional_info": {"a": "b"}}
        made = (await gateway.client.http.post(memory, json=body, headers=AS_ALICE)).json()["memory_id"]
        assert (await client.conversations.retrieve(made)).metadata == {}
        changed = await client.conversations.update(made, metadata={"topic": "demo"})
        there = (await gateway.client.http.get(f"{memory}/{made}", headers=AS_ALICE)).json()
    assert changed.metadata == {"topic": "demo"}
    assert there["additional_info"] == {"a": "b"}
