"""How the numbers are taken: two servers alternately in the same run, each by its own process's accounting."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.benchmarks.load import Connection, Target, connections, run_all
from tests.benchmarks.server_process import ServerProcess

DEADLINE_SECONDS = 300.0
_OPENED_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared."""

    server: ServerProcess
    target: Target


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `target` is what is to be reached, in words; None where nothing was asked."""

    name: str
    bare: float
    gateway: float
    unit: str
    result: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is measured: `rounds` alternations; in each, about `events` events by either side."""

    rounds: int
    events: int


async def cpu_per_event(sides: list[Side], amount: Amount, *, concurrency: int, events_per_run: int) -> list[float]:
    """Microseconds of CPU per event of each side: the median of the rounds."""
    runs = max(concurrency, amount.events // events_per_run)
    found: list[list[float]] = [[] for _ in sides]
    async with asyncio.timeout(DEADLINE_SECONDS):
        for each in range(amount.rounds + 1):
            for side, numbers in zip(sides, found, strict=True):
                async with connections(side.server.port, concurrency) as opened:
                    await run_all(opened, side.target, concurrency)  # the connections' first requests are not counted
                    before = side.server.cpu_seconds()
                    events = await run_all(opened, side.target, runs if each else max(concurrency, runs // 4))
                    if each:  # the first round warms up
                        numbers.append((side.server.cpu_seconds() - before) / events * 1e6)
    return [statistics.median(numbers) for numbers in found]


async def first_token_seconds(sides: list[tuple[Side, bytes]], samples: int) -> list[list[float]]:
    """Seconds to a mark in the answer, one request at a time, alternately."""
    found: list[list[float]] = [[] for _ in sides]
    async with asyncio.timeout(DEADLINE_SECONDS):
        opened = [Connection(*await asyncio.open_connection("127.0.0.1", side.server.port)) for side, _ in sides]
        try:
            for each in range(samples + 10):
                for connection, (side, mark), numbers in zip(opened, sides, found, strict=True):
                    seconds = await connection.seconds_to(mark, side.target)
                    if each >= 10:
                        numbers.append(seconds)
        finally:
            for connection in opened:
                connection.close()
    return found


@dataclass(frozen=True, slots=True)
class IdleStreams:
    """What open streams of one event a second each cost."""

    kilobytes_each: float
    microseconds_per_event: float


async def idle_streams(side: Side, count: int, seconds: float) -> IdleStreams:
    """Open so many streams and watch them that long."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        await _with_streams(side, max(1, count // 100), _settle)  # what every server allocates once
        before = side.server.private_kilobytes()

        async def watch() -> IdleStreams:
            await asyncio.sleep(seconds / 2)
            kilobytes = side.server.private_kilobytes() - before
            begun = side.server.cpu_seconds()
            await asyncio.sleep(seconds)
            used = side.server.cpu_seconds() - begun
            return IdleStreams(kilobytes / count, used / (count * seconds) * 1e6)

        return await _with_streams(side, count, watch)


async def _settle() -> IdleStreams:
    return IdleStreams(0, 0)


async def _with_streams(side: Side, count: int, watch: Callable[[], Awaitable[IdleStreams]]) -> IdleStreams:
    async with connections(side.server.port, count) as opened:
        readers: list[asyncio.Task[None]] = []
        for start in range(0, count, _OPENED_AT_ONCE):
            some = opened[start : start + _OPENED_AT_ONCE]
            for number, connection in enumerate(some, start):
                connection.send(side.target, number)
            for connection in some:
                await connection.count_events()
            readers += [asyncio.create_task(_drain(connection)) for connection in some]
        try:
            return await watch()
        finally:
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _drain(connection: Connection) -> None:
    while True:
        await connection.count_events()


def percentile(numbers: list[float], share: float) -> float:
    """The number below which that share of them lies."""
    return sorted(numbers)[min(len(numbers) - 1, int(len(numbers) * share))]
