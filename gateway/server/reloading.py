"""Reads the configuration file again while the gateway serves: its agents are taken over, nothing else.

Below: application, settings, reload_outcome. Above: process, which calls it on a signal. The file is checked first, in
a thread, so that no stream waits for it. A file with a problem changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from gateway.application import Application
from gateway.configuration.file import InvalidConfigurationError
from gateway.errors import ConfigurationError
from gateway.server.reload_outcome import (
    ReloadOutcome,
    accepted_lines,
    forget_outcome,
    outcome_file,
    write_outcome,
)
from gateway.settings import Flags, Settings, check_settings, needing_restart

logger = logging.getLogger(__name__)


class Reloading:
    """Reads the file of the start again, one reading at a time. `close` it before the application ends."""

    def __init__(self, application: Application, flags: Flags, store: Path | None = None) -> None:
        """`store`: its file, beside which the outcome of each reading is kept; None where it has no file."""
        source = application.settings.source
        self._application = application
        self._flags = replace(flags, config=source, demo=source is None)
        self._outcome_file = None if store is None else outcome_file(store)
        self._task: asyncio.Task[None] | None = None
        self._again = False

    def ask(self) -> None:
        """Read the file soon. If it is being read just now, it is read once more: it may have changed meanwhile."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read(), name="reload the configuration")
        else:
            self._again = True

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._outcome_file is not None:
            forget_outcome(self._outcome_file)

    async def _read(self) -> None:
        while True:
            self._again = False
            began = self._application.clock.now()
            accepted, lines = await self._read_once()
            if self._outcome_file is not None:
                redacted = [self._application.redaction.text(line) for line in lines]
                await asyncio.to_thread(write_outcome, self._outcome_file, ReloadOutcome(began, accepted, redacted))
            if not self._again:
                return

    async def _read_once(self) -> tuple[bool, list[str]]:
        """Whether the file's agents were taken over; what has changed, or why nothing has."""
        application = self._application
        try:
            settings = await asyncio.to_thread(
                check_settings, self._flags, parts=application.parts, on_secrets=application.redaction.learn
            )
            return True, self._take_over(settings)
        except InvalidConfigurationError as error:
            problems = [str(problem) for problem in error.problems]
            logger.error("the configuration file has problems: nothing was changed", extra={"problems": problems})
        except ConfigurationError as error:
            problems = [error.message]
            extra = {"problems": problems}
            logger.error("the agents of the configuration file cannot be opened: nothing was changed", extra=extra)
        except Exception:
            problems = ["the configuration file could not be read again; the gateway's log has the details"]
            logger.exception("the configuration file could not be read again: nothing was changed")
        return False, problems

    def _take_over(self, settings: Settings) -> list[str]:
        if fields := needing_restart(self._application.settings, settings):
            logger.warning("the configuration file has changes that need a restart", extra={"fields": fields})
        changes = self._application.take_over(settings.agents, settings.server.default_agent)
        logger.info("took over the agents of the configuration file", extra=changes)
        return accepted_lines(changes, fields)
