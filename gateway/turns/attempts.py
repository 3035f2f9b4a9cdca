"""Retries a model call, or asks a fallback model, if a try fails before anything of its response was seen.

Above: the loops. Below: model, clock, errors. A failure after the first visible event is raised: asking again would say
everything twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeAlias

from gateway.clock import Clock
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Custom, Event, Events, ModelCallAccepted, ModelCallStarted, Raw, Usage, UsageReported
from gateway.model import NO_FALLBACK, Alternative, Circuit, Fallback, Model, ModelRequest, NextTry, OnRetry
from gateway.usage import add_usage

logger = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
LONGEST_ASKED_WAIT_SECONDS = 60.0
LONGEST_SILENT_WAIT_SECONDS = 1.0
MOST_REDUCTIONS = 2

WAITING: Final = "agui_gateway.waiting"
"""The name of the Custom event that tells viewers of a failed try: its code, and the seconds until the next try."""

Shorten: TypeAlias = Callable[[Model, ModelRequest], Awaitable[tuple[ModelRequest, Usage | None] | None]]
"""Shortens a request that is too long. Returns it with the tokens that this used; None if it cannot be shortened."""


def stream_with_retries(
    model: Model,
    request: ModelRequest,
    clock: Clock,
    attempts: int,
    *,
    jitter: Callable[[], float] = random.random,
    on_retry: OnRetry | None = None,
    fallback: Fallback = NO_FALLBACK,
    shorten: Shorten | None = None,
) -> TriedStream:
    """The response of the first model that gives one: `model` is tried at most `attempts` times, then each model of
    `fallback` the same way.

    A model whose circuit is open comes after all the others, and is tried once.

    The usage of a failed try is added to the usage of a later one. If a request is too long for the model, `shorten`
    gets it, at most twice per model; only then does the model fail. A fallback model's response begins with its
    ModelCallStarted, after the usage of the models before it. If a provider asks for a longer wait than
    LONGEST_WAIT_SECONDS and another model is left, the other one is asked at once. A Custom event announces waits that
    a person would notice. `jitter` gives numbers from 0 to 1.

    Raises:
        ModelError: the last model's last failure, one that no retry can help, or any after the first visible event.
    """
    first = Alternative(model, request.parameters, fallback.circuit)
    tries = _Tries(first, request, clock, attempts, jitter, on_retry, fallback.others, shorten)
    return TriedStream(tries, clock)


class TriedStream:
    """The model's events: an asynchronous iterator of batches, to be closed with `aclose`.

    Once a response can be neither retried nor changed, `__anext__` is that of the model's own batches: another
    generator in between would cost each batch two switches, and a method a call.
    """

    __slots__ = ("__anext__", "_clock", "_tries", "_trying")

    def __init__(self, tries: _Tries, clock: Clock) -> None:
        self._tries = tries
        self._clock = clock
        self._trying = self._try_all()
        self.__anext__: Callable[[], Coroutine[Any, Any, Events]] = self._trying.__anext__

    def __aiter__(self) -> TriedStream:
        return self

    async def aclose(self) -> None:
        """Close this iterator and the model's stream."""
        await self._trying.aclose()

    async def _try_all(self) -> AsyncGenerator[Events]:
        tries = self._tries
        tries.begin()
        while True:
            seen = False
            usage: Usage | None = None
            try:
                async with aclosing(tries.model.stream(tries.request)) as batches:
                    async for events in batches:
                        if not seen:
                            if seen := any(map(_is_visible, events)):
                                tries.answered()
                            else:
                                usage = _usage_in(events) or usage
                        if not tries.unchanged:
                            events = tries.complete(events)
                        if seen and tries.unchanged:
                            self.__anext__ = batches.__anext__
                        yield events
                return
            except ModelError as error:
                error.asked = f"{tries.model.model_id} ({tries.model.provider})"
                if seen:
                    raise
                tries.spend(usage)
                seconds, code = await tries.wait_after(error), error.code
            if seconds > LONGEST_SILENT_WAIT_SECONDS:
                yield [Custom(WAITING, {"code": code, "seconds": round(seconds, 1)})]
            if seconds:
                await self._clock.sleep(seconds)


class _Tries:
    """Chooses the model and the request of the next try after each failed one."""

    def __init__(
        self,
        first: Alternative,
        request: ModelRequest,
        clock: Clock,
        attempts: int,
        jitter: Callable[[], float],
        on_retry: OnRetry | None,
        others: Sequence[Alternative],
        shorten: Shorten | None,
    ) -> None:
        self.model = first.model
        self.request = request
        self.spent: Usage | None = None
        self._asked = request
        self._clock = clock
        self._attempts = attempts
        self._jitter = jitter
        self._on_retry = on_retry
        self._circuit = first.circuit
        self._others = list(others)
        self._down: list[Alternative] = []  # asked when no other model is left
        self._shorten = shorten
        self._attempt = 1
        self._reductions = 0
        self._opening: list[Event] = []

    def begin(self) -> None:
        """Choose the first model."""
        if self._others and not self._lets_through(self._circuit):
            self._down.append(Alternative(self.model, self._asked.parameters, self._circuit))
            self._note_down(self.model)
            self._fall_back()

    def answered(self) -> None:
        """Note that the first visible event of a response came."""
        if self._circuit is not None:
            self._circuit.answered()

    @property
    def unchanged(self) -> bool:
        """Whether the response's events pass unchanged: there is no usage of failed tries, and no fallback model."""
        return self.spent is None and not self._opening

    def complete(self, events: Events) -> Events:
        """The events with the usage of failed tries, after the ModelCallStarted of a fallback model."""
        if (spent := self.spent) is not None:
            events = [_with_spent(event, spent) for event in events]
        opening, self._opening = self._opening, []
        return [*opening, *events]

    def spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self.spent = usage if self.spent is None else add_usage(usage, self.spent)

    async def wait_after(self, error: ModelError) -> float:
        """The seconds to wait before the next try; `model` and `request` are set for it.

        Raises:
            ModelError: `error`, if there is no next try.
        """
        if self._circuit is not None:
            self._circuit.failed(error.kind, self._clock.monotonic())
        if error.kind is ModelErrorKind.CONTEXT_OVERFLOW and await self._shortened():
            self._note(error, "shortened", "a conversation is too long for the model and is shortened", 0.0)
            return 0.0
        if error.retryable and self._attempt < self._attempts:
            seconds = wait_seconds(self._attempt, error.retry_after_seconds, self._jitter())
            if not self._others_left or (seconds <= LONGEST_WAIT_SECONDS and not self._is_in_doubt):
                self._note(error, "again", "a model call failed and is tried again", seconds)
                self._attempt += 1
                return seconds
        if not self._others_left or error.kind is ModelErrorKind.CONTENT_FILTER:
            raise error
        self._note(error, "elsewhere", "a model call failed and another model is asked", 0.0)
        self._fall_back()
        return 0.0

    @property
    def _others_left(self) -> bool:
        return bool(self._others or self._down)

    @property
    def _is_in_doubt(self) -> bool:
        return self._circuit is not None and self._circuit.is_open

    def _lets_through(self, circuit: Circuit | None) -> bool:
        return circuit is None or circuit.lets_through(self._clock.monotonic())

    async def _shortened(self) -> bool:
        if self._shorten is None or self._reductions == MOST_REDUCTIONS or self.model.capabilities.is_stateful:
            return False  # a server that keeps the conversation handles its length itself
        shorter = await self._shorten(self.model, self.request)
        if shorter is None:
            return False
        self.request, usage = shorter
        self._reductions += 1
        self.spend(usage)
        return True

    def _fall_back(self) -> None:
        while self._others and not self._lets_through(self._others[0].circuit):
            self._note_down(self._others[0].model)
            self._down.append(self._others.pop(0))
        other = (self._others or self._down).pop(0)
        self.model = other.model
        self._circuit = other.circuit
        self.request = replace(self._asked, parameters=other.parameters, continuation=None)
        self._attempt = 1
        self._reductions = 0
        if self.spent is not None:
            self._opening = [*self._opening, UsageReported(self.spent)]
            self.spent = None
        started = ModelCallStarted(self.request.turn_id, other.model.provider, other.model.model_id)
        self._opening = [*self._opening, started]

    def _note(self, error: ModelError, following: NextTry, what: str, seconds: float) -> None:
        extra = {
            "provider": self.model.provider,
            "model": self.model.model_id,
            "code": error.code,
            "provider_message": error.provider_message[:200],
            "attempt": self._attempt,
            "wait_seconds": round(seconds, 3),
        }
        logger.warning(what, extra=extra)
        if self._on_retry is not None:
            self._on_retry(self.model.provider, error.code, following)

    def _note_down(self, model: Model) -> None:
        logger.info("a model that is down is skipped", extra={"provider": model.provider, "model": model.model_id})
        if self._on_retry is not None:
            self._on_retry(model.provider, "circuit_open", "elsewhere")


def wait_seconds(attempt: int, asked: float | None, jitter: float) -> float:
    """How long to wait after the failed try number `attempt` (from 1).

    Full jitter below an exponential bound. If the provider asked for a time, wait that and a little more, so that its
    clients do not all return at once.
    """
    if asked is not None:
        return min(asked + jitter * FIRST_WAIT_SECONDS, LONGEST_ASKED_WAIT_SECONDS)
    return jitter * min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)


def _is_visible(event: Event) -> bool:
    return not isinstance(event, UsageReported | Raw | ModelCallAccepted)


def _usage_in(events: Events) -> Usage | None:
    return next((event.usage for event in reversed(events) if isinstance(event, UsageReported)), None)


def _with_spent(event: Event, spent: Usage) -> Event:
    return UsageReported(add_usage(event.usage, spent)) if isinstance(event, UsageReported) else event
