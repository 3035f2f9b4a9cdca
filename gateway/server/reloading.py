"""Reads the configuration file again while the gateway serves: its agents are taken over, nothing else.

Below: application, settings, asked_work, outcome. Above: process, which calls it on a signal. The file is checked
first, in a thread, so that no stream waits for it. A file with a problem changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

from gateway.application import Application
from gateway.configuration.file import InvalidConfigurationError
from gateway.errors import ConfigurationError
from gateway.server.asked_work import AskedWork
from gateway.server.outcome import accepted_lines
from gateway.settings import Flags, Settings, check_settings, needing_restart

logger = logging.getLogger(__name__)


class Reloading(AskedWork):
    """Reads the file that the gateway started with again, one reading at a time."""

    def __init__(self, application: Application, flags: Flags, store: Path | None = None) -> None:
        """`store` as in AskedWork."""
        super().__init__(application, "reload", store)
        source = application.settings.source
        self._flags = replace(flags, config=source, demo=source is None)

    async def _do(self) -> tuple[bool, list[str]]:
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
