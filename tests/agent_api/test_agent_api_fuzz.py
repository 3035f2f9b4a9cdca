"""Random requests over all of the Agent API's routes: never a 5xx, never an error in a 200, and errors in its form.

`FUZZED_AGENT_API_REQUESTS=10000 FUZZ_SEED=1 pytest tests/agent_api/test_agent_api_fuzz.py` sends so many, and
others.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agent_api_fuzz import ROUTES, AgentApiFuzz
from tests.agent_api_scene import Frame, frames_of
from tests.fuzzed_gateway import AGENTS, LEAKS, complaints, described, raw_headers
from tests.fuzzed_requests import FuzzedRequest
from tests.running_gateway import LocalGateway, local_gateway

REQUESTS = int(os.environ.get("FUZZED_AGENT_API_REQUESTS", "500"))
SEED = int(os.environ.get("FUZZ_SEED", "15"))

pytestmark = pytest.mark.timeout(max(300, REQUESTS))


def complaint(answer: httpx.Response) -> str | None:
    """What is wrong with an answer."""
    if leak := next((leak for leak in LEAKS if leak in answer.text), None):
        return f"{leak!r} is shown"
    if answer.status_code >= 500:
        return "a 5xx"
    if answer.status_code >= 400:
        return _wrong_form(answer)
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return _wrong_end(answer.json())
    frames = frames_of(answer.content)
    if not frames:
        return None if "after=" in str(answer.request.url) else "a stream without frames"
    numbers = [frame["sequence_number"] for frame in frames]
    if numbers != [*range(numbers[0], numbers[0] + len(numbers))]:
        return "frames whose numbers have gaps"
    return _wrong_end(frames[-1])


def _wrong_form(answer: httpx.Response) -> str | None:
    if answer.headers["content-type"] != "application/json":
        return "an error that is no JSON"
    body: dict[str, Any] = answer.json()
    code, message = body.get("code"), body.get("message")
    if body.get("object") != "error" or body.get("error") != {"code": code, "message": message}:
        return "an error that is not in the protocol's form"
    return None if code and message else "an error without a reason"


def _wrong_end(response: Frame) -> str | None:
    if response.get("object") != "response":
        return "an end that is no response"
    if response["status"] in ("failed", "rejected") or response.get("error"):
        return "an error in a 200, though no model failed"
    return None


async def send(gateway: LocalGateway, fuzz: AgentApiFuzz, asked: FuzzedRequest, wrong: list[str]) -> None:
    try:
        answer = await gateway.client.http.request(
            asked.method, asked.target, content=asked.content, headers=raw_headers(asked)
        )
    except httpx.InvalidURL:  # httpx itself will not send that target
        return
    if (why := complaint(answer)) is not None:
        wrong.append(f"{why}: {described(asked)} -> {answer.status_code} {answer.text[:600]}")
    fuzz.learn(answer.text)


@pytest.mark.thorough
async def test_no_request_is_answered_with_a_5xx_or_in_another_form(tmp_path: Path) -> None:
    wrong = await complaints(tmp_path, AgentApiFuzz, send, seed=SEED, requests=-(-REQUESTS // len(ROUTES)))
    assert not wrong, "\n".join(wrong)


async def test_every_route_of_the_agent_api_is_among_them(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, AGENTS) as gateway:
        document = await gateway.client.get("/openapi.json")
    served = {
        (method.upper(), path.split("{")[0], path.count("/"))
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if operation["tags"] == ["agent-api"]
    }
    assert served == {(method, path.split("{")[0], path.count("/")) for method, path in ROUTES}
