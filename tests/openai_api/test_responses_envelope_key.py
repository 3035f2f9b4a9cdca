"""The key that signs envelopes of reasoning: one for all gateways of a store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.access.limits import Meter
from gateway.agents.directory import AgentDirectory
from gateway.clock import SystemClock
from gateway.documents.document import DocumentKind
from gateway.openai_api.reasoning_envelopes import EnvelopeKey, ReasoningEnvelopes
from gateway.protocol import ProtocolEnvironment
from gateway.runner import Runner
from gateway.runs.driver import RunDriver
from gateway.sse import OpenStreams
from gateway.store import Store, StoreEnvironment
from tests.opensearch.index_sets import INDEX_SETS
from tests.stored_samples import STORE_TYPES, memory_store, within

EARLIER_KEY = DocumentKind("reasoning key", {}, sealed=("/key",))


@asynccontextmanager
async def opened(*stores: Store) -> AsyncGenerator[list[ProtocolEnvironment]]:
    """An environment for each store."""
    clock = SystemClock()
    for each in stores:
        await within(each.open())
    try:
        runners = [Runner(RunDriver(AgentDirectory(), each, clock)) for each in stores]
        yield [ProtocolEnvironment(each, OpenStreams(), Meter(clock, "runs")) for each in runners]
    finally:
        for each in stores:
            await within(each.close())


async def envelopes_of(environment: ProtocolEnvironment) -> ReasoningEnvelopes:
    return await within(EnvelopeKey(environment).envelopes())


async def test_all_gateways_of_a_cluster_have_one_key_and_need_no_master_key(
    opensearch_url: str, tmp_path: Path
) -> None:
    INDEX_SETS.begin_test(opensearch_url)
    url = INDEX_SETS.store_url(tmp_path)
    stores = [
        STORE_TYPES["opensearch"].open(url, StoreEnvironment(SystemClock(), tmp_path, address=f"http://{name}.example"))
        for name in ("one", "two")
    ]
    async with opened(*stores) as (one, two):
        sealed = (await envelopes_of(one)).seal("alice", "Sums need the tool.", None)
        assert (await envelopes_of(two)).opened("alice", sealed) is not None


async def test_the_key_that_an_earlier_version_kept_stays_the_key(tmp_path: Path) -> None:
    async with opened(memory_store(tmp_path)) as (environment,):
        earlier = bytes(range(32))
        await within(environment.own_documents().put(EARLIER_KEY, "openai_api", {"key": earlier.hex()}))
        sealed = ReasoningEnvelopes(earlier).seal("alice", "Sums need the tool.", None)
        for _ in range(2):
            assert (await envelopes_of(environment)).seal("alice", "Sums need the tool.", None) == sealed
        assert await within(environment.own_documents().get(EARLIER_KEY, "openai_api")) is None
