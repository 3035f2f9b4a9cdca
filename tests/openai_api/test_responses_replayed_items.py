"""Clients that keep the history themselves: replayed items, references, sealed reasoning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.openai_scene import WORDS, openai_gateway
from tests.responses_scene import (
    CAREFUL,
    WEATHER,
    ResponsesGateway,
    kinds,
    output,
    responses_gateway,
    text_of,
    thread_of,
    user,
)
from tests.running_gateway import agent, scripted

ENCRYPTED = {"include": ["reasoning.encrypted_content"]}
WHOLE_TURN = ["user", "reasoning", "assistant", "tool", "assistant"]


def references(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "item_reference", "id": item["id"]} for item in response["output"]]


def shown(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] == "message"]


@pytest.mark.parametrize("replayed", [lambda response: response["output"], references, shown])
async def test_replayed_items_lead_back_to_their_thread_and_hidden_turns_stay(tmp_path: Path, replayed: Any) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        second = await scene.create(input=[user("sum"), *replayed(first), user("thanks")])
        said, versions = await scene.said(thread_of(first)), await scene.versions(thread_of(first))

    assert kinds(first) == ["reasoning", "message", "mcp_call", "message"]
    assert text_of(second) == "Hello thanks."
    assert thread_of(second) == thread_of(first)
    assert (said, versions) == ([*WHOLE_TURN, "user", "assistant"], 1)


async def test_a_client_of_its_own_tools_may_replay_calls_and_outputs(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        history: list[dict[str, Any]] = [user("weather")]
        first = await scene.create(input=history, tools=[WEATHER], store=False)
        call = first["output"][-1]
        history += [*first["output"], output(call["call_id"], "sunny")]
        second = await scene.post({"input": history, "tools": [WEATHER], "store": False})
        history += [*second.json()["output"], user("thanks")]
        third = await scene.post({"input": history, "tools": [WEATHER], "store": False})
        said = await scene.said(third.headers["x-thread-id"])
        unanswered = await scene.error(400, input=[user("weather"), *first["output"]])

    assert text_of(second.json()) == "It is sunny."
    assert second.headers["x-thread-id"] == third.headers["x-thread-id"]
    assert said == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert unanswered["message"] == f"No tool output found for function call {call['call_id']}."


async def test_what_differs_is_an_edit_of_the_thread(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        await scene.create(input=[user("sum"), *first["output"], user("thanks")])
        other = await scene.create(input=[user("sum"), *first["output"], user("why")])
        thread_id = thread_of(first)
        said, versions = await scene.stored(thread_id), await scene.versions(thread_id)

    assert thread_of(other) == thread_id
    assert [message["role"] for message in said] == [*WHOLE_TURN, "user", "assistant"]
    assert (said[5]["content"], versions) == ("why", 2)


async def test_items_whose_thread_is_gone_are_taken_as_they_are(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        await scene.http.delete(f"/threads/{thread_of(first)}")
        second = await scene.create(input=[user("sum"), *first["output"], user("thanks")])
        said = await scene.said(thread_of(second))
        reference = await scene.error(404, input=[user("sum"), *references(first), user("thanks")])

    assert thread_of(second) != thread_of(first)
    roles = [role for role in said if role != "reasoning"]
    assert roles == ["user", "assistant", "assistant", "tool", "assistant", "user", "assistant"]
    assert (reference["code"], reference["param"]) == ("item_not_found", "input")


async def test_an_item_of_another_thread_can_be_referred_to_and_one_of_the_same_is_not_said_twice(
    tmp_path: Path,
) -> None:
    async with responses_gateway(tmp_path) as scene:
        first, other = await scene.create(input="sum"), await scene.create(input="one")
        given = [*references(first), *first["output"], *references(other), user("two")]
        second = await scene.create(input=given, previous_response_id=first["id"])
        said = await scene.stored(thread_of(first))

    assert thread_of(second) == thread_of(first)
    assert [message["role"] for message in said] == [*WHOLE_TURN, "assistant", "user", "assistant"]
    assert said[5]["content"] == "Hello one."


async def test_a_message_of_a_conversation_can_be_referred_to(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        conversation = await scene.openai.conversations.create(items=[{"role": "user", "content": "one"}])
        (item,) = (await scene.openai.conversations.items.list(conversation.id)).data
        reference = {"type": "item_reference", "id": item.id}
        inside = await scene.create(input=[reference, user("two")], conversation=conversation.id)
        elsewhere = await scene.create(input=[reference, user("two")])
        said = [[each["content"] for each in await scene.stored(thread_of(it))] for it in (inside, elsewhere)]
        unknown = await scene.error(404, input=[{"id": "msg_of_nobody"}])

    assert said == [["one", "two", "Hello two."]] * 2
    assert unknown["param"] == "input"


async def test_ids_lead_to_their_items_also_where_others_of_the_response_were_deleted(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        thought, *_, answer = first["output"]
        await scene.openai.conversations.items.delete(thought["id"], conversation_id=thread_of(first))
        deleted = await scene.error(404, input=[{"id": thought["id"]}])
        second = await scene.create(input=[user("one"), {"id": answer["id"]}, user("two")], store=False)
        elsewhere = await scene.create(input=[{"id": answer["id"]}, user("two")], conversation=await new(scene))
        said = [message["content"] for message in await scene.stored(thread_of(elsewhere))]

    assert deleted["code"] == "item_not_found"
    assert text_of(second) == "Hello two."
    assert said == ["It is 5.0.", "two", "Hello two."]


async def new(scene: ResponsesGateway) -> str:
    return (await scene.openai.conversations.create()).id


async def test_what_a_response_wrote_for_something_else_is_not_taken_for_words(tmp_path: Path) -> None:
    sound = {"medium": "UklGRg==", "media_type": "audio/wav"}
    asking = {"protocols": {"responses": {"approvals": "message"}}}
    singer = agent("singer", scripted([sound], [{"text": "Hello {{user}}."}]))
    async with responses_gateway(tmp_path, [CAREFUL, singer], sections=asking) as scene:
        for model, text in (("careful", "sum"), ("singer", "sing")):
            first = await scene.create(model=model, input=text)
            assert kinds(first)[-1] == "message"
            second = await scene.create(model=model, input=[user(text), *first["output"], user("thanks")])
            thread_id = thread_of(first)
            assert thread_of(second) == thread_id
            said = await scene.stored(thread_id)
            assert [each["content"] for each in said if each["role"] == "user"] == [text, "thanks"]
            assert first["output"][-1]["content"][0]["text"] not in [each.get("content") for each in said]
            assert await scene.versions(thread_id) == 1


async def test_what_is_stored_and_what_is_not_do_not_share_a_thread(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        apart = await scene.post({"input": [user("sum"), *first["output"], user("thanks")], "store": False})
        kept = await scene.create(
            input=[user("sum"), *first["output"], user("thanks"), *apart.json()["output"], user("x")]
        )
        threads = {thread_of(first), apart.headers["x-thread-id"], thread_of(kept)}
        said = [await scene.said(each) for each in (thread_of(first), apart.headers["x-thread-id"], thread_of(kept))]

    assert len(threads) == 3
    assert said[0] == WHOLE_TURN
    assert said[1] == [*WHOLE_TURN, "user", "assistant"]
    assert said[2] == [*WHOLE_TURN, "user", "assistant", "user", "assistant"]


async def test_a_replay_behind_an_earlier_response_forks_with_its_whole_history(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum")
        await scene.create(input="two", previous_response_id=first["id"])
        apart = await scene.post({"input": [user("sum"), *shown(first), user("thanks")], "store": False})
        said = await scene.said(apart.headers["x-thread-id"])

    assert said == [*WHOLE_TURN, "user", "assistant"]


async def test_sealed_reasoning_comes_back_to_its_model_and_a_forged_one_does_not(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first = await scene.create(input="sum", **ENCRYPTED)
        plain = await scene.create(input="sum")
        await scene.http.delete(f"/threads/{thread_of(first)}")
        reasoning, *rest = first["output"]
        forged = {**reasoning, "encrypted_content": reasoning["encrypted_content"][:-4] + "AAAA"}
        threads = [
            thread_of(await scene.create(input=[user("sum"), each, *rest, user("x")], **ENCRYPTED))
            for each in (reasoning, forged)
        ]
        stored = [(await scene.stored(each))[1] for each in threads]

    assert reasoning["encrypted_content"]
    assert plain["output"][0].get("encrypted_content") is None
    assert [message["role"] for message in stored] == ["reasoning", "reasoning"]
    assert "encryptedValue" in stored[0]
    assert "encryptedValue" not in stored[1]
    assert stored[1]["content"] == "Sums need the tool."


async def test_a_restart_forgets_no_seal_and_no_thread(tmp_path: Path) -> None:
    async with responses_gateway(tmp_path) as scene:
        first, other = await scene.create(input="sum", **ENCRYPTED), await scene.create(input="sum")
        await scene.http.delete(f"/threads/{thread_of(first)}")
    async with responses_gateway(tmp_path) as scene:
        sealed = await scene.create(input=[user("sum"), *first["output"], user("x")], **ENCRYPTED)
        stored = await scene.stored(thread_of(sealed))
        behind = await scene.create(input=[user("sum"), *references(other), user("x")])

    assert "encryptedValue" in stored[1]
    assert thread_of(behind) == thread_of(other)


async def test_a_long_talk_that_is_sent_again_with_every_question_stays_one_thread(tmp_path: Path) -> None:
    async with openai_gateway(tmp_path, [WORDS]) as scene:
        items: list[Any] = []
        threads = set()
        for number in range(8):
            items.append({"role": "user", "content": f"question {number}"})
            answer = await scene.openai.responses.create(model="words", input=items)
            assert answer.output_text == f"I heard: question {number}"
            assert answer.conversation is not None
            threads.add(answer.conversation.id)
            items += [item.model_dump(mode="json", exclude_none=True) for item in answer.output]
        edited = [*items[:10], {"role": "user", "content": "something else"}]
        again = await scene.openai.responses.create(model="words", input=edited)
        (thread,) = threads
        messages = await scene.stored(thread)

    assert again.output_text == "I heard: something else"
    assert [message["content"] for message in messages] == [
        *(text for number in range(5) for text in (f"question {number}", f"I heard: question {number}")),
        "something else",
        "I heard: something else",
    ]
