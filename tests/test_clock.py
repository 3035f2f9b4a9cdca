"""Deadlines on the movable clock, and the clock itself."""

from __future__ import annotations

import asyncio

import pytest

from gateway.clock import Deadline, DeadlineError
from tests.movable_clock import MovableClock


async def waiting(deadline: Deadline, future: asyncio.Future[str]) -> str:
    with deadline:
        return await future


def future() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


async def test_what_comes_in_time_is_given() -> None:
    clock = MovableClock()
    deadline, wanted = Deadline(clock, 5), future()
    task = asyncio.create_task(waiting(deadline, wanted))
    await clock.advance(4)
    wanted.set_result("here")
    assert await task == "here"
    deadline.close()
    assert clock.pending == []


async def test_what_does_not_come_is_given_up() -> None:
    clock = MovableClock()
    task = asyncio.create_task(waiting(Deadline(clock, 5), future()))
    await clock.advance(5)
    with pytest.raises(DeadlineError):
        await task
    assert task.cancelling() == 0


async def test_a_block_entered_too_late_is_refused_at_once() -> None:
    clock = MovableClock()
    deadline = Deadline(clock, 5)
    await clock.advance(5)
    with pytest.raises(DeadlineError):
        deadline.__enter__()


async def test_outside_the_block_nothing_is_interrupted() -> None:
    clock = MovableClock()
    deadline = Deadline(clock, 5)
    with deadline:
        pass
    await clock.advance(10)
    assert deadline.expired


async def test_a_block_that_is_paused_is_not_interrupted_but_tells_that_it_is_too_late() -> None:
    async def pause(deadline: Deadline, wanted: asyncio.Future[str]) -> bool:
        with deadline:
            deadline.paused = True
            await wanted
            deadline.paused = False
            return deadline.expired

    clock = MovableClock()
    deadline, wanted = Deadline(clock, 5), future()
    task = asyncio.create_task(pause(deadline, wanted))
    await clock.advance(10)
    wanted.set_result("here")
    assert await task
    assert task.cancelling() == 0


async def test_a_block_that_goes_on_in_time_after_a_pause_is_interrupted_again() -> None:
    async def pause(deadline: Deadline) -> None:
        with deadline:
            deadline.paused = True
            await asyncio.sleep(0)
            deadline.paused = False
            await future()

    clock = MovableClock()
    task = asyncio.create_task(pause(Deadline(clock, 5)))
    await clock.advance(5)
    with pytest.raises(DeadlineError):
        await task
    assert task.cancelling() == 0


async def test_a_cancellation_is_not_taken_for_the_deadline() -> None:
    clock = MovableClock()
    task = asyncio.create_task(waiting(Deadline(clock, 5), future()))
    clock.call_later(5, task.cancel)
    await clock.advance(5)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_that_the_interruption_was_turned_into_is_the_deadline() -> None:
    async def convert(deadline: Deadline) -> None:
        with deadline:
            try:
                await future()
            except asyncio.CancelledError:
                raise ValueError from None

    clock = MovableClock()
    task = asyncio.create_task(convert(Deadline(clock, 5)))
    await clock.advance(5)
    with pytest.raises(DeadlineError):
        await task


async def test_never_means_never() -> None:
    clock = MovableClock()
    with Deadline(clock, None) as deadline:
        await clock.advance(1e9)
    assert not deadline.expired


async def test_the_clock_wakes_sleepers_in_order_each_at_its_time() -> None:
    clock = MovableClock(now=1000.0)
    woken: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.now()))
        if name == "first":
            await clock.sleep(1)
            woken.append(("first again", clock.now()))

    tasks = [asyncio.create_task(sleep(*each)) for each in (("last", 3.0), ("first", 1.0))]
    await clock.advance(10)
    assert woken == [("first", 1001.0), ("first again", 1002.0), ("last", 1003.0)]
    assert clock.monotonic() == 10
    await asyncio.gather(*tasks)


async def test_a_cancelled_timer_and_a_cancelled_sleeper_leave_nothing_behind() -> None:
    clock = MovableClock()
    clock.call_later(1, lambda: pytest.fail("it was cancelled")).cancel()
    task = asyncio.create_task(clock.sleep(1))
    await clock.until_timer(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert clock.pending == []
    await clock.advance(2)
