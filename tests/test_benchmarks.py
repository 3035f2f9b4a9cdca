"""The benchmarks still run: every measurement once, with as little of it as there can be. No number is judged."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gateway.clock import SystemClock
from gateway.events import Event, ModelCallEnded, RunStarted, TextDelta
from gateway.http_client.clients import HttpClients
from tests.benchmarks import renderers, schemas
from tests.benchmarks.hops import HopBenchmarks, HopsPlan
from tests.benchmarks.load import KnownThread, frames_of, new_thread
from tests.benchmarks.measurements import Amount, Row, percentile
from tests.benchmarks.provider_client import REQUEST, open_model
from tests.benchmarks.provider_wires import WIRES, Wire, wire_of, word
from tests.benchmarks.providers import ProviderBenchmarks, ProviderPlan
from tests.benchmarks.scenarios import MEASUREMENTS, Benchmarks, Plan, check_answers, running_servers
from tests.benchmarks.server_process import Cores, server_process
from tests.benchmarks.stores import StoreBenchmarks, StoresPlan
from tests.local_certificate import tls_contexts, write_certificate

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads Linux's /proc")

NO_PINNING = Cores(None, None)
TINY = Plan(
    Amount(rounds=1, events=1),
    concurrencies=(2,),
    histories=(3,),
    first_token_samples=2,
    kept_threads=3,
    stored_agents=2,
    idle_streams=3,
    idle_seconds=0.01,
)
GROUPS = (
    (("text", "tool", "history", "upstream", "first", "concurrency", "length"), 11),
    (("start", "stored", "collected"), 3),
    (("idle",), 4),
    (("ml_commons", "openai"), 20),
)
"""What is measured together, and how many rows it gives: no test starts more than six gateways."""


@pytest.mark.thorough
async def test_both_sides_send_the_same_number_of_events(tmp_path: Path) -> None:
    async with running_servers(tmp_path, NO_PINNING) as servers:
        counts = await check_answers(servers)
    for agent in ("text", "batch", "tool", "chat-200-0"):
        assert counts[f"/agents/{agent}/run"] == counts[f"/replay/{agent}"] > 100
    assert counts["/relay/200-0"] == 202  # the deltas, the reason, [DONE]


@pytest.mark.thorough
@pytest.mark.parametrize(("names", "count"), GROUPS, ids=[names[0] for names, _ in GROUPS])
async def test_every_measurement_gives_its_rows(names: Sequence[str], count: int, tmp_path: Path) -> None:
    rows: list[Row] = []
    async with running_servers(tmp_path, NO_PINNING) as servers:
        benchmarks = Benchmarks(servers, TINY, rows.append)
        for name in names:
            await MEASUREMENTS[name](benchmarks)
    assert len({row.name for row in rows}) == len(rows) == count
    judged = [row for row in rows if "idle" not in row.name]
    assert all(row.gateway > 0 and row.bare > 0 for row in judged), rows


def test_every_measurement_is_in_one_group() -> None:
    assert [name for names, _ in GROUPS for name in names] == [*MEASUREMENTS]


@pytest.mark.thorough
async def test_only_what_is_named_is_measured(tmp_path: Path) -> None:
    rows: list[Row] = []
    async with running_servers(tmp_path, NO_PINNING) as servers:
        await Benchmarks(servers, TINY, rows.append).run("tool")
    assert [row.target for row in rows] == ["<= 2.0x"]


def test_each_renderer_is_measured_beside_that_of_ag_ui() -> None:
    rows: list[Row] = []
    renderers.run(rows.append, rounds=1)
    assert len({row.name for row in rows}) == len(rows) == 10 * len(renderers.RENDERERS) == 70
    assert all(row.bare > 0 and row.gateway > 0 for row in rows)
    assert {row.target for row in rows if row.unit == "bytes"} == {f"the words {times} times" for times in (1, 4, 5)}


def test_a_tools_call_takes_little_more_steps_over_the_agent_api_than_over_ag_ui() -> None:
    """It has nine frames, where AG-UI has four: what they repeat must not be put together again for each of them."""
    for events in renderers.runs().values():
        ours = steps_of(renderers.RENDERERS["Agent API"], events)
        ag_ui = steps_of(renderers.ag_ui, events)
        assert ours <= 1.5 * ag_ui + 100  # the response itself


def steps_of(renderer: Callable[[RunStarted], renderers.Render], events: Sequence[Event]) -> int:
    """How many functions are called, of Python and C, to render a run: as many on every machine."""
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        renderers.rendered(renderer, events, len(events))
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.thorough
async def test_the_worst_schemas_are_measured_beside_their_ceiling() -> None:
    rows: list[Row] = []
    await schemas.run(rows.append, ("anyOf doubled", "one pattern repeated"))
    assert [(row.bare, row.unit) for row in rows] == [(20, "ms"), (20, "MB")] * 2
    assert all(row.gateway > 0 for row in rows if row.unit == "ms")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
async def test_each_provider_reads_what_its_upstream_writes(wire: Wire, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "certificate.pem", "localhost")
    arguments = [str(certificate)] if wire.tls else []
    upstream = server_process("tests.benchmarks.provider_upstream", *arguments, directory=tmp_path, cores=None)
    http = HttpClients(SystemClock(), tls=tls_contexts(certificate)[1])
    async with upstream as server, asyncio.timeout(60):
        url = f"{'https' if wire.tls else 'http'}://localhost:{server.port}"
        for each in (1, 5):
            model = open_model(wire, url, f"bench-12-0-{each}", http)
            events = [event async for batch in model.stream(REQUEST) for event in batch]
            assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "".join(map(word, range(12)))
            assert isinstance(events[-1], ModelCallEnded)
        await http.close()


@pytest.mark.thorough
async def test_a_providers_measurements_give_their_rows(tmp_path: Path) -> None:
    rows: list[Row] = []
    plan = ProviderPlan(
        rounds=1,
        seconds=0.3,
        busy=2,
        idle=3,
        crowd=4,
        crowd_seconds=0.5,
        wires=(wire_of("gemini/v1beta/generatecontent"),),
    )
    await ProviderBenchmarks(tmp_path, NO_PINNING, plan, rows.append).run()
    assert len({row.name for row in rows}) == len(rows) == 13
    assert [row.target for row in rows[:3]] == ["<= 80 KB", "<= 2.0x", "<= 2.0x"]
    assert all(row.gateway > 0 and row.bare > 0 for row in rows if row.unit == "us/event" and "kept" not in row.name)


@pytest.mark.thorough
async def test_the_stores_measurements_give_their_rows(tmp_path: Path, opensearch_url: str) -> None:
    rows: list[Row] = []
    plan = StoresPlan(Amount(rounds=1, events=1), streams=(2,), crowd=2, crowd_seconds=0.5, kept_threads=3, lists=1)
    async with running_servers(tmp_path, NO_PINNING) as servers:
        await StoreBenchmarks(servers, opensearch_url, plan, rows.append).run()
    assert len({row.name for row in rows}) == len(rows) == 17
    assert all(row.gateway > 0 and row.bare > 0 for row in rows if "kept" not in row.name)


@pytest.mark.thorough
async def test_the_measurements_of_several_gateways_give_their_rows(tmp_path: Path, opensearch_url: str) -> None:
    rows: list[Row] = []
    plan = HopsPlan(rounds=1, streams=(2,), requests=2, runs=3, at_once=3)
    async with running_servers(tmp_path, NO_PINNING) as servers:
        await HopBenchmarks(servers, opensearch_url, plan, rows.append).run()
    assert len({row.name for row in rows}) == len(rows) == 5
    assert all(row.gateway > 0 and row.bare > 0 for row in rows)


def test_the_frames_of_a_chunked_answer_are_found_across_its_chunks() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\n\r\n9\r\ndata: 1\n\n\r\n6\r\ndata: \r\n3\r\n2\n\n\r\n0\r\n\r\n"
    assert frames_of(answer) == [b"data: 1\n\n", b"data: 2\n\n"]


def test_a_known_thread_goes_on_with_what_it_heard_and_a_new_one_does_not() -> None:
    known, new = KnownThread(2), new_thread(2)
    first = json.loads(known(1))
    known.heard(
        1, b'data: {"messageId":"a1","role":"assistant"}\n\ndata: {"delta":"so "}\n\ndata: {"delta":"\\"so\\""}\n\n'
    )
    second = json.loads(known(1))
    assert first["threadId"] == second["threadId"] != json.loads(known(2))["threadId"]
    answer = {"id": "a1", "role": "assistant", "content": 'so "so"'}
    assert second["messages"][:-1] == [*first["messages"], answer]
    assert json.loads(new(1))["threadId"] != json.loads(new(1))["threadId"]


def test_a_percentile_lies_in_the_numbers() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0
