"""Two gateways in this process that share a store in the cluster, each with an address and a configuration of its own.

    async with two_gateways(tmp_path, [WORDS]) as (one, two):
        await one.client.run("words", run_body("hello"))

A test needs the fixture `opensearch_url`. Heartbeats come often, so that what one gateway changes is soon so for the
other.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.configuration.known_parts import KnownParts, known_parts
from gateway.store import Store, StoreEnvironment
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import LocalGateway, local_gateway
from tests.stored_samples import CLUSTER_KEY

LEASE_SECONDS = 4.0


@contextlib.asynccontextmanager
async def two_gateways(
    folder: Path, agents: Sequence[Mapping[str, Any]], **configuration: Any
) -> AsyncGenerator[tuple[LocalGateway, LocalGateway]]:
    """The first one came first. `configuration` as for `local_gateway`."""
    async with (
        gateway_of(folder, "one", agents, **configuration) as one,
        gateway_of(folder, "two", agents, **configuration) as two,
    ):
        yield one, two


@contextlib.asynccontextmanager
async def gateway_of(
    folder: Path, name: str, agents: Sequence[Mapping[str, Any]], **configuration: Any
) -> AsyncGenerator[LocalGateway]:
    """One of the gateways of the folder's store."""
    own = folder / name
    own.mkdir(exist_ok=True)
    url = INDEX_SETS.store_url(folder)
    server = {"master_keys": [CLUSTER_KEY.reveal()], **(configuration.pop("server", None) or {})}
    parts = _with_address(f"http://{name}.example")
    async with local_gateway(own, agents, store=url, parts=parts, server=server, **configuration) as gateway:
        yield gateway


def _with_address(address: str) -> KnownParts:
    parts = known_parts()
    in_cluster = parts.stores["opensearch"]

    def opened(url: str, environment: StoreEnvironment) -> Store:
        return in_cluster.open(url, replace(environment, address=address, lease_seconds=LEASE_SECONDS))

    return replace(parts, stores={**parts.stores, "opensearch": replace(in_cluster, open=opened)})
