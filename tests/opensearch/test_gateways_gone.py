"""Three gateways behind nginx that are killed, paused and restarted while clients of every protocol read."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.fault_scenes import store_at
from tests.held_ports import held_port
from tests.local_proxies import needs_nginx
from tests.opensearch.index_sets import store_url
from tests.paying_agent import PAYER, TOOLS, check_client
from tests.returning_clients import PROTOCOLS, Load, RefusedError, ReturningClient
from tests.running_gateway import DEADLINE_SECONDS, GatewayClient, GatewayProcess, gateway_process, write_configuration
from tests.several_gateways import balanced
from tests.stored_samples import CLUSTER_KEY

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800), needs_nginx]

LEASE_SECONDS: Final = 4.0
FAULTS: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)


@dataclass(slots=True)
class Place:
    """A gateway that is started again whenever it ends."""

    configuration: Path
    address: str
    gateway: GatewayProcess | None = None
    is_up: asyncio.Event = field(default_factory=asyncio.Event)
    is_over: bool = False

    async def keep(self) -> None:
        while not self.is_over:
            async with gateway_process(self.configuration) as self.gateway:
                self.is_up.set()
                await self.gateway.process.wait()
                self.is_up.clear()

    async def suffer(self, fault: signal.Signals) -> None:
        """Let the gateway be killed, paused for more than its lease, or restarted."""
        await self.is_up.wait()
        assert self.gateway is not None
        process = self.gateway.process
        process.send_signal(fault)
        if fault == signal.SIGSTOP:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 2.5 * LEASE_SECONDS)
            process.send_signal(signal.SIGCONT)
        else:
            await process.wait()


@asynccontextmanager
async def places(directory: Path, url: str) -> AsyncGenerator[list[Place]]:
    async with AsyncExitStack() as stack:
        found: list[Place] = []
        for number in range(3):
            own = directory / f"gateway-{number + 1}"
            own.mkdir()
            (own / "kill_tools.py").write_text(TOOLS.replace("Path(__file__)", f"Path({str(directory / 'x')!r})"))
            port = stack.enter_context(held_port())
            server = {"master_keys": [CLUSTER_KEY.reveal()], "port": port, "drain_seconds": 2}
            sections = {"cluster": {"advertise": f"http://127.0.0.1:{port}", "lease_seconds": LEASE_SECONDS}}
            configuration = write_configuration(own, [PAYER], server=server, store=url, search=None, sections=sections)
            found.append(Place(configuration, f"http://127.0.0.1:{port}"))
        keeping = [asyncio.create_task(each.keep()) for each in found]
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await asyncio.gather(*(each.is_up.wait() for each in found))
            yield found
        finally:
            for each in found:
                each.is_over = True
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)


@pytest.fixture(scope="module", autouse=True)
def _node(opensearch_url: str) -> None:
    """The node that all tests share is started before a test looks which processes it leaves."""


@pytest.mark.parametrize(("faults", "seed"), [(3, 1), (30, 2)])
async def test_what_was_seen_is_there_and_nothing_is_done_twice_whatever_happens_to_three_gateways(
    tmp_path: Path, faults: int, seed: int, request: pytest.FixtureRequest
) -> None:
    url, chance = store_url("opensearch", tmp_path, request), random.Random(seed)
    clients = [ReturningClient(protocol, protocol) for protocol in PROTOCOLS]
    async with places(tmp_path, url) as gateways:
        addresses = [GatewayClient(each.address) for each in gateways]
        async with balanced(tmp_path, addresses) as client:
            for each in clients:
                await each.begin(client)
            for number in range(faults):
                fault = FAULTS[number % len(FAULTS)]
                await under_load(client, clients, chance.choice(gateways), fault, Load(chance.randrange(50, 800)))
            await settled(client, clients)
        for place in gateways:
            assert place.gateway is not None
            place.is_over = True
            assert await place.gateway.signal(signal.SIGTERM) == 0
    calls = (tmp_path / "trace.txt").read_text().split()
    assert len(set(calls)) == len(calls), "no call ran twice"
    async with store_at(tmp_path, url) as store:
        assert await store.unfinished_runs() == []
        for each in clients:
            await check_client(store, each)


async def under_load(
    gateway: GatewayClient, clients: Sequence[ReturningClient], place: Place, fault: signal.Signals, load: Load
) -> None:
    over = asyncio.Event()
    async with asyncio.timeout(2 * DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(talk_on(client, gateway, load, over))
        await load.is_over.wait()
        await place.suffer(fault)
        await place.is_up.wait()
        over.set()


async def talk_on(client: ReturningClient, gateway: GatewayClient, load: Load, over: asyncio.Event) -> None:
    """Ask, and ask again what was cut off or refused."""
    while not over.is_set():
        try:
            await client.go_on(gateway, load.count)
        except (httpx.HTTPError, RefusedError):
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), 0.1)


async def settled(gateway: GatewayClient, clients: Sequence[ReturningClient]) -> None:
    """Everybody gets an answer, and reads all answers again."""

    async def has_all(client: ReturningClient) -> None:
        while True:
            try:
                await client.go_on(gateway)
                await client.read_again(gateway)
                return
            except (httpx.HTTPError, RefusedError):
                await asyncio.wait([asyncio.get_running_loop().create_future()], timeout=0.1)

    async with asyncio.timeout(2 * DEADLINE_SECONDS):
        await asyncio.gather(*(has_all(each) for each in clients))
