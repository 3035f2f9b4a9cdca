"""Answers that have no end: the run ends with the limit's code, its provider's connection with it, and what was shown
stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fault_scenes import SERVER, check_ended, fault_tool, upstream_agent
from tests.openai_chat_server import DONE, Script, chat_server, chunk, completion, record
from tests.running_gateway import Frame, local_gateway, run_body

LIMITS = {"max_answer_bytes": 100_000, "max_run_bytes": 300_000, "max_calls_per_answer": 20}
DEADLINE_SECONDS = 30
PIECE = "word " * 200


def delta(**members: Any) -> bytes:
    return record(chunk(members))


def call(number: int, arguments: str, name: str | None = "add") -> bytes:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return delta(tool_calls=[{"index": number, "id": f"call_{number}", "function": function}])


def words(number: int) -> bytes:
    return delta(content=PIECE)


def single_letters(number: int) -> bytes:
    return b"".join([delta(content="é")] * 500)


def thoughts(number: int) -> bytes:
    return delta(reasoning_content=PIECE)


def sealed_thoughts(number: int) -> bytes:
    return delta(reasoning_details=[{"type": "reasoning.encrypted", "data": PIECE}])


def arguments_of_one_call(number: int) -> bytes:
    return call(0, PIECE if number else '{"a": "', None if number else "add")


def calls(number: int) -> bytes:
    return call(number, '{"a": 1, "b": 2}')


def calls_without_a_name(number: int) -> bytes:
    return call(number, "", None)


def size(frames: list[Frame]) -> int:
    return sum(len(frame.data.get("delta", "").encode()) for frame in frames if "delta" in frame.data)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("endless", "name"),
    [
        (words, "max_answer_bytes"),
        (single_letters, "max_answer_bytes"),
        (thoughts, "max_answer_bytes"),
        (sealed_thoughts, "max_answer_bytes"),
        (arguments_of_one_call, "max_answer_bytes"),
        (calls, "max_calls_per_answer"),
        (calls_without_a_name, "max_calls_per_answer"),
    ],
)
async def test_an_answer_without_an_end_ends_its_run_and_its_connection(
    tmp_path: Path, endless: Callable[[int], bytes], name: str
) -> None:
    async with chat_server() as upstream:
        agents = [upstream_agent(upstream, tools=[fault_tool("add")], parameters=LIMITS)]
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            upstream.answers(Script(pieces=[delta(content="Well, ")], endless=endless), completion("fine"))
            frames = await gateway.client.run("upstream", run_body())
            assert frames[-1].data["code"] == f"limit_{name}"
            assert f"{name} ({LIMITS[name]})" in frames[-1].data["message"]
            assert size(frames) <= LIMITS["max_answer_bytes"]
            assert sum(frame.type == "TOOL_CALL_START" for frame in frames) <= LIMITS["max_calls_per_answer"]
            async with asyncio.timeout(DEADLINE_SECONDS):
                await upstream.requests[0].disconnected.wait()
            await check_ended(gateway, "run-1", "failed", code=f"limit_{name}")
            page = await gateway.client.get("/threads/thread-1/messages")
            assert "Well, " in str(page["messages"]), "what was shown stays"
            more = {"id": "more", "role": "user", "content": "more"}
            frames = await gateway.client.run("upstream", run_body(run_id="run-2", messages=[*page["messages"], more]))
            assert frames[-1].type == "RUN_FINISHED"
            await check_ended(gateway, "run-2", "completed")


async def test_answers_that_are_too_much_together_end_their_run(tmp_path: Path) -> None:
    async with chat_server() as upstream:
        agents = [upstream_agent(upstream, tools=[fault_tool("add")], parameters=LIMITS)]
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            for number in range(9):
                asked = call(0, f'{{"a": {number}, "b": 2}}')
                pieces = [delta(content="x" * 70_000), asked, record(chunk({}, "tool_calls")), DONE]
                upstream.answers(Script(pieces=pieces))
            frames = await gateway.client.run("upstream", run_body())
            assert frames[-1].data["code"] == "limit_max_run_bytes"
            assert len(upstream.requests) == 5
            assert 4 * 70_000 <= size(frames) <= LIMITS["max_run_bytes"]
            await check_ended(gateway, "run-1", "failed", code="limit_max_run_bytes")


async def test_a_hundred_thousand_calls_in_one_record_are_not_even_begun(tmp_path: Path) -> None:
    asked = {"name": "add", "arguments": "{}"}
    entries = [{"index": number, "id": f"c{number}", "function": asked} for number in range(100_000)]
    async with chat_server() as upstream:
        agents = [upstream_agent(upstream, tools=[fault_tool("add")])]
        async with local_gateway(tmp_path, agents, server=SERVER) as gateway:
            upstream.answers(Script(pieces=[delta(tool_calls=entries), record(chunk({}, "tool_calls")), DONE]))
            frames = await gateway.client.run("upstream", run_body())
            assert frames[-1].data["code"] == "limit_max_calls_per_answer"
            assert not any(frame.type == "TOOL_CALL_START" for frame in frames)
            await check_ended(gateway, "run-1", "failed", code="limit_max_calls_per_answer")
