"""The two forms of ml-commons' errors."""

from __future__ import annotations

from typing import Any

from gateway.errors import FieldProblem
from gateway.ml_commons.errors import execution_error, opensearch_error
from gateway.problems import Problem


def test_an_error_has_opensearchs_form() -> None:
    answer = opensearch_error(Problem(404, "not_found", "Failed to find agent with the provided agent id: x"))
    cause = {"type": "status_exception", "reason": "Failed to find agent with the provided agent id: x"}
    assert answer == {"error": {"root_cause": [cause], **cause}, "status": 404}


def test_wrong_fields_are_named_and_are_a_400() -> None:
    answer = opensearch_error(Problem(422, "invalid_request", "wrong", [FieldProblem("/name", "is empty")]))
    assert answer["status"] == 400
    error: Any = answer["error"]
    assert error["type"] == "illegal_argument_exception"
    assert error["fields"] == [{"field": "/name", "reason": "is empty"}]


def test_a_problem_may_name_its_exception() -> None:
    answer = opensearch_error(Problem(400, "invalid_request", "x", members={"exception": "parsing_exception"}))
    error: Any = answer["error"]
    assert error["type"] == "parsing_exception"


def test_c1_a_failed_execution_has_a_form_of_its_own() -> None:
    answer = execution_error(Problem(400, "invalid_request", "Illegal Argument Exception"))
    assert answer == {
        "status": 400,
        "error": {
            "type": "IllegalArgumentException",
            "reason": "Invalid Request",
            "details": "Illegal Argument Exception",
        },
    }


def test_what_is_not_the_callers_fault_is_a_system_error() -> None:
    answer = execution_error(Problem(429, "model_throttled", 'Error from remote service: {"message":"slow"}'))
    assert answer["status"] == 429
    error: Any = answer["error"]
    assert error["reason"] == "System Error"
