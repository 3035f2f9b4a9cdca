"""Errors in OpenAI's form: of requests that reach no route, and what becomes of the gateway's codes and statuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from gateway.errors import (
    ConflictError,
    FieldProblem,
    ForbiddenError,
    GatewayError,
    InvalidRequestError,
    ModelErrorKind,
    NotFoundError,
    StoreError,
    StoreFullError,
    TooLargeError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from gateway.events import Cancelled, Completed, RunFailed, RunFinished
from gateway.openai_api.errors import (
    openai_error,
    param_of,
    retry_headers,
    run_failure,
    status_of,
    unknown_model,
    wrong,
)
from gateway.problems import problem_of
from gateway.protocol.failure_status import RunFailedError
from tests.chat_scene import chat_gateway
from tests.running_gateway import LocalGateway, agent, local_gateway, scripted

KEY = {"authorization": "Bearer alice-key-of-the-tests"}
LIMITS = {"max_body_bytes": 2000}
SERVER: dict[str, Any] = {"api_keys": [{"name": "alice", "key": "alice-key-of-the-tests", "limits": LIMITS}]}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[LocalGateway]:
    async with local_gateway(tmp_path, [agent("helper", scripted([{"text": "hi"}]))], server=SERVER) as local:
        yield local


def error(answer: httpx.Response, status: int) -> dict[str, object]:
    """The error of an answer that has nothing else."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["error"]
    found: dict[str, object] = answer.json()["error"]
    assert list(found) == ["message", "type", "param", "code"]
    return found


@pytest.mark.parametrize("prefix", ["/v1", "/compatible-mode/v1"])
@pytest.mark.parametrize("path", ["/models", "/models/helper", "/chat/completions", "/responses", "/x/y", "/", ""])
async def test_without_a_key_every_path_answers_in_openai_s_form(gateway: LocalGateway, prefix: str, path: str) -> None:
    answer = await gateway.client.http.get(prefix + path)
    found = error(answer, 401)
    assert (found["type"], found["code"], found["param"]) == ("authentication_error", "invalid_api_key", None)
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_the_sdk_takes_a_wrong_key_for_what_it_is(gateway: LocalGateway) -> None:
    async with openai.AsyncOpenAI(base_url=f"{gateway.client.base_url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
    assert refused.value.code == "invalid_api_key"
    assert refused.value.request_id


async def test_a_path_that_is_not_served_is_named(gateway: LocalGateway) -> None:
    found = error(await gateway.client.http.post("/v1/engines/x", json={}, headers=KEY), 404)
    assert (found["type"], found["code"]) == ("invalid_request_error", "unknown_url")
    assert "'/v1/engines/x'" in str(found["message"])
    problem = await gateway.client.http.get("/v2/models", headers=KEY)
    assert problem.headers["content-type"] == "application/problem+json", "other paths keep their form"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/models", "/v1/models"),
        ("/models/assistant", "/v1/models"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/responses", "/v1/responses"),
        ("/responses/resp_1/cancel", "/v1/responses"),
        ("/conversations", "/v1/conversations"),
    ],
)
async def test_a_base_url_without_v1_is_told_what_was_meant(gateway: LocalGateway, path: str, meant: str) -> None:
    for method in ("GET", "POST"):
        found = error(await gateway.client.http.request(method, path, headers=KEY), 404)
        assert found["code"] == "unknown_url"
        assert f"did you mean {meant}?" in str(found["message"])
    other = await gateway.client.http.get("/modelsx", headers=KEY)
    assert other.headers["content-type"] == "application/problem+json"


async def test_a_method_that_is_not_served_is_answered_with_those_that_are(gateway: LocalGateway) -> None:
    answer = await gateway.client.http.delete("/v1/models", headers=KEY)
    found = error(answer, 405)
    assert answer.headers["allow"] == "GET, HEAD"
    assert (found["type"], found["code"]) == ("invalid_request_error", "method_not_allowed")


async def test_a_body_that_is_too_large_is_refused(gateway: LocalGateway) -> None:
    answer = await gateway.client.http.post("/v1/chat/completions", content=b" " * 3000, headers={**KEY, **JSON})
    found = error(answer, 413)
    assert (found["type"], found["code"]) == ("invalid_request_error", "body_too_large")


async def test_a_body_that_is_no_json_by_its_type_is_refused(gateway: LocalGateway) -> None:
    form = {**KEY, "content-type": "multipart/form-data"}
    found = error(await gateway.client.http.post("/v1/chat/completions", content=b"{}", headers=form), 415)
    assert (found["type"], found["code"]) == ("invalid_request_error", "unsupported_media_type")


def test_a_model_s_name_is_not_repeated_at_any_length() -> None:
    assert len(unknown_model("x" * 100_000).message) < 1_000


# --- codes and statuses


INVALID, FAILED, LIMIT = "invalid_request_error", "server_error", "rate_limit_error"


@pytest.mark.parametrize(
    ("raised", "status", "kind", "code", "param"),
    [
        (InvalidRequestError("x"), 400, INVALID, "invalid_request", None),
        (wrong("x", "/messages/0/content"), 400, INVALID, "invalid_value", "messages[0].content"),
        (UnauthenticatedError("x"), 401, "authentication_error", "invalid_api_key", None),
        (ForbiddenError("x", code="protocol_not_allowed"), 403, "permission_error", "protocol_not_allowed", None),
        (unknown_model("x"), 404, INVALID, "model_not_found", "model"),
        (NotFoundError("x", code="agent_not_found"), 404, INVALID, "model_not_found", None),
        (ConflictError("x", code="thread_busy"), 409, INVALID, "thread_busy", None),
        (TooLargeError("x"), 413, INVALID, "body_too_large", None),
        (UnsupportedMediaTypeError("x"), 415, INVALID, "unsupported_media_type", None),
        (TooManyRequestsError("x"), 429, LIMIT, "rate_limit_exceeded", None),
        (TooManyRequestsError("x", code="limit_concurrent_runs"), 429, LIMIT, "rate_limit_exceeded", None),
        (StoreError("x"), 503, FAILED, "store_unavailable", None),
        (StoreFullError("x"), 503, FAILED, "store_full", None),
        (UnavailableError("x", code="overloaded"), 503, FAILED, "overloaded", None),
        (GatewayError("x"), 500, FAILED, "internal_error", None),
    ],
    ids=lambda value: value.code if isinstance(value, GatewayError) else None,
)
def test_every_kind_of_error_has_its_status_type_and_code(
    raised: GatewayError, status: int, kind: str, code: str, param: str | None
) -> None:
    problem = problem_of(raised)
    assert status_of(problem) == status
    assert openai_error(problem) == {"error": {"message": raised.message, "type": kind, "param": param, "code": code}}


FAILURES = {
    ModelErrorKind.THROTTLED: (429, LIMIT, "rate_limit_exceeded"),
    ModelErrorKind.QUOTA: (429, LIMIT, "insufficient_quota"),
    ModelErrorKind.OVERLOADED: (503, FAILED, "model_overloaded"),
    ModelErrorKind.TIMEOUT: (504, FAILED, "model_timeout"),
    ModelErrorKind.CONTEXT_OVERFLOW: (400, INVALID, "context_length_exceeded"),
    ModelErrorKind.CONTENT_FILTER: (400, INVALID, "content_filter"),
    ModelErrorKind.NETWORK: (502, FAILED, "model_network"),
    ModelErrorKind.INVALID: (400, INVALID, "model_invalid"),
    ModelErrorKind.AUTHENTICATION: (424, INVALID, "model_authentication"),
    ModelErrorKind.NOT_FOUND: (424, INVALID, "model_unavailable"),
    ModelErrorKind.SERVER: (502, FAILED, "model_server"),
    ModelErrorKind.TRUNCATED: (502, FAILED, "model_truncated"),
    ModelErrorKind.PROTOCOL: (502, FAILED, "model_protocol"),
}


def failed(code: str, *, to_operator: bool = True) -> tuple[int, dict[str, Any]]:
    error = run_failure(RunFailed(code, "openai gpt-5: no"), agent_id="helper", to_operator=to_operator)
    assert isinstance(error, RunFailedError)
    found: Any = openai_error(problem_of(error))["error"]
    return error.status, found


@pytest.mark.parametrize("kind", ModelErrorKind)
def test_every_failure_of_a_model_has_its_status_type_and_code(kind: ModelErrorKind) -> None:
    status, found = failed(f"model_{kind}")
    assert (status, found["type"], found["code"]) == FAILURES[kind]


def test_why_a_model_failed_is_told_to_operators_alone() -> None:
    assert failed("model_server")[1]["message"] == "openai gpt-5: no"
    others = [failed(f"model_{kind}", to_operator=False)[1]["message"] for kind in ModelErrorKind]
    assert not [message for message in others if "gpt-5" in message]
    told = [message for message in others if "'helper'" in message]
    assert len(told) == len(ModelErrorKind) - 2, "two are about the conversation alone"


def test_a_cancelled_run_is_a_conflict_and_a_completed_one_no_error() -> None:
    cancelled = run_failure(RunFinished(Cancelled()))
    assert cancelled is not None
    assert (cancelled.status, cancelled.code) == (409, "cancelled")
    assert run_failure(RunFinished(Completed())) is None


def test_sdks_are_told_not_to_repeat_what_would_meet_the_same_conflict() -> None:
    told = {
        code: retry_headers(problem_of(ConflictError("x", code=code))).get("x-should-retry")
        for code in ("thread_busy", "run_exists", "agent_unusable")
    }
    assert told == {"thread_busy": None, "run_exists": "false", "agent_unusable": "false"}
    assert retry_headers(problem_of(TooManyRequestsError("x"))) == {}


@pytest.mark.parametrize(
    ("pointer", "param"),
    [
        ("", None),
        ("/model", "model"),
        ("/messages/0/content/12/text", "messages[0].content[12].text"),
        ("/0/a", "[0].a"),
        ("/metadata/a~1b~0c", "metadata.a/b~c"),
    ],
)
def test_a_place_is_written_as_openai_does(pointer: str, param: str | None) -> None:
    assert param_of(pointer) == param


def test_the_message_names_all_wrong_fields_and_param_the_first() -> None:
    problems = [FieldProblem("/temperature", "too hot"), FieldProblem("/top_p", "too much")]
    found: Any = openai_error(problem_of(InvalidRequestError("too hot; too much", problems=problems, status=400)))
    assert (found["error"]["message"], found["error"]["param"]) == ("too hot; too much", "temperature")


# --- runs that fail after they began


@pytest.mark.parametrize(
    ("kind", "raised"),
    [
        ("throttled", openai.RateLimitError),
        ("overloaded", openai.InternalServerError),
        ("context_overflow", openai.BadRequestError),
        ("server", openai.InternalServerError),
    ],
)
async def test_a_run_that_fails_after_it_began_is_not_asked_for_again(
    tmp_path: Path, kind: str, raised: type[openai.APIStatusError]
) -> None:
    helper = agent("helper", scripted([{"text": "so "}, {"error": kind, "message": "no"}]))
    helper["parameters"] = {"model_attempts": 1}
    asked: list[str] = []

    async def note(request: httpx.Request) -> None:
        asked.append(request.url.path)

    async with chat_gateway(tmp_path, [helper]) as scene:
        http = openai.DefaultAsyncHttpxClient(event_hooks={"request": [note]}, trust_env=False)
        async with openai.AsyncOpenAI(base_url=scene.base_url, api_key="x", http_client=http, max_retries=3) as sdk:
            with pytest.raises(raised) as failure:
                await sdk.chat.completions.create(model="helper", messages=[{"role": "user", "content": "hi"}])
        headers = failure.value.response.headers
        run = await scene.gateway.client.get(f"/runs/{headers['x-run-id']}")
    assert asked == ["/v1/chat/completions"]
    assert headers["x-should-retry"] == "false"
    assert (run["status"], run["threadId"]) == ("failed", headers["x-thread-id"])


async def test_a_key_s_limit_is_a_429_that_says_when_to_ask_again(tmp_path: Path) -> None:
    key = {**SERVER["api_keys"][0], "limits": {"runs_per_minute": 1}}
    body = {"model": "helper", "messages": [{"role": "user", "content": "hi"}]}
    helper = agent("helper", scripted([{"text": "hi"}]))
    async with local_gateway(tmp_path, [helper], server={"api_keys": [key]}) as gateway:
        first, second = [await gateway.client.http.post("/v1/chat/completions", json=body, headers=KEY) for _ in "12"]
    assert first.status_code == 200
    found = error(second, 429)
    assert (found["type"], found["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert int(second.headers["retry-after"]) >= 1
    assert "x-should-retry" not in second.headers
