"""A model that is down is left alone while another one can be asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, ModelCallEnded, StopReason, TextDelta, TextStarted
from gateway.model import Alternative, Fallback, ModelCapabilities, ModelRequest
from gateway.turns.attempts import stream_with_retries
from gateway.turns.circuit import MOST_FAILURES, REST_SECONDS, Circuit
from tests.fault_scenes import upstream_agent
from tests.movable_clock import MovableClock
from tests.observed_runs import observe
from tests.openai_chat_server import chat_server, completion, error
from tests.running_gateway import agent, local_gateway, run_body

LONGEST_REST = REST_SECONDS * 1.25
DOWN = [
    ModelErrorKind.NETWORK,
    ModelErrorKind.OVERLOADED,
    ModelErrorKind.SERVER,
    ModelErrorKind.TIMEOUT,
    ModelErrorKind.TRUNCATED,
]
UP = [kind for kind in ModelErrorKind if kind not in (*DOWN, ModelErrorKind.PROTOCOL)]


@dataclass
class Named:
    """A model that fails in a way that a test changes, and notes who was asked."""

    model_id: str
    asked: list[str]
    fails: ModelErrorKind | None = None
    provider: str = "p"
    capabilities: ModelCapabilities = field(default_factory=ModelCapabilities)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        self.asked.append(self.model_id)
        if self.fails is not None:
            raise ModelError(self.fails, "no")
        yield [TextStarted("m"), TextDelta("m", "Hi"), ModelCallEnded(StopReason.END_TURN)]

    async def close(self) -> None: ...


class Chain:
    """Models in a row, the first of them an agent's own."""

    def __init__(self, *names: str, jitter: float = 1.0, attempts: int = 1) -> None:
        self.clock = MovableClock()
        self.asked: list[str] = []
        self.turns: list[tuple[str, bool]] = []
        self.told: list[tuple[str, str]] = []
        self.attempts = attempts
        self.models = {name: Named(name, self.asked) for name in names}
        self.circuits = {
            name: Circuit(
                "p", name, on_change=lambda _, model, turn: self.turns.append((model, turn)), jitter=lambda: jitter
            )
            for name in names
        }

    def down(self, *names: str, kind: ModelErrorKind = ModelErrorKind.NETWORK) -> None:
        for name, model in self.models.items():
            model.fails = kind if name in names else None

    async def ask(self) -> list[str]:
        """Who was asked, in turn."""
        self.asked.clear()
        (first, model), *others = self.models.items()
        alternatives = tuple(Alternative(other, {}, self.circuits[name]) for name, other in others)
        batches = stream_with_retries(
            model, ModelRequest("turn", ()), self.clock, self.attempts, jitter=lambda: 0.0,
            on_retry=lambda _, code, following: self.told.append((code, following)),
            fallback=Fallback(alternatives, self.circuits[first]),
        )  # fmt: skip
        async with asyncio.timeout(10):
            async for _ in batches:
                pass
        return list(self.asked)


@pytest.mark.parametrize("kind", DOWN)
async def test_a_model_that_is_down_is_not_asked_until_its_rest_is_over(
    kind: ModelErrorKind, caplog: pytest.LogCaptureFixture
) -> None:
    chain = Chain("a", "b")
    chain.down("a", kind=kind)
    with caplog.at_level(logging.INFO, "gateway.turns.circuit"):
        for _ in range(MOST_FAILURES):
            assert await chain.ask() == ["a", "b"]
        assert chain.turns == [("a", True)]
        assert await chain.ask() == ["b"]
        assert chain.told[-1] == ("circuit_open", "elsewhere")
        await chain.clock.advance(LONGEST_REST - 0.01)
        assert await chain.ask() == ["b"]
        chain.down()
        await chain.clock.advance(0.01)
        assert await chain.ask() == ["a"]
    assert chain.turns == [("a", True), ("a", False)]
    told = [entry for entry in caplog.records if entry.name == "gateway.turns.circuit"]
    assert [(entry.levelname, entry.__dict__["model"]) for entry in told] == [("WARNING", "a"), ("INFO", "a")]


@pytest.mark.parametrize(("jitter", "rest"), [(0.0, 0.75), (1.0, 1.25)])
async def test_processes_do_not_come_back_all_at_once(jitter: float, rest: float) -> None:
    circuit = Circuit("p", "m", jitter=lambda: jitter)
    for _ in range(MOST_FAILURES):
        circuit.failed(ModelErrorKind.NETWORK, 0.0)
    assert not circuit.lets_through(REST_SECONDS * rest - 0.01)
    assert circuit.lets_through(REST_SECONDS * rest)


async def test_one_call_sees_whether_it_is_back_while_the_others_go_elsewhere() -> None:
    chain = Chain("a", "b", attempts=3)
    chain.down("a")
    for _ in range(MOST_FAILURES):
        await chain.ask()
    await chain.clock.advance(LONGEST_REST)
    assert await chain.ask() == ["a", "b"], "one try, though there are three"
    assert await chain.ask() == ["b"]
    await chain.clock.advance(LONGEST_REST - 0.01)
    assert await chain.ask() == ["b"], "a failed look begins another rest"
    assert chain.turns == [("a", True)]


async def test_a_look_that_nobody_waited_for_is_followed_by_another() -> None:
    circuit = Circuit("p", "m", jitter=lambda: 1.0)
    for _ in range(MOST_FAILURES):
        circuit.failed(ModelErrorKind.NETWORK, 0.0)
    assert circuit.lets_through(LONGEST_REST)
    assert not circuit.lets_through(LONGEST_REST)
    assert circuit.lets_through(2 * LONGEST_REST)


async def test_the_tries_of_one_call_count_and_end_where_the_model_is_found_to_be_down() -> None:
    chain = Chain("a", "b", attempts=3)
    chain.down("a")
    assert await chain.ask() == ["a", "a", "a", "b"]
    assert await chain.ask() == ["a", "a", "b"]
    assert await chain.ask() == ["b"]


@pytest.mark.parametrize("kind", [None, *UP])
async def test_whoever_answers_anything_is_not_down(kind: ModelErrorKind | None) -> None:
    circuit = Circuit("p", "m")
    for _ in range(3):
        for _ in range(MOST_FAILURES - 1):
            circuit.failed(ModelErrorKind.SERVER, 0.0)
        if kind is None:
            circuit.answered()
        else:
            circuit.failed(kind, 0.0)
    assert not circuit.is_open


async def test_what_is_no_answer_of_a_model_tells_nothing_of_it() -> None:
    circuit = Circuit("p", "m")
    for kind in (*[ModelErrorKind.SERVER] * (MOST_FAILURES - 1), ModelErrorKind.PROTOCOL):
        circuit.failed(kind, 0.0)
    assert not circuit.is_open
    circuit.failed(ModelErrorKind.SERVER, 0.0)
    assert circuit.is_open


async def test_a_model_that_is_down_is_better_than_none() -> None:
    chain = Chain("a", "b", "c")
    chain.down("a", "b", "c")
    for _ in range(MOST_FAILURES):
        with pytest.raises(ModelError):
            await chain.ask()
    chain.down("a", "c")
    assert await chain.ask() == ["a", "b"], "each of them once, in their order"
    chain.down("a", "b")
    chain.circuits["c"].answered()
    assert await chain.ask() == ["b", "c"]


async def test_without_another_model_it_is_asked_each_time() -> None:
    chain = Chain("a")
    chain.down("a")
    for _ in range(MOST_FAILURES + 1):
        with pytest.raises(ModelError):
            await chain.ask()
        assert chain.asked == ["a"]


async def test_agents_share_what_they_learn_of_a_model_and_metrics_tell_of_it(tmp_path: Path) -> None:
    """Two agents, one model that answers 503, another that stands in; then it is back."""
    clock = MovableClock()
    async with asyncio.timeout(30), chat_server() as down, chat_server() as up:
        model = {**upstream_agent(down)["model"], "fallback": [upstream_agent(up)["model"]]}
        agents = [agent(name, model, parameters={"model_attempts": 1}) for name in ("one", "two")]
        async with local_gateway(tmp_path, agents, clock=clock) as gateway:

            async def say(number: int, agent_id: str) -> str:
                body = run_body("Hi", thread_id=f"t{number}", run_id=f"r{number}")
                return (await observe(gateway, agent_id, body)).text

            async def gauge() -> float:
                lines = (await gateway.client.http.get("/metrics")).text.splitlines()
                named = [line for line in lines if line.startswith("agui_gateway_provider_circuits_open{")]
                return float(named[0].rpartition(" ")[2]) if named else 0.0

            down.answers(*[error(503)] * MOST_FAILURES)
            up.answers(*[completion("I stand in")] * (MOST_FAILURES + 1))
            for number in range(MOST_FAILURES):
                assert await gauge() == 0
                assert await say(number, "one") == "I stand in"
            assert await say(10, "two") == "I stand in"
            assert (len(down.requests), await gauge()) == (MOST_FAILURES, 1)
            await clock.advance(LONGEST_REST)
            down.answers(*[completion("I am back")] * 2)
            assert [await say(11, "two"), await say(12, "one")] == ["I am back"] * 2
            assert await gauge() == 0
            text = (await gateway.client.http.get("/metrics")).text
    provider = 'provider="openai/v1/chat/completions"'
    assert f'agui_gateway_provider_fallbacks_total{{code="circuit_open",{provider}}} 1.0' in text
