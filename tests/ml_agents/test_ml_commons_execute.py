"""ml-commons' `_execute` over HTTP: what it answers, and what it keeps. By the rows of the cases."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.case_tools import python_tool
from tests.ml_commons_scene import MlGateway, P, ml_gateway
from tests.ml_executions import ECHO, PNG, executed, refused, tensors
from tests.openai_chat_server import ChatServer, Script, chat_server, completion
from tests.running_gateway import agent, run_body, scripted
from tests.waiting import until_answered

ADDING: list[dict[str, Any]] = [{"text": "let me see"}, {"tool": "add", "arguments": {"a": 2, "b": 3}, "id": "c1"}]
ADDER = agent("adder", scripted(ADDING, [{"text": "It is 5."}]), tools=[python_tool("add")])


async def said_on(ml: MlGateway, memory_id: str) -> list[tuple[str, str]]:
    page = await ml.gateway.client.get(f"/threads/{memory_id}/messages")
    return [(each["role"], each["content"]) for each in page["messages"]]


def chat_agent(server: ChatServer, **more: Any) -> dict[str, Any]:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": server.endpoint}
    return agent("chat", {**model, "credential": {"openai_api_key": "sk-test"}}, **more)


async def test_d9_an_answer_has_its_memory_its_interaction_and_its_words(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        answer = await ml.opensearch.transport.perform_request(
            "POST", f"{P}/agents/echo/_execute", body={"parameters": {"question": "hello"}}
        )
        (result,) = answer["inference_results"]
        assert [each["name"] for each in result["output"]] == ["memory_id", "parent_interaction_id", "response"]
        found = tensors(answer)
        assert found["response"] == {"response": "you said hello", "additional_info": {}}
        assert len(found["memory_id"]) == 20
        page = await ml.gateway.client.get(f"/threads/{found['memory_id']}/messages")
        asked, answered = page["messages"]
        assert asked["id"] == found["parent_interaction_id"]
        assert (asked["content"], answered["content"]) == ("hello", "you said hello")


async def test_d10_a_memory_goes_on_where_it_is_named(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("first"), completion("second"), completion("third"))
        first = await executed(ml, "chat", {"input": "one"})
        second = await executed(ml, "chat", {"input": "two", "parameters": {"memory_id": first["memory_id"]}})
        await executed(ml, "chat", {"input": "three"})
    assert second["memory_id"] == first["memory_id"]
    assert second["parent_interaction_id"] != first["parent_interaction_id"]
    heard = [[(each["role"], each["content"]) for each in request.json["messages"]] for request in server.requests]
    assert heard[1] == [("user", "one"), ("assistant", "first"), ("user", "two")]
    assert heard[2] == [("user", "three")]


async def test_a_memory_of_an_invented_name_is_made(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        found = await executed(ml, "echo", {"input": "hi", "memory": {"session_id": "my own"}})
        assert found["memory_id"] == "my own"
        assert await said_on(ml, "my own") == [("user", "hi"), ("assistant", "you said hi")]


async def test_d13_verbose_gives_every_step(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ADDER]) as ml:
        status, answer = await ml.call(
            "POST", "/agents/adder/_execute", {"input": "2+3?", "parameters": {"verbose": True}}
        )
    assert status == 200
    _, _, *steps = answer["inference_results"][0]["output"]
    assert {each["name"] for each in steps} == {"response"}
    called, result, last = (each["result"] for each in steps)
    assert json.loads(called)["toolCalls"][0]["function"] == {"name": "add", "arguments": '{"a":2,"b":3}'}
    assert (result, last) == ("5.0", "It is 5.")


async def test_the_results_of_tools_are_told_beside_the_answer(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ADDER]) as ml:
        found = await executed(ml, "adder", {"input": "2+3?"})
    assert found["response"] == {"response": "It is 5.", "additional_info": {"add.output": ["5.0"]}}


async def test_media_and_an_early_end_are_told_beside_the_words(tmp_path: Path) -> None:
    steps = [{"text": "look"}, {"medium": PNG, "media_type": "image/png"}, {"stop": "max_tokens"}]
    async with ml_gateway(tmp_path, [agent("painter", scripted(steps))]) as ml:
        found = await executed(ml, "painter", {"input": "paint"})
    assert found["response"] == {
        "response": "look",
        "additional_info": {},
        "content": [{"text": "look"}, {"type": "image", "source": {"type": "base64", "data": PNG, "format": "png"}}],
        "stop_reason": "max_tokens",
    }


async def test_tokens_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("hello"))
        found = await executed(ml, "chat", {"input": "hi", "parameters": {"include_token_usage": "true"}})
    usage = {"input_tokens": 3, "output_tokens": 1, "total_tokens": 4}
    model = {"model_name": "m", "model_id": "m", "model_provider": "openai/v1/chat/completions"}
    assert found["token_usage"] == {
        "per_model_usage": [{**model, **usage, "call_count": 1}],
        "per_turn_usage": [{"turn": 1, **model, **usage}],
    }


async def test_d21_a_call_of_a_tool_that_is_not_there_gets_an_error_and_the_model_goes_on(tmp_path: Path) -> None:
    ghostly = agent(
        "ghostly", scripted([{"tool": "Ghost"}], [{"text": "told: {{result}}"}]), tools=[python_tool("add")]
    )
    async with ml_gateway(tmp_path, [ghostly]) as ml:
        found = await executed(ml, "ghostly", {"input": "boo"})
    assert found["response"]["response"].startswith("told: ")
    assert "Ghost" in found["response"]["response"]


async def test_d22_selected_tools_are_offered_in_the_order_of_the_request(tmp_path: Path) -> None:
    tools = [python_tool(name) for name in ("add", "refund", "fail")]
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server, tools=tools)]) as ml:
        server.answers(completion("a"), completion("b"))
        for selected in (["refund", "Ghost", "add"], '["fail"]'):
            await executed(ml, "chat", {"input": "hi", "parameters": {"selected_tools": selected}})
    offered = [[each["function"]["name"] for each in request.json["tools"]] for request in server.requests]
    assert offered == [["refund", "add"], ["fail"]]


async def test_d25_an_agent_without_tools_answers(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server, tools=[])]) as ml:
        server.answers(completion("plain"))
        found = await executed(ml, "chat", {"input": "hi"})
    assert found["response"]["response"] == "plain"
    assert "tools" not in server.requests[0].json


async def test_the_requests_samplers_and_prompt_are_sent_and_nothing_is_invented(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("a"), completion("b"))
        asked = {"temperature": "0.5", "top_p": 0.9, "max_tokens": "100", "stop": ["END"], "system_prompt": "Be brief."}
        await executed(ml, "chat", {"input": "hi", "parameters": asked})
        await executed(ml, "chat", {"input": "hi"})
    sent, plain = (request.json for request in server.requests)
    assert (sent["temperature"], sent["top_p"], sent["stop"]) == (0.5, 0.9, ["END"])
    assert 100 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert sent["messages"][0] == {"role": "system", "content": "Be brief."}
    assert plain.keys() == {"model", "messages", "stream", "stream_options"}


# --- messages ----------------------------------------------------------------------------------------------------


async def test_c22_messages_are_appended_and_those_with_a_known_id_are_not_repeated(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        first = {"role": "user", "content": "one", "id": "u1"}
        await executed(ml, "echo", {"input": [first], "memory_id": "m"})
        second = {"role": "user", "content": [{"type": "text", "text": "two"}], "id": "u2"}
        found = await executed(ml, "echo", {"input": [first, second], "memory_id": "m"})
        assert found["parent_interaction_id"] == "u2"
        assert await said_on(ml, "m") == [
            ("user", "one"), ("assistant", "you said one"), ("user", "two"), ("assistant", "you said two"),
        ]  # fmt: skip


async def test_every_surface_sends_an_unknown_role_in_front_of_the_words(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server, history="append")]) as ml:
        server.answers(completion("ok"), completion("again"))
        message = {"role": "wizard", "content": "abracadabra", "id": "w1"}
        await executed(ml, "chat", {"input": [message], "memory_id": "m"})
        await ml.gateway.client.run("chat", run_body("hi", thread_id="m"))
        assert (await said_on(ml, "m"))[0] == ("user", "abracadabra")
    for request in server.requests:
        assert request.json["messages"][0] == {"role": "user", "content": "[wizard] abracadabra"}


async def test_a_model_is_shown_as_much_of_the_memory_as_the_request_says(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("a"), completion("b"), completion("c"), completion("d"))
        for text, limit in (("1", None), ("2", None), ("3", "2"), ("4", 0)):
            parameters = {"memory_id": "m"} if limit is None else {"memory_id": "m", "message_history_limit": limit}
            await executed(ml, "chat", {"input": text, "parameters": parameters})
    heard = [[each["content"] for each in request.json["messages"]] for request in server.requests]
    assert heard == [["1"], ["1", "a", "2"], ["2", "b", "3"], ["4"]]


async def test_an_answer_is_given_again_as_a_version_of_the_thread(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(completion("a"), completion("b"))
        first = await executed(ml, "chat", {"input": "one"})
        memory, asked = first["memory_id"], first["parent_interaction_id"]
        parameters = {"memory_id": memory, "regenerate_interaction_id": asked}
        again = await executed(ml, "chat", {"parameters": parameters})
        assert again["parent_interaction_id"] == asked
        assert await said_on(ml, memory) == [("user", "one"), ("assistant", "b")]
        versions = await ml.gateway.client.get(f"/threads/{memory}/versions")
        assert len(versions["versions"]) == 2
        unknown = {"memory_id": memory, "regenerate_interaction_id": "nope"}
        status, error = await refused(ml, "chat", {"parameters": unknown})
    assert status == 404
    assert error["details"].startswith(f"Interaction [nope] not found in memory [{memory}]")


async def test_an_interaction_that_waits_is_answered(tmp_path: Path) -> None:
    failing = agent("failing", scripted([{"error": "invalid", "times": 1}, {"text": "here you are"}]))
    async with ml_gateway(tmp_path, [failing]) as ml:
        message = {"role": "user", "content": "one", "id": "u1"}
        status, _ = await refused(ml, "failing", {"input": [message], "memory_id": "m"})
        assert status == 500
        parameters = {"memory_id": "m", "parent_interaction_id": "u1"}
        found = await executed(ml, "failing", {"parameters": parameters})
        assert found["parent_interaction_id"] == "u1"
        assert await said_on(ml, "m") == [("user", "one"), ("assistant", "here you are")]
        status, error = await refused(ml, "failing", {"parameters": parameters})
    assert (status, error["fields"][0]["field"]) == (400, "/parameters/parent_interaction_id")


# --- what is refused ---------------------------------------------------------------------------------------------


async def test_c1_an_executions_error_has_its_form_and_its_content_type(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        answer = await ml.http.post(f"{P}/agents/echo/_execute", json={"input": ""})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    assert answer.json() == {
        "status": 400,
        "error": {
            "type": "IllegalArgumentException",
            "reason": "Invalid Request",
            "details": "Text input cannot be null or empty",
            "fields": [{"field": "/input", "reason": "send a text"}],
        },
    }


async def refused_execution(tmp_path: Path, body: object) -> str:
    """The details of an input that cannot be used, which is an execution's error."""
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        status, error = await refused(ml, "echo", body)
    assert (status, error["reason"]) == (400, "Invalid Request")
    assert error["fields"]
    details: str = error["details"]
    return details


async def refused_form(tmp_path: Path, body: object) -> str:
    """The reason of an input of no form, which is an error as usual."""
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        status, error = await refused(ml, "echo", body)
    assert (status, error["type"]) == (400, "illegal_argument_exception")
    assert error["fields"]
    reason: str = error["reason"]
    assert error["root_cause"][0]["reason"] == reason
    return reason


@pytest.mark.parametrize("body", [{}, {"junk": 1}])
async def test_c4_a_body_without_an_input_is_refused(tmp_path: Path, body: object) -> None:
    assert await refused_execution(tmp_path, body) == "Agent input data can not be empty."


async def test_c9_an_input_that_is_no_text_and_no_array_is_refused(tmp_path: Path) -> None:
    assert await refused_form(tmp_path, {"input": 42}) == "Invalid input format. Expected string or array."


async def test_c10_an_item_of_no_form_is_refused(tmp_path: Path) -> None:
    said = "Invalid item format. Must have 'role' (for messages) or 'type' (for content blocks)."
    assert await refused_form(tmp_path, {"input": [{"foo": 1}]}) == said


async def test_c12_a_picture_needs_a_format(tmp_path: Path) -> None:
    body = {"input": [{"type": "image", "source": {"type": "url", "data": "https://x/y"}}]}
    assert await refused_form(tmp_path, body) == "Image format is required"


@pytest.mark.parametrize("kind", ["image", "video", "document"])
async def test_c13_another_type_of_source_is_refused_with_those_there_are(tmp_path: Path, kind: str) -> None:
    body = {"input": [{"type": kind, "source": {"type": "bytes", "format": "png", "data": PNG}}]}
    assert await refused_form(tmp_path, body) == "Invalid source type. Supported types: BASE64, URL, S3, FILE"


@pytest.mark.parametrize("given", ["", "   "])
async def test_c15_a_text_without_words_is_refused(tmp_path: Path, given: str) -> None:
    assert await refused_execution(tmp_path, {"input": given}) == "Text input cannot be null or empty"


async def test_c16_a_text_block_without_words_is_refused(tmp_path: Path) -> None:
    said = "Text content block cannot have null or empty text"
    assert await refused_execution(tmp_path, {"input": [{"type": "text", "text": ""}]}) == said


async def test_c18_an_assistants_message_needs_content_or_calls(tmp_path: Path) -> None:
    said = "Assistant message must have either content or tool calls"
    assert await refused_execution(tmp_path, {"input": [{"role": "assistant"}]}) == said


async def test_c19_a_tools_message_needs_its_call_and_content(tmp_path: Path) -> None:
    nameless, empty = {"role": "tool", "content": "x"}, {"role": "tool", "toolCallId": "c1"}
    assert await refused_execution(tmp_path, {"input": [nameless]}) == "Tool message must have toolCallId"
    assert await refused_execution(tmp_path, {"input": [empty]}) == "Tool message must have content"


async def test_c24_ag_ui_is_sent_to_the_stream(tmp_path: Path) -> None:
    assert await refused_form(tmp_path, {"threadId": "t", "runId": "r", "messages": []}) == (
        "AG-UI agents require streaming execution. Please use the streaming endpoint: "
        f"POST {P}/agents/echo/_execute/stream"
    )


async def test_c3_a_feature_that_is_off_is_refused_with_the_setting_that_enables_it(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        for setting, body, said, status in (
            (
                "unified_agent_api_enabled",
                {"input": "hi"},
                "Standardized input cannot be used if unified agent API",
                400,
            ),
            (
                "agent_framework_enabled",
                {"parameters": {"question": "hi"}},
                "Agent Framework is currently disabled",
                403,
            ),
        ):
            name = f"plugins.ml_commons.{setting}"
            await ml.http.put("/_cluster/settings", json={"transient": {name: False}})
            got, error = await refused(ml, "echo", body)
            assert got == status
            assert error["reason"].startswith(said)
            assert name in error["reason"]
            await ml.http.put("/_cluster/settings", json={"transient": {name: None}})
        await executed(ml, "echo", {"input": "hi"})


async def test_without_a_body_the_answer_says_what_to_give(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        answer = await ml.http.post(f"{P}/agents/echo/_execute", headers={"content-type": "application/json"})
    assert answer.status_code == 400
    reason = answer.json()["error"]["reason"]
    assert reason == "request body is required: give 'input', or 'parameters.question'"


async def test_a_body_that_is_no_json_is_an_error_as_usual(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        headers = {"content-type": "application/json"}
        answer = await ml.http.post(f"{P}/agents/echo/_execute", content=b"{", headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (400, 400)
    assert answer.json()["error"]["root_cause"]


async def test_callers_without_a_key_of_an_open_gateway_read_what_they_can_do(tmp_path: Path) -> None:
    failing = agent("failing", scripted([{"error": "authentication", "message": "key 7 is wrong"}]))
    server = {"host": "127.0.0.1", "allow_unauthenticated": True}
    async with ml_gateway(tmp_path, [failing], server=server) as ml:
        status, error = await refused(ml, "failing", {"input": "hi"})
    assert status == 500
    assert "key 7" not in error["details"]


async def test_an_unknown_agent_is_an_executions_404(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        status, error = await refused(ml, "nope", {"input": "hi"})
    assert (status, error["details"]) == (404, "Failed to find agent with the provided agent id: nope")


async def test_an_unexpected_failure_shows_nothing_of_the_inside(tmp_path: Path) -> None:
    crashing = agent("crashing", scripted([{"crash": "KeyError: inner_thing"}]))
    async with ml_gateway(tmp_path, [crashing]) as ml:
        answer = await ml.http.post(f"{P}/agents/crashing/_execute", json={"input": "hi"})
    assert answer.status_code == 500
    for word in ("Traceback", "KeyError", "inner_thing"):
        assert word not in answer.text


async def test_a_configured_models_failure_has_the_gateways_own_words(tmp_path: Path) -> None:
    failing = agent("failing", scripted([{"error": "quota", "message": "no money"}]))
    async with ml_gateway(tmp_path, [failing]) as ml:
        status, error = await refused(ml, "failing", {"input": "hi"})
    assert (status, error["reason"]) == (429, "System Error")
    assert "Error from remote service" not in error["details"]


SLOW = {"message": "slow", "key": "sk-secret-0123456789"}


async def remote_error(tmp_path: Path, script: Script, *, callers_own: bool) -> tuple[int, str]:
    """The status and the details of an execution whose provider answers so."""
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        server.answers(script)
        agent_id = "chat"
        if callers_own:
            agent_id = "own"
            made = await ml.http.put("/agents/own", json={"model": chat_agent(server)["model"]})
            assert made.status_code in (200, 201), made.text
        status, error = await refused(ml, agent_id, {"input": "hi"})
    return status, error["details"]


async def test_c25_an_error_of_the_callers_own_provider_comes_as_it_is_but_for_keys(tmp_path: Path) -> None:
    script = Script(
        429, [json.dumps(SLOW).encode()], "application/json", [("x-should-retry", "false")], framing="length"
    )
    status, details = await remote_error(tmp_path, script, callers_own=True)
    assert status == 429
    assert details == 'Error from remote service: {"message": "slow", "key": "***"}'


async def test_c25_an_error_of_a_configured_agents_provider_has_the_gateways_words(tmp_path: Path) -> None:
    script = Script(418, [json.dumps(SLOW).encode()], "application/json", framing="length")
    status, details = await remote_error(tmp_path, script, callers_own=False)
    assert status == 500
    assert "Error from remote service" not in details


async def test_a_providers_401_asks_for_no_key_of_the_gateway(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path) as ml:
        server.answers(Script(401, [], "application/json", framing="length"))
        await ml.http.put("/agents/own", json={"model": chat_agent(server)["model"]})
        answer = await ml.http.post(f"{P}/agents/own/_execute", json={"input": "hi"})
    assert answer.status_code == 401
    assert answer.json()["error"]["details"] == "Remote service returned error status 401 with empty body"
    assert "www-authenticate" not in answer.headers


async def test_what_a_provider_said_is_cut(tmp_path: Path) -> None:
    script = Script(400, [b"x" * 100_000], "text/plain", framing="length")
    status, details = await remote_error(tmp_path, script, callers_own=True)
    assert status == 400
    assert len(details) < 2_100


async def test_executions_are_counted_and_the_same_request_again_is_another(tmp_path: Path) -> None:
    key = {"name": "alice", "key": "alice-key-of-the-tests", "limits": {"runs_per_minute": 2}}
    async with ml_gateway(tmp_path, [ECHO], server={"api_keys": [key]}) as ml:
        body, auth = {"input": "hi", "memory_id": "m"}, ("alice", "alice-key-of-the-tests")
        first, second, third = [await ml.call("POST", "/agents/echo/_execute", body, auth=auth) for _ in range(3)]
    interactions = {tensors(answer)["parent_interaction_id"] for _, answer in (first, second)}
    assert (first[0], second[0], len(interactions)) == (200, 200, 2)
    status, answer = third
    assert (status, answer["status"], answer["error"]["reason"]) == (429, 429, "System Error")


async def test_an_execution_that_nobody_waits_for_is_a_task(tmp_path: Path) -> None:
    async with ml_gateway(tmp_path, [ECHO]) as ml:
        status, by_query = await ml.call("POST", "/agents/echo/_execute?async=true", {"input": "hi"})
        _, by_body = await ml.call("POST", "/agents/echo/_execute", {"input": "ho", "isAsync": "true"})
        assert (status, by_query["status"]) == (200, "RUNNING")
        for begun, words in ((by_query, "hi"), (by_body, "ho")):
            memory_id = begun["response"]["memory_id"]
            said = await until_answered(lambda: said_on(ml, memory_id), lambda said: len(said) == 2)  # noqa: B023
            assert said == [("user", words), ("assistant", f"you said {words}")]
            assert len(begun["task_id"]) == len(begun["response"]["parent_interaction_id"]) == 20


# --- pauses, leaving, turns --------------------------------------------------------------------------------------


async def test_a_run_that_waits_for_a_person_says_so(tmp_path: Path) -> None:
    asking = agent("asking", scripted(ADDING, [{"text": "It is 5."}]), tools=[python_tool("add", approval="always")])
    async with ml_gateway(tmp_path, [asking]) as ml:
        found = await executed(ml, "asking", {"input": "2+3?"})
    (interrupt,) = found["response"]["interrupts"]
    assert interrupt["toolCallId"] == "c1"


async def test_the_result_of_a_frontend_tool_goes_on_with_the_interaction(tmp_path: Path) -> None:
    calling = agent("calling", scripted([{"tool": "ask", "id": "c9"}], [{"text": "you chose {{result}}"}]))
    async with ml_gateway(tmp_path, [calling]) as ml:
        tools = [{"name": "ask", "description": "d", "parameters": {"type": "object"}}]
        await ml.gateway.client.run("calling", run_body("hi", thread_id="m", tools=tools))
        result = {"role": "tool", "toolCallId": "c9", "content": "red"}
        found = await executed(ml, "calling", {"input": [result], "memory_id": "m"})
    assert found["response"]["response"] == "you chose red"
    assert found["parent_interaction_id"] == "user-run-1"


async def asked_over_socket(ml: MlGateway, path: str, body: object) -> asyncio.StreamWriter:
    """A request whose answer nobody reads."""
    url, content = ml.http.base_url, json.dumps(body).encode()
    _, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST {path} HTTP/1.1\r\nhost: {url.host}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
    return writer


async def test_an_execution_goes_on_when_its_caller_leaves(tmp_path: Path) -> None:
    impatient = {"disconnect_grace_seconds": 0}
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)], server=impatient) as ml:
        hold = asyncio.Event()
        script = completion("late")
        script.headers_after = hold
        server.answers(script)
        writer = await asked_over_socket(ml, f"{P}/agents/chat/_execute", {"input": "hi", "memory_id": "m"})
        asked = await server.received(1)
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # so that it is seen at once
        writer.transport.abort()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asked.disconnected.wait(), 0.3)
        hold.set()
        said = await until_answered(lambda: said_on(ml, "m"), lambda said: len(said) == 2)
    assert said == [("user", "hi"), ("assistant", "late")]


async def test_a_second_execution_on_a_busy_memory_waits_its_turn(tmp_path: Path) -> None:
    async with chat_server() as server, ml_gateway(tmp_path, [chat_agent(server)]) as ml:
        hold = asyncio.Event()
        script = completion("first")
        script.headers_after = hold
        server.answers(script, completion("second"))
        one = asyncio.create_task(executed(ml, "chat", {"input": "one", "memory_id": "m"}))
        await server.received(1)
        two = asyncio.create_task(executed(ml, "chat", {"input": "two", "memory_id": "m"}))
        await until_answered(
            lambda: ml.http.get("/metrics"), lambda answer: "agui_gateway_runs_waiting 1" in answer.text
        )
        hold.set()
        answers = [(await each)["response"]["response"] for each in (one, two)]
    assert answers == ["first", "second"]
    assert [each["content"] for each in server.requests[1].json["messages"]] == ["one", "first", "two"]
