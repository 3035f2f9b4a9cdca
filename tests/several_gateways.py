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

    @property
    def clients(self) -> list[GatewayClient]:
        """One client for each gateway."""
        return [each.client for each in self.gateways]


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
    store = INDEX_SETS.store_url(directory)
    async with AsyncExitStack() as stack:
        gateways: list[LocalGateway] = []
        for number in range(count):
            port = stack.enter_context(held_port())
            own = directory / f"gateway-{number + 1}"
            own.mkdir()
            cluster = {"advertise": f"http://127.0.0.1:{port}", "lease_seconds": lease_seconds}
            sections = {"cluster": cluster, **(configuration.get("sections") or {})}
            given = {**configuration, "port": port, "store": store, "sections": sections}
            opened = local_gateway(own, agents, **given)
            gateways.append(await stack.enter_async_context(opened))
        client = await stack.enter_async_context(balanced(directory, [each.client for each in gateways]))
        yield SeveralGateways(gateways, client)


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
