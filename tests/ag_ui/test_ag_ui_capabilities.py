"""AgentCapabilities are the package's, and true."""

from __future__ import annotations

from dataclasses import replace

from ag_ui.core import AgentCapabilities

from gateway.ag_ui.capabilities import capabilities
from gateway.agent import AgentDefinition, Budgets, ModelSettings
from gateway.messages import JsonObject, ToolSpec
from gateway.model import ModelCapabilities

AGENT = AgentDefinition("assistant", "Assistant", "conversational", ModelSettings("demo"), description="Helps.")
MODEL = ModelCapabilities()
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
REFUND = ToolSpec("refund", "Refunds.", {}, metadata={"icon": "coin"})


def declared(
    agent: AgentDefinition = AGENT,
    model: ModelCapabilities = MODEL,
    tools: tuple[ToolSpec, ...] = (ADD, REFUND),
    approvals: frozenset[str] = frozenset(),
) -> AgentCapabilities:
    rendered: JsonObject = capabilities(agent, model, tools, approvals)
    parsed = AgentCapabilities.model_validate(rendered)
    assert parsed.model_dump(by_alias=True) == rendered
    return parsed


def test_the_agent_and_its_backend_tools_are_named() -> None:
    known = declared()
    assert known.identity is not None
    assert (known.identity.name, known.identity.description) == ("Assistant", "Helps.")
    assert known.tools is not None
    assert known.tools.items is not None
    assert [tool.name for tool in known.tools.items] == ["add", "refund"]
    assert known.tools.items[0].parameters == ADD.input_schema
    assert known.tools.items[1].metadata == {"icon": "coin"}


def test_a_model_that_is_no_language_model_is_told_as_such() -> None:
    demo, real = declared().identity, declared(replace(AGENT, model=ModelSettings("bedrock/converse"))).identity
    assert demo is not None
    assert real is not None
    assert (demo.metadata, real.metadata) == ({"languageModel": False}, None)


def test_only_server_sent_events_are_offered() -> None:
    transport = declared().transport
    assert transport is not None
    assert (transport.streaming, transport.resumable) == (True, True)
    assert (transport.websocket, transport.http_binary, transport.push_notifications) == (False, False, False)


def test_people_are_asked_only_where_a_tool_needs_an_approval() -> None:
    never, always = declared().human_in_the_loop, declared(approvals=frozenset({"refund"})).human_in_the_loop
    assert never is not None
    assert always is not None
    assert (never.supported, never.interrupts, never.approve_with_edits) == (False, False, False)
    assert (always.supported, always.interrupts, always.approve_with_edits) == (True, True, True)


def test_what_the_model_gives_is_what_the_agent_gives() -> None:
    plain = declared().multimodal
    painting = declared(model=ModelCapabilities(image_output=True)).multimodal
    assert plain is not None
    assert painting is not None
    assert plain.output is not None
    assert painting.output is not None
    assert (plain.output.image, painting.output.image, painting.output.audio) == (False, True, False)


def test_what_the_model_takes_is_what_the_agent_takes() -> None:
    blind = declared().multimodal
    seeing = declared(model=ModelCapabilities(image_input=True, document_input=True)).multimodal
    assert blind is not None
    assert seeing is not None
    assert blind.input is not None
    assert seeing.input is not None
    assert (blind.input.image, blind.input.pdf) == (False, False)
    assert (seeing.input.image, seeing.input.pdf, seeing.input.audio) == (True, True, False)


def test_reasoning_is_the_models() -> None:
    plain, thinking = declared().reasoning, declared(model=ModelCapabilities(reasoning=True)).reasoning
    assert plain is not None
    assert thinking is not None
    assert (plain.supported, thinking.supported, thinking.streaming) == (False, True, True)


def test_limits_are_the_agents() -> None:
    some = declared(replace(AGENT, budgets=Budgets(max_iteration=3, max_run_seconds=1.5, max_parallel_tools=1)))
    none = declared(replace(AGENT, budgets=Budgets(max_run_seconds=None)))
    assert some.execution is not None
    assert none.execution is not None
    assert some.tools is not None
    assert (some.execution.max_iterations, some.execution.max_execution_time) == (3, 1500)
    assert none.execution.max_execution_time is None
    assert some.tools.parallel_calls is False
