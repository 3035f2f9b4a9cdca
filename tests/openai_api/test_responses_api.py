"""POST /v1/responses, as clients use it: objects, streams, errors, the background, retries."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from tests.responses_scene import WEATHER, kinds, responses_gateway, text_of, thread_of, user

MAP = {"type": "function", "name": "map"}


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
async def test_the_sdk_gets_a_response_at_once_and_as_a_stream(tmp_path: Path, prefix: str) -> None:
    async with responses_gateway(tmp_path) as scene:
        sdk = scene.openai.with_options(base_url=scene.gateway.client.base_url + prefix)
        response = await sdk.responses.create(model="helper", input="you", metadata={"a": "b"}, instructions="Be kind.")
        async with sdk.responses.stream(model="helper", input="you") as stream:
            events = [event.type async for event in stream]
            final = await stream.get_final_response()

    assert response.output_text == final.output_text == "Hello you."
    assert (response.status, response.model, response.metadata) == ("completed", "helper", {"a": "b"})
    assert response.instructions == "Be kind."
    assert response.id.startswith("resp_")
    assert (events[0], events[-1]) == ("response.created", "response.completed")


async def test_every_answer_names_its_thread_and_its_run(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        answers = [await scene.post({"input": "you", "stream": stream}) for stream in (False, True)]
        for answer in answers:
            run = await scene.gateway.client.get(f"/runs/{answer.headers['x-run-id']}")
            assert run["threadId"] == answer.headers["x-thread-id"]
            assert run["runId"].startswith("resp_")
    assert answers[1].text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        ({"model": None, "input": "x"}, 400, "model", "invalid_request"),
        ({"model": "nobody", "input": "x"}, 404, "model", "model_not_found"),
        ({}, 400, "input", "missing_required_parameter"),
        ({"input": []}, 400, "input", "missing_required_parameter"),
        ({"input": [{"type": "mcp_approval_request", "id": "mcpr_x"}]}, 400, "input", "missing_required_parameter"),
        ({"input": [{"type": "web_search_call"}]}, 400, "input[0].type", "invalid_request"),
        ({"input": "x", "previous_response_id": "resp_1"}, 400, "previous_response_id", "previous_response_not_found"),
        ({"input": "x", "conversation": "conv_1"}, 404, "conversation", "conversation_not_found"),
        (
            {"input": "x", "conversation": "conv_1", "previous_response_id": "resp_1"},
            400,
            "previous_response_id",
            "mutually_exclusive_parameters",
        ),
        ({"input": "x", "tools": [WEATHER], "tool_choice": MAP}, 400, "tool_choice", "unsupported_option"),
    ],
)  # fmt: skip
async def test_a_wrong_request_is_an_error_that_names_the_field(
    tmp_path: Path, body: dict[str, object], status: int, param: str, code: str
) -> None:
    async with responses_gateway(tmp_path) as scene:
        error = await scene.error(status, **body)

    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


async def test_a_run_that_fails_is_an_error_that_is_not_to_be_sent_again(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        answer = await scene.post({"input": "fail"})
        async with scene.openai.responses.stream(model="helper", input="fail") as stream:
            events = [event.type async for event in stream]

    assert answer.status_code == 503
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["x-run-id"].startswith("resp_")
    assert answer.json()["error"]["type"] == "server_error"
    assert events[-1] == "response.failed"


async def test_a_response_in_the_background_is_under_way_at_once_and_goes_on_alone(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        response = await scene.openai.responses.create(model="helper", input="you", background=True)
        run = await scene.gateway.client.until_status(response.id, "completed")
        waiting = await scene.create(input="wait", background=True)
        followed = await scene.error(400, input="x", previous_response_id=waiting["id"])
        await scene.http.post(f"/runs/{waiting['id']}/cancel")

    assert response.status in ("queued", "in_progress")
    assert (response.background, response.output) == (True, [])
    assert run["threadId"]
    assert followed["code"] == "previous_response_in_progress"


async def test_an_idempotency_key_names_the_response(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="other")
        body = {"input": [user("sum")], "previous_response_id": first["id"]}
        answers = [await scene.post(body, idempotency_key="k1") for _ in range(2)]
        stream = await scene.post({**body, "stream": True}, idempotency_key="k2")
        again = await scene.post({**body, "stream": True}, idempotency_key="k2")
        other = await scene.post({"input": "another"}, idempotency_key="k1")
        said = await scene.said(thread_of(first))

    assert answers[0].json() == answers[1].json()
    assert answers[0].headers["x-thread-id"] == answers[1].headers["x-thread-id"]
    assert stream.text == again.text
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_key_reused")
    assert said.count("user") == 2


async def test_instructions_are_for_one_response_alone(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="you", instructions="Be kind.")
        second = await scene.create(input="me", previous_response_id=first["id"])
        roles = await scene.said(thread_of(first))

    assert (first["instructions"], second["instructions"]) == ("Be kind.", None)
    assert roles == ["user", "assistant", "user", "assistant"]


async def test_a_limit_of_tool_calls_is_the_runs(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        response = await scene.create(input="sum", max_tool_calls=1)

    assert response["max_tool_calls"] == 1
    assert "mcp_call" in kinds(response)
    assert text_of(response).endswith("It is 5.0.")


async def test_ids_of_another_owner_are_unknown(tmp_path: Path) -> None:
    keys = [{"name": name, "key": f"{name}-key-of-the-tests"} for name in ("alice", "bob")]
    async with responses_gateway(tmp_path, server={"api_keys": keys}) as scene:
        alice, bob = (scene.openai.with_options(api_key=key["key"]) for key in keys)
        first = await alice.responses.create(model="helper", input="you")
        assert first.conversation is not None
        with pytest.raises(openai.BadRequestError):
            await bob.responses.create(model="helper", input="x", previous_response_id=first.id)
        with pytest.raises(openai.NotFoundError):
            await bob.responses.create(model="helper", input="x", conversation=first.conversation.id)
        reference = {"type": "item_reference", "id": first.output[0].id}
        with pytest.raises(openai.NotFoundError):
            await bob.responses.create(model="helper", input=[reference])  # type: ignore[list-item]
        keyed = [
            await each.responses.create(model="helper", input="you", extra_headers={"Idempotency-Key": "k"})
            for each in (alice, bob)
        ]
    assert keyed[0].id == keyed[1].id  # each owner's own
