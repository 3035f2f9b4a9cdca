"""A background response, which the provider continues if the connection is lost: follows, polls and cancels it.

Above: responses_model. Below: responses_reader, responses_stored, http_client. Source:
https://platform.openai.com/docs/guides/background (API version 1): its events have sequence numbers, and the stream can
be resumed after any of them. If a server cannot resume the stream, the response's state is polled until it is over.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events
from gateway.http_client.clients import HttpCall, HttpStream, StreamTimeouts
from gateway.model import ModelEnvironment
from gateway.openai.responses_reader import LIKENESS, ResponsesReader
from gateway.openai.responses_stored import BACKGROUND_TIMEOUTS, ExistingAccess
from gateway.providers.answer_reader import AnswerStream
from gateway.providers.error_bodies import parse_error_body
from gateway.providers.failures import failure
from gateway.providers.repeated_events import RepeatedEventsReader
from gateway.providers.sse_reader import LONGEST_RECORD
from gateway.wire.lenient_json import load

logger = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 5.0
# How long a provider may be unreachable before its answer is given up; it works on meanwhile.
GIVE_UP_SECONDS = 300.0

_UNDER_WAY = ("queued", "in_progress")
_LOST = frozenset({ModelErrorKind.NETWORK, ModelErrorKind.TIMEOUT, ModelErrorKind.TRUNCATED})
_PASSING = frozenset(
    {ModelErrorKind.THROTTLED, ModelErrorKind.OVERLOADED, ModelErrorKind.SERVER, ModelErrorKind.TIMEOUT}
)
_FORBIDDEN = (401, 403)  # Bedrock's bedrock:CancelInvoke is a permission of its own
_NO_STREAM = frozenset({400, 404, 405, 415, 422, 501})


class BackgroundResponse:
    """One response, for as long as it is wanted. The `reader` reads each of its events once."""

    def __init__(
        self,
        reader: ResponsesReader,
        access: ExistingAccess,
        environment: ModelEnvironment,
        timeouts: StreamTimeouts,
    ) -> None:
        clock = environment.clock
        self._reader = reader
        self._access = access
        self._http = environment.http
        self._clock = clock
        self._window = environment.window
        self._timeouts = timeouts
        self._ends_at = None if timeouts.total is None else clock.monotonic() + timeouts.total
        self._reached_at = clock.monotonic()
        self._wait_seconds = FIRST_WAIT_SECONDS
        self._polls = False

    @property
    def response_id(self) -> str:
        """The provider's id for it; empty until the provider has sent it."""
        return self._reader.response_id or ""

    @property
    def under_way(self) -> bool:
        """Whether the provider has accepted it and, as far as is known, still works on it."""
        reader = self._reader
        return reader.response_id is not None and not reader.done and reader.status in (*_UNDER_WAY, None)

    def outlives(self, error: ModelError) -> bool:
        """Whether only the connection failed, and not the response."""
        unfinished = error.kind is ModelErrorKind.PROTOCOL and self._reader.was_document
        return self.under_way and self._reader.error is None and (error.kind in _LOST or unfinished)

    async def follow(self) -> AsyncGenerator[Events]:
        """The rest of the response: all events that the reader has not read yet.

        Raises:
            ModelError: it failed, the provider does not know it any more, or was unreachable for too long.
        """
        self._polls = self._polls or self._reader.was_document
        ask = False  # a silent stream may be over: poll the response
        while True:
            said, polled = False, self._polls or ask
            try:
                async with aclosing(self._polled() if polled else self._streamed()) as batches:
                    async for events in batches:
                        said = True
                        yield events
                if self._reader.done:
                    return
            except ModelError as error:
                if not self._may_pass(error):
                    raise
                logger.info(
                    "a background response is resumed",
                    extra={"response_id": self._reader.response_id, "code": error.code},
                )
            if self._polls and not polled:
                continue  # the answer may be there already
            ask = not said and not ask
            await self._wait(said)

    def _may_pass(self, error: ModelError) -> bool:
        now = self._clock.monotonic()
        if not self.under_way or self._reader.error is not None or (self._ends_at is not None and now >= self._ends_at):
            return False
        return now - self._reached_at < GIVE_UP_SECONDS and (error.kind in _LOST or error.kind in _PASSING)

    async def _wait(self, said: bool) -> None:
        if said:
            self._wait_seconds = FIRST_WAIT_SECONDS
        await self._clock.sleep(self._wait_seconds)
        self._wait_seconds = min(self._wait_seconds * 1.5, LONGEST_WAIT_SECONDS)

    async def _streamed(self) -> AsyncGenerator[Events]:
        reader = self._reader
        query = "stream=true" if reader.sequence_number < 0 else f"stream=true&starting_after={reader.sequence_number}"
        call = await self._access.existing(self.response_id, query=query)
        async with self._http.stream(call, self._left()) as response:
            if not await self._is_answered(call, response, streamed=True):
                return
            reader.take_up()
            answer = AnswerStream(response, RepeatedEventsReader(reader, LIKENESS), self._window)
            while not reader.done:
                events = await answer.next()
                self._reached_at = self._clock.monotonic()
                if events:
                    yield events
            await response.settle()

    async def _polled(self) -> AsyncGenerator[Events]:
        reader = self._reader
        call = await self._access.existing(self.response_id)
        async with self._http.stream(call, self._left()) as response:
            if not await self._is_answered(call, response):
                return
            document = await response.read(LONGEST_RECORD)
        if _status_in(document) in _UNDER_WAY:
            return
        reader.take_up()
        for events in (reader.feed(document), reader.eof()):
            if events:
                yield events
        if reader.failure is not None:
            raise reader.failure

    async def _is_answered(self, call: HttpCall, response: HttpStream, *, streamed: bool = False) -> bool:
        """Whether the answer follows. False: ask again; `learn` has found out how.

        Raises:
            ModelError: the provider refuses the response.
        """
        if response.status == 200:
            self._reached_at = self._clock.monotonic()
            return True
        error = parse_error_body(await response.read(65_536))
        if self._access.learn(call, response.status, error):
            return False
        if streamed and response.status in _NO_STREAM:
            self._polls = True  # if there is no such response, polling will tell
            return False
        mapped = failure(error, response.status, response.headers, self._clock.now())
        if mapped.kind in (ModelErrorKind.NOT_FOUND, ModelErrorKind.INVALID):
            logger.warning("a background response is gone", extra={"response_id": self._reader.response_id})
            message = "the model provider does not know its answer any more"
            mapped = ModelError(ModelErrorKind.SERVER, message, provider_message=mapped.provider_message)
            self._reader.status = "gone"
        raise mapped

    def _left(self) -> StreamTimeouts:
        if self._ends_at is None:
            return self._timeouts
        return replace(self._timeouts, total=max(self._ends_at - self._clock.monotonic(), 0.001))

    async def cancel(self) -> None:
        """Stop the provider's work. It is tried twice, and a failure is logged. No effect if the response is over or
        gone.
        """
        problem = ""
        for _ in range(2):
            try:
                call = await self._access.existing(self.response_id, method="POST", action="cancel")
                async with self._http.stream(call, BACKGROUND_TIMEOUTS) as response:
                    if response.status < 500 and response.status not in _FORBIDDEN:
                        await response.settle()
                        return
                    problem = f"status {response.status}"
                    if response.status in _FORBIDDEN:
                        break
            except ModelError as error:
                problem = error.code
        logger.warning(
            "a background response could not be cancelled", extra={"response_id": self.response_id, "why": problem}
        )


def _status_in(document: bytes) -> str:
    try:
        answer: Any = load(document)
    except ValueError:
        return ""
    return str(answer.get("status", "")) if isinstance(answer, dict) else ""
