"""What a program may get wrong with its adapters: it is told at the start. And what it need not care about: names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters import (
    A2AAdapter,
    AdapterApp,
    AgentApiAdapter,
    AgentFunction,
    ProtocolAdapter,
    ResponsesAdapter,
)
from gateway.application import Application
from gateway.errors import ConfigurationError
from gateway.settings import Flags, load_settings
from tests.embedded_gateway import HELPER, application_of, client_of, embedded
from tests.running_gateway import write_configuration


class Echo(ProtocolAdapter):
    """`GET` the path gives it back."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> None:
        @app.get(self._path)
        async def echo(request: Any) -> Any:
            return {"path": self._path}


class Agents(Echo):
    """Its name is one of the gateway's own protocols' names."""


class Adding(ProtocolAdapter):
    """Does what the test says."""

    def __init__(self, add: Callable[[AdapterApp], Any]) -> None:
        self._add = add

    def add_endpoint(self, app: AdapterApp, func: AgentFunction, **kwargs: Any) -> Any:
        return self._add(app)


# --- names


async def test_adapters_of_one_class_stand_side_by_side(tmp_path: Path) -> None:
    class Responses(Echo):
        pass

    other = type("Echo", (Echo,), {})
    paths = ["/one", "/two", "/three", "/four", "/five"]
    adapters = [Echo("/one"), Echo("/two"), other("/three"), Agents("/four"), Responses("/five")]
    async with embedded(tmp_path, *adapters, ResponsesAdapter()) as client:
        for path in paths:
            assert (await client.get(path)).json() == {"path": path}
        assert (await client.get("/agents")).json()["agents"][0]["id"] == "helper"
        assert (await client.get("/v1/models")).status_code == 200


def test_a_protocol_of_the_gateways_own_is_not_there_twice(tmp_path: Path) -> None:
    for adapter in (A2AAdapter, AgentApiAdapter, ResponsesAdapter):
        with pytest.raises(ConfigurationError, match="there are two protocols"):
            application_of(tmp_path, [adapter(), adapter()])


def test_an_adapter_is_a_part_of_the_name_that_it_is_given() -> None:
    assert Echo("/one").protocol("echoes").name == "echoes"
    part = A2AAdapter().protocol("a2a_too")
    assert (part.name, list(part.settings), list(part.agent_settings)) == ("a2a_too", ["a2a"], ["a2a"])
    part = ResponsesAdapter().protocol("openai")
    assert (part.name, set(part.settings)) == ("openai", {"responses", "chat_completions"})
    assert "/v1/{rest:path}" in part.paths


# --- endpoints


@pytest.mark.parametrize("path", ["/agents", "/agents/{any_id}/run", "/healthz", "/openapi.json"])
def test_a_path_that_the_gateway_has_is_refused(tmp_path: Path, path: str) -> None:
    add = [Adding(lambda app: app.route(path, "GET", "POST")(lambda request: None))]
    with pytest.raises(ConfigurationError, match=r"is there twice, .* give one of them another path") as refused:
        application_of(tmp_path, add)
    assert "'adding'" in refused.value.message


def test_one_path_of_two_adapters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="GET /one is there twice, of the protocols 'echo' and 'echo_2'"):
        application_of(tmp_path, [Echo("/one"), Echo("/one")])
    with pytest.raises(ConfigurationError, match="POST /process is there twice"):
        application_of(tmp_path, [AgentApiAdapter(), Adding(lambda app: app.post("/process")(lambda request: None))])


@pytest.mark.parametrize(
    ("add", "why"),
    [
        (lambda app: app.get("one")(lambda request: None), "'GET one' is no endpoint"),
        (lambda app: app.route("/one")(lambda request: None), "it is a method and a path with a slash in front"),
        (lambda app: app.get("/one")(lambda: None), "handler of GET /one must take one argument: the request"),
        (lambda app: app.post("/one")(lambda a, b: None), "handler of POST /one must take one argument: the request"),
        (lambda app: app.get("/one")("handler"), "the handler of GET /one is a str, and no function"),
    ],
)
def test_what_is_no_endpoint_is_refused(tmp_path: Path, add: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        application_of(tmp_path, [Adding(add)])


def test_an_adapter_that_nobody_awaits_is_refused(tmp_path: Path) -> None:
    async def add(app: AdapterApp) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Adding\.add_endpoint must not be async"):
        application_of(tmp_path, [Adding(add)])


@pytest.mark.parametrize("given", [{"agent_name": 5}, {"agent_description": ["a"]}])
def test_a_card_says_texts(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a text"):
        A2AAdapter(**given)


# --- the application


async def test_the_adapters_may_be_the_second_argument(tmp_path: Path) -> None:
    settings = load_settings(Flags(config=write_configuration(tmp_path, [HELPER])), environ={})
    application = Application(settings, [ResponsesAdapter()])
    async with application.lifespan(), client_of(application.asgi) as client:
        assert (await client.get("/v1/models")).status_code == 200
        assert (await client.get("/.well-known/agent-card.json")).status_code == 404


async def test_a_lifespan_that_is_open_is_not_opened_again(tmp_path: Path) -> None:
    application = application_of(tmp_path)
    async with application.lifespan(), client_of(application.asgi) as client:
        with pytest.raises(RuntimeError, match="lifespan is open already"):
            async with application.lifespan():
                pass
        assert (await client.get("/agents")).status_code == 200


async def test_a_lifespan_that_could_not_open_may_be_opened_later(tmp_path: Path) -> None:
    first, second = application_of(tmp_path), application_of(tmp_path)
    async with first.lifespan():
        with pytest.raises(ConfigurationError, match="is in use"):
            async with second.lifespan():
                pass
    async with second.lifespan(), client_of(second.asgi) as client:
        assert (await client.get("/agents")).status_code == 200
