"""Replays a run's log with the pauses that were between its stored events.

Below: viewer, clock. Above: live_run and replay. Events from a log without times, and new events of a running run, are
shown without pauses.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gateway.clock import Clock
from gateway.runs.viewer import END, Batch, Viewer


class PacedViewer(Viewer):
    """One reader of a log, batch by batch, and then of the events that the viewer `rest` gets."""

    def __init__(self, clock: Clock, log: AsyncGenerator[Batch], rest: Viewer, pace: float) -> None:
        """The events of a batch of `log` have one time. `pace`: 1 for the original pauses, 2 for half of them."""
        super().__init__(clock, log_id=rest.log_id)
        self._rows: AsyncGenerator[Batch] | None = log
        self._rest = rest
        self._pace = pace
        self._upcoming: Batch | None = None
        self._start: tuple[float, float] | None = None  # when the first batch with a time was shown, and that time

    async def next(self, timeout_seconds: float) -> Batch | None:
        if self._rows is not None and (batch := await self._next_logged(self._rows)) is not None:
            return await self._in_time(batch, timeout_seconds)
        self._rows = None
        batch = await self._rest.next(timeout_seconds)
        self.dropped = self.dropped or self._rest.dropped
        return batch

    def ended_at(self) -> float:
        return self._rest.ended_at()

    def close(self) -> None:
        super().close()
        self._rest.close()

    async def _next_logged(self, rows: AsyncGenerator[Batch]) -> Batch | None:
        if self._upcoming is None:
            try:
                self._upcoming = await anext(rows, None)
            except BaseException:  # also a cancelled read: later events would leave a gap
                self._rest.close()
                self.dropped = True
                raise
        return self._upcoming

    async def _in_time(self, batch: Batch, timeout_seconds: float) -> Batch | None:
        """The batch once its time has come; None if that takes longer than `timeout_seconds`."""
        seconds = self._seconds_until(batch)
        if seconds > 0 and not self._closed:
            try:
                await self._waiting(min(seconds, timeout_seconds))
            finally:
                self._waiter = None
        if self._closed:
            return END
        if seconds > timeout_seconds:
            return None
        self._upcoming = None
        return batch

    def _seconds_until(self, batch: Batch) -> float:
        if batch.at is None:
            return 0.0
        now = self.clock.monotonic()
        if self._start is None:
            self._start = now, batch.at
        shown_at, came_at = self._start
        return shown_at + (batch.at - came_at) / self._pace - now
