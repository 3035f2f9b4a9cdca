"""Samplers, limits and formats of a request, in the spelling of Chat Completions and of Responses."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.generation import read_generation
from gateway.options.generation import NO_OPTIONS, GenerationOptions, JsonFormat

SCHEMA: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}


def read(body: JsonObject) -> GenerationOptions:
    fields = OpenAIFields(body)
    options = read_generation(fields)
    fields.check()
    return options


def test_every_option_of_chat_completions_is_read() -> None:
    body: JsonObject = {
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 40,
        "max_completion_tokens": 7,
        "max_tokens": 9,
        "stop": ["END", "STOP"],
        "seed": -3,
        "presence_penalty": -2,
        "frequency_penalty": 1.5,
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "person", "description": "A person.", "schema": SCHEMA, "strict": True},
        },
    }

    assert read(body) == GenerationOptions(
        temperature=0.5,
        top_p=1,
        top_k=40,
        max_tokens=7,
        stop=("END", "STOP"),
        seed=-3,
        presence_penalty=-2,
        frequency_penalty=1.5,
        response_format=JsonFormat(SCHEMA, "person", "A person.", strict=True),
        parallel_calls=False,
        reasoning_effort="low",
    )


def test_every_option_of_responses_is_read() -> None:
    body: JsonObject = {
        "max_output_tokens": 7,
        "reasoning": {"effort": "max", "summary": "concise"},
        "text": {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA}, "verbosity": "low"},
    }

    assert read(body) == GenerationOptions(
        max_tokens=7,
        reasoning_effort="xhigh",
        reasoning_summary="concise",
        response_format=JsonFormat(SCHEMA, "person"),
    )


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"max_tokens": None, "stop": None, "temperature": None, "response_format": None, "reasoning": None},
        {"stop": "", "response_format": {"type": "text"}, "text": {"format": {"type": "text"}}},
        {"top_k": 0},
        {"top_k": -1},
        {"stop": [], "text": {}, "reasoning": {"effort": None, "summary": None}},
    ],
)
def test_what_is_absent_null_or_usual_says_nothing(body: JsonObject) -> None:
    assert read(body) == NO_OPTIONS


def test_one_stop_is_a_text_and_a_json_object_needs_no_schema() -> None:
    assert read({"stop": "END", "response_format": {"type": "json_object"}}) == GenerationOptions(
        stop=("END",), response_format=JsonFormat()
    )


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"temperature": 2.1}, "/temperature"),
        ({"temperature": True}, "/temperature"),
        ({"temperature": "0.5"}, "/temperature"),
        ({"top_p": -0.1}, "/top_p"),
        ({"max_tokens": 0}, "/max_tokens"),
        ({"max_completion_tokens": 1.5}, "/max_completion_tokens"),
        ({"max_output_tokens": 2**31}, "/max_output_tokens"),
        ({"stop": 7}, "/stop"),
        ({"stop": ["a", 7]}, "/stop"),
        ({"top_k": "a"}, "/top_k"),
        ({"seed": 1.5}, "/seed"),
        ({"seed": 2**63}, "/seed"),
        ({"presence_penalty": 3}, "/presence_penalty"),
        ({"frequency_penalty": -3}, "/frequency_penalty"),
        ({"parallel_tool_calls": "yes"}, "/parallel_tool_calls"),
        ({"reasoning_effort": "much"}, "/reasoning_effort"),
        ({"reasoning": "high"}, "/reasoning"),
        ({"reasoning": {"effort": "much"}}, "/reasoning/effort"),
        ({"reasoning": {"summary": "long"}}, "/reasoning/summary"),
        ({"response_format": "json"}, "/response_format"),
        ({"response_format": {"type": "xml"}}, "/response_format/type"),
        ({"response_format": {}}, "/response_format/type"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "/response_format/json_schema/schema"),
        ({"response_format": {"type": "json_schema", "json_schema": 7}}, "/response_format/json_schema"),
        ({"text": "json"}, "/text"),
        ({"text": {"format": {"type": "json_schema", "schema": []}}}, "/text/format/schema"),
    ],
)
def test_what_is_out_of_range_is_named(body: JsonObject, pointer: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read(body)

    assert caught.value.status == 400
    assert caught.value.problems[0].pointer == pointer


def test_all_wrong_options_are_in_one_error() -> None:
    body: dict[str, JsonValue] = {"temperature": 9, "seed": "a", "reasoning": {"effort": "much"}}

    with pytest.raises(InvalidRequestError) as caught:
        read(body)

    assert {problem.pointer for problem in caught.value.problems} == {"/temperature", "/seed", "/reasoning/effort"}
    assert "temperature must be a number from 0 to 2, not 9" in caught.value.message
    assert "reasoning.effort must be one of none, minimal," in caught.value.message
