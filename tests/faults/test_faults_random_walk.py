"""A random walk over what clients do: post, attach, drop, cancel, answer, restart; then every invariant for every run.

The gateway listens on a real socket; its clock stands still but where a step moves it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.history.model_view import model_view
from tests.ag_ui_verifier import read_stream
from tests.fault_scenes import SERVER, executions, fault_tool
from tests.invariants import check_history
from tests.movable_clock import MovableClock
from tests.observed_runs import OWNER, check_run, log_of
from tests.running_gateway import LocalGateway, OpenStream, agent, local_gateway, run_body, scripted
from tests.waiting import until
from tests.word_samples import REPEATABLE

THREADS = ("thread-a", "thread-b")
ADD = {"tool": "add", "arguments": {"a": 1, "b": 2}}
PAY = {"tool": "pay", "arguments": {"a": 1, "b": 2}}
PICK = {"tool": "pick", "arguments": {"color": "red"}}
TALK = {"text": "some words for you", "chunk_characters": 3}
SCRIPTS = {
    "talk": [TALK],
    "hang": [TALK, {"hang": True}],
    "wait": [TALK, {"delay_seconds": 5}, {"text": "more"}],
    "tool": [{"reasoning": "hm"}, ADD, ADD],
    "pick": [PICK, PICK],
    "approve": [{"text": "may I?"}, PAY],
    "mixed": [ADD, PICK, PAY],
    "fail": [TALK, {"error": "server"}],
    "crash": [TALK, {"crash": "boom"}],
    "cut": [TALK, PAY, {"stop": "max_tokens"}],
}
FRONTEND = [{"name": "pick", "description": "Pick a color.", "parameters": {"type": "object"}}]


def walker(id: str, **more: Any) -> dict[str, Any]:
    rules: list[dict[str, Any]] = [
        {"when": {"last_user_contains": word, "turn": 0}, "response": steps} for word, steps in SCRIPTS.items()
    ]
    model = scripted([{"text": "hello"}], *([[{"text": "done: {{result}}"}]] * 8), rules=rules)
    tools = [fault_tool("add"), {**fault_tool("add"), "name": "pay", "approval": "always"}]
    return agent(id, model, tools=tools, parameters={"model_attempts": 1}, **more)


AGENTS = [
    walker("rejecting"),
    walker("queueing", on_concurrent_run="enqueue", on_disconnect="continue"),
    walker("superseding", on_concurrent_run="cancel_previous"),
]


@dataclass
class Walk:
    """Where a walk is: the gateway of the moment, what was asked, what was seen."""

    directory: Path
    clock: MovableClock
    gateway: LocalGateway | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    bodies: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)  # run id -> agent, body
    watching: list[tuple[str, OpenStream, asyncio.Task[None]]] = field(default_factory=list)
    seen: list[tuple[str, OpenStream]] = field(default_factory=list)

    @property
    def running(self) -> LocalGateway:
        assert self.gateway is not None
        return self.gateway

    async def open(self) -> None:
        self.stack = AsyncExitStack()
        running = local_gateway(self.directory, AGENTS, clock=self.clock, server=SERVER)
        self.gateway = await self.stack.enter_async_context(running)

    async def restart(self) -> None:
        while self.watching:
            await self.drop(0)
        await self.stack.aclose()
        await self.open()

    async def messages(self, thread_id: str) -> list[dict[str, Any]]:
        response = await self.running.client.http.get(f"/threads/{thread_id}/messages?limit=500")
        assert response.status_code in (200, 404)
        found: list[dict[str, Any]] = response.json()["messages"] if response.status_code == 200 else []
        return found

    async def post(self, choice: int, *, messages: list[dict[str, Any]] | None = None, **more: Any) -> None:
        thread_id = THREADS[choice % 2]
        agent_id = AGENTS[choice // 2 % 3]["id"]
        run_id = f"run-{len(self.bodies)}"
        if messages is None:
            word = list(SCRIPTS)[choice // 6 % len(SCRIPTS)]
            messages = [{"id": f"user-{run_id}", "role": "user", "content": f"please {word}"}]
        sent = [*await self.messages(thread_id), *messages]
        body = run_body(run_id=run_id, thread_id=thread_id, messages=sent, tools=FRONTEND, **more)
        if await self.watch("POST", f"/agents/{agent_id}/run", run_id, body):
            self.bodies[run_id] = agent_id, body

    async def watch(self, method: str, path: str, run_id: str, body: dict[str, Any] | None = None) -> bool:
        client = self.running.client.http
        async with asyncio.timeout(20):
            answer = await client.send(client.build_request(method, path, json=body), stream=True)
        if answer.status_code != 200:
            assert answer.status_code in (204, 400, 409, 422, 429), answer.status_code
            await answer.aclose()
            return False
        stream = OpenStream(answer)
        self.watching.append((run_id, stream, asyncio.create_task(_read(stream))))
        return True

    async def drop(self, choice: int) -> None:
        if self.watching:
            run_id, stream, reading = self.watching.pop(choice % len(self.watching))
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await stream.response.aclose()
            self.seen.append((run_id, stream))

    async def answer(self, choice: int) -> None:
        """Results for some of the calls that wait for the browser."""
        thread_id = THREADS[choice % 2]
        history = await self.messages(thread_id)
        answered = {message.get("toolCallId") for message in history}
        calls = [
            call["id"]
            for message in history
            for call in message.get("toolCalls") or []
            if call["function"]["name"] == "pick" and call["id"] not in answered
        ]
        chosen = calls[: 1 + choice // 6 % 2]
        results = [
            {"id": f"result-{call}", "role": "tool", "toolCallId": call, "content": "ok"} for call in [*chosen, *chosen]
        ]
        await self.post(choice, messages=results)

    async def approve(self, choice: int) -> None:
        thread = await self.running.application.store.load_thread(OWNER, THREADS[choice % 2])
        if thread is None or not thread.interrupts:
            return
        payload = [{"approved": True}, {"approved": False}, {"approved": True, "editedArgs": {"a": 3, "b": 4}}]
        resume = [
            {"interruptId": item.interrupt.id, "status": "resolved", "payload": payload[choice // 6 % 3]}
            for item in thread.interrupts
        ]
        await self.post(choice, messages=[], resume=resume)

    async def repeat(self, choice: int) -> None:
        if self.bodies:
            run_id = list(self.bodies)[choice % len(self.bodies)]
            agent_id, body = self.bodies[run_id]
            await self.watch("POST", f"/agents/{agent_id}/run", run_id, body)

    async def attach(self, choice: int) -> None:
        if self.bodies:
            run_id = list(self.bodies)[choice % len(self.bodies)]
            await self.watch("GET", f"/runs/{run_id}/events?after={choice // 7 % 12}", run_id)

    async def connect(self, choice: int) -> None:
        body = run_body(run_id="nobody", thread_id=THREADS[choice % 2], messages=[])
        async with self.running.client.stream("rejecting", body, to="connect") as stream:
            assert stream.response.status_code == 200
            await stream.until("RUN_STARTED")

    async def cancel(self, choice: int) -> None:
        if self.bodies:
            run_id = list(self.bodies)[choice % len(self.bodies)]
            response = await self.running.client.http.post(f"/runs/{run_id}/cancel")
            assert response.status_code in (200, 202)

    async def step(self, action: str, choice: int) -> None:
        match action:
            case "restart":
                await self.restart()
            case "wait":
                await self.clock.advance([0.1, 5, 31, 1_000][choice % 4])
            case "settle":
                await self.clock.settle()
            case _:
                await getattr(self, action)(choice)


async def _read(stream: OpenStream) -> None:
    with suppress(httpx.HTTPError):
        while await stream.read():
            pass


actions = st.sampled_from(
    ["post"] * 6
    + ["attach", "attach", "drop", "drop", "cancel", "answer", "answer", "approve", "approve"]
    + ["repeat", "connect", "wait", "settle", "restart"]
)


@pytest.mark.thorough
@settings(REPEATABLE, max_examples=20)
@given(st.lists(st.tuples(actions, st.integers(0, 10_000)), min_size=4, max_size=14))
def test_whatever_clients_do_every_run_keeps_the_invariants(steps: list[tuple[str, int]]) -> None:
    executions.clear()
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_walk(Path(directory), steps))


async def _walk(directory: Path, steps: list[tuple[str, int]]) -> None:
    walk = Walk(directory, MovableClock())
    await walk.open()
    try:
        for action, choice in steps:
            await walk.step(action, choice)
        for run_id in walk.bodies:
            await walk.running.client.http.post(f"/runs/{run_id}/cancel")
        await until(lambda: not walk.running.application.runner._runs)
        await asyncio.wait_for(asyncio.gather(*(reading for _, _, reading in walk.watching)), 20)
        while walk.watching:
            await walk.drop(0)
        for run_id in walk.bodies:
            await _check(walk, run_id)
        for thread_id in THREADS:
            thread = await walk.running.application.store.load_thread(OWNER, thread_id)
            check_history(model_view(thread.messages) if thread is not None else ())
        assert not executions or max(executions.values()) == 1, f"a call ran twice: {executions}"
    finally:
        while walk.watching:
            await walk.drop(0)
        await walk.stack.aclose()
    left = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 10)


async def _check(walk: Walk, run_id: str) -> None:
    await check_run(walk.running, run_id)
    log = await log_of(walk.running, run_id)
    response = await walk.running.client.http.get(f"/runs/{run_id}/events")
    frames = {each.id: each.event for each in read_stream(response.content) if each.id is not None}
    assert max(frames) == log[-1].sequence
    for seen_of, stream in walk.seen:
        if seen_of == run_id:
            end = stream.body.rfind(b"\n\n") + 2
            blocks = [block for block in bytes(stream.body[:end]).split(b"\n\n") if b"\nid: " in block]
            numbers = []
            for block in blocks:
                data, _, number = block.partition(b"\nid: ")
                numbers.append(int(number))
                assert frames[int(number)] == json.loads(data.split(b"data: ", 1)[1]), "seen live and in the log"
            assert numbers == sorted(set(numbers))
