"""AG-UI cases 30 to 34 and 51 to 57: what a stream holds, who may ask for it, and what is refused before it."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agui_client import NodeClients
from tests.bedrock_server import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    bedrock_server,
    block_stop,
    event,
    hello,
    message_stop,
    metadata,
    thought,
    tool,
)
from tests.case_tools import python_tools
from tests.observed_runs import observe, post, read_observed, run_client, said, thread_messages
from tests.openai_chat_server import ChatServer, Script, chunk, completion, record
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

TEXT = ["TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"]
CALL = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"]
REASONING = [
    "REASONING_START",
    "REASONING_MESSAGE_START",
    "REASONING_MESSAGE_CONTENT",
    "REASONING_MESSAGE_END",
    "REASONING_ENCRYPTED_VALUE",
    "REASONING_END",
]
ADD = {"tool": "add", "arguments": {"a": 2, "b": 3}}
PUT_ALL = [
    {"tool": "put", "arguments": {"key": "a/b~c", "value": {"deep": [1]}}},
    {"tool": "put", "arguments": {"key": "never there", "value": 1}},
    {"tool": "put", "arguments": {"key": "kept", "value": "changed"}},
]
LARGE = {"large": "x" * 500}  # a patch is worth its while
USAGE = {"input_tokens": 100, "output_tokens": 20, "reasoning_tokens": 5, "cached_input_tokens": 60}

AGENTS = [
    agent("greeter", scripted([{"text": "Hello there"}])),
    agent("thinker", scripted([{"reasoning": "Let me think.", "signature": "c2VhbGVk"}, {"text": "I thought."}])),
    agent(
        "talker",
        scripted([{"text": "Let me see."}, ADD, {"text": "One moment."}], [{"text": "It is {{result}}."}]),
        tools=python_tools("add"),
    ),
    agent(
        "stateful",
        scripted([PUT_ALL[0]], [PUT_ALL[1]], [PUT_ALL[2]], [{"tool": "reveal"}], [{"text": "{{result}}"}]),
        tools=python_tools("put", "reveal"),
    ),
    agent("escaping", scripted([PUT_ALL[1]], [PUT_ALL[0]], [{"text": "Done."}]), tools=python_tools("put")),
    agent("odd_state", scripted([{"tool": "put_odd"}], [{"text": "Done."}]), tools=python_tools("put_odd")),
    agent("spender", scripted([ADD, {"usage": USAGE}], [{"text": "5."}, {"usage": USAGE}]), tools=python_tools("add")),
    agent("secretive", scripted([{"text": "5."}, {"usage": {"output_tokens": 3}}])),
]
SERVER = {"cors_origins": ["https://app.example"]}


async def seen_by_client(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh, agent_id: str, **more: Any
) -> tuple[Any, str]:
    """One run of a fresh thread; what the client saw, and the thread's id."""
    agent = await clients.create(gateway.client.run_url(agent_id), thread_id=fresh("thread"), **more)
    return await run_client(gateway, agent, fresh("run"), text="go"), agent.thread_id


# --- 30 to 32: text and reasoning


async def test_case_30_empty_chunks_of_the_provider_are_no_deltas(
    gateway: LocalGateway, upstream: ChatServer, clients: NodeClients, fresh: Fresh
) -> None:
    upstream.answers(completion("", "a", "", "b", ""))

    report, _ = await seen_by_client(gateway, clients, fresh, "openai")

    deltas = [event["delta"] for event in report.events if event["type"] == "TEXT_MESSAGE_CONTENT"]
    assert deltas == ["a", "b"]


async def test_case_31_text_a_call_and_text_again_keep_their_order_and_their_ids(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """Separate ids or one parent: what is said behind the call is a message of its own, so that nothing is reopened."""
    report, thread_id = await seen_by_client(gateway, clients, fresh, "talker")

    starts = [event["messageId"] for event in report.events if event["type"] == "TEXT_MESSAGE_START"]
    assert len(set(starts)) == len(starts) == 3
    assert said(report.messages)[0] == said(await thread_messages(gateway, thread_id))[0]
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, thread_id)))
    (call,) = [event for event in report.events if event["type"] == "TOOL_CALL_START"]
    assert call["parentMessageId"] == starts[0]
    assert report.messages[-1]["content"] == "It is 5.0."


async def test_case_31_the_provider_gets_answer_result_answer(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    add = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":2,"b":3}'}}
    upstream.answers(
        Script(
            pieces=[
                record(chunk({"content": "Let me see."})),
                record(chunk({"tool_calls": [add]})),
                record(chunk({}, "tool_calls")),
            ]
        ),
        completion("It is 5."),
        completion("Welcome."),
    )
    thread_id = fresh("thread")
    await observe(gateway, "openai", run_body("2+3?", thread_id=thread_id, run_id=fresh("run")))
    history = await thread_messages(gateway, thread_id)
    thanks = {"id": "u2", "role": "user", "content": "thanks"}

    await observe(gateway, "openai", run_body(messages=[*history, thanks], thread_id=thread_id, run_id=fresh("run")))

    sent = upstream.requests[2].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["content"] == "Let me see."
    assert [call["function"]["name"] for call in sent[1]["tool_calls"]] == ["add"]


async def test_case_32_reasoning_is_shown_with_its_encrypted_value(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    report, _ = await seen_by_client(gateway, clients, fresh, "thinker")

    assert report.event_types == ["RUN_STARTED", *REASONING, *TEXT, "RUN_FINISHED"]
    sealed = report.events[5]
    assert (sealed["subtype"], sealed["encryptedValue"]) == ("message", "c2VhbGVk")
    assert sealed["entityId"] == report.events[2]["messageId"]
    assert report.events[2]["role"] == "reasoning"
    thoughts = [message for message in report.messages if message["role"] == "reasoning"]
    assert [(m["content"], m["encryptedValue"]) for m in thoughts] == [("Let me think.", "c2VhbGVk")]


async def test_case_32_the_signature_goes_back_to_the_provider_with_the_next_input(
    clients: NodeClients, fresh: Fresh, tmp_path: Path
) -> None:
    """Whatever the client makes of it: the server keeps what the provider sealed by the message's id."""
    pick: Json = {"name": "pick", "description": "Pick.", "parameters": {"type": "object"}}
    async with bedrock_server() as bedrock:
        bedrock.will_stream(
            event("messageStart", role="assistant"),
            thought(0, text="Ask the user.") + thought(0, signature="c2lnbmVk") + block_stop(0),
            tool(1, "tooluse_1", "pick", "{}") + message_stop("tool_use") + metadata(),
        )
        bedrock.will_stream(hello("Blue."))
        claude = {
            "model_provider": "bedrock/converse",
            "model_id": "us.anthropic.claude-sonnet-4-20250514-v1:0",
            "endpoint": bedrock.url,
            "region": REGION,
            "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
        }
        async with local_gateway(tmp_path, [agent("claude", claude)]) as gateway:
            client = await clients.create(gateway.client.run_url("claude"), thread_id=fresh("thread"))
            report = await run_client(gateway, client, fresh("run"), text="a color", tools=[pick])
            (call,) = [call for message in report.messages for call in message.get("toolCalls") or []]  # type: ignore[union-attr]
            answer: Json = {"id": "t1", "role": "tool", "toolCallId": call["id"], "content": "blue"}  # type: ignore[index,call-overload]
            await client.add_message(answer)
            report = await run_client(gateway, client, fresh("run"), tools=[pick])

        assert report.messages[-1]["content"] == "Blue."
        turns = bedrock.requests[1].json["messages"]
        assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
        reasoning = turns[1]["content"][0]["reasoningContent"]["reasoningText"]
        assert reasoning == {"text": "Ask the user.", "signature": "c2lnbmVk"}
        assert "toolUse" in turns[1]["content"][1]


# --- 33, 34: state


async def test_case_33_the_initial_state_reaches_the_tools_and_changes_reach_the_client(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """A snapshot first, or deltas against what was sent: a snapshot, then deltas where these are shorter. Only then is
    it certain that client and server mean the same state. Clients before 1.0 get snapshots alone: some cannot patch."""
    report, _ = await seen_by_client(gateway, clients, fresh, "stateful", initial_state={"kept": "as sent", **LARGE})

    kinds = [kind for kind in report.event_types if kind.startswith("STATE")]
    change = "STATE_DELTA" if clients.version == "1.0.0" else "STATE_SNAPSHOT"
    assert kinds == ["STATE_SNAPSHOT", change, change]
    expected = {**LARGE, "kept": "changed", "a/b~c": {"deep": [1]}, "never there": 1}
    assert report.state == expected
    assert json.loads(report.messages[-1]["content"]) == expected  # what a tool saw


async def test_case_33_keys_with_slash_and_tilde_are_escaped_in_deltas(gateway: LocalGateway, fresh: Fresh) -> None:
    state = {**LARGE, "kept": "changed"}
    seen = await observe(
        gateway, "escaping", run_body("go", thread_id=fresh("thread"), run_id=fresh("run"), state=state)
    )

    (operation,) = seen.one("STATE_DELTA")["delta"]
    assert operation == {"op": "add", "path": "/a~1b~0c", "value": {"deep": [1]}}


async def test_case_34_deltas_never_touch_what_is_not_there(gateway: LocalGateway, fresh: Fresh) -> None:
    """The client's state after all deltas is the server's; a key that is new is added, never replaced."""
    thread_id = fresh("thread")
    seen = await observe(
        gateway, "stateful", run_body("go", thread_id=thread_id, run_id=fresh("run"), state={**LARGE, "kept": 0})
    )

    state: Json = seen.one("STATE_SNAPSHOT")["snapshot"]
    assert len(seen.of("STATE_DELTA")) == 2
    for delta in seen.of("STATE_DELTA"):
        for operation in delta["delta"]:
            key = operation["path"][1:].replace("~1", "/").replace("~0", "~")
            assert operation["op"] == ("replace" if key in state else "add")
            state = {**state, key: operation["value"]}
    thread = await gateway.application.store.load_thread("local", thread_id)
    assert thread is not None
    assert state == thread.state


async def test_case_57_a_state_that_json_does_not_have_is_made_to_be_json(gateway: LocalGateway, fresh: Fresh) -> None:
    seen = await observe(gateway, "odd_state", run_body("go", thread_id=fresh("thread"), run_id=fresh("run")))

    assert seen.one("STATE_SNAPSHOT")["snapshot"] == {"nan": None, "at": "2026-11-20T00:00:00Z"}


# --- 51 to 53: versions and usage


@pytest.mark.parametrize(("version", "warned"), [("1.0", False), ("1.1", True), ("abc", True)])
async def test_case_51_a_version_that_is_newer_or_says_nothing_is_served_as_1_0(
    gateway: LocalGateway, fresh: Fresh, caplog: pytest.LogCaptureFixture, version: str, warned: bool
) -> None:
    with caplog.at_level(logging.WARNING):
        seen = await observe(
            gateway, "greeter", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), version=version)
        )

    assert seen.last["outcome"] == {"type": "success"}
    assert seen.one("RUN_STARTED")["protocolVersion"] == "1.0"
    assert ("newer than this server" in caplog.text) == warned


@pytest.mark.parametrize("version", ["2.0", "9.9"])
async def test_case_51_another_major_version_is_refused_before_the_run_starts(
    gateway: LocalGateway, fresh: Fresh, version: str
) -> None:
    """May be refused: it is. A client of another major version would misread the stream, and learns here what to do."""
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), version=version)

    response = await post(gateway, "/agents/greeter/run", body)

    assert response.status_code == 422
    assert response.json()["code"] == "unsupported_protocol_version"
    assert [error["pointer"] for error in response.json()["errors"]] == ["/protocolVersion"]


async def test_case_51_without_a_version_the_dialect_is_that_of_old_clients(
    gateway: LocalGateway, fresh: Fresh
) -> None:
    seen = await observe(
        gateway, "greeter", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), version=None)
    )

    assert "outcome" not in seen.last


@pytest.mark.parametrize("version", ["1.0", None])
async def test_case_52_no_subagent_or_activity_events_are_sent_unasked(
    gateway: LocalGateway, fresh: Fresh, version: str | None
) -> None:
    """SUBAGENT_*, chunks and THINKING_* are not in this server's words at all: `verify_server` refuses them."""
    for agent_id in ("talker", "thinker", "stateful"):
        seen = await observe(
            gateway, agent_id, run_body("go", thread_id=fresh("thread"), run_id=fresh("run"), version=version)
        )
        assert not [kind for kind in seen.types if kind.startswith(("SUBAGENT", "ACTIVITY"))]


async def test_case_53_usage_is_one_entry_per_model_with_inclusive_totals(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    report, _ = await seen_by_client(gateway, clients, fresh, "spender")

    assert report.events[-1]["usage"] == [
        {
            "provider": "scripted",
            "model": "script",
            "inputTokens": 200,
            "outputTokens": 40,
            "totalTokens": 240,
            "reasoningTokens": 10,
            "cachedInputTokens": 120,
        }
    ]


async def test_case_53_what_the_provider_does_not_say_is_absent(gateway: LocalGateway, fresh: Fresh) -> None:
    run_id = fresh("run")
    seen = await observe(gateway, "secretive", run_body("go", thread_id=fresh("thread"), run_id=run_id))

    assert seen.last["usage"] == [{"provider": "scripted", "model": "script", "outputTokens": 3}]
    (usage,) = (await gateway.client.get(f"/runs/{run_id}"))["usage"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (None, 3)
    assert (usage["reasoningTokens"], usage["cachedInputTokens"], usage["cacheWriteInputTokens"]) == (None, None, None)


# --- 54 to 56: HTTP


@pytest.mark.parametrize("accept", ["application/vnd.ag-ui.event+proto", "*/*", "application/json"])
async def test_case_54_the_answer_is_server_sent_events_whatever_is_accepted(
    gateway: LocalGateway, fresh: Fresh, accept: str
) -> None:
    """SSE always, or 406 for JSON alone: always. Proxies and test tools send the oddest Accept, and nothing is hidden:
    the content type says what comes. Protobuf is not offered, and nothing is ever labelled as it."""
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))

    response = await post(gateway, "/agents/greeter/run", body, headers={"accept": accept})

    assert read_observed(response, body["threadId"], body["runId"]).text == "Hello there"


async def test_case_55_a_preflight_of_a_known_origin_is_answered(gateway: LocalGateway) -> None:
    headers = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, authorization, x-trace",
    }

    response = await gateway.client.http.options("/agents/greeter/run", headers=headers)

    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    assert "POST" in response.headers["access-control-allow-methods"]
    allowed = response.headers["access-control-allow-headers"].split(", ")
    assert {"content-type", "authorization", "x-trace"} <= set(allowed)


async def test_case_55_cors_headers_are_on_streams_and_on_every_refusal(fresh: Fresh, tmp_path: Path) -> None:
    origin = {"origin": "https://app.example"}
    agents = [agent("greeter", scripted([{"text": "Hello there"}]))]
    async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
        body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))
        answers = [
            await post(gateway, "/agents/greeter/run", body, headers=origin),
            await post(gateway, "/agents/greeter/run", b"{", headers=origin),
            await post(gateway, "/agents/nobody/run", body, headers=origin),
            await post(gateway, "/agents/greeter/run", body, headers={**origin, "content-type": "text/plain"}),
            await gateway.client.http.get("/agents/greeter/run", headers=origin),
            await gateway.client.http.get("/runs/nowhere", headers=origin),
        ]
        await gateway.application.driver.shut_down(0)
        answers.append(await post(gateway, "/agents/greeter/run", {**body, "runId": "late"}, headers=origin))

    assert [answer.status_code for answer in answers] == [200, 400, 404, 415, 405, 404, 503]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "x-request-id" in answer.headers["access-control-expose-headers"]
        assert "Origin" in answer.headers["vary"]


async def test_case_55_a_foreign_origin_may_not_even_ask(gateway: LocalGateway, fresh: Fresh) -> None:
    body = run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"))

    response = await post(gateway, "/agents/greeter/run", body, headers={"origin": "https://evil.example"})

    assert response.status_code == 403
    assert response.json()["code"] == "origin_not_allowed"
    assert "access-control-allow-origin" not in response.headers


async def test_case_56_a_body_of_thirty_megabytes_is_refused(gateway: LocalGateway) -> None:
    """Its announced length is enough; without one, counting is."""

    async def unannounced() -> AsyncGenerator[bytes]:
        for _ in range(480):
            yield b" " * 65536

    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    announced = await post(gateway, "/agents/greeter/run", b" " * 30_000_000)
    counted = await gateway.client.http.post("/agents/greeter/run", content=unannounced(), headers=headers)

    for response in (announced, counted):
        assert response.status_code == 413
        assert response.json()["code"] == "body_too_large"


async def test_case_56_json_that_is_nested_too_deep_is_refused(gateway: LocalGateway, fresh: Fresh) -> None:
    body = json.dumps(run_body("hi", state=0)).replace('"state": 0', '"state": ' + "[" * 100_000 + "]" * 100_000)

    response = await post(gateway, "/agents/greeter/run", body.encode())

    assert response.status_code == 400
    assert response.json()["code"] == "invalid_json"


async def test_case_56_a_history_of_ten_thousand_messages_is_served(gateway: LocalGateway, fresh: Fresh) -> None:
    messages = [
        {"id": f"m{number}", "role": ("assistant", "user")[number % 2], "content": f"message {number}"}
        for number in range(10_000)
    ]

    seen = await observe(
        gateway, "greeter", run_body(messages=messages, thread_id=fresh("thread"), run_id=fresh("run"))
    )

    assert seen.text == "Hello there"
