"""What a run goes by: the operator's locks, then the request, then the agent."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gateway.agent import AgentDefinition, AgentInput, Budgets, ModelSettings, ToolSettings
from gateway.agents.open_agent import OpenAgent
from gateway.errors import InvalidRequestError
from gateway.loops.react import ReactLoop
from gateway.messages import ToolSpec
from gateway.model import Alternative, AnswerOptions, Fallback, Model, ModelCapabilities
from gateway.options.generation import NO_OPTIONS, OPTION_NAMES, GenerationOptions, JsonFormat, OneTool
from gateway.options.run_options import (
    LOCKABLE,
    NO_RUN_OPTIONS,
    RequestedLimits,
    RunOptions,
    options_record,
    stored_options,
)
from gateway.runs.run_terms import check_options, terms_of, with_choice
from gateway.tool import SingleTool
from tests.agent_inputs import agent_input, changed
from tests.loop_runs import tool_giving

EVERYTHING = AnswerOptions(
    frozenset(OPTION_NAMES), frozenset({"json_object", "json_schema"}), frozenset({"one", "any"}), 4
)
SHOW = ToolSpec("show", "", {})
FULL = RunOptions(
    GenerationOptions(0.1, 0.2, 3, 4, ("x",), 5, 0.6, 0.7, JsonFormat({"type": "object"}), False, "low", "auto"),
    OneTool("show"),
    "Be brief.",
    ("look_up",),
    RequestedLimits(1, 2, 3, 4),
    True,
    "enqueue",
)


class OtherModel:
    """One that can be asked for certain things; it is never asked."""

    provider = "other"

    def __init__(self, options: AnswerOptions, model_id: str = "own") -> None:
        self.model_id = model_id
        self.capabilities = ModelCapabilities(options=options)

    def stream(self, request: Any) -> Any:
        raise AssertionError("nobody asks")

    async def close(self) -> None:
        return None


def agent(
    options: AnswerOptions = EVERYTHING, *others: Model, own: GenerationOptions = NO_OPTIONS, **more: Any
) -> OpenAgent:
    settings = ModelSettings("other", options=own)
    definition = AgentDefinition("shop", "Shop", "conversational", settings, **more)
    fallback = Fallback(tuple(Alternative(other, {}) for other in others))
    return OpenAgent(definition, ReactLoop(), OtherModel(options), [], fallback)


def asking(options: RunOptions | None, *tools: ToolSpec, **more: Any) -> AgentInput:
    return agent_input(tools=tools, options=options, **more)


def test_without_options_a_run_goes_by_the_agents_own_definition() -> None:
    shop = agent()
    terms = terms_of(shop, asking(None))
    assert terms.definition is shop.definition
    assert terms.fallback is shop.fallback
    assert (terms.tool_choice, terms.instructions, terms.selected_tools, terms.detached) == ("auto", "", None, False)


def test_options_that_say_nothing_change_nothing() -> None:
    shop = agent(budgets=Budgets(max_total_tokens=9), on_concurrent_run="enqueue", own=GenerationOptions(seed=1))
    assert terms_of(shop, asking(NO_RUN_OPTIONS)).definition == shop.definition
    assert NO_RUN_OPTIONS.lockable == ()


def test_a_request_decides_before_the_agent_does() -> None:
    own = GenerationOptions(temperature=1.0, seed=1, max_tokens=50)
    shop = agent(own=own, budgets=Budgets(max_iteration=3, max_tool_calls=4, max_total_tokens=1_000))
    options = RunOptions(
        GenerationOptions(temperature=0.0, max_tokens=100, stop=("x",)),
        limits=RequestedLimits(max_iteration=7, max_tool_calls=0, max_total_tokens=500),
        on_concurrent_run="cancel_previous",
    )
    definition = terms_of(shop, asking(options)).definition
    assert definition.model.options == GenerationOptions(temperature=0.0, max_tokens=50, stop=("x",), seed=1)
    assert definition.budgets == Budgets(max_iteration=7, max_tool_calls=0, max_total_tokens=500)
    assert definition.on_concurrent_run == "cancel_previous"


def test_what_follows_the_last_iteration_is_the_agents_however_many_a_request_asks_for() -> None:
    shop = agent(budgets=Budgets(max_iteration=3, on_max_iteration="stop"))
    wished = terms_of(shop, asking(RunOptions(limits=RequestedLimits(max_iteration=7)))).definition
    assert wished.budgets == Budgets(max_iteration=7, on_max_iteration="stop")


def test_of_limits_of_tokens_the_smaller_counts() -> None:
    shop = agent(budgets=Budgets(max_total_tokens=100))
    more = terms_of(shop, asking(RunOptions(limits=RequestedLimits(max_total_tokens=200)))).definition
    assert more.budgets.max_total_tokens == 100
    unlimited = terms_of(agent(), asking(RunOptions(limits=RequestedLimits(max_total_tokens=200)))).definition
    assert unlimited.budgets.max_total_tokens == 200


def test_what_the_operator_locks_stays_as_the_agent_has_it(caplog: pytest.LogCaptureFixture) -> None:
    own = GenerationOptions(temperature=1.0)
    shop = agent(AnswerOptions(), own=own, locked=LOCKABLE)
    given = asking(FULL, SHOW)
    terms = terms_of(shop, given)
    assert terms.definition == shop.definition
    assert (terms.tool_choice, terms.selected_tools, terms.detached) == ("auto", None, False)
    assert terms.instructions == "Be brief."  # ruled by `client_instructions`
    check_options(shop, given)  # a locked format is not asked for, so that it need not be possible
    (said,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert said.__dict__["count"] == len(LOCKABLE)


@pytest.mark.parametrize("name", sorted(LOCKABLE))
def test_everything_that_a_request_may_set_can_be_locked_alone(name: str) -> None:
    assert set(FULL.lockable) == LOCKABLE
    shop = agent(locked=frozenset({name}))
    free = terms_of(agent(), asking(FULL, SHOW))
    terms = terms_of(shop, asking(FULL, SHOW))
    unlocked = dataclasses.replace(terms.definition, locked=frozenset())
    assert dataclasses.replace(terms, definition=unlocked) != free


def test_the_names_that_can_be_locked_are_those_of_the_options() -> None:
    limits = {field.name for field in dataclasses.fields(RequestedLimits)}
    others = {field.name for field in dataclasses.fields(RunOptions)} - {
        "generation",
        "limits",
        "instructions",
        "model",
        "system_prompt",
    }
    assert {*OPTION_NAMES, *limits, *others} == LOCKABLE


# --- what cannot come true --------------------------------------------------------------------------------------------


def refused(shop: Any, given: AgentInput) -> tuple[int, str, str]:
    with pytest.raises(InvalidRequestError) as caught:
        check_options(shop, given)
    (problem,) = caught.value.problems
    return caught.value.status, problem.pointer, caught.value.message


@pytest.mark.parametrize(
    ("able", "options", "pointer"),
    [
        (AnswerOptions(), RunOptions(GenerationOptions(response_format=JsonFormat())), "/response_format"),
        (
            AnswerOptions(formats=frozenset({"json_schema"})),
            RunOptions(GenerationOptions(response_format=JsonFormat())),
            "/response_format",
        ),
        (AnswerOptions(), RunOptions(tool_choice=OneTool("show")), "/tool_choice"),
        (AnswerOptions(forced_tools=frozenset({"one"})), RunOptions(tool_choice="required"), "/tool_choice"),
        (EVERYTHING, RunOptions(GenerationOptions(stop=("a", "b", "c", "d", "e"))), "/stop"),
        (EVERYTHING, RunOptions(tool_choice=OneTool("buy")), "/tool_choice"),
    ],
)
def test_an_option_that_cannot_be_met_is_refused_by_its_field(
    able: AnswerOptions, options: RunOptions, pointer: str
) -> None:
    status, named, _ = refused(agent(able), asking(options, SHOW))
    assert (status, named) == (400, pointer)


def test_a_call_cannot_be_forced_where_the_request_has_no_tools() -> None:
    assert refused(agent(), asking(RunOptions(tool_choice="required")))[1] == "/tool_choice"


def test_a_format_may_be_impossible_beside_tools() -> None:
    able = dataclasses.replace(EVERYTHING, formats_beside_tools=False)
    form = GenerationOptions(response_format=JsonFormat())
    check_options(agent(able), asking(RunOptions(form)))
    check_options(agent(able), asking(RunOptions(form, "none"), SHOW))
    assert refused(agent(able), asking(RunOptions(form), SHOW))[:2] == (400, "/response_format")
    box = (ToolSettings("FunctionTool"), SingleTool(tool_giving("look_up", "7")))
    with_tools = dataclasses.replace(agent(able), toolboxes=[box])
    assert refused(with_tools, asking(RunOptions(form)))[:2] == (400, "/response_format")
    check_options(with_tools, asking(RunOptions(form, tools=())))


def test_a_sampler_that_a_model_does_not_know_is_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    knows = AnswerOptions(frozenset({"temperature"}))
    check_options(agent(knows), asking(RunOptions(GenerationOptions(temperature=0.1, seed=1, top_k=2))))
    (said,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert (said.__dict__["count"], said.__dict__["first"]) == (2, ["top_k", "seed"])


def test_a_fallback_that_cannot_answer_so_is_not_asked() -> None:
    able, unable = OtherModel(EVERYTHING, "able"), OtherModel(AnswerOptions(), "unable")
    shop = agent(EVERYTHING, unable, able)
    form = RunOptions(GenerationOptions(response_format=JsonFormat()))
    assert [other.model.model_id for other in terms_of(shop, asking(form)).fallback.others] == ["able"]
    sampler = RunOptions(GenerationOptions(seed=1))
    assert len(terms_of(shop, asking(sampler)).fallback.others) == 2


# --- which tool has to be called --------------------------------------------------------------------------------------


def test_a_tool_choice_concerns_the_requests_own_tools() -> None:
    named = asking(RunOptions(tool_choice=OneTool("show")), SHOW)
    assert with_choice(terms_of(agent(), named), named) == (named, OneTool("show"))
    taken = changed(named, tools=())  # a backend tool has the name
    assert with_choice(terms_of(agent(), named), taken) == (taken, "auto")
    none = asking(RunOptions(tool_choice="none"), SHOW)
    assert with_choice(terms_of(agent(), none), none) == (changed(none, tools=()), "auto")


def test_what_an_application_forces_by_ag_ui_is_forced_as_before() -> None:
    given = asking(None, SHOW, forced_tool="show")
    assert with_choice(terms_of(agent(AnswerOptions()), given), given) == (given, OneTool("show"))


def test_what_an_application_forces_by_ag_ui_obeys_the_operators_locks() -> None:
    given = asking(None, SHOW, forced_tool="show")
    locked = agent(EVERYTHING, locked=frozenset({"tool_choice"}))
    assert with_choice(terms_of(locked, given), given) == (given, "auto")
    other = agent(EVERYTHING, locked=frozenset({"tools"}))
    assert with_choice(terms_of(other, given), given) == (given, OneTool("show"))


# --- for another process ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [NO_RUN_OPTIONS, FULL, RunOptions(tool_choice="required", tools=())])
def test_options_are_the_same_once_they_were_stored(options: RunOptions) -> None:
    assert stored_options(options_record(options)) == options
