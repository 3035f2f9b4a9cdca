"""What all providers that are reached at one address with one key have in common: their settings."""

from __future__ import annotations

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.messages import Message, TextBlock
from gateway.model import Model, ModelEnvironment, ModelProvider, ModelRequest
from gateway.models import anthropic_messages, gemini_generatecontent, openai_chat_completions, openai_responses
from gateway.parts import collect
from tests.openai_chat_server import chat_server, error
from tests.provider_scene import KEY, failure_of, model_behind

PROVIDERS = [
    openai_chat_completions.PROVIDER,
    openai_responses.PROVIDER,
    anthropic_messages.PROVIDER,
    gemini_generatecontent.PROVIDER,
]
REQUEST = ModelRequest("turn", (Message("u", "user", (TextBlock("Hi"),)),))

each_provider = pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.name)


def opened(provider: ModelProvider, endpoint: str | None, key: str | None) -> Model:
    (name,) = provider.credentials
    credential = {} if key is None else {name: Secret(key)}
    clock = SystemClock()
    settings = ModelSettings(provider.name, "some-model", endpoint, credential)
    return provider.open(settings, ModelEnvironment(clock, HttpClients(clock)))


@each_provider
def test_it_is_a_part_of_its_room(provider: ModelProvider) -> None:
    assert collect("models", ModelProvider)[provider.name] is provider


@each_provider
@pytest.mark.parametrize("key", [None, "", " \n"])
def test_the_providers_own_address_needs_a_key_and_a_private_one_does_not(
    provider: ModelProvider, key: str | None
) -> None:
    (name,) = provider.credentials
    with pytest.raises(ConfigurationError, match=f"set {name}"):
        opened(provider, None, key)
    opened(provider, "http://127.0.0.1:11434/v1", key)
    opened(provider, None, f"{KEY}\n")


@each_provider
@pytest.mark.parametrize("key", ["sk-x\r\nevil: 1", "sk-ü", "ключ"])
def test_a_key_that_is_none_is_refused_without_being_shown(provider: ModelProvider, key: str) -> None:
    with pytest.raises(ConfigurationError, match="characters that no key has") as caught:
        opened(provider, None, key)
    assert key not in caught.value.message


@each_provider
@pytest.mark.parametrize(
    ("endpoint", "says"),
    [
        ("localhost:11434", "is not an http or https URL"),
        ("ftp://h/v1", "is not an http or https URL"),
        ("http://u:secret@h/v1", "carries credentials"),
    ],
)
def test_an_endpoint_that_is_none_is_refused_without_its_password(
    provider: ModelProvider, endpoint: str, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        opened(provider, endpoint, KEY)
    assert "secret" not in caught.value.message


@each_provider
async def test_the_key_goes_out_as_one_header_and_none_does_without_a_key(provider: ModelProvider) -> None:
    headers: list[dict[str, str]] = []
    for key in ("", KEY):
        async with model_behind(provider, "some-model", error(400), server=chat_server, key=key) as (model, server):
            await failure_of(model, REQUEST)
            headers.append(server.requests[0].headers)
    without, beside = headers
    (name,) = set(beside) - set(without)
    assert beside[name] in (KEY, f"Bearer {KEY}")
