"""Large bodies, on every path: parsed in pieces, and bounded in what they hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway import runner
from gateway.a2a import methods, start
from gateway.protocol.requests import parsed_json
from gateway.protocol.time_sharing import TimeSharing
from gateway.wire import large_json
from tests.counted_work import lines_executed
from tests.running_gateway import LocalGateway, agent, local_gateway, parse_frames, run_body, scripted

AT_ONCE: Final = 256 * 1024
JSON: Final = {"content-type": "application/json"}
# They refuse before they read: there is no such container, no such approver, no such visitor.
REFUSED: Final = ("/_plugins/_ml/memory_containers/x/", "/approvals/", "/visitors")


@asynccontextmanager
async def serving(directory: Path, **more: Any) -> AsyncGenerator[LocalGateway]:
    callers = {"endpoints": [r"^http://127\.0\.0\.1.*$"]}
    async with local_gateway(directory, [agent("a", scripted([{"text": "hi"}]), **more)], callers=callers) as gateway:
        yield gateway


async def operations(gateway: LocalGateway) -> list[tuple[str, str]]:
    """The method and the path of everything that takes a body."""
    paths = (await gateway.client.http.get("/openapi.json")).json()["paths"]
    found = [
        (method.upper(), path)
        for path, known in paths.items()
        for method, operation in known.items()
        if method in ("post", "put", "patch") and "requestBody" in operation
    ]
    return [(method, path.format_map(_Ids())) for method, path in found]


class _Ids(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "a" if name in ("agentId", "agent_id") else "x"


@pytest.mark.thorough
async def test_no_path_parses_a_large_body_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = orjson.dumps({"x": [1] * 150_000, "y": "m" * 1_000_000})
    parsed: list[int] = []
    load = orjson.loads

    def counted(piece: bytes) -> Any:
        parsed.append(len(piece) - 1_000_000 if b"mmm" in piece else len(piece))
        return load(piece)

    async with serving(tmp_path) as gateway:
        all_of_them = await operations(gateway)
        monkeypatch.setattr(orjson, "loads", counted)
        assert len(all_of_them) > 30
        for method, path in all_of_them:
            del parsed[:]
            answer = await gateway.client.http.request(method, path, content=content, headers=JSON)
            assert answer.status_code < 500, (method, path, answer.text[:300])
            assert max(parsed, default=0) <= AT_ONCE, (method, path)


async def test_a_body_of_too_many_values_is_refused_on_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_json, "MAX_VALUES", 100_000)
    content = b'{"messages":[' + b"1," * 150_000 + b"1]}"
    async with serving(tmp_path) as gateway:
        for method, path in await operations(gateway):
            answer = await gateway.client.http.request(method, path, content=content, headers=JSON)
            if path.startswith(REFUSED):
                assert answer.status_code in (403, 404), (method, path, answer.text[:300])
            else:
                assert answer.status_code == 413, (method, path, answer.text[:300])
                assert "500,000 values" in answer.text, (method, path, answer.text[:300])


def user(number: int, content: Any = "hi") -> dict[str, Any]:
    return {"id": f"m{number}", "role": "user", "content": content}


async def test_a_thread_longer_than_a_request_may_be_goes_on_with_what_is_new(tmp_path: Path) -> None:
    async with serving(tmp_path, history="by_id") as gateway:
        http = gateway.client.http
        history = [user(number) for number in range(9_990)]
        await gateway.client.run("a", run_body(run_id="r1", messages=history))
        history += [user(number) for number in range(20_000, 20_011)]
        refused = await http.post("/agents/a/run", json=run_body(run_id="r2", messages=history))
        problem = refused.json()
        assert (refused.status_code, problem["code"]) == (422, "too_many_items")
        assert "'history: append' or 'history: by_id'" in problem["detail"]
        assert problem["errors"][0]["pointer"] == "/messages"
        frames = await gateway.client.run("a", run_body(run_id="r3", messages=history[-11:]))
        assert frames[-1].type == "RUN_FINISHED"
        watched = await http.post("/agents/a/connect", json=run_body(run_id="r4", messages=history))
        snapshot = next(frame.data for frame in parse_frames(watched.content) if frame.type == "MESSAGES_SNAPSHOT")
        assert len(snapshot["messages"]) == 9_990 + 11 + 2


class _Steps:
    """The lines of Python that the event loop executed in one step at most."""

    def __init__(self) -> None:
        self.longest = 0

    def run(self, handle: asyncio.Handle) -> None:
        lines = lines_executed(lambda: _RUN(handle))
        self.longest = max(self.longest, lines)


_RUN: Final = asyncio.Handle._run
SCHEMA: Final = {"type": "object", "properties": {"city": {"type": "string"}}}


def tools(number: int, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "function", "name": f"tool_{each}", "parameters": SCHEMA, **more} for each in range(number)]


def calls(number: int) -> list[dict[str, Any]]:
    """A question, calls and their outputs, as items of Responses."""
    made = [{"type": "function_call", "call_id": f"c{n}", "name": "t", "arguments": "{}"} for n in range(number)]
    results = [{"type": "function_call_output", "call_id": f"c{n}", "output": "r"} for n in range(number)]
    return [{"role": "user", "content": "q"}, *made, *results]


def tool_calls(number: int) -> list[dict[str, Any]]:
    """The same as messages of the Agent API."""

    def said(kind: str, role: str, data: Any) -> dict[str, Any]:
        return {"type": kind, "role": role, "content": [{"type": "data", "data": data}]}

    made = [
        said("plugin_call", "assistant", {"call_id": f"c{n}", "name": "t", "arguments": "{}"}) for n in range(number)
    ]
    results = [said("plugin_call_output", "tool", {"call_id": f"c{n}", "output": "r"}) for n in range(number)]
    return [{"role": "user", "content": [{"type": "text", "text": "q"}]}, *made, *results]


def a2a(parts: list[Any]) -> dict[str, Any]:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": parts}
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}


NAMESPACE: Final = {"type": "namespace", "name": "n", "tools": tools(4_900)}
ALLOWED: Final = {
    "type": "allowed_tools",
    "mode": "auto",
    "tools": [{"type": "function", "name": f"tool_{number}", "namespace": "n"} for number in range(4_900)],
}
UNKNOWN: Final = {f"k{number:06}": 1 for number in range(100_000)}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/agents/a/run", run_body(messages=[user(number, "x" * 50) for number in range(9_000)])),
        ("/agents/a/run", {**run_body(), **UNKNOWN}),
        ("/v1/chat/completions", {"model": "a", "messages": [{"role": "user", "content": "x" * 50}] * 9_000}),
        ("/v1/responses", {"model": "a", "input": [{"role": "user", "content": "x" * 50}] * 9_000}),
        ("/v1/responses", {"model": "a", "input": "x", "include": ["nothing of that name"] * 100_000}),
        ("/v1/responses", UNKNOWN),
        ("/process", {"input": [{"role": "user", "content": [{"type": "text", "text": "x" * 50}]}] * 4_500}),
        ("/_plugins/_ml/agents/a/_execute", {"input": [{"role": "user", "content": "x" * 50}] * 9_000}),
        ("/_plugins/_ml/agents/_register", {"name": "n", **UNKNOWN}),
        ("/agents/a/run", run_body(tools=[{"description": "x", **tool} for tool in tools(9_900)])),
        ("/v1/chat/completions", {"model": "a", "messages": [user(1)], "tools": tools(9_900)}),
        ("/v1/chat/completions", {"model": "a", "messages": [user(1)], "tools": tools(9_900, name=1)}),
        ("/v1/responses", {"model": "a", "input": calls(4_900)}),
        ("/v1/responses", {"model": "a", "input": "x", "tools": [NAMESPACE], "tool_choice": ALLOWED}),
        ("/process", {"input": [user(1, [{"type": "text", "text": "x"}])], "tools": tools(9_900)}),
        ("/process", {"input": tool_calls(2_450)}),
        ("/agents/a/a2a", a2a([{"text": "x" * 50}] * 9_900)),
    ],
    ids=[
        *("messages", "members", "chat", "responses", "include", "response", "process", "execute", "register"),
        *("tools", "chat-tools", "wrong-tools", "responses-calls", "allowed", "process-tools", "process-calls", "a2a"),
    ],
)
async def test_no_step_of_a_large_request_is_long(
    tmp_path: Path, path: str, body: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as gateway:
        content = orjson.dumps(body)
        assert len(content) > AT_ONCE
        steps = _Steps()
        monkeypatch.setattr(asyncio.Handle, "_run", lambda handle: steps.run(handle))
        answer = await gateway.client.http.post(path, content=content, headers=JSON)
        monkeypatch.undo()
        assert answer.status_code < 500
    assert steps.longest < 750_000, "a line takes some 50 ns"


@pytest.mark.parametrize("where", ["data", "metadata"])
async def test_a_task_of_many_values_is_read_and_recognised_in_different_steps(
    tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = a2a([{"data": UNKNOWN} if where == "data" else {"text": "x"}])
    if where == "metadata":
        body["params"]["message"]["metadata"] = UNKNOWN
    step, noted = 0, dict[str, int]()

    def run(handle: asyncio.Handle) -> None:
        nonlocal step
        step += 1
        _RUN(handle)

    def note(place: Any, name: str) -> None:
        function = getattr(place, name)

        def noting(*arguments: Any) -> Any:
            noted[name] = step
            return function(*arguments)

        monkeypatch.setattr(place, name, noting)

    async with serving(tmp_path) as gateway:
        note(methods, "read_send_request")
        note(start, "body_digest")
        note(runner, "input_digest")
        monkeypatch.setattr(asyncio.Handle, "_run", run)
        answer = await gateway.client.http.post("/agents/a/a2a", json=body, headers={"a2a-version": "1.0"})
        monkeypatch.undo()
    assert "result" in answer.json()
    assert noted["read_send_request"] < noted["body_digest"] < noted["input_digest"]


async def test_of_many_requests_that_come_at_once_one_is_read_in_each_turn_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, read, load = 0, list[int](), orjson.loads

    def noted(content: bytes) -> Any:
        read.append(turns)
        return load(content)

    monkeypatch.setattr(orjson, "loads", noted)
    body, time = orjson.dumps({"tools": tools(1_500)}), TimeSharing()
    assert 64 * 1024 < len(body) < AT_ONCE
    reading = [asyncio.create_task(parsed_json(body, owner, time)) for owner in "aaaaaaab"]
    while not all(each.done() for each in reading):
        await asyncio.sleep(0)
        turns += 1
    assert len(set(read)) == len(reading)
    assert reading[-1].result() == reading[0].result()
