"""What is read in a quarter of the time is what would have been made otherwise, with every field."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from gateway.ag_ui.usual_messages import usual_message
from gateway.messages import Message, Role, TextBlock, ToolResult


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_words_become_a_whole_message_that_cannot_be_changed(role: Role) -> None:
    made: Any = usual_message({"id": "m", "role": role, "content": "words"})
    assert type(made) is Message
    assert type(made.content[0]) is TextBlock
    assert repr(made) == repr(Message("m", role, (TextBlock("words"),)))
    assert hash(made) == hash(Message("m", role, (TextBlock("words"),)))
    for frozen, name in ((made, "name"), (made.content[0], "text")):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, name, "other")


def test_a_tools_text_becomes_its_result() -> None:
    made = usual_message({"id": "m", "role": "tool", "toolCallId": "c", "content": "42"})
    assert repr(made) == repr(Message("m", "tool", (ToolResult("c", (TextBlock("42"),)),)))


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "words"},
        {"id": "", "role": "user", "content": "words"},
        {"id": "m", "role": "user", "content": ""},
        {"id": "m", "role": "user", "content": [{"type": "text", "text": "words"}]},
        {"id": "m", "role": "user", "content": "words", "name": "ada"},
    ],
)
def test_whatever_is_not_like_most_is_left_to_the_reader_of_everything(item: dict[str, Any]) -> None:
    assert usual_message(item) is None
