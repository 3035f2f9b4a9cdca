"""The official client of A2A 0.3 before the gateway's agents; prints what came of its scenes, by their names."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

import httpx

# not imported by their names: beside the gateway lies the client of 1.0, which has others
client_module: Any = import_module("a2a.client")
errors: Any = import_module("a2a.client.errors")
types: Any = import_module("a2a.types")

ASK_USER = {"name": "ask_user", "description": "Asks.", "parameters": {"type": "object"}}
_numbers = itertools.count(1)


def text(words: str) -> Any:
    return types.Part(root=types.TextPart(text=words))


def data(value: dict[str, Any]) -> Any:
    return types.Part(root=types.DataPart(data=value))


class Speaker:
    """A client of one agent, found by its card."""

    def __init__(self, client: Any, card: Any) -> None:
        self.client = client
        self.card = card

    @classmethod
    async def of(cls, http: httpx.AsyncClient, url: str, *, streaming: bool = True, hook: str = "") -> Speaker:
        card = await client_module.A2ACardResolver(http, url).get_agent_card()
        configs = [types.PushNotificationConfig(url=hook, token="t")] if hook else []
        config = client_module.ClientConfig(streaming=streaming, httpx_client=http, push_notification_configs=configs)
        return cls(client_module.ClientFactory(config).create(card), card)

    async def send(self, *parts: Any, **more: Any) -> list[Any]:
        """What the client makes of the answer: the task with each update."""
        return [event async for event in self.stream(*parts, **more)]

    def stream(self, *parts: Any, **more: Any) -> Any:
        message = types.Message(message_id=f"m-{next(_numbers)}", role=types.Role.user, parts=[*parts], **more)
        return self.client.send_message(message)

    async def task(self, task_id: str, history_length: int | None = None) -> Any:
        return await self.client.get_task(types.TaskQueryParams(id=task_id, history_length=history_length))


def words_of(task: Any) -> str:
    parts = [part.root for artifact in task.artifacts or [] for part in artifact.parts]
    return "".join(part.text for part in parts if part.kind == "text")


def kinds_of(events: list[Any]) -> list[str]:
    return ["task" if update is None else update.kind for _, update in events]


def asked_in(task: Any) -> Any:
    [call] = [part.root.data for part in task.status.message.parts if part.root.kind == "data"]
    return call


def agent_of(base: str, agent_id: str) -> str:
    return f"{base}/agents/{agent_id}/a2a"


async def whole(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "words"), streaming=False)
    [(task, update)] = await a2a.send(text("hello"))
    read = await a2a.task(task.id, history_length=1)
    return [task.status.state.value, words_of(task), update, words_of(read), len(read.history)]


async def streamed(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, base)  # the default agent, by the card at the gateway's root
    events = await a2a.send(text("hello"))
    task = events[-1][0]
    kinds = kinds_of(events)
    return [a2a.card.protocol_version, kinds[0], kinds[-1], sorted(set(kinds)), task.status.state.value, words_of(task)]


async def separators(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "lines"))
    return words_of((await a2a.send(text("hello")))[-1][0])


async def long(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "wordy"))
    events = await a2a.send(text("hello"))
    # the client joins nothing by itself: every part of the artifact is a chunk
    return [len(events) > 400, len(words_of(events[-1][0]))]


async def cancelled(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "slow"))
    stream = a2a.stream(text("hello"))
    task_id = (await anext(stream))[0].id
    again = a2a.client.resubscribe(types.TaskIdParams(id=task_id))
    first = (await anext(again))[0].id
    task = await a2a.client.cancel_task(types.TaskIdParams(id=task_id))
    ends = [[event async for event in events][-1][0].status.state.value for events in (again, stream)]
    try:
        await a2a.client.cancel_task(types.TaskIdParams(id=task_id))
    except errors.A2AClientJSONRPCError as error:
        return [first == task_id, task.status.state.value, ends, error.error.code]
    return "it could be cancelled twice"


async def client_tool(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "asks"))
    task = (await a2a.send(text("hello"), metadata={"tools": [ASK_USER]}))[-1][0]
    call = asked_in(task)
    answer = data({"tool_call_id": call["tool_call_id"], "output": "yes"})
    after = (await a2a.send(answer, task_id=task.id, context_id=task.context_id))[-1][0]
    return [task.status.state.value, call["name"], after.id == task.id, after.status.state.value, words_of(after)]


async def approval(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "refunder"))
    task = (await a2a.send(text("hello")))[-1][0]
    after = (await a2a.send(text("approve"), task_id=task.id))[-1][0]
    return [task.status.state.value, asked_in(task)["name"], after.status.state.value, words_of(after)[:8]]


async def files(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "painter"), streaming=False)
    file = types.FilePart(file=types.FileWithBytes(bytes="c29tZSBieXRlcw==", mime_type="image/png", name="in.png"))
    [(task, _)] = await a2a.send(text("look"), types.Part(root=file))
    sent = task.history[0].parts[1].root
    parts = [part.root for artifact in task.artifacts for part in artifact.parts]
    [picture] = [part.file for part in parts if part.kind == "file"]
    return [sent.kind, sent.file.bytes, sent.file.name, picture.mime_type, picture.bytes[:8]]


async def failure(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "breaking"))
    task = (await a2a.send(text("hello")))[-1][0]
    return [task.status.state.value, bool(task.status.message.parts[0].root.text)]


async def push(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "words"), hook=hook)
    task = (await a2a.send(text("hello")))[-1][0]
    config = types.PushNotificationConfig(id="mine", url=hook)
    given = types.TaskPushNotificationConfig(task_id=task.id, push_notification_config=config)
    kept = await a2a.client.set_task_callback(given)
    params = types.GetTaskPushNotificationConfigParams(id=task.id, push_notification_config_id="mine")
    return [kept == given, await a2a.client.get_task_callback(params) == given]


async def unknown(http: httpx.AsyncClient, base: str, hook: str) -> Any:
    a2a = await Speaker.of(http, agent_of(base, "words"))
    try:
        await a2a.task("task_none")
    except errors.A2AClientJSONRPCError as error:
        return error.error.code
    return "it was found"


Scene = Callable[[httpx.AsyncClient, str, str], Awaitable[Any]]
SCENES: list[Scene] = [
    whole, streamed, separators, long, cancelled, client_tool, approval, files, failure, push, unknown,
]  # fmt: skip


async def main(base: str, hook: str) -> None:
    told: dict[str, Any] = {}
    async with httpx.AsyncClient(timeout=20, trust_env=False) as http:
        for scene in SCENES:
            name = getattr(scene, "__name__", "")
            try:
                async with asyncio.timeout(20):
                    told[name] = await scene(http, base, hook)
            except Exception:
                told[name] = traceback.format_exc()
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
