"""Work that a signal asks the process for, one at a time.

Below: application, outcome. Above: reloading and vacuuming, which do it; process, which has the signals.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path

from gateway.application import Application
from gateway.server.outcome import Outcome, forget_outcome, outcome_file, write_outcome


class AskedWork(ABC):
    """Does the work each time that it is asked for. `close` it before the application ends."""

    def __init__(self, application: Application, command: str, store: Path | None) -> None:
        """`command` asks for the work. `store`: the store's file, beside which each outcome is kept; None without a
        file.
        """
        self._application = application
        self._command = command
        self._outcome_file = None if store is None else outcome_file(store, command)
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def ask(self) -> None:
        """Do the work soon. If it is under way, do it once more afterwards: something may have changed meanwhile."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name=self._command)
        else:
            self._again = True

    async def close(self) -> None:
        """Stop the work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._outcome_file is not None:
            forget_outcome(self._outcome_file)

    async def _work(self) -> None:
        while True:
            self._again = False
            began = self._application.clock.now()
            accepted, lines = await self._do()
            if self._outcome_file is not None:
                redacted = [self._application.redaction.text(line) for line in lines]
                await asyncio.to_thread(write_outcome, self._outcome_file, Outcome(began, accepted, redacted))
            if not self._again:
                return

    @abstractmethod
    async def _do(self) -> tuple[bool, list[str]]:
        """Whether the work was done; and lines that say what changed, or why nothing did."""
