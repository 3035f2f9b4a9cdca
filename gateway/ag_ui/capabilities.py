"""The capabilities of an agent, as AG-UI's AgentCapabilities.

Below: the words and the contracts. Above: the AG-UI protocol. Pure. Source:
https://docs.ag-ui.com/spec/1.0/basic/capabilities and the model of the PyPI package `ag-ui-protocol` 1.0.0. A missing
entry means "not declared" there, so what the gateway does not have is declared as false.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from gateway.agent import AgentDefinition
from gateway.messages import JsonObject, JsonValue, ToolSpec
from gateway.model import ModelCapabilities

_NO_LANGUAGE_MODELS = frozenset({"demo", "scripted"})
"""Providers whose answers no front end should pass off as a model's."""


def capabilities(
    agent: AgentDefinition, model: ModelCapabilities, tools: Sequence[ToolSpec], approvals: Container[str]
) -> JsonObject:
    """The capabilities of this agent with this model and these backend tools; `approvals` names the tools that need
    one.
    """
    asks = any(tool.name in approvals for tool in tools)
    identity: JsonObject = {"name": agent.name, "type": "agui-gateway"}
    if agent.description:
        identity["description"] = agent.description
    if agent.model.model_provider in _NO_LANGUAGE_MODELS:
        identity["metadata"] = {"languageModel": False}
    return {
        "identity": identity,
        "transport": {
            "streaming": True,
            "websocket": False,
            "httpBinary": False,
            "pushNotifications": False,
            "resumable": True,
        },
        "tools": {
            "supported": True,
            "items": [_tool(tool) for tool in tools],
            "parallelCalls": model.parallel_calls and agent.budgets.max_parallel_tools > 1,
            "clientProvided": True,
        },
        "output": {"structuredOutput": False},
        "state": {"snapshots": True, "deltas": True, "memory": False, "persistentState": True},
        "multiAgent": {"supported": False, "delegation": False, "handoffs": False},
        "reasoning": {"supported": model.reasoning, "streaming": model.reasoning and model.streaming},
        "multimodal": {
            "input": {
                "image": model.image_input,
                "audio": model.audio_input,
                "video": model.video_input,
                "pdf": model.document_input,
                "file": False,
            },
            "output": {"image": model.image_output, "audio": model.audio_output},
        },
        "execution": _execution(agent),
        "humanInTheLoop": {
            "supported": asks,
            "approvals": asks,
            "interventions": False,
            "feedback": False,
            "interrupts": asks,
            "approveWithEdits": asks,
        },
    }


def _tool(tool: ToolSpec) -> JsonObject:
    declared: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    if tool.metadata is not None:
        declared["metadata"] = tool.metadata
    return declared


def _execution(agent: AgentDefinition) -> dict[str, JsonValue]:
    limits: dict[str, JsonValue] = {"codeExecution": False, "maxIterations": agent.budgets.max_iteration}
    if agent.budgets.max_run_seconds is not None:
        limits["maxExecutionTime"] = round(agent.budgets.max_run_seconds * 1000)  # milliseconds
    return limits
