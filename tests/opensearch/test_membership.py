"""Which gateways use a prefix: one alone, or several; who was killed is gone, who was paused is told so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError, StoreError
from gateway.opensearch.address import parse_address
from gateway.opensearch.bulks import Bulks
from gateway.opensearch.cluster import Cluster
from gateway.opensearch.membership import Membership, own_name, read_gateways
from gateway.opensearch.sources import Sources
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import begin, opensearch_store, within

LEASE_SECONDS = 2.0
ADDRESS = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


@asynccontextmanager
async def members(folder: Path, count: int, address: str | None = None) -> AsyncGenerator[list[Membership]]:
    """Gateways that would use the folder's prefix; its indices are there."""
    store = opensearch_store(folder)
    await within(store.open())
    await within(store.close())
    where = parse_address(INDEX_SETS.store_url(folder), folder)
    clusters = [Cluster(where) for _ in range(count)]
    found = [Membership(Sources(cluster, Bulks(cluster)), address, LEASE_SECONDS) for cluster in clusters]
    for each in found:
        each.on_lost = asyncio.Event().wait  # type: ignore[assignment]  # these tests look at `is_lost`
    try:
        yield found
    finally:
        for each in found:
            await within(each.leave())
            await within(each.sources.cluster.close())


async def names(gateway: Membership) -> list[str]:
    """The names of all gateways, as the doctor sees them."""
    return [each.name for each in await within(read_gateways(gateway.sources))]


async def beats_until(gateway: Membership, wanted: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        await wanted.wait()
    assert not gateway.is_lost


async def test_a_second_gateway_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    first = opensearch_store(tmp_path)
    await within(first.open())
    second = opensearch_store(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        await within(second.open())
    assert own_name() in refused.value.message
    await within(begin(first))
    await within(first.close())


@pytest.mark.parametrize("address", [None, ADDRESS])
async def test_a_gateway_that_would_be_alone_and_one_that_would_not_refuse_each_other(
    tmp_path: Path, address: str | None
) -> None:
    first = opensearch_store(tmp_path, address)
    await within(first.open())
    second = opensearch_store(tmp_path, ADDRESS if address is None else None)
    with pytest.raises(ConfigurationError, match=r"cluster\.advertise"):
        await within(second.open())
    await within(first.close())


async def test_the_place_of_a_gateway_that_ended_is_free_at_once(tmp_path: Path) -> None:
    async with members(tmp_path, 2) as (one, other):
        await within(one.join())
        assert await names(one) == [own_name()]
        await within(one.leave())
        assert await names(one) == []
        async with asyncio.timeout(LEASE_SECONDS):
            await other.join()


async def test_the_place_of_a_killed_gateway_becomes_free(tmp_path: Path) -> None:
    async with members(tmp_path, 2) as (killed, other):
        await within(killed.join())
        killed.stop_beating()
        await within(other.join())
        assert other.is_first


async def test_a_gateway_whose_place_was_taken_finds_that_it_is_lost(tmp_path: Path) -> None:
    async with members(tmp_path, 2) as (paused, other):
        await within(paused.join())
        paused.stop_beating()
        await within(other.join())
        assert not paused.may_act, "its lease is over before another one's patience"
        await within(paused.beat())
        with pytest.raises(StoreError):
            paused.check()
        other.check()


async def test_several_gateways_know_each_other_and_one_of_them_is_the_first(tmp_path: Path) -> None:
    async with members(tmp_path, 3, ADDRESS) as (one, two, three):
        for each in (one, two, three):
            await within(each.join())
        assert [each.gateway_id for each in await within(two.all())] == [one.own_id, two.own_id, three.own_id]
        assert [each.is_first for each in (one, two, three)] == [True, False, False]
        assert await within(two.is_there(three.own_id))
        assert two.address_of(three.own_id) == ADDRESS
        assert not await within(two.is_there(two.own_id)), "it is no other one"
        assert not await within(two.is_there("nobody"))


async def test_the_others_take_over_what_a_killed_gateway_had(tmp_path: Path) -> None:
    async with members(tmp_path, 3, ADDRESS) as (killed, two, three):
        told = asyncio.Event()

        async def take_over() -> None:
            told.set()

        two.events.on_left = take_over
        for each in (killed, two, three):
            await within(each.join())
        assert await within(three.is_there(killed.own_id))
        gone = killed.own_id
        killed.stop_beating()
        await beats_until(two, told)
        assert two.is_first
        assert not await within(three.is_there(gone))
        assert [each.gateway_id for each in await within(three.all())] == [two.own_id, three.own_id]
        await within(killed.beat())
        assert killed.is_lost


async def test_taking_over_is_tried_again_if_it_fails(tmp_path: Path) -> None:
    async with members(tmp_path, 2, ADDRESS) as (left, two):
        tries, done = 0, asyncio.Event()

        async def take_over() -> None:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise StoreError("not now")
            done.set()

        two.events.on_left = take_over
        await within(left.join())
        await within(two.join())
        await within(two.beat())
        await within(left.leave())
        await beats_until(two, done)


async def test_an_outage_of_the_cluster_makes_nobody_think_that_others_are_gone(tmp_path: Path) -> None:
    async with members(tmp_path, 2, ADDRESS) as (one, two):
        for each in (one, two):
            await within(each.join())
            each.stop_beating()
        await within(two.beat())
        loop = asyncio.get_running_loop()
        until = loop.time() + 1.5 * LEASE_SECONDS
        while loop.time() < until:  # neither can be heard of: no heartbeat of this one is acknowledged
            await asyncio.wait([loop.create_future()], timeout=0.2)
        assert [each.may_act for each in (one, two)] == [False, False]
        await within(two.beat())
        assert two.may_act
        assert await within(two.is_there(one.own_id))
        await within(one.beat())
        assert one.may_act
