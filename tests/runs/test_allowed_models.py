"""A request may ask for another model of its agent's provider, where the agent allows that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.agent import text_input
from gateway.configuration.file import InvalidConfigurationError
from gateway.events import Event, ModelCallStarted
from gateway.options.run_options import RunOptions
from gateway.settings import Flags, check_settings
from gateway.turns.resumption import kept_input, restored_input
from tests.agent_inputs import changed
from tests.collected_spans import CollectedSpans, told
from tests.openai_chat_server import chat_server, completion, error
from tests.running_gateway import DEADLINE_SECONDS, LocalGateway, agent, local_gateway, write_configuration

PROVIDER: Final = "openai/v1/chat/completions"


def model_at(endpoint: str, **more: Any) -> dict[str, Any]:
    reached = {"model_provider": PROVIDER, "endpoint": endpoint, "credential": {"openai_api_key": "sk-1234567890"}}
    return {**reached, "model_id": "small", "model_parameters": {"temperature": 0.5}, **more}


async def ask(gateway: LocalGateway, model: str, run_id: str) -> list[Event]:
    """A run that asks for that model; all of its events."""
    given = changed(text_input("hi", thread_id=run_id, run_id=run_id), options=RunOptions(model=model))
    viewer = await gateway.application.runner.start("local", "a", given)
    async with asyncio.timeout(DEADLINE_SECONDS):
        return [event async for batch in viewer for event in batch.events]


def models_in(events: list[Event]) -> list[str]:
    return [event.model for event in events if isinstance(event, ModelCallStarted)]


async def test_a_model_that_is_allowed_answers_in_place_of_the_agents_own(tmp_path: Path) -> None:
    spans = CollectedSpans()
    async with chat_server() as server:
        one = agent("a", model_at(server.endpoint), allow_models=["large"])
        async with local_gateway(tmp_path, [one], tracer=spans.tracer) as gateway:
            server.answers(completion("hi"), completion("hi"))
            assert models_in(await ask(gateway, "large", "r1")) == ["large"]
            assert models_in(await ask(gateway, "", "r2")) == ["small"]
            large, small = server.requests
            assert (large.json["model"], small.json["model"]) == ("large", "small")
            assert large.json["temperature"] == small.json["temperature"] == 0.5
            assert large.headers["authorization"] == small.headers["authorization"] == "Bearer sk-1234567890"
            runs = await spans.until("invoke_agent a", 2)
            assert [told(span)["gen_ai.request.model"] for span in runs] == ["large", "small"]


async def test_a_model_that_is_not_allowed_is_not_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with chat_server() as server:
        one = agent("a", model_at(server.endpoint), allow_models=["large"])
        async with local_gateway(tmp_path, [one]) as gateway:
            server.answers(completion("hi"), completion("hi"))
            assert models_in(await ask(gateway, "small", "r1")) == ["small"]
            assert "does not allow" not in caplog.text
            assert models_in(await ask(gateway, "huge", "r2")) == ["small"]
            assert "the model that a request asks for is left out: the agent does not allow it" in caplog.text


async def test_behind_an_allowed_model_come_the_agents_fallbacks(tmp_path: Path) -> None:
    async with chat_server() as server:
        spare = {name: value for name, value in model_at(server.endpoint).items() if name != "model_parameters"}
        model = model_at(server.endpoint, fallback=[{**spare, "model_id": "spare"}])
        one = agent("a", model, allow_models=["large"], parameters={"model_attempts": 1})
        async with local_gateway(tmp_path, [one]) as gateway:
            server.answers(error(401), completion("hi"))
            assert models_in(await ask(gateway, "large", "r1")) == ["large", "spare"]
            assert [request.json["model"] for request in server.requests] == ["large", "spare"]


def test_a_run_that_another_process_goes_on_with_has_its_model() -> None:
    given = changed(text_input("hi", thread_id="t", run_id="r"), options=RunOptions(model="large"))
    kept = kept_input(given)
    assert restored_input(kept, "t", "r").terms.options == given.terms.options
    options: Any = kept["wishes"]
    del options["model"]  # as an earlier version kept it
    assert restored_input(kept, "t", "r").terms.options == RunOptions()


def test_a_model_that_can_never_work_is_named_before_anybody_asks(tmp_path: Path) -> None:
    model = {"model_provider": "bedrock/responses", "model_id": "openai.gpt-5.6", "background": True}
    model |= {"region": "us-east-1", "credential": {"access_key": "AKIA", "secret_key": "secret"}}
    for allowed, problem in (
        (["openai.gpt-5.7", "us.openai.gpt-5.6"], "agents[0].allow_models[1]: background is known on"),
        (["openai.gpt-5.7", ""], "agents[0].allow_models[1]: '' is too short"),
        ("openai.gpt-5.7", "agents[0].allow_models: must be a list"),
    ):
        file = write_configuration(tmp_path, [agent("a", model, allow_models=allowed)])
        with pytest.raises(InvalidConfigurationError) as refused:
            check_settings(Flags(config=file), environ={})
        assert problem in str(refused.value)
