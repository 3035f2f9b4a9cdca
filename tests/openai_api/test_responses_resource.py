"""The Response object, held against the published schemas, and its form's way through a run's record."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response
from openresponses_types.types import ResponseResource

from gateway.events import Incomplete, StopReason, Usage
from gateway.messages import JsonObject
from gateway.openai_api.responses_resource import (
    ResponseForm,
    form_of,
    incomplete_details,
    response_error,
    response_object,
)
from gateway.openai_api.usage import responses_usage
from gateway.protocol.earlier_calls import EarlierCall
from gateway.store import RunRecord, RunStatus

SAID: JsonObject = {
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}}],
    "tool_choice": {"type": "function", "name": "look"},
    "parallel_tool_calls": False,
    "temperature": None,
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low"},
    "metadata": {"a": "b"},
    "previous_response_id": "resp_0",
}


def form(**changes: Any) -> ResponseForm:
    return ResponseForm(**{"run_id": "resp_1", "thread_id": "conv_1", "model": "agent", "created_at": 7, **changes})


def record(origin: str, request: JsonObject | None) -> RunRecord:
    return RunRecord("me", "resp_1", "conv_1", "agent", RunStatus.COMPLETED, 7.9, origin=origin, request=request)


def without_schema(response: JsonObject) -> JsonObject:
    """Open Responses' schema allows no schema in `text.format`; OpenAI's own types require it."""
    text: Any = response["text"]
    return {**response, "text": {"format": {**text["format"], "schema": None}}}


@pytest.mark.parametrize("echoed", [{}, SAID])
def test_a_response_has_all_that_the_published_schemas_require(echoed: JsonObject) -> None:
    usage = responses_usage([Usage("p", "m", 3, 4, 1, 2)])
    queued = response_object(form(echoed=echoed), "queued")
    failed: JsonObject = {"status": "failed", "usage": usage, "error": response_error("model_throttled", "too many")}
    for shown in (queued, {**queued, **failed}):
        Response.model_validate(shown)
        ResponseResource.model_validate(without_schema(shown))


def test_a_response_repeats_its_request_and_fills_in_the_rest() -> None:
    shown = response_object(form(echoed=SAID), "in_progress")
    assert shown["temperature"] == 1.0
    assert shown["tools"] == [
        {
            "type": "function",
            "name": "look",
            "description": None,
            "parameters": {"type": "object"},
            "strict": None,
        }
    ]
    assert shown["text"] == {
        "format": {
            "type": "json_schema",
            "name": "answer",
            "description": None,
            "schema": {"type": "object"},
            "strict": False,
        }
    }
    assert shown["reasoning"] == {"effort": "low", "summary": None}
    assert shown["conversation"] == {"id": "conv_1"}


def test_a_response_that_is_not_stored_names_no_conversation() -> None:
    assert response_object(form(store=False), "queued")["conversation"] is None


def test_a_form_comes_back_from_its_runs_record() -> None:
    earlier = (EarlierCall("c1", "look", "{}", None, "mcpr_resp_0_1"),)
    said = form(
        echoed=SAID,
        store=False,
        background=True,
        backend_tools="hidden",
        approvals="message",
        encrypted=True,
        earlier=earlier,
    )
    assert form_of(record("responses", said.remembered)) == said
    assert form_of(record("responses", form().remembered)) == form()


def test_a_run_of_another_protocol_is_a_response_with_the_usual_settings() -> None:
    assert form_of(record("", None)) == form()
    assert form_of(record("chat_completions", {"metadata": {"a": "b"}})) == form()


def test_what_no_model_counted_is_null() -> None:
    assert responses_usage([]) is None
    assert responses_usage([Usage("p", "m", 3, 4), Usage("p", "n")]) is None


def test_the_tokens_of_all_models_are_added_up() -> None:
    assert responses_usage([Usage("p", "m", 3, 4, 1, 2, 1), Usage("p", "n", 10, 20)]) == {
        "input_tokens": 13,
        "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
        "output_tokens": 24,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 37,
    }


def test_an_error_has_one_of_openais_codes_and_ours_as_its_type() -> None:
    assert response_error("model_throttled", "m") == {
        "code": "rate_limit_exceeded",
        "message": "m",
        "type": "model_throttled",
    }
    assert response_error("tool_broke", "m")["code"] == "server_error"


def test_an_early_end_has_openais_word_where_there_is_one() -> None:
    assert incomplete_details(Incomplete(StopReason.MAX_TOKENS)) == {"reason": "max_output_tokens"}
    assert incomplete_details(Incomplete(StopReason.CONTENT_FILTER)) == {"reason": "content_filter"}
    assert incomplete_details(Incomplete(StopReason.MAX_ITERATIONS)) == {"reason": "max_iterations"}
