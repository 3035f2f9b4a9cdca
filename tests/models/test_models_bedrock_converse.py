"""Which settings a Converse model is opened with, and what it says that it can do."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.agent import ModelSettings, Secret
from gateway.clock import SystemClock
from gateway.errors import ConfigurationError
from gateway.http_client.clients import HttpClients
from gateway.model import ModelEnvironment
from gateway.models.bedrock_converse import PROVIDER

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"


def opened(**settings: Any) -> Any:
    environment = ModelEnvironment(SystemClock(), HttpClients(SystemClock()))
    return PROVIDER.open(ModelSettings("bedrock/converse", **{"model_id": CLAUDE, **settings}), environment)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model_id": ""}, "model_id"),
        ({"credential": {"openai_api_key": Secret("x")}}, "access_key"),
        ({"credential": {"access_key": Secret("x")}}, "secret_key"),
        ({"credential": {"secret_key": Secret("x")}}, "access_key"),
        ({"endpoint": "localhost:80"}, "http"),
        ({"endpoint": "https://someone:x'@bedrock.example"}, "the endpoint of this model carries credentials"),
        ({"model_parameters": {"temperature": 3}}, "temperature"),
    ],
)
def test_settings_that_can_never_work_are_refused_at_once(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        opened(**settings)
    assert "x'" not in str(caught.value)


def test_capabilities_are_those_of_the_family() -> None:
    claude, nova = opened().capabilities, opened(model_id=NOVA).capabilities
    assert claude.image_input
    assert claude.document_input
    assert not claude.video_input
    assert nova.video_input
    profile = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
    named = {"model_family": "anthropic.claude-sonnet-4-5"}
    assert not opened(model_id=profile).capabilities.reasoning
    assert opened(model_id=profile, model_parameters=named).capabilities.reasoning
