"""A run that has begun, by its id: its record, its events, its frames and its end.

Below: the environment, renderers. Above: the rooms of protocols that show runs once they have begun. Every run of the
caller's is found, whichever protocol it came by.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from gateway.access.callers import Caller
from gateway.errors import GatewayError, NotFoundError
from gateway.events import RunFailed, RunFinished
from gateway.messages import JsonObject
from gateway.protocol.answers import run_headers
from gateway.protocol.environment import ProtocolEnvironment
from gateway.protocol.renderer import Renderer, rendered_so_far, rendered_stream
from gateway.protocol.run_access import run_named
from gateway.runs.viewer import Viewer
from gateway.sse import EventStreamResponse
from gateway.store import RunRecord, RunStatus


class RunRenderer(Renderer[JsonObject], Protocol):
    """A renderer that also shows a run that is under way, and numbers its frames from 0."""

    @property
    def frames(self) -> int:
        """How many numbered frames there were so far."""

    def so_far(self, status: Literal["queued", "in_progress"]) -> JsonObject:
        """The run as it is now."""


MakeRenderer: TypeAlias = Callable[[Callable[[], float]], RunRenderer]
"""Makes a run's renderer. The function that it gets gives when the run ended."""


@dataclass(frozen=True, slots=True)
class RunWords:
    """A protocol's errors, each made from a run's id: `missing`, there is no such run; `log_expired`, its events are
    not kept any more. `no_frame`, made from the run's id, the frame's number and how many frames there are: there is no
    such frame.
    """

    missing: Callable[[str], NotFoundError]
    log_expired: Callable[[str], NotFoundError]
    no_frame: Callable[[str, int, int], GatewayError]


class BegunRuns:
    """The runs of all callers; each sees its own. A run that is not there is `RunWords.missing`."""

    def __init__(self, environment: ProtocolEnvironment, words: RunWords) -> None:
        self._environment = environment
        self._words = words

    async def record(self, caller: Caller, run_id: str) -> RunRecord:
        """A run's record as it is now."""
        with run_named(self._words.missing(run_id)):
            return await self._environment.run(caller, run_id)

    async def watch(self, caller: Caller, run_id: str) -> Viewer | None:
        """A viewer from event 1; None: the run has ended, and its log was deleted. Close the viewer."""
        with run_named(self._words.missing(run_id)):
            return await self._environment.attach(caller, run_id)

    async def so_far(self, caller: Caller, record: RunRecord, make: MakeRenderer) -> JsonObject | None:
        """The run as it is now; one that is under way, with the output so far. None: its log was deleted."""
        if (viewer := await self.watch(caller, record.client_id)) is None:
            return None
        with closing(viewer):
            renderer = make(viewer.ended_at)
            last = await rendered_so_far(viewer, renderer)
        if isinstance(last, RunFinished | RunFailed):
            return renderer.final()
        return renderer.so_far("queued" if record.status is RunStatus.QUEUED else "in_progress")

    async def stream(
        self, caller: Caller, record: RunRecord, make: MakeRenderer, *, after: int | None = None, heartbeat: bytes = b""
    ) -> EventStreamResponse:
        """The run's frames after the one with the number `after`; those of a run under way as they come.

        Raises:
            NotFoundError: `RunWords.log_expired`.
            GatewayError: `RunWords.no_frame`.
        """
        if after is not None:
            await self._check_reaches(caller, record, make, after)
        viewer = await self._events(caller, record)
        return rendered_stream(
            viewer,
            make(viewer.ended_at),
            self._environment.streams,
            after=0 if after is None else after + 1,
            heartbeat=heartbeat,
            headers=run_headers(record.thread_id, record.client_id),
        )

    async def stop(self, caller: Caller, record: RunRecord) -> None:
        """Cancel the run, and wait for its end. One that has ended stays as it is."""
        if record.status.ended:
            return
        with run_named(self._words.missing(record.client_id)):
            await self._environment.stop(caller, record.client_id)

    async def _check_reaches(self, caller: Caller, record: RunRecord, make: MakeRenderer, after: int) -> None:
        with closing(await self._events(caller, record)) as viewer:
            renderer = make(viewer.ended_at)
            await rendered_so_far(viewer, renderer)
        if after >= renderer.frames:
            raise self._words.no_frame(record.client_id, after, renderer.frames)

    async def _events(self, caller: Caller, record: RunRecord) -> Viewer:
        if (viewer := await self.watch(caller, record.client_id)) is None:
            raise self._words.log_expired(record.client_id)
        return viewer
