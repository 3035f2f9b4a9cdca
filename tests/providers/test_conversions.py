"""What is logged at debug level when a request is converted to a provider's form."""

from __future__ import annotations

import logging

import pytest

from gateway.messages import Message, TextBlock, ToolCall, ToolResult, new_id
from gateway.model import ModelRequest
from tests.providers.test_change_of_provider import SPEAKERS, TOOLS, Speaker, names

LOGGER = "gateway.providers.conversions"
REQUEST = ModelRequest(
    new_id("turn"),
    (
        Message("1", "user", (TextBlock("secret words"),)),
        Message("2", "assistant", (TextBlock("secret answer"), ToolCall("c1", "add", '{"a": 1}'))),
        Message("3", "tool", (ToolResult("c1", (TextBlock("secret result"),)),)),
    ),
    "secret prompt",
    TOOLS,
)


@pytest.mark.parametrize("speaker", SPEAKERS, ids=names)
def test_a_request_in_a_providers_form_is_logged_without_its_words(
    speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, LOGGER)
    body = speaker.body(REQUEST)
    (step,) = (vars(each) for each in caplog.records if each.name == LOGGER)
    entries = body.get("messages") or body.get("contents") or body["input"]
    assert step["msg"] == "wrote a request in the provider's form"
    assert (step["model"], bool(step["provider"])) == (speaker.model, True)
    assert step["messages"] == {"user": 1, "assistant": 1, "tool": 1}
    assert step["blocks"] == {"TextBlock": 3, "ToolCall": 1, "ToolResult": 1}
    assert step["written"] == len(entries)
    assert step["members"] == sorted(body)
    assert "secret" not in str(step)


def test_nothing_is_logged_at_other_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    SPEAKERS[0].body(REQUEST)
    assert caplog.records == []
