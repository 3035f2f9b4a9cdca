"""What is done when nobody waits for it any more, such as asking a provider to delete what it keeps.

Nothing of ours is below. Above: runs.removal, openai.responses_stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

CLOSE_SECONDS = 5.0


class Errands:
    """Those of one owner, who closes them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, errand: Coroutine[None, None, None], name: str) -> None:
        """Have it done, under that name. It sees itself to what it may raise."""
        task = asyncio.create_task(errand, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Let what is under way come to its end, if that does not take long; what takes longer is cancelled."""
        if tasks := list(self._tasks):
            _, late = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
