"""Reads the configuration file again while the gateway serves: its agents are taken over, nothing else.

Below: application, settings. Above: process, which calls it on a signal. The file is checked first, in a thread, so
that no stream waits for it. A file with a problem changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from gateway.application import Application
from gateway.configuration.file import InvalidConfigurationError
from gateway.errors import ConfigurationError
from gateway.settings import Flags, Settings, check_settings, needing_restart

logger = logging.getLogger(__name__)


class Reloading:
    """Reads the file of the start again, one reading at a time. `close` it before the application ends."""

    def __init__(self, application: Application, flags: Flags) -> None:
        source = application.settings.source
        self._application = application
        self._flags = replace(flags, config=source, demo=source is None)
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

    async def _read(self) -> None:
        while True:
            self._again = False
            await self._read_once()
            if not self._again:
                return

    async def _read_once(self) -> None:
        application = self._application
        try:
            settings = await asyncio.to_thread(
                check_settings, self._flags, parts=application.parts, on_secrets=application.redaction.learn
            )
            self._take_over(settings)
        except InvalidConfigurationError as error:
            problems = [str(problem) for problem in error.problems]
            logger.error("the configuration file has problems: nothing was changed", extra={"problems": problems})
        except ConfigurationError as error:
            extra = {"problems": [error.message]}
            logger.error("the agents of the configuration file cannot be opened: nothing was changed", extra=extra)
        except Exception:
            logger.exception("the configuration file could not be read again: nothing was changed")

    def _take_over(self, settings: Settings) -> None:
        if fields := needing_restart(self._application.settings, settings):
            logger.warning("the configuration file has changes that need a restart", extra={"fields": fields})
        changes = self._application.take_over(settings.agents)
        logger.info("took over the agents of the configuration file", extra=changes)
