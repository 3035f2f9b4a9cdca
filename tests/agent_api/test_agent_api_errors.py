"""The ids and the errors of the Agent API."""

from __future__ import annotations

import re

from gateway.agent_api.errors import error_object, run_error, wrong
from gateway.agent_api.ids import new_run_id, new_thread_id
from gateway.errors import ModelErrorKind
from gateway.events import RunFailed
from gateway.problems import problem_of


def test_new_ids_are_written_as_the_protocol_says() -> None:
    assert re.fullmatch(r"response_[0-9a-f]{32}", new_run_id())
    assert re.fullmatch(r"session_[0-9a-f]{32}", new_thread_id())


def test_an_error_says_its_code_and_message_where_every_client_looks() -> None:
    body = error_object(problem_of(wrong("n must be a whole number", "/n", code="bad")))
    assert body == {
        "object": "error",
        "code": "bad",
        "message": "n must be a whole number",
        "error": {"code": "bad", "message": "n must be a whole number"},
        "errors": [{"pointer": "/n", "detail": "n must be a whole number"}],
    }


def test_a_failure_tells_whether_asking_again_makes_sense() -> None:
    overloaded = RunFailed(f"model_{ModelErrorKind.OVERLOADED}", "gpt is overloaded, key sk-1")
    assert run_error(overloaded, to_operator=True) == {
        "code": "model_overloaded",
        "message": "gpt is overloaded, key sk-1",
        "retryable": True,
    }
    assert "sk-1" not in str(run_error(overloaded, to_operator=False)["message"])
    assert run_error(RunFailed("server_restarted", "it was"), to_operator=False)["retryable"] is True
    assert run_error(RunFailed("limit_max_run_seconds", "too long"), to_operator=False)["retryable"] is False
