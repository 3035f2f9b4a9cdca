"""Random requests over all of A2A's routes: never a 5xx, and no error but in its binding's form.

`FUZZED_A2A_REQUESTS=300 FUZZ_SEED=1 pytest tests/a2a/test_a2a_fuzz.py` sends so many to each route, and others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.a2a_fuzz import CALLS, ROUTES, A2AFuzz
from tests.fuzzed_gateway import AGENTS, LEAKS, complaints, described, raw_headers
from tests.fuzzed_requests import FuzzedRequest
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, local_gateway

REQUESTS = int(os.environ.get("FUZZED_A2A_REQUESTS", "50"))
SEED = int(os.environ.get("FUZZ_SEED", "15"))
WATCH_SECONDS = 0.1  # a task that waits is watched for ever

pytestmark = pytest.mark.timeout(max(300, REQUESTS))


def complaint(path: str, status: int, media_type: str, text: str) -> str | None:
    """What is wrong with an answer."""
    if '"state":"TASK_STATE_FAILED"' in text or '"state":"failed"' in text:
        return "a task that failed, though its model did not"
    if leak := next((leak for leak in LEAKS if leak in text), None):
        return f"{leak!r} is shown"
    if status >= 500:
        return "a 5xx"
    is_rpc = path.rstrip("/").endswith("/a2a")
    if media_type.startswith("text/event-stream"):
        return _wrong_stream(text)
    if status == 204:
        return None if is_rpc and not text else "an empty answer"
    if not media_type.startswith(("application/json", "application/a2a+json")):
        return "an answer that is no JSON"
    body = json.loads(text)
    if is_rpc:
        return _wrong_answer(body)
    return _wrong_error(body, status) if status >= 400 else "an error in a 200" if "error" in body else None


def _wrong_answer(body: Any) -> str | None:
    if body["jsonrpc"] != "2.0" or set(body) not in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}):
        return "an answer that is not JSON-RPC's"
    error = body.get("error")
    if error is None:
        return None
    known = error["code"] in (-32700, -32600, -32601, -32602) or -32099 <= error["code"] <= -32000
    return None if known and error["message"] and isinstance(error.get("data", []), list) else "an odd error"


def _wrong_error(body: Any, status: int) -> str | None:
    error = body.get("error")
    if list(body) != ["error"] or error["code"] != status or not (error["status"] and error["message"]):
        return "an error that is not in google's form"
    return None


def _wrong_stream(text: str) -> str | None:
    lines = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    frames = [json.loads(each) for each in lines]
    if not frames:
        return "an empty stream"
    return "an error in a stream" if any("error" in frame for frame in frames) else None


async def _watched(answer: httpx.Response) -> bytes:
    """A stream as far as its first frame and what comes soon behind that, however late the first one comes."""
    body, has_frame = bytearray(), False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DEADLINE_SECONDS) as limit:
            async for chunk in answer.aiter_raw():
                body += chunk
                if not has_frame and (has_frame := b"}\n\n" in body):
                    limit.reschedule(asyncio.get_running_loop().time() + WATCH_SECONDS)
    return bytes(body)


async def send(gateway: LocalGateway, fuzz: A2AFuzz, asked: FuzzedRequest, wrong: list[str]) -> None:
    try:
        async with gateway.client.http.stream(
            asked.method, asked.target, content=asked.content, headers=raw_headers(asked)
        ) as answer:
            media_type = answer.headers.get("content-type", "")
            body = await (_watched(answer) if "event-stream" in media_type else answer.aread())
    except httpx.InvalidURL:  # httpx itself will not send that target
        return
    text = body[: body.rfind(b"\n") + 1].decode() if body.startswith((b":", b"data")) else body.decode()
    if (why := complaint(answer.request.url.path, answer.status_code, media_type, text)) is not None:
        wrong.append(f"{why}: {described(asked)} -> {answer.status_code} {text[:600]}")
    fuzz.learn(text)


@pytest.mark.thorough
async def test_no_request_is_answered_with_a_5xx_or_in_another_form(tmp_path: Path) -> None:
    wrong = await complaints(tmp_path, A2AFuzz, send, seed=SEED, requests=REQUESTS)
    assert not wrong, "\n".join(wrong)


async def test_every_route_and_method_of_a2a_is_among_them(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        document = await gateway.client.get("/openapi.json")
    served = {
        (method.upper(), path.removeprefix("/a2a").replace("{taskId}", "{task}").replace("{configId}", "{config}"))
        for path, operations in document["paths"].items()
        if path.startswith("/a2a/")
        for method in operations
    }
    fuzzed = {route for route in ROUTES if not route[1].startswith(("#", "/.well-known"))}
    assert fuzzed - {("GET", "/tasks/{task}:subscribe")} == served
    assert len(CALLS) == 21
