"""A person is asked in words, and answers with one: over Chat Completions and Responses, as over A2A."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import httpx
import pytest

from tests.case_tools import executions
from tests.openai_scene import OpenAIScene, openai_gateway
from tests.running_gateway import agent, scripted

Surface: TypeAlias = Literal["chat", "responses"]
every_surface = pytest.mark.parametrize("surface", ["chat", "responses"])

TOOL: Final = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:refund"}, "approval": "always"}
MCP: Final = {"type": "mcp", "server_label": "gateway"}


def _refund(order: str) -> dict[str, Any]:
    return {"tool": "refund", "arguments": {"order": order}}


MODEL: Final = scripted(
    [{"text": "One moment."}, _refund("1")],
    [_refund("2")],
    [{"text": "It said: {{result}}"}],
    rules=[{"when": {"last_user_contains": "thanks"}, "response": [{"text": "Welcome."}]}],
)
TWICE: Final = agent("twice", MODEL, tools=[TOOL])
OTHER: Final = agent("other", MODEL, tools=[TOOL])
FAILING: Final = agent(
    "failing",
    scripted([_refund("1")], [{"error": "server", "times": 1}, {"text": "It is done."}]),
    tools=[TOOL],
    parameters={"model_attempts": 1},
)
STRICT: Final = agent("strict", MODEL, tools=[{**TOOL, "approvers": "keys"}])
KEYS: Final = [
    {"name": "ann", "key": "ann-key-of-the-tests"},
    {"name": "bob", "key": "bob-key-of-the-tests", "approvals": True},
    {
        "name": "many",
        "key": "many-key-of-the-tests",
        "protocols": {"chat_completions": {"approve_by_word": False}, "responses": {"approve_by_word": False}},
    },
]


@dataclass(slots=True)
class Talk:
    """A conversation that a client keeps itself, as those of Chat Completions do, without any id of the gateway's."""

    scene: OpenAIScene
    surface: Surface
    model: str = "twice"
    key: str = "ann"
    said: list[dict[str, Any]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    thread_id: str = ""

    async def post(self, content: Any, *more: dict[str, Any]) -> httpx.Response:
        """The answer to what is said so far and this."""
        self.said.append({"role": "user", "content": content})
        name, path = ("input", "/responses") if self.surface == "responses" else ("messages", "/chat/completions")
        headers = {**self.headers, "authorization": f"Bearer {self.key}-key-of-the-tests"}
        answer = await self.scene.post(path, {"model": self.model, name: [*self.said, *more]}, **headers)
        self.thread_id = answer.headers.get("x-thread-id", self.thread_id)
        return answer

    async def say(self, content: Any) -> str:
        answer = await self.post(content)
        assert answer.status_code == 200, answer.text
        texts = texts_of(answer.json())
        self.said += [{"role": "assistant", "content": text} for text in texts]
        return "\n\n".join(texts)

    async def stored(self) -> list[tuple[str, str]]:
        headers = {"authorization": f"Bearer {self.key}-key-of-the-tests"}
        answer = await self.scene.http.get(f"/threads/{self.thread_id}/messages", headers=headers)
        return [(message["role"], message.get("content") or "") for message in answer.json()["messages"]]


def texts_of(answer: Any) -> list[str]:
    if "choices" in answer:
        return [answer["choices"][0]["message"]["content"]]
    return [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[OpenAIScene]:
    executions.clear()
    named = {"chat_completions": {"thread_headers": ["x-chat"]}, "responses": {"thread_headers": ["x-chat"]}}
    sections = {"protocols": named}
    async with openai_gateway(
        tmp_path, [TWICE, OTHER, FAILING, STRICT], server={"api_keys": KEYS}, sections=sections
    ) as running:
        yield running


def ran() -> int:
    return sum(executions.values())


@every_surface
@pytest.mark.parametrize("header", [{}, {"x-thread-id": "t1"}, {"x-chat": "c1"}], ids=["alone", "named", "chat"])
async def test_a_word_answers_what_was_asked_and_the_thread_goes_on(
    scene: OpenAIScene, surface: Surface, header: dict[str, str]
) -> None:
    talk = Talk(scene, surface, headers=header)
    first = await talk.say("refund, please")
    assert ran() == 0
    assert "[Approval needed]" in first
    assert '"order":"1"' in first
    begun = talk.thread_id
    second = await talk.say(" Approve\n")
    assert ran() == 1
    assert '"order":"2"' in second
    last = await talk.say("DENY")
    assert ran() == 1
    assert "denied" in last
    assert talk.thread_id == begun


async def test_a_later_request_of_the_conversation_adds_only_what_is_new(scene: OpenAIScene) -> None:
    talk = Talk(scene, "chat", headers={"x-thread-id": "t1"})
    *_, last = [await talk.say(each) for each in ("refund, please", "approve", "approve", "thanks")]
    stored = await talk.stored()
    headers = {"authorization": "Bearer ann-key-of-the-tests"}
    versions = (await scene.http.get("/threads/t1/versions", headers=headers)).json()["versions"]

    assert last == "Welcome."
    assert [content for role, content in stored if role == "user"] == ["refund, please", "thanks"]
    assert [role for role, _ in stored] == [
        "user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant",
    ]  # fmt: skip
    assert len(versions) == 1


@every_surface
@pytest.mark.parametrize("header", [{}, {"x-chat": "c1"}], ids=["alone", "named"])
async def test_a_word_of_a_history_that_is_sent_again_answers_nothing(
    scene: OpenAIScene, surface: Surface, header: dict[str, str]
) -> None:
    talk = Talk(scene, surface, headers=header)
    await talk.say("refund, please")
    history = [*talk.said]
    await talk.say("approve")
    again = Talk(scene, surface, said=history, headers=header)
    await again.post("approve")

    assert ran() == 1, "it is the answer to the first question; the second one was not seen there"


@every_surface
@pytest.mark.parametrize(
    "content",
    ["approve it", "approve deny", [{"type": "text", "text": "app"}, {"type": "text", "text": "rove"}], "yes"],
)
async def test_nothing_but_the_whole_word_answers(scene: OpenAIScene, surface: Surface, content: Any) -> None:
    talk = Talk(scene, surface)
    await talk.say("refund, please")
    if surface == "responses" and isinstance(content, list):
        content = [{**part, "type": "input_text"} for part in content]
    answer = await talk.post(content)
    assert answer.status_code == 200, answer.text
    assert ran() == 0


@every_surface
async def test_without_an_open_question_it_is_only_a_word(scene: OpenAIScene, surface: Surface) -> None:
    talk = Talk(scene, surface)
    await talk.say("thanks")
    await talk.say("approve")
    assert ("user", "approve") in await talk.stored()
    assert ran() == 0


@every_surface
async def test_who_may_not_approve_is_refused_and_the_question_stays_open(scene: OpenAIScene, surface: Surface) -> None:
    talk = Talk(scene, surface, model="strict")
    asked = await talk.say("refund, please")
    refused = await talk.post("approve")
    talk.said.pop()
    denied = await talk.say("deny")

    assert "`approve`" not in asked
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "approval_not_allowed")
    assert '"order":"2"' in denied, "the question was open still"
    assert ran() == 0


async def test_a_word_answers_the_agent_to_which_it_is_said(scene: OpenAIScene) -> None:
    one = Talk(scene, "chat", key="bob", headers={"x-thread-id": "t1"})
    await one.say("refund, please")
    history = [*one.said]
    other = Talk(scene, "chat", model="other", key="bob", headers={"x-thread-id": "t1"}, said=[*history])
    await other.say("refund, please")
    await other.say("approve")
    approvals = await scene.http.get("/approvals", headers={"authorization": "Bearer bob-key-of-the-tests"})
    at_the_other = Talk(scene, "chat", model="other", key="bob", headers={"x-thread-id": "t1"}, said=[*history])
    refused = await at_the_other.post("approve")

    assert ran() == 1
    assert sorted(each["agentId"] for each in approvals.json()["approvals"]) == ["other", "twice"]
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "approval_of_other_agent")


@every_surface
async def test_a_word_whose_run_failed_is_said_again_and_only_the_model_is_asked(
    scene: OpenAIScene, surface: Surface
) -> None:
    talk = Talk(scene, surface, model="failing")
    await talk.say("refund, please")
    failed = await talk.post("approve")
    talk.said.pop()
    last = await talk.say("approve")

    assert failed.status_code == 502
    assert last == "It is done."
    assert ran() == 1
    assert [content for role, content in await talk.stored() if role == "user"] == ["refund, please"]


@every_surface
async def test_an_id_leads_its_owner_alone_to_the_thread(scene: OpenAIScene, surface: Surface) -> None:
    talk = Talk(scene, surface)
    await talk.say("refund, please")
    other = Talk(scene, surface, key="bob", said=[*talk.said])
    await other.post("approve")
    await talk.say("go on")

    assert ran() == 0
    assert other.thread_id != talk.thread_id


@every_surface
async def test_a_key_of_many_does_not_answer_by_word(scene: OpenAIScene, surface: Surface) -> None:
    talk = Talk(scene, surface, key="many")
    asked = await talk.say("refund, please")
    await talk.say("approve")

    assert "`approve`" not in asked
    assert "POST /approvals/{id}" in asked
    assert ran() == 0


# --- how Responses asks


async def respond(scene: OpenAIScene, **body: Any) -> dict[str, Any]:
    headers = {"authorization": "Bearer ann-key-of-the-tests"}
    answer = await scene.post("/responses", {"model": "twice", **body}, **headers)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


def kinds(response: dict[str, Any]) -> list[str]:
    return [item["type"] for item in response["output"]]


async def test_who_sends_an_mcp_tool_is_asked_by_an_item_and_others_in_words(scene: OpenAIScene) -> None:
    item = await respond(scene, input="refund, please", tools=[MCP])
    words = await respond(scene, input="refund, please")
    headers = {"authorization": "Bearer ann-key-of-the-tests"}
    again = [(await scene.http.get(f"/v1/responses/{each['id']}", headers=headers)).json() for each in (item, words)]
    stream = await scene.http.get(f"/v1/responses/{words['id']}?stream=true", headers=headers)

    assert (kinds(item), kinds(words)) == (["message", "mcp_approval_request"], ["message", "message"])
    assert again == [item, words]
    assert "mcp_approval_request" not in stream.text


async def test_what_follows_an_item_is_asked_by_an_item(scene: OpenAIScene) -> None:
    first = await respond(scene, input="refund, please", tools=[MCP])
    yes = {"type": "mcp_approval_response", "approval_request_id": first["output"][-1]["id"], "approve": True}
    second = await respond(scene, input=[yes], previous_response_id=first["id"])
    third = await respond(scene, input="hm", previous_response_id=second["id"])

    assert kinds(second)[-1] == kinds(third)[-1] == "mcp_approval_request"


@pytest.mark.parametrize("how", ["previous", "conversation", "replayed", "referred"])
async def test_a_word_answers_a_response_however_it_is_gone_on_with(scene: OpenAIScene, how: str) -> None:
    first = await respond(scene, input="refund, please")
    sent: dict[str, Any] = {"input": "approve"}
    if how in ("replayed", "referred"):
        said = first["output"]
        if how == "referred":
            said = [{"type": "item_reference", "id": item["id"]} for item in said]
        words = [{"role": "user", "content": text} for text in ("refund, please", "approve")]
        sent["input"] = [words[0], *said, words[1]]
    if how == "previous":
        sent["previous_response_id"] = first["id"]
    if how == "conversation":
        sent["conversation"] = first["conversation"]["id"]
    second = await respond(scene, **sent)

    assert ran() == 1
    assert second["conversation"] == first["conversation"]
    assert kinds(second)[0] == "mcp_call"


async def test_a_history_with_words_that_answered_adds_only_what_is_new(scene: OpenAIScene) -> None:
    items: list[Any] = []
    answer: dict[str, Any] = {}
    for each in ("refund, please", "approve", "approve", "thanks"):
        items.append({"role": "user", "content": each})
        answer = await respond(scene, input=items)
        items += answer["output"]
    headers = {"authorization": "Bearer ann-key-of-the-tests"}
    thread = f"/threads/{answer['conversation']['id']}"
    stored = (await scene.http.get(f"{thread}/messages", headers=headers)).json()["messages"]
    versions = (await scene.http.get(f"{thread}/versions", headers=headers)).json()["versions"]

    assert [message["content"] for message in stored if message["role"] == "user"] == ["refund, please", "thanks"]
    assert (ran(), len(versions)) == (2, 1)


async def test_an_item_that_answers_a_question_in_words_counts_too(scene: OpenAIScene) -> None:
    first = await respond(scene, input="refund, please")
    asked = first["output"][-1]["content"][0]["text"]
    approval_id = asked.rpartition("(approval ")[2].removesuffix(")")
    yes = {"type": "mcp_approval_response", "approval_request_id": approval_id, "approve": True}
    await respond(scene, input=[yes])
    assert ran() == 1
