"""The examples of the protocol's specification, word for word but for the name of the module that is imported."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.agent_api import MessageBuilder, ResponseBuilder

STREAMING = '''
from gateway.agent_api import ResponseBuilder

def generate_streaming_response(text_tokens):
    """Generate streaming response sequence"""
    # Create response builder
    response_builder = ResponseBuilder(session_id="session_123")

    # Generate complete streaming response sequence
    for event in response_builder.generate_streaming_response(
        text_tokens=["Hello", " ", "World", "!"],
        role="assistant"
    ):
        yield event

# Usage example
for event in generate_streaming_response(["Hello", " ", "World", "!"]):
    print(event)
'''
TEXT_AND_IMAGE = """
# Create message containing text and image
message_builder = response_builder.create_message_builder()

# Add text content
text_builder = message_builder.create_content_builder("text", index=0)
text_builder.set_text("This is an image:")
text_builder.complete()

# Add image content
image_builder = message_builder.create_content_builder("image", index=1)
image_builder.set_image_url("https://example.com/image.jpg")
image_builder.complete()

# Complete message
message_builder.complete()
"""
DATA = """
# Create message containing structured data
data_builder = message_builder.create_content_builder("data", index=0)

# Set data content
data_builder.set_data({
    "type": "function_call",
    "name": "get_weather",
    "arguments": '{"city": "Beijing"}'
})

# Add data deltas
data_builder.add_data_delta({"status": "processing"})
data_builder.add_data_delta({"result": "sunny"})

data_builder.complete()
"""


def contents_of(builder: MessageBuilder) -> list[dict[str, Any]]:
    members = {"type", "index", "status", "text", "image_url", "data"}
    return [
        content.model_dump(include=members, exclude_none=True) for content in builder.get_message_data().content or ()
    ]


def test_the_streaming_example_prints_ten_events(capsys: pytest.CaptureFixture[str]) -> None:
    exec(STREAMING, {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 10
    assert [line.partition("status='")[2].partition("'")[0] for line in printed] == [
        "created", "in_progress", "created", *["in_progress"] * 4, *["completed"] * 3,
    ]  # fmt: skip
    assert "text='Hello World!'" in printed[7]


@pytest.mark.parametrize("created", [False, True])
def test_the_example_of_text_and_image_makes_one_message(created: bool) -> None:
    response_builder = ResponseBuilder(session_id="session_123")
    if created:
        response_builder.created()
        response_builder.in_progress()
    names: dict[str, Any] = {"response_builder": response_builder}
    exec(TEXT_AND_IMAGE, names)
    assert contents_of(names["message_builder"]) == [
        {"type": "text", "index": 0, "status": "completed", "text": "This is an image:"},
        {"type": "image", "index": 1, "status": "completed", "image_url": "https://example.com/image.jpg"},
    ]


def test_the_example_of_data_joins_what_was_set_and_its_deltas() -> None:
    message_builder = ResponseBuilder().create_message_builder()
    exec(DATA, {"message_builder": message_builder})
    [content] = contents_of(message_builder)
    assert content["data"] == {
        "type": "function_call",
        "name": "get_weather",
        "arguments": '{"city": "Beijing"}',
        "status": "processing",
        "result": "sunny",
    }
