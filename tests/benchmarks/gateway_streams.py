"""A whole gateway with many streams of one provider at once: HTTP in, the provider's wire out, every event kept."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.load import BrokenAnswerError, Connection, Target, connections, frames_of, new_thread
from tests.benchmarks.measurements import DEADLINE_SECONDS, Row, percentile
from tests.benchmarks.provider_wires import BEDROCK_REGION, Wire, word
from tests.benchmarks.server_process import Cores, ServerProcess, server_process

_AGENT = "crowd"
_OPENED_AT_ONCE = 25
_MARK = b'"TEXT_MESSAGE_CONTENT"'
_DATA = b"data: "
_ENDLESS = 10_000_000


async def run_gateway_streams(
    wire: Wire,
    url: str,
    certificate: Path | None,
    directory: Path,
    cores: Cores,
    *,
    store: str = "sqlite:///crowd.db",
    streams: int,
    seconds: float,
    gap: int,
    report: Callable[[Row], None],
) -> None:
    """Open them, watch them for so long while all go on, and look whether each got every word in order."""
    path = directory / "crowd.yaml"
    path.write_text(json.dumps(_configuration(wire, url, f"bench-{_ENDLESS}-{gap}-1", store)))
    environment = {} if certificate is None else {"SSL_CERT_FILE": str(certificate)}
    name = f"{streams} runs through {wire.provider}, kept in {store.partition(':')[0]}"
    async with (
        server_process(
            "gateway", "serve", "--config", str(path), directory=directory, cores=cores.server,
            environment=environment,
        ) as gateway,
        asyncio.timeout(DEADLINE_SECONDS),
    ):  # fmt: skip
        target = Target(gateway.port, f"/agents/{_AGENT}/run", new_thread())
        async with connections(gateway.port, max(1, streams // 30)) as opened:  # what every server allocates once
            await _Crowd(gateway, [_Stream(each, target, gap) for each in opened], name).measure(0.1)
        async with connections(gateway.port, streams) as opened:
            rows = await _Crowd(gateway, [_Stream(each, target, gap) for each in opened], name).measure(seconds)
    for row in rows:
        report(row)


def _configuration(wire: Wire, url: str, model: str, store: str) -> dict[str, Any]:
    settings = {
        "model_provider": wire.provider,
        "model_id": model,
        "endpoint": url + wire.base,
        "region": BEDROCK_REGION,
        "credential": dict(wire.credential),
    }
    return {
        "server": {"host": "127.0.0.1", "port": 0, "log_level": "warning", "drain_seconds": 1},
        "store": store,
        "agents": [{"id": _AGENT, "model": settings}],
    }


class _Stream:
    """One viewer of one run, and when what reached it."""

    def __init__(self, connection: Connection, target: Target, gap: int) -> None:
        self._connection = connection
        self._target = target
        self._gap = gap / 1000
        self._answer = bytearray()
        self.late: list[float] = []
        self.seen = 0
        self.begun = asyncio.Event()

    async def read(self) -> None:
        """What comes, for good."""
        self._connection.send(self._target, 0)
        while True:
            data = await self._connection.receive()
            self._answer += data
            if count := data.count(_MARK):
                self.late.append(time.perf_counter() - self.seen * self._gap)
                self.seen += count
                self.begun.set()

    @property
    def lateness(self) -> float:
        """The most (ms) that a delta came later than the pace of the promptest."""
        return (max(self.late) - min(self.late)) * 1e3 if self.late else math.inf

    def check(self) -> None:
        """Raises BrokenAnswerError where a word is missing, or not in its place."""
        lines = b"".join(frames_of(bytes(self._answer))).split(b"\n")
        events = [json.loads(line[len(_DATA) :]) for line in lines if line.startswith(_DATA) and line.endswith(b"}")]
        text = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
        if not text or not "".join(map(word, range(self.seen + 1))).startswith(text):
            raise BrokenAnswerError(f"a stream's text is {text[:200]!r}... of {len(text)} characters")


class _Crowd:
    """All streams."""

    def __init__(self, gateway: ServerProcess, streams: list[_Stream], name: str) -> None:
        self._gateway = gateway
        self._streams = streams
        self._name = name

    async def measure(self, seconds: float) -> list[Row]:
        before = self._gateway.private_kilobytes()
        readers: list[asyncio.Task[None]] = []
        try:
            for start in range(0, len(self._streams), _OPENED_AT_ONCE):
                some = self._streams[start : start + _OPENED_AT_ONCE]
                readers += [asyncio.create_task(each.read()) for each in some]
                for each in some:
                    await each.begun.wait()
            kilobytes = self._gateway.private_kilobytes() - before
            used, waited, events = await self._watch(seconds)
        finally:
            for reader in readers:
                reader.cancel()
            ended = await asyncio.gather(*readers, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        for stream in self._streams:
            stream.check()
        return self._rows(kilobytes, used / max(1, events) * 1e6, waited / seconds)

    async def _watch(self, seconds: float) -> tuple[float, float, int]:
        """CPU seconds, seconds that it waited for a processor, deltas."""
        for stream in self._streams:
            stream.late.clear()
        used, waited, events = self._gateway.cpu_seconds(), self._gateway.waiting_seconds(), self._events()
        await asyncio.sleep(seconds)
        waited = self._gateway.waiting_seconds() - waited
        return self._gateway.cpu_seconds() - used, waited, self._events() - events

    def _events(self) -> int:
        return sum(each.seen for each in self._streams)

    def _rows(self, kilobytes: float, microseconds: float, waiting: float) -> list[Row]:
        count = len(self._streams)
        name = self._name
        late = [each.lateness for each in self._streams]
        each = kilobytes / count
        return [
            Row(f"{name}: CPU", 0, microseconds, "us/event", f"{microseconds:.0f} us"),
            Row(f"{name}: memory of each", 0, each, "KB", f"{each:.1f} KB"),
            Row(f"{name}: latest delta, p50", 0, percentile(late, 0.5), "ms", f"{percentile(late, 0.5):.0f} ms"),
            Row(f"{name}: latest delta of the slowest", 0, max(late), "ms", f"{max(late):.0f} ms", "all, in order"),
            Row(f"{name}: had no processor when ready", 0, waiting * 100, "% time", f"{waiting:.0%}", "else see above"),
        ]
