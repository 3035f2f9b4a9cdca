"""A store in an OpenSearch cluster beside the SQLite file: what the gateway's own process spends on either.

The cluster is the one that `OPENSEARCH_URL` names, or a node that is started beside the gateway, on the load's cores.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from tests.benchmarks.cluster_threads import keep_threads
from tests.benchmarks.gateway_streams import run_gateway_streams
from tests.benchmarks.load import KnownThread, Target, connections, new_thread
from tests.benchmarks.measurements import Amount, Row, Side, cpu_per_event
from tests.benchmarks.provider_wires import wire_of
from tests.benchmarks.scenarios import DELTAS, Servers
from tests.benchmarks.server_process import ServerProcess, server_process
from tests.opensearch.installation import cache_folder
from tests.opensearch.node import prepared, running_node

_WIRE = "openai/v1/chat/completions"
_WORD_EVENTS = 5
_CROWD_GAP = 200


@dataclass(frozen=True, slots=True)
class StoresPlan:
    """`streams` at once, one after another; a `crowd` that is watched for so many seconds; threads that are kept."""

    amount: Amount
    streams: tuple[int, ...]
    crowd: int
    crowd_seconds: float
    kept_threads: int
    lists: int


QUICK = StoresPlan(Amount(3, 5_000), (1, 10, 100), 500, 10.0, 20_000, 20)
FULL = StoresPlan(Amount(7, 20_000), (1, 10, 100), 500, 30.0, 1_000_000, 50)


@contextlib.asynccontextmanager
async def a_cluster(directory: Path) -> AsyncGenerator[str]:
    """The URL of a cluster.

    Raises:
        NoNodeError: there can be none here.
    """
    if given := os.environ.get("OPENSEARCH_URL"):
        yield given.rstrip("/")
        return
    async with running_node(directory / "node", await prepared(cache_folder())) as node:
        yield node.url


@contextlib.asynccontextmanager
async def a_store(cluster_url: str) -> AsyncGenerator[str]:
    """The URL of a store in the cluster that nobody has used; it is deleted afterwards."""
    prefix = f"benchmark-{uuid.uuid4().hex[:8]}"
    try:
        yield f"{cluster_url.replace('http', 'opensearch', 1)}?prefix={prefix}"
    finally:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            await http.delete(f"{cluster_url}/{prefix}-*")


class StoreBenchmarks:
    """The measurements, one after the other. `url` is the cluster's."""

    def __init__(self, servers: Servers, url: str, plan: StoresPlan, report: Callable[[Row], None]) -> None:
        self._servers = servers
        self._url = url
        self._plan = plan
        self._report = report

    @property
    def _words(self) -> Amount:
        """A run of one word has few events, and waits for the cluster as long as a long one."""
        return replace(self._plan.amount, events=self._plan.amount.events // 5)

    async def run(self) -> None:
        async with a_store(self._url) as store, self._servers.fresh_gateway(store=store) as clustered:
            await self._runs(clustered)
        await self._crowds()
        await self._starts()

    async def _runs(self, clustered: ServerProcess) -> None:
        for count in self._plan.streams:
            target = "<= 2.0x" if count >= 10 else None
            await self._compare(clustered, "text", f"text run, {DELTAS} deltas, {count} streams", DELTAS, count, target)
            paced = f"text run, {DELTAS} deltas 1 ms apart, {count} streams"
            await self._compare(clustered, f"chat-{DELTAS}-1", paced, DELTAS, count, target)
        for count in self._plan.streams:
            await self._compare(clustered, "word", f"run of one word, {count} at once", _WORD_EVENTS, count, "<= 4 ms")
        known = f"run of one word in a known thread, {self._plan.streams[-1]} at once"
        await self._compare(clustered, "word", known, _WORD_EVENTS, self._plan.streams[-1], "<= 4 ms", KnownThread(20))

    async def _compare(
        self,
        clustered: ServerProcess,
        agent: str,
        name: str,
        events: int,
        concurrency: int,
        target: str | None,
        body: Callable[[int], bytes] | None = None,
    ) -> None:
        servers = (self._servers.gateway, clustered)
        sides = [Side(each, Target(each.port, f"/agents/{agent}/run", body or new_thread())) for each in servers]
        is_word = events == _WORD_EVENTS
        amount = self._words if is_word else self._plan.amount
        found = await cpu_per_event(sides, amount, concurrency=concurrency, events_per_run=events)
        sqlite, ours = [number * events for number in found] if is_word else found
        unit = "us/run" if is_word else "us/event"
        self._report(Row(f"{name} (bare: SQLite)", sqlite, ours, unit, f"{ours / sqlite:.2f}x", target))

    async def _crowds(self) -> None:
        """Many answers as people read them: what they cost, and whether any is left behind."""
        servers = self._servers
        async with (
            server_process(
                "tests.benchmarks.provider_upstream", directory=servers.directory, cores=servers.cores.others
            ) as upstream,
            a_store(self._url) as store,
        ):
            for each in ("sqlite:///crowd.db", store):
                await run_gateway_streams(
                    wire_of(_WIRE), f"http://localhost:{upstream.port}", None, servers.directory, servers.cores,
                    store=each, streams=self._plan.crowd, seconds=self._plan.crowd_seconds, gap=_CROWD_GAP,
                    report=self._report,
                )  # fmt: skip

    async def _starts(self) -> None:
        """What it costs to begin a run, and to list threads, beside many threads."""
        count, servers = self._plan.kept_threads, self._servers
        async with a_store(self._url) as one, a_store(self._url) as other:
            await keep_threads(other, count)
            async with servers.fresh_gateway(store=one) as empty, servers.fresh_gateway(store=other) as full:
                sides = [Side(each, Target(each.port, "/agents/word/run", new_thread())) for each in (empty, full)]
                bare, ours = await cpu_per_event(sides, self._words, concurrency=1, events_per_run=_WORD_EVENTS)
                name = f"run of one word beside {count:,} threads in the cluster (bare: none)"
                bare, ours = bare * _WORD_EVENTS, ours * _WORD_EVENTS
                self._report(Row(name, bare, ours, "us/run", f"{ours / bare:.2f}x", "<= 1.2x"))
                await self._listed(empty, full)

    async def _listed(self, empty: ServerProcess, full: ServerProcess) -> None:
        """A page of threads, each after a run, so that the index has to be refreshed."""
        spent: list[list[float]] = [[], []]
        waited: list[list[float]] = [[], []]
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            for _ in range(self._plan.lists):
                for place, server in enumerate((empty, full)):
                    target = Target(server.port, "/agents/word/run", new_thread())
                    async with connections(server.port, 1) as (connection,):
                        await connection.run(target)
                    used, begun = server.cpu_seconds(), time.perf_counter()
                    (await http.get(f"http://127.0.0.1:{server.port}/threads?limit=20")).raise_for_status()
                    waited[place].append((time.perf_counter() - begun) * 1e3)
                    spent[place].append((server.cpu_seconds() - used) * 1e3)
        name = f"GET /threads after a run, beside {self._plan.kept_threads:,} threads in the cluster (bare: none)"
        for what, numbers in (("CPU", spent), ("p50", waited)):
            one, other = (statistics.median(each) for each in numbers)
            self._report(Row(f"{name}: {what}", one, other, "ms", f"{other / one:.2f}x"))
