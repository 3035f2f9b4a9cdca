"""One side of the comparison: a process that holds streams to a provider, by its `Model.stream` or as a bare relay.

    python -m tests.benchmarks.provider_client SIDE PROVIDER URL [CERTIFICATE]

SIDE is `model`, which decodes to canonical events, or `relay`, which sends the same request through the same HTTP
client, reads the same bytes and throws them away. Either counts the deltas of each read. Prints a port; a connection to
it sends jobs as lines of JSON (`Job`) and gets for each a line of JSON (`Figures`).
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import uvloop

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.http_client.clients import HttpCall, HttpClients, HttpStream, StreamTimeouts
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from gateway.parts import collect
from tests.benchmarks.provider_wires import BEDROCK_REGION, Wire, wire_of
from tests.local_certificate import tls_contexts

_OPENED_AT_ONCE = 25
_TIMEOUTS = StreamTimeouts()
REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("hello"),)),))


@dataclass(frozen=True, slots=True)
class Job:
    """Hold so many streams of the model; once all have begun watch them for so long, then leave them."""

    model: str
    streams: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """What happened while they were watched. `kilobytes`: what memory of the process's own grew by until then.

    Of each stream: `lateness`, the most (ms) that an event came later than the pace of its stream's promptest one;
    `widest_gaps`, the longest time (ms) between two reads; `counts`, its events. `opening_ms`: CPU per stream, to its
    first event.
    """

    cpu_seconds: float
    events: int
    reads: int
    kilobytes: float
    threads: int
    opening_ms: float
    lateness: list[float]
    widest_gaps: list[float]
    counts: list[int]


class Streams:
    """The streams of one job."""

    def __init__(self, gap: float, each: int) -> None:
        self._gap = gap / each
        self.watching = False
        self.events = 0
        self.reads = 0
        self.arrivals: list[list[tuple[float, int]]] = []

    async def follow(self, counts: AsyncGenerator[int], begun: asyncio.Event) -> None:
        """Read one stream for good."""
        seen = 0
        arrivals: list[tuple[float, int]] = []
        self.arrivals.append(arrivals)
        async with aclosing(counts):
            async for count in counts:
                if self.watching:
                    self.events += count
                    self.reads += 1
                    arrivals.append((time.perf_counter(), seen))
                elif count:
                    begun.set()
                seen += count

    def lateness(self) -> list[float]:
        """Of each stream."""
        late = [[at - number * self._gap for at, number in arrivals] for arrivals in self.arrivals]
        return [(max(each) - min(each)) * 1e3 if each else 0.0 for each in late]

    def widest_gaps(self) -> list[float]:
        """Of each stream."""
        times = [[at for at, _ in arrivals] for arrivals in self.arrivals]
        return [max((b - a for a, b in pairwise(each)), default=0.0) * 1e3 for each in times]


def open_model(wire: Wire, url: str, name: str, http: HttpClients) -> Model:
    """The provider's model of that name, at the server of `url`."""
    settings = ModelSettings(
        wire.provider,
        name,
        endpoint=url + wire.base,
        region=BEDROCK_REGION if wire.tls else None,
        credential={key: Secret(value) for key, value in wire.credential.items()},
    )
    provider = collect("models", ModelProvider)[wire.provider]
    return provider.open(settings, ModelEnvironment(SystemClock(), http))


class NotingClients(HttpClients):
    """Remembers the last call."""

    last_call: HttpCall | None = None

    @asynccontextmanager
    async def stream(self, call: HttpCall, timeouts: StreamTimeouts = _TIMEOUTS) -> AsyncGenerator[HttpStream]:
        self.last_call = call
        async with super().stream(call, timeouts) as response:
            yield response


class Side:
    """How streams are opened."""

    def __init__(self, wire: Wire, url: str, http: NotingClients, *, decoded: bool) -> None:
        self._wire = wire
        self._url = url
        self._http = http
        self._decoded = decoded
        self._models: dict[str, Model] = {}

    async def measure(self, job: Job) -> Figures:
        model = self._models.setdefault(job.model, open_model(self._wire, self._url, job.model, self._http))
        call = None if self._decoded else await self._call_of(model)
        before, begun_at = private_kilobytes(), time.process_time()
        _, _, gap, each = job.model.split("-")
        streams = Streams(int(gap) / 1000, int(each))
        tasks: list[asyncio.Task[None]] = []
        try:
            for start in range(0, job.streams, _OPENED_AT_ONCE):
                opened = [asyncio.Event() for _ in range(min(_OPENED_AT_ONCE, job.streams - start))]
                for begun in opened:
                    counts = self._relayed(call) if call else self._answered(model)
                    tasks.append(asyncio.create_task(streams.follow(counts, begun)))
                for begun in opened:
                    await begun.wait()
            opening = (time.process_time() - begun_at) / job.streams
            streams.watching, cpu = True, time.process_time()
            await asyncio.sleep(job.seconds)
            cpu, streams.watching = time.process_time() - cpu, False
            grown = private_kilobytes() - before
        finally:
            for task in tasks:
                task.cancel()
            failures = [e for e in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(e, Exception)]
        if failures:
            raise failures[0]
        return Figures(
            cpu, streams.events, streams.reads, grown, _threads(), opening * 1e3,
            streams.lateness(), streams.widest_gaps(), [len(each) for each in streams.arrivals],
        )  # fmt: skip

    async def _call_of(self, model: Model) -> HttpCall:
        """The very request that the model sends."""
        async with aclosing(model.stream(REQUEST)) as batches:
            await anext(batches)
        assert self._http.last_call is not None
        return self._http.last_call

    async def _answered(self, model: Model) -> AsyncGenerator[int]:
        opening = True
        async with aclosing(model.stream(REQUEST)) as batches:
            async for events in batches:
                yield len(events) - opening  # the text's start is an event of its own
                opening = False

    async def _relayed(self, call: HttpCall) -> AsyncGenerator[int]:
        mark = self._wire.mark
        async with self._http.stream(call) as response:
            while data := await response.receive():
                yield data.count(mark)


def private_kilobytes() -> int:
    """Memory that is this process's alone."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))


def _threads() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("Threads:")[2].split()[0])


async def _main(side: str, provider: str, url: str, certificate: str | None) -> None:
    http = NotingClients(SystemClock(), tls=tls_contexts(Path(certificate))[1] if certificate else None)
    measured = Side(wire_of(provider), url, http, decoded=side == "model")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            figures = await measured.measure(Job(**json.loads(line)))
            writer.write(json.dumps(asdict(figures)).encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] if len(sys.argv) > 4 else None))
