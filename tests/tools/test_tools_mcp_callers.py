"""MCP servers that callers name: reached through the checked HTTP client alone. Names and addresses are stubs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.agent import ToolSettings
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.http_client.endpoint_policy import EndpointPolicy
from gateway.messages import JsonValue, TextBlock
from gateway.tool import SharedState, Toolbox, ToolContext, ToolEnvironment
from gateway.tools.mcp_server import TOOL_TYPE
from tests.mcp_http_demo import mcp_http_demo
from tests.stub_internet import PUBLIC

CONTEXT = ToolContext("call_1", "owner", "thread_1", "run_1", "agent_1", SharedState(None))
DEADLINE_SECONDS = 30
# The demonstration's server answers under this machine's own name alone; here that name leads to a public address.
TRUSTED = r"^http://(tools\.example|localhost:\d+)/.*$"


@asynccontextmanager
async def opened(
    port: int, addresses: Sequence[str] = (PUBLIC,), **parameters: JsonValue
) -> AsyncGenerator[tuple[Toolbox, list[str]]]:
    """The tools of a caller's server, and the addresses that were connected to; all lead to `port` of this machine."""
    reached: list[str] = []

    async def lookup(_host: str, _port: int) -> Sequence[str]:
        return addresses

    def route(address: str, _port: int) -> tuple[str, int]:
        reached.append(address)
        return "127.0.0.1", port

    clock = SystemClock()
    clients = HttpClients(clock, endpoints=EndpointPolicy([TRUSTED]), resolver=lookup, route=route)
    settings = ToolSettings("McpServer", "demo", parameters={"first_wait_seconds": 30, **parameters})
    box = TOOL_TYPE.open(settings, ToolEnvironment(clock, clients, Path(), None))
    async with asyncio.timeout(DEADLINE_SECONDS):
        try:
            yield box, reached
        finally:
            await box.close()
            await clients.close()


async def test_tools_behind_a_trusted_url_are_found_and_called() -> None:
    async with mcp_http_demo() as server:
        await server.start()
        async with opened(server.port, url=f"http://localhost:{server.port}/mcp", headers={"X-Key": "k"}) as (
            box,
            reached,
        ):
            tools = {tool.spec.name: tool for tool in await box.tools()}
            assert await tools["add"].call({"a": 1, "b": 2}, CONTEXT) == (TextBlock("3"),)
        assert set(reached) == {PUBLIC}


async def test_a_name_that_leads_inside_is_not_reached() -> None:
    async with opened(9, ["10.0.0.1"], url="http://tools.example/mcp") as (box, reached):
        assert await box.tools() == ()
        assert box.problem() == (
            "the MCP server 'demo' is not connected: this endpoint may not be reached: "
            "its host is not on the public internet"
        )
    assert reached == []


@pytest.mark.parametrize("url", ["http://other.example/mcp", "http://127.0.0.1/mcp", "http://tools.example@evil.test/"])
async def test_a_url_that_is_not_trusted_is_refused_before_anything_is_opened(url: str) -> None:
    with pytest.raises(ConfigurationError, match="may not be reached"):
        async with opened(9, url=url):
            raise AssertionError("it was opened")


async def test_no_program_is_started_for_a_caller() -> None:
    with pytest.raises(ConfigurationError, match="is for the operator"):
        async with opened(9, command="true"):
            raise AssertionError("it was opened")
