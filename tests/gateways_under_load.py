"""Three gateways behind nginx on one cluster, and clients of every protocol that read whatever happens to them.

    async with loaded_gateways(tmp_path, url) as loaded:
        await loaded.suffer(200, fault)

Leaving the block checks that what was seen is there, that nothing was done twice, and that no run is left. Below:
returning_clients, paying_agent.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.fault_scenes import store_at
from tests.held_ports import held_port
from tests.paying_agent import GOER, PAYER, TOOLS, check_client
from tests.returning_clients import PROTOCOLS, Load, RefusedError, ReturningClient
from tests.running_gateway import DEADLINE_SECONDS, GatewayClient, GatewayProcess, gateway_process, write_configuration
from tests.several_gateways import balanced
from tests.stored_samples import CLUSTER_KEY

LEASE_SECONDS: Final = 4.0
COUNT: Final = 3
_AGAIN_SECONDS = 0.1


class LeftError(Exception):
    """A client has left its stream in the middle."""


async def pass_seconds(seconds: float) -> None:
    """Let a fault last."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


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
        """Let the gateway be killed, paused for more than its lease, or restarted, until it is up again."""
        await self.is_up.wait()
        assert self.gateway is not None
        process = self.gateway.process
        process.send_signal(fault)
        if fault == signal.SIGSTOP:
            await pass_seconds(2.5 * LEASE_SECONDS)
            process.send_signal(signal.SIGCONT)
        else:
            await process.wait()
        await self.is_up.wait()


@dataclass(slots=True)
class LoadedGateways:
    """`client` speaks to all of them in turn. Each of `clients` asks one question after the other. `troubles` are what
    cut them off, and what refused them.
    """

    places: list[Place]
    client: GatewayClient
    clients: list[ReturningClient]
    goes_on: bool = False  # runs do, if their gateway ends first
    troubles: list[httpx.HTTPError | RefusedError] = field(default_factory=list)

    async def suffer(
        self, frames: int, fault: Callable[[], Awaitable[None]], leaves: Callable[[], bool] | None = None
    ) -> None:
        """Let the clients read so many frames, then do that while they read on. `leaves`: whether one leaves its stream
        at a frame, to come back at once, while its run goes on.
        """
        for client in self.clients:
            client.attaches = self.goes_on or leaves is not None
        over, load = asyncio.Event(), Load(frames)
        async with asyncio.timeout(2 * DEADLINE_SECONDS), asyncio.TaskGroup() as group:
            for client in self.clients:
                group.create_task(self._talk_on(client, load, over, leaves))
            await load.is_over.wait()
            await fault()
            over.set()

    async def _talk_on(
        self, client: ReturningClient, load: Load, over: asyncio.Event, leaves: Callable[[], bool] | None
    ) -> None:
        """Ask, and ask again what was cut off or refused."""

        def on_frame() -> None:
            load.count()
            if leaves is not None and leaves():
                raise LeftError

        while not over.is_set():
            try:
                await client.go_on(self.client, on_frame)
            except LeftError:
                pass
            except (httpx.HTTPError, RefusedError) as trouble:
                self.troubles.append(trouble)
                with suppress(TimeoutError):
                    await asyncio.wait_for(over.wait(), _AGAIN_SECONDS)

    async def settle(self) -> None:
        """Everybody gets an answer, and reads all answers again."""

        async def has_all(client: ReturningClient) -> None:
            while True:
                try:
                    await client.go_on(self.client)
                    await client.read_again(self.client)
                    return
                except (httpx.HTTPError, RefusedError) as trouble:
                    self.troubles.append(trouble)
                    await pass_seconds(_AGAIN_SECONDS)

        try:
            async with asyncio.timeout(2 * DEADLINE_SECONDS):
                await asyncio.gather(*(has_all(each) for each in self.clients))
        except TimeoutError:
            raise AssertionError(f"the clients do not get on: {self.troubles[-2:]}") from None


@asynccontextmanager
async def loaded_gateways(
    directory: Path,
    url: str,
    advertised: Callable[[int], str] = "http://127.0.0.1:{}".format,
    *,
    goes_on: bool = False,
) -> AsyncGenerator[LoadedGateways]:
    """`url` is the store's. `advertised` gives the address at which the others reach the gateway on that port."""
    async with places(directory, url, advertised, GOER if goes_on else PAYER) as found:
        async with balanced(directory, [GatewayClient(each.address) for each in found]) as client:
            loaded = LoadedGateways(found, client, [ReturningClient(each, each) for each in PROTOCOLS], goes_on)
            for each in loaded.clients:
                await each.begin(client)
            yield loaded
            await loaded.settle()
        for place in found:
            assert place.gateway is not None
            place.is_over = True
            assert await place.gateway.signal(signal.SIGTERM) == 0
    calls = (directory / "trace.txt").read_text().split()
    assert len(set(calls)) == len(calls), "no call ran twice"
    async with store_at(directory, url) as store:
        assert await store.unfinished_runs() == []
        for client_of_protocol in loaded.clients:
            await check_client(store, client_of_protocol, takes_back=goes_on)


@asynccontextmanager
async def places(
    directory: Path, url: str, advertised: Callable[[int], str], payer: Mapping[str, Any]
) -> AsyncGenerator[list[Place]]:
    async with AsyncExitStack() as stack:
        found: list[Place] = []
        for number in range(COUNT):
            own = directory / f"gateway-{number + 1}"
            own.mkdir()
            (own / "kill_tools.py").write_text(TOOLS.replace("Path(__file__)", f"Path({str(directory / 'x')!r})"))
            port = stack.enter_context(held_port())
            server = {"master_keys": [CLUSTER_KEY.reveal()], "port": port, "drain_seconds": 2}
            sections = {"cluster": {"advertise": advertised(port), "lease_seconds": LEASE_SECONDS}}
            configuration = write_configuration(own, [payer], server=server, store=url, search=None, sections=sections)
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
