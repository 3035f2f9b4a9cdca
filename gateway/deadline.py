"""A moment in the clock's time after which nobody waits any longer: what `asyncio.timeout` is to the machine's time;
and its opposite, a wait that nothing cuts short.

Below: clock. Above: whatever waits for something that may hang (a model, a tool).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import TypeVar

from gateway.clock import Clock

ResultT = TypeVar("ResultT")


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
            self._task.cancel()


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
