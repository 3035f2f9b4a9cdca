"""The responses that a provider keeps for one model: deletes and stops them in the background.

Above: responses_background, responses_model. Below: http_client, and providers.failures and background_tasks. Source:
https://platform.openai.com/docs/api-reference/responses/delete (API version 1).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Protocol

from gateway.clock import Clock, Timer
from gateway.errors import ModelError
from gateway.http_client.clients import HttpCall, HttpClients, StreamTimeouts
from gateway.providers.background_tasks import BackgroundTasks
from gateway.providers.error_bodies import ProviderError, parse_error_body
from gateway.providers.failures import failure

logger = logging.getLogger(__name__)

BACKGROUND_TIMEOUTS = StreamTimeouts(connect=2.0, first_byte=5.0, idle=5.0, total=8.0)
# How long an unused response is kept for a process that may resume it; how many are deleted at a time.
OUTLIVED_SECONDS = 60.0
MOST_DELETIONS = 4

_GONE = (404, 410)


class ExistingAccess(Protocol):
    """How existing responses are reached."""

    async def existing(self, response_id: str, *, method: str = "GET", action: str = "", query: str = "") -> HttpCall:
        """An authenticated call about one response; nothing of it may change."""

    def learn(self, call: HttpCall, status: int, error: ProviderError) -> bool:
        """Learn from a refusal. Gives whether the next call will differ from `call`."""


class StoredResponses:
    """The responses of one model at its provider. `model_id` is for the log."""

    def __init__(self, access: ExistingAccess, http: HttpClients, clock: Clock, model_id: str) -> None:
        self._access = access
        self._http = http
        self._clock = clock
        self._model_id = model_id
        self._background_tasks = BackgroundTasks(clock)
        self._outlived: dict[str, Timer] = {}  # responses that are not used any more
        self._deleting = asyncio.Semaphore(MOST_DELETIONS)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine in the background. A stopped run ends at once, however long the provider takes."""
        self._background_tasks.spawn(work, "a call in the background")

    async def forget(self, response_id: str) -> None:
        """As model.StatefulModel says."""
        async with self._deleting:
            if await self._delete(response_id):
                return
            await self._delete(response_id, learns=False)

    async def _delete(self, response_id: str, *, learns: bool = True) -> bool:
        """False: ask again; `learn` has found out how."""
        call = await self._access.existing(response_id, method="DELETE")
        async with self._http.stream(call, BACKGROUND_TIMEOUTS) as response:
            if response.status < 300 or response.status in _GONE:
                await response.settle()
                return True
            error = parse_error_body(await response.read(65_536))
        if learns and self._access.learn(call, response.status, error):
            return False
        raise failure(error, response.status, response.headers, self._clock.now())

    async def forget_quietly(self, response_id: str) -> None:
        """As `forget`; failures are logged."""
        try:
            await self.forget(response_id)
        except ModelError as error:
            extra = {"model": self._model_id, "response_id": response_id, "code": error.code}
            logger.warning("a response that nobody needs stays at its provider", extra=extra)

    def outlive(self, response_id: str) -> None:
        """A response is not used any more: it is deleted.

        Not at once: if the process ends before the answer is stored, the next process fetches it again.
        """
        timer = self._clock.call_later(OUTLIVED_SECONDS, lambda: self._let_go(response_id))
        self._outlived[response_id] = timer

    def _let_go(self, response_id: str) -> None:
        if (timer := self._outlived.pop(response_id, None)) is not None:
            timer.cancel()
            self.spawn(self.forget_quietly(response_id))

    async def close(self) -> None:
        """Finish cancellations and deletions at the provider, if they do not take long."""
        for response_id in list(self._outlived):
            self._let_go(response_id)
        await self._background_tasks.close()
