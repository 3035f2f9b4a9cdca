"""The runner with a store in memory, scripted models and tools that are coroutine functions; no server around it.

    async with runner_scene(agent_of("talker", HANGS)) as scene:
        viewer = await scene.runner.start(OWNER, "talker", question("hi"))
        events = await read(viewer)

The store does what it is told when the test lets it: `scene.store.hold("end_run")` until `release`, `refuse` with an
error. Leaving the scene checks that nothing is left: no task, no run, no line.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gateway.agent import AgentDefinition, AgentInput, ModelSettings, ToolSettings
from gateway.agents.directory import AgentDirectory
from gateway.agents.open_agent import OpenAgent
from gateway.clock import Kept
from gateway.events import Event, RunFailed, RunFinished
from gateway.history.versions import Rewrite
from gateway.loops.react import ReactLoop
from gateway.messages import Message, TextBlock
from gateway.model_state import ModelState
from gateway.models.scripted import ScriptedModel, parse_script
from gateway.records import NO_EVENTS, EventRecords
from gateway.runner import Runner
from gateway.runs.driver import RunDriver, RunOptions
from gateway.runs.viewer import Viewer
from gateway.sqlite.address import Address
from gateway.sqlite.store import SqliteStore
from gateway.sqlite.tables import KeptThread
from gateway.store import DueDeletion, Fork, RunRecord, RunsAndThread, Store, StoreEnvironment, Thread, ThreadDocuments
from gateway.tool import SingleTool, Tool, Toolbox
from tests.agent_inputs import agent_input
from tests.movable_clock import MovableClock
from tests.pieces import pieces
from tests.waiting import until

OWNER = "owner"
DEADLINE_SECONDS = 10.0

SAYS_HELLO: list[list[dict[str, Any]]] = [[{"text": "hello there", "chunk_characters": 4}]]
HANGS: list[list[dict[str, Any]]] = [[{"text": "one two three ", "chunk_characters": 4}, {"hang": True}]]


class GatedStore:
    """A store whose looks, begins and ends wait or fail when a test says so. All else is the wrapped store's."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gates: dict[str, asyncio.Event] = {}
        self._errors: dict[str, Exception] = {}
        gates = (
            "load_start",
            "version_states",
            "runs_known_as",
            "queue_run",
            "begin_run",
            "end_run",
            "append_events",
            "write_thread",
            "delete_thread",
        )
        self.reached: dict[str, asyncio.Event] = {name: asyncio.Event() for name in gates}

    def hold(self, name: str) -> None:
        self._gates[name] = asyncio.Event()

    def release(self, name: str) -> None:
        self.open_for_others(name).set()

    def open_for_others(self, name: str) -> asyncio.Event:
        """Let pass who comes now; who waits already goes on once what this gives is set."""
        return self._gates.pop(name)

    def refuse(self, name: str, error: Exception | None) -> None:
        """Fail with it from now on; None: no more."""
        self._errors.pop(name, None)
        if error is not None:
            self._errors[name] = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def load_start(self, owner: str, client_id: str, thread_id: str | None = None) -> RunsAndThread:
        found = await self._store.load_start(owner, client_id, thread_id)
        await self._pass("load_start")  # who waits has it as it was
        return found

    async def version_states(self, owner: str, thread_id: str) -> Mapping[int, Mapping[str, ModelState]]:
        states = await self._store.version_states(owner, thread_id)
        await self._pass("version_states")  # who waits has them as they were
        return states

    async def runs_known_as(self, owner: str, client_id: str) -> list[RunRecord]:
        await self._pass("runs_known_as")
        return await self._store.runs_known_as(owner, client_id)

    async def queue_run(self, run: RunRecord, messages: Sequence[Message] = ()) -> None:
        await self._pass("queue_run")
        await self._store.queue_run(run, messages)

    async def begin_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        rewrite: Rewrite | None = None,
        records: EventRecords = NO_EVENTS,
        fork: Fork | None = None,
        patient: bool = False,
    ) -> None:
        await self._pass("begin_run")
        await self._store.begin_run(
            run, thread, keep=keep, rewrite=rewrite, records=records, fork=fork, patient=patient
        )

    def end_run(
        self,
        run: RunRecord,
        thread: Thread,
        *,
        keep: int,
        first: int,
        records: EventRecords,
        erase: frozenset[str] = frozenset(),
        holds: bool = False,
    ) -> Kept[KeptThread]:
        kept: Kept[KeptThread] = Kept()
        end = partial(
            self._store.end_run, run, thread, keep=keep, first=first, records=records, erase=erase, holds=holds
        )
        asyncio.ensure_future(self._end_behind(kept, end)).set_name("a gated end")
        return kept

    async def _end_behind(self, kept: Kept[KeptThread], end: Callable[[], Kept[KeptThread]]) -> None:
        try:
            await self._pass("end_run")
            kept.set_result(await end())
        except Exception as error:
            kept.set_exception(error)

    async def write_thread(self, thread: Thread, *, keep: int, rewrite: Rewrite | None = None) -> None:
        await self._pass("write_thread")
        await self._store.write_thread(thread, keep=keep, rewrite=rewrite)

    async def delete_thread(self, owner: str, thread_id: str, due: Sequence[DueDeletion] = ()) -> bool:
        await self._pass("delete_thread")
        return await self._store.delete_thread(owner, thread_id, due)

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        self.reached["append_events"].set()
        if (error := self._errors.get("append_events")) is not None:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            failed.exception()
            return failed
        if (gate := self._gates.get("append_events")) is not None:
            held = asyncio.ensure_future(self._append_behind(gate, owner, run_id, first, records))
            held.set_name("a held append")
            return held
        return self._store.append_events(owner, run_id, first, records)

    async def _append_behind(
        self, gate: asyncio.Event, owner: str, run_id: str, first: int, records: EventRecords
    ) -> None:
        await gate.wait()
        await self._store.append_events(owner, run_id, first, records)

    async def _pass(self, name: str) -> None:
        self.reached[name].set()
        if (gate := self._gates.get(name)) is not None:
            await gate.wait()
        if (error := self._errors.get(name)) is not None:
            raise error


class BrokenToolbox:
    """A part from elsewhere that breaks its promise."""

    def __init__(self) -> None:
        self.broken = False
        self.waits: asyncio.Event | None = None
        self.asked = asyncio.Event()

    async def tools(self) -> tuple[Tool, ...]:
        self.asked.set()
        if self.waits is not None:
            await self.waits.wait()
        if self.broken:
            raise RuntimeError("the secret is 123")
        return ()

    def problem(self) -> str | None:
        return None

    async def close(self) -> None:
        return None


@dataclass
class Scene:
    runner: Runner
    store: GatedStore
    clock: MovableClock
    viewers: list[Viewer] = field(default_factory=list)

    async def start(self, agent_id: str, given: AgentInput) -> Viewer:
        """As Runner.start, but not for ever; the viewer is closed at the scene's end."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            viewer = await self.runner.start(OWNER, agent_id, given)
        self.viewers.append(viewer)
        return viewer

    async def status(self, run_id: str) -> str:
        return (await self.runner.run(OWNER, run_id)).status.value

    async def kept_events(self, run_id: str) -> list[Event]:
        return pieces(row.event for row in await self.store.read_events(OWNER, run_id, after=0, limit=100_000))

    async def until_idle(self) -> None:
        """Until no run is left."""
        await until(lambda: not self.runner._runs)


@contextlib.asynccontextmanager
async def runner_scene(
    *agents: OpenAgent, options: RunOptions | None = None, thread_documents: ThreadDocuments | None = None
) -> AsyncGenerator[Scene]:
    """A runner with these agents; at the end everything is stopped and nothing may be left."""
    before = asyncio.all_tasks()
    clock = MovableClock()
    for opened in agents:
        if isinstance(opened.model, ScriptedModel):
            opened.model._clock = clock
    environment = StoreEnvironment(clock, Path(), thread_documents=thread_documents)
    store = GatedStore(SqliteStore(Address(None), environment))
    await store.open()
    options = options or RunOptions()
    runner = Runner(RunDriver(AgentDirectory(agents), store, clock, options))
    scene = Scene(runner, store, clock)
    try:
        yield scene
        for viewer in scene.viewers:
            viewer.close()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await runner.driver.shut_down(0)
        assert not runner._runs, f"runs are left: {list(runner._runs)}"
        assert not runner._lines, f"threads are left locked: {runner._lines._lines}"
        assert not await store.unfinished_runs()
    finally:
        await store.close()
    await until(lambda: not _left_behind(before))


def _left_behind(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """What a scene's end leaves for a moment; no run is among it."""
    left = asyncio.all_tasks() - before
    assert not [task for task in left if task.get_name().startswith("run ")], left
    return left


def agent_of(
    id: str, responses: Sequence[Sequence[dict[str, Any]]], *tools: tuple[Tool, str] | Toolbox, **more: Any
) -> OpenAgent:
    """An agent with a scripted model. Tools are toolboxes, or (tool, approval)."""
    settings = ModelSettings("scripted", model_parameters={"responses": [list(each) for each in responses]})
    definition = AgentDefinition(id, id, "conversational", settings, **more)
    boxes: list[tuple[ToolSettings, Toolbox]] = []
    for tool in tools:
        if isinstance(tool, tuple):
            boxes.append((ToolSettings("FunctionTool", approval=tool[1]), SingleTool(tool[0])))  # type: ignore[arg-type]
        else:
            boxes.append((ToolSettings("Toolbox"), tool))
    return OpenAgent(
        definition, ReactLoop(), ScriptedModel(parse_script(settings.model_parameters), MovableClock()), boxes
    )


def question(text: str = "hi", *, thread_id: str = "t", run_id: str = "r", **more: Any) -> AgentInput:
    """One user message; its id is the run's."""
    message = Message(f"user-{run_id}", "user", (TextBlock(text),))
    return agent_input(thread_id, run_id, (message,), **more)


async def read(viewer: Viewer) -> list[Event]:
    """All that the viewer is shown, to the end of its stream."""
    events: list[Event] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while batch := await viewer.next(3600):
            if not batch.events:
                return events
            events += batch.events
    raise AssertionError("nothing came for an hour")


async def read_until(viewer: Viewer, kind: type[Event]) -> list[Event]:
    """All up to the batch with the first event of that kind."""
    events: list[Event] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not any(isinstance(event, kind) for event in events):
            batch = await viewer.next(3600)
            assert batch is not None
            assert batch.events, f"the stream ended before {kind.__name__}: {events}"
            events += batch.events
    return events


def end_of(events: Sequence[Event]) -> RunFinished | RunFailed:
    """The terminal event, which there is exactly one of, at the end."""
    terminals = [event for event in events if isinstance(event, RunFinished | RunFailed)]
    assert len(terminals) == 1, events
    assert events[-1] is terminals[0]
    return terminals[0]
