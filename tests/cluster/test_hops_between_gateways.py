"""Two whole gateways on one cluster: what is asked of the one about a thread that the other holds is done there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import main
from gateway.clock import SystemClock
from gateway.store import StoreEnvironment
from gateway.stores.opensearch import STORE
from tests.held_ports import held_port
from tests.opensearch.index_sets import INDEX_SETS
from tests.running_gateway import LocalGateway, agent, local_gateway, run_body, scripted
from tests.stored_samples import within

HANGING = agent("hanging", scripted([{"text": "Here"}, {"hang": True}]))


@pytest.fixture(autouse=True)
def _node(opensearch_url: str) -> None:
    INDEX_SETS.begin_test(opensearch_url)


@asynccontextmanager
async def sharing(folder: Path, name: str, **server: Any) -> AsyncGenerator[LocalGateway]:
    """A gateway on the folder's cluster, with a folder of its own."""
    own = folder / name
    own.mkdir()
    with held_port() as port:
        cluster = {"cluster": {"advertise": f"http://127.0.0.1:{port}"}}
        store = INDEX_SETS.store_url(folder)
        async with local_gateway(own, [HANGING], port=port, store=store, sections=cluster, server=server) as gateway:
            yield gateway


async def test_a_thread_is_changed_where_its_run_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with sharing(tmp_path, "a") as first, sharing(tmp_path, "b") as second:
        async with first.client.stream("hanging", run_body()) as stream:
            await stream.until("TEXT_MESSAGE_CONTENT")
            renamed = await second.client.http.patch("/threads/thread-1", json={"title": "Named"})
            assert renamed.status_code == 204, renamed.text
            (thread,) = (await first.client.get("/threads"))["threads"]
            assert thread["title"] == "Named"
        metrics = (await second.client.http.get("/metrics")).text
        assert 'agui_gateway_hops_total{outcome="forwarded"} 1.0' in metrics
        assert "agui_gateway_gateways 2.0" in metrics

        command = ["cluster", "--json", "--config", str(tmp_path / "b" / "gateway.yaml")]
        assert await asyncio.to_thread(main, command) == 0
        listed = json.loads(capsys.readouterr().out)
        assert [each["address"] for each in listed] == [first.client.base_url, second.client.base_url]
        assert [each["isFirst"] for each in listed] == [True, False]


async def test_a_change_that_hops_counts_where_it_is_done_alone(tmp_path: Path) -> None:
    key = {"name": "alice", "key": "alice-key-of-the-tests", "limits": {"runs_per_minute": 3}}
    headers = {"authorization": f"Bearer {key['key']}"}
    async with (
        sharing(tmp_path, "a", api_keys=[key]) as first,
        sharing(tmp_path, "b", api_keys=[key]) as second,
        first.client.http.stream("POST", "/agents/hanging/run", json=run_body(), headers=headers) as run,
    ):
        async with asyncio.timeout(30):
            await anext(text async for text in run.aiter_text() if "TEXT_MESSAGE_CONTENT" in text)

        async def changed(method: str, path: str, body: Any = None) -> int:
            return (await second.client.http.request(method, path, json=body, headers=headers)).status_code

        # the run and two changes are three at the first gateway, which has the thread
        assert await changed("PATCH", "/threads/thread-1", {"title": "one"}) == 204
        assert await changed("POST", "/threads/thread-1/versions/1") in (204, 409)
        assert await changed("PATCH", "/threads/thread-1", {"title": "two"}) == 429
        for number in range(3):
            assert await changed("PATCH", f"/threads/other-{number}", {"title": "mine"}) == 404
        assert await changed("PATCH", "/threads/other-4", {"title": "mine"}) == 429


async def test_a_prefix_that_nobody_has_used_has_no_gateways(tmp_path: Path) -> None:
    assert STORE.gateways is not None
    url, environment = INDEX_SETS.store_url(tmp_path / "none"), StoreEnvironment(SystemClock(), tmp_path)
    assert list(await within(STORE.gateways(url, environment))) == []
