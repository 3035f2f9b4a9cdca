"""A model provider is named by its name, or by a family and one of its APIs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.configuration.file import InvalidConfigurationError
from gateway.configuration.known_parts import known_parts, provider_name
from gateway.errors import ConfigurationError
from gateway.settings import Flags, check_settings, load_settings

MODELS = known_parts().models
KEYS = {"access_key": "AKIDEXAMPLE", "secret_key": "s" * 20}


@pytest.mark.parametrize(
    ("name", "api", "found"),
    [
        ("bedrock/converse", None, "bedrock/converse"),
        ("bedrock", "converse", "bedrock/converse"),
        ("bedrock", "responses", "bedrock/responses"),
        ("bedrock", None, "bedrock/converse"),
        ("bedrock/responses", "responses", "bedrock/responses"),
        ("openai/v1", "responses", "openai/v1/responses"),
        ("openai", "v1/chat/completions", "openai/v1/chat/completions"),
        ("demo", None, "demo"),
        ("nobody", None, "nobody"),
    ],
)
def test_family_and_api_together_are_a_provider(name: str, api: str | None, found: str) -> None:
    assert provider_name(name, api, MODELS) == found


@pytest.mark.parametrize(
    ("name", "api", "words"),
    [
        ("bedrock", "response", "'bedrock' has no api 'response'; did you mean 'responses'.*has: converse, responses"),
        ("bedrock", "chat", "'bedrock' has no api 'chat'; 'bedrock' has: converse, responses"),
        ("openai/v1", None, "is missing; 'openai/v1' has: chat/completions, responses"),
        ("bedrock/converse", "responses", "names one API already; leave api out, or write model_provider: bedrock"),
        ("demo", "chat", "names one API already; leave api out"),
        ("openai/v1/chat/completions", "responses", "leave api out, or write model_provider: openai/v1/responses"),
    ],
)
def test_a_wrong_api_is_told_which_there_are(name: str, api: str | None, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        provider_name(name, api, MODELS)


def written(directory: Path, **model: Any) -> Flags:
    file = directory / "gateway.yaml"
    file.write_text(yaml.safe_dump({"agents": [{"id": "a", "type": "conversational", "model": model}]}))
    return Flags(config=file)


@pytest.mark.parametrize("api", ["converse", "responses"])
def test_one_line_of_the_file_switches_the_api(tmp_path: Path, api: str) -> None:
    flags = written(
        tmp_path,
        model_provider="bedrock",
        api=api,
        model_id="openai.gpt-oss-120b-1:0",
        region="us-east-1",
        credential=KEYS,
    )
    (agent,) = check_settings(flags, environ={}).agents
    assert agent.model.model_provider == f"bedrock/{api}"
    assert agent.model.model_id == "openai.gpt-oss-120b-1:0"


def test_params_and_the_compute_environment_are_read(tmp_path: Path) -> None:
    flags = written(
        tmp_path,
        model_provider="bedrock",
        api="responses",
        model_id="openai.gpt-5.6",
        region="us-east-1",
        compute_environment="agentcore",
        params={"metadata": {"a": None}},
    )
    (agent,) = load_settings(flags, environ={}).agents
    assert agent.model.compute_environment == "agentcore"
    assert agent.model.params == {"metadata": {"a": None}}


def problems_of(flags: Flags) -> str:
    with pytest.raises(InvalidConfigurationError) as caught:
        check_settings(flags, environ={})
    return str(caught.value)


def test_a_wrong_api_in_the_file_is_shown_with_its_place(tmp_path: Path) -> None:
    problems = problems_of(written(tmp_path, model_provider="bedrock", api="mantle", model_id="m"))
    assert "agents[0].model.api: 'bedrock' has no api 'mantle'" in problems


def test_an_option_that_a_provider_does_not_know_is_shown_with_those_that_do(tmp_path: Path) -> None:
    problems = problems_of(written(tmp_path, model_provider="demo", params={"a": 1}, compute_environment="x"))
    assert "agents[0].model.params: 'demo' does not know it; providers that do: bedrock/responses" in problems
    assert "agents[0].model.compute_environment: 'demo' does not know it" in problems


def test_what_a_reference_brings_into_params_is_a_secret(tmp_path: Path) -> None:
    flags = written(
        tmp_path,
        model_provider="openai/v1/responses",
        model_id="m",
        endpoint="http://127.0.0.1:1/v1",
        params={"metadata": {"token": "${env:TOKEN}"}},
    )
    settings = load_settings(flags, environ={"TOKEN": "a-secret-of-the-operator"})
    assert "a-secret-of-the-operator" in [secret.reveal() for secret in settings.secrets]
