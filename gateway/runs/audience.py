"""A run's viewers, and how long the run waits for a viewer once the last one has left.

It does not wait for a viewer that cannot return. Below: viewer, clock. Above: live_run, which feeds stored events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.clock import Clock, Timer
from gateway.events import Events
from gateway.runs.viewer import Prelude, Viewer


class Audience:
    """The viewers of one run. Each joins by `add` and leaves by its own `close`."""

    __slots__ = (
        "_clock", "_ended_at", "_gone_waiters", "_grace", "_grace_seconds", "_is_over", "_log_id", "_max_viewer_events",
        "_on_abandoned", "_unnumbered", "_viewers", "slow_viewers",
    )  # fmt: skip

    def __init__(
        self,
        clock: Clock,
        *,
        grace_seconds: float,
        on_abandoned: Callable[[], None],
        max_viewer_events: int,
        log_id: str,
    ) -> None:
        """`on_abandoned` is called once nobody has watched for `grace_seconds`; `log_id` is RunRecord's."""
        self.slow_viewers: set[Viewer] = set()  # viewers that were dropped because they were slow
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._on_abandoned = on_abandoned
        self._max_viewer_events = max_viewer_events
        self._log_id = log_id
        self._viewers: set[Viewer] = set()
        self._grace: Timer | None = None
        self._gone_waiters: list[asyncio.Future[None]] = []
        self._unnumbered: Events | None = None  # the last events, if they could not be stored: for later viewers
        self._ended_at: float | None = None
        self._is_over = False

    @property
    def has_viewers(self) -> bool:
        return bool(self._viewers)

    def add(self, *, after: int, prelude: Prelude | None = None) -> Viewer:
        """A viewer of the events after number `after`."""
        viewer = Viewer(
            self._clock,
            after=after,
            on_close=self._left,
            prelude=prelude,
            max_events=self._max_viewer_events,
            log_id=self._log_id,
        )
        viewer.end_at(self._ended_at)
        self._viewers.add(viewer)
        self._stop_grace()
        if self._unnumbered is not None:
            viewer.feed_unnumbered(self._unnumbered)
        if self._unnumbered is not None or self._is_over:
            viewer.finish()
        return viewer

    def feed(self, first: int, events: Events) -> None:
        """Show events that the store has, numbered from `first`."""
        for viewer in self._viewers:
            viewer.feed(first, events)
            if viewer.dropped:
                self.slow_viewers.add(viewer)

    def show_unnumbered(self, events: Events) -> None:
        """Show these events as the last ones, without storing them: to current viewers, and to later ones."""
        self._unnumbered = list(events)
        for viewer in list(self._viewers):
            viewer.feed_unnumbered(events)
            viewer.finish()

    def end_at(self, time: float) -> None:
        """Set the time at which the run ended, as in its record."""
        self._ended_at = time
        for viewer in self._viewers:
            viewer.end_at(time)

    def finish(self) -> None:
        """The run is over: viewers read the rest, then end. Stops waiting for viewers."""
        self._is_over = True
        self._on_abandoned = _nobody_asks  # breaks a reference cycle: it refers to the run, which refers to this object
        for viewer in list(self._viewers):
            viewer.finish()
        self._stop_grace()
        self._wake_gone_waiters()

    def break_off(self) -> None:
        """The run goes on elsewhere: viewers read the rest, then their streams break off, and their clients come
        back.
        """
        for viewer in self._viewers:
            viewer.dropped = True

    async def gone(self, seconds: float) -> None:
        """Wait until nobody watches the run or it has ended, for at most `seconds`."""
        if not self._viewers or self._is_over:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gone_waiters.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            if waiter in self._gone_waiters:
                self._gone_waiters.remove(waiter)

    def _left(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        if self._viewers:
            return
        self._wake_gone_waiters()
        if not self._is_over and self._grace is None:
            waits = viewer.may_return or viewer.dropped
            self._grace = self._clock.call_later(self._grace_seconds if waits else 0.0, self._grace_over)

    def _grace_over(self) -> None:
        self._grace = None
        if not self._viewers and not self._is_over:
            self._on_abandoned()

    def _stop_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def _wake_gone_waiters(self) -> None:
        waiters, self._gone_waiters = self._gone_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _nobody_asks() -> None:
    pass
