"""Clients of every protocol that read streams of a gateway that is killed under them, and come back to the next one.

Each has a thread of its own and asks one question after the other. Where a protocol lets a client name its run, a
question that was cut off is sent again, and the answer must be what the client has seen already, and the rest. Below:
running_gateway.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import httpx

from gateway.a2a.ids import new_task_id
from gateway.openai_api.ids import new_run_id
from tests.a2a_speaker import V1, message
from tests.agent_api_speaker import process_body
from tests.running_gateway import GatewayClient, run_body
from tests.told_runs import NO_HEADERS, words

AGENT: Final = "payer"
"""The agent that everybody asks."""


class RefusedError(Exception):
    """The request was refused for a moment: one of several gateways was not there."""


class Sent(NamedTuple):
    """A request. `run_id`: of the run that it begins; empty: its client cannot know it. `repeats`: if it is sent again
    after the run has ended, that run's answer comes again. `events`: where the answer comes again as it came, while the
    run goes on; empty: by the same request.
    """

    path: str
    body: Mapping[str, Any]
    run_id: str = ""
    headers: Mapping[str, str] = NO_HEADERS
    repeats: bool = True
    events: str = ""


def _ag_ui(thread_id: str, text: str) -> Sent:
    asked = [{"id": f"user-{text}", "role": "user", "content": text}]
    body = run_body(thread_id=thread_id, run_id=text, messages=asked)
    return Sent(f"/agents/{AGENT}/run", body, text, events=f"/runs/{text}/events")


def _agent_api(thread_id: str, text: str) -> Sent:
    return Sent(f"/agents/{AGENT}/process", process_body(text, response_id=text, session_id=thread_id), text)


def _responses(thread_id: str, text: str) -> Sent:
    body = {"model": AGENT, "input": text, "stream": True, "conversation": thread_id}
    return Sent("/v1/responses", body, new_run_id("resp_", text), {"Idempotency-Key": text})


def _chat(thread_id: str, text: str) -> Sent:
    """Without a history: each question is a thread of its own."""
    body = {"model": AGENT, "messages": [{"role": "user", "content": text}], "stream": True}
    return Sent("/v1/chat/completions", body, new_run_id("chatcmpl-", text), {"Idempotency-Key": text})


def _a2a(thread_id: str, text: str) -> Sent:
    params = message(text, text, contextId=thread_id)
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": params}
    return Sent(f"/agents/{AGENT}/a2a", body, new_task_id(f"message {text}"), V1, repeats=False)


def _ml_commons(thread_id: str, text: str) -> Sent:
    body = {"input": text, "memory_id": thread_id}
    return Sent(f"/_plugins/_ml/agents/{AGENT}/_execute/stream", body, repeats=False)


PROTOCOLS: Final[Mapping[str, Callable[[str, str], Sent]]] = {
    "ag-ui": _ag_ui,
    "agent-api": _agent_api,
    "responses": _responses,
    "chat": _chat,
    "a2a": _a2a,
    "ml-commons": _ml_commons,
}
"""How a question is asked on a thread."""
_ENDS: Final[Mapping[str, tuple[bytes, ...]]] = {
    "ag-ui": (b'"type":"RUN_FINISHED"', b'"type":"RUN_ERROR"'),
    "agent-api": (b'"object":"response","status":"completed"', b'"object":"response","status":"failed"'),
    "responses": (b"data: [DONE]",),
    "chat": (b"data: [DONE]",),
    "a2a": (b'"state":"TASK_STATE_COMPLETED"', b'"state":"TASK_STATE_FAILED"'),
    "ml-commons": (b'"is_last":true', b'data: {"error"'),
}
"""One of these is in the last frame of an answer that is whole."""

_HEADS: Final = (b"event: response.created\n", b"event: response.in_progress\n", b'"role":"assistant","content":""')
"""In the frames of OpenAI's protocols that may come before there is anything of an answer."""


@dataclass(slots=True)
class Load:
    """Frames that clients read until the gateway is killed: `left` more."""

    left: int
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def count(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.is_over.set()


@dataclass(slots=True)
class Asked:
    """A question, and the frames of its answer that the client has seen."""

    text: str
    sent: Sent
    frames: list[bytes] = field(default_factory=list)
    is_sent: bool = False
    is_answered: bool = False


@dataclass(slots=True)
class ReturningClient:
    """`attaches`: its run goes on while it is away, and it comes back to that run's events."""

    protocol: str
    name: str
    attaches: bool = False
    thread_id: str = ""
    asked: list[Asked] = field(default_factory=list)

    async def begin(self, gateway: GatewayClient) -> None:
        """Have a thread, before anything is asked. Only a conversation of Responses has to be made."""
        self.thread_id = f"thread-{self.name}"
        if self.protocol == "responses":
            answer = await gateway.http.post("/v1/conversations", json={})
            assert answer.status_code == 200, answer.text
            self.thread_id = answer.json()["id"]

    async def talk(self, gateway: GatewayClient, load: Load) -> None:
        """Ask until the gateway is killed."""
        try:
            while True:
                await self.go_on(gateway, load.count)
        except httpx.HTTPError:
            if not load.is_over.is_set():
                raise

    async def go_on(self, gateway: GatewayClient, on_frame: Callable[[], None] = lambda: None) -> None:
        """Send the question again whose answer was cut off, or ask the next one."""
        last = self.asked[-1] if self.asked else None
        if last is None or last.is_answered or not last.sent.repeats:
            text = f"{self.name}-{len(self.asked)}"
            last = Asked(text, PROTOCOLS[self.protocol](self.thread_id, text))
            self.asked.append(last)
        await read_answer(gateway, last, on_frame, attaches=self.attaches)
        is_whole = not last.frames or any(end in last.frames[-1] for end in _ENDS[self.protocol])
        assert is_whole, f"{last.text}: a stream that was cut off looks whole: {last.frames[-1]!r}"

    async def read_again(self, gateway: GatewayClient) -> None:
        """All answers, which must be what they were."""
        for each in self.asked:
            if each.sent.repeats:
                await read_answer(gateway, each)


async def read_answer(
    gateway: GatewayClient, asked: Asked, on_frame: Callable[[], None] = lambda: None, *, attaches: bool = False
) -> None:
    """Send a question. What was seen before of its answer must be the beginning, or all if the answer had ended."""
    sent, count = asked.sent, 0
    if attaches and sent.events and await _has_begun(gateway, asked):
        request = gateway.http.stream("GET", sent.events)
    else:
        request = gateway.http.stream("POST", sent.path, json=dict(sent.body), headers=dict(sent.headers))
    asked.is_sent = True
    async with request as response, aclosing(_frames(response)) as frames:
        async for frame in frames:
            _hear(asked, count, frame)
            count += 1
            on_frame()
        if response.status_code != 200 and all(map(_is_head, asked.frames)):
            asked.frames.clear()  # nothing of an answer was seen, and now it is an error
    assert count == len(asked.frames), f"{asked.text}: something that was seen is lost"
    asked.is_answered = True


async def _has_begun(gateway: GatewayClient, asked: Asked) -> bool:
    """Whether the run has. Sent again, its request would be answered with a snapshot of what was said so far. Raises
    RefusedError: nobody can say it now.
    """
    if not asked.is_sent:
        return False
    answer = await gateway.http.get(f"/runs/{asked.sent.run_id}")
    if answer.status_code not in (200, 404):
        raise RefusedError(f"{answer.status_code}: {answer.text}")
    return answer.status_code == 200


async def _frames(response: httpx.Response) -> AsyncGenerator[bytes]:
    """The frames of an answer, without comments. What failed before its first frame has none. Raises RefusedError."""
    if response.status_code in (409, 502, 503, 504):
        raise RefusedError(f"{response.status_code}: {await response.aread()!r}")
    if response.status_code != 200:
        assert b'"server_restarted"' in await response.aread(), response.text
        return
    rest = b""
    async for piece in response.aiter_raw():
        *frames, rest = (rest + piece).split(b"\n\n")
        for frame in frames:
            if frame.startswith((b"data: ", b"id: ", b"event: ")):
                yield frame


def _is_head(frame: bytes) -> bool:
    return any(each in frame for each in _HEADS)


def _hear(asked: Asked, place: int, frame: bytes) -> None:
    seen = asked.frames[place] if place < len(asked.frames) else frame
    if (
        seen != frame and b'"store_full"' in seen
    ):  # an end that was shown before it could be stored: the log closes first
        del asked.frames[place:]  # what was open
        asked.is_answered = False
    if place < len(asked.frames):
        assert frame == asked.frames[place], f"{asked.text}: frame {place} was {asked.frames[place]!r}, now {frame!r}"
    else:
        assert not asked.is_answered, f"{asked.text}: more than the whole answer: {frame!r}"
        asked.frames.append(frame)


def words_seen(asked: Asked) -> str:
    """The words in the frames that a client has seen whose protocol repeats nothing."""
    return words("".join(_words(json.loads(frame[6:])) for frame in asked.frames))


def _words(frame: Any) -> str:
    if "inference_results" in frame:
        content: str = frame["inference_results"][0]["output"][-1]["dataAsMap"]["content"]
        return content
    update = frame.get("result", {}).get("artifactUpdate", {"artifact": {"parts": ()}})
    return "".join(part["text"] for part in update["artifact"]["parts"])
