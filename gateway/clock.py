"""The clock, which tests can replace; deadlines; and waits that cannot be cut short.

Nearly all of the package uses this clock. The system's own time is used where the machine itself is measured (an event
loop, a disk, a request's duration), and for the time limit on a request's body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

ResultT = TypeVar("ResultT")


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call. Does nothing if the call was made already."""


class Clock(Protocol):
    """The gateway's source of time."""

    def now(self) -> float:
        """Unix time in seconds: for times that people and other machines read."""

    def monotonic(self) -> float:
        """Seconds that never go back: for durations."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, from the event loop."""


class SystemClock:
    """The machine's time."""

    # The functions themselves, not methods around them: every batch of every stream calls them.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


TIMED_OUT: Final = "the time for it is over"
"""The message of `task.cancel(TIMED_OUT)` if a task is cancelled because its time is over: traces distinguish this
reason from others.
"""


class DeadlineError(TimeoutError):
    """The deadline passed before the wait was over."""


class Deadline:
    """Bounds every wait in its `with` block. One task, or a generator in it, may enter the block again and again.

        deadline = Deadline(clock, 30.0)
        with deadline:
            batch = await anext(stream)

    Only a wait inside the block is interrupted. A generator must leave the block before it yields; otherwise the
    deadline would interrupt its consumer's waits. Or it sets `paused` while it yields, which costs less, and looks at
    `expired` before it waits again. `close` cancels the deadline.
    """

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        """`seconds` from now; None: never."""
        self.expired = False
        self.paused = False
        self._entrant: asyncio.Task[object] | None = None  # the task that enters the block
        self._task: asyncio.Task[object] | None = None  # the task that is in it
        self._cancelling = 0
        self._interrupted = False
        self._timer = None if seconds is None else clock.call_later(max(0.0, seconds), self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> Deadline:
        """Raises DeadlineError if the deadline has passed already."""
        if self.expired:
            raise DeadlineError
        task = self._entrant
        if task is None:
            task = self._entrant = asyncio.current_task()
        self._task, self.paused = task, False
        self._cancelling = task.cancelling() if task is not None else 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._entrant, None
        if not self._interrupted or task is None:
            return
        self._interrupted = False
        # If somebody else has cancelled the task as well, that cancellation goes on.
        if task.uncancel() <= self._cancelling and error is not None:
            raise DeadlineError from error

    def _expire(self) -> None:
        self.expired = True
        if self._task is not None and not self.paused:
            self._interrupted = True
            self._task.cancel(TIMED_OUT)


async def shielded(work: Coroutine[None, None, ResultT]) -> ResultT:
    """Await work to its end, even if this task is cancelled meanwhile: nothing must be left half stored."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
        except Exception:  # taken from the task below
            break
    return task.result()


class Kept(asyncio.Future[ResultT]):
    """The outcome of a write.

    Many runs may wait for one outcome. Cancelling a task normally cancels the future that the task waits for, and so
    would fail all other runs. This future ignores that: the task gets its CancelledError once the write is done.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        return False

    async def shielded(self) -> ResultT:
        """Await the outcome even if this task is cancelled meanwhile, as the function `shielded` does."""
        with suppress(asyncio.CancelledError):
            await self
        return self.result()
