"""Each model provider beside a bare relay of the same bytes over the same HTTP client; many Bedrock streams at once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.gateway_streams import run_gateway_streams
from tests.benchmarks.measurements import DEADLINE_SECONDS, Row, percentile
from tests.benchmarks.provider_client import Figures, Job
from tests.benchmarks.provider_wires import WIRES, Wire, wire_of
from tests.benchmarks.server_process import Cores, ServerProcess, server_process
from tests.local_certificate import write_certificate

CROWD = "bedrock/converse"
_ENDLESS = 10_000_000
_IDLE_GAP = 1_000
_BUSY_GAP = 40
_CROWD_GAP = 200


@dataclass(frozen=True, slots=True)
class ProviderPlan:
    """`rounds` alternations of `seconds` with `busy` streams; `idle` streams for memory; a `crowd` of Bedrock's.

    `crowd_seconds` are how long that one is watched.
    """

    rounds: int
    seconds: float
    busy: int
    idle: int
    crowd: int
    crowd_seconds: float
    wires: tuple[Wire, ...] = WIRES


QUICK = ProviderPlan(rounds=6, seconds=1.0, busy=60, idle=300, crowd=1_000, crowd_seconds=5.0)
FULL = ProviderPlan(rounds=7, seconds=4.0, busy=60, idle=1_000, crowd=1_000, crowd_seconds=15.0)


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two that are compared, in processes of their own."""

    relay: ServerProcess
    model: ServerProcess

    async def ask(self, job: Job) -> tuple[Figures, Figures]:
        """The same job, by one after the other."""
        return await _ask(self.relay, job), await _ask(self.model, job)


async def _ask(process: ServerProcess, job: Job) -> Figures:
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port, limit=2**24)
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            writer.write(json.dumps({"model": job.model, "streams": job.streams, "seconds": job.seconds}).encode())
            writer.write(b"\n")
            return Figures(**json.loads(await reader.readline()))
    finally:
        writer.close()


class ProviderBenchmarks:
    """The measurements, provider by provider."""

    def __init__(self, directory: Path, cores: Cores, plan: ProviderPlan, report: Callable[[Row], None]) -> None:
        self._directory = directory
        self._cores = cores
        self._plan = plan
        self._report = report
        self._certificate = write_certificate(directory / "certificate.pem", "localhost")

    async def run(self) -> None:
        for wire in self._plan.wires:
            async with self._sides(wire) as sides:
                await self._memory(wire, sides)
                for each in (1, 5):
                    await self._cpu(wire, sides, each)
        wire = wire_of(CROWD)
        async with self._sides(wire) as sides:
            await self._crowd(wire, sides)
        async with self._upstream(wire) as url:
            await run_gateway_streams(
                wire, url, self._certificate, self._directory, self._cores,
                streams=self._plan.crowd, seconds=self._plan.crowd_seconds, gap=_CROWD_GAP, report=self._report,
            )  # fmt: skip

    async def _memory(self, wire: Wire, sides: _Sides) -> None:
        count = self._plan.idle
        model = f"bench-{_ENDLESS}-{_IDLE_GAP}-1"
        await sides.ask(Job(model, max(1, count // 30), 0.1))  # what every process allocates once
        relay, ours = await sides.ask(Job(model, count, min(2.0, self._plan.seconds)))
        name = f"{wire.provider}: memory of each of {count} streams"
        one, other = relay.kilobytes / count, ours.kilobytes / count
        self._report(Row(name, one, other, "KB", f"{other:.1f} KB", "<= 80 KB"))

    async def _cpu(self, wire: Wire, sides: _Sides, each: int) -> None:
        job = Job(f"bench-{_ENDLESS}-{_BUSY_GAP}-{each}", self._plan.busy, self._plan.seconds)
        found: list[tuple[float, float]] = []
        for number in range(self._plan.rounds + 1):
            relay, ours = await sides.ask(job)
            if number:  # the first round warms up
                found.append((_each(relay), _each(ours)))
        one, other = (min(numbers) for numbers in zip(*found, strict=True))
        name = f"{wire.provider}: {each} deltas per write" if each > 1 else f"{wire.provider}: a delta per write"
        self._report(Row(name, one, other, "us/event", f"{other / one:.2f}x", "<= 2.0x"))

    async def _crowd(self, wire: Wire, sides: _Sides) -> None:
        """Many streams that all go on: what they cost, and whether any is left behind."""
        count = self._plan.crowd
        name = f"{count} streams of {wire.provider}, 5 deltas/s each"
        job = Job(f"bench-{_ENDLESS}-{_CROWD_GAP}-1", count, self._plan.crowd_seconds)
        rounds = [await sides.ask(job) for _ in range(self._plan.rounds)]
        one, other = (min(map(_each, figures)) for figures in zip(*rounds, strict=True))
        self._report(Row(name, one, other, "us/event", f"{other / one:.2f}x", "<= 2.0x"))
        relay, ours = min(rounds, key=lambda pair: max(pair[1].widest_gaps))
        for share, word in ((0.5, "p50"), (0.99, "p99")):
            one, other = percentile(relay.lateness, share), percentile(ours.lateness, share)
            self._report(Row(f"{name}: latest delta of a stream, {word}", one, other, "ms", f"+{other - one:.1f} ms"))
        one, other = max(relay.widest_gaps), max(ours.widest_gaps)
        usual = statistics.median(ours.widest_gaps)
        self._report(Row(f"{name}: widest gap of any", one, other, "ms", f"{other / usual:.2f}x", "the median's"))
        fewest, most = min(ours.counts), max(ours.counts)
        self._report(Row(f"{name}: reads of the least, of the most", fewest, most, "reads", f"{fewest}/{most}"))

    @contextlib.asynccontextmanager
    async def _sides(self, wire: Wire) -> AsyncGenerator[_Sides]:
        client, certificate = "tests.benchmarks.provider_client", self._arguments(wire)
        async with self._upstream(wire) as url, contextlib.AsyncExitStack() as stack:
            relay, model = [
                await stack.enter_async_context(
                    server_process(
                        client, side, wire.provider, url, *certificate,
                        directory=self._directory, cores=self._cores.server,
                    )
                )
                for side in ("relay", "model")
            ]  # fmt: skip
            yield _Sides(relay, model)

    @contextlib.asynccontextmanager
    async def _upstream(self, wire: Wire) -> AsyncGenerator[str]:
        async with server_process(
            "tests.benchmarks.provider_upstream", *self._arguments(wire),
            directory=self._directory, cores=self._cores.others,
        ) as upstream:  # fmt: skip
            yield f"{'https' if wire.tls else 'http'}://localhost:{upstream.port}"

    def _arguments(self, wire: Wire) -> list[str]:
        return [str(self._certificate)] if wire.tls else []


def _each(figures: Figures) -> float:
    """Microseconds of CPU per delta."""
    return figures.cpu_seconds / max(1, figures.events) * 1e6
