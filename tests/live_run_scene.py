"""A live run in a test, with a store that keeps what it is given when the test says so and a clock that is moved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from gateway.commit_window import CommitWindow
from gateway.errors import StoreError
from gateway.events import (
    Completed,
    Event,
    Events,
    RunFailed,
    RunFinished,
    RunStarted,
    TextDelta,
    sliced,
)
from gateway.records import EventRecords, decode_events
from gateway.runs.live_run import LiveRun
from gateway.runs.phases import Phase
from gateway.runs.viewer import END, Batch, Viewer
from gateway.store import NumberedEvent, RunRecord, RunStatus, Store
from tests.invariants import numbers_without_gaps
from tests.movable_clock import MovableClock
from tests.pieces import pieces, rows_of_pieces
from tests.runner_scene import SAYS_HELLO, agent_of

OWNER, RUN, THREAD = "owner", "r", "t"
START = RunStarted(THREAD, RUN)
FINISHED = RunFinished(Completed())
FAILED = RunFailed("store_full", "the store is full")
DEADLINE_SECONDS = 10.0
GRACE_SECONDS = 15.0


class HeldStore:
    """The log of one run, as LiveRun uses it: what is appended is kept when the test calls `keep`, in order."""

    def __init__(self) -> None:
        self._rows: list[NumberedEvent] = []
        self.appends = 0
        self.appended = asyncio.Event()
        self._held: list[tuple[int, EventRecords]] = []
        self._future: asyncio.Future[None] | None = None
        self.broken: StoreError | None = None

    def append_events(self, owner: str, run_id: str, first: int, records: EventRecords) -> asyncio.Future[None]:
        assert (owner, run_id) == (OWNER, RUN)
        self.appends += 1
        self.appended.set()
        self._held.append((first, records))
        if self._future is None:
            self._future = asyncio.get_running_loop().create_future()
        return self._future

    async def read_events(self, owner: str, run_id: str, *, after: int, limit: int) -> list[NumberedEvent]:
        assert (owner, run_id) == (OWNER, RUN)
        await asyncio.sleep(0)
        if self.broken is not None:
            raise self.broken
        found: list[NumberedEvent] = []
        for row in self._rows:
            if row.last > after and row.sequence <= after + limit:
                (left,) = sliced([row.event], after + 1 - row.sequence)
                found.append(NumberedEvent(max(row.sequence, after + 1), left))
        return found

    @property
    def log(self) -> list[NumberedEvent]:
        """What it has, a piece each."""
        return rows_of_pieces(self._rows)

    def keep(self) -> None:
        """Keep what is held, as one commit."""
        for first, records in self._held:
            self.write(first, records)
        self._settle(lambda future: future.set_result(None))

    def fail(self, error: StoreError) -> None:
        """Lose what is held."""
        self._settle(lambda future: future.set_exception(error))

    def close(self) -> None:
        self._settle(lambda future: future.cancel())

    def write(self, first: int, records: EventRecords) -> None:
        """Keep these at once: what begin_run and end_run do."""
        for event in decode_events(records.lines):
            self._rows.append(NumberedEvent(first, event))
            first = self._rows[-1].last + 1
        numbers_without_gaps(self.log)

    def _settle(self, settle: Callable[[asyncio.Future[None]], object]) -> None:
        self._held = []
        if self._future is not None:
            settle(self._future)
            self._future = None


class Scene:
    """A run that has begun, the clock and the store it lives with."""

    def __init__(self, *, max_viewer_events: int = 10_000, window: CommitWindow | None = None) -> None:
        self.clock = MovableClock()
        self.store = HeldStore()
        self.abandoned: list[LiveRun] = []
        record = RunRecord(OWNER, RUN, THREAD, "agent", RunStatus.RUNNING, 0.0)
        self.live = LiveRun(
            record,
            agent_of("agent", SAYS_HELLO),
            cast(Store, self.store),
            self.clock,
            grace_seconds=GRACE_SECONDS,
            on_abandoned=self.abandoned.append,
            max_viewer_events=max_viewer_events,
            window=window or CommitWindow(0.0),
        )
        self.first_viewer = self.live.watch()
        self.store.write(*self.live.number(self.live.follow([START])))
        self.live.enter(Phase.RUNNING)
        self.live.publish_numbered()

    async def say(self, *events: Event) -> None:
        """Accept events and keep them."""
        self.live.accept(list(events))
        self.store.keep()
        await settle()

    async def end(self, terminal: Event = FINISHED) -> None:
        """End the run as the runner does: sliced everything appended, in one transaction."""
        number = self.live.number(self.live.follow([terminal]))
        self.store.keep()
        self.store.write(*number)
        await settle()
        self.live.publish_numbered()
        self.live.finish()


async def settle() -> None:
    """Let callbacks and tasks run that only wait for one another."""
    for _ in range(5):
        await asyncio.sleep(0)


async def read_all(viewer: Viewer) -> list[Batch]:
    """What the viewer gets up to the end of its stream."""
    batches: list[Batch] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while (batch := await viewer.next(1e9)) != END:
            assert batch is not None
            assert batch.events
            batches.append(batch)
    return batches


async def read_ready(viewer: Viewer) -> list[NumberedEvent]:
    """What the viewer has by now; it must not have come to its end."""
    rows: list[NumberedEvent] = []
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            await settle()
            batch = await viewer.next(0)
            if batch is None:
                return rows
            assert batch != END
            rows += numbered([batch])


def numbered(batches: Sequence[Batch]) -> list[NumberedEvent]:
    """What these batches bring, a piece each."""
    return [
        NumberedEvent(number, event)
        for batch in batches
        for number, event in enumerate(pieces(batch.events), batch.first)
    ]


def words(*texts: str) -> Events:
    return [TextDelta("m", text) for text in texts]
