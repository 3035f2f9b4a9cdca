"""Whose the conversations are that live at the provider: names, agents, threads; and which models have such."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from gateway.agent import ModelSettings
from gateway.clock import SystemClock
from gateway.configuration.file import InvalidConfigurationError
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.model import ModelEnvironment
from gateway.models.openai_responses import PROVIDER
from gateway.settings import Flags, check_settings
from tests.fault_scenes import check_ended, fault_tool
from tests.openai_chat_server import Script, error
from tests.responses_events import (
    call_item,
    message_item,
)
from tests.responses_rules import accept
from tests.responses_server import responses_server
from tests.running_gateway import agent, local_gateway, run_body, write_configuration
from tests.stateful_scene import ADDING, StatefulScene, openai_model, said, stateful_gateway, stateful_scene, user

USER = ("user", "Hi")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncGenerator[StatefulScene]:
    async with stateful_scene(tmp_path) as opened:
        yield opened


# --- whose conversation it is


async def test_conversations_have_names_and_survive_a_restart(tmp_path: Path) -> None:
    chains: dict[str, str] = {}
    async with asyncio.timeout(30), responses_server() as server:
        async with stateful_gateway(tmp_path, server) as scene:
            for name, thread in (("billing", "b"), ("orders", "o"), ("default", "d")):
                scene.thread_id = thread
                server.will_answer(message_item("Hello"))
                props = {} if name == "default" else {"forwardedProps": {"conversation_id": name}}
                await scene.say(name, **props)
                chains[name] = scene.answered()
        async with stateful_gateway(tmp_path, server) as scene:
            for name, thread in (("orders", "o"), ("billing", "b"), ("default", "d")):
                scene.thread_id, scene._runs = thread, 10
                server.will_answer(message_item("Again"))
                await scene.say("More", forwardedProps={"conversation_id": name})
                assert scene.sent() == (chains[name], [("user", "More")])
                assert scene.shown() == [("user", name), ("assistant", "Hello"), ("user", "More")]


async def test_conversations_of_one_thread_know_nothing_of_each_other(tmp_path: Path) -> None:
    """The client has one history, and sends all of it each time; the thread keeps all of it, too."""

    async def ask(scene: StatefulScene, name: str, text: str) -> None:
        scene.server.will_answer(call_item(*ADDING, "call_0"))
        scene.server.will_answer(message_item(f"{text}!"))
        await scene.say(text, forwardedProps={"conversation_id": name})

    def told(*texts: str) -> list[str]:
        return [words for text in texts for words in (f"user: {text}", "call", "output", f"assistant: {text}!")][:-1]

    def shown(scene: StatefulScene) -> list[str]:
        return [f"{kind}: {rest[0]}" if kind in ("user", "assistant") else kind for kind, *rest in scene.shown()]

    async with asyncio.timeout(30), responses_server() as server:
        async with stateful_gateway(tmp_path, server) as scene:
            await ask(scene, "default", "one")
            await ask(scene, "billing", "bill")
            assert shown(scene) == told("bill")
            await ask(scene, "orders", "order")
            await ask(scene, "default", "two")
            assert shown(scene) == told("one", "two")
            await ask(scene, "billing", "paid?")
            assert shown(scene) == told("bill", "paid?")
            assert len(await scene.messages()) == 20
            scene.server.will_answer(message_item("I know it all"))
            await scene.say("plainly", agent_id="plain")
            assert len(scene.shown()) == 21
        server.expire()
        async with stateful_gateway(tmp_path, server) as scene:
            scene._runs = 20
            await ask(scene, "billing", "again")
            assert shown(scene) == told("bill", "paid?", "again")
            known = await scene.messages()
            await ask(scene, "orders", "sent?")
            assert shown(scene) == told("order", "sent?")
            assert len(known) == 26


async def test_two_agents_on_one_thread_have_chains_of_their_own(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("I am OpenAI"))
    await scene.say("Hi")
    scene.server.will_answer(message_item("I am Bedrock"))
    await scene.say("And you?", agent_id="bedrock")
    so_far = [USER, ("assistant", "I am OpenAI"), ("user", "And you?")]
    assert scene.sent() == (None, so_far)
    scene.server.will_answer(message_item("Yes"))
    await scene.say("Still?", agent_id="openai")
    between = [("user", "And you?"), ("assistant", "I am Bedrock"), ("user", "Still?")]
    assert scene.sent() == (scene.answered(0), between)
    scene.server.will_answer(message_item("Yes, yes"))
    await scene.say("And you, still?", agent_id="bedrock")
    news = [("assistant", "I am Bedrock"), ("user", "Still?"), ("assistant", "Yes"), ("user", "And you, still?")]
    assert scene.sent() == (scene.answered(1), news[1:])
    assert scene.shown() == [*so_far, *news]


async def test_a_thread_goes_to_another_provider_and_comes_back(scene: StatefulScene) -> None:
    scene.server.will_answer(call_item(*ADDING, "call_0"))
    scene.server.will_answer(message_item("Three"))
    await scene.say("Hi")
    scene.server.will_answer(call_item(*ADDING, "call_0"))
    scene.server.will_answer(message_item("Three, too"))
    await scene.say("And you?", agent_id="plain")
    whole = scene.sent()[1]
    assert [kind for kind, *_ in whole] == ["user", "call", "output", "assistant", "user", "call", "output"]
    scene.server.will_answer(message_item("Good"))
    await scene.say("Back")
    previous, new = scene.sent()
    assert previous == scene.answered(1)
    assert [kind for kind, *_ in new] == ["user", "call", "output", "assistant", "user"]
    assert [kind for kind, *_ in scene.shown()] == [*(kind for kind, *_ in whole), "assistant", "user"]
    accept(scene.server.requests[-1].json, scene.server.seen())


async def test_another_model_begins_a_new_chain(tmp_path: Path) -> None:
    async with asyncio.timeout(30), responses_server() as server:
        changes: list[dict[str, Any]] = [{}, {"model_id": "gpt-6"}, {"credential": {"openai_api_key": "sk-other"}}]
        for number, changed in enumerate(changes):
            agents = [agent("openai", openai_model(server, **changed))]
            async with local_gateway(tmp_path, agents) as gateway:
                scene = StatefulScene(gateway, server, _runs=number)
                server.will_answer(message_item(f"answer {number}"))
                await scene.say(f"question {number}")
                assert scene.sent()[0] is None
                assert len(scene.sent()[1]) == 2 * number + 1
    files = await asyncio.to_thread(lambda: [path.read_bytes() for path in tmp_path.glob("gateway.db*")])
    assert files
    assert not any(b"sk-other" in content for content in files), "a digest tells whose chain it is"


async def test_tools_see_what_the_server_holds(scene: StatefulScene) -> None:
    scene.agent_id = "curious"
    billing = {"forwardedProps": {"conversation_id": "billing"}}
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    for _ in range(2):
        scene.server.will_answer(call_item("held", "{}", "c1"))
    scene.server.will_answer(message_item("There"))
    run = await scene.say("What do you hold?", **billing)
    first, second, third = (scene.answered(number) for number in range(3))
    assert list(run.results.values()) == [f"default:{first} billing:{second}", f"default:{first} billing:{third}"]


async def test_a_deleted_thread_takes_its_chain_along(scene: StatefulScene) -> None:
    scene.server.will_answer(message_item("Hello"))
    await scene.say("Hi")
    assert (await scene.gateway.client.http.delete("/threads/t")).status_code == 204
    scene.server.will_answer(message_item("Hello again"))
    await scene.say("Hi")
    assert scene.sent() == (None, [USER])


async def test_two_runs_on_one_thread_never_fork_it(scene: StatefulScene) -> None:
    hold = asyncio.Event()
    scene.server.will_answer(message_item("one"), hold=hold)
    scene.server.will_answer(message_item("two"))
    first_body, second_body = (
        run_body(thread_id="t", run_id=f"run-{n}", messages=[user(f"message {n}")]) for n in (1, 2)
    )
    async with scene.gateway.client.stream("queueing", first_body) as first:
        await first.until("RUN_STARTED")
        async with scene.gateway.client.stream("queueing", second_body) as waiting:
            await scene.gateway.client.until_status("run-2", "queued")
            await scene.server.received(1)
            assert len(scene.server.requests) == 1
            hold.set()
            await first.rest()
            await waiting.rest()
    for run_id in ("run-1", "run-2"):
        await check_ended(scene.gateway, run_id, "completed")
    assert scene.sent() == (scene.answered(0), [("user", "message 2")])
    assert scene.shown() == [("user", "message 1"), ("assistant", "one"), ("user", "message 2")]


# --- what is decided before


@pytest.mark.parametrize("where", ["params", "model_parameters"])
@pytest.mark.parametrize("name", ["store", "previous_response_id", "conversation"])
async def test_a_parameter_that_decides_the_same_is_refused_at_start(where: str, name: str) -> None:
    decided: dict[str, Any] = {where: {name: "x"}}
    settings = ModelSettings(PROVIDER.name, "m", "http://127.0.0.1:1/v1", stateful=True, **decided)
    clock = SystemClock()
    with pytest.raises(ConfigurationError, match=f"'{name}' cannot be among the model's parameters"):
        PROVIDER.open(settings, ModelEnvironment(clock, HttpClients(clock)))


def test_only_a_provider_that_can_is_stateful_and_a_fallback_never_is(tmp_path: Path) -> None:
    demo = {"model_provider": "demo", "stateful": True, "background": True}
    fallback = {"model_provider": "openai/v1/responses", "model_id": "m", "stateful": True}
    path = write_configuration(tmp_path, [agent("one", demo), agent("two", {**fallback, "fallback": [fallback]})])
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=path), environ={})
    problems = str(caught.value)
    assert "agents[1].model.fallback[0].stateful" in problems
    path = write_configuration(tmp_path, [agent("one", demo)])
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(Flags(config=path), environ={})
    assert (
        "agents[0].model.stateful: 'demo' does not know it; providers that do: bedrock/responses, openai/v1/responses"
        in str(caught.value)
    )


async def test_limits_of_the_history_are_ignored_and_said_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with asyncio.timeout(30), responses_server() as server:
        limits = {"max_messages": 1, "summarize": True}
        agents = [
            agent("limited", openai_model(server), context=limits, tools=[fault_tool("add")]),
            agent("unlimited", openai_model(server)),
            agent("plain", openai_model(server, stateful=False), context=limits),
        ]
        with caplog.at_level(logging.WARNING, "gateway.agents.open_agent"):
            async with local_gateway(tmp_path, agents) as gateway:
                scene = StatefulScene(gateway, server, agent_id="limited")
                for word in ("one", "two", "three"):
                    server.will_answer(message_item(f"{word}!"))
                    await scene.say(word)
        assert len(scene.shown()) == 5
        (warning,) = [record for record in caplog.records if record.name == "gateway.agents.open_agent"]
        assert warning.__dict__["agent_id"] == "limited"
        assert warning.__dict__["ignored"] == ["max_messages", "summarize"]


async def test_what_is_too_long_for_a_fallback_is_made_shorter_for_it(tmp_path: Path) -> None:
    """It keeps nothing, and may be a smaller model; the server that keeps the conversation is sent all of it."""
    async with asyncio.timeout(30), responses_server() as server, responses_server() as other:
        fallback = openai_model(other)
        del fallback["stateful"]
        limits = {"max_messages": 1}  # is ignored, also for what is summed up
        model = openai_model(server, fallback=[fallback])
        agents = [agent("openai", model, parameters={"model_attempts": 1}, context=limits)]
        async with local_gateway(tmp_path, agents) as gateway:
            scene = StatefulScene(gateway, server)
            for word in ("one", "two"):
                server.will_answer(message_item(f"{word}!"))
                await scene.say(word)
            server.answers(Script(503, (b"{}",)))
            other.answers(error(400, code="context_length_exceeded"))
            other.will_answer(message_item("They counted."))
            other.will_answer(message_item("Three!"))
            assert (await scene.say("three")).text == "Three!"
            (shown,) = said(other.seen(1))
            assert "They counted." in shown[1]
            assert shown[1].endswith("three")
            server.will_answer(message_item("four!"))
            await scene.say("four")
            assert len(scene.shown()) == 7


async def test_a_fallback_is_told_everything_and_the_chain_goes_on_behind_it(tmp_path: Path) -> None:
    async with asyncio.timeout(30), responses_server() as server, responses_server() as other:
        fallback = openai_model(other)
        del fallback["stateful"]
        agents = [agent("openai", openai_model(server, fallback=[fallback]), parameters={"model_attempts": 1})]
        async with local_gateway(tmp_path, agents) as gateway:
            scene = StatefulScene(gateway, server)
            server.will_answer(message_item("Hello"))
            await scene.say("Hi")
            server.answers(Script(503, (b"{}",)))
            other.will_answer(message_item("I stand in"))
            assert (await scene.say("Are you there?")).text == "I stand in"
            assert other.requests[-1].json["store"] is False
            assert len(other.requests[-1].json["input"]) == 3
            server.will_answer(message_item("Back"))
            await scene.say("Good")
            news = [("user", "Are you there?"), ("assistant", "I stand in"), ("user", "Good")]
            assert scene.sent() == (scene.answered(0), news)
