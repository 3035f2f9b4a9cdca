"""Several gateways on one OpenSearch store behind nginx, configured as `deploy/` says."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.held_ports import held_port
from tests.local_proxies import DEPLOY, Place, nginx_command, replaced, running
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import GatewayClient, LocalGateway, local_gateway

LEASE_SECONDS: Final = 2.0


@dataclass(slots=True)
class SeveralGateways:
    """`client` speaks to all of them in turn."""

    gateways: list[LocalGateway]
    client: GatewayClient


@asynccontextmanager
async def several_gateways(
    directory: Path,
    agents: Sequence[Mapping[str, Any]],
    *,
    count: int = 3,
    lease_seconds: float = LEASE_SECONDS,
    **configuration: Any,
) -> AsyncGenerator[SeveralGateways]:
    """Gateways with the same configuration on the prefix that stands for the folder."""
    async with AsyncExitStack() as stack:
        gateways: list[LocalGateway] = []
        for number in range(count):
            opened = one_of_several(directory, number + 1, agents, lease_seconds=lease_seconds, **configuration)
            gateways.append(await stack.enter_async_context(opened))
        client = await stack.enter_async_context(balanced(directory, [each.client for each in gateways]))
        yield SeveralGateways(gateways, client)


@asynccontextmanager
async def one_of_several(
    directory: Path,
    number: int,
    agents: Sequence[Mapping[str, Any]],
    *,
    lease_seconds: float = LEASE_SECONDS,
    **configuration: Any,
) -> AsyncGenerator[LocalGateway]:
    """The gateway of that number on the prefix that stands for the folder."""
    own = directory / f"gateway-{number}"
    own.mkdir()
    with held_port() as port:
        cluster = {"advertise": f"http://127.0.0.1:{port}", "lease_seconds": lease_seconds}
        sections = {"cluster": cluster, **(configuration.get("sections") or {})}
        given = {**configuration, "port": port, "store": INDEX_SETS.store_url(directory), "sections": sections}
        async with local_gateway(own, agents, **given) as gateway:
            yield gateway


@asynccontextmanager
async def two_gateways(
    directory: Path, agents: Sequence[Mapping[str, Any]], **configuration: Any
) -> AsyncGenerator[tuple[LocalGateway, LocalGateway]]:
    """Two of them without nginx. The first one came first."""
    async with (
        one_of_several(directory, 1, agents, **configuration) as one,
        one_of_several(directory, 2, agents, **configuration) as two,
    ):
        yield one, two


@asynccontextmanager
async def balanced(directory: Path, clients: Sequence[GatewayClient]) -> AsyncGenerator[GatewayClient]:
    """A client of nginx, which sends each request to the next gateway."""
    with held_port() as port:
        place = Place(directory, port, 0, "", Path())
        async with running(write_nginx(place, [urlsplit(each.base_url).netloc for each in clients]), place):
            client = GatewayClient(f"http://127.0.0.1:{port}")
            try:
                yield client
            finally:
                await client.close()


def write_nginx(place: Place, upstreams: Sequence[str]) -> list[str]:
    text = (DEPLOY / "nginx.several.conf").read_text("utf-8")
    servers = re.findall(r"^ *server gateway-\d:8000 (.*)\n", text, re.MULTILINE)
    assert len(servers) == 3
    text, *_ = re.subn(r"(^ *server gateway-\d:8000 .*\n)+", "    SERVERS\n", text, flags=re.MULTILINE)
    lines = "\n    ".join(f"server {upstream} {servers[0]}" for upstream in upstreams)
    site = replaced(text, {"SERVERS": lines, "listen 80;": f"listen 127.0.0.1:{place.port};"})
    return nginx_command(place.directory, site)
