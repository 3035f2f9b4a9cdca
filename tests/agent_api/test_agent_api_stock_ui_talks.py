"""Talks of the stock web UI with a gateway over a real socket: it sends what the UI sends, and its screen shows all."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.openai_api.test_every_protocol_says_the_same import SCRIPTS
from tests.openai_scene import REFUNDER
from tests.running_gateway import GatewayClient, LocalGateway, local_gateway
from tests.stock_ui import BUILDS, Build, Shown, frames_of, transcript_of
from tests.told_runs import Told, words


def asked(text: str) -> dict[str, Any]:
    """A user's message as the UI's Request/Builder.tsx makes it."""
    return {"role": "user", "type": "message", "content": [{"type": "text", "text": text, "status": "created"}]}


async def answer_of(
    gateway: GatewayClient, agent_id: str, items: list[Any], session_id: str, *, cancel: bool = False, **more: Any
) -> str:
    """The whole stream, as text."""
    body = {"input": items, "session_id": session_id, "stream": True, "biz_params": {"lang": "en"}, **more}
    text = ""
    async with gateway.http.stream("POST", f"/agents/{agent_id}/process", json=body) as response:
        assert response.status_code == 200, await response.aread()
        async for piece in response.aiter_text():
            text += piece
            if cancel and "part" in text:
                cancel = False
                stopped = await gateway.http.post(f"/process/{response.headers['x-run-id']}/cancel")
                assert stopped.status_code == 200, stopped.text
    return text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[LocalGateway]:
    directory: Path = tmp_path_factory.mktemp("gateway")
    async with local_gateway(directory, [REFUNDER, *(script.agent for script in SCRIPTS.values())]) as running:
        yield running


def told_by(transcript: list[Shown]) -> dict[str, Any]:
    """What the screen tells, in the words that all protocols share."""
    of = {kind: [shown[1:] for shown in transcript if shown[0] == kind] for kind in {shown[0] for shown in transcript}}
    calls = of.get("call", [])
    return {
        "text": words(" ".join(said for (said,) in of.get("text", []))),
        "refusal": "".join(said for (said,) in of.get("refusal", [])),
        "reasoning": "".join(said for (said,) in of.get("reasoning", [])),
        "backend": tuple((name, arguments, output) for _, name, arguments, output in calls if output is not None),
        "pending": tuple((name, arguments) for _, name, arguments, output in calls if output is None),
        "media": len(of.get("image", [])),
        "questions": len(of.get("question", [])),
        "error": "".join(code for code, _ in of.get("error", [])),
    }


def expected_of(told: Told) -> dict[str, Any]:
    same = {name: getattr(told, name) for name in ("text", "refusal", "reasoning", "backend", "pending", "error")}
    return {**same, "media": len(told.media), "questions": len(told.questions)}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.name)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_screen_tells_what_the_run_said(script: str, build: Build, gateway: LocalGateway) -> None:
    played = SCRIPTS[script]
    tools = [{"type": "function", "name": name, "description": "Asks.", "parameters": SCHEMA} for name in played.tools]
    session_id = f"{script} {build.name}".replace(" ", "-")
    stream = await answer_of(
        gateway.client, played.agent["id"], [asked("Please.")], session_id, cancel=played.cancel, tools=tools
    )
    assert told_by(transcript_of([*frames_of(stream)], build)) == expected_of(played.told)


SCHEMA: Final = {"type": "object", "properties": {"question": {"type": "string"}}}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("history", [False, True], ids=["last message alone", "with history"])
@pytest.mark.parametrize(
    ("approve", "said"), [(True, '"status":"refunded"'), (False, "The user denied this call: Late")]
)
async def test_a_question_is_answered_by_the_buttons_below_it(
    approve: bool, said: str, history: bool, gateway: LocalGateway
) -> None:
    session_id = f"session-{approve}-{history}"
    first = [*frames_of(await answer_of(gateway.client, "refunder", [asked("Refund it.")], session_id))]
    [(kind, _, name, arguments, nothing)] = transcript_of(first)
    assert (kind, name, nothing) == ("question", "refund", None)

    output = first[-1]["output"]
    items = approval_of(output[-1], approve=approve)
    items = [asked("Refund it."), *output, *items] if history else items[-1:]
    stream = await answer_of(gateway.client, "refunder", items, session_id)
    [call, answer] = transcript_of([*frames_of(stream)])
    assert call[:4] == ("call", None, "refund", arguments)
    assert said in call[4]
    assert answer == ("text", f"It said: {call[4]}")

    *_, last = frames_of(stream)
    more = [*items, *last["output"], asked("Thank you.")] if history else [asked("Thank you.")]
    transcript_of([*frames_of(await answer_of(gateway.client, "refunder", more, session_id))])
    kept = (await gateway.client.get(f"/threads/{session_id}/messages?limit=100"))["messages"]
    assert [message["role"] for message in kept] == ["user", "assistant", "tool", "assistant", "user", "assistant"]


def approval_of(request: dict[str, Any], *, approve: bool) -> list[Any]:
    """What the buttons of Response/Approval.tsx send: the question as it came, and the answer."""
    question = request["content"][0]["data"]["id"]
    told = {"approve": approve, "id": question, "approval_request_id": question, "reason": "Late"}
    answer = {"type": "mcp_approval_response", "role": "user", "content": [{"type": "data", "data": told}]}
    return [request, answer]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("history", [False, True], ids=["last message alone", "with history"])
async def test_a_talk_stands_in_its_session_once(history: bool, gateway: LocalGateway) -> None:
    shown: list[Any] = []
    session_id = f"talk-{history}"
    for turn in range(1, 4):
        shown.append(asked(f"question {turn}"))
        stream = await answer_of(gateway.client, "backend-tool", shown if history else shown[-1:], session_id)
        *_, last = frames_of(stream)
        shown += last["output"]
        kept = (await gateway.client.get(f"/threads/{session_id}/messages?limit=100"))["messages"]
        assert [message["role"] for message in kept] == ["user", "assistant", "tool", "assistant"] * turn
    versions = await gateway.client.get(f"/threads/{session_id}/versions")
    assert len(versions["versions"]) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_an_answer_that_is_made_again_takes_the_place_of_the_first(gateway: LocalGateway) -> None:
    first = [*frames_of(await answer_of(gateway.client, "reasoning", [asked("One.")], "again"))]
    items = [asked("One."), *first[-1]["output"], asked("Two.")]
    for number in (1, 2):
        transcript_of([*frames_of(await answer_of(gateway.client, "reasoning", items, "again"))])
        kept = (await gateway.client.get("/threads/again/messages?limit=100"))["messages"]
        assert [message["content"] for message in kept if message["role"] == "user"] == ["One.", "Two."]
        assert len((await gateway.client.get("/threads/again/versions"))["versions"]) == number


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("script", ["backend tool", "retraction", "failure after some tokens", "approval"])
async def test_a_stream_that_is_read_again_is_the_same_screen(script: str, gateway: LocalGateway) -> None:
    agent_id = SCRIPTS[script].agent["id"]
    first = [*frames_of(await answer_of(gateway.client, agent_id, [asked("Please.")], f"read-{agent_id}"))]
    again = await gateway.client.http.get(f"/process/{first[0]['id']}")
    assert transcript_of([*frames_of(again.text)]) == transcript_of(first)
