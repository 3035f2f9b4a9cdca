"""What a response goes on with: an earlier one of any protocol, a conversation, calls that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.responses_scene import (
    WEATHER,
    ResponsesGateway,
    kinds,
    output,
    responses_gateway,
    text_of,
    thread_of,
    user,
)
from tests.running_gateway import run_body


async def test_behind_the_last_response_the_thread_goes_on_and_behind_an_earlier_one_a_new_one_begins(
    tmp_path: Path,
) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="one")
        second = await scene.create(input="two", previous_response_id=first["id"])
        third = await scene.create(input="three", previous_response_id=first["id"])
        threads = [thread_of(each) for each in (first, second, third)]
        said = [[message["content"] for message in await scene.stored(each)] for each in (threads[0], threads[2])]

    assert threads[0] == threads[1] != threads[2]
    assert said == [["one", "Hello one.", "two", "Hello two."], ["one", "Hello one.", "three", "Hello three."]]
    assert third["previous_response_id"] == first["id"]


async def test_runs_of_other_protocols_can_be_gone_on_with(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        await scene.gateway.client.run("helper", run_body("over AG-UI", thread_id="t1", run_id="r1"))
        chat = {"model": "helper", "messages": [user("chat")], "store": True}
        completion = await scene.http.post("/v1/chat/completions", json=chat, headers={"x-thread-id": "t2"})
        behind_ag_ui = await scene.create(input="two", previous_response_id="r1")
        behind_chat = await scene.create(input="two", previous_response_id=completion.json()["id"])
        messages = [*await scene.stored("t1"), {"id": "back", **user("back")}]
        body = run_body(thread_id="t1", run_id="r2", messages=messages)
        await scene.gateway.client.run("helper", body)
        said = await scene.said("t1")

    assert thread_of(behind_ag_ui) == "t1"
    assert thread_of(behind_chat) == "t2"
    assert said == ["user", "assistant"] * 3


async def test_a_busy_thread_is_left_alone(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="one")
        busy = await scene.create(input="wait", previous_response_id=first["id"], background=True)
        third = await scene.create(input="three", previous_response_id=first["id"])
        in_conversation = await scene.error(409, input="x", conversation=thread_of(first))
        await scene.http.post(f"/runs/{busy['id']}/cancel")

    assert thread_of(busy) == thread_of(first) != thread_of(third)
    assert in_conversation["code"] == "thread_busy"


@pytest.mark.parametrize("is_last", [True, False])
async def test_a_response_whose_last_item_was_deleted_is_gone_on_with_all_the_same(
    tmp_path: Path, is_last: bool
) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="one")
        if not is_last:
            await scene.create(input="two", previous_response_id=first["id"])
        items = f"/v1/conversations/{thread_of(first)}/items"
        deleted = await scene.http.delete(f"{items}/{first['output'][0]['id']}")
        onward = await scene.create(input="three", previous_response_id=first["id"])
        said = [message["content"] for message in await scene.stored(thread_of(onward))]

    assert deleted.status_code == 200
    assert (thread_of(onward) == thread_of(first)) is is_last
    assert said == ["one", "three", "Hello three."]


async def test_what_was_added_to_the_thread_since_stays_out(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="one")
        await scene.openai.conversations.items.create(thread_of(first), items=[{"role": "user", "content": "aside"}])
        second = await scene.create(input="two", previous_response_id=first["id"])
        said = [message["content"] for message in await scene.stored(thread_of(second))]

    assert thread_of(second) != thread_of(first)
    assert said == ["one", "Hello one.", "two", "Hello two."]


async def test_a_conversation_is_the_thread_itself(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        conversation = await scene.openai.conversations.create()
        first = await scene.create(input="one", conversation=conversation.id)
        second = await scene.create(input="two", conversation={"id": conversation.id})
        said = await scene.said(conversation.id)

    assert thread_of(first) == thread_of(second) == conversation.id
    assert said == ["user", "assistant"] * 2


async def asked(scene: ResponsesGateway, text: str = "weather", **more: Any) -> dict[str, Any]:
    return await scene.create(input=text, tools=[WEATHER], **more)


def calls(response: dict[str, Any]) -> list[str]:
    return [item["call_id"] for item in response["output"] if item["type"] == "function_call"]


async def test_outputs_go_on_behind_the_response_that_called(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await asked(scene, "both")
        outputs = [output(call_id, city) for call_id, city in zip(calls(first), ("sunny", "cold"), strict=True)]
        second = await scene.create(input=outputs, previous_response_id=first["id"], tools=[WEATHER])
        said = await scene.said(thread_of(first))

    assert kinds(first) == ["function_call", "function_call"]
    assert first["status"] == "completed"
    assert all(call_id.startswith(f"call_{first['id']}_") for call_id in calls(first))
    assert text_of(second) == "It is cold."
    assert thread_of(second) == thread_of(first)
    assert said == ["user", "assistant", "tool", "tool", "assistant"]


async def test_a_missing_an_unknown_and_a_second_output_are_refused(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await asked(scene, "both")
        rome, oslo = calls(first)
        missing = [
            await scene.error(400, input=given, previous_response_id=first["id"])
            for given in ([output(rome, "sunny")], "never mind")
        ]
        unknown = await scene.error(400, input=[output("call_x", "?")], previous_response_id=first["id"])
        alone = await scene.error(400, input=[output("call_x", "?")])
        both = [output(rome, "sunny"), output(oslo, "cold")]
        second = await scene.create(input=both, previous_response_id=first["id"])
        again = await scene.error(400, input=both[:1], previous_response_id=second["id"])
        in_conversation = await asked(scene, "weather", conversation=thread_of(second))
        open_call = await scene.error(400, input="x", conversation=thread_of(in_conversation))

    assert [each["message"] for each in missing] == [
        f"No tool output found for function call {oslo}.",
        f"No tool output found for function call {rome}.",
    ]
    assert missing[0]["param"] == "input"
    assert unknown["message"] == "No tool call found for function call output with call_id call_x."
    assert unknown["param"] == alone["param"] == again["param"] == "input[0].call_id"
    assert open_call["message"] == f"No tool output found for function call {calls(in_conversation)[0]}."


async def test_what_is_not_stored_is_apart_and_cannot_be_gone_on_with(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        stored = await scene.create(input="one")
        kept_out = await scene.post({"input": "two", "previous_response_id": stored["id"], "store": False})
        said = await scene.said(thread_of(stored))
        listed = await scene.gateway.client.get("/threads")
        error = await scene.error(400, input="x", previous_response_id=kept_out.json()["id"])

    assert text_of(kept_out.json()) == "Hello two."
    assert kept_out.json()["store"] is False
    assert said == ["user", "assistant"]
    assert kept_out.headers["x-thread-id"] != thread_of(stored)
    assert [each["id"] for each in listed["threads"]] == [thread_of(stored)]
    assert error["code"] == "previous_response_not_found"


async def waiting(scene: ResponsesGateway) -> tuple[dict[str, Any], str]:
    """A response that asks a person, and the question's id."""
    response = await scene.create(model="careful", input="sum", tools=[{"type": "mcp", "server_label": "gateway"}])
    (question,) = [item for item in response["output"] if item["type"] == "mcp_approval_request"]
    assert (question["name"], question["arguments"]) == ("add", '{"a":2,"b":3}')
    return response, question["id"]


def approval(question: str, *, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": question, "approve": approve, "reason": "tests"}


@pytest.mark.parametrize("approve", [True, False])
@pytest.mark.parametrize("how", ["previous", "conversation", "alone", "replayed", "referred"])
async def test_a_persons_answer_goes_on_with_the_call(tmp_path: Path, approve: bool, how: str) -> None:
    async with responses_gateway(tmp_path) as scene:
        response, question = await waiting(scene)
        given: list[dict[str, Any]] = [approval(question, approve=approve)]
        named = {
            "previous": {"previous_response_id": response["id"]},
            "conversation": {"conversation": thread_of(response)},
        }
        more: dict[str, Any] = named.get(how, {})
        if how == "replayed":
            given = [user("sum"), *response["output"], *given]
        if how == "referred":
            references = [{"type": "item_reference", "id": item["id"]} for item in response["output"]]
            given = [user("sum"), *references, *given]
        second = await scene.create(model="careful", input=given, **more)
        said = await scene.stored(thread_of(response))
        late = await scene.error(409, model="careful", input=[approval(question)], **more)

    (call,) = [item for item in second["output"] if item["type"] == "mcp_call"]
    assert (call["name"], call["approval_request_id"]) == ("add", question)
    assert (call["output"] == "5.0") is approve
    assert thread_of(second) == thread_of(response)
    assert [message["role"] for message in said if message["role"] != "reasoning"] == [
        "user", "assistant", "tool", "assistant",
    ]  # fmt: skip
    assert late["code"] == "approval_answered"


async def test_a_persons_answer_counts_also_where_the_thread_went_on(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        response, question = await waiting(scene)
        await scene.openai.conversations.items.create(thread_of(response), items=[{"role": "user", "content": "aside"}])
        previous = response["id"]
        second = await scene.create(model="careful", input=[approval(question)], previous_response_id=previous)

    assert thread_of(second) == thread_of(response)
    assert "mcp_call" in kinds(second)


@pytest.mark.parametrize("how", ["previous", "alone", "replayed"])
async def test_a_persons_answer_counts_also_behind_what_was_said_meanwhile(tmp_path: Path, how: str) -> None:
    async with responses_gateway(tmp_path) as scene:
        first, question = await waiting(scene)
        previous = first["id"]
        second = await scene.create(model="careful", input="One moment.", previous_response_id=previous)
        given: list[dict[str, Any]] = [approval(question)]
        if how == "replayed":
            given = [user("sum"), *first["output"], user("One moment."), *second["output"], *given]
        more = {"previous_response_id": previous} if how == "previous" else {}
        third = await scene.create(model="careful", input=given, **more)
        late = await scene.error(409, model="careful", input=given, **more)

    assert "mcp_approval_request" in kinds(second), "the question is still open"
    assert thread_of(third) == thread_of(first)
    assert "mcp_call" in kinds(third)
    assert late["code"] == "approval_answered"


async def test_an_answer_to_no_question_is_refused(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        response, question = await waiting(scene)
        for unknown in ("mcpr_x", f"mcpr_{response['id']}_0", question.replace("mcpr_", "mcp_")):
            error = await scene.error(400, model="careful", input=[approval(unknown)], conversation=thread_of(response))
            assert error["param"] == "input[0].approval_request_id"
        assert (await scene.error(400, input=[approval("mcpr_resp_x_1")]))["param"] == "input[0].approval_request_id"
