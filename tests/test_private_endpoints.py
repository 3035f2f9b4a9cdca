"""Every provider before a private server: what stands in `endpoint`, and where the request arrives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import Clock, SystemClock
from gateway.configuration.file import InvalidConfigurationError
from gateway.errors import ModelError
from gateway.http_client.clients import HttpCall, HttpClients, HttpStream, StreamTimeouts
from gateway.messages import Message, TextBlock
from gateway.model import ModelEnvironment, ModelProvider, ModelRequest
from gateway.parts import collect
from gateway.providers.headers import with_headers
from gateway.settings import Flags, load_settings
from tests.fault_scenes import upstream_agent
from tests.model_answers import collect as collect_events
from tests.observed_runs import observe
from tests.openai_chat_server import Received, Script, chat_server, completion, error
from tests.running_gateway import agent, local_gateway, run_body, write_configuration

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
        environment = with_headers(ModelEnvironment(clock, http), opened.headers)
        model = PROVIDERS[provider].open(opened, environment)
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


@pytest.mark.parametrize(("provider", "base", "settings"), [case[:3] for case in CASES])
async def test_a_private_gateways_own_headers_go_with_every_request(
    provider: str, base: str, settings: dict[str, Any]
) -> None:
    """Also in place of what the provider itself would have."""
    own = {"X-Team": Secret("red"), "Authorization": Secret("Basic dGVhbTpyZWQ=")}
    received = (await asked(provider, base, headers=own, **settings)).headers
    assert (received["x-team"], received["authorization"]) == ("red", "Basic dGVhbTpyZWQ=")
    plain = await asked(provider, base, **settings)
    assert received.keys() - {"x-team", "authorization"} == plain.headers.keys() - {"authorization"}


async def test_a_header_stands_once_in_a_request_however_its_name_is_written() -> None:
    """Signatures write theirs in capitals."""
    clock = SystemClock()
    async with asyncio.timeout(10), chat_server() as server:
        http = NotingClients(clock)
        own = {"aUTHORIZATION": Secret("Basic dGVhbTpyZWQ="), "x-amz-date": Secret("never")}
        environment = with_headers(ModelEnvironment(clock, http), own)
        settings = ModelSettings("bedrock/converse", "a-model", f"http://127.0.0.1:{server.port}", **AWS)
        server.answers(error(401))
        with pytest.raises(ModelError):
            await collect_events(PROVIDERS["bedrock/converse"].open(settings, environment).stream(REQUEST))
        await http.close()
    (sent,) = http.sent
    names = [name.lower() for name in sent]
    assert sorted(names) == sorted(set(names))
    assert {sent["authorization"], sent["x-amz-date"]} == {"Basic dGVhbTpyZWQ=", "never"}


class NotingClients(HttpClients):
    """Remembers the headers of its calls."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.sent: list[Mapping[str, str]] = []

    @asynccontextmanager
    async def stream(self, call: HttpCall, timeouts: StreamTimeouts | None = None) -> AsyncGenerator[HttpStream]:
        self.sent.append(call.headers)
        async with super().stream(call, timeouts or StreamTimeouts()) as response:
            yield response


async def test_headers_of_one_agents_model_are_nobody_elses(tmp_path: Path) -> None:
    """Though models share their connections."""
    async with asyncio.timeout(30), chat_server() as server:
        private = upstream_agent(server, "private", parameters={"model_attempts": 1})
        private["model"] |= {"headers": {"X-Team": "red"}}
        async with local_gateway(tmp_path, [private, upstream_agent(server, "plain")]) as gateway:
            server.answers(*[completion("Hello")] * 3)
            for number, name in enumerate(("private", "plain", "private")):
                body = run_body("Hi", thread_id=f"t{number}", run_id=f"r{number}")
                assert (await observe(gateway, name, body)).text == "Hello"
    assert [request.headers.get("x-team") for request in server.requests] == ["red", None, "red"]


async def test_media_are_fetched_without_them() -> None:
    clock = SystemClock()
    async with asyncio.timeout(10), chat_server() as server:
        http = HttpClients(clock, allowed_private_hosts=frozenset({"127.0.0.1"}))
        server.answers(Script(200, (b"picture",), "image/png", framing="length"))
        environment = with_headers(ModelEnvironment(clock, http), {"X-Team": Secret("red")})
        fetched = await environment.http.fetcher.fetch(f"http://127.0.0.1:{server.port}/picture", max_bytes=100)
        await http.close()
    assert fetched.content == b"picture"
    assert "x-team" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("X Team", "red", "not a header name"),
        ("", "red", "not a header name"),
        ("Content-Length", "5", "decided by the gateway"),
        ("X-Team", " ", "printable ASCII"),
        ("X-Team", "red\nX-Other: 1", "printable ASCII"),
        ("X-Team", "röd", "printable ASCII"),
    ],
)
def test_a_header_that_cannot_be_says_why(tmp_path: Path, name: str, value: str, says: str) -> None:
    path = write_configuration(tmp_path, [agent("a", {"model_provider": "demo", "headers": {name: value}})])
    with pytest.raises(InvalidConfigurationError, match=says) as caught:
        load_settings(Flags(config=path), environ={})
    assert "agents[0].model.headers" in str(caught.value)


def test_every_provider_that_has_a_server_is_here() -> None:
    assert {case[0] for case in CASES} == PROVIDERS.keys() - {"demo", "scripted"}
