"""Every provider before a private server: what stands in `endpoint`, and where the request arrives."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import unquote

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.errors import ModelError
from gateway.http_client import HttpClients
from gateway.messages import Message, TextBlock
from gateway.model import ModelEnvironment, ModelProvider, ModelRequest
from gateway.parts import collect
from tests.model_answers import collect as collect_events
from tests.openai_chat_server import Received, chat_server, error

REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),))
KEYS = {"access_key": Secret("AKIDEXAMPLE"), "secret_key": Secret("secret")}
AWS: dict[str, Any] = {"region": "eu-west-1", "credential": KEYS}
PROVIDERS = collect("models", ModelProvider)


async def asked(provider: str, base: str, **settings: Any) -> Received:
    """What a server gets whose base URL has `base` behind the host."""
    clock = SystemClock()
    http = HttpClients(clock)
    async with asyncio.timeout(10), chat_server() as server:
        server.answers(error(401))
        endpoint = f"http://127.0.0.1:{server.port}{base}"
        opened = ModelSettings(provider, "a-model", endpoint, **settings)
        model = PROVIDERS[provider].open(opened, ModelEnvironment(clock, http))
        try:
            with pytest.raises(ModelError):
                await collect_events(model.stream(REQUEST))
        finally:
            await model.close()
            await http.close()
        return server.requests[0]


CASES: list[tuple[str, str, dict[str, Any], str]] = [
    ("openai/v1/chat/completions", "/v1", {}, "/v1/chat/completions"),
    ("openai/v1/responses", "/v1", {}, "/v1/responses"),
    ("anthropic/v1/messages", "", {}, "/v1/messages"),
    ("anthropic/v1/messages", "/v1", {}, "/v1/messages"),
    ("gemini/v1beta/generatecontent", "/v1beta", {}, "/v1beta/models/a-model:streamGenerateContent?alt=sse"),
    ("bedrock/converse", "", AWS, "/model/a-model/converse-stream"),
    ("bedrock/responses", "/openai/v1", AWS, "/openai/v1/responses"),
]


@pytest.mark.parametrize(("provider", "base", "settings", "target"), CASES)
@pytest.mark.parametrize("slash", ["", "/"])
async def test_a_request_arrives_where_the_provider_would_have_it(
    provider: str, base: str, settings: dict[str, Any], target: str, slash: str
) -> None:
    request = await asked(provider, base + slash, **settings)
    assert unquote(request.target) == target
    assert json.loads(request.body)


@pytest.mark.parametrize("provider", [case[0] for case in CASES if not case[2]])
async def test_a_private_server_needs_no_key(provider: str) -> None:
    base = next(case[1] for case in CASES if case[0] == provider)
    request = await asked(provider, base)
    assert not {"authorization", "x-api-key", "x-goog-api-key"} & request.headers.keys()


def test_every_provider_that_has_a_server_is_here() -> None:
    assert {case[0] for case in CASES} == PROVIDERS.keys() - {"demo", "scripted"}
