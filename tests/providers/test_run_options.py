"""A run's options on every wire: where each has them, what they replace, and that no wire's words are another's."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest

import gateway.anthropic.options as anthropic_words
import gateway.bedrock.options as converse_words
import gateway.gemini.options as gemini_words
import gateway.openai.chat_options as chat_words
import gateway.openai.responses_options as responses_words
from gateway.anthropic import messages_api
from gateway.anthropic.request import anthropic_request
from gateway.bedrock.converse_request import converse_request
from gateway.bedrock.families import family_of
from gateway.gemini import generate_content
from gateway.gemini.request import gemini_request
from gateway.messages import JsonObject, JsonValue, Message, TextBlock, ToolSpec
from gateway.model import ModelRequest
from gateway.openai.chat_completions import dialect_of
from gateway.openai.chat_request import chat_request
from gateway.openai.responses import profile_of
from gateway.openai.responses_request import ResponsesTarget, responses_request
from gateway.options.generation import (
    NO_OPTIONS,
    OPTION_NAMES,
    GenerationOptions,
    JsonFormat,
    OneTool,
    ToolChoice,
)
from gateway.providers.option_table import OptionTable

OPENAI = dialect_of("https://api.openai.com/v1/chat/completions")
SONNET = "claude-sonnet-4-5"
OPUS = "claude-opus-4-7"
FLASH = "gemini-2.5-flash"
CONVERSE_SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
CONVERSE_OPUS = "us.anthropic.claude-opus-4-7"


def chat(request: ModelRequest, model: str = "gpt-4.1", url: str = "https://api.openai.com/v1") -> Any:
    return chat_request(request, model, dialect_of(url))


def responses(request: ModelRequest, model: str = "gpt-5.2") -> Any:
    target = ResponsesTarget("openai/v1/responses", model, profile_of("api.openai.com", model), model)
    return responses_request(request, target)


def anthropic(request: ModelRequest, model: str = SONNET) -> Any:
    return anthropic_request(request, model, messages_api.profile_of(model))


def gemini(request: ModelRequest, model: str = FLASH) -> Any:
    return gemini_request(request, model, generate_content.profile_of(model))


def converse(request: ModelRequest, model: str = CONVERSE_SONNET) -> Any:
    return converse_request(request, model, family_of(model)).body


WRITERS: Mapping[str, Callable[[ModelRequest], Any]] = {
    "chat": chat, "responses": responses, "anthropic": anthropic, "gemini": gemini, "converse": converse,
}  # fmt: skip
# By the same names: the tables behind the writers, and the files that they are in.
TABLES: Mapping[str, OptionTable] = {
    "chat": chat_words.chat_options(OPENAI, "gpt-4.1"),
    "responses": responses_words.responses_options(profile_of("api.openai.com", "gpt-5.2")),
    "anthropic": anthropic_words.anthropic_options(messages_api.profile_of(SONNET)),
    "gemini": gemini_words.gemini_options(generate_content.profile_of(FLASH)),
    "converse": converse_words.converse_options(family_of(CONVERSE_SONNET)),
}
WORDS: Mapping[str, ModuleType] = {
    "chat": chat_words,
    "responses": responses_words,
    "anthropic": anthropic_words,
    "gemini": gemini_words,
    "converse": converse_words,
}

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (ToolSpec("look_up", "", {}),)
FULL = GenerationOptions(
    temperature=0.3,
    top_p=0.9,
    top_k=40,
    max_tokens=500,
    stop=("END", "STOP"),
    seed=7,
    presence_penalty=0.1,
    frequency_penalty=0.2,
    response_format=JsonFormat(SCHEMA, "city", "A city.", strict=True),
    parallel_calls=False,
)


def asked(
    options: GenerationOptions = NO_OPTIONS, parameters: JsonObject | None = None, choice: ToolChoice = "auto"
) -> ModelRequest:
    hello = Message("u", "user", (TextBlock("Hi"),))
    return ModelRequest("turn", (hello,), "", TOOLS, choice, parameters or {}, options)


def said(writer: Callable[[ModelRequest], Any], options: GenerationOptions, **parameters: JsonValue) -> Any:
    """What a body has beside that of a request which says nothing."""
    plain, body = writer(asked()), writer(asked(options, parameters))
    return {name: value for name, value in body.items() if plain.get(name) != value}


CLOSED = {**SCHEMA, "additionalProperties": False}
_DESCRIBED = {"name": "city", "description": "A city.", "schema": SCHEMA, "strict": True}
WRITTEN: Mapping[str, Any] = {
    "chat": {
        "temperature": 0.3,
        "top_p": 0.9,
        "max_completion_tokens": 500,
        "stop": ["END", "STOP"],
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "response_format": {"type": "json_schema", "json_schema": _DESCRIBED},
        "parallel_tool_calls": False,
    },
    "responses": {
        "temperature": 0.3,
        "top_p": 0.9,
        "max_output_tokens": 500,
        "text": {"format": {"type": "json_schema", **_DESCRIBED}},
        "parallel_tool_calls": False,
    },
    "anthropic": {
        "temperature": 0.3,
        "top_k": 40,
        "max_tokens": 500,
        "stop_sequences": ["END", "STOP"],
        "output_config": {"format": {"type": "json_schema", "schema": CLOSED}},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    },
    "gemini": {
        "generationConfig": {
            "temperature": 0.3,
            "topP": 0.9,
            "topK": 40,
            "maxOutputTokens": 500,
            "stopSequences": ["END", "STOP"],
            "seed": 7,
            "responseMimeType": "application/json",
            "responseJsonSchema": SCHEMA,
        }
    },
    "converse": {
        "inferenceConfig": {"temperature": 0.3, "maxTokens": 500, "stopSequences": ["END", "STOP"]},
        "additionalModelRequestFields": {"top_k": 40},
        "outputConfig": {
            "textFormat": {
                "type": "json_schema",
                "structure": {
                    "jsonSchema": {
                        "schema": json.dumps(CLOSED, separators=(",", ":")),
                        "name": "city",
                        "description": "A city.",
                    }
                },
            }
        },
    },
}


@pytest.mark.parametrize("wire", WRITERS)
def test_each_wire_says_options_in_its_own_words(wire: str) -> None:
    assert said(WRITERS[wire], FULL) == WRITTEN[wire]


@pytest.mark.parametrize("wire", WRITERS)
def test_a_request_without_options_is_the_agents_own(wire: str) -> None:
    parameters: JsonObject = {"temperature": 0.5, "max_tokens": 100}
    plain, empty = WRITERS[wire](asked(parameters=parameters)), WRITERS[wire](asked(GenerationOptions(), parameters))
    assert plain == empty


@pytest.mark.parametrize("wire", WRITERS)
def test_a_wires_words_are_its_own(wire: str) -> None:
    """To change a provider's mapping is to change its file, which no other provider's reads."""
    mine = {id(place) for places in TABLES[wire].members.values() for place in places}
    for other, table in TABLES.items():
        if other != wire:
            assert mine.isdisjoint(id(place) for places in table.members.values() for place in places)
    tree = ast.parse(inspect.getsource(WORDS[wire]))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    others = {module.__name__ for name, module in WORDS.items() if name != wire}
    assert imported.isdisjoint(others)


@pytest.mark.parametrize("wire", WRITERS)
def test_a_table_names_only_options(wire: str) -> None:
    assert set(TABLES[wire].members) <= set(OPTION_NAMES)


# --- what stands in `model_parameters` already ------------------------------------------------------------------------

REPLACED: list[tuple[str, GenerationOptions, JsonObject, Any]] = [
    ("chat", GenerationOptions(max_tokens=50), {"max_tokens": 90}, {"max_tokens": 50}),
    ("chat", GenerationOptions(max_tokens=50), {"max_completion_tokens": 90}, {"max_completion_tokens": 50}),
    ("chat", GenerationOptions(temperature=0.0), {"temperature": 1.0}, {"temperature": 0.0}),
    (
        "responses",
        GenerationOptions(response_format=JsonFormat()),
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
        {"text": {"verbosity": "low", "format": {"type": "json_object"}}},
    ),
    (
        "responses",
        GenerationOptions(reasoning_effort="low"),
        {"reasoning": {"effort": "high", "summary": "auto"}},
        {"reasoning": {"effort": "low", "summary": "auto"}},
    ),
    ("anthropic", GenerationOptions(temperature=0.1), {"top_p": 0.5}, {"temperature": 0.1}),
    ("anthropic", GenerationOptions(top_p=0.5), {"temperature": 0.1}, {"top_p": 0.5}),
    (
        "gemini",
        GenerationOptions(top_p=0.5, max_tokens=9),
        {"generationConfig": {"topP": 0.1, "maxOutputTokens": 10}},
        {"generationConfig": {"topP": 0.5, "maxOutputTokens": 9}},
    ),
    (
        "gemini",
        GenerationOptions(response_format=JsonFormat(SCHEMA)),
        {"response_mime_type": "text/plain", "responseSchema": {"type": "STRING"}},
        {"generationConfig": {"response_mime_type": "application/json", "responseJsonSchema": SCHEMA}},
    ),
    (
        "gemini",
        GenerationOptions(reasoning_effort="medium"),
        {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}},
        {"generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 8192}}},
    ),
    (
        "converse",
        GenerationOptions(max_tokens=5, stop=("x",)),
        {"inference_config": {"maxTokens": 9, "stopSequences": ["y"]}},
        {"inferenceConfig": {"maxTokens": 5, "stopSequences": ["x"]}},
    ),
    (
        "converse",
        GenerationOptions(temperature=0.1),
        {"topP": 0.5, "max_tokens": 9},
        {"inferenceConfig": {"temperature": 0.1, "maxTokens": 9}},
    ),
]


@pytest.mark.parametrize(("wire", "options", "parameters", "expected"), REPLACED)
def test_an_option_stands_in_place_of_the_agents_own_spelling(
    wire: str, options: GenerationOptions, parameters: JsonObject, expected: Any
) -> None:
    kept = str(parameters)
    assert said(WRITERS[wire], options, **parameters) == expected
    assert str(parameters) == kept  # the agent's own, which the next run is asked with


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("chat", "max_tokens"),
        ("chat", "max_completion_tokens"),
        ("responses", "max_output_tokens"),
        ("anthropic", "max_tokens"),
        ("gemini", "maxOutputTokens"),
        ("converse", "maxTokens"),
    ],
)
def test_of_two_limits_of_tokens_the_smaller_counts(wire: str, name: str) -> None:
    for agents, wished in ((100, 50), (50.0, 100), (50, 100)):
        body = str(said(WRITERS[wire], GenerationOptions(max_tokens=wished), **{name: agents}))
        assert f"'{name}': 50" in body


# --- what a model does not take ---------------------------------------------------------------------------------------


def test_models_that_refuse_samplers_are_asked_without() -> None:
    samplers = GenerationOptions(temperature=0.5, top_p=0.5, top_k=5, max_tokens=9)
    assert said(lambda request: chat(request, "gpt-5"), samplers) == {"max_completion_tokens": 9}
    assert said(lambda request: responses(request, "o3"), samplers) == {"max_output_tokens": 9}
    assert said(lambda request: anthropic(request, OPUS), samplers) == {"max_tokens": 9}
    assert said(lambda request: converse(request, CONVERSE_OPUS), samplers) == {"inferenceConfig": {"maxTokens": 9}}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8000/v1", {"top_k": 5, "max_tokens": 9, "seed": 1}),
        ("https://api.mistral.ai/v1", {"max_tokens": 9, "random_seed": 1}),
        ("https://api.deepseek.com/v1", {"max_tokens": 9}),
    ],
)
def test_servers_that_call_themselves_compatible_have_words_of_their_own(url: str, expected: Any) -> None:
    options = GenerationOptions(top_k=5, max_tokens=9, seed=1)
    assert said(lambda request: chat(request, "some-model", url), options) == expected


def test_a_temperature_above_a_wires_scale_is_the_scales_end() -> None:
    hot = GenerationOptions(temperature=1.8)
    assert said(anthropic, hot) == {"temperature": 1.0}
    assert said(converse, hot) == {"inferenceConfig": {"temperature": 1.0}}
    assert said(gemini, hot) == {"generationConfig": {"temperature": 1.8}}


def test_claude_is_sent_no_blank_stops() -> None:
    assert said(anthropic, GenerationOptions(stop=("\n", "END"))) == {"stop_sequences": ["END"]}
    assert said(anthropic, GenerationOptions(stop=("\n",))) == {}
    assert said(converse, GenerationOptions(stop=("\n",))) == {}
    nova = said(lambda request: converse(request, "us.amazon.nova-lite-v1:0"), GenerationOptions(stop=("\n",)))
    assert nova == {"inferenceConfig": {"stopSequences": ["\n"]}}


# --- how much a model thinks ------------------------------------------------------------------------------------------

EFFORTS: list[tuple[Callable[[ModelRequest], Any], str, Any]] = [
    (lambda request: chat(request, "gpt-5"), "low", {"reasoning_effort": "low"}),
    (responses, "xhigh", {"reasoning": {"effort": "xhigh"}}),
    (anthropic, "high", {"thinking": {"type": "enabled", "budget_tokens": 16_384}}),
    (anthropic, "none", {"thinking": {"type": "disabled"}}),
    (
        lambda request: anthropic(request, OPUS),
        "minimal",
        {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
    ),
    (lambda request: anthropic(request, OPUS), "none", {"thinking": {"type": "disabled"}}),
    (gemini, "none", {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}}),
    (
        lambda request: gemini(request, "gemini-3.1-pro-preview"),
        "minimal",
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}}},
    ),
    (lambda request: gemini(request, "gemini-2.0-flash"), "high", {}),
    (
        converse,
        "low",
        {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 4_096}}},
    ),
    (
        lambda request: converse(request, CONVERSE_OPUS),
        "xhigh",
        {"additionalModelRequestFields": {"thinking": {"type": "adaptive"}}, "outputConfig": {"effort": "max"}},
    ),
    (
        lambda request: converse(request, "openai.gpt-oss-120b-1:0"),
        "high",
        {"additionalModelRequestFields": {"reasoning_effort": "high"}},
    ),
    (lambda request: converse(request, "meta.llama3-8b-instruct-v1:0"), "high", {}),
]


@pytest.mark.parametrize(("writer", "effort", "expected"), EFFORTS)
def test_a_wires_words_say_how_much_to_think(writer: Callable[[ModelRequest], Any], effort: Any, expected: Any) -> None:
    assert said(writer, GenerationOptions(reasoning_effort=effort)) == expected


def test_beside_an_agents_thinking_a_requests_samplers_and_limits_are_made_to_fit() -> None:
    thinking: JsonObject = {"type": "enabled", "budget_tokens": 10_000}
    given = GenerationOptions(temperature=0.2, top_k=5, max_tokens=4_000)
    fitted = {"type": "enabled", "budget_tokens": 2_000}
    assert said(anthropic, given, thinking=thinking) == {"max_tokens": 4_000, "thinking": fitted}
    assert said(converse, given, thinking=thinking) == {
        "inferenceConfig": {"maxTokens": 4_000},
        "additionalModelRequestFields": {"thinking": fitted},
    }
    small = GenerationOptions(max_tokens=500)
    assert said(anthropic, small, thinking=thinking) == {"max_tokens": 500}
    assert said(converse, small, thinking=thinking) == {"inferenceConfig": {"maxTokens": 500}}


# --- which tool has to be called --------------------------------------------------------------------------------------

FORCED: list[tuple[str, str, Any, Any]] = [
    ("chat", "tool_choice", "required", {"type": "function", "function": {"name": "look_up"}}),
    ("responses", "tool_choice", "required", {"type": "function", "name": "look_up"}),
    ("anthropic", "tool_choice", {"type": "any"}, {"type": "tool", "name": "look_up"}),
    (
        "gemini",
        "toolConfig",
        {"functionCallingConfig": {"mode": "ANY"}},
        {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["look_up"]}},
    ),
]


@pytest.mark.parametrize(("wire", "name", "any_tool", "one_tool"), FORCED)
def test_each_wire_can_be_told_to_call_a_tool(wire: str, name: str, any_tool: Any, one_tool: Any) -> None:
    assert WRITERS[wire](asked(choice="required"))[name] == any_tool
    assert WRITERS[wire](asked(choice=OneTool("look_up")))[name] == one_tool
    assert TABLES[wire].forced_tools == {"any", "one"}


def test_converse_can_be_told_to_call_a_tool_where_the_family_takes_that() -> None:
    assert converse(asked(choice="required"))["toolConfig"]["toolChoice"] == {"any": {}}
    assert converse(asked(choice=OneTool("look_up")))["toolConfig"]["toolChoice"] == {"tool": {"name": "look_up"}}
    llama = "meta.llama3-8b-instruct-v1:0"
    assert "toolChoice" not in converse(asked(choice="required"), llama)["toolConfig"]
    assert not converse_words.converse_options(family_of(llama)).forced_tools


def test_a_call_that_claude_has_to_make_may_have_to_be_the_only_one() -> None:
    alone = GenerationOptions(parallel_calls=False)
    assert anthropic(asked(alone, choice="required"))["tool_choice"] == {
        "type": "any",
        "disable_parallel_tool_use": True,
    }
    assert anthropic(asked(alone, choice="none"))["tool_choice"] == {"type": "none"}
