"""Every script over every protocol, as a stream and as a body: the same text, tools, reasoning and outcome, but for
what a protocol cannot say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.a2a_speaker import V1, message, told_by_task
from tests.agent_api_speaker import process_body
from tests.agent_api_speaker import told_by_response as told_by_agent_api
from tests.case_tools import PIXEL
from tests.local_proxies import needs_nginx
from tests.opensearch.index_sets import store_url
from tests.protocol_speakers import SPEAKERS, told_by_ag_ui, told_by_response
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted
from tests.several_gateways import several_gateways
from tests.told_runs import Question, Speaker, Told, words

_ADD: Final = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:add"}}
_REFUND: Final = {"type": "PythonTool", "parameters": {"function": "tests.case_tools:refund"}, "approval": "always"}
_FIVE: Final = ("add", '{"a":2,"b":3}', "5.0")
_NINE: Final = ("add", '{"a":4,"b":5}', "9.0")


@dataclass(frozen=True, slots=True)
class Script:
    """What an agent does, and what whoever hears all of it is told."""

    agent: Mapping[str, Any]
    told: Told
    tools: tuple[str, ...] = ()
    cancel: bool = False


def _call(a: int, b: int) -> dict[str, Any]:
    return {"tool": "add", "arguments": {"a": a, "b": b}}


SCRIPTS: Final[Mapping[str, Script]] = {
    "text": Script(
        agent("text", scripted([{"text": 'One "two"\nthree.', "chunk_characters": 2}])), Told('One "two" three.')
    ),
    "reasoning": Script(
        agent("reasoning", scripted([{"reasoning": "Hm, well.", "chunk_characters": 3}, {"text": "So."}])),
        Told("So.", reasoning="Hm, well."),
    ),
    "backend tool": Script(
        agent(
            "backend-tool",
            scripted([{"text": "I look."}, _call(2, 3)], [{"text": "It is {{result}}.", "chunk_characters": 2}]),
            tools=[_ADD],
        ),
        Told("I look. It is 5.0.", backend=(_FIVE,)),
    ),
    "parallel tools": Script(
        agent("parallel-tools", scripted([_call(2, 3), _call(4, 5)], [{"text": "5 and 9."}]), tools=[_ADD]),
        Told("5 and 9.", backend=(_FIVE, _NINE)),
    ),
    "client tool": Script(
        agent("client-tool", scripted([{"text": "Tell me."}, {"tool": "ask", "arguments": {"question": "Who?"}}])),
        Told("Tell me.", pending=(("ask", '{"question":"Who?"}'),), outcome="client_tools"),
        tools=("ask",),
    ),
    "backend and client tools": Script(
        agent("both-tools", scripted([_call(2, 3), {"tool": "ask"}, {"tool": "ask"}]), tools=[_ADD]),
        Told(backend=(_FIVE,), pending=(("ask", "{}"), ("ask", "{}")), outcome="client_tools"),
        tools=("ask",),
    ),
    "approval": Script(
        agent(
            "approval",
            scripted([{"text": "One moment."}, {"tool": "refund", "arguments": {"order": "1"}}]),
            tools=[_REFUND],
        ),
        Told("One moment.", questions=("The tool 'refund' needs your approval before it runs.",), outcome="asks"),
    ),
    "medium": Script(
        agent("medium", scripted([{"text": "Look:"}, {"medium": PIXEL}, {"text": "Nice."}])),
        Told("Look: Nice.", media=(("image/png", PIXEL),)),
    ),
    "refusal": Script(
        agent("refusal", scripted([{"text": "I will not.", "refusal": True, "chunk_characters": 3}])),
        Told(refusal="I will not."),
    ),
    "retraction": Script(
        agent("retraction", scripted([{"text": "A secret.", "chunk_characters": 3}, {"retract": "No."}])),
        Told("No."),
    ),
    "cut off": Script(
        agent("cut-off", scripted([{"text": "As long as"}, {"stop": "max_tokens"}])),
        Told("As long as", outcome="length"),
    ),
    "failure after some tokens": Script(
        agent("failure", scripted([{"text": "so far", "chunk_characters": 2}, {"error": "overloaded"}])),
        Told("so far", outcome="failed", error="model_overloaded"),
    ),
    "cancel": Script(
        agent("cancel", scripted([{"text": "part"}, {"hang": True}])), Told("part", outcome="cancelled"), cancel=True
    ),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """What a protocol says of a script in place of what was said. `form` is empty for both."""

    protocol: str
    form: str
    scripts: tuple[str, ...]
    said: Mapping[str, Any]
    why: str


CANNOT_SAY: Final = (
    Difference("AG-UI", "", ("refusal",), {"text": "I will not.", "refusal": ""}, "it has no refusals: they are texts"),
    Difference(
        "Chat",
        "",
        ("backend tool", "parallel tools", "backend and client tools"),
        {"backend": ()},
        "its clients run whatever stands in tool_calls, so the gateway's own calls are hidden",
    ),
    Difference(
        "Chat",
        "stream",
        ("retraction",),
        {"text": "A secret. [The text above was taken back.] No."},
        "a delta cannot be taken back: a mark says so",
    ),
    Difference(
        "Chat",
        "body",
        ("failure after some tokens", "cancel"),
        {"text": ""},
        "a run that failed is answered with an error in place of the message",
    ),
    Difference(
        "Responses",
        "",
        ("approval",),
        {"questions": ("refund",)},
        "its question is an item with the tool's name and arguments, without words",
    ),
    Difference(
        "Responses",
        "stream",
        ("retraction",),
        {"text": "A secret."},
        "a delta cannot be taken back: the finished item and the Response at the end have what replaces it",
    ),
    Difference(
        "Responses",
        "body",
        ("failure after some tokens", "cancel"),
        {"text": ""},
        "a run that failed is answered with an error in place of the Response",
    ),
    Difference(
        "Agent API",
        "",
        ("approval",),
        {"questions": ("refund",)},
        "its question is a message with the tool's name and arguments, without words",
    ),
    Difference(
        "Agent API",
        "stream",
        ("retraction",),
        {"text": "A secret."},
        "a delta cannot be taken back: the completed content, its message and the response have what replaces it",
    ),
    *(
        Difference("A2A", form, scripts, said, "what goes on besides is told by the messages of a stream's statuses")
        for form in ("body", "body of 0.3", "GET")
        for scripts, said in (
            (("reasoning",), {"reasoning": ""}),
            (("backend tool", "parallel tools", "backend and client tools"), {"backend": ()}),
        )
    ),
)


def expected(script: str, speaker: Speaker) -> Told:
    told = SCRIPTS[script].told
    for each in CANNOT_SAY:
        if script in each.scripts and each.protocol == speaker.protocol and each.form in ("", speaker.form):
            told = replace(told, **each.said)
    return told


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        "sqlite",
        pytest.param("opensearch", marks=pytest.mark.thorough),
        pytest.param("three gateways", marks=[pytest.mark.thorough, needs_nginx]),
    ],
)
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[LocalGateway]:
    directory: Path = tmp_path_factory.mktemp("gateway")
    agents = [script.agent for script in SCRIPTS.values()]
    if request.param == "three gateways":
        store_url("opensearch", directory, request)
        async with several_gateways(directory, agents) as several:
            yield replace(several.gateways[0], client=several.client)
        return
    async with local_gateway(directory, agents, store=store_url(request.param, directory, request)) as running:
        yield running


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_every_protocol_tells_the_same_of_a_run(script: str, speaker: Speaker, gateway: LocalGateway) -> None:
    played = SCRIPTS[script]
    name = f"{speaker.name} {script}".replace(" ", "-")
    question = Question(played.agent["id"], "Please.", name, played.tools, played.cancel)
    assert await speaker.ask(gateway.client, question) == expected(script, speaker)


@pytest.mark.parametrize("difference", CANNOT_SAY, ids=lambda each: f"{each.protocol} {each.form} {each.scripts[0]}")
def test_each_difference_is_one(difference: Difference) -> None:
    for script in difference.scripts:
        assert replace(SCRIPTS[script].told, **difference.said) != SCRIPTS[script].told


# --- one thread -----------------------------------------------------------------------------------------------------


_TALKS = agent(
    "talks",
    scripted(
        [{"reasoning": "Hm.", "signature": "s"}, {"text": "Let me see."}, _call(2, 3)],
        [{"text": "{{user}}: {{result}}"}],
    ),
    tools=[_ADD],
)


@dataclass(slots=True)
class Talk:
    """A person's talk with an agent over clients of several protocols. `shown` is what each of them has on its screen:
    the questions and answers. `response_id` is the last run's.
    """

    gateway: LocalGateway
    thread_id: str
    shown: list[dict[str, str]]
    response_id: str = ""

    async def say(self, protocol: str, text: str) -> str:
        """The answer's text."""
        speak: Any = getattr(self, f"_say_{protocol}")
        answer: str = await speak(text)
        paragraphs = [each["content"] for each in await self.messages() if each["role"] == "assistant"][-2:]
        self.shown += [{"role": "user", "content": text}, {"role": "assistant", "content": "\n\n".join(paragraphs)}]
        return answer

    async def _say_ag_ui(self, text: str) -> str:
        """With the thread's messages, as a page has them that was loaded again."""
        kept = await self.messages() if self.shown else []
        number = len(self.shown)
        run = {"threadId": self.thread_id, "runId": f"run-{number}", "protocolVersion": "1.0"}
        asked = {"id": f"user-{number}", "role": "user", "content": text}
        frames = await self.gateway.client.run("talks", {**run, "messages": [*kept, asked]})
        self.response_id = run["runId"]
        return told_by_ag_ui([frame.data for frame in frames]).text

    async def _say_chat(self, text: str) -> str:
        """With all that its screen shows, whoever said it."""
        body = {"model": "talks", "messages": [*self.shown, {"role": "user", "content": text}]}
        answer = await self._post("/v1/chat/completions", body, {"X-Thread-Id": self.thread_id})
        self.response_id = answer["id"]
        content: str = answer["choices"][0]["message"]["content"]
        return content

    async def _say_response(self, text: str) -> str:
        """Behind the last run, whichever protocol it came by."""
        body = {"model": "talks", "input": text, "previous_response_id": self.response_id}
        return await self._respond(body)

    async def _say_conversation(self, text: str) -> str:
        body = {"model": "talks", "input": text, "conversation": self.thread_id}
        return await self._respond(body)

    async def _respond(self, body: Mapping[str, Any]) -> str:
        answer = await self._post("/v1/responses", body, {})
        self.response_id = answer["id"]
        assert answer["conversation"] == {"id": self.thread_id}
        return told_by_response(answer).text

    async def _say_a2a(self, text: str) -> str:
        """A new task in the same context."""
        params = message(text, f"message-{len(self.shown)}", contextId=self.thread_id)
        task = (await self._post("/agents/talks/a2a/message:send", params, V1))["task"]
        self.response_id = task["id"]
        assert task["contextId"] == self.thread_id
        return told_by_task(task).text

    async def _say_agent_api(self, text: str) -> str:
        response = await self._post(
            "/agents/talks/process", process_body(text, session_id=self.thread_id, stream=False), {}
        )
        self.response_id = response["id"]
        assert response["session_id"] == self.thread_id
        return told_by_agent_api(response).text

    async def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Any:
        answer = await self.gateway.client.http.post(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def messages(self) -> list[dict[str, Any]]:
        """The thread's, as AG-UI's clients have them."""
        page = await self.gateway.client.get(f"/threads/{self.thread_id}/messages?limit=200")
        messages: list[dict[str, Any]] = page["messages"]
        return messages


_TURNS: Final = (
    *("ag_ui", "chat", "response", "ag_ui", "conversation", "chat", "chat", "response", "ag_ui"),
    *("a2a", "response", "a2a", "chat", "a2a", "conversation", "a2a", "a2a", "ag_ui"),
    *("agent_api", "response", "agent_api", "chat", "agent_api", "agent_api", "a2a", "agent_api", "ag_ui"),
)


@pytest.mark.parametrize("kind", ["sqlite", "opensearch"])
async def test_a_thread_goes_on_whatever_protocol_its_next_turn_comes_by(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with local_gateway(tmp_path, [_TALKS], store=store_url(kind, tmp_path, request)) as gateway:
        talk = Talk(gateway, "thread-1", [])
        for number, protocol in enumerate(_TURNS, 1):
            answer = await talk.say(protocol, f"question {number}")
            assert words(answer) == f"Let me see. question {number}: 5.0"
            kept = await talk.messages()
            roles = ["user", "reasoning", "assistant", "tool", "assistant"] * number
            assert [message["role"] for message in kept] == roles
            assert len({message["id"] for message in kept}) == len(kept)
            assert [each["content"] for each in kept if each["role"] == "user"] == [
                f"question {place}" for place in range(1, number + 1)
            ]
        versions = await gateway.client.get("/threads/thread-1/versions")
        assert len(versions["versions"]) == 1
