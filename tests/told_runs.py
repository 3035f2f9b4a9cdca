"""What speakers of all protocols share: a question, how it is sent, and what a client understood of the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import httpx

from tests.running_gateway import GatewayClient
from tests.waiting import until_answered

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Told:
    """What a client understood of one run.

    `text` has all of the assistant's words, with single spaces between them. `backend` are the calls that the gateway
    ran: name, arguments, result. `pending` are the client's own: name and arguments. `media` are media types with data.
    `questions` are what a person is asked. `outcome`: `completed`, `client_tools`, `asks`, `length`, `cancelled` or
    `failed`; `error` is the code of a failure.
    """

    text: str = ""
    refusal: str = ""
    reasoning: str = ""
    backend: tuple[tuple[str, str, str], ...] = ()
    pending: tuple[tuple[str, str], ...] = ()
    media: tuple[tuple[str, str], ...] = ()
    questions: tuple[str, ...] = ()
    outcome: str = "completed"
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A user's message to an agent. `id` is unique; `tools` are the client's, as names. `cancel`: once the run has
    said something, somebody cancels it.
    """

    agent_id: str
    text: str
    id: str
    tools: tuple[str, ...] = ()
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class Speaker:
    """`ask` gives what the client of a protocol was told."""

    protocol: str
    form: str
    ask: Callable[[GatewayClient, Question], Any]

    @property
    def name(self) -> str:
        return f"{self.protocol} {self.form}"


def words(text: str) -> str:
    """The text with single spaces: protocols part texts in ways of their own."""
    return " ".join(text.split())


# --- asking --------------------------------------------------------------------------------------------------------


async def streamed(
    gateway: GatewayClient,
    path: str,
    body: Mapping[str, Any],
    question: Question,
    run_id: str,
    headers: Mapping[str, str] = NO_HEADERS,
) -> bytes:
    """The whole answer. A run that is to be cancelled has said `part` before."""
    answer, headers = b"", {"Idempotency-Key": question.id, **headers}
    async with gateway.http.stream("POST", path, json=body, headers=headers) as response:
        asked = False
        async for piece in response.aiter_raw():
            answer += piece
            if question.cancel and not asked and b'"part"' in answer:
                asked = True
                await _cancel(gateway, run_id)
        assert response.status_code == 200, answer
    return answer


async def whole(
    gateway: GatewayClient,
    path: str,
    body: Mapping[str, Any],
    question: Question,
    run_id: str,
    headers: Mapping[str, str] = NO_HEADERS,
    said_at: str = "",
) -> Any:
    """Status and JSON of one answer. A run that is to be cancelled is under way before, and has said `part` if there is
    a path (`said_at`) that tells what it said.
    """
    headers = {"Idempotency-Key": question.id, **headers}
    sending = asyncio.create_task(gateway.http.post(path, json=body, headers=headers))
    if question.cancel:
        is_ready = _has_said if said_at else _is_running
        await until_answered(lambda: gateway.http.get(said_at or f"/runs/{run_id}", headers=headers), is_ready)
        await _cancel(gateway, run_id)
    answer: httpx.Response = await sending
    return answer.status_code, answer.json()


def _is_running(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and answer.json()["status"] == "running"


def _has_said(answer: httpx.Response) -> bool:
    return answer.status_code == 200 and b'"part"' in answer.content


async def _cancel(gateway: GatewayClient, run_id: str) -> None:
    answer = await gateway.http.post(f"/runs/{run_id}/cancel")
    assert answer.status_code in (200, 202), answer.text


def tool_schema() -> dict[str, Any]:
    return {"type": "object", "properties": {"question": {"type": "string"}}}
