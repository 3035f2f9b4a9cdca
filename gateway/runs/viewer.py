"""One reader of a run's events: a prelude, the log's events, then live ones.

Below: events, messages, transcript (the open items), store. Above: live_run, which feeds the viewers of a run under
way; replay, which makes those of a finished run; the protocols, which read them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from gateway.agent import Absent
from gateway.clock import Clock, Timer
from gateway.events import Event, sliced
from gateway.frozen import quickly_made
from gateway.messages import JsonValue, Message
from gateway.store import Store
from gateway.transcript import OpenItems

_PAGE = 2_000
_PATIENCE_SECONDS = 60.0


class Batch(NamedTuple):
    """Events with consecutive numbers from `first` (`events.count_of`); below 1 they have no numbers. No events: the
    stream is over.

    `at`: when all of these events came (as in NumberedEvent); None if they have different times, or the reader asked
    for none.
    """

    first: int
    events: Sequence[Event]
    at: float | None = None


END = Batch(0, ())


@quickly_made
@dataclass(frozen=True, slots=True)
class Prelude:
    """The start of a viewer without a cursor: the thread so far, before the live events.

    `state` is ABSENT if there is none; `messages` has the messages that will not change any more.
    """

    thread_id: str
    run_id: str
    state: JsonValue | Absent
    messages: tuple[Message, ...]
    open_items: OpenItems


class Viewer:
    """One reader of a run's events: the log's after its cursor, then live ones.

    `prelude`, if any, is to be shown first. `log_id` is its run's (RunRecord.log_id). `dropped`: the reader was too
    slow, or another gateway has taken the run over; its stream ends without a terminal event, and the client continues
    from the log. `may_return`: a reader that
    leaves may ask for the run again, so the run waits for it. `clock`: what it waits by.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        after: int = 0,
        on_close: Callable[[Viewer], None] | None = None,
        prelude: Prelude | None = None,
        max_events: int = 10_000,
        log_id: str = "",
    ) -> None:
        self.prelude = prelude
        self.log_id = log_id
        self.dropped = False
        self.may_return = True
        self.clock = clock
        self._loop = asyncio.get_running_loop()  # kept, because asking for it calls getpid each time
        self._after = after  # events up to this number come from the log, or are not for this viewer
        self._on_close = on_close
        self._max_events = max_events
        self._first = 0
        self._events: Sequence[Event] = ()
        self._unnumbered: list[Event] = []
        self._ended_at: float | None = None
        self._over = False
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._wait_until = 0.0
        self._timer: Timer | None = None
        self._log: AsyncGenerator[Batch] | None = None

    async def next(self, timeout_seconds: float) -> Batch | None:
        """The events since the last call; waits up to `timeout_seconds` for them (0: not at all), then returns None.
        `END` at the end.
        """
        if self._log is not None:
            try:
                if (logged := await anext(self._log, None)) is not None:
                    return logged
            except BaseException:  # also a cancelled read: later events would leave a gap
                self._drop()
                raise
            self._log = None
        if timeout_seconds > 0 and not self._events and not self._over:
            try:
                await self._waiting(timeout_seconds)
            finally:
                self._waiter = None
        if self._events:
            batch = Batch(self._first, self._events)
            self._events = ()
            return batch
        if self._over and self._unnumbered:
            unnumbered, self._unnumbered = self._unnumbered, []
            return Batch(-len(unnumbered), unnumbered)
        return END if self._over else None

    def __aiter__(self) -> Viewer:
        """All batches to the end, however long each takes; to do something meanwhile, call `next`."""
        return self

    async def __anext__(self) -> Batch:
        while (batch := await self.next(_PATIENCE_SECONDS)) is None:
            pass
        if not batch.events:
            raise StopAsyncIteration
        return batch

    def take(self) -> Batch | None:
        """The events that are there already; None if `next` would have to wait or read."""
        if self._log is not None or not self._events:
            return None
        batch, self._events = Batch(self._first, self._events), ()
        return batch

    def read_first(self, log: AsyncGenerator[Batch]) -> None:
        """Show the log's events before all fed events; for the viewer's maker."""
        self._log = log

    def feed(self, first: int, events: Sequence[Event]) -> None:
        """Add events; for the viewer's maker."""
        if self._over:
            return
        if first <= self._after:
            events = sliced(events, self._after + 1 - first)
            first = self._after + 1
            if not events:
                return
        if not self._events:
            self._first = first
            self._events = events
        elif first - self._first > self._max_events:  # these events do not count: one burst is not the reader's fault
            self._drop()
        else:
            self._events = [*self._events, *events]
        self._wake()

    def feed_unnumbered(self, events: Sequence[Event]) -> None:
        """Add the last events, which are not in the log; unread events go first."""
        if not self._over:
            self._unnumbered = list(events)

    def ended_at(self) -> float:
        """The time at which the run ended, by its record; the current time if the record has none yet."""
        return self.clock.now() if self._ended_at is None else self._ended_at

    def end_at(self, time: float | None) -> None:
        """Set the time at which the run ended, by its record; for the viewer's maker."""
        self._ended_at = time

    def finish(self) -> None:
        """No more events will come."""
        self._over = True
        self._wake()

    def close(self) -> None:
        """The reader has left. Repeated calls have no effect."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.finish()
        if self._on_close is not None:
            self._on_close(self)

    def _drop(self) -> None:
        self.dropped = True
        self._over = True
        self._events = ()
        self._unnumbered = []

    def _waiting(self, timeout_seconds: float) -> asyncio.Future[None]:
        """A future that is done when there is something to read, or at the timeout; use it for one wait."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiter = waiter
        self._wait_until = self.clock.monotonic() + timeout_seconds
        if self._timer is None:
            self._timer = self.clock.call_later(timeout_seconds, self._time_up)
        return waiter

    def _time_up(self) -> None:
        # One timer for many waits: a timer for each costs as much as the rest of the wait.
        self._timer = None
        if self._waiter is None:
            return
        left = self._wait_until - self.clock.monotonic()
        if left <= 0:
            self._wake()
        else:
            self._timer = self.clock.call_later(left, self._time_up)

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


async def read_log(
    store: Store, owner: str, run_id: str, *, after: int, until: int | None, by_time: bool = False
) -> AsyncGenerator[Batch]:
    """The log's events after one number and up to another (None: to its end), a page at a time. `by_time`: events that
    came at one time are a batch.
    """
    while until is None or after < until:
        page = await store.read_events(owner, run_id, after=after, limit=_PAGE)
        rows = [row for row in page if until is None or row.sequence <= until]
        if not rows:
            return
        for at, batch in groupby(rows, key=lambda row: row.at) if by_time else [(None, rows)]:
            first, *others = batch
            number, events = first.sequence, [first.event, *(row.event for row in others)]
            yield Batch(number, events if until is None else sliced(events, 0, until + 1 - number), at)
        if page[-1].last < after + _PAGE:
            return
        after = rows[-1].last
