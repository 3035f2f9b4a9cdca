"""Lets one run at a time work on each thread, in the order of the requests.

Below: live_run, store (the errors). Above: the run driver, which begins a run once it is the head of its line. The head
of a line works, the others wait. A write outside a run is a visit: it waits in the line as a run does, and ends at
once. Everything here happens in one step of the event loop, except at `await`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, TypeAlias

from gateway.clock import Clock
from gateway.errors import ConflictError, GatewayError, StoreError, StoreFullError, TooManyRequestsError
from gateway.messages import Message
from gateway.runs.live_run import LiveRun
from gateway.runs.store_waits import soon_stored

Policy: TypeAlias = Literal["reject", "enqueue", "cancel_previous"]

# A browser's Stop closes its connection, and its next message may arrive before the gateway notices. That is a matter
# of the network, so this is real time and not the clock's.
_DISCONNECT_NEWS_SECONDS = 0.2


class _Wait:
    """A run's or visit's wait in its line. `over` is done once it is the head. `is_patient`: no request waits for the
    run.
    """

    __slots__ = ("is_patient", "over")

    def __init__(self, *, is_patient: bool) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_patient = is_patient


class _Visit:
    """A place in the line for a write outside a run."""

    __slots__ = ("thread_key",)

    def __init__(self, thread_key: tuple[str, str]) -> None:
        self.thread_key = thread_key


class ThreadLines:
    """The lines of all threads. `stop(run, reason)` cancels a run; `ends_unwatched(run)` says whether it ends when
    nobody watches it.
    """

    def __init__(
        self,
        max_waiting: int,
        clock: Clock,
        *,
        stop: Callable[[LiveRun, str], None],
        ends_unwatched: Callable[[LiveRun], bool],
    ) -> None:
        self._max_waiting = max_waiting
        self._clock = clock
        self._stop = stop
        self._ends_unwatched = ends_unwatched
        self._lines: dict[tuple[str, str], deque[LiveRun | _Visit]] = {}
        self._waits: dict[LiveRun | _Visit, _Wait] = {}  # of the runs and visits that had to wait
        self._held: dict[tuple[str, str], list[asyncio.Future[None]]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def line(self, owner: str, thread_id: str) -> Sequence[LiveRun]:
        """The thread's runs in order, the working one first."""
        return self._runs((owner, thread_id))

    def is_free(self, owner: str, thread_id: str) -> bool:
        """Whether nobody works on the thread or waits for it."""
        return (owner, thread_id) not in self._lines

    def head(self, owner: str, thread_id: str) -> LiveRun | None:
        """The working run; None if there is none."""
        line = self._lines.get((owner, thread_id))
        return line[0] if line and isinstance(line[0], LiveRun) else None

    def is_awaited(self, live: LiveRun) -> bool:
        """Whether others wait in the run's line."""
        return len(self._lines.get(live.thread_key, ())) > 1

    def has_begun(self, owner: str, thread_id: str) -> bool:
        """Whether the working run's begin is stored."""
        return (head := self.head(owner, thread_id)) is not None and head.begun

    def ahead(self, live: LiveRun, stored: Sequence[Message]) -> Sequence[Message]:
        """The messages that the thread will have when the run is the head, as far as the runs before it have produced
        them. `stored`: the thread's messages if the first run has not stored its begin.
        """
        for earlier in self.line(*live.thread_key):
            if earlier is live:
                break
            if earlier.thread is None or not earlier.begun:
                stored = (*stored, *earlier.waiting_messages)
            else:
                stored = (*earlier.thread.messages, *earlier.fold.messages)
        return stored

    def until_head(self, live: LiveRun) -> asyncio.Future[None]:
        """A future that is done when the run is the head of its line, for a run for which `enter` returned True."""
        return self._waits[live].over

    @contextmanager
    def held(self, owner: str, thread_id: str) -> Iterator[None]:
        """Keep all runs out of the thread's empty line during this block: the thread is being deleted."""
        over = asyncio.get_running_loop().create_future()
        holders = self._held.setdefault((owner, thread_id), [])
        holders.append(over)
        try:
            yield
        finally:
            holders.remove(over)
            if not holders:
                del self._held[owner, thread_id]
            over.set_result(None)

    async def enter(self, live: LiveRun, policy: Policy) -> bool:
        """Join the thread's line. True: the run must wait; False: it is the head.

        Raises:
            ConflictError: the thread is busy.
            TooManyRequestsError: too many runs wait.
            StoreError: the end of the thread's last run cannot be stored now, so that no run can build on it.
        """
        key = live.thread_key
        while True:
            if holders := self._held.get(key):
                await asyncio.wait(holders)
            elif policy == "reject" and (busy := self._first_to_stay(key)) is not None:
                if not await self._left(busy):
                    raise _busy(busy)
            else:
                break
        line = self._lines.setdefault(key, deque())
        if policy == "enqueue":
            if len(line) > self._max_waiting:
                raise _too_many(key[1])
            for earlier in self._runs(key):
                if self._gives_way(earlier):
                    self._stop(earlier, "superseded")
            line.append(live)
            if len(line) > 1:
                self._waits[live] = _Wait(is_patient=True)
            return len(line) > 1
        for earlier in self._runs(key):
            if earlier.unkept is not None:
                raise _unkept(earlier.unkept)
            self._stop(earlier, "superseded")
        line.append(live)
        if line[0] is not live:
            wait = self._waits[live] = _Wait(is_patient=False)
            await soon_stored(self._clock, wait.over)  # the runs before it were stopped, which takes a second
        return False

    @asynccontextmanager
    async def visit(self, owner: str, thread_id: str, *, waits: bool) -> AsyncGenerator[None]:
        """Be the head of the thread's line during this block, for a write outside a run. `waits`: first wait for the
        runs that work on the thread or wait for it.

        Raises:
            ConflictError: a run works on the thread or waits for it, and `waits` is False.
            TooManyRequestsError: too many wait.
            StoreError: the thread's last run cannot be stored at present, so nothing can continue it.
        """
        key = (owner, thread_id)
        while holders := self._held.get(key):
            await asyncio.wait(holders)
        for run in self._runs(key):
            if run.unkept is not None:
                raise _unkept(run.unkept)
            if not waits and not run.finishing:
                raise _busy(run)
        line = self._lines.setdefault(key, deque())
        if len(line) > self._max_waiting:
            raise _too_many(thread_id)
        visit = _Visit(key)
        line.append(visit)
        try:
            if line[0] is not visit:
                wait = self._waits[visit] = _Wait(is_patient=False)
                await wait.over
            yield
        finally:
            self.leave(visit)

    def leave(self, live: LiveRun | _Visit) -> None:
        """Take a run or a visit out of its line. If it was the head, the next one's wait is over."""
        line = self._lines.get(live.thread_key)
        if line is None or live not in line:
            return
        line.remove(live)
        self._waits.pop(live, None)
        if not line:
            del self._lines[live.thread_key]
        elif (wait := self._waits.get(line[0])) is not None and not wait.over.done():
            wait.over.set_result(None)

    def block(self, live: LiveRun, error: StoreError) -> None:
        """Refuse the requests that wait for this run: its end cannot be stored now."""
        live.block(error)
        for waiting in tuple(self._lines.get(live.thread_key, ())):
            wait = self._waits.get(waiting)
            if wait is not None and not wait.is_patient and not wait.over.done():
                wait.over.set_exception(_unkept(error))

    def _first_to_stay(self, key: tuple[str, str]) -> LiveRun | None:
        return next((run for run in self._runs(key) if not self._gives_way(run)), None)

    def _runs(self, key: tuple[str, str]) -> tuple[LiveRun, ...]:
        return tuple([each for each in self._lines.get(key, ()) if isinstance(each, LiveRun)])

    def _gives_way(self, run: LiveRun) -> bool:
        """Whether the run ends soon, by itself or because nobody watches it."""
        if run.cancel_reason is not None or run.finishing:
            return True
        return not run.audience.has_viewers and self._ends_unwatched(run)

    async def _left(self, run: LiveRun) -> bool:
        if not self._ends_unwatched(run):
            return False
        await run.audience.gone(_DISCONNECT_NEWS_SECONDS)
        return self._gives_way(run)


def _too_many(thread_id: str) -> TooManyRequestsError:
    return TooManyRequestsError(f"too many runs wait for thread {thread_id!r}; wait for one to end")


def _busy(run: LiveRun) -> ConflictError:
    return ConflictError(
        f"thread {run.record.thread_id!r} is busy with run {run.record.client_id!r}; wait for its end or cancel it",
        code="thread_busy",
    )


def _unkept(error: GatewayError) -> StoreError:
    kind = StoreFullError if isinstance(error, StoreFullError) else StoreError
    return kind(f"the thread's last run could not be kept yet: {error.message}", code=error.code)
