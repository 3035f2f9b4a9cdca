"""gateway.bedrock.parameters."""

from __future__ import annotations

import pytest

from gateway.bedrock.parameters import request_fields


def test_the_names_of_openai_and_of_converse_mean_the_same() -> None:
    expected = {"inferenceConfig": {"temperature": 0.2, "topP": 0.9, "maxTokens": 100, "stopSequences": ["END"]}}
    assert request_fields({"temperature": 0.2, "top_p": 0.9, "max_tokens": 100.0, "stop": "END"}) == expected
    assert request_fields({"temperature": 0.2, "topP": 0.9, "maxTokens": 100, "stopSequences": ["END"]}) == expected
    assert request_fields({"max_completion_tokens": 5}) == {"inferenceConfig": {"maxTokens": 5}}


def test_converses_own_fields_are_passed_through_in_both_spellings() -> None:
    guardrail = {"guardrailIdentifier": "abc", "guardrailVersion": "DRAFT"}
    assert request_fields({"guardrailConfig": guardrail}) == {"guardrailConfig": guardrail}
    assert request_fields({"guardrail_config": guardrail}) == {"guardrailConfig": guardrail}
    assert request_fields({"service_tier": "flex"}) == {"serviceTier": {"type": "flex"}}
    assert request_fields({"inferenceConfig": {"maxTokens": 7}, "max_tokens": 5}) == {
        "inferenceConfig": {"maxTokens": 7}
    }


def test_what_is_not_known_goes_to_the_model() -> None:
    assert request_fields({"top_k": 5, "additionalModelRequestFields": {"thinking": {"type": "adaptive"}}}) == {
        "additionalModelRequestFields": {"top_k": 5, "thinking": {"type": "adaptive"}}
    }


def test_what_is_absent_or_the_gateways_own_is_not_sent() -> None:
    assert request_fields({"temperature": None, "prompt_caching": True, "model_family": "x", "stop": []}) == {}


def test_one_sampler_is_left_where_the_model_takes_only_one() -> None:
    both = {"temperature": 0.5, "top_p": 0.5}
    assert request_fields(both, one_sampler=True) == {"inferenceConfig": {"temperature": 0.5}}
    assert request_fields({"top_p": 0.5}, one_sampler=True) == {"inferenceConfig": {"topP": 0.5}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 1.5),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", -0.1),
        ("top_p", float("nan")),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("max_tokens", float("inf")),
        ("stop", [""]),
        ("stop", [1]),
        ("stop", 5),
        ("guardrailConfig", "abc"),
        ("additionalModelResponseFieldPaths", "/stop"),
    ],
)
def test_what_the_service_can_never_accept_is_named(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{name} is "):
        request_fields({name: value})
