"""Shares the event loop's time between long pieces of work: a step at a time, the owners by turns.

Below: nothing. Above: requests, the protocols. Everything else of the loop runs between two steps. However much one
owner has to do, another one's work takes at most twice as long as alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


class TimeSharing:
    """The time of one event loop."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._is_given = False

    async def run(self, owner: str, steps: Generator[None, None, Result]) -> Result:
        """Run the steps, each of which should take some milliseconds. Gives their result."""
        while True:
            await self._turn(owner)
            try:
                next(steps)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self._give_on()

    async def turn(self, owner: str) -> None:
        """Wait until the owner may work. The code that follows, up to its next await, is one step."""
        await self._turn(owner)
        self._give_on()

    async def _turn(self, owner: str) -> None:
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        if not self._is_given:
            self._give_on()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given already
                self._give_on()
            raise

    def _give_on(self) -> None:
        self._is_given = bool(self._waiting)
        if self._is_given:
            # not at once: what else the loop has to do comes first
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        while self._waiting:
            owner, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            if turns:
                self._waiting[owner] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._is_given = False
