"""Random requests over all of OpenAI's routes: never a 5xx, and no error but in OpenAI's form.

`FUZZED_OPENAI_REQUESTS=10000 FUZZ_SEED=1 pytest tests/openai_api/test_openai_api_fuzz.py` sends so many to each route,
and others.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fuzzed_gateway import AGENTS, LEAKS, complaints, described, raw_headers
from tests.fuzzed_requests import FuzzedRequest
from tests.openai_fuzz import ROUTES, OpenAIFuzz
from tests.running_gateway import LocalGateway, local_gateway

REQUESTS = int(os.environ.get("FUZZED_OPENAI_REQUESTS", "500"))
SEED = int(os.environ.get("FUZZ_SEED", "14"))

pytestmark = pytest.mark.timeout(max(300, REQUESTS))


def complaint(asked: FuzzedRequest, answer: httpx.Response) -> str | None:
    """What is wrong with an answer."""
    if leak := next((leak for leak in LEAKS if leak in answer.text), None):
        return f"{leak!r} is shown"
    if answer.status_code >= 500:
        return "a 5xx"
    if answer.status_code >= 400:
        return _wrong_form(answer)
    if answer.headers["content-type"].startswith("text/event-stream"):
        return _wrong_stream(answer.text)
    body = answer.json()
    is_foreground = asked.method == "POST" and not asked.target.endswith("/cancel") and not body.get("background")
    if is_foreground and (body.get("error") or body.get("status") in ("failed", "cancelled")):
        return "an error in a 200"
    return None


def _wrong_form(answer: httpx.Response) -> str | None:
    if answer.headers["content-type"] != "application/json":
        return "an error that is no JSON"
    body: dict[str, Any] = answer.json()
    error = body.get("error")
    if list(body) != ["error"] or not isinstance(error, dict) or list(error) != ["message", "type", "param", "code"]:
        return "an error that is not in OpenAI's form"
    if not (error["message"] and isinstance(error["message"], str) and error["type"] and error["code"]):
        return "an error without a reason"
    return None if error["param"] is None or isinstance(error["param"], str) else "a param that is no text"


def _wrong_stream(text: str) -> str | None:
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    if data[-1:] != ["[DONE]"]:
        return "a stream without its end"
    frames: list[dict[str, Any]] = [json.loads(each) for each in data[:-1]]
    failed = any(frame.get("error") or frame.get("type") in ("error", "response.failed") for frame in frames)
    return "a stream that failed, though its model did not" if failed else None


async def send(gateway: LocalGateway, fuzz: OpenAIFuzz, asked: FuzzedRequest, wrong: list[str]) -> None:
    try:
        answer = await gateway.client.http.request(
            asked.method, asked.target, content=asked.content, headers=raw_headers(asked)
        )
    except httpx.InvalidURL:  # httpx itself will not send that target
        return
    if (why := complaint(asked, answer)) is not None:
        wrong.append(f"{why}: {described(asked)} -> {answer.status_code} {answer.text[:600]}")
    fuzz.learn(answer.text)


@pytest.mark.thorough
async def test_no_request_is_answered_with_a_5xx_or_in_another_form(tmp_path: Path) -> None:
    wrong = await complaints(tmp_path, OpenAIFuzz, send, seed=SEED, requests=REQUESTS)
    assert not wrong, "\n".join(wrong)


async def test_every_route_of_openai_s_api_is_among_them(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        document = await gateway.client.get("/openapi.json")
    served = {
        (method.upper(), path.removeprefix("/v1").count("/"), path.removeprefix("/v1").split("{")[0])
        for path, operations in document["paths"].items()
        if path.startswith("/v1/")
        for method in operations
    }
    assert served <= {(method, path.count("/"), path.split("{")[0]) for method, path in ROUTES}
