"""The words of other programs' files, and what they are told is right here."""

from __future__ import annotations

import pytest

from gateway.configuration.known_parts import known_parts
from gateway.configuration.known_words import credential_for, key_for, model_for, name_for


@pytest.mark.parametrize(
    ("provider", "in_a_file", "in_a_request"),
    [
        ("openai/v1/responses", '{openai_api_key: "${env:OPENAI_API_KEY}"}', "{openai_api_key: ...}"),
        ("anthropic/v1/messages", '{anthropic_api_key: "${env:ANTHROPIC_API_KEY}"}', "{anthropic_api_key: ...}"),
        ("gemini", '{gemini_api_key: "${env:GEMINI_API_KEY}"}', "{gemini_api_key: ...}"),
        (None, '{openai_api_key: "${env:OPENAI_API_KEY}"}', "{openai_api_key: ...}"),
    ],
)
def test_a_key_is_given_as_its_provider_wants_it(provider: str | None, in_a_file: str, in_a_request: str) -> None:
    assert credential_for(provider, is_file=True) == f"credential: {in_a_file}"
    assert credential_for(provider, is_file=False) == f"credential: {in_a_request}"


def test_every_provider_and_tool_type_that_is_hinted_at_is_there() -> None:
    parts = known_parts()
    for name in ("ollama", "vLLM", "open-router", "claude", "google", "aws"):
        hint = name_for(name, "model provider")
        assert hint is not None
        assert hint.partition("'")[0] in parts.models
    assert name_for("mcp", "tool type") in parts.tools
    assert name_for("McpTool", "agent type") is None
    for model in ("gpt-4o", "claude-sonnet", "gemini-pro"):
        assert model_for(model).split()[2].rstrip(",") in parts.models


def test_a_word_means_something_in_a_model_and_in_its_agent_alone() -> None:
    assert key_for("baseURL", ["model_provider"], "credential: x") == "endpoint"
    assert key_for("api_key", ["system_prompt"], "credential: {a: b}") == "model: {credential: {a: b}}"
    assert key_for("provider", ["host", "port"], "credential: x") is None
    assert key_for("model_provide", ["model_provider"], "credential: x") is None
