"""The local Responses API itself: it keeps, refuses and forgets what the real one does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from tests.responses_events import call_item, error_event, message_item, reasoning_item, stream_events, web_search_item
from tests.responses_server import ResponsesServer, responses_server

DEADLINE_SECONDS = 10
USER = {"role": "user", "content": "Hi"}


@pytest.fixture
async def server() -> AsyncGenerator[ResponsesServer]:
    async with asyncio.timeout(DEADLINE_SECONDS), responses_server() as running:
        yield running


@pytest.fixture
async def client(server: ResponsesServer) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.endpoint, timeout=DEADLINE_SECONDS) as opened:
        yield opened


def events_in(text: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


async def created(client: httpx.AsyncClient, *items: object, **fields: Any) -> dict[str, Any]:
    answer = await client.post("/responses", json={"model": "m", "input": list(items), **fields})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refused(client: httpx.AsyncClient, *items: object, **fields: Any) -> tuple[int, str]:
    answer = await client.post("/responses", json={"model": "m", "input": list(items), **fields})
    return answer.status_code, answer.json()["error"]["message"]


async def test_a_chain_is_what_the_model_sees(server: ResponsesServer, client: httpx.AsyncClient) -> None:
    server.will_answer(call_item("add", call_id="c1"))
    server.will_answer(message_item("Three"))
    first = await created(client, USER)
    output = {"type": "function_call_output", "call_id": "c1", "output": "3"}
    await created(client, output, previous_response_id=first["id"])
    assert [item["type"] for item in server.seen(1)] == ["message", "function_call", "function_call_output"]


async def test_what_is_not_stored_cannot_be_continued(server: ResponsesServer, client: httpx.AsyncClient) -> None:
    kept, not_kept = await created(client, USER), await created(client, USER, store=False)
    assert (await refused(client, USER, previous_response_id=not_kept["id"]))[0] == 400
    await created(client, USER, previous_response_id=kept["id"])
    server.expire(kept["id"])
    status, message = await refused(client, USER, previous_response_id=kept["id"])
    assert (status, message) == (400, f"Previous response with id '{kept['id']}' not found.")
    server.not_found_status = 404
    assert (await refused(client, USER, previous_response_id=kept["id"]))[0] == 404


CALL = {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "3"}


@pytest.mark.parametrize(
    ("items", "status", "words"),
    [
        ([USER, CALL], 400, "No tool output found for function call c1."),
        ([USER, OUTPUT], 400, "No tool call found for function call output with call_id c1."),
        ([USER, CALL, OUTPUT, CALL], 400, "No tool output found"),
        ([USER, {**CALL, "call_id": "c" * 65}, {**OUTPUT, "call_id": "c" * 65}], 400, "string too long"),
        ([USER, reasoning_item("x"), CALL, OUTPUT], 404, "not found. Items are not persisted"),
        ([USER, reasoning_item(encrypted="x")], 400, "without its required following item"),
        ([USER, reasoning_item(encrypted="x"), USER], 400, "without its required following item"),
        ([{"type": "surprise"}], 400, "Invalid value: 'surprise'"),
        ([{"role": "user", "content": [{"type": "output_text", "text": "x"}]}], 400, "Invalid value: 'output_text'"),
        ([], 400, "must be provided"),
    ],
)
async def test_it_refuses_what_the_real_one_refuses(
    client: httpx.AsyncClient, items: list[dict[str, Any]], status: int, words: str
) -> None:
    found, message = await refused(client, *items)
    assert found == status
    assert words in message


async def test_an_unanswered_call_wedges_the_chain(server: ResponsesServer, client: httpx.AsyncClient) -> None:
    server.will_answer(call_item("add", call_id="c1"))
    first = await created(client, USER)
    for _ in range(2):
        status, message = await refused(client, USER, previous_response_id=first["id"])
        assert (status, message) == (400, "No tool output found for function call c1.")


async def test_fields_that_exclude_each_other_are_refused(server: ResponsesServer, client: httpx.AsyncClient) -> None:
    assert (await refused(client, USER, background=True, store=False))[0] == 400
    assert (await refused(client, USER, previous_response_id="resp_1", conversation="conv_1"))[0] == 400
    server.background_allowed = False
    assert (await refused(client, USER, background=True))[0] == 400


async def test_a_stream_has_numbers_without_gaps(server: ResponsesServer, client: httpx.AsyncClient) -> None:
    server.will_answer(reasoning_item("Hm"), message_item("Hi"))
    answer = await client.post("/responses", json={"model": "m", "input": "Hi", "stream": True})
    events = events_in(answer.text)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "response.completed"


def test_every_event_is_one_that_the_sdk_knows() -> None:
    types: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    items = [
        reasoning_item("Hm", raw=("So",), encrypted="x"),
        web_search_item("y"),
        message_item("Hi", refusal="No", phase="commentary"),
        call_item("add"),
    ]
    whole: dict[str, Any] = {"model": "m", "tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
    for status in ("completed", "incomplete", "failed"):
        if status == "failed":
            whole["error"] = {"code": "server_error", "message": "x"}
        for event in stream_events(items, status=status, background=True, **whole):
            for usage in filter(None, [event.get("response", {}).get("usage")]):
                usage["input_tokens_details"].setdefault("cache_write_tokens", 0)
            read = types.validate_python({"logprobs": [], "name": "add", **event})
            assert read.type == event["type"]
    assert types.validate_python(error_event(message="x")).type == "error"


async def broken_off(client: httpx.AsyncClient, body: dict[str, Any]) -> str:
    """What came of a stream whose connection broke."""
    seen = b""
    async with client.stream("POST", "/responses", json=body) as stream:
        with suppress(httpx.RemoteProtocolError):
            async for piece in stream.aiter_bytes():
                seen += piece
            raise AssertionError("it did not break")
    return seen.decode()


async def test_a_background_response_goes_on_alone_and_is_taken_up_again(
    server: ResponsesServer, client: httpx.AsyncClient
) -> None:
    go_on = asyncio.Event()
    server.will_answer(message_item("Hi"), hold=go_on, hold_before=6, cut_before=4)
    events = events_in(await broken_off(client, {"model": "m", "input": "Hi", "stream": True, "background": True}))
    response_id, last = events[0]["response"]["id"], events[-1]["sequence_number"]
    assert last == 3
    assert (await client.get(f"/responses/{response_id}")).json()["status"] == "in_progress"
    go_on.set()
    rest = await client.get(f"/responses/{response_id}", params={"stream": "true", "starting_after": last})
    assert events_in(rest.text)[0]["sequence_number"] == last + 1
    assert events_in(rest.text)[-1]["type"] == "response.completed"
    assert (await client.get(f"/responses/{response_id}")).json()["status"] == "completed"


async def test_a_background_response_can_be_cancelled_and_a_response_deleted(
    server: ResponsesServer, client: httpx.AsyncClient
) -> None:
    server.will_answer(message_item("Hi"), hold=asyncio.Event())
    response_id = (await created(client, USER, background=True))["id"]
    cancelled = (await client.post(f"/responses/{response_id}/cancel")).json()
    assert cancelled["status"] == "cancelled"
    answer = await client.get(f"/responses/{response_id}", params={"stream": "true"})
    assert events_in(answer.text)[-1]["type"] == "response.cancelled"
    assert (await client.delete(f"/responses/{response_id}")).json()["deleted"] is True
    assert (await client.get(f"/responses/{response_id}")).status_code == 404


async def test_a_response_in_the_foreground_is_not_streamed_again_or_cancelled(client: httpx.AsyncClient) -> None:
    response_id = (await created(client, USER))["id"]
    assert (await client.get(f"/responses/{response_id}", params={"stream": "true"})).status_code == 400
    assert (await client.post(f"/responses/{response_id}/cancel")).status_code == 400
