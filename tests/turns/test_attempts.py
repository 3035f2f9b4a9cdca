"""Asking a model again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import (
    Custom,
    Events,
    ModelCallEnded,
    ModelCallStarted,
    Raw,
    StopReason,
    TextDelta,
    TextStarted,
    Usage,
    UsageReported,
)
from gateway.messages import JsonObject
from gateway.model import Alternative, Fallback, ModelCapabilities, ModelRequest
from gateway.turns.attempts import WAITING, stream_with_retries, wait_seconds
from gateway.usage import UsageLedger
from tests.movable_clock import MovableClock

REQUEST = ModelRequest("turn", ())
ANSWER: list[Events | ModelError] = [[TextStarted("m"), TextDelta("m", "Hi")], [ModelCallEnded(StopReason.END_TURN)]]
USAGE = UsageReported(Usage("p", "m", 1, 1))


class Plays:
    """A model that plays one list per try: batches, and the error that ends it."""

    provider = "p"
    model_id = "m"
    capabilities = ModelCapabilities()

    def __init__(self, *tries: Sequence[Events | ModelError]) -> None:
        self._tries = list(tries)
        self.calls = 0
        self.closed = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        self.calls += 1
        try:
            for step in self._tries[self.calls - 1]:
                if isinstance(step, ModelError):
                    raise step
                yield step
        finally:
            self.closed += 1

    async def close(self) -> None: ...


def failing(kind: ModelErrorKind = ModelErrorKind.OVERLOADED, retry_after: float | None = None) -> ModelError:
    return ModelError(kind, "no", retry_after_seconds=retry_after, provider_message="said")


async def run(model: Plays, clock: MovableClock, attempts: int = 3, retried: list[str] | None = None) -> list[Events]:
    told = retried if retried is not None else []
    batches = stream_with_retries(
        model,
        REQUEST,
        clock,
        attempts,
        jitter=lambda: 1.0,
        on_retry=lambda _, code, following: told.append(f"{code} {following}"),
    )
    return [events async for events in batches]


async def test_a_failure_before_the_first_event_is_mended_by_another_try(caplog: pytest.LogCaptureFixture) -> None:
    model, clock, retried = Plays([failing()], [failing()], ANSWER), MovableClock(), list[str]()
    with caplog.at_level(logging.WARNING):
        task = asyncio.create_task(run(model, clock, retried=retried))
        await clock.until_timer(0.5)
        await clock.advance(0.5)
        await clock.until_timer(1.0)
        await clock.advance(1.0)
        assert await task == ANSWER
    assert (model.calls, model.closed) == (3, 3)
    assert retried == ["model_overloaded again"] * 2
    assert [(entry.__dict__["attempt"], entry.__dict__["code"]) for entry in caplog.records] == [
        (1, "model_overloaded"),
        (2, "model_overloaded"),
    ]


async def test_the_wait_that_the_provider_asks_for_is_kept_and_told() -> None:
    model, clock = Plays([failing(ModelErrorKind.THROTTLED, 7)], ANSWER), MovableClock()
    task = asyncio.create_task(run(model, clock))
    await clock.until_timer(7.5)
    await clock.advance(7.0)
    assert model.calls == 1
    await clock.advance(0.5)
    assert await task == [[Custom(WAITING, {"code": "model_throttled", "seconds": 7.5})], *ANSWER]


@pytest.mark.parametrize("last", [1, 2])
async def test_after_the_last_try_the_error_goes_up(last: int) -> None:
    errors = [failing(), failing()]
    model, clock = Plays(*([error] for error in errors)), MovableClock()
    task = asyncio.create_task(run(model, clock, attempts=last))
    await clock.advance(60)
    with pytest.raises(ModelError) as caught:
        await task
    assert caught.value is errors[last - 1]
    assert model.calls == last


async def test_an_error_that_no_other_try_mends_goes_up_at_once() -> None:
    model = Plays([failing(ModelErrorKind.AUTHENTICATION)], ANSWER)
    with pytest.raises(ModelError):
        await run(model, MovableClock())
    assert model.calls == 1


async def test_nothing_is_asked_again_once_anything_was_seen() -> None:
    model = Plays([[TextStarted("m"), TextDelta("m", "H")], failing()], ANSWER)
    batches = stream_with_retries(model, REQUEST, MovableClock(), 3)
    assert await anext(batches) == [TextStarted("m"), TextDelta("m", "H")]
    with pytest.raises(ModelError):
        await anext(batches)
    assert model.calls == 1


async def test_usage_and_raw_events_do_not_count_as_seen() -> None:
    model, clock = Plays([[USAGE], [Raw({"x": 1})], failing()], ANSWER), MovableClock()
    task = asyncio.create_task(run(model, clock))
    await clock.until_timer(0.5)
    await clock.advance(0.5)
    assert await task == [[USAGE], [Raw({"x": 1})], *ANSWER]


async def test_closing_in_the_middle_closes_the_models_stream() -> None:
    model = Plays(ANSWER)
    async with aclosing(stream_with_retries(model, REQUEST, MovableClock(), 3)) as batches:
        await anext(batches)
    assert model.closed == 1


def test_waits_grow_to_a_bound_and_scatter_below_it() -> None:
    assert [wait_seconds(attempt, None, 1.0) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]
    assert wait_seconds(3, None, 0.0) == 0
    assert wait_seconds(1, 2.0, 0.0) == 2.0
    assert wait_seconds(1, 3600.0, 0.5) == 60.0
    assert wait_seconds(1, 0.0, 0.5) == 0.25


@pytest.mark.parametrize("tells", [True, False])
async def test_what_a_failed_try_cost_is_not_forgotten(tells: bool) -> None:
    first = UsageReported(Usage("p", "m", 10, 1))
    second = UsageReported(Usage("p", "m", 100, None, cached_input_tokens=7))
    answer: list[Events | ModelError] = [[TextStarted("m"), TextDelta("m", "Hi")], [USAGE] if tells else []]
    answer.append([ModelCallEnded(StopReason.END_TURN)])
    model, clock = Plays([[first], failing()], [[second], failing()], answer), MovableClock()
    task = asyncio.create_task(run(model, clock))
    await clock.until_timer(0.5)
    await clock.advance(0.5)
    await clock.until_timer(1.0)
    await clock.advance(1.0)
    ledger = UsageLedger()
    for batch in await task:
        ledger.follow(batch)
    assert ledger.total == (Usage("p", "m", 110 + tells, 1 + tells, cached_input_tokens=7),)


# --- other models ----------------------------------------------------------------------------------------------------


class Other(Plays):
    provider = "q"
    model_id = "n"

    def __init__(self, *tries: Sequence[Events | ModelError]) -> None:
        super().__init__(*tries)
        self.parameters: list[JsonObject] = []

    def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        self.parameters.append(request.parameters)
        return super().stream(request)


async def asked_in_turn(first: Plays, *others: Plays, attempts: int = 1) -> Events:
    fallback = Fallback(tuple(Alternative(other, {"of": place}) for place, other in enumerate(others)))
    async with asyncio.timeout(10):
        batches = stream_with_retries(first, REQUEST, MovableClock(), attempts, jitter=lambda: 0, fallback=fallback)
        return [event async for events in batches for event in events]


FLAT = [event for batch in ANSWER if not isinstance(batch, ModelError) for event in batch]
EVERY_FAILURE = [kind for kind in ModelErrorKind if kind is not ModelErrorKind.CONTENT_FILTER]


@pytest.mark.parametrize("kind", EVERY_FAILURE)
async def test_another_model_answers_where_the_first_has_failed(kind: ModelErrorKind) -> None:
    first, other = Plays([failing(kind)]), Other(ANSWER)
    assert await asked_in_turn(first, other) == [ModelCallStarted("turn", "q", "n"), *FLAT]
    assert other.parameters == [{"of": 0}]


async def test_each_model_gets_all_of_its_tries() -> None:
    first, other, last = Plays(*[[failing()]] * 3), Other(*[[failing()]] * 3), Other([failing()], ANSWER)
    assert (await asked_in_turn(first, other, last, attempts=3))[-2:] == FLAT[-2:]
    assert (first.calls, other.calls, last.calls) == (3, 3, 2)


async def test_nobody_waits_long_for_a_model_where_another_is_left() -> None:
    clock, told = MovableClock(), list[tuple[str, str, str]]()
    first, other = Plays([failing(ModelErrorKind.THROTTLED, 20)], ANSWER), Other([failing()], ANSWER)
    batches = stream_with_retries(
        first, REQUEST, clock, 3, jitter=lambda: 1.0, on_retry=lambda *each: told.append(each),
        fallback=Fallback((Alternative(other, {}),)),
    )  # fmt: skip
    task = asyncio.create_task(anext(batches))
    await clock.until_timer(0.5)  # the other one's own wait, and none of 20 seconds
    await clock.advance(0.5)
    assert (await task)[0] == ModelCallStarted("turn", "q", "n")
    assert (first.calls, other.calls) == (1, 2)
    assert told == [("p", "model_throttled", "elsewhere"), ("q", "model_overloaded", "again")]
    await batches.aclose()


async def test_what_a_filter_refused_is_taken_to_nobody_else() -> None:
    with pytest.raises(ModelError):
        await asked_in_turn(Plays([failing(ModelErrorKind.CONTENT_FILTER)]), Other(ANSWER))


async def test_the_last_models_error_goes_up() -> None:
    errors = [failing(ModelErrorKind.SERVER), failing(ModelErrorKind.QUOTA)]
    with pytest.raises(ModelError) as caught:
        await asked_in_turn(Plays([errors[0]]), Other([errors[1]]))
    assert caught.value is errors[1]


async def test_no_other_model_is_asked_once_anything_was_seen() -> None:
    other = Other(ANSWER)
    with pytest.raises(ModelError):
        await asked_in_turn(Plays([[TextStarted("m"), TextDelta("m", "H")], failing()]), other)
    assert other.calls == 0


async def test_what_each_model_has_cost_is_told_under_its_own_name() -> None:
    own = UsageReported(Usage("q", "n", 5, 5))
    events = await asked_in_turn(Plays([[USAGE], failing()]), Other([[*FLAT[:2], own], [FLAT[2]]]))
    ledger = UsageLedger()
    ledger.follow([ModelCallStarted("turn", "p", "m"), *events])
    assert ledger.total == (USAGE.usage, own.usage)
