"""A second result for a client's call: the first one counts, over every protocol that takes one."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.ml_commons_scene import P
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted

Json = dict[str, Any]

ASK = {"name": "ask", "description": "Ask.", "parameters": {"type": "object"}}
CALLS: list[Json] = [{"tool": "ask", "arguments": {}}]
HELPER = agent("helper", scripted(CALLS, [{"text": "It is {{result}}."}], rules=[
    {"when": {"last_user_contains": "again"}, "response": [{"text": "Again."}]},
]))  # fmt: skip


class Scene:
    """A thread "t" whose call has a result, and an answer behind it."""

    def __init__(self, gateway: LocalGateway) -> None:
        self.http = gateway.client.http
        self.messages: list[Json] = []
        self.runs = 0

    async def begin(self) -> None:
        await self.run([{"id": "u1", "role": "user", "content": "hi"}])
        await self.run([*await self.kept(), self.result("first", "yes")])
        self.messages = await self.kept()
        assert self.said(self.messages) == ["user hi", "assistant ", "tool yes", "assistant It is yes."]

    @property
    def call_id(self) -> str:
        return str(self.messages[1]["toolCalls"][0]["id"])

    def result(self, message_id: str, words: str) -> Json:
        call_id = self.call_id if self.messages else self._asked
        return {"id": message_id, "role": "tool", "toolCallId": call_id, "content": words}

    async def run(self, messages: list[Json], status: int = 200, **more: Any) -> Json:
        self.runs += 1
        body = run_body(messages=messages, thread_id="t", run_id=f"r{self.runs}", tools=[ASK], **more)
        answer = await self.http.post("/agents/helper/run", json=body)
        assert answer.status_code == status, answer.text
        return {} if status == 200 else dict(answer.json())

    async def kept(self) -> list[Json]:
        found: list[Json] = (await self.http.get("/threads/t/messages")).json()["messages"]
        self._asked = next((each["toolCalls"][0]["id"] for each in found if each.get("toolCalls")), "")
        return found

    @staticmethod
    def said(messages: list[Json]) -> list[str]:
        return [f"{each['role']} {each.get('content') or ''}" for each in messages]

    async def versions(self) -> int:
        return len((await self.http.get("/threads/t/versions")).json()["versions"])


@pytest_asyncio.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[Scene]:
    async with local_gateway(tmp_path, [HELPER]) as gateway:
        scene = Scene(gateway)
        await scene.begin()
        yield scene


@pytest.mark.parametrize("sent", ["behind all", "in the first one's place", "alone"])
async def test_a_further_result_alone_is_refused_and_changes_nothing(
    scene: Scene, sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    further = scene.result("second", "no")
    history = {
        "behind all": [*scene.messages, further],
        "in the first one's place": [*scene.messages[:2], further],
        "alone": [further],
    }[sent]
    if sent == "alone":
        body = {"input": [{"role": "tool", "toolCallId": scene.call_id, "content": [{"type": "text", "text": "no"}]}]}
        answer = await scene.http.post(f"{P}/agents/helper/_execute", json={**body, "parameters": {"memory_id": "t"}})
        assert answer.status_code == 409, answer.text
    else:
        assert (await scene.run(history, 409))["code"] == "call_answered"
    assert await scene.kept() == scene.messages
    assert await scene.versions() == 1
    assert "left out further results of calls that have one" in [each.getMessage() for each in caplog.records]
    assert caplog.records[-1].levelno == logging.WARNING


async def test_a_further_result_is_left_out_of_what_else_is_new(scene: Scene) -> None:
    new = {"id": "u2", "role": "user", "content": "again"}
    await scene.run([*scene.messages, scene.result("second", "no"), new])
    kept = await scene.kept()
    assert kept[:4] == scene.messages
    assert scene.said(kept[4:]) == ["user again", "assistant Again."]


async def test_the_first_result_stays_where_a_client_sends_another_in_its_place(scene: Scene) -> None:
    new = {"id": "u2", "role": "user", "content": "again"}
    await scene.run([*scene.messages[:2], scene.result("second", "no"), scene.messages[3], new])
    kept = await scene.kept()
    assert kept[:4] == scene.messages
    assert await scene.versions() == 1


async def test_of_two_results_in_one_request_the_first_counts(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [HELPER]) as gateway:
        scene = Scene(gateway)
        await scene.run([{"id": "u1", "role": "user", "content": "hi"}])
        asked = await scene.kept()
        await scene.run([*asked, scene.result("first", "yes"), scene.result("second", "no")])
        assert scene.said(await scene.kept())[2:] == ["tool yes", "assistant It is yes."]


async def test_other_words_under_the_first_results_id_are_an_edit(scene: Scene) -> None:
    await scene.run([*scene.messages[:2], scene.result("first", "no")])
    assert scene.said(await scene.kept())[2:] == ["tool no", "assistant It is no."]
    assert await scene.versions() == 2


async def test_chat_completions_takes_a_thread_whose_call_was_answered_twice(scene: Scene) -> None:
    new = {"id": "u2", "role": "user", "content": "again"}
    await scene.run([*scene.messages, scene.result("second", "no"), new])
    call = {"id": scene.call_id, "type": "function", "function": {"name": "ask", "arguments": "{}"}}
    history: list[Json] = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}]
    for message in (await scene.kept())[2:]:
        more = {"tool_call_id": scene.call_id} if message["role"] == "tool" else {}
        history.append({"role": message["role"], "content": message["content"], **more})
    body = {"model": "helper", "messages": [*history, {"role": "user", "content": "and again"}]}
    answer = await scene.http.post("/v1/chat/completions", json=body, headers={"x-thread-id": "t"})
    assert answer.status_code == 200, answer.text
    assert len([each for each in await scene.kept() if each["role"] == "tool"]) == 1


async def test_no_further_result_is_added_to_a_conversation(scene: Scene) -> None:
    output = {"type": "function_call_output", "call_id": scene.call_id, "output": "no"}
    answer = await scene.http.post("/v1/conversations/t/items", json={"items": [output]})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "result_not_allowed"), answer.text
    assert await scene.kept() == scene.messages
