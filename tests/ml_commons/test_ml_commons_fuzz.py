"""Random requests over all routes: whatever is sent, the answer is never a 5xx, and an error says what was wrong.

`FUZZED_REQUESTS=100000 FUZZ_SEED=1 pytest tests/ml_commons/test_ml_commons_fuzz.py` sends more, and others.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import httpx
import pytest

from tests.fuzzed_requests import FuzzedRequest
from tests.ml_commons_fuzz import Fuzz
from tests.ml_commons_scene import MlGateway, ml_gateway
from tests.running_gateway import agent, scripted

REQUESTS = int(os.environ.get("FUZZED_REQUESTS", "1500"))
SEED = int(os.environ.get("FUZZ_SEED", "13"))
SENDERS = 3
NOBODY = "it could not be reached"
CALLS_TOOLS = agent(
    "tools",
    scripted([{"tool": "ListIndexTool", "arguments": {}}], [{"text": "done"}]),
    tools=[{"type": "ListIndexTool"}],
)
ANSWERS = agent("configured", scripted([{"text": "from the file"}]))
LEAKS = ("Traceback", " object at 0x", "internal_error", "pydantic", "sqlite3", "KeyError", "TypeError(")

pytestmark = pytest.mark.timeout(max(120, REQUESTS // 20))


async def send(ml: MlGateway, fuzz: Fuzz, wrong: list[str]) -> None:
    asked = fuzz.next()
    try:
        answer = await ml.http.request(asked.method, asked.target, content=asked.content, headers=asked.headers)
    except httpx.InvalidURL:  # httpx itself will not send that target
        return
    if (why := complaint(answer)) is not None:
        wrong.append(f"{why}: {described(asked)} -> {answer.status_code} {answer.text[:400]}")
    if answer.headers.get("content-type", "").startswith("application/json"):
        fuzz.learn(answer.json())


def complaint(answer: httpx.Response) -> str | None:
    """What is wrong with an answer."""
    if answer.status_code == 500 and NOBODY in answer.text:
        return None  # the model of a registered agent, which is not there
    if answer.status_code >= 500:
        return "a 5xx"
    if answer.status_code >= 400:
        body = json.loads(answer.content)
        if not body.get("error", body.get("detail")):
            return "an error without a reason"
    return next((f"{leak!r} is shown" for leak in LEAKS if leak in answer.text), None)


def described(asked: FuzzedRequest) -> str:
    return f"{asked.method} {asked.target[:200]} {asked.headers} {(asked.content or b'')[:600]!r}"


@pytest.mark.thorough
async def test_no_request_is_answered_with_a_5xx(tmp_path: Path) -> None:
    wrong: list[str] = []

    async def sender(ml: MlGateway, number: int) -> None:
        fuzz = Fuzz(SEED * 100 + number, ("configured", "tools"))
        for _ in range(REQUESTS // SENDERS):
            await send(ml, fuzz, wrong)
            if len(wrong) > 20:
                return

    async with ml_gateway(tmp_path, [ANSWERS, CALLS_TOOLS]) as ml, asyncio.TaskGroup() as group:
        for number in range(SENDERS):
            group.create_task(sender(ml, number))
    assert wrong == []
