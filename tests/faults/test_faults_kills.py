"""A gateway that is killed again and again while clients of every protocol read, on every kind of store."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.opensearch.membership import LEASE_SECONDS
from tests.fault_scenes import store_at
from tests.opensearch.index_sets import store_url
from tests.paying_agent import GOER, PAYER, TOOLS, check_client
from tests.returning_clients import PROTOCOLS, Load, ReturningClient
from tests.running_gateway import (
    DEADLINE_SECONDS,
    GatewayProcess,
    gateway_process,
    write_configuration,
)
from tests.stored_samples import CLUSTER_KEY

CLIENTS_OF_EACH = 2
STARTS_KILLED = 0.3
"""How many of the gateways that follow a killed one are killed while they start."""


@pytest.fixture(scope="module", params=["sqlite", "opensearch"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of store. The node that all tests share is started before a test looks which processes it leaves."""
    if request.param == "opensearch":
        request.getfixturevalue("opensearch_url")
    return str(request.param)


@pytest.mark.timeout(1800)  # after a kill, a place in a cluster is free after 10 seconds
@pytest.mark.parametrize(
    ("kills", "seed"), [pytest.param(3, 1, marks=pytest.mark.thorough), pytest.param(30, 2, marks=pytest.mark.faults)]
)
@pytest.mark.parametrize("payer", [PAYER, GOER], ids=["ends", "goes on"])
async def test_kill_9_again_and_again_loses_nothing_that_was_seen(
    tmp_path: Path, kind: str, payer: Mapping[str, Any], kills: int, seed: int, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "kill_tools.py").write_text(TOOLS)
    url, chance = store_url(kind, tmp_path, request), random.Random(seed)
    keys = {"master_keys": [CLUSTER_KEY.reveal()]}
    configuration = write_configuration(tmp_path, [payer], server=keys, store=url, search=None)
    goes_on = payer is GOER
    each = [(protocol, f"{protocol}-{n}") for n in range(CLIENTS_OF_EACH) for protocol in PROTOCOLS]
    clients = [ReturningClient(protocol, name, goes_on) for protocol, name in each]
    for _ in range(kills):
        async with gateway_process(configuration) as gateway:
            await kill_under_load(gateway, clients, Load(chance.randrange(1, 1000)))
        if chance.random() < STARTS_KILLED:
            await kill_while_starting(configuration, chance.random() + (LEASE_SECONDS if kind == "opensearch" else 0))
        if kind == "sqlite":
            check_integrity(tmp_path)
    async with gateway_process(configuration) as gateway, asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(2):  # what was cut off, and another one: no thread is locked
            await asyncio.gather(*(client.go_on(gateway.client) for client in clients))
        await asyncio.gather(*(client.read_again(gateway.client) for client in clients))
        assert await gateway.signal(signal.SIGTERM) == 0
    calls = (tmp_path / "trace.txt").read_text().split()
    assert len(set(calls)) == len(calls), "no call ran twice"
    async with store_at(tmp_path, url) as store:
        assert await store.unfinished_runs() == []
        for client in clients:
            await check_client(store, client, takes_back=goes_on)


async def kill_under_load(gateway: GatewayProcess, clients: Sequence[ReturningClient], load: Load) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as group:
        for client in clients:
            if not client.thread_id:
                await client.begin(gateway.client)
            group.create_task(client.talk(gateway.client, load))
        await load.is_over.wait()
        await gateway.signal(signal.SIGKILL)


async def kill_while_starting(configuration: Path, seconds: float) -> None:
    """Kill the next gateway after that time, when it may be about to end the runs that the last one left."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds), gateway_process(configuration):
            pass


def check_integrity(directory: Path) -> None:
    with closing(sqlite3.connect(directory / "gateway.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
