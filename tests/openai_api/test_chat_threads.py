"""A conversation over Chat Completions and its thread: what stays, what makes a version, what is repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.case_tools import executions
from tests.chat_scene import WEATHER, ChatGateway, chat_gateway
from tests.running_gateway import agent, run_body, scripted

ADD: dict[str, Any] = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
REFUND: dict[str, Any] = {
    "type": "PythonTool",
    "parameters": {"function": "tests.case_tools:refund"},
    "approval": "always",
}
KEY = {"name": "ann", "key": "ann-key-of-the-tests", "approvals": True}
ADDER = agent(
    "helper",
    scripted(
        [
            {"reasoning": "hm", "signature": "sealed"},
            {"text": "I add."},
            {"tool": "add", "arguments": {"a": 2, "b": 3}},
        ],
        [{"text": "It is {{result}}."}],
        rules=[
            {"when": {"system_contains": "French"}, "response": [{"text": "Bonjour."}]},
            {"when": {"last_user_contains": "thanks"}, "response": [{"text": "Welcome."}]},
            {
                "when": {"last_user_contains": "weather", "turn": 0},
                "response": [{"tool": "weather", "arguments": {"city": "Rome"}}, {"tool": "weather"}],
            },
            {"when": {"after_tool": "weather"}, "response": [{"text": "It is {{result}}."}]},
        ],
    ),
    tools=[ADD],
)
REFUNDER = agent(
    "refunder",
    scripted(
        [{"text": "I ask."}, {"tool": "refund", "arguments": {"order": "7"}}],
        [{"text": "Done: {{result}}."}],
        rules=[{"when": {"last_user_contains": "thanks"}, "response": [{"text": "Welcome."}]}],
    ),
    tools=[REFUND],
)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def texts(messages: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in messages]


SUM = [
    ("user", "sum"),
    ("reasoning", "hm"),
    ("assistant", "I add."),
    ("tool", "5.0"),
    ("assistant", "It is 5.0."),
]


async def test_a_history_that_is_sent_again_goes_on_with_the_thread_as_it_is(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answer = await scene.ask([user("sum")], "t1")
        before = await scene.stored("t1")
        copy = {"role": "assistant", "content": [{"type": "text", "text": f"{answer['content']} \n"}]}
        await scene.ask([user("sum"), copy, user("thanks")], "t1")
        after = await scene.stored("t1")
        versions = await scene.versions("t1")

    assert texts(before) == SUM
    assert after[: len(before)] == before
    assert texts(after[len(before) :]) == [("user", "thanks"), ("assistant", "Welcome.")]
    assert versions == 1


async def test_the_last_answer_given_again_is_a_version_of_the_thread(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answer = await scene.ask([user("sum")], "t1")
        begin = [user("sum"), answer, user("thanks")]
        await scene.ask(begin, "t1")
        first = await scene.stored("t1")
        await scene.ask(begin, "t1")
        again = await scene.stored("t1")
        versions, kept = await scene.versions("t1"), await scene.stored("t1", version=1)

    assert versions == 2
    assert kept == first
    assert again[:-1] == first[:-1]
    assert again[-1]["id"] != first[-1]["id"]


async def test_an_edit_is_a_version_that_keeps_what_stands_before_it(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answer = await scene.ask([user("sum")], "t1")
        history = [user("sum"), answer, user("thanks")]
        history.append(await scene.ask(history, "t1"))
        stored = await scene.stored("t1")
        await scene.ask([*history[:2], user("many thanks")], "t1")
        edited = await scene.stored("t1")
        versions, kept = await scene.versions("t1"), await scene.stored("t1", version=1)

    assert versions == 2
    assert kept == stored
    assert edited[:5] == stored[:5]
    assert texts(edited[5:]) == [("user", "many thanks"), ("assistant", "Welcome.")]


async def test_a_thread_without_a_name_is_short_lived_and_stands_in_no_list(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answer = await scene.post({"model": "helper", "messages": [user("thanks")]})
        await scene.ask([user("thanks")], "t1")
        listed = [thread["id"] for thread in (await scene.gateway.client.get("/threads"))["threads"]]
        stored = await scene.stored(answer.headers["x-thread-id"])

    assert listed == ["t1"]
    assert texts(stored) == [("user", "thanks"), ("assistant", "Welcome.")]


async def test_who_asks_is_no_thread(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answers = [await scene.post({"model": "helper", "messages": [user("thanks")], "user": "ann"}) for _ in range(2)]

    assert len({answer.headers["x-thread-id"] for answer in answers}) == 2


@pytest.mark.parametrize(
    ("body", "headers", "param"),
    [
        ({"metadata": {"thread_id": "a\nb"}}, {}, "metadata.thread_id"),
        ({"metadata": {"thread_id": "x" * 257}}, {}, "metadata.thread_id"),
        ({}, {"x_thread_id": "x" * 257}, None),
    ],
)
async def test_what_can_be_no_id_of_a_thread_is_refused(
    tmp_path: Path, body: dict[str, Any], headers: dict[str, str], param: str | None
) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        answer = await scene.post({"model": "helper", "messages": [user("thanks")], **body}, **headers)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
    assert "must be the id of a thread" in answer.json()["error"]["message"]


async def test_a_thread_may_have_any_name(tmp_path: Path) -> None:
    thread_id, run_id = "поток 1", "прогон 1"
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        await scene.gateway.client.run("helper", run_body("thanks", thread_id=thread_id, run_id=run_id))
        history = [user("thanks"), said("Welcome."), user("many thanks")]
        noted = await scene.post({"model": "helper", "messages": history, "metadata": {"thread_id": thread_id}})
        headers = {b"x-thread-id": dict(noted.headers.raw)[b"x-thread-id"]}
        again = await scene.http.post(
            "/v1/chat/completions", json={"model": "helper", "messages": history}, headers=headers
        )
        response = await scene.post({"model": "helper", "input": "thanks", "conversation": thread_id}, "/v1/responses")
        stream = await scene.http.get(f"/v1/responses/{quote(run_id)}?stream=true")

    assert [answer.status_code for answer in (noted, again, response, stream)] == [200] * 4
    for answer in (noted, again, response, stream):
        assert dict(answer.headers.raw)[b"x-thread-id"].decode() == thread_id
    assert dict(stream.headers.raw)[b"x-run-id"].decode() == run_id


# --- repeated requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_a_repeated_request_with_a_key_gets_the_answer_of_its_first_run(tmp_path: Path, stream: bool) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        body = {"model": "helper", "messages": [user("sum")], "stream": stream}
        executions.clear()
        first, again = [await scene.post(body, idempotency_key="key-1") for _ in range(2)]
        other = await scene.post({**body, "temperature": 0.5}, idempotency_key="key-1")
        new = await scene.post(body, idempotency_key="key-2")

    assert first.status_code == again.status_code == 200
    assert first.content.replace(b": keep-alive\n\n", b"") == again.content.replace(b": keep-alive\n\n", b"")
    for name in ("x-thread-id", "x-run-id"):
        assert first.headers[name] == again.headers[name] != new.headers[name]
    assert sum(executions.values()) == 2  # of the first key's run, and of the second's
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")


async def test_a_repeated_request_on_a_named_thread_adds_nothing(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        await scene.ask([user("sum")], "t1")
        body = {"model": "helper", "messages": [user("sum"), said("I add.\n\nIt is 5.0."), user("thanks")]}
        first, again = [await scene.post(body, x_thread_id="t1", idempotency_key="key-1") for _ in range(2)]
        stored = await scene.stored("t1")

    assert first.json() == again.json()
    assert texts(stored) == [*SUM, ("user", "thanks"), ("assistant", "Welcome.")]


# --- instructions ------------------------------------------------------------------------------------------------


async def test_leading_instructions_reach_the_model_and_are_not_kept(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        french = await scene.ask([{"role": "system", "content": "Answer in French"}, user("hello")], "t1")
        history = [{"role": "system", "content": "Answer briefly"}, user("hello"), french, user("thanks")]
        welcome = await scene.ask(history, "t1")
        stored, versions = await scene.stored("t1"), await scene.versions("t1")

    assert (french["content"], welcome["content"]) == ("Bonjour.", "Welcome.")
    assert [role for role, _ in texts(stored)] == ["user", "assistant", "user", "assistant"]
    assert versions == 1


# --- calls of the client's tools ---------------------------------------------------------------------------------


async def test_parallel_calls_are_answered_together(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        asked = await scene.ask([user("weather")], "t1", tools=[WEATHER])
        ids = [call["id"] for call in asked["tool_calls"]]
        results = [
            {"role": "tool", "tool_call_id": each, "content": f"rain {number}"} for number, each in enumerate(ids)
        ]
        partly = await scene.post(
            {"model": "helper", "messages": [user("weather"), asked, results[0]], "tools": [WEATHER]}
        )
        answer = await scene.ask([user("weather"), asked, *results], tools=[WEATHER])
        stored = await scene.stored("t1")

    assert (partly.status_code, partly.json()["error"]["param"]) == (400, "messages[1].tool_calls[1].id")
    assert ids[1] in partly.json()["error"]["message"]
    assert answer["content"] == "It is rain 1."
    assert [role for role, _ in texts(stored)] == ["user", "assistant", "tool", "tool", "assistant"]


async def test_a_call_that_came_over_chat_is_answered_over_ag_ui(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [ADDER]) as scene:
        asked = await scene.ask([user("weather")], "t1", tools=[WEATHER])
        stored = await scene.stored("t1")
        ids = [call["id"] for call in asked["tool_calls"]]
        results = [{"id": each, "role": "tool", "toolCallId": each, "content": "rain"} for each in ids]
        tools = [{"name": "weather", "description": "", "parameters": {"type": "object"}}]
        body = run_body(thread_id="t1", messages=[*stored, *results], tools=tools)
        frames = await scene.gateway.client.run("helper", body)
        chat = [user("weather"), asked, *({"role": "tool", "tool_call_id": each, "content": "rain"} for each in ids)]
        welcome = await scene.ask([*chat, said("It is rain."), user("thanks")], "t1", tools=[WEATHER])
        versions = await scene.versions("t1")

    assert frames[-1].type == "RUN_FINISHED"
    assert welcome["content"] == "Welcome."
    assert versions == 1


async def approve(scene: ChatGateway) -> None:
    approvals = (await scene.gateway.client.get("/approvals"))["approvals"]
    answer = await scene.http.post(f"/approvals/{approvals[0]['id']}", json={"approved": True})
    assert answer.status_code == 202, answer.text
    await scene.gateway.client.until_status(answer.json()["runId"], "completed")


async def test_what_waits_for_an_approval_says_so_and_goes_on_behind_it(tmp_path: Path) -> None:
    async with chat_gateway(tmp_path, [REFUNDER], server={"api_keys": [KEY]}) as scene:
        scene.http.headers["authorization"] = f"Bearer {KEY['key']}"
        asked = await scene.post({"model": "refunder", "messages": [user("refund")]}, x_thread_id="t1")
        choice = asked.json()["choices"][0]
        await approve(scene)
        answered = await scene.stored("t1")
        history = [user("refund"), choice["message"], user("thanks")]
        welcome = await scene.ask(history, "t1", model="refunder")
        stored, versions = await scene.stored("t1"), await scene.versions("t1")

    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"].startswith("I ask.\n\n[Approval needed]")
    assert "tool_calls" not in choice["message"]
    assert texts(answered)[-1] == ("assistant", "Done: refunded 7 with 0.")
    assert stored[: len(answered)] == answered
    assert welcome["content"] == "Welcome."
    assert versions == 1
