"""What is measured, and what is to be reached."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.agents.stored import ABOUT, AGENTS, DEFINITION
from gateway.messages import JsonObject, Message, TextBlock
from gateway.owners import LOCAL_OWNER
from gateway.sqlite.address import Address
from gateway.sqlite.store import SqliteStore
from gateway.store import RunRecord, RunStatus, Thread
from tests.benchmarks.load import (
    Connection,
    KnownChat,
    KnownThread,
    ReplayedResponses,
    Target,
    chat_question,
    connections,
    frames_of,
    new_thread,
    responses_question,
)
from tests.benchmarks.measurements import (
    Amount,
    Row,
    Side,
    cpu_per_event,
    first_token_seconds,
    idle_streams,
    percentile,
)
from tests.benchmarks.server_process import Cores, ServerProcess, server_process

DELTAS = 200
_WORD_EVENTS = 5  # of a run that says one word
_WORD_CHUNKS = 4  # the same over Chat Completions
_KEPT_AT_ONCE = 1_000
_GATEWAY_MARK = b'"TEXT_MESSAGE_CONTENT"'
_UPSTREAM_MARK = b'"content":"'
_WORD_RESPONSE_EVENTS = 10  # and over Responses
_CHAT_PATH = "/v1/chat/completions"
_RESPONSES_PATH = "/v1/responses"
_OPENAI = (
    ("Chat Completions", _CHAT_PATH, chat_question, b'"delta":{"content":"'),
    ("Responses", _RESPONSES_PATH, responses_question, b'"response.output_text.delta"'),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much of it: `amount` for each comparison; the lists are what is varied."""

    amount: Amount
    concurrencies: tuple[int, ...]
    histories: tuple[int, ...]
    first_token_samples: int
    kept_threads: int
    stored_agents: int
    idle_streams: int
    idle_seconds: float


QUICK = Plan(Amount(3, 5_000), (10, 100), (2_000,), 150, 100_000, 10_000, 2_000, 3.0)
FULL = Plan(Amount(7, 30_000), (10, 100, 1_000), (1, 20, 2_000), 500, 100_000, 10_000, 2_000, 10.0)


@dataclass(frozen=True, slots=True)
class Servers:
    """All that run."""

    gateway: ServerProcess
    bare: ServerProcess
    upstream: ServerProcess
    directory: Path
    cores: Cores

    @contextlib.asynccontextmanager
    async def fresh_gateway(
        self, *, threads: int = 0, agents: int = 0, store: str | None = None, port: int = 0
    ) -> AsyncGenerator[ServerProcess]:
        """Another gateway: one that has served many streams has room for more already, and shows less growth. Its store
        is `store`, or a file with so many threads, and so many agents of callers. With a `port` it shares the store.
        """
        with tempfile.TemporaryDirectory(dir=self.directory) as name:
            directory = Path(name)
            configuration = json.loads((self.directory / "gateway.yaml").read_bytes())
            configuration |= {} if store is None else {"store": store}
            if port:
                configuration["server"]["port"] = port
                configuration["cluster"] = {"advertise": f"http://127.0.0.1:{port}"}
            (directory / "gateway.yaml").write_text(json.dumps(configuration))
            async with _written_store(directory) as written:
                await _keep_threads(written, threads)
                await _store_agents(written, agents, f"http://127.0.0.1:{self.upstream.port}/v1")
            async with _gateway(directory, self.cores) as gateway:
                yield gateway


@contextlib.asynccontextmanager
async def _written_store(directory: Path) -> AsyncGenerator[SqliteStore]:
    store = SqliteStore(Address(directory / "gateway.db"))
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def _keep_threads(store: SqliteStore, count: int) -> None:
    """Threads as runs left them, every tenth of which is to expire one day."""
    now = time.time()
    for first in range(0, count, _KEPT_AT_ONCE):
        numbers = range(first, min(first + _KEPT_AT_ONCE, count))
        await asyncio.gather(*[store.begin_run(*kept_run(number, now), keep=0) for number in numbers])


async def _store_agents(store: SqliteStore, count: int, upstream_url: str) -> None:
    """Agents as a caller made them, whose model says one word."""
    definition: JsonObject = {"name": "stored", "model": _chat_model("1-0", upstream_url)}
    about: JsonObject = {"ml_commons": {"kind": "conversational", "memory": "conversation_index"}}
    shown: JsonObject = {"name": "stored", "type": "conversational", "tools": [{"type": "ListIndexTool"}]}
    body: JsonObject = {**shown, DEFINITION: definition, ABOUT: about}
    for first in range(0, count, _KEPT_AT_ONCE):
        names = [f"stored-{number}" for number in range(first, min(first + _KEPT_AT_ONCE, count))]
        await asyncio.gather(*[store.documents.put(AGENTS, name, LOCAL_OWNER, body) for name in names])
    if count:
        body = {**body, ABOUT: {**about, "collection": "container"}}
        await store.documents.put(AGENTS, "collected", LOCAL_OWNER, body)


def kept_run(number: int, now: float) -> tuple[RunRecord, Thread]:
    name, message = f"kept-{number}", Message(f"m{number}", "user", (TextBlock("What is a gateway?"),))
    run = RunRecord(LOCAL_OWNER, name, name, "text", RunStatus.COMPLETED, now, now, now)
    expires_at = None if number % 10 else now + 86_400
    return run, Thread(LOCAL_OWNER, name, "text", now, now, "A title", (message,), expires_at=expires_at)


def _gateway(directory: Path, cores: Cores) -> contextlib.AbstractAsyncContextManager[ServerProcess]:
    configuration = str(directory / "gateway.yaml")
    return server_process("gateway", "serve", "--config", configuration, directory=directory, cores=cores.server)


@contextlib.asynccontextmanager
async def running_servers(directory: Path, cores: Cores) -> AsyncGenerator[Servers]:
    """The gateway with its default store in `directory`, the bare applications, the upstream."""
    async with server_process("tests.benchmarks.upstream_server", directory=directory, cores=cores.others) as upstream:
        url = f"http://127.0.0.1:{upstream.port}/v1"
        (directory / "gateway.yaml").write_text(json.dumps(_configuration(url)))
        async with _gateway(directory, cores) as gateway:
            frames = directory / "frames.json"
            frames.write_text(json.dumps(await _recorded(gateway)))
            async with server_process(
                "tests.benchmarks.bare_server", str(frames), url, directory=directory, cores=cores.server
            ) as bare:
                yield Servers(gateway, bare, upstream, directory, cores)


def _configuration(upstream_url: str) -> dict[str, Any]:
    text = [{"text": "word ", "repeat": DELTAS}]
    call = [{"tool": "ListIndexTool", "arguments": {}}]
    return {
        "server": {"host": "127.0.0.1", "port": 0, "log_level": "warning", "drain_seconds": 1},
        "store": "sqlite:///gateway.db",
        "search": "embedded:sample",
        "agents": [
            _scripted("text", [text], switch_every_delta=True),
            _scripted("batch", [text]),
            _scripted("word", [[{"text": "word"}]]),
            _scripted("tool", [call, [{"text": "word ", "repeat": 100}]], switch_every_delta=True, tools=True),
            _scripted("tick", [[{"text": "word ", "repeat": 120, "delta_seconds": 1}]]),
            *(_chat(model, upstream_url) for model in (f"{DELTAS}-0", f"{DELTAS}-1", "20-1", "1000-2", "120-1000")),
        ],
        "callers": {"endpoints": [f"^{re.escape(upstream_url)}.*$"], "private_addresses": True},
    }


def _scripted(id: str, responses: list[Any], *, tools: bool = False, **more: Any) -> dict[str, Any]:
    model = {"model_provider": "scripted", "model_id": id, "model_parameters": {"responses": responses, **more}}
    return {"id": id, "model": model, "tools": [{"type": "ListIndexTool"}] if tools else []}


def _chat(model: str, url: str) -> dict[str, Any]:
    return {"id": f"chat-{model}", "model": _chat_model(model, url)}


def _chat_model(model: str, url: str) -> dict[str, Any]:
    return {
        "model_provider": "openai/v1/chat/completions",
        "model_id": model,
        "endpoint": url,
        "credential": {"openai_api_key": "none"},
    }


_BURST = f"chat-{DELTAS}-0"
_RECORDED = ("text", "batch", "tool", _BURST)


async def _recorded(gateway: ServerProcess) -> dict[str, list[str]]:
    """What the gateway sends, for the bare application to send the same."""
    frames: dict[str, list[str]] = {}
    for agent in _RECORDED:
        async with connections(gateway.port, 1) as (connection,):
            answer = await connection.run(_run(gateway, agent))
            frames[agent] = [frame.decode() for frame in frames_of(answer)]
    return frames


def _question(number: int) -> bytes:
    return b'{"input": "What is a gateway?"}'


def _run(gateway: ServerProcess, agent: str, body: Callable[[int], bytes] | None = None) -> Target:
    return Target(gateway.port, f"/agents/{agent}/run", body or new_thread())


async def check_answers(servers: Servers) -> dict[str, int]:
    """One run of everything; how many events each gave. For tests: nothing here measures."""
    counts: dict[str, int] = {}
    paths = [f"/replay/{name}" for name in _RECORDED] + [f"/relay/{DELTAS}-0"]
    for server, targets in (
        (servers.gateway, [_run(servers.gateway, agent) for agent in _RECORDED]),
        (servers.bare, [Target(servers.bare.port, path, new_thread()) for path in paths]),
    ):
        async with connections(server.port, 1) as (connection,):
            for target in targets:
                counts[target.path] = await _events(connection, target)
    return counts


async def _events(connection: Connection, target: Target) -> int:
    return (await connection.run(target)).count(b"data: ")


class Benchmarks:
    """The measurements, one after the other."""

    def __init__(self, servers: Servers, plan: Plan, report: Callable[[Row], None]) -> None:
        self._servers = servers
        self._plan = plan
        self._report = report

    async def run(self, only: str = "") -> None:
        """Those whose name has `only` in it."""
        for name, measure in MEASUREMENTS.items():
            if only in name:
                await measure(self)

    async def text(self) -> None:
        await self._compare(f"text run, {DELTAS} deltas, a task switch before each", "text", target="<= 2.0x")
        await self._compare(f"text run, {DELTAS} deltas in one batch", "batch")

    async def tool(self) -> None:
        await self._compare("backend-tool run, then 100 deltas", "tool", target="<= 2.0x")

    async def history(self) -> None:
        name = "history of 200 messages (60 KB)"
        await self._compare(f"{name}, known thread", "text", body=KnownThread(200), target="<= 2.0x")
        await self._compare(f"{name}, new thread each", "text", body=new_thread(200), target="<= 2.0x")

    async def upstream(self) -> None:
        await self._compare("through the upstream, one burst", _BURST, target="<= 1.2x")
        relay = Target(self._servers.bare.port, f"/relay/{DELTAS}-1", new_thread())
        await self._compare("through the upstream, 1 ms apart (bare: relay)", f"chat-{DELTAS}-1", relay, "<= 2.0x")

    async def first_token(self) -> None:
        upstream, gateway = self._servers.upstream, self._servers.gateway
        direct = Target(upstream.port, "/v1/chat/completions", lambda _: b'{"model":"20-1"}')
        own, ours = await first_token_seconds(
            [(Side(upstream, direct), _UPSTREAM_MARK), (Side(gateway, _run(gateway, "chat-20-1")), _GATEWAY_MARK)],
            self._plan.first_token_samples,
        )
        for name, share, target in (("p50", 0.5, "<= 1.5 ms"), ("p99", 0.99, None)):
            one, other = percentile(own, share) * 1e3, percentile(ours, share) * 1e3
            added = f"+{other - one:.2f} ms"
            self._report(Row(f"time to the first token {name} (bare: the upstream)", one, other, "ms", added, target))

    async def concurrency(self) -> None:
        for count in self._plan.concurrencies:
            await self._compare(f"text run, {count} streams at once", "text", concurrency=count, target="<= 2.0x")

    async def history_length(self) -> None:
        for count in self._plan.histories:
            body = KnownThread(count)
            await self._compare(f"history of {count} messages, known thread", "text", body=body, target="<= 2.0x")

    async def start(self) -> None:
        count = self._plan.kept_threads
        servers = self._servers
        async with servers.fresh_gateway() as empty, servers.fresh_gateway(threads=count) as full:
            await self._compare_starts(empty, full, "word", f"a run of one word, beside {count:,} threads")

    async def stored(self) -> None:
        threads, agents, servers = self._plan.kept_threads, self._plan.stored_agents, self._servers
        async with (
            servers.fresh_gateway(agents=1) as one,
            servers.fresh_gateway(threads=threads, agents=agents) as full,
        ):
            await self._compare_starts(one, full, "stored-0", f"a stored agent's run, beside {agents:,} agents")

    async def collected(self) -> None:
        """What it costs that a search finds the messages of a run."""
        async with self._servers.fresh_gateway(agents=1) as server:
            sides = [Side(server, _run(server, agent)) for agent in ("stored-0", "collected")]
            bare, ours = await cpu_per_event(sides, self._plan.amount, concurrency=1, events_per_run=_WORD_EVENTS)
        name = "a stored agent's run in a memory container (bare: in none)"
        self._report(Row(name, bare * _WORD_EVENTS, ours * _WORD_EVENTS, "us/run", f"{ours / bare:.2f}x"))

    async def ml_commons(self) -> None:
        """`_execute` and `_execute/stream` beside the run endpoint: an answer, chunks, AG-UI by another path."""
        for agent, events, name in (("word", _WORD_EVENTS, "one word"), ("text", DELTAS, f"{DELTAS} deltas")):
            await self._executed_beside_run(agent, events, f"_execute of an answer of {name}")
        own = [("a task switch before each", "text"), ("in one batch", "batch"), ("through the upstream", _BURST)]
        for name, agent in own:
            await self._beside_ag_ui(f"{DELTAS} deltas as ml-commons' chunks, {name}", agent, _question, "<= 1.5x")
        known = "AG-UI on _execute/stream, 200 messages, known thread"
        await self._beside_ag_ui(known, "text", KnownThread(200), "<= 1.1x", KnownThread(200))

    async def openai_api(self) -> None:
        """Chat Completions and Responses beside the run endpoint: streams, bodies, first words, known histories."""
        own = [("a task switch before each", "text"), ("in one batch", "batch"), ("through the upstream", _BURST)]
        for name, path, question, mark in _OPENAI:
            for how, agent in own:
                row = f"{DELTAS} deltas over {name}, {how}"
                await self._beside_ag_ui(row, agent, question(agent, stream=True), "<= 1.5x", path=path)
            for agent, events, what in (("word", _WORD_EVENTS, "one word"), ("text", DELTAS, f"{DELTAS} deltas")):
                body = question(agent, stream=False)
                await self._executed_beside_run(agent, events, f"a body of {name}, {what}", path, body)
            await self._first_beside_ag_ui(name, path, question("chat-20-1", stream=True), mark)
        for count in self._plan.histories:
            await self._recognised(count)

    async def _recognised(self, count: int) -> None:
        server = self._servers.gateway
        chat = Target(server.port, _CHAT_PATH, KnownChat(count, "word"))
        responses = Target(server.port, _RESPONSES_PATH, ReplayedResponses(count, "word"))
        sides = [Side(server, _run(server, "word", KnownThread(count))), Side(server, chat), Side(server, responses)]
        found = await cpu_per_event(sides, self._plan.amount, concurrency=1, events_per_run=_WORD_EVENTS)
        known = found[0] * _WORD_EVENTS
        for name, ours in (
            ("Chat Completions", found[1] * _WORD_CHUNKS),
            ("Responses", found[2] * _WORD_RESPONSE_EVENTS),
        ):
            title = f"one word behind {count} messages, recognised by {name} (bare: AG-UI, known thread)"
            self._report(Row(title, known, ours, "us/run", f"{ours / known:.2f}x", "<= 2.0x"))

    async def _first_beside_ag_ui(self, name: str, path: str, body: Callable[[int], bytes], mark: bytes) -> None:
        server = self._servers.gateway
        sides = [
            (Side(server, _run(server, "chat-20-1")), _GATEWAY_MARK),
            (Side(server, Target(server.port, path, body)), mark),
        ]
        ag_ui, ours = await first_token_seconds(sides, self._plan.first_token_samples)
        one, other = percentile(ag_ui, 0.5) * 1e3, percentile(ours, 0.5) * 1e3
        title = f"time to the first token of {name} p50 (bare: the run endpoint)"
        self._report(Row(title, one, other, "ms", f"+{other - one:.2f} ms"))

    async def _executed_beside_run(
        self, agent: str, events: int, name: str, path: str = "", body: Callable[[int], bytes] = _question
    ) -> None:
        server = self._servers.gateway
        path = path or f"/_plugins/_ml/agents/{agent}/_execute"
        sides = [Side(server, _run(server, agent)), Side(server, Target(server.port, path, body, events))]
        run, ours = await cpu_per_event(sides, self._plan.amount, concurrency=1, events_per_run=events)
        row = Row(f"{name} (bare: the run endpoint)", run * events, ours * events, "us/run", f"{ours / run:.2f}x")
        self._report(row)

    async def _beside_ag_ui(
        self,
        name: str,
        agent: str,
        body: Callable[[int], bytes],
        target: str,
        ag_ui_body: Callable[[int], bytes] | None = None,
        *,
        path: str = "",
    ) -> None:
        server = self._servers.gateway
        streamed = Target(server.port, path or f"/_plugins/_ml/agents/{agent}/_execute/stream", body)
        sides = [Side(server, _run(server, agent, ag_ui_body)), Side(server, streamed)]
        ag_ui, ours = await cpu_per_event(sides, self._plan.amount, concurrency=1, events_per_run=DELTAS)
        self._report(Row(f"{name} (bare: the run endpoint)", ag_ui, ours, "us/event", f"{ours / ag_ui:.2f}x", target))

    async def _compare_starts(self, empty: ServerProcess, full: ServerProcess, agent: str, name: str) -> None:
        sides = [Side(server, _run(server, agent)) for server in (empty, full)]
        bare, ours = await cpu_per_event(sides, self._plan.amount, concurrency=1, events_per_run=_WORD_EVENTS)
        name = f"{name} (bare: an empty store)"
        ratio = f"{ours / bare:.2f}x"
        self._report(Row(name, bare * _WORD_EVENTS, ours * _WORD_EVENTS, "us/run", ratio, "<= 1.1x"))

    async def idle(self) -> None:
        servers, plan, count = self._servers, self._plan, self._plan.idle_streams
        bare_side = Side(servers.bare, Target(servers.bare.port, "/tick", new_thread()))
        bare = await idle_streams(bare_side, count, plan.idle_seconds)
        for agent, name in (("tick", ""), ("chat-120-1000", ", each through the upstream")):
            async with servers.fresh_gateway() as gateway:
                ours = await idle_streams(Side(gateway, _run(gateway, agent)), count, plan.idle_seconds)
            title = f"{count} idle streams{name}"
            used, others = ours.kilobytes_each, bare.kilobytes_each
            target = None if name else "<= 45 KB"
            self._report(Row(f"{title}: memory of each", others, used, "KB", f"{used:.1f} KB", target))
            own, other = ours.microseconds_per_event, bare.microseconds_per_event
            self._report(Row(title, other, own, "us/event", f"{own / other:.2f}x" if other else "-"))

    async def _compare(
        self,
        name: str,
        agent: str,
        bare_target: Target | None = None,
        target: str | None = None,
        *,
        concurrency: int = 1,
        body: Callable[[int], bytes] | None = None,
    ) -> None:
        servers = self._servers
        replay = Target(servers.bare.port, f"/replay/{agent}", body or new_thread())
        sides = [
            Side(servers.bare, bare_target or replay),
            Side(servers.gateway, _run(servers.gateway, agent, body)),
        ]
        bare, ours = await cpu_per_event(sides, self._plan.amount, concurrency=concurrency, events_per_run=DELTAS)
        self._report(Row(name, bare, ours, "us/event", f"{ours / bare:.2f}x", target))


MEASUREMENTS: Final[Mapping[str, Callable[[Benchmarks], Awaitable[None]]]] = {
    "text": Benchmarks.text,
    "tool": Benchmarks.tool,
    "history": Benchmarks.history,
    "upstream": Benchmarks.upstream,
    "first": Benchmarks.first_token,
    "concurrency": Benchmarks.concurrency,
    "length": Benchmarks.history_length,
    "start": Benchmarks.start,
    "stored": Benchmarks.stored,
    "collected": Benchmarks.collected,
    "idle": Benchmarks.idle,
    "ml_commons": Benchmarks.ml_commons,
    "openai": Benchmarks.openai_api,
}
"""By name, in their order."""
