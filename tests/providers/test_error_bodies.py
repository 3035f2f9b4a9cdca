"""What failing services say is understood, whatever its shape."""

from __future__ import annotations

import json

import pytest

from gateway.errors import ModelErrorKind
from gateway.providers.error_bodies import ProviderError, error_in, error_kind, parse_error_body, retry_after_seconds

STATUSES = {
    300: "protocol",
    302: "protocol",
    400: "invalid",
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    405: "not_found",
    406: "invalid",
    407: "authentication",
    408: "timeout",
    409: "server",
    410: "not_found",
    413: "context_overflow",
    415: "invalid",
    422: "invalid",
    423: "server",
    424: "server",
    425: "server",
    429: "throttled",
    498: "overloaded",
    499: "network",
    500: "server",
    501: "invalid",
    502: "overloaded",
    503: "overloaded",
    504: "timeout",
    505: "invalid",
    520: "server",
    522: "timeout",
    523: "network",
    524: "timeout",
    529: "overloaded",
    599: "server",
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_a_status_alone_tells_the_kind(status: int, kind: str) -> None:
    assert error_kind(ProviderError(), status) == kind


def test_every_status_has_a_kind_and_every_kind_that_is_named_exists() -> None:
    kinds = {error_kind(ProviderError(), status) for status in range(300, 600)}
    assert kinds <= set(ModelErrorKind)


def body(**error: object) -> bytes:
    return json.dumps({"error": error}).encode()


BODIES = [
    (
        400,
        body(message="This model's maximum context length is 8192 tokens.", code="context_length_exceeded"),
        "overflow",
    ),
    (400, body(message="prompt is too long: 210000 tokens > 200000 maximum", type="invalid_request_error"), "overflow"),
    (400, body(message="Input is too long for requested model."), "overflow"),
    (400, body(message="the request exceeds the available context size. try increasing it", code=400), "overflow"),
    (400, body(message="input length and `max_tokens` exceed context limit: 1 + 2 > 2"), "overflow"),
    (400, body(message="The input token count (1048577) exceeds the maximum number of tokens allowed"), "overflow"),
    (400, body(message="Please reduce the length of the messages or completion."), "overflow"),
    (500, body(message="context window is full", type="server_error"), "overflow"),
    (413, body(message="Request too large for model", type="tokens"), "overflow"),
    (429, body(message="You exceeded your current quota", code="insufficient_quota"), "quota"),
    (429, body(message="Rate limit reached: too many tokens per minute", code="rate_limit_exceeded"), "throttled"),
    (429, body(message="Too many tokens, please wait before trying again."), "throttled"),
    (400, body(message="filtered", code="content_filter"), "content_filter"),
    (400, body(message="x", code="x", innererror={"code": "ResponsibleAIPolicyViolation"}), "content_filter"),
    (403, body(message="moderated", code=403, metadata={"reasons": ["x"], "flagged_input": "y"}), "content_filter"),
    (401, body(message="Incorrect API key provided", code="invalid_api_key"), "authentication"),
    (400, body(message="API key not valid. Please pass a valid API key.", status="INVALID_ARGUMENT"), "authentication"),
    (400, body(message="API key expired. Please renew the API key.", status="INVALID_ARGUMENT"), "authentication"),
    (404, body(message="The model `x` does not exist", code="model_not_found"), "not_found"),
    (400, body(message="Failed to call a function", code="tool_use_failed", failed_generation="<f"), "protocol"),
    (400, body(message="bad", type="invalid_request_error"), "invalid"),
    (500, body(message="bad", type="invalid_request_error"), "server"),
    (429, body(message="slow down", type="invalid_request_error"), "throttled"),
    (400, b'[{"error": {"code": 429, "message": "x", "status": "RESOURCE_EXHAUSTED"}}]', "throttled"),
    (400, b'{"error": "model is overloaded"}', "invalid"),
    (422, b'{"detail": [{"loc": ["body"], "msg": "extra_forbidden"}]}', "invalid"),
    (400, b'{"object": "error", "message": "maximum context length is 10", "code": 40303}', "overflow"),
    (502, b"<html><h1>502 Bad Gateway</h1></html>", "overloaded"),
    (500, b"", "server"),
    (400, b"null", "invalid"),
]


@pytest.mark.parametrize(("status", "raw", "kind"), BODIES)
def test_the_body_tells_what_the_status_does_not(status: int, raw: bytes, kind: str) -> None:
    expected = "context_overflow" if kind == "overflow" else kind
    assert error_kind(parse_error_body(raw), status) == expected


@pytest.mark.parametrize(
    ("chunk", "kind"),
    [
        ({"error": {"code": 400, "message": "bad"}, "choices": []}, "invalid"),
        ({"error": {"code": "502", "message": "upstream"}}, "overloaded"),
        ({"error": {"message": "x", "type": "overloaded_error"}}, "overloaded"),
        ({"error": {"message": "x", "type": "server_error"}}, "server"),
        ({"error": {"message": "Rate limit reached", "type": "api_error"}}, "throttled"),
        ({"error": "the request timed out"}, "timeout"),
        ({"error": {"message": "?"}}, "server"),
        ({"error": {"message": "x", "status_code": 529}}, "overloaded"),
        ({"object": "error", "message": "x", "type": "BadRequestError", "code": 400}, "invalid"),
        ({"message": "Too many requests"}, "throttled"),
        ({"detail": "over capacity"}, "overloaded"),
    ],
)
def test_errors_in_the_middle_of_a_stream_are_found(chunk: dict[str, object], kind: str) -> None:
    error = error_in(chunk)
    assert error is not None
    assert error_kind(error) == kind


@pytest.mark.parametrize("chunk", [{"choices": []}, {"error": None, "choices": []}, {"type": "ping"}, {}])
def test_other_chunks_are_no_errors(chunk: dict[str, object]) -> None:
    assert error_in(chunk) is None


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        ({"message": "Rate limit reached. Please try again in 1.5s. Visit"}, 1.5),
        ({"message": "Please try again in 20ms."}, 0.02),
        ({"message": "Please retry after 6 seconds."}, 6.0),
        (
            {"message": "x", "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13s"}]},
            13.0,
        ),
        ({"message": "try again later"}, None),
    ],
)
def test_a_wait_that_the_body_asks_for_is_found(error: dict[str, object], seconds: float | None) -> None:
    assert parse_error_body(body(**error)).retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "2"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 15 Jan 2027 07:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e400"}, None),
    ],
)
def test_a_wait_is_asked_for_in_any_of_three_ways(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(headers, now=1_800_000_000.0) == seconds
