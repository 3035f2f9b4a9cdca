"""Many streams to model providers in one process: what they share, who stops their reading, what becomes of sockets.

Real sockets with TLS, a server that speaks ConverseStream, the real store. Nothing is judged by time.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import aiohttp
import pytest

from gateway.agent import AgentDefinition, Budgets, ModelSettings, Secret
from gateway.agents.open_agent import OpenAgent
from gateway.clock import SystemClock
from gateway.events import RunFinished, TextDelta
from gateway.http_client.clients import HttpClients
from gateway.loops.react import ReactLoop
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from gateway.parts import collect
from gateway.runs.driver import RunOptions
from tests.bedrock_server import ACCESS_KEY, REGION, SECRET_KEY, block_stop, event, message_stop, metadata, text
from tests.local_certificate import tls_contexts, write_certificate
from tests.local_listener import listening, port_of
from tests.runner_scene import OWNER, end_of, question, read, runner_scene
from tests.running_gateway import agent, gateway_process, scripted, write_configuration
from tests.waiting import until

REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("hello"),)),))
START = event("messageStart", role="assistant")
END = block_stop() + message_stop() + metadata()
WORDS = "x" * 8192
DELTAS = 4_000
MOST_UNKEPT = 20
DEADLINE_SECONDS = 30.0
STREAMS = 300


class Provider:
    """Answers each request with `deltas` texts; with `held` they wait, behind the first, until it is set."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.deltas = 1
        self.words = "hello "
        self.held: asyncio.Event | None = None
        self.answering = 0
        self.sent = 0
        self.blocked = False
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
                await self._answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client left
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        head = (
            b"HTTP/1.1 200 X\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        delta = text(self.words)
        writer.write(head + _chunk(START + delta))
        self.sent = 1
        self.answering += 1
        if self.held is not None:
            await self.held.wait()
        for sent in range(2, self.deltas + 1):
            writer.write(_chunk(delta))
            self.sent = sent
            self.blocked = True
            await writer.drain()
            self.blocked = False
        writer.write(_chunk(END) + b"0\r\n\r\n")
        self.answering -= 1
        await writer.drain()

    @property
    def closed_by_client(self) -> int:
        """Of the connections that an answer is sent over."""
        return sum(writer.transport.is_closing() for writer in self._writers)

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "certificate.pem", "localhost")


@contextlib.asynccontextmanager
async def running_provider(certificate: Path) -> AsyncGenerator[Provider]:
    provider = Provider()
    async with listening(provider.serve, tls_contexts(certificate)[0], backlog=1024) as listener:
        # else the system lets it grow to megabytes
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        provider.url = f"https://localhost:{port_of(listener)}"
        try:
            yield provider
        finally:
            provider.drop_connections()


@pytest.fixture
async def provider(certificate: Path) -> AsyncGenerator[Provider]:
    async with running_provider(certificate) as running:
        yield running


@pytest.fixture
async def http(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[HttpClients]:
    """As the gateway opens it: the authorities are read at the first call."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    clients = HttpClients(SystemClock())
    yield clients
    await clients.close()


def open_model(provider: Provider, http: HttpClients, model_id: str = "model") -> Model:
    keys = {"access_key": Secret(ACCESS_KEY), "secret_key": Secret(SECRET_KEY)}
    settings = ModelSettings("bedrock/converse", model_id, endpoint=provider.url, region=REGION, credential=keys)
    return collect("models", ModelProvider)["bedrock/converse"].open(settings, ModelEnvironment(SystemClock(), http))


async def ask(model: Model) -> str:
    """What it says."""
    events = [event async for batch in model.stream(REQUEST) for event in batch]
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def ask_all(models: Sequence[Model]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        assert set(await asyncio.gather(*map(ask, models))) == {"hello "}


async def open_connections(provider: Provider, http: HttpClients, count: int) -> None:
    """So many, that are free again."""
    provider.held = asyncio.Event()
    asked = asyncio.create_task(ask_all([open_model(provider, http)] * count))
    await until(lambda: provider.answering == count or asked.done())
    provider.held.set()
    await asked
    provider.held, provider.sent = None, 0
    assert provider.connections == count


def alive(kind: type) -> int:
    """How many there are of the class, in the whole process."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


# --- what streams share


@pytest.mark.thorough
async def test_models_of_an_endpoint_share_one_client_and_all_endpoints_one_tls_context(
    provider: Provider, http: HttpClients, certificate: Path
) -> None:
    async with running_provider(certificate) as other:
        models = [open_model(provider, http, f"model-{number}") for number in range(20)]
        sessions = alive(aiohttp.ClientSession)
        await ask_all(models[:1])
        contexts = alive(ssl.SSLContext)  # counted only now: the first call of a process may make some for good
        for _ in range(3):
            await ask_all(models)
        assert alive(aiohttp.ClientSession) == sessions + 1
        await ask_all([open_model(other, http), *models])
        assert alive(aiohttp.ClientSession) == sessions + 2
        assert alive(ssl.SSLContext) == contexts


async def test_streams_that_are_open_together_need_no_thread_of_their_own(
    provider: Provider, http: HttpClients
) -> None:
    model = open_model(provider, http)
    before = threading.active_count()
    provider.held = asyncio.Event()
    asked = asyncio.create_task(ask_all([model] * STREAMS))
    await until(lambda: provider.answering == STREAMS or asked.done())
    assert provider.answering == STREAMS
    # names are looked up in the event loop's own pool, which has a size whatever is asked of it
    assert threading.active_count() - before <= min(32, (os.cpu_count() or 1) + 4) < STREAMS / 5
    provider.held.set()
    await asked


async def test_connections_serve_one_answer_after_the_other(provider: Provider, http: HttpClients) -> None:
    await open_connections(provider, http, 30)
    for number in range(3):
        await ask_all([open_model(provider, http, f"model-{number}")] * 30)
    assert provider.connections == 30


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="reads Linux's /proc")
async def test_a_gateway_has_files_for_thousands_of_sockets_where_the_system_lets_it(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    configuration = write_configuration(tmp_path, [agent("agent", scripted([{"text": "hello"}]))])
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))  # which what is started has from here
    try:
        async with gateway_process(configuration) as gateway:
            limits = await asyncio.to_thread(Path(f"/proc/{gateway.process.pid}/limits").read_text)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    allowed = line.split()[3]
    assert int(allowed) >= (65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)) > 512


# --- who stops the reading


def agent_of(model: Model) -> OpenAgent:
    settings = ModelSettings("bedrock/converse", "model")
    room = Budgets(max_answer_bytes=1_000_000_000, max_run_bytes=1_000_000_000)
    definition = AgentDefinition("agent", "agent", "conversational", settings, budgets=room)
    return OpenAgent(definition, ReactLoop(), model, [])


async def until_stuck_or_done(provider: Provider) -> None:
    """Until the provider has said everything, or has not got on for a long time of the event loop's own."""
    turns, sent = 0, 0
    while turns < 3_000 and (provider.answering or not provider.sent):
        turns, sent = (0, provider.sent) if provider.sent != sent or not provider.blocked else (turns + 1, sent)
        await asyncio.sleep(0)


async def test_a_viewer_that_reads_nothing_does_not_stop_the_reading_from_the_provider(
    provider: Provider, http: HttpClients
) -> None:
    await open_connections(provider, http, 1)
    provider.deltas, provider.words = DELTAS, WORDS
    options = RunOptions(max_unkept_events=MOST_UNKEPT, max_viewer_events=10)
    async with runner_scene(agent_of(open_model(provider, http)), options=options) as scene:
        await scene.start("agent", question())
        await scene.until_idle()
        assert provider.sent == DELTAS
        kept = await scene.kept_events("r")
        assert sum(len(event.text) for event in kept if isinstance(event, TextDelta)) == DELTAS * len(WORDS)


async def test_a_store_that_keeps_nothing_stops_the_reading_until_it_does(
    provider: Provider, http: HttpClients
) -> None:
    """Its back-pressure goes through the HTTP client and TLS into the socket's window: the provider cannot write."""
    await open_connections(provider, http, 1)
    provider.deltas, provider.words = DELTAS, WORDS
    options = RunOptions(max_unkept_events=MOST_UNKEPT, max_viewer_events=10 * DELTAS)
    async with runner_scene(agent_of(open_model(provider, http)), options=options) as scene:
        scene.store.hold("append_events")
        viewer = await scene.start("agent", question())
        await until_stuck_or_done(provider)
        assert provider.blocked
        assert provider.sent < DELTAS / 2, "what fits into the buffers on the way, and no more"
        scene.store.release("append_events")
        events = await read(viewer)
        assert isinstance(end_of(events), RunFinished)
        assert sum(len(event.text) for event in events if isinstance(event, TextDelta)) == DELTAS * len(WORDS)


# --- what becomes of sockets


async def test_a_run_that_is_stopped_closes_its_socket_and_leaves_the_others(
    provider: Provider, http: HttpClients
) -> None:
    await open_connections(provider, http, 2)
    provider.held = asyncio.Event()
    model = open_model(provider, http)
    async with runner_scene(agent_of(model)) as scene:
        other = asyncio.create_task(ask(model))
        viewer = await scene.start("agent", question())
        await until(lambda: provider.answering == 2)
        await scene.runner.cancel(OWNER, "r")
        await read(viewer)
        await until(lambda: provider.closed_by_client)
        assert provider.closed_by_client == 1
        provider.held.set()
        async with asyncio.timeout(DEADLINE_SECONDS):
            assert await other == "hello "
