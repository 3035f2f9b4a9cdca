"""Interactions by their ids: read, changed, and with their traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.running_gateway import agent, run_body, scripted

ADD = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:add"}}
REFUND = {"type": "PythonTool", "parameters": {"function": "gateway.sample_tools:refund"}}
STEPS: list[list[dict[str, Any]]] = [
    [
        {"text": "I add."},
        {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"},
        {"tool": "refund", "arguments": {"order_id": "o", "amount": -1}, "id": "c2"},
    ],
    [{"reasoning": "Once more."}, {"tool": "add", "arguments": {"a": 1, "b": 1}, "id": "c3"}],
    [{"text": "It is 5."}],
]
CALCULATOR = agent("calculator", scripted(*STEPS), tools=[ADD, REFUND])
PICKS: list[dict[str, Any]] = [{"text": "Choose."}, {"tool": "pick", "arguments": {"n": 1}, "id": "c9"}]
ASKING = agent("asking", scripted(PICKS, [{"text": "You picked {{result}}."}]))
FAILING = agent("failing", scripted([{"text": "so far"}, {"error": "invalid", "message": "no more"}]))
ECHO = agent("echo", scripted([{"text": "You said {{user}}."}]))
AGENTS = (CALCULATOR, ASKING, FAILING, ECHO)
PICK = {"name": "pick", "description": "Picks.", "parameters": {"type": "object"}}
KEYS = {"api_keys": [{"name": name, "key": f"{name}-key-0123456789"} for name in ("alice", "bob")]}


def as_(name: str) -> dict[str, Any]:
    return {"headers": {"authorization": f"Bearer {name}-key-0123456789"}}


def user(message_id: str, text: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "content": text}


async def run(ml: MlGateway, agent_id: str, *new: dict[str, Any], thread_id: str = "t", **more: Any) -> None:
    response = await ml.http.get(f"/threads/{quote(thread_id, safe='')}/messages")
    history = response.json()["messages"] if response.status_code == 200 else []
    body = run_body(messages=[*history, *new], thread_id=thread_id, run_id=f"r{len(history)}-{thread_id}", **more)
    await ml.gateway.client.run(agent_id, body)


async def message(ml: MlGateway, message_id: str, query: str = "", **more: Any) -> tuple[int, Any]:
    return await ml.call("GET", f"/memory/message/{quote(message_id, safe='')}{query}", **more)


async def changed(ml: MlGateway, message_id: str, query: str = "", **words: Any) -> tuple[int, Any]:
    return await ml.call("PUT", f"/memory/message/{quote(message_id, safe='')}{query}", words)


async def traces(ml: MlGateway, message_id: str, query: str = "") -> dict[str, Any]:
    status, answer = await ml.call("GET", f"/memory/message/{quote(message_id, safe='')}/traces{query}")
    assert status == 200, answer
    read: dict[str, Any] = answer
    return read


async def posted(ml: MlGateway, memory_id: str, **words: Any) -> str:
    status, answer = await ml.call("POST", f"/memory/{memory_id}/messages", words)
    assert status == 200, answer
    message_id: str = answer["message_id"]
    return message_id


async def said(ml: MlGateway, thread_id: str = "t", query: str = "") -> list[str]:
    """The words of a thread as AG-UI's clients read them."""
    response = await ml.http.get(f"/threads/{thread_id}/messages{query}")
    return [each.get("content", "") for each in response.json()["messages"]]


# --- read


@pytest.mark.parametrize("message_id", ["u1", "with / and ? and ü and %2F", "../x", "_search", "20-20"])
async def test_an_interaction_is_read_by_an_id_of_any_shape(tmp_path: Path, message_id: str) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user(message_id, "hello"))
        _, listed = await ml.call("GET", "/memory/t/messages")
        assert await message(ml, message_id) == (200, listed["messages"][0])
        assert listed["messages"][0]["message_id"] == message_id


async def test_any_message_of_a_turn_leads_to_its_interaction(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("u1", "one"), user("u2", "two"))
        answer_id = (await ml.gateway.client.get("/threads/t/messages"))["messages"][-1]["id"]
        for each in ("u2", answer_id):
            status, seen = await message(ml, each)
            assert (status, seen["message_id"], seen["response"]) == (200, "u1", "You said two.")


async def test_of_several_memories_with_one_id_the_last_used_or_the_named_one_is_read(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("1", "first"), thread_id="t1")
        await run(ml, "echo", user("1", "second"), thread_id="t2")
        assert (await message(ml, "1"))[1]["input"] == "second"
        assert (await message(ml, "1", "?memory_id=t1"))[1]["input"] == "first"
        status, missing = await message(ml, "1", "?memory_id=t3")
        assert (status, missing["error"]["reason"]) == (404, "Memory [t3] not found")


async def test_an_unknown_message_and_another_owners_are_not_there(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, server=KEYS) as ml:
        _, memory = await ml.call("POST", "/memory", **as_("alice"))
        path = f"/memory/{memory['memory_id']}/messages"
        _, made = await ml.call("POST", path, {"input": "q"}, **as_("alice"))
        trace = {"response": "x", "parent_message_id": made["message_id"]}
        _, traced = await ml.call("POST", path, trace, **as_("alice"))
        for message_id in ("nope", made["message_id"], traced["message_id"]):
            for method, at, body in (("GET", "", None), ("PUT", "", {"response": "x"}), ("GET", "/traces", None)):
                status, missing = await ml.call(method, f"/memory/message/{message_id}{at}", body, **as_("bob"))
                assert (status, missing["error"]["reason"]) == (404, f"Message [{message_id}] not found")
                assert missing["error"]["type"] == "resource_not_found_exception"
        assert (await message(ml, traced["message_id"], **as_("alice")))[0] == 200


# --- changed


async def test_another_answer_is_a_version_and_the_one_before_stays(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("u1", "one"))
        await run(ml, "echo", user("u2", "two"))
        status, answer = await changed(ml, "u1", response="better", input="ignored")
        assert (status, answer["result"], answer["_id"]) == (200, "updated", "u1")
        _, seen = await message(ml, "u1")
        assert (seen["input"], seen["response"]) == ("one", "better")
        assert await said(ml) == ["one", "better", "two", "You said two."]
        assert await said(ml, query="?version=1") == ["one", "You said one.", "two", "You said two."]


async def test_ag_ui_goes_on_from_the_other_answer_also_where_its_client_has_the_old_one(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("u1", "one"))
        before = (await ml.gateway.client.get("/threads/t/messages"))["messages"]
        await changed(ml, "u1", response="better")
        body = run_body(messages=[*before, user("u2", "two")], thread_id="t", run_id="later")
        await ml.gateway.client.run("echo", body)
        assert await said(ml) == ["one", "better", "two", "You said two."]


async def test_other_information_is_no_version(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("u1", "one"))
        await changed(ml, "u1", additional_info={"rating": "good"})
        _, seen = await message(ml, "u1")
        assert (seen["additional_info"], seen["response"]) == ({"rating": "good"}, "You said one.")
        await changed(ml, "u1", additional_info={"by": "me"})
        assert (await message(ml, "u1"))[1]["additional_info"] == {"rating": "good", "by": "me"}
        versions = (await ml.gateway.client.get("/threads/t/versions"))["versions"]
        assert [each["version"] for each in versions] == [1]


async def test_an_answer_is_given_to_a_question_that_had_none(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id = (await ml.call("POST", "/memory"))[1]["memory_id"]
        first = await posted(ml, memory_id, input="q1", origin="o")
        await posted(ml, memory_id, input="q2", response="a2")
        await changed(ml, first, response="a1", additional_info={"k": "v"})
        _, seen = await message(ml, first)
        assert (seen["input"], seen["response"], seen["origin"]) == ("q1", "a1", "o")
        assert (seen["additional_info"], seen["updated_time"] >= seen["create_time"]) == ({"k": "v"}, True)
        assert await said(ml, memory_id) == ["q1", "a1", "q2", "a2"]


async def test_an_answer_takes_the_place_of_a_failure(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "failing", user("u1", "one"))
        assert (await message(ml, "u1"))[1]["response"].startswith("Agent execution failed: ")
        await changed(ml, "u1", additional_info={"seen": "yes"})
        assert (await message(ml, "u1"))[1]["response"].startswith("Agent execution failed: ")
        await changed(ml, "u1", response="by hand")
        assert (await message(ml, "u1"))[1]["response"] == "by hand"
        assert (await traces(ml, "u1"))["traces"] == []


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({}, "give response or additional_info"),
        ({"input": "x"}, "give response"),
        ({"response": 1}, "must be a string"),
    ],
)
async def test_a_change_that_says_nothing_is_refused(tmp_path: Path, words: dict[str, Any], reason: str) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "echo", user("u1", "one"))
        status, refused = await changed(ml, "u1", **words)
    assert status == 400
    assert reason in refused["error"]["reason"]


async def test_metadata_of_a_clients_own_changes_nothing_that_it_does_not_fit(tmp_path: Path) -> None:
    wrong = {"create_time": "x", "update_time": [1], "prompt_template": 1, "origin": {}, "additional_info": [1]}
    far = {"create_time": 1e300, "update_time": -1, "begins": "yes", "is_answer": 1}
    async with ml_gateway(tmp_path, AGENTS) as ml:
        for number, note in enumerate([wrong, far, "text", 5]):
            said_by = {**user(f"u{number}", "hello"), "metadata": {"ml_commons": note}}
            await run(ml, "echo", said_by, thread_id=f"t{number}")
            status, seen = await message(ml, f"u{number}")
            assert (status, seen["input"], seen["origin"]) == (200, "hello", "echo")
            assert "additional_info" not in seen
            assert seen["create_time"] <= seen["updated_time"]


# --- traces


async def test_the_steps_of_a_turn_are_its_traces(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", user("u1", "2 and 3?"))
        read = (await traces(ml, "u1"))["traces"]
        assert [each["trace_number"] for each in read] == [1, 2, 3, 4, 5]
        assert {(each["parent_message_id"], each["memory_id"]) for each in read} == {("u1", "t")}
        members = {"memory_id", "message_id", "create_time", "updated_time", "input", "response", "origin"}
        assert {*read[0]} == {*read[1]} == members | {"parent_message_id", "trace_number"}
        assert [(each["origin"], each["input"], each["response"]) for each in read[:3]] == [
            (
                "LLM",
                "2 and 3?",
                '{"thought":"I add.","action":"add","action_input":"{\\"a\\":2,\\"b\\":3}"}\n'
                '{"action":"refund","action_input":"{\\"order_id\\":\\"o\\",\\"amount\\":-1}"}',
            ),
            ("add", '{"a":2,"b":3}', "5.0"),
            ("refund", '{"order_id":"o","amount":-1}', read[2]["response"]),
        ]
        assert '"thought":"Once more."' in read[3]["response"]
        assert (await message(ml, "u1"))[1]["response"] == "It is 5."
        assert await message(ml, read[1]["message_id"]) == (200, read[1])
        assert (await traces(ml, read[1]["message_id"]))["traces"] == []


async def test_traces_come_page_by_page(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", user("u1", "2 and 3?"))
        page = await traces(ml, "u1", "?max_results=2&next_token=2")
        assert ([each["trace_number"] for each in page["traces"]], page["next_token"]) == ([3, 4], 4)
        page = await traces(ml, "u1", "?max_results=2&next_token=4")
        assert ([each["trace_number"] for each in page["traces"]], "next_token" in page) == ([5], False)


async def test_a_step_of_a_run_is_not_changed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", user("u1", "2 and 3?"))
        step = (await traces(ml, "u1"))["traces"][1]["message_id"]
        status, refused = await changed(ml, step, response="6")
        assert status == 400
        assert "change its interaction 'u1'" in refused["error"]["reason"]


async def test_a_waiting_call_and_what_a_failed_model_said_are_traces(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "asking", user("u1", "choose"), tools=[PICK])
        (waits,) = (await traces(ml, "u1"))["traces"]
        assert '"action":"pick"' in waits["response"]
        assert (await message(ml, "u1"))[1]["response"] == "Choose."
        await run(ml, "failing", user("u2", "one"), thread_id="t2")
        (partial,) = (await traces(ml, "u2"))["traces"]
        assert partial["response"] == "so far"


async def test_a_trace_is_put_to_an_interaction_and_read_and_changed(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id = (await ml.call("POST", "/memory"))[1]["memory_id"]
        parent = await posted(ml, memory_id, input="q", response="a")
        second = await posted(ml, memory_id, response="late", parent_message_id=parent, trace_number=7)
        words = {"input": "x", "response": "y", "origin": "Tool", "additional_info": {"k": "v"}}
        first = await posted(ml, memory_id, parent_interaction_id=parent, trace_number=1, **words)
        third = await posted(ml, memory_id, response="last", parent_message_id=parent)
        read = (await traces(ml, parent))["traces"]
        assert [(each["message_id"], each["trace_number"]) for each in read] == [(first, 1), (second, 7), (third, 8)]
        assert read[0] == {
            "memory_id": memory_id,
            "message_id": first,
            "create_time": read[0]["create_time"],
            "updated_time": read[0]["create_time"],
            "parent_message_id": parent,
            "trace_number": 1,
            **words,
        }
        assert await message(ml, first) == (200, read[0])
        assert (await changed(ml, first, response="z", additional_info={"more": "w"}))[0] == 200
        _, seen = await message(ml, first)
        assert (seen["response"], seen["additional_info"]) == ("z", {"k": "v", "more": "w"})
        _, listed = await ml.call("GET", f"/memory/{memory_id}/messages")
        assert [each["message_id"] for each in listed["messages"]] == [parent]
        assert await said(ml, memory_id) == ["q", "a"]


async def test_a_trace_stands_behind_those_of_the_run(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", user("u1", "2 and 3?"))
        await posted(ml, "t", response="mine", parent_message_id="u1")
        assert [each["trace_number"] for each in (await traces(ml, "u1"))["traces"]] == [1, 2, 3, 4, 5, 6]


async def test_a_trace_of_nothing_is_refused(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id = (await ml.call("POST", "/memory"))[1]["memory_id"]
        path = f"/memory/{memory_id}/messages"
        status, refused = await ml.call("POST", path, {"response": "x", "trace_number": 1})
        assert (status, refused["error"]["fields"][0]["field"]) == (400, "/trace_number")
        status, missing = await ml.call("POST", path, {"response": "x", "parent_message_id": "nope"})
        assert (status, missing["error"]["reason"]) == (404, "Message [nope] not found")


async def test_the_traces_of_a_deleted_memory_are_gone(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        memory_id = (await ml.call("POST", "/memory"))[1]["memory_id"]
        parent = await posted(ml, memory_id, input="q")
        trace = await posted(ml, memory_id, response="x", parent_message_id=parent)
        await ml.call("DELETE", f"/memory/{memory_id}")
        assert (await message(ml, trace))[0] == 404


async def test_opensearchs_client_reads_and_changes_a_message(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, AGENTS) as ml:
        await run(ml, "calculator", user("u1", "2 and 3?"))
        perform = ml.opensearch.transport.perform_request
        assert (await perform("GET", f"{P}/memory/message/u1"))["response"] == "It is 5."
        assert len((await perform("GET", f"{P}/memory/message/u1/traces"))["traces"]) == 5
        answer = await perform("PUT", f"{P}/memory/message/u1", body={"response": "Five."})
        assert answer["result"] == "updated"
        assert (await perform("GET", f"{P}/memory/message/u1"))["response"] == "Five."
