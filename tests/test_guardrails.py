"""Bedrock's guardrails through the whole gateway: what they stop is stopped for good, and the conversation goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bedrock_server import (
    ACCESS_KEY,
    REGION,
    SECRET_KEY,
    BedrockServer,
    bedrock_server,
    block_stop,
    event,
    hello,
    message_stop,
    metadata,
    text,
)
from tests.observed_runs import post, read_observed, thread_messages
from tests.running_gateway import LocalGateway, agent, gateway_process, local_gateway, run_body, write_configuration

OUTPUT = "To open the lock you turn the left pin three times and then push."
GUARDRAIL = {"guardrailIdentifier": "abc", "guardrailVersion": "1", "streamProcessingMode": "async"}


def guarded(server: BedrockServer, **parameters: Any) -> dict[str, Any]:
    model = {
        "model_provider": "bedrock/converse",
        "model_id": "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "endpoint": server.url,
        "region": REGION,
        "credential": {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY},
        "model_parameters": {"guardrailConfig": GUARDRAIL, **parameters},
    }
    return agent("guarded", model, system_prompt="Be brief.", parameters={"model_attempts": 1})


def found(where: str, **more: Any) -> dict[str, Any]:
    assessment: Any = {"topicPolicy": {"topics": [{"name": "locks", "type": "DENY", "action": "BLOCKED"}]}}
    return {"guardrail": {where: {"g": [assessment] if where == "outputAssessments" else assessment}, **more}}


def stopped(*texts: str, trace: dict[str, Any]) -> bytes:
    """An answer in which a guardrail intervened."""
    start = event("messageStart", role="assistant")
    words = b"".join(text(words) for words in texts)
    return start + words + block_stop() + message_stop("guardrail_intervened") + metadata(trace=trace)


async def ask(gateway: LocalGateway, run_id: str, *messages: dict[str, Any]) -> Any:
    response = await post(gateway, "/agents/guarded/run", run_body(messages=messages, run_id=run_id))
    return read_observed(response, "thread-1", run_id)


async def test_what_was_let_out_too_early_reaches_nobody_later(tmp_path: Path) -> None:
    async with bedrock_server() as server, local_gateway(tmp_path, [guarded(server)]) as gateway:
        trace = found("outputAssessments", modelOutput=[OUTPUT])
        server.will_stream(stopped("To open the lock ", "you turn ", "Sorry, not that.", trace=trace))
        server.will_stream(hello())
        server.will_stream(hello())
        question = {"id": "u1", "role": "user", "content": "How do I open it?"}

        seen = await ask(gateway, "run-1", question)

        assert seen.text == "To open the lock you turn Sorry, not that."
        assert seen.last["result"] == {"stopReason": "content_filter"}
        (_, answer) = seen.of("MESSAGES_SNAPSHOT")[0]["messages"]
        assert answer["content"] == "Sorry, not that."
        assert [message["content"] for message in await thread_messages(gateway, "thread-1")] == [
            "How do I open it?",
            "Sorry, not that.",
        ]

        # a client that did not heed the snapshot sends back what it was shown
        stale = [question, {**answer, "content": seen.text}]
        for number in (2, 3):
            stale.append({"id": f"u{number}", "role": "user", "content": "Go on"})
            seen = await ask(gateway, f"run-{number}", *stale)
            said_id = seen.one("TEXT_MESSAGE_START")["messageId"]
            stale.append({"id": said_id, "role": "assistant", "content": seen.text})

            asked = server.requests[number - 1].json
            assert [turn["content"][0]["text"] for turn in asked["messages"]] == [
                "How do I open it?",
                "Sorry, not that.",
                *["Go on", "Hello there"] * (number - 2),
                "Go on",
            ]
            assert asked["guardrailConfig"] == {**GUARDRAIL, "trace": "enabled"}


async def test_a_blocked_question_does_not_block_those_behind_it(tmp_path: Path) -> None:
    async with bedrock_server() as server, local_gateway(tmp_path, [guarded(server)]) as gateway:
        server.will_stream(stopped("I cannot talk about that.", trace=found("inputAssessment")))
        server.will_stream(hello())
        question = {"id": "u1", "role": "user", "content": "How do I break into a house?"}
        seen = await ask(gateway, "run-1", question)
        assert seen.text == "I cannot talk about that."
        assert not seen.of("MESSAGES_SNAPSHOT")
        answer = {"id": seen.one("TEXT_MESSAGE_START")["messageId"], "role": "assistant", "content": seen.text}

        seen = await ask(gateway, "run-2", question, answer, {"id": "u2", "role": "user", "content": "Good morning"})

        assert seen.text == "Hello there"
        assert "house" not in json.dumps(server.requests[1].json)
        shown = [message["content"] for message in await thread_messages(gateway, "thread-1")]
        assert shown[0] == "How do I break into a house?", "who asked may read it"


async def test_words_that_were_taken_back_are_not_in_the_log_of_a_process_that_was_killed(tmp_path: Path) -> None:
    script = [{"text": "The code is swordfish."}, {"retract": "Not that."}, {"text": "Well,"}, {"hang": True}]
    model = {"model_provider": "scripted", "model_parameters": {"responses": [script]}}
    configuration = write_configuration(tmp_path, [agent("guarded", model)])
    async with gateway_process(configuration) as first, first.client.stream("guarded", run_body()) as stream:
        await stream.until("TEXT_MESSAGE_START", 2)
        first.process.kill()
        await first.wait()
    async with gateway_process(configuration) as second:
        run = await second.client.until_status("run-1", "failed")
        assert run["error"]["code"] == "server_restarted"
        async with second.client.events("run-1", after=0) as replayed:
            frames = await replayed.rest()
        assert "swordfish" not in json.dumps([frame.data for frame in frames])
        assert "Not that." in json.dumps([frame.data for frame in frames])
