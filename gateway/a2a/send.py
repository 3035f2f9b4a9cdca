"""Answers messages: with the task once it stands still, at once, or as a stream; and lets clients watch tasks.

Below: start, stored_tasks, renderer, sse. Above: methods. A client that leaves changes nothing for its task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from gateway.a2a.dialects import ACTIVITY
from gateway.a2a.errors import unsupported
from gateway.a2a.renderer import TaskBody, TaskRenderer
from gateway.a2a.request import SendRequest
from gateway.a2a.routes import EXTENSIONS_HEADER, Asked
from gateway.a2a.start import StartedRun
from gateway.a2a.stored_tasks import NextRun, StoredTask, StoredTasks
from gateway.access.callers import Caller
from gateway.errors import GatewayError
from gateway.events import Event, RunFailed, RunFinished
from gateway.messages import JsonObject
from gateway.protocol import Batch, ProtocolEnvironment, Viewer
from gateway.protocol.renderer import rendered_body
from gateway.protocol.requests import end_with_client
from gateway.sse import CutOffError, EventStreamResponse, FrameSource, RunFrames
from gateway.store import HeldElsewhereError, RunRecord

_LOST: Final = "another gateway has the task now"


class Sender:
    """Answers the messages of all callers."""

    def __init__(self, environment: ProtocolEnvironment) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)

    async def answer(self, asked: Asked, sent: SendRequest, started: StartedRun) -> JsonObject:
        """The task, or the agent's message: once its run has ended, or at once if the message says so."""
        body = TaskBody(started.task.fold, asked.dialect, history_length=sent.history_length)
        if sent.return_immediately:
            started.viewer.close()
            return body.final()
        end_with_client(asked.request)
        await rendered_body(asked.request, started.viewer, body)
        started.task.fold.note_end(started.viewer.ended_at())
        return body.final()

    def stream(self, asked: Asked, sent: SendRequest, started: StartedRun) -> EventStreamResponse:
        """The task, then its changes, to the end of its run."""
        renderer = TaskRenderer(
            started.task.fold, asked.dialect, envelope=asked.call_id, history_length=sent.history_length
        )
        events = TimedEvents(self._environment, asked.caller, started.task, started.viewer)
        return self._streamed(asked, RunFrames(events, _joined(renderer)), renderer)

    def _streamed(self, asked: Asked, source: FrameSource, renderer: TaskRenderer) -> EventStreamResponse:
        opening, headers = b"".join(renderer.opening()), extension_headers(asked)
        return EventStreamResponse(source, self._environment.streams, opening=opening, headers=headers)

    async def subscribe(self, asked: Asked, task_id: str) -> EventStreamResponse:
        """The task as it is now, then its changes. A task that waits is followed once it goes on.

        Raises:
            NotFoundError: -32001, there is no such task.
            InvalidRequestError: -32004, it has ended.
        """
        task, viewer = await self._tasks.watch(asked.caller, task_id, shows_activity=asked.shows_activity)
        if viewer is None and task.fold.state.ended:
            raise unsupported(f"the task {task.fold.task_id!r} has ended; GetTask shows what became of it")
        coming = viewer or await self._tasks.next_begins(asked.caller, task.fold.context_id)
        renderer = TaskRenderer(task.fold, asked.dialect, envelope=asked.call_id)
        source = TaskFrames(self._environment, asked.caller, task, _joined(renderer), coming)
        return self._streamed(asked, source, renderer)


class TimedEvents:
    """The events of a task's run, see sse.EventSource. When the run began and ended is in its task before it is shown,
    as the run's record has it: so all who watch see the same times.
    """

    def __init__(self, environment: ProtocolEnvironment, caller: Caller, task: StoredTask, viewer: Viewer) -> None:
        self._environment = environment
        self._caller = caller
        self._task = task
        self._viewer = viewer

    @property
    def dropped(self) -> bool:
        return self._viewer.dropped

    async def next(self, timeout_seconds: float) -> Batch | None:
        batch = await self._viewer.next(timeout_seconds)
        if batch is None or not batch.events:
            return batch
        if batch.first <= 1 and self._task.last.started_at is None:  # the run has waited
            with suppress(GatewayError):  # a task is shown without times, too
                record = await self._environment.run(self._caller, self._task.last.client_id)
                self._task.fold.note_times(record)
        if isinstance(batch.events[-1], RunFinished | RunFailed):
            self._task.fold.note_end(self._viewer.ended_at())
        return batch

    def close(self) -> None:
        self._viewer.close()


class TaskFrames:
    """The frames of a task from now on, see sse.FrameSource: of the run that is `coming`. While the task waits for its
    caller there are none.
    """

    def __init__(
        self,
        environment: ProtocolEnvironment,
        caller: Caller,
        task: StoredTask,
        render: Callable[[Sequence[Event], int], bytes],
        coming: Viewer | NextRun,
    ) -> None:
        self._environment = environment
        self._tasks = environment.shared(StoredTasks)
        self._caller = caller
        self._task = task
        self._render = render
        self._next = coming if isinstance(coming, NextRun) else None
        self._frames = None if isinstance(coming, NextRun) else self._of_run(coming)
        self._waiting: asyncio.Future[None] | None = None
        self._left = self._over = False

    @property
    def ended(self) -> bool:
        return self._over or (self._frames is not None and self._frames.ended)

    async def next(self, timeout_seconds: float) -> bytes | None:
        try:
            while (coming := self._next) is not None:
                if coming.lost.is_set():
                    raise CutOffError(_LOST)
                coming.begins.clear()  # before the look: one that begins after it is waited for
                if (record := await self._tasks.next_run(self._caller, self._task)) is not None:
                    return await self._go_on(record, timeout_seconds)
                if not (self._left or await self._wait(coming.begins, timeout_seconds)):
                    return None
        except GatewayError as error:  # the task was deleted, or the store cannot be read
            raise CutOffError(error.message) from error
        except HeldElsewhereError as error:  # this gateway was taken for dead
            raise CutOffError(_LOST) from error
        return b"" if self._frames is None else await self._frames.next(timeout_seconds)

    async def _wait(self, begins: asyncio.Event, seconds: float) -> bool:
        """Whether a run begins, or the client leaves, within that time."""
        waiting = self._waiting = asyncio.ensure_future(_is_set(begins))
        try:
            return bool((await asyncio.wait((waiting,), timeout=seconds))[0])
        finally:
            waiting.cancel()
            self._waiting = None

    async def _go_on(self, record: RunRecord, timeout_seconds: float) -> bytes | None:
        """The first frames of the run that goes on with the task."""
        self._wait_no_more()
        if (viewer := await self._tasks.begin(self._caller, self._task, record)) is None:
            self._over = True
            return self._render(await self._tasks.lost_events(self._caller, record), 1)
        self._frames = self._of_run(viewer)
        if self._left:
            self._frames.close()
        return await self._frames.next(timeout_seconds)

    def _of_run(self, viewer: Viewer) -> RunFrames:
        return RunFrames(TimedEvents(self._environment, self._caller, self._task, viewer), self._render)

    def _wait_no_more(self) -> None:
        if self._next is not None:
            self._next.stop()
            self._next = None

    def close(self) -> None:
        self._left = True
        self._wait_no_more()
        if self._waiting is not None:
            self._waiting.cancel()
        if self._frames is not None:
            self._frames.close()


async def _is_set(event: asyncio.Event) -> None:
    await event.wait()


def _joined(renderer: TaskRenderer) -> Callable[[Sequence[Event], int], bytes]:
    return lambda events, first: b"".join(renderer.render(events, first))


def extension_headers(asked: Asked) -> dict[str, str]:
    """The header of a response that names the extension by which it was made; empty: there was none."""
    return {EXTENSIONS_HEADER: ACTIVITY} if asked.shows_activity else {}
