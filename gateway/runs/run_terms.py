"""What one run goes by: its agent's definition and its request's wishes as one.

Below: the words, model, open_agent. Above: the runner, the run driver. Pure but for a line in the log. The agent
decides what its operator locks; otherwise the request decides, and the agent decides what the request leaves out. Of
two limits of tokens the smaller counts. The loop sees no difference between what was configured and what was wished.
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
from gateway.tool import Tool
from gateway.wire.log_counts import counted
from gateway.wishes.generation import OPTION_NAMES, GenerationOptions, OneTool, ToolChoice
from gateway.wishes.run_wishes import RunWishes, WishedLimits, without

logger = logging.getLogger(__name__)

_MOST_NAMED = 20


@quickly_made
@dataclass(frozen=True, slots=True)
class RunTerms:
    """`definition` is the agent's with the run's model, options, limits and queueing in it; `fallback` are the models
    that can be asked as this run wants it. `fits` are `model`'s. `forgets_pauses` as in AgentInput; the rest is as in
    RunWishes.
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
    """What a run of that input goes by."""
    wishes, definition = given.wishes, agent.definition
    if wishes is None:
        return own_terms(agent, forgets_pauses=given.forgets_pauses)
    if definition.locked:
        wishes = without(wishes, definition.locked)
    model, fits, fallback = agent.model, agent.fits, agent.fallback
    if (other := agent.allowed.get(wishes.model)) is not None:
        definition = definition.with_model(wishes.model)
        model, fits, fallback = other.model, other.fits, replace(fallback, circuit=other.circuit)
    if fallback.others:
        others = [(other, other.model.capabilities.options) for other in fallback.others]
        able = tuple(other for other, options in others if not _lacks(options, wishes, agent, given))
        fallback = replace(fallback, others=able)
    changed = _merged(definition, wishes)
    return RunTerms(
        *(changed, model, fits, fallback, wishes.tool_choice, wishes.instructions, wishes.tools, wishes.detached),
        forgets_pauses=given.forgets_pauses,
    )


def own_terms(agent: OpenAgent, *, forgets_pauses: bool = False) -> RunTerms:
    """What a run without wishes goes by."""
    return RunTerms(agent.definition, agent.model, agent.fits, agent.fallback, forgets_pauses=forgets_pauses)


def check_wishes(agent: OpenAgent, given: AgentInput) -> None:
    """Refuse wishes that cannot be fulfilled; log those that are ignored.

    Raises:
        InvalidRequestError: the agent's model cannot answer like that, or there is no such tool among the request's.
    """
    if (wishes := given.wishes) is None:
        return
    definition, other = agent.definition, agent.allowed.get(wishes.model)
    able = (agent if other is None else other).model.capabilities.options
    if wishes.model and not definition.allows_model(wishes.model):
        _say(
            "a request's wish for a model is left out that the agent does not allow", agent, given, [wishes.model[:64]]
        )
    if locked := [name for name in wishes.lockable if name in definition.locked]:
        _say("a request's wishes are left out that the agent's operator locks", agent, given, locked)
        wishes = without(wishes, definition.locked)
    if problem := _lacks(able, wishes, agent, given) or _wrong_choice(wishes.tool_choice, given):
        raise InvalidRequestError(
            f"{problem.pointer[1:]} {problem.detail}", code="unsupported_option", problems=[problem], status=400
        )
    if dropped := [name for name in wishes.options.named if name not in able.names]:
        _say("a request's wishes are left out that the agent's model does not know", agent, given, dropped)


def check_selected_tools(terms: RunTerms, given: AgentInput, tools: Mapping[str, Tool]) -> None:
    """Refuse a selection with a tool that does not exist.

    Raises:
        InvalidRequestError
    """
    unknown = [name for name in terms.selected_tools or () if name not in tools]
    if unknown:
        pointer = f"/{given.names.selected_tools}"
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
    """The input with only the tools that this run may call, and the call that the first answer must make.

    `given` has no tools any more whose names are taken.
    """
    choice = terms.tool_choice
    if choice == "none":
        return replace(given, tools=()), "auto"  # backend tools, of which the client knows nothing, may still be called
    if choice == "auto":
        forced = "" if "tool_choice" in terms.definition.locked else given.forced_tool
        return given, OneTool(forced) if forced else "auto"
    return given, choice if _wrong_choice(choice, given) is None else "auto"


def _merged(definition: AgentDefinition, wishes: RunWishes) -> AgentDefinition:
    model = definition.model
    return replace(
        definition,
        model=replace(model, options=_options(wishes.options, model.options)),
        budgets=_budgets(wishes.limits, definition.budgets),
        context=_context(wishes.limits, definition.context),
        on_concurrent_run=wishes.on_concurrent_run or definition.on_concurrent_run,
        system_prompt=wishes.system_prompt or definition.system_prompt,
    )


def _options(wished: GenerationOptions, own: GenerationOptions) -> GenerationOptions:
    said = {name: getattr(own if getattr(wished, name) is None else wished, name) for name in OPTION_NAMES}
    said["max_tokens"] = _smaller(wished.max_tokens, own.max_tokens)
    return GenerationOptions(**said)


def _budgets(wished: WishedLimits, own: Budgets) -> Budgets:
    return replace(
        own,
        max_iteration=wished.max_iteration or own.max_iteration,
        max_tool_calls=own.max_tool_calls if wished.max_tool_calls is None else wished.max_tool_calls,
        max_total_tokens=_smaller(wished.max_total_tokens, own.max_total_tokens),
    )


def _context(wished: WishedLimits, own: ContextSettings) -> ContextSettings:
    most = wished.max_earlier_messages
    return own if most is None else replace(own, limits=replace(own.limits, max_earlier=most))


def _smaller(wished: int | None, own: int | None) -> int | None:
    return own if wished is None else wished if own is None else min(wished, own)


def _lacks(able: AnswerOptions, wishes: RunWishes, agent: OpenAgent, given: AgentInput) -> FieldProblem | None:
    """A wish that the model cannot fulfil and without which its answer is useless; None if there is none."""
    form, stops, choice = wishes.options.response_format, wishes.options.stop or (), wishes.tool_choice
    names = given.names
    if form is not None and form.kind not in able.formats:
        known = ", ".join(sorted(able.formats)) or "none"
        return FieldProblem(
            f"/{names.response_format}", f"is {form.kind!r}, which the agent's model cannot give; it knows: {known}"
        )
    if form is not None and not able.formats_beside_tools and _has_tools(wishes, agent, given):
        return FieldProblem(
            f"/{names.response_format}",
            f"is {form.kind!r}, which the agent's model cannot give where it has tools; leave one of the two out",
        )
    if "stop" in able.names and able.most_stops is not None and len(stops) > able.most_stops:
        return FieldProblem(f"/{names.stop}", f"has {len(stops)} texts; the agent's model takes {able.most_stops}")
    if choice not in ("auto", "none") and ("any" if choice == "required" else "one") not in able.forced_tools:
        return FieldProblem(f"/{names.tool_choice}", "forces a call, which the agent's model cannot be told to make")
    return None


def _has_tools(wishes: RunWishes, agent: OpenAgent, given: AgentInput) -> bool:
    return bool(given.tools and wishes.tool_choice != "none") or bool(agent.toolboxes and wishes.tools != ())


def _wrong_choice(choice: ToolChoice, given: AgentInput) -> FieldProblem | None:
    pointer = f"/{given.names.tool_choice}"
    if choice == "required" and not given.tools:
        return FieldProblem(pointer, "needs a tool of the request's own to call; send one, or leave it out")
    if isinstance(choice, OneTool) and all(choice.name != spec.name for spec in given.tools):
        return FieldProblem(pointer, f"names {choice.name[:64]!r}, which is none of the request's own tools")
    return None


def _say(what: str, agent: OpenAgent, given: AgentInput, names: list[str]) -> None:
    asked = {"run_id": given.run_id, "agent_id": agent.definition.id, "model": agent.model.model_id}
    logger.warning(what, extra={**asked, **counted(names)})
