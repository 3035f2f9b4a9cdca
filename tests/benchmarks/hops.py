"""Several gateways on one cluster: what a hop costs, and what three gateways cost beside one.

A run is watched at the gateway that has it, and at another one, which sends the request on. Processor time is that of
all gateways together, the first viewer's and the model's work included; what the hop adds is the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.load import BrokenAnswerError, Connection, Target, connections, new_thread, run_all
from tests.benchmarks.measurements import DEADLINE_SECONDS, Row, percentile
from tests.benchmarks.scenarios import DELTAS, Servers
from tests.benchmarks.server_process import ServerProcess
from tests.benchmarks.stores import a_store
from tests.held_ports import held_port

_RUN_ID = re.compile(rb'"runId":"([^"]+)"')
_PACED = "chat-1000-2"  # an event every 2 ms
_END = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HopsPlan:
    """`rounds` of each measurement, of which the least counts; runs that are watched at once (`streams`); requests
    whose first byte is timed; and the runs that one gateway serves, so many of them `at_once`.
    """

    rounds: int
    streams: tuple[int, ...]
    requests: int
    runs: int
    at_once: int


QUICK = HopsPlan(3, (1, 10), 100, 150, 30)
FULL = HopsPlan(7, (1, 10), 300, 600, 30)


class HopBenchmarks:
    """The measurements, one after the other. `url` is the cluster's."""

    def __init__(self, servers: Servers, url: str, plan: HopsPlan, report: Callable[[Row], None]) -> None:
        self._servers = servers
        self._url = url
        self._plan = plan
        self._report = report

    async def run(self) -> None:
        async with (
            asyncio.timeout(3 * DEADLINE_SECONDS),
            self._gateways(1) as alone,
            self._gateways(3) as three,
        ):
            holder, other, _ = three
            await self._first_bytes(holder, other)
            for streams in self._plan.streams:
                await self._watched(holder, other, streams)
            for times in (1, 3):
                await self._beside_one(alone, three, times)

    @contextlib.asynccontextmanager
    async def _gateways(self, count: int) -> AsyncGenerator[list[ServerProcess]]:
        """So many gateways on a store of their own."""
        async with contextlib.AsyncExitStack() as stack:
            store = await stack.enter_async_context(a_store(self._url))
            opened = []
            for _ in range(count):
                port = stack.enter_context(held_port())
                opened.append(await stack.enter_async_context(self._servers.fresh_gateway(store=store, port=port)))
            yield opened

    async def _first_bytes(self, holder: ServerProcess, other: ServerProcess) -> None:
        """One run goes on while others ask for its events, in turns at its own gateway and at another."""
        found: list[list[float]] = [[], []]
        async with connections(holder.port, 1) as (first,):
            run_id = await _begun(first, holder.port, "tick")
            for _ in range(self._plan.requests):
                for seconds, server in zip(found, (holder, other), strict=True):
                    async with connections(server.port, 1) as (connection,):
                        begun = time.perf_counter()
                        connection.send(_events(server.port, run_id), 0)
                        await _until(connection, b"data: ")
                        seconds.append(time.perf_counter() - begun)
        for name, share, target in (("p50", 0.5, "<= 3 ms"), ("p10", 0.1, None)):
            one, ours = (percentile(each, share) * 1e3 for each in found)
            name = f"time to the first byte of a run at another gateway {name} (bare: at its own)"
            self._report(Row(name, one, ours, "ms", f"+{ours - one:.2f} ms", target))

    async def _watched(self, holder: ServerProcess, other: ServerProcess, streams: int) -> None:
        """Runs of a piece every 2 ms, which are watched where they are, and at another gateway."""
        found: list[list[float]] = [[], []]
        for number in range(self._plan.rounds + 1):
            for spent, server in zip(found, (holder, other), strict=True):
                used = _spent((holder, other))
                events = sum(await asyncio.gather(*(_watch(holder, server) for _ in range(streams))))
                if number:  # the first round warms up
                    spent.append((_spent((holder, other)) - used) / events * 1e6)
        one, ours = (min(each) for each in found)
        name = f"{streams} runs watched at another gateway (bare: at their own)"
        self._report(Row(name, one, ours, "us/event", f"+{ours - one:.1f} us", "<= 15 us"))

    async def _beside_one(self, alone: Sequence[ServerProcess], three: Sequence[ServerProcess], times: int) -> None:
        """Three gateways get so many times the runs of one."""
        found: list[list[float]] = [[], []]
        for number in range(self._plan.rounds + 1):
            for spent, servers, share in zip(found, (alone, three), (1, times / 3), strict=True):
                used = _spent(servers)
                events = await self._in_turn(servers, share)
                if number:
                    spent.append((_spent(servers) - used) / events * 1e6)
        one, ours = (min(each) for each in found)
        at_once = self._plan.at_once
        name = f"three gateways with {times * at_once} streams at once (bare: one with {at_once})"
        self._report(Row(name, one, ours, "us/event", f"{ours / one:.2f}x"))

    async def _in_turn(self, servers: Sequence[ServerProcess], share: float) -> int:
        """Each server gets this share of the runs, and of those at once: as many as the others."""

        async def some(server: ServerProcess) -> int:
            target = _run(server.port, f"chat-{DELTAS}-1")
            async with connections(server.port, round(self._plan.at_once * share)) as opened:
                return await run_all(opened, target, round(self._plan.runs * share))

        return sum(await asyncio.gather(*map(some, servers)))


def _spent(servers: Sequence[ServerProcess]) -> float:
    return sum(each.cpu_seconds() for each in servers)


def _run(port: int, agent: str) -> Target:
    return Target(port, f"/agents/{agent}/run", new_thread())


def _events(port: int, run_id: str) -> Target:
    return Target(port, f"/runs/{run_id}/events", lambda _: b"", method="GET")


async def _until(connection: Connection, mark: bytes) -> bytes:
    answer = b""
    while mark not in answer:
        answer += await connection.receive()
    return answer


async def _begun(connection: Connection, port: int, agent: str) -> str:
    """The id of a run that has begun to answer."""
    connection.send(_run(port, agent), 0)
    answer = await _until(connection, b"TEXT_MESSAGE_CONTENT")
    if (found := _RUN_ID.search(answer)) is None:
        raise BrokenAnswerError(answer[:500].decode(errors="replace"))
    return found[1].decode()


async def _watch(holder: ServerProcess, server: ServerProcess) -> int:
    """Begin a run and watch it there, too; how many events the second viewer saw."""
    async with connections(holder.port, 1) as (first,), connections(server.port, 1) as (second,):
        run_id = await _begun(first, holder.port, _PACED)
        rest = asyncio.create_task(_until(first, _END))
        try:
            answer = await second.run(_events(server.port, run_id))
        finally:
            await rest
    return answer.count(b"data: ")
