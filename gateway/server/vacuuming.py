"""Rewrites the store while the gateway serves, so that deleted data and the space that it took are gone.

Below: asked_work, outcome. Above: process, which calls it on a signal. Runs wait meanwhile, as Store.vacuum says.
"""

from __future__ import annotations

import logging
from pathlib import Path

from gateway.application import Application
from gateway.errors import StoreError
from gateway.server.asked_work import AskedWork
from gateway.server.outcome import vacuumed_lines

logger = logging.getLogger(__name__)


class Vacuuming(AskedWork):
    """Rewrites the store, one rewriting at a time."""

    def __init__(self, application: Application, store: Path | None = None) -> None:
        """`store` as in AskedWork."""
        super().__init__(application, "vacuum", store)

    async def _do(self) -> tuple[bool, list[str]]:
        try:
            done = await self._application.store.vacuum()
        except StoreError as error:
            logger.error("the store could not be rewritten", extra={"reason": error.message})
            return False, [error.message]
        extra = {"seconds": round(done.seconds, 3), "bytes_before": done.before, "bytes_after": done.after}
        logger.info("the store was rewritten", extra=extra)
        return True, vacuumed_lines(done)
