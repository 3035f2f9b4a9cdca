"""One gateway uses a prefix: a second one is refused, and the place of a killed one becomes free."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError, StoreError
from gateway.opensearch.address import parse_address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.membership import Membership, holder_path, name_of, own_name
from gateway.opensearch.sources import Sources
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import begin, opensearch_store, within

FREE_SECONDS = 3.0  # longer than a beat


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


async def members(folder: Path, count: int) -> list[Membership]:
    """Gateways that would use the folder's prefix; its indices are there."""
    store = opensearch_store(folder)
    await within(store.open())
    await within(store.close())
    address = parse_address(INDEX_SETS.store_url(folder), folder)
    clusters = [Cluster(address) for _ in range(count)]
    return [Membership(Sources(cluster, Bulks(cluster)), FREE_SECONDS) for cluster in clusters]


async def name(gateway: Membership) -> str | None:
    """The name of who has the place, as the doctor sees it."""
    cluster = gateway.sources.cluster
    return name_of((await cluster.request("GET", holder_path(cluster), allowed=(404,))).body)


async def closed(*gateways: Membership) -> None:
    for each in gateways:
        await within(each.leave())
        await within(each.sources.cluster.close())


async def test_a_second_gateway_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    first = opensearch_store(tmp_path)
    await within(first.open())
    second = opensearch_store(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        await within(second.open())
    assert own_name() in refused.value.message
    await within(begin(first))
    await within(first.close())


async def test_the_place_of_a_gateway_that_ended_is_free_at_once(tmp_path: Path) -> None:
    one, other = await members(tmp_path, 2)
    await within(one.join())
    assert await within(name(one)) == own_name()
    await within(one.leave())
    assert await within(name(one)) is None
    async with asyncio.timeout(FREE_SECONDS):
        await other.join()
    await closed(one, other)


async def test_the_place_of_a_killed_gateway_becomes_free(tmp_path: Path) -> None:
    killed, other = await members(tmp_path, 2)
    await within(killed.join())
    killed.stop_beating()
    await within(other.join())
    await closed(other, killed)


async def test_a_gateway_whose_place_was_taken_writes_nothing_any_more(tmp_path: Path) -> None:
    paused, other = await members(tmp_path, 2)
    await within(paused.join())
    paused.stop_beating()
    await within(other.join())
    await within(paused.beat())
    with pytest.raises(StoreError):
        paused.check()
    with pytest.raises(StoreError):
        await within(paused.sources.bulks.write([]))
    other.check()
    await closed(other, paused)
