"""Asks a model again where the first try failed before anything of it was seen.

Above: the loops. Below: model, clock, errors. A failure after the first visible event goes up: asking again would say
everything twice.
"""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from gateway.clock import Clock
from gateway.errors import ModelError
from gateway.events import Event, Events, Raw, Usage, UsageReported
from gateway.model import Model, ModelRequest
from gateway.usage import add_usage

logger = logging.getLogger(__name__)

FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
LONGEST_ASKED_WAIT_SECONDS = 60.0


async def stream_with_retries(
    model: Model,
    request: ModelRequest,
    clock: Clock,
    attempts: int,
    *,
    jitter: Callable[[], float] = random.random,
    on_retry: Callable[[str, str], None] | None = None,
) -> AsyncGenerator[Events]:
    """`model.stream(request)`, tried at most `attempts` times in all. What a failed try told that it cost is added to
    what a later one tells.

    `jitter` gives numbers from 0 to 1; `on_retry` is told the provider and the error's code of each try that failed and
    is repeated.

    Raises:
        ModelError: the last try's, one that no other try would mend, or any after the first visible event.
    """
    spent: Usage | None = None
    for attempt in range(1, attempts + 1):
        seen = False
        told: Usage | None = None
        try:
            async with aclosing(model.stream(request)) as batches:
                async for events in batches:
                    if not seen:
                        told = _usage_in(events) or told
                        seen = any(map(_is_visible, events))
                    yield events if spent is None else [_with_spent(event, spent) for event in events]
            return
        except ModelError as error:
            if seen or not error.retryable or attempt >= attempts:
                raise
            seconds = wait_seconds(attempt, error.retry_after_seconds, jitter())
            logger.warning(
                "a model call failed and is tried again",
                extra={
                    "provider": model.provider,
                    "model": model.model_id,
                    "code": error.code,
                    "provider_message": error.provider_message[:200],
                    "attempt": attempt,
                    "wait_seconds": round(seconds, 3),
                },
            )
            if on_retry is not None:
                on_retry(model.provider, error.code)
            if told is not None:
                spent = told if spent is None else add_usage(told, spent)
        await clock.sleep(seconds)


def wait_seconds(attempt: int, asked: float | None, jitter: float) -> float:
    """How long to wait after the failed try number `attempt` (from 1).

    Full jitter below an exponential bound; where the provider asked for a time, that and a little more, so that those
    it sent away do not all come back together.
    """
    if asked is not None:
        return min(asked + jitter * FIRST_WAIT_SECONDS, LONGEST_ASKED_WAIT_SECONDS)
    return jitter * min(FIRST_WAIT_SECONDS * 2.0 ** (attempt - 1), LONGEST_WAIT_SECONDS)


def _is_visible(event: Event) -> bool:
    return not isinstance(event, UsageReported | Raw)


def _usage_in(events: Events) -> Usage | None:
    return next((event.usage for event in reversed(events) if isinstance(event, UsageReported)), None)


def _with_spent(event: Event, spent: Usage) -> Event:
    return UsageReported(add_usage(event.usage, spent)) if isinstance(event, UsageReported) else event
