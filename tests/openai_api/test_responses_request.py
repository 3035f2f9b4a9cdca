"""The body of `POST /v1/responses`."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.openai_api.responses_request import ResponsesRequest, read_request
from gateway.options.generation import GenerationOptions, JsonFormat, OneTool
from gateway.options.run_options import RequestedLimits, RunOptions

MAP: JsonObject = {"type": "function", "name": "map", "parameters": {"type": "object"}, "strict": True}


def read(**members: JsonValue) -> ResponsesRequest:
    return read_request({"model": "assistant", "input": "Hello", **members})


def wrong_fields(body: JsonObject) -> list[str]:
    with pytest.raises(InvalidRequestError) as caught:
        read_request(body)
    assert caught.value.status == 400
    return [problem.pointer for problem in caught.value.problems]


def test_a_request_of_model_and_input_sets_no_option_and_is_stored() -> None:
    request = read()

    assert (request.model, len(request.items), request.tools) == ("assistant", 1, ())
    assert (request.options, request.echoed) == (RunOptions(), {})
    assert (request.store, request.background, request.stream, request.encrypted) == (True, False, False, False)
    assert (request.previous_response_id, request.conversation) == (None, None)
    assert read_request({"model": "assistant"}).items == ()


def test_what_is_said_of_the_answer_is_wished() -> None:
    request = read(
        instructions="Be brief.",
        tools=[MAP],
        tool_choice={"type": "function", "name": "map"},
        parallel_tool_calls=False,
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        max_tool_calls=3,
        reasoning={"effort": "low", "summary": "auto"},
        text={"format": {"type": "json_object"}, "verbosity": "low"},
        background=True,
    )

    assert request.tools == (ToolSpec("map", "", {"type": "object"}),)
    assert request.options == RunOptions(
        generation=GenerationOptions(
            temperature=0.5, top_p=0.9, max_tokens=100, response_format=JsonFormat(), parallel_calls=False,
            reasoning_effort="low", reasoning_summary="auto",
        ),
        tool_choice=OneTool("map"),
        instructions="Be brief.",
        limits=RequestedLimits(max_tool_calls=3),
        detached=True,
    )  # fmt: skip
    assert request.background


def test_what_a_response_repeats_is_echoed_in_its_own_form() -> None:
    members: JsonObject = {
        "instructions": "Be brief.", "parallel_tool_calls": False, "temperature": 0, "top_p": 1,
        "max_output_tokens": 9, "max_tool_calls": 2, "metadata": {"a": "b"}, "truncation": "auto",
        "service_tier": "flex", "user": "me", "safety_identifier": "s", "prompt_cache_key": "p",
        "previous_response_id": "resp_1", "text": {"verbosity": "low"}, "tools": [MAP], "tool_choice": "auto",
        "reasoning": {"effort": "low", "summary": None},
    }  # fmt: skip
    chat: JsonObject = {
        "type": "function",
        "function": {"name": "map", "parameters": {"type": "object"}, "strict": True},
    }
    choice: JsonObject = {"type": "function", "function": {"name": "map"}}

    assert read(**members).echoed == members
    assert read(tools=[chat], tool_choice=choice).echoed == {
        "tools": [MAP],
        "tool_choice": {"type": "function", "name": "map"},
    }
    assert read(user={"name": "an object"}, metadata=None, stream_options={"include_obfuscation": False}).echoed == {}


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_an_id_or_an_object_with_one(conversation: JsonValue) -> None:
    assert read(conversation=conversation).conversation == "conv_1"


def test_include_asks_for_sealed_reasoning_and_knows_openais_other_values() -> None:
    assert read(include=["reasoning.encrypted_content", "web_search_call.action.sources"]).encrypted
    assert not read(include=["file_search_call.results"]).encrypted


@pytest.mark.parametrize(
    ("members", "pointers"),
    [
        ({"model": None}, ["/model"]),
        ({"model": ""}, ["/model"]),
        ({"instructions": 1}, ["/instructions"]),
        ({"tools": [{"type": "mcp", "server_url": "https://a.example"}]}, ["/tools/0/type"]),
        ({"tool_choice": "always"}, ["/tool_choice"]),
        ({"temperature": "hot"}, ["/temperature"]),
        ({"max_output_tokens": 0}, ["/max_output_tokens"]),
        ({"max_tool_calls": 0}, ["/max_tool_calls"]),
        ({"text": {"format": {"type": "yaml"}}}, ["/text/format/type"]),
        ({"reasoning": {"effort": "immense"}}, ["/reasoning/effort"]),
        ({"metadata": {str(number): "" for number in range(17)}}, ["/metadata"]),
        ({"metadata": {"k" * 65: ""}}, ["/metadata"]),
        ({"metadata": {"k": "v" * 513, "n": 1}}, ["/metadata/k", "/metadata/n"]),
        ({"truncation": "never"}, ["/truncation"]),
        ({"include": ["everything"]}, ["/include/0"]),
        ({"include": ["message.output_text.logprobs"]}, ["/include/0"]),
        ({"top_logprobs": 5}, ["/top_logprobs"]),
        ({"stream": "yes"}, ["/stream"]),
        ({"store": 1}, ["/store"]),
        ({"background": True, "store": False}, ["/background"]),
        ({"conversation": 3}, ["/conversation"]),
        ({"conversation": {}}, ["/conversation/id"]),
        ({"previous_response_id": []}, ["/previous_response_id"]),
        ({"prompt": {"id": "pmpt_1"}}, ["/prompt"]),
        ({"service_tier": 1, "prompt_cache_key": 3}, ["/service_tier", "/prompt_cache_key"]),
    ],
)  # fmt: skip
def test_a_wrong_member_names_the_field(members: JsonObject, pointers: list[str]) -> None:
    assert wrong_fields({"model": "assistant", "input": "Hello", **members}) == pointers


def test_all_wrong_members_stand_in_one_error() -> None:
    body: JsonObject = {"input": [{"type": "robot"}], "temperature": 3, "include": ["x"], "metadata": []}

    assert sorted(wrong_fields(body)) == ["/include/0", "/input/0/type", "/metadata", "/model", "/temperature"]
