"""Long work shares the event loop's time: one step at a time, the owners by turns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from gateway.protocol.time_sharing import TimeSharing


def steps(name: str, number: int, done: list[str]) -> Generator[None, None, str]:
    for _ in range(number):
        done.append(name)
        yield
    return name


async def test_owners_take_turns_however_much_one_of_them_has_to_do() -> None:
    time, done = TimeSharing(), list[str]()
    many = [asyncio.create_task(time.run("alice", steps("a", 50, done))) for _ in range(20)]
    while len(done) < 30:
        await asyncio.sleep(0)
    before = len(done)
    assert await time.run("bob", steps("b", 10, done)) == "b"
    assert done[before:].count("a") <= 13, "as much as bob's own, and what was under way"
    assert await asyncio.gather(*many) == ["a"] * 20
    assert done.count("a") == 1000


async def test_whatever_else_the_loop_has_to_do_comes_between_two_steps() -> None:
    time, done = TimeSharing(), list[str]()
    work = [asyncio.create_task(time.run(str(n), steps(str(n), 50, done))) for n in range(10)]
    while not all(each.done() for each in work):
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) <= before + 1
    assert len(done) == 500


async def test_single_turns_are_shared_as_steps_are() -> None:
    time, done = TimeSharing(), list[str]()

    async def work(owner: str) -> None:
        await time.turn(owner)
        done.append(owner)

    many = [asyncio.create_task(work("alice")) for _ in range(20)]
    work_of_bob = asyncio.create_task(work("bob"))
    while not all(each.done() for each in (*many, work_of_bob)):
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) <= before + 1, "one in each turn of the loop"
    assert done.index("bob") <= 1
    assert len(done) == 21


async def test_what_is_cancelled_or_fails_leaves_the_time_to_others() -> None:
    time, done = TimeSharing(), list[str]()

    def failing() -> Generator[None, None, str]:
        yield
        raise ValueError("no")

    work = [asyncio.create_task(time.run(owner, steps(owner, 100, done))) for owner in "aabbcc"]
    failed = asyncio.create_task(time.run("d", failing()))
    for place in (0, 2, 3, 5):
        for _ in range(place + 1):
            await asyncio.sleep(0)
        work[place].cancel()
    with pytest.raises(ValueError, match="no"):
        await failed
    assert (await work[1], await work[4]) == ("a", "c")
    assert await time.run("e", steps("e", 3, done)) == "e"
