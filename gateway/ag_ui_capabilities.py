"""Placeholder: to be replaced."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.agent import AgentDefinition
from gateway.messages import JsonObject, ToolSpec
from gateway.model import ModelCapabilities


def capabilities(
    agent: AgentDefinition, model: ModelCapabilities, tools: Sequence[ToolSpec], approvals: frozenset[str]
) -> JsonObject:
    return {}
