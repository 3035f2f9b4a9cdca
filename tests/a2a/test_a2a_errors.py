"""A2A's errors: their codes in JSON-RPC, their statuses over REST, and what becomes of the gateway's own errors."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.utils.errors import A2A_ERROR_MAPPING, A2A_REASON_TO_ERROR, JSON_RPC_ERROR_CODE_MAP, InvalidParamsError

from gateway.a2a import errors
from gateway.errors import (
    ConflictError,
    FieldProblem,
    GatewayError,
    InvalidRequestError,
    ModelError,
    ModelErrorKind,
    StoreError,
    TooManyRequestsError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedMediaTypeError,
)
from gateway.problems import problem_of

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"

OWN: list[GatewayError] = [
    errors.task_not_found("task_1"),
    errors.not_cancelable("task_1", "completed"),
    InvalidRequestError("none here", code=errors.PUSH_NOTIFICATION_NOT_SUPPORTED),
    errors.unsupported("the task is at work"),
    InvalidRequestError("no sounds", code=errors.CONTENT_TYPE_NOT_SUPPORTED),
    InvalidRequestError("there is no card", code=errors.EXTENDED_AGENT_CARD_NOT_CONFIGURED),
    errors.version_not_supported("2.0"),
    InvalidRequestError("the agent says nothing of use", code=errors.INVALID_AGENT_RESPONSE),
    InvalidRequestError("an extension is needed", code=errors.EXTENSION_SUPPORT_REQUIRED),
]

STATUSES = {
    "TASK_NOT_FOUND": (404, "NOT_FOUND"),
    "TASK_NOT_CANCELABLE": (400, "FAILED_PRECONDITION"),
    "PUSH_NOTIFICATION_NOT_SUPPORTED": (400, "FAILED_PRECONDITION"),
    "UNSUPPORTED_OPERATION": (400, "FAILED_PRECONDITION"),
    "CONTENT_TYPE_NOT_SUPPORTED": (415, "INVALID_ARGUMENT"),
    "INVALID_AGENT_RESPONSE": (500, "INTERNAL"),
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": (400, "FAILED_PRECONDITION"),
    "EXTENSION_SUPPORT_REQUIRED": (400, "FAILED_PRECONDITION"),
    "VERSION_NOT_SUPPORTED": (400, "FAILED_PRECONDITION"),
}
"""The table of the specification, which 1.0.1 changed, but for the Content-Type, which is HTTP's own."""


def written(error: GatewayError) -> tuple[dict[str, Any], int, dict[str, Any]]:
    """The error in JSON-RPC, and the status and the error over REST."""
    problem = problem_of(error)
    status, body = errors.rest_error(problem)
    rest: Any = body["error"]
    assert list(body) == ["error"]
    assert rest["code"] == status
    assert rest["message"] == error.message
    return errors.jsonrpc_error(problem), status, rest


@pytest.mark.parametrize("error", OWN, ids=lambda error: error.code)
def test_the_errors_of_a2a_are_those_of_its_specification_and_package(error: GatewayError) -> None:
    rpc, status, rest = written(error)
    info = rpc["data"][0]
    assert rpc["code"] == JSON_RPC_ERROR_CODE_MAP[A2A_REASON_TO_ERROR[info["reason"]]]
    assert (status, rest["status"]) == STATUSES[info["reason"]]
    form = A2A_ERROR_MAPPING[A2A_REASON_TO_ERROR[info["reason"]]]
    assert rest["status"] == form.grpc_status
    assert status in (form.http_code, 415)
    assert (info["@type"], info["domain"]) == (ERROR_INFO, "a2a-protocol.org")
    assert rest["details"] == rpc["data"]


def test_an_unknown_task_is_named() -> None:
    rpc, _, _ = written(errors.task_not_found("task_1"))
    assert rpc["data"][0]["metadata"] == {"taskId": "task_1"}


def test_wrong_parameters_name_their_fields() -> None:
    rpc, status, rest = written(errors.invalid_params("parts must be an array, not a string", "/message/parts"))
    assert rpc["code"] == -32602
    assert (status, rest["status"]) == (400, "INVALID_ARGUMENT")
    assert A2A_REASON_TO_ERROR[rpc["data"][0]["reason"]] is InvalidParamsError
    violations = [{"field": "message.parts", "description": "parts must be an array, not a string"}]
    assert rpc["data"][1] == {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
    assert rest["details"] == rpc["data"]


def test_places_in_arrays_are_written_as_fields() -> None:
    rpc, _, _ = written(errors.invalid_params("text must be a string", "/message/parts/3/text"))
    assert rpc["data"][1]["fieldViolations"][0]["field"] == "message.parts[3].text"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequestError("no JSON", code="invalid_json", status=400), -32700),
        (errors.invalid_request("method is missing", "/method"), -32600),
        (errors.method_not_found("tasks/nap"), -32601),
    ],
    ids=["no JSON", "no request", "no method"],
)
def test_what_is_json_rpcs_own_has_json_rpcs_code(error: GatewayError, code: int) -> None:
    assert written(error)[0]["code"] == code


@pytest.mark.parametrize(
    ("error", "code", "status", "word"),
    [
        (UnauthenticatedError("no key"), -32000, 401, "UNAUTHENTICATED"),
        (ConflictError("busy", code="thread_busy"), -32000, 409, "ABORTED"),
        (TooManyRequestsError("slow down"), -32000, 429, "RESOURCE_EXHAUSTED"),
        (StoreError("the disk is full"), -32000, 503, "UNAVAILABLE"),
        (UnavailableError("the gateway is shutting down", code="shutting_down"), -32000, 503, "UNAVAILABLE"),
        (ModelError(ModelErrorKind.TIMEOUT, "too slow"), -32000, 502, "INTERNAL"),
        (GatewayError("something went wrong"), -32603, 500, "INTERNAL"),
        (
            InvalidRequestError("a wish", problems=[FieldProblem("/metadata", "a wish")]),
            -32602,
            400,
            "INVALID_ARGUMENT",
        ),
        (UnsupportedMediaTypeError("send JSON"), -32005, 415, "INVALID_ARGUMENT"),
    ],
    ids=lambda value: value.code if isinstance(value, GatewayError) else None,
)
def test_the_gateways_own_errors_keep_their_status_and_name(
    error: GatewayError, code: int, status: int, word: str
) -> None:
    rpc, given, rest = written(error)
    assert rpc["code"] == code
    assert (given, rest["status"]) == (status, word)
    known = isinstance(error, UnsupportedMediaTypeError)
    info = rpc["data"][0]
    reasons = {"unsupported_media_type": "CONTENT_TYPE_NOT_SUPPORTED", "invalid_request": "INVALID_PARAMS"}
    assert info["reason"] == reasons.get(error.code, error.code.upper())
    assert info["domain"] == ("a2a-protocol.org" if known else "agui-gateway")
