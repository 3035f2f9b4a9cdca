"""Words that come faster than the commit window closes are read together, whoever the provider is.

Real models and sockets, with TLS where the provider has it. The windows close when the tests say so: nothing is judged
by time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.commit_window import CommitWindow
from gateway.events import Events, ModelCallEnded, TextDelta, TextEnded, TextStarted
from gateway.http_client.clients import HttpClients
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from gateway.parts import collect
from tests.benchmarks.provider_wires import BEDROCK_REGION, WIRES, Wire, word
from tests.local_certificate import tls_contexts, write_certificate
from tests.local_listener import listening, port_of
from tests.waiting import until

DEADLINE_SECONDS = 20
ENDLESS = 1000.0
WORDS = 6
REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("Hi"),)),))


@dataclass(frozen=True, slots=True)
class Case:
    """A provider's wire, and how its answer is asked for."""

    wire: Wire
    request: ModelRequest = REQUEST
    background: bool = False


WIRE_OF = {wire.provider: wire for wire in WIRES}
CASES = {
    **{provider: Case(wire) for provider, wire in WIRE_OF.items()},
    "in the background": Case(WIRE_OF["openai/v1/responses"], background=True),
    "taken up again": Case(WIRE_OF["openai/v1/responses"], replace(REQUEST, accepted="resp_1"), background=True),
}


class Provider:
    """Answers with one word; `go`: then with the others, each in a write of its own; `end`: then it ends."""

    def __init__(self, wire: Wire) -> None:
        self.go, self.said, self.end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._wire = wire

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if b"content-length:" in head:
            await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        head = b"HTTP/1.1 200 X\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head % self._wire.content_type.encode() + _chunk(self._wire.opening + self._wire.delta(0)))
        await self.go.wait()
        for number in range(1, WORDS):
            writer.write(_chunk(self._wire.delta(number)))
            await writer.drain()
            await asyncio.sleep(0)
        self.said.set()
        await self.end.wait()
        writer.write(_chunk(self._wire.ending) + b"0\r\n\r\n")
        writer.close()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "certificate.pem", "localhost")


@dataclass(frozen=True, slots=True)
class Scene:
    """A provider that answers, the model that asks it, and the windows in which its reader waits."""

    provider: Provider
    model: Model
    window: CommitWindow

    async def waits(self) -> None:
        """Until the reader waits for the window to close."""
        await until(lambda: self.window._timer is not None)

    def close_window(self) -> None:
        assert self.window._timer is not None
        self.window._timer.cancel()
        self.window._time_up()


@asynccontextmanager
async def scene_of(case: Case, certificate: Path, seconds: float = ENDLESS) -> AsyncGenerator[Scene]:
    wire, (server_tls, client_tls) = case.wire, tls_contexts(certificate)
    clock = SystemClock()
    http = HttpClients(clock, tls=client_tls)
    provider = Provider(wire)
    async with (
        asyncio.timeout(DEADLINE_SECONDS),
        listening(provider.serve, server_tls if wire.tls else None) as listener,
    ):
        settings = ModelSettings(
            wire.provider,
            "model",
            endpoint=f"{'https' if wire.tls else 'http'}://localhost:{port_of(listener)}{wire.base}",
            region=BEDROCK_REGION if wire.tls else None,
            credential={name: Secret(value) for name, value in wire.credential.items()},
            background=case.background,
        )
        window = CommitWindow(seconds)
        model = collect("models", ModelProvider)[wire.provider].open(settings, ModelEnvironment(clock, http, window))
        try:
            yield Scene(provider, model, window)
        finally:
            await model.close()
            await http.close()


def said(events: Events) -> list[str]:
    return [text for event in events if type(event) is TextDelta for text in event.texts]


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


async def test_words_that_come_fast_are_left_alone_until_the_window_closes(case: Case, certificate: Path) -> None:
    async with scene_of(case, certificate) as scene, aclosing(scene.model.stream(case.request)) as batches:
        events: Events = []
        while not said(events):
            events += await anext(batches)
        assert type(events[-2]) is TextStarted, "the first word waits for no window"
        reading = asyncio.ensure_future(anext(batches))
        await scene.waits()
        scene.provider.go.set()
        await scene.provider.said.wait()
        assert not reading.done()
        scene.close_window()
        events += await reading
        if not case.wire.tls:  # what TLS has read by then and what not is its own affair
            assert said(events) == [word(number) for number in range(WORDS)]
        scene.provider.end.set()
        while type(events[-1]) is not ModelCallEnded:
            reading = asyncio.ensure_future(anext(batches))
            while not reading.done():
                if scene.window._timer is not None:
                    scene.close_window()
                await asyncio.sleep(0)
            events += reading.result()
    assert said(events) == [word(number) for number in range(WORDS)]
    assert [type(event) for event in events].count(TextEnded) == 1


@pytest.mark.parametrize("seconds", [0, 0.001])
async def test_all_is_there_however_long_a_window_is(case: Case, certificate: Path, seconds: float) -> None:
    async with scene_of(case, certificate, seconds) as scene:
        scene.provider.go.set()
        scene.provider.end.set()
        events = [event async for batch in scene.model.stream(case.request) for event in batch]
    assert said(events) == [word(number) for number in range(WORDS)]
    assert type(events[-1]) is ModelCallEnded


async def test_a_reader_can_be_stopped_while_it_waits_for_a_window(case: Case, certificate: Path) -> None:
    async with scene_of(case, certificate) as scene:
        reading = asyncio.ensure_future(_read(scene.model, case.request))
        await scene.waits()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        scene.close_window()  # nobody is there to read on


async def _read(model: Model, request: ModelRequest) -> None:
    async for _ in model.stream(request):
        pass
