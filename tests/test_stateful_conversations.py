"""Conversations that live at the provider: what is sent, what the model sees of it, and how they get over losses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.agui_client import agui_clients
from tests.fault_scenes import check_ended, executions, fault_tool
from tests.observed_runs import run_client
from tests.openai_chat_server import error
from tests.responses_events import (
    call_item,
    message_item,
    reasoning_item,
)
from tests.responses_rules import accept
from tests.responses_server import responses_server
from tests.running_gateway import agent, local_gateway, run_body
from tests.stateful_scene import ADDING, PICK, StatefulScene, openai_model, stateful_scene, user
from tests.waiting import until

USER = ("user", "Hi")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[StatefulScene]:
    async with stateful_scene(tmp_path) as opened:
        yield opened


# --- what is sent


@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_each_request_brings_only_what_the_chain_does_not_hold(scene: StatefulScene, agent_id: str) -> None:
    """The client sends its whole history each time."""
    scene.agent_id, server = agent_id, scene.server
    server.will_answer(reasoning_item("Hm", encrypted="gAAA1"), call_item(*ADDING, "c1"), call_item(*ADDING, "c2"))
    server.will_answer(message_item("Three"))
    await scene.say("Hi")
    server.will_answer(message_item("Bye"))
    await scene.say("Bye")
    first, second, third = (scene.answered(number) for number in range(3))
    assert scene.sent(0) == (None, [USER])
    assert scene.sent(1) == (first, [("output", "3.0", "c1"), ("output", "3.0", "c2")])
    assert scene.sent(2) == (second, [("user", "Bye")])
    assert scene.shown() == [
        USER,
        ("reasoning",),
        ("call", "add", "c1"),
        ("call", "add", "c2"),
        ("output", "3.0", "c1"),
        ("output", "3.0", "c2"),
        ("assistant", "Three"),
        ("user", "Bye"),
    ]
    for number, request in enumerate(server.requests):
        accept(request.json, server.seen(number))
        assert request.json["store"] is True
        assert request.json["include"] == ["reasoning.encrypted_content"]
        assert [tool["name"] for tool in request.json["tools"]] == ["add", "stuck", "pick"]
    assert third in server.responses


async def test_whoever_is_not_stateful_has_nothing_stored(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi", agent_id="plain")
    scene.server.will_answer(message_item("Bye"))
    await scene.say("Bye", agent_id="plain")
    assert scene.sent() == (None, [USER, ("assistant", "Hello"), ("user", "Bye")])
    assert [request.json["store"] for request in scene.server.requests] == [False, False]
    assert scene.server.responses == {}


async def test_an_unmodified_client_sends_its_history_and_the_provider_gets_the_new_message(
    scene: StatefulScene,
) -> None:
    async with agui_clients("1.0.0") as clients:
        client = await clients.create(scene.gateway.client.run_url("openai"), thread_id="http-agent")
        scene.server.will_answer(call_item(*ADDING, "c1"))
        scene.server.will_answer(message_item("Three"))
        await run_client(scene.gateway, client, "run-1", text="Hi")
        scene.server.will_answer(call_item("pick", "{}", "c2"))
        report = await run_client(scene.gateway, client, "run-2", text="And now?", tools=[PICK])
        assert report.pending_tool_call_ids == ["c2"]
        await client.add_message({"id": "r", "role": "tool", "toolCallId": "c2", "content": "blue"})
        scene.server.will_answer(message_item("Blue"))
        await run_client(scene.gateway, client, "run-3", tools=[PICK])
        assert clients.unhandled == clients.console == []
    news: list[Any] = [[USER], [("output", "3.0", "c1")], [("user", "And now?")], [("output", "blue", "c2")]]
    assert [scene.sent(number)[1] for number in range(4)] == news
    assert [kind for kind, *_ in scene.shown()] == [
        "user",
        "call",
        "output",
        "assistant",
        "user",
        "call",
        "output",
    ]


@pytest.mark.parametrize(("approved", "output"), [(True, "3.0"), (False, "The user denied this call. It was not run.")])
async def test_what_a_person_and_the_browser_answer_later_is_all_that_is_sent(
    tmp_path: Path, approved: bool, output: str
) -> None:
    """A response with a call for each of them: the chain waits for both, whatever comes between."""
    async with asyncio.timeout(30), responses_server() as server:
        tools = [fault_tool("add", approval="always")]
        async with local_gateway(tmp_path, [agent("openai", openai_model(server), tools=tools)]) as gateway:
            scene = StatefulScene(gateway, server)
            server.will_answer(call_item(*ADDING, "call_0"), call_item("pick", "{}", "call_1"))
            await scene.say("Hi")
            server.will_answer(message_item("Done"))
            picked = {"id": "picked", "role": "tool", "toolCallId": "call_1", "content": "blue"}
            answer = {"interruptId": "int-call_0", "status": "resolved", "payload": {"approved": approved}}
            assert (await scene.run(picked, resume=[answer])).text == "Done"
            previous, (first, second) = scene.sent()
            assert previous == scene.answered(0)
            assert (first[0], first[1].removeprefix("Error: "), first[2]) == ("output", output, "call_0")
            assert second == ("output", "blue", "call_1")
            server.will_answer(message_item("Bye"))
            await scene.say("Bye")
            assert scene.sent() == (scene.answered(1), [("user", "Bye")])


async def test_outputs_are_named_as_the_provider_named_the_calls(scene: StatefulScene) -> None:
    """Mantle gives the calls of each response the same ids: here, no two of a thread have the same."""
    for _ in range(2):
        scene.server.will_answer(call_item(*ADDING, "call_0"), call_item("add", '{"a":2,"b":2}', "call_1"))
    scene.server.will_answer(message_item("Done"))
    run = await scene.say("Hi")
    assert len({event["toolCallId"] for event in run.of("TOOL_CALL_START")}) == 4
    for number in (1, 2):
        outputs = [("output", "3.0", "call_0"), ("output", "4.0", "call_1")]
        assert scene.sent(number) == (scene.answered(number - 1), outputs)


async def test_names_of_calls_are_ours_again_where_the_history_was_sent_anew(scene: StatefulScene) -> None:
    for _ in range(2):
        scene.server.will_answer(call_item(*ADDING, "call_0"))
    scene.server.will_answer(message_item("Done"))
    await scene.say("Hi")
    scene.server.expire()
    scene.server.will_answer(call_item("add", '{"a":5,"b":5}', "call_0"))
    scene.server.will_answer(message_item("Ten"))
    await scene.say("More")
    resent, after = scene.sent(-2), scene.sent(-1)
    assert resent[0] is None
    ids = [item[2] for item in resent[1] if item[0] == "call"]
    assert len(set(ids)) == 2
    assert [item[2] for item in resent[1] if item[0] == "output"] == ids
    assert after == (scene.answered(-2), [("output", "10.0", "call_0")])


# --- where the history took another way


async def test_an_edited_message_goes_back_to_the_response_before_it(scene: StatefulScene) -> None:
    for word in ("one", "two", "three"):
        scene.server.will_answer(message_item(f"{word}!"))
        await scene.say(word)
    known = await scene.messages()
    scene.server.will_answer(message_item("two and a half!"))
    await scene.run({"id": "u-new", "role": "user", "content": "two and a half"}, known=known[:2])
    assert scene.sent() == (scene.answered(0), [("user", "two and a half")])
    assert scene.shown() == [("user", "one"), ("assistant", "one!"), ("user", "two and a half")]
    scene.server.will_answer(message_item("four!"))
    await scene.say("four")
    assert scene.sent() == (scene.answered(3), [("user", "four")])
    assert [words for _, words in scene.shown()] == ["one", "one!", "two and a half", "two and a half!", "four"]


async def test_a_message_that_is_edited_in_place_goes_back_too(scene: StatefulScene) -> None:
    for word in ("one", "two"):
        scene.server.will_answer(message_item(f"{word}!"))
        await scene.say(word)
    known = await scene.messages()
    scene.server.will_answer(message_item("zwei!"))
    await scene.run({**known[2], "content": "zwei"}, known=known[:2])
    assert scene.sent() == (scene.answered(0), [("user", "zwei")])
    assert scene.shown() == [("user", "one"), ("assistant", "one!"), ("user", "zwei")]


async def test_an_answer_that_is_asked_for_again_goes_back_to_the_response_before_its_question(
    scene: StatefulScene,
) -> None:
    for word in ("one", "two"):
        scene.server.will_answer(message_item(f"{word}!"))
        await scene.say(word)
    known = await scene.messages()
    scene.server.will_answer(message_item("two, again!"))
    await scene.run(known=known[:3])
    assert scene.sent() == (scene.answered(0), [("user", "two")])
    assert scene.shown() == [("user", "one"), ("assistant", "one!"), ("user", "two")]


async def test_the_first_message_edited_begins_a_new_chain(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("one!"))
    await scene.say("one")
    scene.server.will_answer(message_item("eins!"))
    await scene.run({"id": "u-new", "role": "user", "content": "eins"}, known=[])
    assert scene.sent() == (None, [("user", "eins")])
    scene.server.will_answer(message_item("zwei!"))
    await scene.say("zwei")
    assert scene.sent() == (scene.answered(1), [("user", "zwei")])


# --- chains that cannot go on


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("agent_id", ["openai", "bedrock"])
async def test_an_expired_chain_is_dropped_and_everything_sent_once(
    scene: StatefulScene, agent_id: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene.agent_id, scene.server.not_found_status = agent_id, status
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    lost = scene.answered()
    scene.server.expire()
    scene.server.will_answer(message_item("Still here"))
    with caplog.at_level(logging.WARNING, "gateway.openai.responses_model"):
        run = await scene.say("Are you there?")
    assert run.text == "Still here"
    whole = [USER, ("assistant", "Hello"), ("user", "Are you there?")]
    assert scene.sent(-2) == (lost, [("user", "Are you there?")])
    assert scene.sent(-1) == (None, whole)
    assert scene.shown() == whole
    (record,) = [entry for entry in caplog.records if "cannot be continued" in entry.message]
    assert record.__dict__["response_id"] == lost
    scene.server.will_answer(message_item("Bye"))
    await scene.say("Bye")
    assert scene.sent() == (scene.answered(1), [("user", "Bye")]), "and goes on from there"
    assert scene.shown() == [*whole, ("assistant", "Still here"), ("user", "Bye")]


REFUSALS = [
    (400, "No tool output found for function call c1."),
    (409, "Another process is currently operating on this conversation."),
    (410, "The compute environment of this response is gone."),
    (422, "unprocessable"),
]


@pytest.mark.parametrize(("status", "refusal"), REFUSALS)
async def test_a_chain_that_is_refused_in_other_words_is_begun_anew(
    scene: StatefulScene, status: int, refusal: str
) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    scene.server.answers(error(status, refusal))
    scene.server.will_answer(message_item("Bye"))
    assert (await scene.say("Bye")).text == "Bye"
    assert scene.sent() == (None, [USER, ("assistant", "Hello"), ("user", "Bye")])


async def test_a_chain_that_turns_out_lost_within_the_stream_is_begun_anew(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    lost = {"code": "previous_response_not_found", "message": "Previous response with id 'resp_x' not found."}
    scene.server.will_answer(status="failed", fields={"error": lost})
    scene.server.will_answer(message_item("Bye"))
    assert (await scene.say("Bye")).text == "Bye"
    assert scene.sent() == (None, [USER, ("assistant", "Hello"), ("user", "Bye")])


@pytest.mark.parametrize(
    ("status", "refusal", "code"),
    [
        (400, "context_length_exceeded", "model_context_overflow"),
        (401, "invalid_api_key", "model_authentication"),
        (400, "content_filter", "model_content_filter"),
    ],
)
async def test_what_is_no_matter_of_the_chain_fails_at_once_and_leaves_it(
    scene: StatefulScene, status: int, refusal: str, code: str
) -> None:
    """A context overflow among them: not retried, not shortened, one clear code."""
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    scene.server.answers(error(status, code=refusal))
    failed = await scene.say("More")
    assert failed.last["type"] == "RUN_ERROR"
    assert failed.last["code"] == code
    assert len(scene.server.requests) == 2
    scene.server.will_answer(message_item("Bye"))
    await scene.run(known=await scene.messages())
    assert scene.sent() == (scene.answered(0), [("user", "More")])


async def test_a_response_that_was_cut_off_is_not_continued(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    scene.server.will_answer(message_item("Once upon a"), status="incomplete")
    await scene.say("Tell me a story")
    scene.server.will_answer(message_item("time"))
    await scene.say("Go on")
    told = [("user", "Tell me a story"), ("assistant", "Once upon a"), ("user", "Go on")]
    assert scene.sent() == (scene.answered(0), told)
    assert scene.shown() == [USER, ("assistant", "Hello"), *told]


# --- failures in the middle of a tool loop


async def test_a_call_that_fails_in_a_tool_loop_leaves_a_thread_that_goes_on(scene: StatefulScene) -> None:
    scene.server.will_answer(call_item(*ADDING, "c1"))
    scene.server.will_answer(status="failed", fields={"error": {"code": "invalid_prompt"}})
    failed = await scene.say("Hi")
    assert failed.last["type"] == "RUN_ERROR"
    scene.server.will_answer(message_item("Three"))
    await scene.say("And?")
    assert scene.sent() == (scene.answered(0), [("output", "3.0", "c1"), ("user", "And?")])
    assert scene.shown() == [USER, ("call", "add", "c1"), ("output", "3.0", "c1"), ("user", "And?")]


async def test_a_broken_connection_in_a_tool_loop_is_asked_again_from_the_same_response(scene: StatefulScene) -> None:
    scene.server.will_answer(call_item(*ADDING, "c1"))
    scene.server.will_answer(message_item("lost"), cut_before=2)
    scene.server.will_answer(message_item("Three"))
    assert (await scene.say("Hi")).text == "Three"
    assert [scene.sent(number) for number in (1, 2)] == [(scene.answered(0), [("output", "3.0", "c1")])] * 2
    assert scene.shown() == [USER, ("call", "add", "c1"), ("output", "3.0", "c1")]


async def test_a_tool_that_was_cancelled_is_answered_with_the_next_message(scene: StatefulScene) -> None:
    scene.server.will_answer(call_item("stuck", "{}", "c1"))
    body = run_body("Hi", thread_id="t", run_id="run")
    async with scene.gateway.client.stream("openai", body) as stream:
        await stream.until("TOOL_CALL_END")
        await until(lambda: executions["c1"])
        await scene.gateway.client.http.post("/runs/run/cancel")
        await stream.rest()
    await check_ended(scene.gateway, "run", "cancelled")
    del executions["c1"]
    scene.server.will_answer(message_item("Fine"))
    assert (await scene.say("Never mind")).text == "Fine"
    previous, (output, new) = scene.sent()
    assert previous == scene.answered(0), "the call's output was all that the chain waited for"
    assert (output[0], output[2], new) == ("output", "c1", ("user", "Never mind"))
    assert [kind for kind, *_ in scene.shown()] == ["user", "call", "output", "user"]


async def test_an_answer_that_was_cancelled_is_told_as_far_as_it_was_seen(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    scene.server.will_answer(message_item("abcd"), hold=asyncio.Event(), hold_before=5)
    body = run_body("Go", thread_id="t", run_id="run", messages=[*await scene.messages(), user("Go")])
    async with scene.gateway.client.stream("openai", body) as stream:
        await stream.until("TEXT_MESSAGE_CONTENT")
        await scene.gateway.client.http.post("/runs/run/cancel")
        await stream.rest()
    await check_ended(scene.gateway, "run", "cancelled")
    scene.server.will_answer(message_item("Fine"))
    await scene.say("Stop")
    told = [("user", "Go"), ("assistant", "ab"), ("user", "Stop")]
    assert scene.sent() == (scene.answered(0), told)
    assert scene.shown() == [USER, ("assistant", "Hello"), *told]
