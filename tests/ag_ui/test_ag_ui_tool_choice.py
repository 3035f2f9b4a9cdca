"""`forwardedProps.toolChoice`: a client's tool that has to be called."""

from __future__ import annotations

import json
import logging

import pytest

from gateway.ag_ui.input import parse_run_input
from gateway.agent import AgentInput

SUGGEST = {"name": "copilotkitSuggest", "description": "Suggest.", "parameters": {"type": "object"}}


def parse(forwarded: object, tools: object = (SUGGEST,)) -> AgentInput:
    members = {"threadId": "t", "runId": "r", "messages": [], "tools": tools, "forwardedProps": forwarded}
    return parse_run_input(json.dumps(members, default=list).encode())[0]


def named(name: object) -> object:
    return {"toolChoice": {"type": "function", "function": {"name": name}}}


def test_a_client_says_which_of_its_tools_has_to_be_called() -> None:
    assert parse(named("copilotkitSuggest")).terms.forced_tool == "copilotkitSuggest"


@pytest.mark.parametrize(
    "forwarded",
    [
        None,
        [],
        {},
        {"toolChoice": None},
        {"toolChoice": "auto"},
        {"toolChoice": ["copilotkitSuggest"]},
        {"toolChoice": {"type": "function"}},
        {"toolChoice": {"function": "copilotkitSuggest"}},
        named(7),
    ],
)
def test_whatever_else_an_application_sends_there_forces_nothing(forwarded: object) -> None:
    assert parse(forwarded).terms.forced_tool is None


def test_a_tool_that_the_client_does_not_have_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert parse(named("refund")).terms.forced_tool is None
    assert caplog.records[0].left_out == {"toolChoice 'refund', which is none of the client's tools": 1}  # type: ignore[attr-defined]
