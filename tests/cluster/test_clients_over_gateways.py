"""The real `@ag-ui/client` before three gateways on one cluster: each request goes to the next gateway."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any, Final

import pytest
import pytest_asyncio

from tests.agui_client import CLIENT_VERSIONS, ClientVersion, NodeAgent, NodeClients, agui_clients
from tests.case_tools import executions, python_tool, python_tools
from tests.local_proxies import needs_nginx
from tests.observed_runs import check_run, run_client, said, thread_messages
from tests.opensearch.index_sets import store_url
from tests.running_gateway import LocalGateway, agent, scripted
from tests.several_gateways import SeveralGateways, several_gateways

pytestmark = [pytest.mark.thorough, pytest.mark.asyncio(loop_scope="module"), needs_nginx]

PICK: Final[dict[str, Any]] = {"name": "pick", "description": "Let the user pick.", "parameters": {"type": "object"}}
AGENTS: Final = [
    agent("talks", scripted([{"reasoning": "Hm."}, {"text": "Hello there", "chunk_characters": 4}])),
    agent(
        "adds",
        scripted([{"tool": "add", "arguments": {"a": 2, "b": 3}}], [{"text": "It is {{result}}."}]),
        tools=python_tools("add"),
    ),
    agent("picks", scripted([{"tool": "pick"}], [{"text": "You picked {{result}}."}])),
    agent(
        "refunds",
        scripted([{"tool": "refund", "arguments": {"order": "A1", "amount": 5}}], [{"text": "Done: {{result}}."}]),
        tools=[python_tool("refund", approval="always")],
    ),
    agent("goes-on", scripted([{"text": "word ", "repeat": 100, "delta_seconds": 0.02}]), on_disconnect="continue"),
]
_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def several(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[SeveralGateways]:
    directory = tmp_path_factory.mktemp("gateways")
    store_url("opensearch", directory, request)
    async with several_gateways(directory, AGENTS) as found:
        yield found


@pytest.fixture
def gateway(several: SeveralGateways) -> LocalGateway:
    """All of them: its client speaks to each in turn."""
    return replace(several.gateways[0], client=several.client)


@pytest_asyncio.fixture(loop_scope="module", params=CLIENT_VERSIONS)
async def clients(request: pytest.FixtureRequest) -> AsyncGenerator[NodeClients]:
    """One version of the client, which must have nothing to complain about."""
    version: ClientVersion = request.param
    executions.clear()
    async with agui_clients(version) as found:
        yield found
        assert found.console == []
        assert found.unhandled == []


async def create(clients: NodeClients, gateway: LocalGateway, agent_id: str) -> NodeAgent:
    return await clients.create(gateway.client.run_url(agent_id), thread_id=fresh("thread"))


def fresh(prefix: str) -> str:
    """An id that no other test has."""
    return f"{prefix}-{next(_numbers)}"


async def hops(several: SeveralGateways) -> int:
    """How many requests a gateway has sent on to another one."""
    texts = [(await each.client.http.get("/metrics")).text for each in several.gateways]
    found = re.findall(r'agui_gateway_hops_total{outcome="(?:forwarded|left)"} (\d+)', "\n".join(texts))
    return sum(map(int, found))


async def test_words_and_thoughts_are_what_the_thread_has(gateway: LocalGateway, clients: NodeClients) -> None:
    agent = await create(clients, gateway, "talks")
    await run_client(gateway, agent, fresh("run"), text="hi")
    report = await run_client(gateway, agent, fresh("run"), text="hi again")
    assert report.messages[-1]["content"] == "Hello there"
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, agent.thread_id)))


async def test_a_backend_tool_runs_once(gateway: LocalGateway, clients: NodeClients) -> None:
    agent = await create(clients, gateway, "adds")
    report = await run_client(gateway, agent, fresh("run"), text="2 + 3?")
    assert report.messages[-1]["content"] == "It is 5.0."
    assert list(executions.values()) == [1]


async def test_the_result_of_a_frontend_tool_goes_to_the_next_gateway(
    gateway: LocalGateway, clients: NodeClients
) -> None:
    agent = await create(clients, gateway, "picks")
    report = await run_client(gateway, agent, fresh("run"), text="go", tools=[PICK])
    ((_, _, (_, [(call_id, name, _)])),) = [each for each in said(report.messages) if each[2][1]]
    assert name == "pick"
    await agent.add_message({"id": fresh("result"), "role": "tool", "toolCallId": call_id, "content": "blue"})
    report = await run_client(gateway, agent, fresh("run"), tools=[PICK])
    assert report.messages[-1]["content"] == "You picked blue."


@pytest.mark.parametrize("clients", ["1.0.0", "0.0.59"], indirect=True)
async def test_an_approval_is_answered_at_the_next_gateway(gateway: LocalGateway, clients: NodeClients) -> None:
    agent = await create(clients, gateway, "refunds")
    report = await run_client(gateway, agent, fresh("run"), text="Refund A1")
    assert report.pending_interrupts
    (interrupt,) = report.pending_interrupts
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    report = await run_client(gateway, agent, fresh("run"), resume=[answer])
    assert report.messages[-1]["content"] == "Done: refunded A1 with 5."
    assert list(executions.values()) == [1]


async def test_a_page_that_comes_back_in_mid_stream_sees_the_rest_whichever_gateway_it_meets(
    several: SeveralGateways, gateway: LocalGateway, clients: NodeClients
) -> None:
    page, run_id, before = await create(clients, gateway, "goes-on"), fresh("run"), await hops(several)
    await page.add_message({"id": fresh("user"), "role": "user", "content": "go"})
    running = page.start_run(run_id=run_id)
    await page.wait_for("TEXT_MESSAGE_CONTENT", count=3)
    for _ in range(3):
        await page.abort()
        await running
        page = await clients.create(f"{gateway.client.base_url}/agents/goes-on/connect", thread_id=page.thread_id)
        running = page.start_run(run_id=fresh("connect"))
        await page.wait_for("TEXT_MESSAGE_CONTENT", count=3)
    clients.console.clear()  # some versions report the aborts
    clients.unhandled.clear()
    report = await running

    assert report.rejection is None
    assert str(report.messages[-1]["content"]).split() == ["word"] * 100
    assert sorted(said(report.messages)) == sorted(said(await thread_messages(gateway, page.thread_id)))
    await check_run(gateway, run_id)
    assert await hops(several) >= before + 2, "two of three gateways do not hold the thread"
