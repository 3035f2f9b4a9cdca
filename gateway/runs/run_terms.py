"""The terms of one run: its agent's definition combined with its request's options.

Below: the words, model, open_agent. Above: the runner, the run driver. Pure but for a line in the log. For an option
that the operator locks, or that the request leaves out, the agent's setting holds; else the request's. Of two limits of
tokens the smaller counts. The loop sees no difference between configured and requested options.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from gateway.agent import AgentDefinition, AgentInput, Budgets, ContextSettings
from gateway.agents.open_agent import OpenAgent
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.frozen import quickly_made, replace
from gateway.history.context_limits import FitCache
from gateway.model import AnswerOptions, Fallback, Model
from gateway.options.generation import OPTION_NAMES, GenerationOptions, OneTool, ToolChoice
from gateway.options.run_options import RequestedLimits, RunOptions, without
from gateway.tool import Tool
from gateway.wire.log_counts import counted

logger = logging.getLogger(__name__)

_MOST_NAMED = 20


@quickly_made
@dataclass(frozen=True, slots=True)
class RunTerms:
    """`definition` is the agent's, with the run's model, options, limits and rule for concurrent runs. `fallback`: the
    models that can serve this run's options. `fits` are `model`'s. `forgets_pauses` as in InputThread; the rest as in
    RunOptions.
    """

    definition: AgentDefinition
    model: Model
    fits: FitCache
    fallback: Fallback
    tool_choice: ToolChoice = "auto"
    instructions: str = ""
    selected_tools: tuple[str, ...] | None = None
    detached: bool = False
    forgets_pauses: bool = False


def terms_of(agent: OpenAgent, given: AgentInput) -> RunTerms:
    """The terms of a run of that input."""
    options, definition = given.terms.options, agent.definition
    if options is None:
        return own_terms(agent, forgets_pauses=given.thread.forgets_pauses)
    if definition.locked:
        options = without(options, definition.locked)
    model, fits, fallback = agent.model, agent.fits, agent.fallback
    if (other := agent.allowed.get(options.model)) is not None:
        definition = definition.with_model(options.model)
        model, fits, fallback = other.model, other.fits, replace(fallback, circuit=other.circuit)
    if fallback.others:
        others = [(other, other.model.capabilities.options) for other in fallback.others]
        able = tuple(other for other, its_options in others if not _lacks(its_options, options, agent, given))
        fallback = replace(fallback, others=able)
    changed = _merged(definition, options)
    return RunTerms(
        *(changed, model, fits, fallback, options.tool_choice, options.instructions, options.tools, options.detached),
        forgets_pauses=given.thread.forgets_pauses,
    )


def own_terms(agent: OpenAgent, *, forgets_pauses: bool = False) -> RunTerms:
    """The terms of a run without options."""
    return RunTerms(agent.definition, agent.model, agent.fits, agent.fallback, forgets_pauses=forgets_pauses)


def check_options(agent: OpenAgent, given: AgentInput) -> None:
    """Refuse options that cannot be met; log those that are ignored.

    Raises:
        InvalidRequestError: the agent's model cannot meet an option, or the request has no such tool.
    """
    if (options := given.terms.options) is None:
        return
    definition, other = agent.definition, agent.allowed.get(options.model)
    able = (agent if other is None else other).model.capabilities.options
    if options.model and not definition.allows_model(options.model):
        _say(
            "the model that a request asks for is left out: the agent does not allow it",
            agent,
            given,
            [options.model[:64]],
        )
    if locked := [name for name in options.lockable if name in definition.locked]:
        _say("options of a request are left out: the agent's operator locks them", agent, given, locked)
        options = without(options, definition.locked)
    if problem := _lacks(able, options, agent, given) or _wrong_choice(options.tool_choice, given):
        raise InvalidRequestError(
            f"{problem.pointer[1:]} {problem.detail}", code="unsupported_option", problems=[problem], status=400
        )
    if dropped := [name for name in options.generation.named if name not in able.names]:
        _say("options of a request are left out: the agent's model does not know them", agent, given, dropped)


def check_selected_tools(terms: RunTerms, given: AgentInput, tools: Mapping[str, Tool]) -> None:
    """Refuse a selection with a tool that does not exist.

    Raises:
        InvalidRequestError
    """
    unknown = [name for name in terms.selected_tools or () if name not in tools]
    if unknown:
        pointer = f"/{given.origin.names.selected_tools}"
        problems = [FieldProblem(pointer, f"the agent has no tool {name[:64]!r}") for name in unknown[:_MOST_NAMED]]
        known = ", ".join(map(repr, islice(tools, _MOST_NAMED))) or "none"
        more = f" and {len(tools) - _MOST_NAMED} more" if len(tools) > _MOST_NAMED else ""
        raise InvalidRequestError(
            f"the agent has no tool {unknown[0][:64]!r}; its tools are: {known}{more}",
            code="unknown_tool",
            problems=problems,
            status=400,
        )


def with_choice(terms: RunTerms, given: AgentInput) -> tuple[AgentInput, ToolChoice]:
    """The input with only the tools that this run may call, and the call that the model's first response must make.

    `given` no longer has tools whose names are taken.
    """
    choice = terms.tool_choice
    if choice == "none":
        # backend tools, which the client does not know, may still be called
        return replace(given, application=replace(given.application, tools=())), "auto"
    if choice == "auto":
        forced = "" if "tool_choice" in terms.definition.locked else given.terms.forced_tool
        return given, OneTool(forced) if forced else "auto"
    return given, choice if _wrong_choice(choice, given) is None else "auto"


def _merged(definition: AgentDefinition, options: RunOptions) -> AgentDefinition:
    model = definition.model
    return replace(
        definition,
        model=replace(model, options=_options(options.generation, model.options)),
        budgets=_budgets(options.limits, definition.budgets),
        context=_context(options.limits, definition.context),
        on_concurrent_run=options.on_concurrent_run or definition.on_concurrent_run,
        system_prompt=options.system_prompt or definition.system_prompt,
    )


def _options(requested: GenerationOptions, own: GenerationOptions) -> GenerationOptions:
    said = {name: getattr(own if getattr(requested, name) is None else requested, name) for name in OPTION_NAMES}
    said["max_tokens"] = _smaller(requested.max_tokens, own.max_tokens)
    return GenerationOptions(**said)


def _budgets(requested: RequestedLimits, own: Budgets) -> Budgets:
    return replace(
        own,
        max_iteration=requested.max_iteration or own.max_iteration,
        max_tool_calls=own.max_tool_calls if requested.max_tool_calls is None else requested.max_tool_calls,
        max_total_tokens=_smaller(requested.max_total_tokens, own.max_total_tokens),
    )


def _context(requested: RequestedLimits, own: ContextSettings) -> ContextSettings:
    most = requested.max_earlier_messages
    return own if most is None else replace(own, limits=replace(own.limits, max_earlier=most))


def _smaller(requested: int | None, own: int | None) -> int | None:
    return own if requested is None else requested if own is None else min(requested, own)


def _lacks(able: AnswerOptions, options: RunOptions, agent: OpenAgent, given: AgentInput) -> FieldProblem | None:
    """The problem with an option that the model cannot meet and that its response would be useless without, or None."""
    form, stops, choice = options.generation.response_format, options.generation.stop or (), options.tool_choice
    names = given.origin.names
    if form is not None and form.kind not in able.formats:
        known = ", ".join(sorted(able.formats)) or "none"
        return FieldProblem(
            f"/{names.response_format}", f"is {form.kind!r}, which the agent's model cannot give; it knows: {known}"
        )
    if form is not None and not able.formats_beside_tools and _has_tools(options, agent, given):
        return FieldProblem(
            f"/{names.response_format}",
            f"is {form.kind!r}, which the agent's model cannot give where it has tools; leave one of the two out",
        )
    if "stop" in able.names and able.most_stops is not None and len(stops) > able.most_stops:
        return FieldProblem(f"/{names.stop}", f"has {len(stops)} texts; the agent's model takes {able.most_stops}")
    if choice not in ("auto", "none") and ("any" if choice == "required" else "one") not in able.forced_tools:
        return FieldProblem(f"/{names.tool_choice}", "forces a call, which the agent's model cannot be told to make")
    return None


def _has_tools(options: RunOptions, agent: OpenAgent, given: AgentInput) -> bool:
    return bool(given.application.tools and options.tool_choice != "none") or bool(
        agent.toolboxes and options.tools != ()
    )


def _wrong_choice(choice: ToolChoice, given: AgentInput) -> FieldProblem | None:
    pointer = f"/{given.origin.names.tool_choice}"
    if choice == "required" and not given.application.tools:
        return FieldProblem(pointer, "needs a tool of the request's own to call; send one, or leave it out")
    if isinstance(choice, OneTool) and all(choice.name != spec.name for spec in given.application.tools):
        return FieldProblem(pointer, f"names {choice.name[:64]!r}, which is none of the request's own tools")
    return None


def _say(what: str, agent: OpenAgent, given: AgentInput, names: list[str]) -> None:
    asked = {"run_id": given.run_id, "agent_id": agent.definition.id, "model": agent.model.model_id}
    logger.warning(what, extra={**asked, **counted(names)})
