"""Three gateways under load between which connections are cut in mid-stream: no client takes a part for the whole."""

from __future__ import annotations

import asyncio
import random
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.gateways_under_load import COUNT, loaded_gateways, pass_seconds
from tests.local_listener import listening, port_of
from tests.local_proxies import needs_nginx
from tests.opensearch.index_sets import store_url

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600), needs_nginx]

SECONDS: Final = 20.0
LEAVES: Final = 1 / 6
"""At how many of the frames a client leaves: when it comes back, its stream hops."""
CUTS: Final = 1 / 5
"""Of the pieces that come from a gateway, so many are cut in the middle."""
_PIECE_BYTES: Final = 65_536


@dataclass(slots=True)
class Wires:
    """What passes requests on to gateways. While `cuts`, it cuts connections in the middle of an answer."""

    end: Callable[[StreamWriter], None]
    chance: random.Random
    cuts: bool = False
    passed: int = 0
    cut: int = 0

    async def serve(self, upstreams: list[int], reader: StreamReader, writer: StreamWriter) -> None:
        from_gateway, to_gateway = await asyncio.open_connection("127.0.0.1", *upstreams)
        self.passed += 1
        there = asyncio.ensure_future(_pass_on(reader, to_gateway))
        try:
            with suppress(ConnectionError):
                while piece := await from_gateway.read(_PIECE_BYTES):
                    if self.cuts and self.chance.random() < CUTS:
                        self.cut += 1
                        writer.write(piece[: len(piece) // 2])
                        self.end(writer)
                        return
                    writer.write(piece)
                    await writer.drain()
        finally:
            there.cancel()
            to_gateway.transport.abort()
            writer.close()


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def wires_to_gateways(how: str) -> AsyncGenerator[tuple[Wires, Callable[[int], str]]]:
    """What passes requests on, and the address that leads to the gateway on a port."""
    wires = Wires(HOWS[how], random.Random(how))
    async with AsyncExitStack() as stack:
        free: list[tuple[list[int], int]] = []
        for _ in range(COUNT):
            upstreams: list[int] = []
            listener = await stack.enter_async_context(listening(partial(wires.serve, upstreams)))
            free.append((upstreams, port_of(listener)))

        def address_of(port: int) -> str:
            upstreams, own = free.pop()
            upstreams.append(port)
            return f"http://127.0.0.1:{own}"

        yield wires, address_of


HOWS: Final[dict[str, Callable[[StreamWriter], None]]] = {
    "reset": lambda writer: writer.transport.abort(),
    "closed": lambda writer: writer.close(),
}


@pytest.mark.parametrize("how", HOWS)
async def test_who_is_cut_off_between_two_gateways_comes_back_and_gets_the_rest(
    tmp_path: Path, how: str, request: pytest.FixtureRequest
) -> None:
    url = store_url("opensearch", tmp_path, request)
    async with wires_to_gateways(how) as (wires, address_of), loaded_gateways(tmp_path, url, address_of) as loaded:

        async def fault() -> None:
            wires.cuts = True
            await pass_seconds(SECONDS)
            wires.cuts = False

        await loaded.suffer(50, fault, lambda: wires.chance.random() < LEAVES)
    assert wires.cut > 10, f"only {wires.cut} of {wires.passed} connections were cut"
