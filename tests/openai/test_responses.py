"""The facts of the Responses wire: profiles, addresses, errors, counts, and where Bedrock serves it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.bedrock.responses_hosts import (
    MANTLE,
    RUNTIME,
    Host,
    host_of,
    is_wrong_path,
    paths_of,
    region_in,
    wire_model_id,
)
from gateway.events import StopReason
from gateway.openai.responses import (
    INCOMPLETE_REASONS,
    failed_response,
    is_chain_lost,
    profile_of,
    refuses_encrypted_reasoning,
    refuses_replayed_reasoning,
    replayed_reasoning,
    responses_url,
    token_counts,
)
from gateway.providers.error_bodies import ProviderError, parse_error_body

OPENAI = "api.openai.com"


def test_every_reason_stands_for_one_that_there_is() -> None:
    assert set(INCOMPLETE_REASONS.values()) <= set(StopReason)


@pytest.mark.parametrize(
    ("model_id", "reasons", "samplers"),
    [
        ("gpt-4o", False, True),
        ("gpt-4.1-mini", False, True),
        ("gpt-5-chat-latest", False, True),
        ("gpt-5.2-chat", False, True),
        ("gpt-5", True, False),
        ("gpt-5-mini", True, False),
        ("gpt-5.6", True, True),
        ("o3", True, False),
        ("o4-mini-2025-04-16", True, False),
        ("openai/gpt-4o", False, True),
        ("openai.gpt-5-mini", True, False),
        ("us.openai.gpt-5.6-sol", True, True),
        ("something-new", True, True),
    ],
)
def test_a_familys_profile_is_told_by_the_model_id(model_id: str, reasons: bool, samplers: bool) -> None:
    profile = profile_of(OPENAI, model_id)
    assert (profile.reasons, profile.encrypted_reasoning, profile.samplers) == (reasons, reasons, samplers)


def test_a_servers_profile_is_told_by_its_host() -> None:
    assert profile_of(OPENAI, "m").multimodal_outputs
    assert profile_of("Mine.OpenAI.Azure.com.", "m").developer_role == "developer"
    assert not profile_of("bedrock-mantle.us-east-1.api.aws", "m").media_urls
    assert not profile_of("bedrock-runtime.cn-north-1.amazonaws.com.cn", "m").media_urls
    assert profile_of("127.0.0.1", "m").developer_role == "system"
    assert profile_of("notapi.openai.com.evil.example", "m") == profile_of("127.0.0.1", "m")
    assert not profile_of("api.aws", "openai.gpt-oss-120b").images


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        ("https://h/v1/", "https://h/v1/responses"),
        ("https://h/v1/responses", "https://h/v1/responses"),
        ("https://h/openai?api-version=preview", "https://h/openai/responses?api-version=preview"),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434/v1/responses"),
    ],
)
def test_the_address_is_below_the_endpoint(endpoint: str, url: str) -> None:
    assert responses_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint", ["", "h", "ftp://h", "https://", "https://u:p@h/v1", "https://h:99999/", "http://a b"]
)
def test_an_endpoint_that_is_none_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        responses_url(endpoint)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({}, (None, None, None, None, None)),
        ({"input_tokens": 5, "output_tokens": 6.0}, (5, 6, None, None, None)),
        ({"input_tokens": -1, "output_tokens": True, "input_tokens_details": None}, (None,) * 5),
        (
            {
                "input_tokens": 5,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
                "output_tokens": 6,
                "output_tokens_details": {"reasoning_tokens": 3},
            },
            (5, 6, 3, 2, 1),
        ),
    ],
)
def test_tokens_are_counted_where_the_provider_says_so(usage: dict[str, Any], counts: tuple[int | None, ...]) -> None:
    assert token_counts(usage) == counts


CHAIN_LOST = [
    b'{"error": {"code": "previous_response_not_found", "message": "Previous response with id \'x\' not found."}}',
    b'{"error": {"message": "Previous response with id \'x\' not found.", "code": null}}',
    b'{"error": {"message": "No tool output found for function call call_1."}}',
    b'{"message": "Response with id resp_1 not found."}',
    b'{"error": {"message": "Item with id \'rs_1\' not found. Items are not persisted when `store` is set to false."}}',
]


@pytest.mark.parametrize("body", CHAIN_LOST)
def test_an_error_that_says_that_the_chain_is_lost_is_known(body: bytes) -> None:
    assert is_chain_lost(parse_error_body(body))


@pytest.mark.parametrize(
    "body",
    [b'{"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}', b"", b"<html>not found"],
)
def test_other_errors_lose_no_chain(body: bytes) -> None:
    assert not is_chain_lost(parse_error_body(body))


def test_a_refusal_of_sealed_reasoning_is_known() -> None:
    assert refuses_encrypted_reasoning(ProviderError("Encrypted content is not supported with this model."))
    assert refuses_encrypted_reasoning(ProviderError("Unknown parameter: 'include'."))
    assert refuses_encrypted_reasoning(ProviderError('[{"loc": ["body", "include", 0], "msg": "Input should be"}]'))
    assert not refuses_encrypted_reasoning(ProviderError("Invalid 'temperature'."))
    assert not refuses_encrypted_reasoning(ProviderError("Your messages must include the word json."))


@pytest.mark.parametrize(
    "error",
    [
        ProviderError("The encrypted content gAAA... could not be verified."),
        ProviderError("x", "invalid_encrypted_content"),
        ProviderError("Item 'rs_1' of type 'reasoning' was provided without its required following item."),
        ProviderError("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    ],
)
def test_a_refusal_of_reasoning_that_went_back_is_known(error: ProviderError) -> None:
    assert refuses_replayed_reasoning(error)
    assert not refuses_encrypted_reasoning(error)


def test_other_refusals_are_not_about_reasoning() -> None:
    assert not refuses_replayed_reasoning(ProviderError("Encrypted content is not supported with this model."))
    assert not refuses_replayed_reasoning(ProviderError("No tool output found for function call call_1."))


def test_an_error_is_found_wherever_a_failed_response_has_it() -> None:
    assert failed_response({"error": {"code": "server_error", "message": "x"}}).code == "server_error"
    assert failed_response({"type": "error", "code": "server_error", "message": "x"}).code == "server_error"
    assert failed_response({"status": "failed", "error": None}) == ProviderError()


def test_reasoning_goes_back_only_if_there_is_something_to_read() -> None:
    assert replayed_reasoning({"type": "reasoning", "id": "rs_1", "summary": [{"text": "x"}]}) is None
    assert replayed_reasoning({"type": "reasoning", "content": [{"text": "x"}]}) == {
        "type": "reasoning",
        "id": "rs_0",
        "summary": [],
        "content": [{"text": "x"}],
    }


# --- Bedrock ---------------------------------------------------------------------------------------------------------

MANTLE_URL = "https://bedrock-mantle.eu-west-1.api.aws"
RUNTIME_URL = "https://bedrock-runtime.eu-west-1.amazonaws.com"


@pytest.mark.parametrize(
    ("model_id", "endpoint", "host"),
    [
        ("openai.gpt-oss-120b", None, MANTLE),
        ("openai.gpt-oss-120b-1:0", None, MANTLE),
        ("us.openai.gpt-5.6-sol", None, RUNTIME),
        ("global.openai.gpt-5.6-sol", None, RUNTIME),
        ("us-gov.openai.gpt-5.6", None, RUNTIME),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/us.openai.gpt-5.6", None, RUNTIME),
        ("us.openai.gpt-5.6-sol", MANTLE_URL, MANTLE),
        ("openai.gpt-5.6", f"{RUNTIME_URL}/openai/v1", RUNTIME),
        ("openai.gpt-5.6", "https://proxy.example/bedrock-runtime", MANTLE),
    ],
)
def test_the_host_is_told_by_the_endpoint_or_by_the_id(model_id: str, endpoint: str | None, host: Host) -> None:
    assert host_of(model_id, endpoint) is host


@pytest.mark.parametrize(
    ("host", "region", "url"),
    [
        (MANTLE, "us-east-1", "https://bedrock-mantle.us-east-1.api.aws"),
        (RUNTIME, "us-east-1", "https://bedrock-runtime.us-east-1.amazonaws.com"),
        (RUNTIME, "cn-north-1", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_a_host_has_an_address_in_each_region(host: Host, region: str, url: str) -> None:
    assert host.url(region) == url


@pytest.mark.parametrize(
    ("model_id", "first"),
    [
        ("openai.gpt-oss-120b", "/v1"),
        ("openai.gpt-5.6-luna", "/openai/v1"),
        ("openai.gpt-6", "/openai/v1"),
        ("xai.grok-4.1", "/openai/v1"),
        ("google.gemma-4-27b", "/openai/v1"),
        ("qwen.qwen3-235b", "/v1"),
    ],
)
def test_on_mantle_a_model_has_a_path_and_a_second_guess(model_id: str, first: str) -> None:
    assert paths_of(MANTLE, model_id)[0] == first
    assert set(paths_of(MANTLE, model_id)) == {"/v1", "/openai/v1"}


def test_on_the_runtime_there_is_one_path() -> None:
    assert paths_of(RUNTIME, "us.openai.gpt-5.6") == paths_of(RUNTIME, "openai.gpt-5.6") == ("/openai/v1",)


def test_mantle_knows_no_versions() -> None:
    assert wire_model_id(MANTLE, "openai.gpt-oss-120b-1:0") == "openai.gpt-oss-120b"
    assert wire_model_id(MANTLE, "anthropic.claude-x-v1:0") == "anthropic.claude-x"
    assert wire_model_id(RUNTIME, "us.openai.gpt-5.6-1:0") == "us.openai.gpt-5.6-1:0"


def test_a_region_stands_in_an_endpoint_or_an_arn() -> None:
    assert region_in("m", MANTLE_URL) == "eu-west-1"
    assert region_in("m", f"{RUNTIME_URL}/openai/v1") == "eu-west-1"
    assert region_in("m", "https://bedrock-runtime-fips.us-east-1.amazonaws.com") == "us-east-1"
    assert region_in("arn:aws:bedrock:eu-west-3:1:inference-profile/x", None) == "eu-west-3"
    assert region_in("m", "https://bedrock-mantle.eu-west-1.api.aws.evil.example") is None
    assert region_in("m", None) is None


def test_a_refusal_of_the_path_is_known() -> None:
    assert is_wrong_path(400, "The model 'x' isn't supported on this route.")
    assert is_wrong_path(404, "model is not supported for this endpoint")
    assert not is_wrong_path(500, "isn't supported on this route")
    assert not is_wrong_path(400, "Invalid 'temperature'")
