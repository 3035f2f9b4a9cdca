"""The page about the builder of the Agent API: its snippets run, its tables name what there is."""

from __future__ import annotations

import json
from typing import Any

import pytest

import gateway.agent_api
from gateway.agent_api import ContentBuilder, MessageBuilder, ResponseBuilder
from gateway.agent_api.deltas import VALUES
from tests.documentation import PAGES, code_words, first_column, section, snippet

PAGE = "docs/agent_api_builder.md"


def names_after(code: str) -> dict[str, Any]:
    """What a snippet has made."""
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_first_snippet_prints_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    names_after(snippet("docs/agent_api_builder.md", "python", "generate_streaming_response"))
    events = capsys.readouterr().out.removesuffix("\n\n").split("\n\n")
    frames = [json.loads(event.removeprefix("data: ")) for event in events]
    assert [(frame["object"], frame["status"]) for frame in frames] == [
        ("response", "created"),
        ("response", "in_progress"),
        ("message", "created"),
        *[("content", "in_progress")] * 4,
        ("content", "completed"),
        ("message", "completed"),
        ("response", "completed"),
    ]
    assert frames[-1]["output"][0]["content"][0]["text"] == "Hello World!"


def test_the_second_snippet_builds_a_message_of_two_contents() -> None:
    response = names_after(snippet("docs/agent_api_builder.md", "python", "image_builder"))["response"]
    [message] = response.output
    assert [content.type for content in message.content] == ["text", "image"]
    assert response.usage["total_tokens"] == 17


def test_the_third_snippet_joins_data() -> None:
    content = names_after(snippet("docs/agent_api_builder.md", "python", "add_data_delta"))["content"]
    assert list(content.data) == ["type", "name", "arguments", "status", "result"]


def test_the_fourth_snippet_prints_what_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    names_after(snippet("docs/agent_api_builder.md", "python", "except ProtocolStateError"))
    assert "expected created" in capsys.readouterr().out


def test_the_table_of_builders_names_every_method() -> None:
    table = section(PAGE, "Three builders").splitlines()
    for builder in (ResponseBuilder, MessageBuilder):
        [row] = [line for line in table if line.startswith(f"| `{builder.__name__}`")]
        named = {word.partition("(")[0] for word in code_words(row)} | {"create_message_builder"}
        methods = {name for name, value in vars(builder).items() if callable(value) and name[0] != "_"}
        assert methods - {"reset", "create_content_builder"} <= named


def test_the_table_of_contents_names_every_type_and_method() -> None:
    table = section(PAGE, "Contents")
    assert set(code_words(first_column(table))) == {*VALUES}
    named = {word.partition("(")[0] for word in code_words(table)}
    methods = {name for name in vars(ContentBuilder) if name.startswith(("add_", "set_", "update_"))}
    assert methods <= named


def test_the_page_names_what_can_be_imported() -> None:
    words = {word.partition("(")[0] for word in code_words(PAGES[PAGE])}
    models = {word for word in code_words(section(PAGE, "The models")) if word[0].isupper()}
    assert models <= set(gateway.agent_api.__all__)
    bases = {"BaseRequest", "BaseResponse", "Content", "Event", "McpListToolsTool"}
    assert set(gateway.agent_api.__all__) - bases <= words
