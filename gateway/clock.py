"""The time and waiting as a value that tests can replace; deadlines; and a wait that nothing cuts short.

Nearly all of the package asks this clock. The machine's own time is asked only where the machine itself is measured (an
event loop, a disk, a request's duration), and for the time limit on a request's body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Final, Protocol, TypeVar

ResultT = TypeVar("ResultT")


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Forget the call. Harmless once it was made."""


class Clock(Protocol):
    """What the gateway knows of time."""

    def now(self) -> float:
        """Unix time in seconds: for what people and other machines read."""

    def monotonic(self) -> float:
        """Seconds that never go back: for durations."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back once, from the event loop."""


class SystemClock:
    """The machine's time."""

    # Without a function of ours around them: they are asked with every batch of every stream.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


TIMED_OUT: Final = "the time for it is over"
"""What a task is cancelled with, `task.cancel(TIMED_OUT)`, where that is the reason: traces tell it from others."""


class DeadlineError(TimeoutError):
    """The moment came before what was waited for."""


class Deadline:
    """Bounds every wait in its `with` block, which one task may enter again and again, also by a generator.

        deadline = Deadline(clock, 30.0)
        with deadline:
            batch = await anext(stream)

    Only a wait inside the block is interrupted: a generator leaves the block before it yields, or calls `pause`, or the
    deadline would interrupt whatever its consumer waits for. `close` forgets the moment.
    """

    def __init__(self, clock: Clock, seconds: float | None) -> None:
        """`seconds` from now; None: never."""
        self.expired = False
        self._entrant: asyncio.Task[object] | None = None  # who enters the block
        self._task: asyncio.Task[object] | None = None  # who is in it
        self._cancelling = 0
        self._interrupted = False
        self._timer = None if seconds is None else clock.call_later(max(0.0, seconds), self._expire)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> Deadline:
        """Raises DeadlineError where the moment has come already."""
        if self.expired:
            raise DeadlineError
        task = self._entrant
        if task is None:
            task = self._entrant = asyncio.current_task()
        self._task = task
        self._cancelling = task.cancelling() if task is not None else 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        task, self._task = self._entrant, None
        if not self._interrupted or task is None:
            return
        self._interrupted = False
        # Somebody else may have cancelled the task as well: that cancellation goes on as it is.
        if task.uncancel() <= self._cancelling and error is not None:
            raise DeadlineError from error

    def pause(self) -> None:
        """Inside the block: interrupt nothing until `resume`. Less than to leave the block and to enter it again, which
        was a twentieth of what a delta costs.
        """
        self._task = None

    def resume(self) -> None:
        """Raises DeadlineError where the moment has come meanwhile."""
        if self.expired:
            raise DeadlineError
        self._task = self._entrant

    def _expire(self) -> None:
        self.expired = True
        if self._task is not None:
            self._interrupted = True
            self._task.cancel(TIMED_OUT)


async def unhurt(work: Coroutine[None, None, ResultT]) -> ResultT:
    """Await work to its end, also when this task is cancelled meanwhile: nothing may be left half kept."""
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
