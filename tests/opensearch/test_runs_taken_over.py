"""A run under `on_takeover: continue` goes on at another gateway of its cluster, and is shown from any of them."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.ag_ui_verifier import read_stream, verify_server
from tests.fault_scenes import check_kept, store_at
from tests.faults.test_faults_going_on import HANG, WHOLE, WORDS, shown_texts
from tests.faults.test_faults_processes import PAY, TOOLS, drained, post_forever, seen_numbers
from tests.held_ports import held_port
from tests.invariants import check_thread
from tests.observed_runs import OWNER
from tests.opensearch.index_sets import store_url
from tests.running_gateway import GatewayProcess, agent, gateway_process, run_body, scripted, write_configuration
from tests.stored_samples import CLUSTER_KEY
from tests.waiting import until_answered

pytestmark = pytest.mark.thorough
LEASE_SECONDS: Final = 2.0


@pytest.fixture(scope="module", autouse=True)
def _node(opensearch_url: str) -> None:
    """The node that all tests share is started before a test looks which processes it leaves."""


def has_ended(answer: httpx.Response) -> bool:
    """Whether the run has; until it is taken over, its gateway cannot be reached."""
    assert answer.status_code in (200, 503), answer.text
    return answer.status_code == 200 and answer.json()["status"] != "running"


def tools_at(directory: Path) -> Path:
    """A new folder with the tools, which note their calls there."""
    directory.mkdir()
    (directory / "kill_tools.py").write_text(TOOLS)
    return directory


def calls_noted(directory: Path) -> list[str]:
    return [call for path in directory.glob("*/trace.txt") for call in path.read_text().split()]


@asynccontextmanager
async def gateway_of(directory: Path, url: str, *script: Sequence[Mapping[str, Any]]) -> AsyncGenerator[GatewayProcess]:
    """A gateway of the cluster whose agent plays that script."""
    tools_at(directory)
    options: dict[str, Any] = {"on_disconnect": "continue", "on_takeover": "continue", "history": "append"}
    agents = [agent("goer", scripted(*script), tools=[PAY], **options)]
    with held_port() as port:
        server = {"master_keys": [CLUSTER_KEY.reveal()], "port": port, "drain_seconds": 0}
        sections = {"cluster": {"advertise": f"http://127.0.0.1:{port}", "lease_seconds": LEASE_SECONDS}}
        configuration = write_configuration(directory, agents, server=server, store=url, search=None, sections=sections)
        async with gateway_process(configuration) as gateway:
            yield gateway


@pytest.mark.parametrize(
    ("how", "script"),
    [(signal.SIGTERM, ([WORDS, HANG],)), (signal.SIGKILL, (WHOLE[0], [WORDS, HANG]))],
    ids=["asked to stop", "killed after a tool"],
)
async def test_another_gateway_goes_on_with_the_run(
    tmp_path: Path, how: signal.Signals, script: Sequence[Sequence[Mapping[str, Any]]], request: pytest.FixtureRequest
) -> None:
    url = store_url("opensearch", tmp_path, request)
    async with AsyncExitStack() as stack:
        ending = await stack.enter_async_context(gateway_of(tmp_path / "one", url, *script))
        other = await stack.enter_async_context(gateway_of(tmp_path / "two", url, *WHOLE))
        stream = await post_forever(ending, "goer", run_body("Pay", run_id="run-1"))
        await stream.until("TEXT_MESSAGE_CONTENT", 3 + (script[0] == WHOLE[0]))
        await ending.signal(how)
        await drained(stream)
        seen = seen_numbers(stream)
        answer = await until_answered(lambda: other.client.http.get("/runs/run-1"), has_ended)
        assert answer.json()["status"] == "completed", answer.text
        async with other.client.events("run-1") as replay:
            await replay.rest()
        sent = read_stream(bytes(replay.body))
        events = [each.event for each in sent]
        verify_server(events, thread_id="thread-1", run_id="run-1")
        assert shown_texts(events) == ["I pay.", "paid paid"]
        kept = {each.id: each.event for each in sent if each.id is not None}
        assert {number: kept.get(number) for number in seen} == seen, "what a viewer saw is in the log, same id"
    assert len(calls_noted(tmp_path)) == 1, "the tool ran once"
    async with store_at(tmp_path, url) as store:
        thread = await store.load_thread(OWNER, "thread-1")
        assert thread is not None
        check_thread(await check_kept(store, "run-1", backend_tools=["pay"]), thread.messages)
