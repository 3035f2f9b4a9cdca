"""What fault tests are played with: agents that stop at known places, tools that count, checks for the end of it all.

    async with local_gateway(tmp_path, [talker()], server=SERVER) as gateway:
        ...
        await check_ended(gateway, "run-1", "cancelled")

Below: running_gateway, observed_runs, invariants.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.clock import SystemClock
from gateway.history.model_view import model_view
from gateway.store import NumberedEvent, Store, StoreEnvironment
from gateway.tool import ToolContext
from tests.ag_ui_verifier import SentEvent, read_stream, verify_server
from tests.invariants import check_history, check_log, check_nothing_leaks, check_thread
from tests.observed_runs import OWNER, check_run
from tests.openai_chat_server import ChatServer
from tests.pieces import rows_of_pieces
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, run_body, scripted
from tests.stored_samples import CLUSTER_KEY, STORE_TYPES
from tests.waiting import until

SECRET = "sk-fault-test-secret-0123"
SERVER: dict[str, Any] = {"drain_seconds": 0, "disconnect_grace_seconds": 30, "heartbeat_seconds": 15}
"""Nobody waits for runs that hang when a test's gateway is closed."""

WORDS = "one two three "
_PAGE = 100_000

executions: Counter[str] = Counter()
"""How often each call really ran, by its id."""


# --- agents ----------------------------------------------------------------------------------------------------------


def talker(id: str = "talker", **more: Any) -> dict[str, Any]:
    """Says `WORDS`, then hangs until somebody stops it."""
    return agent(id, scripted([{"text": WORDS, "chunk_characters": 4}, {"hang": True}]), **more)


def pausing(id: str = "pausing", *, seconds: float = 5, **more: Any) -> dict[str, Any]:
    """Says `WORDS`, waits for that long by the clock, says it again, ends."""
    said = {"text": WORDS, "chunk_characters": 4}
    return agent(id, scripted([said, {"delay_seconds": seconds}, {"text": "and four"}]), **more)


def upstream_agent(upstream: ChatServer, id: str = "upstream", **more: Any) -> dict[str, Any]:
    """Chat completions from a local server."""
    model = {
        "model_provider": "openai/v1/chat/completions",
        "model_id": "m",
        "endpoint": upstream.endpoint,
        "credential": {"openai_api_key": SECRET},
    }
    return agent(id, model, **more)


def fault_tool(name: str, **more: Any) -> dict[str, Any]:
    """The configuration of one of the tools below."""
    return {"type": "PythonTool", "name": name, "parameters": {"function": f"tests.fault_scenes:{name}"}, **more}


# --- tools -----------------------------------------------------------------------------------------------------------


async def add(a: float, b: float, context: ToolContext) -> float:
    """Add two numbers."""
    executions[context.call_id] += 1
    return a + b


async def stuck(context: ToolContext) -> str:
    """Never come to an end."""
    executions[context.call_id] += 1
    await asyncio.get_running_loop().create_future()
    return "never"


release = threading.Event()


def blocked(context: ToolContext) -> str:
    """Hold a thread until a test lets it go."""
    executions[context.call_id] += 1
    release.wait(DEADLINE_SECONDS)
    return "let go"


async def stubborn(context: ToolContext) -> str:
    """Take no notice of being cancelled, as long as a test likes."""
    executions[context.call_id] += 1
    while not release.is_set():
        try:
            await asyncio.to_thread(release.wait, DEADLINE_SECONDS)
        except asyncio.CancelledError:
            continue
    return "let go"


async def leave(context: ToolContext) -> str:
    """End the whole process, as it thinks."""
    executions[context.call_id] += 1
    raise SystemExit(3)


async def interrupt(context: ToolContext) -> str:
    """Press Ctrl-C, as it thinks."""
    executions[context.call_id] += 1
    raise KeyboardInterrupt


async def self_cancel(context: ToolContext) -> str:
    """Let its own cancellation out."""
    executions[context.call_id] += 1
    raise asyncio.CancelledError


async def fail(context: ToolContext) -> str:
    """Always fail."""
    executions[context.call_id] += 1
    raise RuntimeError("the shelf is empty")


async def flood(context: ToolContext) -> str:
    """Give far more than anybody can use."""
    executions[context.call_id] += 1
    return "x" * 20_000_000


async def binary(context: ToolContext) -> bytes:
    """Give bytes that are no text."""
    executions[context.call_id] += 1
    return bytes(range(256))


# --- how it ended ----------------------------------------------------------------------------------------------------


async def check_ended(
    gateway: LocalGateway, run_id: str, status: str, *, code: str | None = None
) -> list[NumberedEvent]:
    """Wait for a run's end, hold it against every invariant, give its log."""
    run = await gateway.client.until_status(run_id, "completed", "interrupted", "cancelled", "failed")
    assert (run["status"], (run["error"] or {}).get("code")) == (status, code), run
    await until(lambda: (OWNER, run_id) not in gateway.application.runner._runs)
    log = await check_run(gateway, run_id)
    replay = await gateway.client.http.get(f"/runs/{run_id}/events")
    sent = read_stream(replay.content)
    verify_server([each.event for each in sent], thread_id=run["threadId"], run_id=run_id)
    check_nothing_leaks(replay.content, [SECRET])
    return log


async def replayed(gateway: LocalGateway, run_id: str, *, after: int = 0) -> list[SentEvent]:
    """A run's events again, from the log or as far as it has come."""
    async with gateway.client.events(run_id, after=after) as stream:
        assert stream.response.status_code == 200
        await stream.rest()
        return read_stream(bytes(stream.body))


async def check_free(gateway: LocalGateway, agent_id: str, thread_id: str, run_id: str = "next") -> None:
    """The thread takes another run: nobody holds its lock."""
    async with gateway.client.stream(agent_id, run_body(thread_id=thread_id, run_id=run_id)) as stream:
        assert stream.response.status_code == 200
        await stream.until("RUN_STARTED")
        await gateway.client.http.post(f"/runs/{run_id}/cancel")
        await stream.rest()


@asynccontextmanager
async def store_at(directory: Path, url: str = "sqlite:///gateway.db") -> AsyncGenerator[Store]:
    """The store of a gateway that is no more."""
    kind = STORE_TYPES[url.partition(":")[0]]
    store = kind.open(url, StoreEnvironment(SystemClock(), directory, (CLUSTER_KEY,)))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def check_kept(
    store: Store, run_id: str, *, seen: Sequence[Mapping[str, Any]] = (), backend_tools: Sequence[str] = ()
) -> list[NumberedEvent]:
    """A run in a store that no gateway has open: every invariant, as far as the store alone can say."""
    record = await store.load_run(OWNER, run_id)
    assert record is not None
    assert record.status.ended, record.status
    log = rows_of_pieces(await store.read_events(OWNER, run_id, after=0, limit=_PAGE))
    check_log(log, backend_tools=backend_tools)
    thread = await store.load_thread(OWNER, record.thread_id)
    assert thread is not None
    if thread.last_run_id == run_id:
        check_thread(log, thread.messages)
    check_history(model_view(thread.messages))
    return log
