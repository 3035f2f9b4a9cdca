"""Which error an exception, a status or a phrase of Bedrock's becomes."""

from __future__ import annotations

import pytest

from gateway.bedrock.errors import provider_error
from gateway.errors import ModelErrorKind
from gateway.providers.aws_exceptions import EXCEPTION_KINDS
from tests.bedrock_recordings import recorded_bytes, recordings
from tests.converse_exceptions import MEANINGS, SERVICE, of_streams

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"


def test_the_table_covers_every_exception_of_the_service_model() -> None:
    declared = {item["shape"] for item in SERVICE["operations"]["ConverseStream"]["errors"]}
    assert declared <= MEANINGS.keys()
    assert {name.lower() for name in MEANINGS} <= EXCEPTION_KINDS.keys()
    assert len(of_streams()) == 5
    assert {name.lower() for name in of_streams()} <= EXCEPTION_KINDS.keys()
    assert set(EXCEPTION_KINDS.values()) <= set(ModelErrorKind)


@pytest.mark.parametrize("name", MEANINGS)
def test_an_exception_has_its_kind_whatever_the_status_says(name: str) -> None:
    for status in (400, 500):
        made = provider_error(name, "the details", CLAUDE, status=status)
        assert (made.kind, made.retryable) == MEANINGS[name]
        assert "details" not in made.message
        assert "Exception" not in made.message
        assert made.provider_message == f"{name}: the details"


def test_where_nothing_was_found_is_told_to_the_log() -> None:
    address = "https://bedrock.example/model/x/converse-stream"
    assert provider_error("", "no", CLAUDE, status=404, address=address).provider_message == f"{address}: no"
    assert provider_error("", "no", CLAUDE, status=500, address=address).provider_message == "no"


@pytest.mark.parametrize(
    ("status", "kind", "retryable"),
    [
        (400, ModelErrorKind.INVALID, False),
        (401, ModelErrorKind.AUTHENTICATION, False),
        (403, ModelErrorKind.AUTHENTICATION, False),
        (404, ModelErrorKind.NOT_FOUND, False),
        (408, ModelErrorKind.TIMEOUT, True),
        (413, ModelErrorKind.INVALID, False),
        (424, ModelErrorKind.SERVER, True),
        (429, ModelErrorKind.THROTTLED, True),
        (500, ModelErrorKind.SERVER, True),
        (502, ModelErrorKind.SERVER, True),
        (503, ModelErrorKind.OVERLOADED, True),
        (529, ModelErrorKind.OVERLOADED, True),
    ],
)
def test_without_a_name_the_status_decides(status: int, kind: ModelErrorKind, retryable: bool) -> None:
    made = provider_error("", "<html>", CLAUDE, status=status)
    assert (made.kind, made.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    "said",
    [
        "Input is too long for requested model.",
        "input length and `max_tokens` exceed context limit: 199980 + 8192 > 200000",
        "The model returned the following errors: too many total text bytes: 30000000 > 25000000",
        "The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens. Please reduce the length of the prompt",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.",
    ],
)
def test_the_many_words_for_too_long_are_a_context_overflow(said: str) -> None:
    made = provider_error("ValidationException", said, CLAUDE, status=400)
    assert (made.kind, made.retryable) == (ModelErrorKind.CONTEXT_OVERFLOW, False)


def test_too_many_tokens_a_minute_is_no_overflow() -> None:
    said = "Too many tokens, please wait before trying again. Too many input tokens."
    assert provider_error("ThrottlingException", said, CLAUDE, status=429).kind is ModelErrorKind.THROTTLED


def test_the_recorded_error_is_a_model_that_is_not_there() -> None:
    (entry,) = [entry for entry in recordings("json") if entry["status"] == 400]
    said = recorded_bytes(entry).decode()
    assert provider_error("ValidationException", said, "us.no", status=400).kind is ModelErrorKind.NOT_FOUND
