"""AG-UI cases 1 to 18, 25, 35 and 36: what a client may send, and what of it reaches the provider.

The cases are those of the protocol's own prose (https://docs.ag-ui.com/spec/1.0/basic/run-input, .../basic/messages);
where they allow two outcomes, the test's docstring says which one the gateway picks, and why.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.agui_client import NodeClients
from tests.case_tools import PIXEL
from tests.observed_runs import observe, post, run_client, said, thread_messages
from tests.openai_chat_server import ChatServer, completion
from tests.running_gateway import LocalGateway, agent, run_body, scripted

pytestmark = pytest.mark.asyncio(loop_scope="session")

Fresh = Callable[[str], str]
Json = dict[str, Any]

TEXT_RUN = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
AGENTS = [agent("greeter", scripted([{"text": "Hello there"}]))]
SERVER = {"cors_origins": ["https://app.example"]}


def user(text: object, id: str = "u1") -> Json:
    return {"id": id, "role": "user", "content": text}


def assistant(*calls: str, id: str = "a1", **more: object) -> Json:
    """An answer of somebody's that calls `look` once for each id."""
    made = [{"id": call, "type": "function", "function": {"name": "look", "arguments": "{}"}} for call in calls]
    return {"id": id, "role": "assistant", **({"toolCalls": made} if made else {}), **more}


def result(call_id: str, content: object, *, id: str = "", **more: object) -> Json:
    return {"id": id or f"t-{call_id}", "role": "tool", "toolCallId": call_id, "content": content, **more}


async def provider_messages(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, messages: list[Json], **more: Any
) -> list[Json]:
    """What the provider is sent of these messages; the run ends well."""
    upstream.answers(completion("ok"))
    body = run_body(messages=messages, thread_id=fresh("thread"), run_id=fresh("run"), **more)
    seen = await observe(gateway, "openai", body)
    assert seen.last["type"] == "RUN_FINISHED"
    assert seen.text == "ok"
    assert len(upstream.requests) == 1
    received: list[Json] = upstream.requests[0].json["messages"]
    return received


# --- 1 to 3: the least and the usual


async def test_case_01_a_text_turn_reaches_every_client(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    """S T+ T T- F; RUN_STARTED names the server's protocol version to every client; the role is explicit."""
    agent = await clients.create(gateway.client.run_url("greeter"), thread_id=fresh("thread"))

    report = await run_client(gateway, agent, fresh("run"), text="hi")

    assert report.event_types == TEXT_RUN
    assert report.events[0]["protocolVersion"] == "1.0"
    assert report.events[1]["role"] == "assistant"
    assert [message["content"] for message in report.new_messages] == ["Hello there"]
    assert said(report.messages) == said(await thread_messages(gateway, agent.thread_id))


@pytest.mark.parametrize("version", ["1.0", None])
async def test_case_01_the_frames_of_a_text_turn(gateway: LocalGateway, fresh: Fresh, version: str | None) -> None:
    seen = await observe(
        gateway, "greeter", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), version=version)
    )

    assert seen.types == TEXT_RUN
    assert seen.one("RUN_STARTED")["protocolVersion"] == "1.0"
    assert seen.text == "Hello there"
    assert ("outcome" in seen.last) == (version is not None)


async def test_case_02_a_minimal_body_is_served(gateway: LocalGateway, fresh: Fresh) -> None:
    body = {"threadId": fresh("thread"), "runId": fresh("run"), "messages": [user("hi")]}

    assert (await observe(gateway, "greeter", body)).types == TEXT_RUN


async def test_case_03_null_is_the_same_as_absent(gateway: LocalGateway, fresh: Fresh) -> None:
    optional = ("tools", "context", "state", "forwardedProps", "resume", "parentRunId", "protocolVersion")
    body = {"threadId": fresh("thread"), "runId": fresh("run"), "messages": [user("hi")], **dict.fromkeys(optional)}

    response = await post(gateway, "/agents/greeter/run", body)

    assert response.status_code == 200
    assert b'"parentRunId"' not in response.content


# --- 4 to 7: nothing, wrong, unknown


async def test_case_04_no_messages_at_all_are_served(gateway: LocalGateway, upstream: ChatServer, fresh: Fresh) -> None:
    """Served or a clean 4xx: served. A thread goes on where it stands, and one without a word is the model's to open:
    a client that shows a greeting before the user says anything needs it, and nothing in the protocol forbids it."""
    sent = await provider_messages(gateway, upstream, fresh, [])

    assert sent == [{"role": "user", "content": "(the conversation begins)"}]  # no provider takes an empty list


MALFORMED: dict[str, tuple[bytes, int, list[str]]] = {
    "not JSON": (b'{"threadId": ', 400, []),
    "an array": (b"[]", 422, [""]),
    "no threadId": (b'{"runId": "r", "messages": []}', 422, ["/threadId"]),
    "a message id that is a number": (
        b'{"threadId": "t", "runId": "r", "messages": [{"id": 7, "role": "user", "content": "x"}]}',
        422,
        ["/messages/0/id"],
    ),
    "a context value that is an object": (
        b'{"threadId": "t", "runId": "r", "messages": [], "context": [{"description": "d", "value": {}}]}',
        422,
        ["/context/0/value"],
    ),
    "several at once": (
        b'{"threadId": "", "runId": 3, "messages": [{"role": "user", "content": 1}], "tools": [{"name": "a"}]}',
        422,
        ["/threadId", "/runId", "/messages/0/content", "/tools/0/description"],
    ),
    "a control character": (b'{"threadId": "a\\nb", "runId": "r", "messages": []}', 422, ["/threadId"]),
    "a run id that is too long": (
        b'{"threadId": "t", "runId": "' + b"r" * 257 + b'", "messages": []}', 422, ["/runId"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MALFORMED)
async def test_case_05_malformed_bodies_are_refused_with_their_fields(gateway: LocalGateway, what: str) -> None:
    """400 for what is not JSON, 422 with a pointer for each wrong field; CORS headers are on the refusal too."""
    body, status, pointers = MALFORMED[what]

    response = await post(gateway, "/agents/greeter/run", body, headers={"origin": "https://app.example"})

    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"  # HttpAgent reads the payload only then
    assert response.headers["access-control-allow-origin"] == "https://app.example"
    problem = response.json()
    assert problem["status"] == status
    assert sorted(error["pointer"] for error in problem["errors"]) == sorted(pointers)
    assert problem["code"] == ("invalid_json" if status == 400 else "invalid_request")


async def test_case_05_the_client_is_told_why_it_was_refused(
    gateway: LocalGateway, clients: NodeClients, fresh: Fresh
) -> None:
    agent = await clients.create(gateway.client.run_url("greeter"), thread_id="thread\u0007bell")

    report = await agent.run(run_id=fresh("run"))

    assert report.rejection is not None
    assert report.rejection.status == 422
    assert isinstance(report.rejection.payload, dict)
    assert report.rejection.payload["errors"] == [
        {"pointer": "/threadId", "detail": "expected 1 to 256 characters without control characters"}
    ]
    clients.console.clear()  # its own report of the failed run


async def test_case_06_unknown_members_are_left_out_with_a_warning(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        sent = await provider_messages(
            gateway, upstream, fresh, [{**user("hi"), "mood": "good"}], clientInfo={"name": "future"}
        )

    assert sent == [{"role": "user", "content": "hi"}]
    warned = str([vars(record) for record in caplog.records])
    assert "mood" in warned
    assert "clientInfo" in warned


async def test_case_07_a_message_of_an_unknown_role_is_left_out(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    messages = [{"id": "x", "role": "narrator", "content": 7}, user("hi")]

    with caplog.at_level(logging.WARNING):
        assert await provider_messages(gateway, upstream, fresh, messages) == [{"role": "user", "content": "hi"}]

    assert "narrator" in str([vars(record) for record in caplog.records])


# --- 8 to 11: parts


async def test_case_08_an_image_by_url_reaches_the_model(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    parts = [
        {"type": "text", "text": "what is it?"},
        {"type": "image", "source": {"type": "url", "value": "https://example.org/cat.png", "mimeType": "image/png"}},
    ]

    sent = await provider_messages(gateway, upstream, fresh, [user(parts)])

    assert sent[0]["content"] == [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
    ]


async def test_case_09_image_data_without_its_type_is_refused(gateway: LocalGateway, fresh: Fresh) -> None:
    parts = [{"type": "image", "source": {"type": "data", "value": PIXEL}}]
    body = run_body(messages=[user(parts)], thread_id=fresh("thread"), run_id=fresh("run"))

    response = await post(gateway, "/agents/greeter/run", body)

    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["/messages/0/content/0/source/mimeType"]


async def test_case_10_parts_that_nobody_can_take_are_left_out_and_binary_is_translated(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    """A part of an unknown type or source disappears; a file of another provider becomes a note to the model, so that
    it can say that it did not see it; the `binary` part of old clients is the medium that it holds."""
    parts = [
        {"type": "text", "text": "look"},
        {"type": "hologram", "value": 1},
        {"type": "image", "source": {"type": "telepathy", "value": "x"}},
        {"type": "document", "source": {"type": "file", "value": "file-9", "provider": "elsewhere"}},
        {"type": "binary", "mimeType": "image/png", "data": PIXEL},
        {"type": "binary", "mimeType": "application/pdf", "data": "JVBERi0=", "filename": "a.pdf"},
    ]

    sent = await provider_messages(gateway, upstream, fresh, [user(parts)])

    content = sent[0]["content"]
    assert [part["type"] for part in content] == ["text", "text", "image_url", "file"]
    assert "file-9" not in json.dumps(content)
    assert content[1]["text"] == "(a document was left out: it is kept by another provider)"
    assert content[2]["image_url"]["url"] == f"data:image/png;base64,{PIXEL}"
    assert content[3]["file"] == {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}


async def test_case_11_the_gateway_fetches_no_address_of_a_client_for_chat_completions(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    """Refused, or passed through by policy: an http(s) URL goes to the provider as it is, whose network it is then;
    anything else is left out. (Where the gateway itself has to fetch, for Converse, private addresses are refused.)"""
    inside = f"http://127.0.0.1:{upstream.port}/latest/meta-data"
    parts = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "url", "value": inside}},
        {"type": "image", "source": {"type": "url", "value": "file:///etc/passwd"}},
    ]

    sent = await provider_messages(gateway, upstream, fresh, [user(parts)])  # and nothing else reached that port

    assert sent[0]["content"][1] == {"type": "image_url", "image_url": {"url": inside}}
    assert sent[0]["content"][2] == {
        "type": "text",
        "text": "(an image was left out: the model cannot reach it where it is)",
    }
    assert [request.target for request in upstream.requests] == ["/v1/chat/completions"]


# --- 12 to 18: histories of any shape


@pytest.mark.parametrize("content", ["", None, "absent"])
async def test_case_12_an_answer_without_words_but_with_calls_is_valid_history(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, content: str | None
) -> None:
    words: Json = {} if content == "absent" else {"content": content}
    messages = [user("hi"), assistant("c1", **words), result("c1", "seen")]

    sent = await provider_messages(gateway, upstream, fresh, messages)

    assert [message["role"] for message in sent] == ["user", "assistant", "tool"]
    assert sent[1]["content"] is None
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["c1"]
    assert (sent[2]["tool_call_id"], sent[2]["content"]) == ("c1", "seen")


async def test_case_13_a_result_of_parts_gives_its_text_to_the_model_and_shows_the_medium(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    parts = [
        {"type": "text", "text": "a pixel"},
        {"type": "image", "source": {"type": "data", "value": PIXEL, "mimeType": "image/png"}},
        {"type": "hologram"},
    ]

    sent = await provider_messages(gateway, upstream, fresh, [user("hi"), assistant("c1"), result("c1", parts)])

    assert sent[2]["content"].startswith("a pixel")
    assert sent[3]["role"] == "user"
    assert sent[3]["content"][-1]["image_url"]["url"].endswith(PIXEL)


async def test_case_14_an_orphan_result_is_dropped_with_a_warning(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        sent = await provider_messages(gateway, upstream, fresh, [user("hi"), result("nobody", "x")])

    assert sent == [{"role": "user", "content": "hi"}]
    assert "nobody" in str([vars(record) for record in caplog.records])


@pytest.mark.parametrize("ids", [("t1", "t2"), ("t1", "t1")])
async def test_case_15_of_two_results_one_reaches_the_provider(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, ids: tuple[str, str]
) -> None:
    """The last one: a client that corrects a result means what it said last."""
    messages = [user("hi"), assistant("c1"), result("c1", "first", id=ids[0]), result("c1", "last", id=ids[1])]

    sent = await provider_messages(gateway, upstream, fresh, messages)

    assert [(m["role"], m.get("content")) for m in sent] == [("user", "hi"), ("assistant", None), ("tool", "last")]


async def test_case_16_a_call_left_behind_by_a_new_question_gets_an_error_result_for_the_model_alone(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    upstream.answers(completion("ok"))
    thread_id = fresh("thread")
    messages = [user("hi"), assistant("c1"), user("never mind", "u2")]

    seen = await observe(gateway, "openai", run_body(messages=messages, thread_id=thread_id, run_id=fresh("run")))

    sent = upstream.requests[0].json["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
    assert sent[2]["tool_call_id"] == "c1"
    assert sent[2]["content"].startswith("Error: ")
    assert seen.of("TOOL_CALL_RESULT") == []  # nothing is made up on the wire, nor in the thread
    assert [m["role"] for m in await thread_messages(gateway, thread_id)] == ["user", "assistant", "user", "assistant"]


async def test_case_17_the_model_sees_that_a_frontend_tool_failed(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    messages = [user("hi"), assistant("c1"), result("c1", "partly", error="the camera is off")]

    sent = await provider_messages(gateway, upstream, fresh, messages)

    assert sent[2]["content"] == "Error: partly\nthe camera is off"


async def test_case_18_results_out_of_order_and_an_answer_per_call_become_what_providers_take(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    messages = [
        user("hi"),
        assistant("c1", id="a1"),
        assistant("c2", id="a2"),
        result("c2", "two"),
        result("c1", "one"),
    ]

    sent = await provider_messages(gateway, upstream, fresh, messages)

    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in sent[1]["tool_calls"]] == ["c1", "c2"]
    assert [(m["tool_call_id"], m["content"]) for m in sent[2:]] == [("c1", "one"), ("c2", "two")]


# --- 25, 35, 36: tools, state and context


async def test_case_25_tools_without_or_with_empty_or_huge_parameters_are_accepted(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    huge = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 50} for n in range(2000)}}
    tools = [
        {"name": "bare", "description": "No parameters."},
        {"name": "empty", "description": "Empty parameters.", "parameters": {}},
        {"name": "huge", "description": "Many parameters.", "parameters": huge},
    ]

    await provider_messages(gateway, upstream, fresh, [user("hi")], tools=tools)

    declared = {tool["function"]["name"]: tool["function"] for tool in upstream.requests[0].json["tools"]}
    assert set(declared) == {"add", "bare", "empty", "huge"}
    for name in ("bare", "empty"):
        assert declared[name]["parameters"]["type"] == "object"
        assert declared[name]["parameters"].get("properties", {}) == {}
    assert len(declared["huge"]["parameters"]["properties"]) == 2000


@pytest.mark.parametrize("state", ["absent", None, [], [1, 2], "words", 7, {"a": 1}])
async def test_case_35_any_state_is_taken(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh, state: object
) -> None:
    """Nothing is sent back that the client has already; what is not empty is shown to the model as it is."""
    upstream.answers(completion("ok"))
    more: Json = {} if state == "absent" else {"state": state}

    seen = await observe(gateway, "openai", run_body("hi", thread_id=fresh("thread"), run_id=fresh("run"), **more))

    assert seen.of("STATE_SNAPSHOT", "STATE_DELTA") == []
    system = [m["content"] for m in upstream.requests[0].json["messages"] if m["role"] == "system"]
    assert (system == []) == (state in ("absent", None, []))
    assert not system or system[0].endswith(json.dumps(state, separators=(",", ":")))


async def test_case_36_context_is_visible_to_the_model_and_no_message(
    gateway: LocalGateway, upstream: ChatServer, fresh: Fresh
) -> None:
    upstream.answers(completion("ok"))
    thread_id = fresh("thread")
    context = [{"description": "the page", "value": "checkout"}, {"description": "the user", "value": "Ada"}]

    await observe(gateway, "openai", run_body("hi", thread_id=thread_id, run_id=fresh("run"), context=context))

    sent = upstream.requests[0].json["messages"]
    assert sent[0]["role"] == "system"
    assert "the page: checkout" in sent[0]["content"]
    assert "the user: Ada" in sent[0]["content"]
    assert [m["role"] for m in await thread_messages(gateway, thread_id)] == ["user", "assistant"]
