"""How many messages, contents and tools a request may have, over every protocol that reads arrays of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.protocol.fields import MOST_ITEMS
from tests.openai_scene import AGENTS
from tests.running_gateway import LocalGateway, local_gateway

PART: Final = {"type": "text", "text": "a"}
TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {}}}
HI: Final = {"role": "user", "content": [PART, PART]}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[LocalGateway]:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        yield gateway


def process(**members: Any) -> tuple[str, Any]:
    return "/agents/words/process", {"input": [HI], "stream": False, **members}


def chat(**members: Any) -> tuple[str, Any]:
    return "/v1/chat/completions", {"model": "words", "messages": [HI], **members}


def responses(**members: Any) -> tuple[str, Any]:
    return "/v1/responses", {"model": "words", "input": [HI], **members}


def a2a(parts: list[Any]) -> tuple[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    return "/agents/words/a2a", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


def said(items: int) -> dict[str, Any]:
    """A message that counts as so many."""
    return {"role": "user", "content": [PART] * (items - 1)}


CASES: Final[Mapping[str, tuple[int, str, Callable[[int], tuple[str, Any]]]]] = {
    "process-messages": (422, "/input", lambda n: process(input=[{"role": "user", "content": [PART]}] * n)),
    "process-contents": (422, "/input/1/content", lambda n: process(input=[said(100), said(n - 100)])),
    "process-tools": (422, "/tools", lambda n: process(tools=[TOOL] * (n - 3))),
    "chat-messages": (400, "/messages", lambda n: chat(messages=[{"role": "user", "content": "a"}] * n)),
    "chat-contents": (400, "/messages/1/content", lambda n: chat(messages=[said(100), said(n - 100)])),
    "responses-items": (400, "/input", lambda n: responses(input=[{"role": "user", "content": "a"}] * n)),
    "responses-contents": (400, "/input/1/content", lambda n: responses(input=[said(100), said(n - 100)])),
    "a2a-parts": (200, "/message/parts", lambda n: a2a([{"text": "a"}] * n)),
}


@pytest.mark.parametrize("case", CASES)
async def test_a_request_with_too_many_items_is_refused_and_the_array_is_named(
    gateway: LocalGateway, case: str
) -> None:
    status, pointer, make = CASES[case]
    path, body = make(MOST_ITEMS + 1)
    answer = await gateway.client.http.post(path, json=body, headers={"A2A-Version": "1.0"})
    assert answer.status_code == status
    field = pointer[1:].replace("/1/", "[1].").replace("/", ".")
    assert field in answer.text
    assert f"may have {MOST_ITEMS:,}" in answer.text
    if status == 200:
        assert answer.json()["error"]["code"] == -32602


@pytest.mark.parametrize("case", CASES)
async def test_as_many_items_as_a_request_may_have_are_answered(gateway: LocalGateway, case: str) -> None:
    _, _, make = CASES[case]
    path, body = make(MOST_ITEMS)
    answer = await gateway.client.http.post(path, json=body, headers={"A2A-Version": "1.0"})
    assert answer.status_code == 200, answer.text
    assert "error" not in answer.json() or answer.json()["error"] is None


async def test_the_tools_of_a_response_are_counted_once(gateway: LocalGateway) -> None:
    path, body = responses(tools=[{"type": "function", "name": "f"}] * (MOST_ITEMS // 2 + 1_000))
    answer = await gateway.client.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
