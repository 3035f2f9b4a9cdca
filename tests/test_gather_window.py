"""The moment in which runs wait for each other's events, and readers of fast answers for more words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import pytest

from gateway import answer_reader
from gateway.agent import ModelSettings
from gateway.clock import SystemClock
from gateway.events import ModelCallEnded, TextDelta, TextStarted
from gateway.gather_window import GatherWindow
from gateway.http_client.clients import HttpClients
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelEnvironment, ModelRequest
from gateway.models.openai_chat_completions import PROVIDER
from tests.model_answers import collect
from tests.openai_chat_server import DONE, Script, chat_server, text_records

DEADLINE_SECONDS = 20
ENDLESS = 1000.0
REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("Hi"),)),))


class Run:
    """A run as the window knows it."""

    def __init__(self, window: GatherWindow) -> None:
        self.said: list[str] = []
        self.kept: list[list[str]] = []
        self.handed_over = asyncio.Event()
        self._window = window

    def say(self, words: str) -> None:
        self.said.append(words)
        self._window.add(self)

    def hand_over(self) -> None:
        self.kept.append(self.said)
        self.said = []
        self.handed_over.set()


async def test_what_a_reader_brings_when_the_moment_is_over_is_kept_with_what_was_there() -> None:
    window = GatherWindow(0.001)
    run = Run(window)
    run.say("there")

    async def read() -> None:
        await window.over()
        run.say("brought")

    async with asyncio.timeout(DEADLINE_SECONDS):
        await asyncio.gather(read(), run.handed_over.wait())
    assert run.kept == [["there", "brought"]]


async def test_a_reader_needs_no_run_for_a_moment_to_begin_and_may_wait_for_one_after_the_other() -> None:
    window = GatherWindow(0.001)
    async with asyncio.timeout(DEADLINE_SECONDS):
        for _ in range(3):
            await window.over()


async def test_a_reader_that_waits_again_at_once_holds_nobody_back() -> None:
    window = GatherWindow(0.001)
    run = Run(window)

    async def read() -> None:
        for word in "abc":
            await window.over()
            run.say(word)

    async with asyncio.timeout(DEADLINE_SECONDS):
        await read()
        await run.handed_over.wait()
        while len(run.kept) < 3:
            run.handed_over.clear()
            await run.handed_over.wait()
    assert run.kept == [["a"], ["b"], ["c"]]


async def test_a_reader_that_was_stopped_meanwhile_stops_nobody_else() -> None:
    window = GatherWindow(0.001)
    stopped, other = window.over(), window.over()
    stopped.cancel()
    async with asyncio.timeout(DEADLINE_SECONDS):
        await other


async def test_without_a_moment_nobody_waits() -> None:
    assert GatherWindow(0).over().done()


# --- readers of answers


@pytest.fixture(autouse=True)
def everything_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine that this runs on is."""
    monkeypatch.setattr(answer_reader, "GATHER_SECONDS", ENDLESS)


@asynccontextmanager
async def chat_model(script: Script, window: GatherWindow) -> AsyncGenerator[Model]:
    async with asyncio.timeout(DEADLINE_SECONDS), chat_server() as server:
        server.answers(script)
        clock = SystemClock()
        http = HttpClients(clock)
        settings = ModelSettings(PROVIDER.name, model_id="m", endpoint=server.endpoint)
        try:
            yield PROVIDER.open(settings, ModelEnvironment(clock, http, window))
        finally:
            await http.close()


@pytest.mark.parametrize("seconds", [0, 0.001, ENDLESS])
async def test_words_that_come_fast_are_all_there_and_the_end_waits_for_no_moment(seconds: float) -> None:
    words = [f"{number} " for number in range(100)]
    async with chat_model(Script(pieces=[*text_records(*words), DONE]), GatherWindow(seconds)) as model:
        events = await collect(model.stream(REQUEST))
    assert [event.text for event in events if type(event) is TextDelta] == words
    assert type(events[-1]) is ModelCallEnded


async def test_the_first_words_wait_for_no_moment() -> None:
    more = asyncio.Event()
    opening, first, *rest = text_records("a", "b")
    script = Script(pieces=(opening, first), hold=more, pieces_after=(*rest, DONE))
    async with chat_model(script, GatherWindow(ENDLESS)) as model, aclosing(model.stream(REQUEST)) as batches:
        assert [type(event) for event in await anext(batches)] == [TextStarted, TextDelta]
        more.set()
        said = [event.text async for batch in batches for event in batch if type(event) is TextDelta]
        assert said == ["b"]


async def test_a_reader_can_be_stopped_while_it_waits_for_a_moment() -> None:
    window = GatherWindow(ENDLESS)
    script = Script(pieces=text_records(*"abcdefgh", finish_reason=None), ending="silence")
    async with chat_model(script, window) as model:
        reading = asyncio.create_task(collect(model.stream(REQUEST)))
        while window._timer is None:
            await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
