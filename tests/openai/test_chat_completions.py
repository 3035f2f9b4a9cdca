"""The facts of the chat completions wire: errors, counts, names, addresses, dialects."""

from __future__ import annotations

import pytest

from gateway.errors import ModelErrorKind
from gateway.events import StopReason
from gateway.openai.chat_completions import (
    FAILED_REASONS,
    STOP_REASONS,
    Dialect,
    TokenCounts,
    completions_url,
    dialect_of,
    joined_details,
    safe_call_id,
    safe_tool_name,
    token_counts,
)


def test_every_reason_that_is_named_exists() -> None:
    assert set(FAILED_REASONS.values()) <= set(ModelErrorKind)
    assert set(STOP_REASONS.values()) <= set(StopReason)


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 5,
                "total_tokens": 15,
                "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            TokenCounts(10, 5, 3, 4, 2),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 40}, TokenCounts(10, 30, None, None, None)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}, TokenCounts(9, None, None, 8, None)),
        ({"prompt_tokens": 9, "cached_tokens": 7}, TokenCounts(9, None, None, 7, None)),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 6}, TokenCounts(9, None, None, None, 6)),
        ({"prompt_tokens": -1, "completion_tokens": True, "total_tokens": "9"}, TokenCounts(*[None] * 5)),
        ({"prompt_tokens": 10**30, "completion_tokens": 3.0}, TokenCounts(None, 3, None, None, None)),
        ({"prompt_tokens_details": None, "completion_tokens_details": []}, TokenCounts(*[None] * 5)),
    ],
)
def test_token_counts_are_read_from_every_dialect_and_nonsense_is_left_out(
    usage: dict[str, object], counts: TokenCounts
) -> None:
    assert token_counts(usage) == counts


@pytest.mark.parametrize("name", ["a", "get_weather-2", "A" * 64])
def test_names_that_the_wire_takes_stay(name: str) -> None:
    assert safe_tool_name(name) == name


def test_other_names_become_ones_that_it_takes_and_stay_apart() -> None:
    names = ["server.tool", "server:tool", "server tool", "", "ü", "x" * 65, "x" * 66, "a\ud800"]
    safe = [safe_tool_name(name) for name in names]
    assert len(set(safe)) == len(names)
    assert all(name.isascii() and 0 < len(name) <= 64 and safe_tool_name(name) == name for name in safe)
    assert safe == [safe_tool_name(name) for name in names]


def test_call_ids_are_shortened_only_where_they_must_be() -> None:
    assert safe_call_id("call_abc", Dialect()) == "call_abc"
    long = [safe_call_id("x" * 41 + tail, Dialect()) for tail in "ab"]
    assert long[0] != long[1]
    assert all(len(call_id) <= 40 for call_id in long)
    assert safe_call_id("a b", Dialect()) != "a b"
    mistral = dialect_of("https://api.mistral.ai/v1")
    assert safe_call_id("D681PevKs", mistral) == "D681PevKs"
    assert len(safe_call_id("call_abc", mistral)) == 9
    assert safe_call_id("call_abc", mistral).isalnum()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"),
        ("http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1/chat/completions"),
        ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        (
            "https://r.openai.azure.com/openai/v1?api-version=x",
            "https://r.openai.azure.com/openai/v1/chat/completions?api-version=x",
        ),
        (" http://[::1]:8000 ", "http://[::1]:8000/chat/completions"),
    ],
)
def test_the_address_is_below_the_endpoint(endpoint: str, url: str) -> None:
    assert completions_url(endpoint) == url


@pytest.mark.parametrize(
    "endpoint", ["", "api.openai.com/v1", "ftp://h/v1", "http://", "http://u:p@h/v1", "http://h:99999", "http://a b/"]
)
def test_endpoints_that_are_none_are_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        completions_url(endpoint)


def test_a_dialect_belongs_to_a_host_and_those_below_it_only() -> None:
    assert dialect_of("https://api.openai.com/v1").developer_role == "developer"
    assert dialect_of("https://my.openai.azure.com/openai/v1").developer_role == "developer"
    assert dialect_of("https://notapi.openai.com.evil.example/v1") == Dialect()
    assert dialect_of("https://xapi.openai.com/v1") == Dialect()
    assert dialect_of("http://127.0.0.1:11434/v1") == Dialect()


def test_pieces_of_one_reasoning_detail_are_put_together() -> None:
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "a", "format": None},
        {"type": "reasoning.text", "index": 0, "text": "b"},
        {"type": "reasoning.text", "index": 0, "text": "", "signature": "s", "format": "f"},
        "nonsense",
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
    assert joined_details(pieces) == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "s", "format": "f"},
        {"type": "reasoning.encrypted", "index": 1, "data": "x"},
    ]
