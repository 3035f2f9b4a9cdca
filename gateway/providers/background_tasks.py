"""Work that nobody waits for, such as asking a provider to delete what it keeps.

Below: clock. Above: runs.removal, openai.responses_stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress

from gateway.clock import Clock, Deadline, DeadlineError

CLOSE_SECONDS = 5.0


class BackgroundTasks:
    """The background tasks of one owner, who closes them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[None, None, None], name: str) -> None:
        """Start the work as a task of that name. The work handles its own exceptions."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Wait a short time for the tasks to end, and cancel those that take longer."""
        if not (tasks := list(self._tasks)):
            return
        deadline = Deadline(self._clock, CLOSE_SECONDS)
        try:
            with suppress(DeadlineError), deadline:
                await asyncio.wait(tasks)
        finally:
            deadline.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
