"""What the conformance tests share: three real clients, an upstream on a real socket, and a gateway for each file.

A file lists its agents in `AGENTS` (and, where it needs any, its `SERVER` settings); the agent `openai` is there
always: chat completions from `upstream`, whose recorded requests are what reaches a provider. All of it lives in one
event loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.agui_client import CLIENT_VERSIONS, ClientVersion, NodeClients, agui_clients
from tests.case_tools import executions, python_tools
from tests.observed_runs import SECRET
from tests.openai_chat_server import ChatServer, chat_server
from tests.running_gateway import LocalGateway, agent, local_gateway

_numbers = itertools.count(1)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def node_clients() -> AsyncGenerator[dict[ClientVersion, NodeClients]]:
    """One Node process for each version of the client."""
    async with AsyncExitStack() as stack:
        started = await asyncio.gather(
            *(stack.enter_async_context(agui_clients(version)) for version in CLIENT_VERSIONS)
        )
        yield dict(zip(CLIENT_VERSIONS, started, strict=True))


@pytest_asyncio.fixture(loop_scope="session", params=CLIENT_VERSIONS)
async def clients(
    request: pytest.FixtureRequest, node_clients: dict[ClientVersion, NodeClients]
) -> AsyncGenerator[NodeClients]:
    """One version of the client, which must have nothing to complain about: 1.0.0 warns of everything that is odd."""
    chosen = node_clients[request.param]
    chosen.console.clear()
    chosen.unhandled.clear()
    yield chosen
    assert chosen.console == []
    assert chosen.unhandled == []


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _upstream() -> AsyncGenerator[ChatServer]:
    async with chat_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def upstream(_upstream: ChatServer) -> ChatServer:
    """A chat completions server; this test's requests alone are recorded in it."""
    _upstream.forget()
    return _upstream


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _upstream: ChatServer
) -> AsyncGenerator[LocalGateway]:
    """This file's gateway."""
    openai = {
        "model_provider": "openai/v1/chat/completions",
        "model_id": "m",
        "endpoint": _upstream.endpoint,
        "credential": {"openai_api_key": SECRET},
    }
    parameters = {"model_attempts": 1, "max_answer_bytes": 16_000_000}  # a frame has at most 10 MiB
    agents = [
        *getattr(request.module, "AGENTS", []),
        agent("openai", openai, tools=python_tools("add"), parameters=parameters),
    ]
    directory = tmp_path_factory.mktemp("gateway")
    async with local_gateway(directory, agents, server=getattr(request.module, "SERVER", None)) as running:
        yield running


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Ids that no other test has: `fresh("thread")`."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    executions.clear()
