"""What is said of a model that failed, and to whom."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import ModelError, ModelErrorKind
from gateway.protocol.failure_words import shown_message
from gateway.runs.failure_words import operator_message
from tests.movable_clock import MovableClock
from tests.openai_chat_server import chat_server, completion, error
from tests.running_gateway import DEADLINE_SECONDS, GatewayClient, agent, local_gateway, run_body

KEY = "a-key-of-the-operator"
UPSTREAM_KEY = "qwertz-9876543210"
SITE: Mapping[str, Any] = {
    "name": "shop",
    "key": "pk_shop_5b8f0c3e9a",
    "origins": ["https://shop.example"],
    "agents": ["asking"],
}
SAID = "Incorrect API key provided: " + UPSTREAM_KEY


def asking(endpoint: str) -> dict[str, Any]:
    model = {
        "model_provider": "openai/v1/chat/completions",
        "model_id": "gpt-oss",
        "endpoint": endpoint,
        "credential": {"openai_api_key": UPSTREAM_KEY},
    }
    return agent("asking", model, parameters={"model_attempts": 2})


async def visitor(client: GatewayClient) -> dict[str, str]:
    """The headers of one."""
    origin = {"origin": "https://shop.example"}
    answer = await client.http.post("/visitors", json={}, headers={"authorization": f"Bearer {SITE['key']}", **origin})
    return {"authorization": f"Bearer {answer.json()['visitorToken']}", **origin}


@pytest.mark.parametrize("who", ["a key", "loopback"])
async def test_an_operator_is_told_which_model_failed_and_why_without_secrets(tmp_path: Path, who: str) -> None:
    server = {"api_keys": [{"name": "alice", "key": KEY}]} if who == "a key" else {}
    headers = {"authorization": f"Bearer {KEY}"} if who == "a key" else {}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [asking(upstream.endpoint)], server=server) as gateway,
    ):
        upstream.answers(error(401, SAID))
        frames = await gateway.client.run("asking", run_body(), **headers)
        run = (await gateway.client.http.get("/runs/run-1", headers=headers)).json()
    told = frames[-1].data
    assert told["code"] == "model_authentication"
    assert told["message"] == (
        "gpt-oss (openai/v1/chat/completions): the model provider refused the gateway's credentials (status 401):"
        " Incorrect API key provided: ***"
    )
    assert run["error"] == {"code": told["code"], "message": told["message"]}


async def test_an_operator_is_told_which_endpoint_is_dead(tmp_path: Path) -> None:
    async with local_gateway(tmp_path, [asking("http://127.0.0.1:9/v1")]) as gateway:
        told = (await gateway.client.run("asking", run_body()))[-1].data
    assert told["code"] == "model_network"
    assert "gpt-oss" in told["message"]
    assert "127.0.0.1:9" in told["message"]


@pytest.mark.parametrize("who", ["visitor", "open to all"])
async def test_strangers_are_told_gently_wherever_they_look(tmp_path: Path, who: str) -> None:
    server = {"publishable_keys": [SITE]} if who == "visitor" else {"allow_unauthenticated": True}
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [asking(upstream.endpoint)], server=server) as gateway,
    ):
        upstream.answers(error(401, SAID))
        headers = await visitor(gateway.client) if who == "visitor" else {}
        told = (await gateway.client.run("asking", run_body(), **headers))[-1].data
        http = gateway.client.http
        replay = (await http.get("/runs/run-1/events", headers=headers)).text
        run = (await http.get("/runs/run-1", headers=headers)).json()
        async with gateway.client.stream("asking", run_body(messages=[]), to="connect", **headers) as stream:
            connected = [frame.data for frame in await stream.rest()][-1]
    gentle = "the assistant cannot answer just now; try again later"
    assert (told["code"], told["message"]) == ("model_authentication", gentle)
    assert (connected["code"], connected["message"]) == ("model_authentication", gentle)
    assert run["error"] == {"code": "model_authentication", "message": gentle}
    assert gentle in replay
    assert "gpt-oss" not in replay


async def test_a_wait_that_a_person_notices_is_told_and_a_short_one_is_not(tmp_path: Path) -> None:
    clock = MovableClock()
    async with (
        chat_server() as upstream,
        local_gateway(tmp_path, [asking(upstream.endpoint)], clock=clock) as gateway,
    ):
        upstream.answers(error(429, "slow down", retry_after=12), completion("fine"), error(500), completion("fine"))
        async with gateway.client.stream("asking", run_body()) as stream:
            (waiting,) = [frame.data for frame in await stream.until("CUSTOM") if frame.type == "CUSTOM"]
            assert waiting["name"] == "agui_gateway.waiting"
            assert waiting["value"]["code"] == "model_throttled"
            assert 12 <= waiting["value"]["seconds"] <= 12.5
            await clock.advance(13)
            assert (await stream.rest())[-1].type == "RUN_FINISHED"
        async with gateway.client.stream("asking", run_body(thread_id="thread-2", run_id="run-2")) as stream:
            await clock.until(lambda: len(upstream.requests) == 3)
            async with asyncio.timeout(DEADLINE_SECONDS):
                while len(upstream.requests) < 4:
                    await clock.advance(0.1)
            assert "CUSTOM" not in [frame.type for frame in await stream.rest()]


def test_what_a_provider_says_is_one_short_line() -> None:
    failure = ModelError(ModelErrorKind.SERVER, "it failed", provider_message="a\x1b[31m\n\n  b‮" + "x" * 1000)
    words = operator_message(failure)
    assert words.startswith("it failed: a [31m b xxx")
    assert len(words) < 400
    failure.provider_message = "no luck\nTraceback (most recent call last): /srv/app.py"
    assert operator_message(failure) == "it failed: no luck"


@pytest.mark.parametrize("code", [f"model_{kind.value}" for kind in ModelErrorKind])
def test_no_stranger_is_told_of_models_and_providers(code: str) -> None:
    words = shown_message(code, "m (p): the model provider's quota is used up: secret", to_operator=False)
    assert not any(each in words for each in ("provider", "model", "secret", "credential"))


def test_what_failed_otherwise_is_said_as_it_is() -> None:
    for to_operator in (True, False):
        assert shown_message("limit_max_iteration", "the run reached", to_operator=to_operator) == "the run reached"
