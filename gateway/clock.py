"""The time, and waiting, as a value that tests can replace.

Nearly all of the package asks this clock. The machine's own time is asked only where the machine itself is measured (an
event loop, a disk, a request's duration), and for the time limit on a request's body.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


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
