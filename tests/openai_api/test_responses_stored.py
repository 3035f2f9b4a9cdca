"""Responses once they have begun: read, followed, stopped, forgotten; by OpenAI's SDK from a running gateway."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.openai_scene import AGENTS, KEY, OpenAIScene, openai_client, openai_gateway
from tests.running_gateway import GatewayProcess, agent, gateway_process, run_body, scripted, write_configuration
from tests.waiting import until_answered

OTHER = "another-key-of-the-tests-0123"
KEYS = {"api_keys": [{"name": "me", "key": KEY}, {"name": "other", "key": OTHER}]}
AS_ME = {"authorization": f"Bearer {KEY}"}
STEPS = agent("steps", scripted([{"text": "one two three", "chunk_characters": 4, "delta_seconds": 0.01}]))


@contextlib.asynccontextmanager
async def stored_scene(directory: Path) -> AsyncGenerator[OpenAIScene]:
    async with openai_gateway(directory, [*AGENTS, STEPS], server=KEYS) as scene:
        yield scene


def other(scene: OpenAIScene) -> openai.AsyncOpenAI:
    return scene.openai.with_options(api_key=OTHER)


def shown(response: Response) -> dict[str, Any]:
    return response.model_dump(mode="json", exclude_unset=True)


async def refused(work: Awaitable[object], status: int) -> dict[str, Any]:
    """The error that a request is refused with."""
    with pytest.raises(openai.APIStatusError) as raised:
        await work
    assert raised.value.status_code == status
    assert isinstance(raised.value.body, dict)
    return raised.value.body


async def forget_logs(scene: OpenAIScene) -> None:
    await scene.gateway.application.store.remove_logs(finished_before=1e12)


async def under_way(scene: OpenAIScene, response_id: str) -> Response:
    """The response once its words are there."""
    return await until_answered(
        lambda: scene.openai.responses.retrieve(response_id), lambda response: response.output_text == "word by word"
    )


def not_found(response_id: str) -> dict[str, Any]:
    return {
        "message": f"Response with id '{response_id}' not found.",
        "type": "invalid_request_error",
        "param": None,
        "code": "response_not_found",
    }


# --- read


@pytest.mark.parametrize("model", ["words", "thinker", "adder", "parallel-adder", "painter", "refuser", "cut"])
async def test_a_response_is_read_again_as_it_was_given(tmp_path: Path, model: str) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model=model, input="hi", metadata={"topic": "demo"})
        again = await scene.openai.responses.retrieve(given.id)
    assert again.completed_at is not None or again.status != "completed"
    assert shown(again) == shown(given)


@pytest.mark.parametrize("model", ["words", "thinker", "adder", "parallel-adder", "painter", "refunder"])
async def test_a_response_without_its_log_is_read_from_its_thread(tmp_path: Path, model: str) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model=model, input="hi")
        before = await scene.openai.responses.retrieve(given.id)
        await forget_logs(scene)
        assert shown(await scene.openai.responses.retrieve(given.id)) == shown(before)
        error = await refused(scene.openai.responses.retrieve(given.id, stream=True), 404)
    assert error["code"] == "log_expired"


async def test_a_clients_call_is_read_from_the_thread_before_and_after_its_output(tmp_path: Path) -> None:
    tool: Any = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}, "strict": False}
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        asked = await responses.create(model="weather", input="the weather, both", tools=[tool])
        calls = [item for item in asked.output if item.type == "function_call"]
        assert len(calls) == 2
        await forget_logs(scene)
        assert shown(await responses.retrieve(asked.id))["output"] == shown(asked)["output"]
        outputs: Any = [{"type": "function_call_output", "call_id": each.call_id, "output": "21"} for each in calls]
        ended = await responses.create(model="weather", previous_response_id=asked.id, input=outputs, tools=[tool])
        await forget_logs(scene)
        assert shown(await responses.retrieve(asked.id))["output"] == shown(asked)["output"]
        assert shown(await responses.retrieve(ended.id))["output"] == shown(ended)["output"]


async def test_runs_of_other_protocols_are_responses_too(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        await scene.gateway.client.run("adder", run_body("hi", thread_id="t", run_id="a/run"), **AS_ME)
        found = await scene.openai.responses.retrieve("a/run")
        chat = await scene.openai.chat.completions.create(
            model="words", messages=[{"role": "user", "content": "hi"}], store=True
        )
        said = await scene.openai.responses.retrieve(chat.id)
    assert [item.type for item in found.output] == ["message", "mcp_call", "message"]
    assert (found.id, found.model, found.status) == ("a/run", "adder", "completed")
    assert found.conversation is not None
    assert found.conversation.id == "t"
    assert said.output_text == chat.choices[0].message.content


async def test_a_run_that_goes_on_behind_an_approval_names_the_call_that_it_made(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        ag_ui = scene.gateway.client
        [*_, asked] = await ag_ui.run("refunder", run_body("hi", thread_id="t", run_id="r1"), **AS_ME)
        [interrupt] = asked.data["outcome"]["interrupts"]
        yes = [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}]
        await ag_ui.run("refunder", run_body(thread_id="t", run_id="r2", messages=[], resume=yes), **AS_ME)
        ended = await scene.openai.responses.retrieve("r2")
        stream = [event async for event in await scene.openai.responses.retrieve("r2", stream=True)]
        await forget_logs(scene)
        again = await scene.openai.responses.retrieve("r2")
    call = ended.output[0]
    assert call.type == "mcp_call"
    assert (call.name, call.arguments) == ("refund", '{"order_id":"1234","amount":99}')
    assert shown(again)["output"] == shown(ended)["output"]
    assert stream[-1].type == "response.completed"
    assert shown(stream[-1].response)["output"] == shown(ended)["output"]


async def test_what_is_left_of_a_response_keeps_its_ids_without_its_log(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model="adder", input="hi")
        assert given.conversation is not None
        first, *others = [item.id for item in given.output]
        await scene.openai.conversations.items.delete(str(first), conversation_id=given.conversation.id)
        await forget_logs(scene)
        left = await scene.openai.responses.retrieve(given.id)
    assert [item.id for item in left.output] == others


async def test_of_a_response_whose_version_of_the_thread_is_gone_there_is_the_frame(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        for run_id in ("r1", "r2"):
            messages = [{"id": "u1", "role": "user", "content": f"hi {run_id}"}]
            body = run_body(thread_id="t", run_id=run_id, messages=messages)
            await scene.gateway.client.run("words", body, **AS_ME)
        assert (await scene.http.delete("/threads/t/versions/1", headers=AS_ME)).status_code == 204
        kept = await scene.openai.responses.retrieve("r1")
        await forget_logs(scene)
        gone = await scene.openai.responses.retrieve("r1")
        items = [item async for item in scene.openai.responses.input_items.list("r1")]
    assert (kept.status, kept.output_text) == ("completed", "I heard: hi r1")
    assert (gone.status, gone.output, items) == ("completed", [], [])


async def test_a_failed_and_an_incomplete_response_are_read_as_such(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        begun = await scene.openai.responses.create(model="breaking", input="hi", background=True)
        failed = await until_answered(
            lambda: scene.openai.responses.retrieve(begun.id), lambda each: each.status == "failed"
        )
        cut = await scene.openai.responses.create(model="cut", input="hi")
        assert (await scene.openai.responses.retrieve(cut.id)).status == "incomplete"
        await forget_logs(scene)
        assert shown(await scene.openai.responses.retrieve(begun.id)) == shown(failed)
    assert failed.error is not None
    assert failed.error.code == "server_error"
    assert [item.status for item in failed.output if item.type == "message"] == ["incomplete"]


async def test_sealed_reasoning_is_included_where_it_is_asked_for(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model="thinker", input="hi")
        plain = await scene.openai.responses.retrieve(given.id)
        sealed = await scene.openai.responses.retrieve(given.id, include=["reasoning.encrypted_content"])
        error = await refused(scene.openai.responses.retrieve(given.id, include=["nothing"]), 400)  # type: ignore[list-item]
    thoughts = [next(item for item in each.output if item.type == "reasoning") for each in (plain, sealed)]
    assert thoughts[0].encrypted_content is None
    assert thoughts[1].encrypted_content
    assert error["param"] == "include"


async def test_an_unknown_response_and_another_owners_are_not_there(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model="words", input="hi")
        theirs = other(scene).responses
        for response_id, responses in (("resp_none", scene.openai.responses), (given.id, theirs)):
            for work in (
                responses.retrieve(response_id),
                responses.retrieve(response_id, stream=True),
                responses.cancel(response_id),
                responses.delete(response_id),
            ):
                assert await refused(work, 404) == not_found(response_id)
            error = await refused(_first(responses.input_items.list(response_id)), 404)
            assert error == not_found(response_id)
        assert (await scene.openai.responses.retrieve(given.id)).id == given.id


async def _first(pages: Any) -> Any:
    return await pages


async def test_a_response_that_is_not_stored_is_gone_once_it_has_ended(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        async with await responses.create(model="slow", input="hi", store=False, stream=True) as stream:
            first = await anext(stream.__aiter__())
            response_id = first.response.id  # type: ignore[union-attr]
            assert (await under_way(scene, response_id)).status == "in_progress"
            assert (await responses.cancel(response_id)).status == "cancelled"
        assert await refused(responses.retrieve(response_id), 404) == not_found(response_id)
        again = await responses.cancel(response_id)
        assert (again.id, again.status) == (response_id, "cancelled"), "a cancel finds it until it is erased"


# --- followed


async def test_a_stream_goes_on_behind_the_event_that_the_client_has(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        events = [event async for event in await responses.create(model="adder", input="hi", stream=True)]
        response_id = events[-1].response.id  # type: ignore[union-attr]
        last = events[-1].sequence_number
        assert [event.sequence_number for event in events] == list(range(last + 1))
        for after in (0, 3, last - 1, last):
            again = await responses.retrieve(response_id, stream=True, starting_after=after)
            assert [event async for event in again] == events[after + 1 :]
        assert [event async for event in await responses.retrieve(response_id, stream=True)] == events
        error = await refused(responses.retrieve(response_id, stream=True, starting_after=last + 1), 400)
        assert error["param"] == "starting_after"
        assert f"its last is {last}" in error["message"]
        answer = await scene.http.get(f"/v1/responses/{response_id}?stream=true&starting_after={last}", headers=AS_ME)
    assert [line for line in answer.text.splitlines() if line.startswith(("event", "data"))] == ["data: [DONE]"]


async def test_a_background_response_is_followed_after_the_connection_is_lost(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        events = []
        async with await responses.create(model="steps", input="hi", background=True, stream=True) as stream:
            async for event in stream:
                events.append(event)
                if event.type == "response.output_text.delta":
                    break
        assert [event.type for event in events[:3]] == [
            "response.created", "response.queued", "response.in_progress",
        ]  # fmt: skip
        response_id = events[0].response.id  # type: ignore[union-attr]
        rest = await responses.retrieve(response_id, stream=True, starting_after=events[-1].sequence_number)
        events += [event async for event in rest]
        ended = await responses.retrieve(response_id)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].type == "response.completed"
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "one two three"
    assert (ended.status, ended.output_text) == ("completed", "one two three")


async def test_a_number_beyond_what_a_response_under_way_has_said_is_refused(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        begun = await responses.create(model="slow", input="hi", background=True)
        await under_way(scene, begun.id)
        error = await refused(responses.retrieve(begun.id, stream=True, starting_after=1000), 400)
        assert error["param"] == "starting_after"
        following = await responses.retrieve(begun.id, stream=True, starting_after=2)
        await responses.cancel(begun.id)
        events = [event async for event in following]
    assert events[0].sequence_number == 3
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.status == "cancelled"


@pytest.mark.parametrize("query", ["stream=yes", "stream=true&starting_after=-1", "stream=true&starting_after=x"])
async def test_what_is_wrong_in_a_query_is_a_400(tmp_path: Path, query: str) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model="words", input="hi")
        answer = await scene.http.get(f"/v1/responses/{given.id}?{query}", headers=AS_ME)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == query.rpartition("=")[0].rpartition("&")[2]


# --- in the background


async def test_a_background_response_is_polled_to_its_end(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        begun = await scene.openai.responses.create(model="adder", input="hi", background=True)
        assert (begun.status, begun.background, begun.output) in (("queued", True, []), ("in_progress", True, []))
        ended = await until_answered(
            lambda: scene.openai.responses.retrieve(begun.id), lambda each: each.status not in ("queued", "in_progress")
        )
    assert (ended.status, ended.output_text) == ("completed", "I add. The sum is 5.0.")
    assert ended.created_at == begun.created_at


async def test_a_response_that_waits_for_its_conversation_is_queued(tmp_path: Path) -> None:
    waits = agent("waits", scripted([{"text": "hello"}]), on_concurrent_run="enqueue")
    hangs = agent("hangs", scripted([{"hang": True}]))
    async with openai_gateway(tmp_path, [waits, hangs]) as scene:
        responses = scene.openai.responses
        first = await responses.create(model="hangs", input="hi", background=True)
        assert first.conversation is not None
        creating = asyncio.ensure_future(
            responses.create(model="waits", input="hi", background=True, conversation=first.conversation.id)
        )
        second = await creating
        assert second.status == "queued"
        assert (await responses.retrieve(second.id)).status == "queued"
        assert (await responses.cancel(second.id)).status == "cancelled"
        assert (await responses.cancel(first.id)).status == "cancelled"


async def test_a_killed_gateway_leaves_no_response_in_progress(tmp_path: Path) -> None:
    slow = agent("slow", scripted([{"text": "word by word", "chunk_characters": 4}, {"hang": True}]))
    path = write_configuration(tmp_path, [slow])
    async with gateway_process(path) as gateway, sdk_of(gateway) as client:
        begun = await client.responses.create(model="slow", input="hi", background=True)
        await until_answered(
            lambda: client.responses.retrieve(begun.id), lambda response: response.output_text == "word by word"
        )
        await gateway.signal(signal.SIGKILL)
    async with gateway_process(path) as gateway, sdk_of(gateway) as client:
        failed = await client.responses.retrieve(begun.id)
        events = [event async for event in await client.responses.retrieve(begun.id, stream=True)]
    assert (failed.status, failed.output_text) == ("failed", "word by word")
    assert failed.error is not None
    assert failed.error.code == "server_error"
    assert events[-1].type == "response.failed"
    assert [event.sequence_number for event in events] == list(range(len(events)))


def sdk_of(gateway: GatewayProcess) -> openai.AsyncOpenAI:
    return openai_client(f"{gateway.client.base_url}/v1")


# --- stopped


async def test_a_cancelled_response_keeps_what_it_said(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        begun = await responses.create(model="slow", input="hi", background=True)
        await under_way(scene, begun.id)
        cancelled = await responses.cancel(begun.id)
        assert (cancelled.status, cancelled.output_text) == ("cancelled", "word by word")
        assert [item.status for item in cancelled.output if item.type == "message"] == ["incomplete"]
        assert shown(await responses.retrieve(begun.id)) == shown(cancelled)
        assert shown(await responses.cancel(begun.id)) == shown(cancelled)


async def test_a_response_in_the_foreground_is_cancelled_too(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        async with await responses.create(model="slow", input="hi", stream=True) as stream:
            first = await anext(stream.__aiter__())
            cancelled = await responses.cancel(first.response.id)  # type: ignore[union-attr]
    assert cancelled.status == "cancelled"


async def test_one_that_has_ended_stays_as_it_is(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        given = await scene.openai.responses.create(model="words", input="hi")
        cancelled = await scene.openai.responses.cancel(given.id)
    assert (cancelled.status, cancelled.output_text) == ("completed", given.output_text)


# --- forgotten


async def test_a_forgotten_response_takes_the_thread_that_it_began_along(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        given = await responses.create(model="words", input="hi")
        assert given.conversation is not None
        answer = await scene.http.delete(f"/v1/responses/{given.id}", headers=AS_ME)
        assert answer.json() == {"id": given.id, "object": "response", "deleted": True}
        await refused(responses.retrieve(given.id), 404)
        await refused(scene.openai.conversations.retrieve(given.conversation.id), 404)
        assert await refused(responses.delete(given.id), 404) == not_found(given.id)


async def test_a_thread_stays_that_was_there_before_or_has_other_responses(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        responses, conversations = scene.openai.responses, scene.openai.conversations
        made = await conversations.create()
        inside = await responses.create(model="words", input="hi", conversation=made.id)
        await responses.delete(inside.id)
        items = [item async for item in conversations.items.list(made.id)]
        assert [item.type for item in items] == ["message", "message"]

        first = await responses.create(model="words", input="hi")
        second = await responses.create(model="words", input="more", previous_response_id=first.id)
        await responses.delete(first.id)
        assert (await responses.retrieve(second.id)).output_text == second.output_text
        assert first.conversation is not None
        assert (await conversations.retrieve(first.conversation.id)).id == first.conversation.id


async def test_a_response_under_way_is_stopped_and_forgotten(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        begun = await scene.openai.responses.create(model="slow", input="hi", background=True)
        await scene.openai.responses.delete(begun.id)
        await refused(scene.openai.responses.retrieve(begun.id), 404)


# --- what came with the request


async def test_input_items_are_what_came_with_the_request(tmp_path: Path) -> None:
    items: Any = [
        {"role": "user", "content": [{"type": "input_text", "text": "look"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "https://pictures.test/a.png"}]},
        {"role": "user", "content": "and this"},
    ]
    async with stored_scene(tmp_path) as scene:
        responses = scene.openai.responses
        first = await responses.create(model="words", input=items)
        second = await responses.create(model="words", input="more", previous_response_id=first.id)
        await forget_logs(scene)
        listed = [item async for item in responses.input_items.list(first.id, order="asc", limit=1)]
        [more] = [item async for item in responses.input_items.list(second.id)]
        page = await responses.input_items.list(first.id, limit=2)
    said = [item.model_dump(mode="json", exclude_unset=True)["content"][0] for item in listed]
    assert said == [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "detail": "auto", "image_url": "https://pictures.test/a.png"},
        {"type": "input_text", "text": "and this"},
    ]
    assert more.model_dump(mode="json", exclude_unset=True)["content"] == [{"type": "input_text", "text": "more"}]
    assert [item.id for item in page.data] == [item.id for item in listed[:0:-1]]
    assert page.has_more


async def test_stored_completions_are_not_offered(tmp_path: Path) -> None:
    async with stored_scene(tmp_path) as scene:
        error = await refused(scene.openai.chat.completions.retrieve("chatcmpl-1"), 404)
    assert error["code"] == "not_offered"
    assert "/v1/responses/chatcmpl-1" in error["message"]
