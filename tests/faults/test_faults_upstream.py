"""Providers that fail in every way, through the whole gateway: a code, what was said is kept, the thread goes on."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.bedrock_server import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    BedrockServer,
    bedrock_server,
    block_stop,
    event,
    exception,
    hello,
    text,
)
from tests.bedrock_server import Reply as BedrockReply
from tests.fault_scenes import SECRET, SERVER, check_ended, executions, fault_tool, upstream_agent
from tests.invariants import check_nothing_leaks
from tests.movable_clock import MovableClock
from tests.openai_chat_server import (
    DONE,
    ChatServer,
    Script,
    chat_server,
    chunk,
    completion,
    error,
    record,
    text_records,
)
from tests.running_gateway import LocalGateway, OpenStream, agent, local_gateway, run_body


async def run(gateway: LocalGateway, agent_id: str = "upstream", **more: Any) -> tuple[dict[str, Any], str]:
    """The terminal event and the words of one run."""
    frames = await gateway.client.run(agent_id, run_body(**more))
    words = "".join(frame.data["delta"] for frame in frames if frame.type == "TEXT_MESSAGE_CONTENT")
    return frames[-1].data, words


async def go_on(gateway: LocalGateway, upstream: ChatServer) -> None:
    """The thread goes on, with a history that a provider takes; `upstream` has an answer left."""
    messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
    more = {"id": "more", "role": "user", "content": "more"}
    last, words = await run(gateway, run_id="run-2", messages=[*messages, more])
    assert (last["type"], words) == ("RUN_FINISHED", "fine")
    await check_ended(gateway, "run-2", "completed")
    sent = upstream.requests[-1].json["messages"]
    assert [message["content"] for message in sent if message["role"] == "user"] == ["hello", "more"]


# --- 30, 31: tried again before anything was seen


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
async def test_a_failure_before_the_first_word_is_tried_again(tmp_path: Path, status: int) -> None:
    clock = MovableClock()
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream)], clock=clock, server=SERVER) as gateway,
    ):
        upstream.answers(error(status, retry_after=2), error(status), completion("fine"))
        async with gateway.client.stream("upstream", run_body()) as stream:
            await stream.until("RUN_STARTED")
            await until_finished(stream, clock)
        assert len(upstream.requests) == 3
        await check_ended(gateway, "run-1", "completed")


async def until_finished(stream: OpenStream, clock: MovableClock) -> None:
    """Let the clock run until the stream is over."""
    reading = asyncio.create_task(stream.rest())
    async with asyncio.timeout(20):
        while not reading.done():
            await clock.advance(0.5)
    await reading


async def test_who_is_told_to_come_back_in_an_hour_is_not_waited_for_forever(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream)], clock=clock, server=SERVER) as gateway,
    ):
        upstream.repeat = True
        upstream.answers(error(429, f"slow down, {SECRET}", retry_after=3600))
        async with gateway.client.stream("upstream", run_body()) as stream:
            await until_finished(stream, clock)
            check_nothing_leaks(bytes(stream.body), [SECRET])
        assert stream.frames[-1].data["code"] == "model_throttled"
        assert len(upstream.requests) == 3
        assert clock.monotonic() < 200
        await check_ended(gateway, "run-1", "failed", code="model_throttled")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9/v1", "http://no-such-host.invalid/v1"])
async def test_a_provider_that_is_not_there(tmp_path: Path, endpoint: str) -> None:
    model = {"model_provider": "openai/v1/chat/completions", "model_id": "m", "endpoint": endpoint}
    away = agent("away", model, parameters={"model_attempts": 1})
    async with local_gateway(tmp_path, [away], server=SERVER) as gateway:
        last, _ = await run(gateway, "away")
        assert last["code"] == "model_network"
        check_nothing_leaks(str(last))
        await check_ended(gateway, "run-1", "failed", code="model_network")


# --- 32: never tried again


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (error(401, f"bad key {SECRET}"), "model_authentication"),
        (error(403, f"bad key {SECRET}"), "model_authentication"),
        (error(404, "no such model"), "model_not_found"),
        (error(400, "too long", code="context_length_exceeded"), "model_context_overflow"),
        (error(400, "what?"), "model_invalid"),
        (error(429, "no money", code="insufficient_quota"), "model_quota"),
    ],
)
async def test_what_no_other_try_would_mend_is_not_tried_again(tmp_path: Path, answer: Script, code: str) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(answer, completion("fine"))
        response = await gateway.client.http.post("/agents/upstream/run", json=run_body())
        check_nothing_leaks(response.content, [SECRET])
        assert len(upstream.requests) == 1
        await check_ended(gateway, "run-1", "failed", code=code)
        await go_on(gateway, upstream)


# --- 33, 34: silence


async def test_a_first_token_that_never_comes(tmp_path: Path) -> None:
    clock = MovableClock()
    waiting: dict[str, Any] = {"parameters": {"model_attempts": 1, "max_run_seconds": None}}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream, **waiting)], clock=clock, server=SERVER) as gateway,
    ):
        upstream.answers(Script(headers_after=asyncio.Event()), completion("fine"))
        async with gateway.client.stream("upstream", run_body()) as stream:
            request = await upstream.received()
            await until_finished(stream, clock)
        assert stream.frames[-1].data["code"] == "model_timeout"
        assert 30 <= clock.monotonic() <= 310
        await asyncio.wait_for(request.disconnected.wait(), 5)
        await check_ended(gateway, "run-1", "failed", code="model_timeout")
        await go_on(gateway, upstream)


async def test_tokens_and_then_silence(tmp_path: Path) -> None:
    clock = MovableClock()
    waiting: dict[str, Any] = {"parameters": {"max_run_seconds": None}}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream, **waiting)], clock=clock, server=SERVER) as gateway,
    ):
        upstream.answers(
            Script(pieces=text_records("so far", finish_reason=None), ending="silence"), completion("fine")
        )
        async with gateway.client.stream("upstream", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            await until_finished(stream, clock)
        assert stream.types[-2:] == ["TEXT_MESSAGE_END", "RUN_ERROR"]
        assert len(upstream.requests) == 1, "what was seen is not said twice"
        await asyncio.wait_for(upstream.requests[0].disconnected.wait(), 5)
        await check_ended(gateway, "run-1", "failed", code="model_timeout")
        await go_on(gateway, upstream)


# --- 35, 36, 38: streams that break


def broken_streams() -> dict[str, Script]:
    said = text_records("so far", finish_reason=None)
    return {
        "reset": Script(pieces=said, ending="reset"),
        "fin": Script(pieces=said, ending="close"),
        "no end": Script(pieces=said),
        "short": Script(pieces=said, framing="length", declared=10_000, ending="close"),
        "garbage": Script(pieces=[*said, b"data: {not json\n\n", DONE]),
        "an error inside": Script(pieces=[*said, record({"error": {"message": SECRET, "code": 500}})]),
        "half a character": Script(pieces=[*said, b'data: {"choices":[{"delta":{"content":"\xe2\x82'], ending="close"),
    }


@pytest.mark.parametrize("how", broken_streams())
async def test_a_stream_that_breaks_keeps_what_was_said_and_says_nothing_twice(tmp_path: Path, how: str) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(broken_streams()[how], completion("fine"))
        response = await gateway.client.http.post("/agents/upstream/run", json=run_body())
        check_nothing_leaks(response.content, [SECRET])
        assert len(upstream.requests) == 1
        run_json = await gateway.client.get("/runs/run-1")
        assert run_json["status"] == "failed"
        assert run_json["error"]["code"].startswith("model_")
        await check_ended(gateway, "run-1", "failed", code=run_json["error"]["code"])
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        assert messages[-1]["content"] == "so far"
        await go_on(gateway, upstream)


@pytest.mark.parametrize(
    "answer",
    [
        Script(pieces=[b"<html>busy</html>"], content_type="text/html"),
        Script(pieces=[], content_type="text/event-stream"),
        Script(raw=b"\x00\x01\x02 this is no HTTP\r\n\r\n"),
    ],
    ids=["html", "nothing", "noise"],
)
async def test_an_answer_that_is_no_stream_is_an_error_and_never_silence(tmp_path: Path, answer: Script) -> None:
    once: dict[str, Any] = {"parameters": {"model_attempts": 1}}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream, **once)], server=SERVER) as gateway,
    ):
        upstream.answers(answer, completion("fine"))
        last, _ = await run(gateway)
        assert last["type"] == "RUN_ERROR"
        assert last["code"].startswith("model_")
        await check_ended(gateway, "run-1", "failed", code=last["code"])
        await go_on(gateway, upstream)


@pytest.mark.parametrize(
    "answer", [Script(pieces=[DONE]), Script(pieces=[b'{"choices": []}'], content_type="application/json")]
)
async def test_a_model_that_ends_without_a_word_is_asked_once_more(tmp_path: Path, answer: Script) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(answer, completion("fine"))
        last, words = await run(gateway)
        assert (last["type"], words) == ("RUN_FINISHED", "fine")
        assert len(upstream.requests) == 2
        await check_ended(gateway, "run-1", "completed")


# --- 37, 39, 84: odd pieces


@pytest.mark.parametrize("split", [1, 2, 3, 7])
async def test_any_cut_of_the_bytes_gives_the_same_words(tmp_path: Path, split: int) -> None:
    words = ("žluťoučký ", "👩‍👩‍👧 ", "שלום ", "a\u2028b\u2029c\u0085d\r\n")
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.answers(completion(*words, split=split))
        last, said = await run(gateway)
        assert (last["type"], said) == ("RUN_FINISHED", "".join(words))
        await check_ended(gateway, "run-1", "completed")


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": -5, "completion_tokens": 2}, {"prompt_tokens": 10**30}, {"prompt_tokens": "x"}, 7],
)
async def test_no_usage_of_any_kind_keeps_the_end_away(tmp_path: Path, usage: object) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        said = [record(chunk({"content": "fine"})), record(chunk({}, "stop"))]
        counted = [record({"choices": [], "usage": usage})] * 2
        upstream.answers(Script(pieces=[*said, *counted, DONE]))
        last, words = await run(gateway)
        assert (last["type"], words) == ("RUN_FINISHED", "fine")
        await check_ended(gateway, "run-1", "completed")


# --- 40, 83: calls that are not what they should be, ends that are none


def call(arguments: str, finish: str, *, name: str = "add", id: str = "call-1") -> Script:
    delta = {"tool_calls": [{"index": 0, "id": id, "function": {"name": name, "arguments": arguments}}]}
    return Script(pieces=[record(chunk(delta)), record(chunk({}, finish)), DONE])


@pytest.mark.parametrize(
    ("arguments", "finish"),
    [('{"a": 1, "b":', "tool_calls"), ('{"a": 1, "b": 2}', "length"), ('{"a": 1}', "tool_calls"), ("[]", "tool_calls"),
     ('{"a": 1, "b": 2}', "content_filter"), ('{"a": 1, "a": 2, "b": 2}{}', "tool_calls")],
)  # fmt: skip
async def test_a_call_that_is_broken_or_cut_off_never_runs(tmp_path: Path, arguments: str, finish: str) -> None:
    adding: dict[str, Any] = {"tools": [fault_tool("add")]}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream, **adding)], server=SERVER) as gateway,
    ):
        upstream.answers(call(arguments, finish), completion("fine"), completion("fine"))
        last, _ = await run(gateway)
        assert last["type"] == "RUN_FINISHED"
        assert not executions
        await check_ended(gateway, "run-1", "completed")
        await go_on(gateway, upstream)


async def test_a_provider_that_gives_every_call_the_same_id(tmp_path: Path) -> None:
    adding: dict[str, Any] = {"tools": [fault_tool("add")]}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [upstream_agent(upstream, **adding)], server=SERVER) as gateway,
    ):
        one, two = '{"a": 1, "b": 2}', '{"a": 3, "b": 4}'
        upstream.answers(call(one, "tool_calls"), call(two, "tool_calls"), completion("fine"))
        last, words = await run(gateway)
        assert (last["type"], words) == ("RUN_FINISHED", "fine")
        assert len(executions) == 2, "two calls, whatever the provider calls them"
        await check_ended(gateway, "run-1", "completed")
        upstream.answers(call(one, "tool_calls"), completion("fine"))
        await go_on(gateway, upstream)
        assert len(executions) == 3
        assert max(executions.values()) == 1


@pytest.mark.parametrize(
    "finish", ["stop", "length", "content_filter", "tool_calls", "function_call", "whatever", None]
)
async def test_an_answer_of_nothing_ends_the_run_all_the_same(tmp_path: Path, finish: str | None) -> None:
    async with chat_server() as upstream, local_gateway(tmp_path, [upstream_agent(upstream)], server=SERVER) as gateway:
        upstream.repeat = True
        upstream.answers(Script(pieces=[record(chunk({}, finish)), DONE]))
        last, _ = await run(gateway)
        assert last["type"] in ("RUN_FINISHED", "RUN_ERROR")
        assert len(upstream.requests) <= 3
        status = (await gateway.client.get("/runs/run-1"))["status"]
        await check_ended(gateway, "run-1", status, code=last.get("code"))


# --- the same for Bedrock


def bedrock_agent(server: BedrockServer) -> dict[str, Any]:
    model = {
        "model_provider": "bedrock/converse",
        "model_id": "amazon.nova-lite-v1:0",
        "endpoint": server.url,
        "region": REGION,
        "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
    }
    return agent("bedrock", model, parameters={"model_attempts": 1})


SAID = [event("messageStart", role="assistant"), text("so far")]


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (BedrockReply([*SAID, exception("throttlingException", "slow")]), "model_throttled"),
        (BedrockReply([*SAID, exception("modelStreamErrorException", "broken")]), None),
        (BedrockReply([*SAID, exception("serviceUnavailableException", "busy")]), None),
        (BedrockReply([*SAID], then="reset"), None),
        (BedrockReply([*SAID], then="close"), None),
        (BedrockReply([*SAID, block_stop()]), None),
        (BedrockReply([*SAID, b"\x00" * 40]), None),
        (BedrockReply([*SAID, text("more")[:-3]]), None),
    ],
    ids=["throttled", "model", "service", "reset", "close", "no stop", "zeros", "half a frame"],
)
async def test_a_converse_stream_that_breaks(tmp_path: Path, reply: BedrockReply, code: str | None) -> None:
    async with bedrock_server() as server, local_gateway(tmp_path, [bedrock_agent(server)], server=SERVER) as gateway:
        server.will_reply(reply)
        last, words = await run(gateway, "bedrock")
        assert (last["type"], words) == ("RUN_ERROR", "so far")
        assert code is None or last["code"] == code
        check_nothing_leaks(str(last), [SECRET_KEY])
        await check_ended(gateway, "run-1", "failed", code=last["code"])
        server.will_stream(hello("fine"))
        messages = (await gateway.client.get("/threads/thread-1/messages"))["messages"]
        last, words = await run(
            gateway, "bedrock", run_id="run-2", messages=[*messages, {"id": "m", "role": "user", "content": "more"}]
        )
        assert words == "fine"
        assert [message["role"] for message in server.requests[-1].json["messages"]] == ["user", "assistant", "user"]


async def test_cancel_closes_the_socket_to_bedrock(tmp_path: Path) -> None:
    async with bedrock_server() as server, local_gateway(tmp_path, [bedrock_agent(server)], server=SERVER) as gateway:
        server.will_stream(*SAID, then="silence")
        async with gateway.client.stream("bedrock", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            await gateway.client.http.post("/runs/run-1/cancel")
            await asyncio.wait_for(server.until_client_left(), 1.5)
            await stream.rest()
        await check_ended(gateway, "run-1", "cancelled")
