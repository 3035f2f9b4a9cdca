"""Begins an execution, with the memory, the interaction and the tools that its body names.

Below: agent_input, protocol. Above: the protocols of `_execute` and `_execute/stream`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import AgentInput, InputNames, InputOrigin, InputTerms, InputThread, SentMessages
from gateway.errors import NotFoundError
from gateway.messages import JsonValue, Message, new_id
from gateway.ml_agents.agent_form import AgentForm, agent_form
from gateway.ml_agents.agent_input import Execution, read_execution
from gateway.ml_agents.execution import AnswerForm
from gateway.ml_agents.parameters import Parameters
from gateway.ml_agents.registration_tools import MCP_SERVER
from gateway.ml_commons.answers import new_document_id
from gateway.ml_commons.cluster_settings import ClusterSettings
from gateway.ml_commons.content import wrong
from gateway.ml_commons.feature_settings import STANDARDIZED_INPUT
from gateway.ml_memory.memory_access import container_of, is_session
from gateway.ml_memory.memory_messages import with_input_type
from gateway.options.run_options import RequestedLimits, RunOptions
from gateway.protocol import WHOLE_THREAD, OpenAgent, ProtocolEnvironment, Viewer
from gateway.protocol.begin import Plan, Plans, RunRequest, begin

logger = logging.getLogger(__name__)

ORIGIN: Final = "ml_commons"
_NAMES: Final = InputNames(
    run_id="run_id",
    instructions="parameters/system_prompt",
    stop="parameters/stop",
    selected_tools="parameters/selected_tools",
)


@dataclass(frozen=True, slots=True)
class StartedExecution:
    """A run that has begun. Close the viewer at the end. The answer is made of its events and of `form`; `is_async`:
    the body asks for a task.
    """

    viewer: Viewer
    run_id: str
    form: AnswerForm
    is_async: bool = False


async def start_execution(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent_id: str,
    body: JsonValue,
    *,
    request_id: str = "",
    unattended: bool = True,
) -> StartedExecution:
    """Begin the run that a body asks for, where it is no AG-UI input. If it is `unattended`, it goes on without its
    caller.

    Raises:
        GatewayError: as `check_parts`, `read_execution` and `ProtocolEnvironment.start`.
    """
    if isinstance(body, dict) and "input" in body:
        environment.shared(ClusterSettings).check("unified_agent_api_enabled", STANDARDIZED_INPUT)

    async def plans(agent: OpenAgent) -> Plans[tuple[AnswerForm, bool]]:
        return await _plans(environment, caller, agent, body, request_id, unattended=unattended)

    begun = await begin(environment, caller, RunRequest(agent_id, plans, unknown_agent=_unknown_agent))
    form, is_async = begun.form
    return StartedExecution(begun.viewer, begun.run_id, form, is_async)


def check_parts(settings: ClusterSettings, agent: OpenAgent) -> None:
    """Refuse to execute an agent with parts that are off.

    Raises:
        ForbiddenError: MCP servers are off; of models InvalidRequestError (400).
    """
    settings.check("remote_inference.enabled")
    if any(tool.type == MCP_SERVER for tool in agent.definition.tools):
        settings.check("mcp_connector_enabled")


def _unknown_agent(agent_id: str) -> NotFoundError:
    return NotFoundError(f"Failed to find agent with the provided agent id: {agent_id}", code="agent_not_found")


async def _plans(
    environment: ProtocolEnvironment,
    caller: Caller,
    agent: OpenAgent,
    body: JsonValue,
    request_id: str,
    *,
    unattended: bool,
) -> Plans[tuple[AnswerForm, bool]]:
    """The execution's run, the form of its answer, and whether the body wants a task for it."""
    check_parts(environment.shared(ClusterSettings), agent)
    kind = agent_form(agent.about)
    execution = read_execution(body, kind.parameters)
    _check_media(agent, execution)
    own_container_id = agent.collection_of(caller.owner)
    options = _options(execution, await _selected(agent, execution), owns_agent=agent.owner == caller.owner)
    await environment.turn_after(caller, len(execution.messages))
    container_id = await _container_id(environment, caller, kind, execution.parameters)
    if container_id or own_container_id:
        execution = replace(execution, messages=with_input_type(execution.messages, execution.form))
    found = await _messages(environment, caller, execution)
    parameters = execution.parameters
    if parameters.memory_id is not None and (into := container_id or own_container_id):
        await is_session(environment.documents(caller), parameters.memory_id, into)
    form = AnswerForm(
        parameters.memory_id or new_document_id(),
        found.interaction_id,
        kind.is_unified,
        verbose=parameters.verbose,
        token_usage=parameters.token_usage,
    )
    given = AgentInput(
        new_id("run"),
        InputThread(form.memory_id, collection=container_id),
        SentMessages(found.messages, "replace" if found.replaces else "append", execution.minted),
        terms=InputTerms(options, unattended=unattended),
        origin=InputOrigin(ORIGIN, form.remembered, request_id, _NAMES),
    )
    return Plans([Plan(given, (form, parameters.is_async))])


async def _container_id(
    environment: ProtocolEnvironment, caller: Caller, form: AgentForm, parameters: Parameters
) -> str:
    """The memory container that a request names in place of its agent's; empty: none."""
    container_id, at = parameters.container_id, "/parameters/memory_container_id"
    if container_id is None:
        return ""
    if form.memory != "agentic_memory":
        message = "memory_container_id override requires the agent to be configured with memory of type agentic_memory"
        raise wrong(message, at, "leave it out, or give the agent agentic_memory")
    await container_of(environment.documents(caller), container_id)
    if parameters.memory_id is not None:
        with suppress(NotFoundError):
            memory = await environment.thread(caller, parameters.memory_id)
            if memory.collection not in ("", container_id):
                message = f"the memory {memory.thread_id!r} is in another memory container"
                raise wrong(message, at, "leave it out, or begin another memory")
    return container_id


def _options(execution: Execution, selected: tuple[str, ...] | None, *, owns_agent: bool) -> RunOptions:
    """The options of the run. If the caller made the agent, a request's system prompt replaces the agent's; if somebody
    else did, it is added to the agent's, as a client's instructions.
    """
    parameters = execution.parameters
    return RunOptions(
        generation=parameters.options,
        system_prompt=parameters.system_prompt if owns_agent else "",
        instructions="" if owns_agent else parameters.system_prompt,
        tools=selected,
        limits=RequestedLimits(parameters.max_iteration, max_earlier_messages=parameters.history_limit),
        on_concurrent_run="enqueue",
    )


def _check_media(agent: OpenAgent, execution: Execution) -> None:
    """Refuse a medium that the agent's model cannot be sent."""
    for pointer, block in execution.media:
        if (why := agent.model.capabilities.media_refusal(block)) is not None:
            title, model = type(block).__name__.removesuffix("Block"), agent.model
            extra = {"input_format": execution.form, "field": pointer, "reason": why}
            extra |= {"provider": model.provider, "model": model.model_id}
            logger.warning("a medium of an agent's input cannot be sent to its model", extra=extra)
            raise wrong(f"{title} content at {pointer} cannot be sent to {model.provider}: {why}", pointer, why)


async def _selected(agent: OpenAgent, execution: Execution) -> tuple[str, ...] | None:
    """The selected tools that the agent has, in the order of the request; None: all. Other names are ignored."""
    names = execution.parameters.selected_tools
    if names is None:
        return None
    tools, _ = await agent.tools()
    return tuple(name for name in names if name in tools)


# --- the messages ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Found:
    """The messages of a run. `replaces`: they are the whole history, up to the question that is answered again."""

    messages: tuple[Message, ...]
    interaction_id: str
    replaces: bool = False


async def _messages(environment: ProtocolEnvironment, caller: Caller, execution: Execution) -> _Found:
    parameters, messages, asked = execution.parameters, execution.messages, execution.asked
    memory_id, first = parameters.memory_id, asked[0] if asked else new_document_id()
    if memory_id is None or (asked and execution.minted.issuperset(asked) and not parameters.goes_on):
        return _Found(messages, first)
    stored = await _stored(environment, caller, memory_id)
    if parameters.regenerate_id is not None:
        return _answered_again(stored, parameters.regenerate_id, memory_id)
    if parameters.parent_id is not None:
        return _answered(stored, messages, parameters.parent_id, first, memory_id)
    if not asked:
        return _Found(messages, _last_interaction(stored) or first)
    known = {message.id for message in stored}
    return _Found(messages, next((each for each in asked if each not in known), first))


async def _stored(environment: ProtocolEnvironment, caller: Caller, memory_id: str) -> Sequence[Message]:
    """The memory's messages; none if there is no such memory yet."""
    try:
        return (await environment.messages(caller, memory_id, limit=WHOLE_THREAD)).items
    except NotFoundError:
        return ()


def _answered_again(stored: Sequence[Message], interaction_id: str, memory_id: str) -> _Found:
    """The messages up to the interaction's question. Its answer stays in an earlier version of the thread."""
    place = _place_of(stored, interaction_id, memory_id, "regenerate_interaction_id")
    end = place + 1
    while end < len(stored) and stored[end].role == "user":
        end += 1
    return _Found(tuple(stored[:end]), interaction_id, replaces=True)


def _answered(
    stored: Sequence[Message], messages: tuple[Message, ...], parent_id: str, first: str, memory_id: str
) -> _Found:
    """The messages of a run on the interaction `parent_id`. If the interaction has no answer yet, the run answers it,
    and messages that only repeat its question are left out. If it has one, the messages begin the next interaction.
    """
    place = _place_of(stored, parent_id, memory_id, "parent_interaction_id")
    if all(message.role == "user" for message in stored[place:]):
        repeats = [message.content for message in messages] == [stored[place].content]
        return _Found(() if repeats else messages, parent_id)
    if not messages:
        right = "send 'input', or the id as regenerate_interaction_id"
        raise wrong("the interaction has its answer already", "/parameters/parent_interaction_id", right)
    return _Found(messages, first)


def _place_of(stored: Sequence[Message], interaction_id: str, memory_id: str, name: str) -> int:
    for place, message in enumerate(stored):
        if message.id == interaction_id and message.role == "user":
            return place
    raise NotFoundError(f"Interaction [{interaction_id}] not found in memory [{memory_id}]; check {name}")


def _last_interaction(stored: Sequence[Message]) -> str | None:
    """The id of the last turn's first user message."""
    first: str | None = None
    for message in reversed(stored):
        if message.role == "user":
            first = message.id
        elif first is not None:
            break
    return first
