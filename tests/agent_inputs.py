"""Inputs of runs for tests, made and changed by the names of their parts' fields alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from gateway.agent import (
    AgentInput,
    ClientApplication,
    InputOrigin,
    InputTerms,
    InputThread,
    SentMessages,
)
from gateway.frozen import replace
from gateway.messages import Message

PARTS: Mapping[str, type] = {
    "thread": InputThread,
    "sent": SentMessages,
    "application": ClientApplication,
    "terms": InputTerms,
    "origin": InputOrigin,
}


def agent_input(
    thread_id: str = "t", run_id: str = "r", messages: tuple[Message, ...] = (), **fields: Any
) -> AgentInput:
    return changed(AgentInput(run_id, InputThread(thread_id), SentMessages(messages)), **fields)


def changed(given: AgentInput, **fields: Any) -> AgentInput:
    """The input with other values of these fields, which are its own or those of its parts."""
    for part, cls in PARTS.items():
        own = {field.name: fields.pop(field.name) for field in dataclasses.fields(cls) if field.name in fields}
        if own:
            given = replace(given, **{part: replace(getattr(given, part), **own)})
    return replace(given, **fields)
