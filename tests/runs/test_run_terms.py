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
from gateway.runs.run_terms import check_wishes, terms_of, with_choice
from gateway.tool import SingleTool
from gateway.wishes.generation import NO_OPTIONS, OPTION_NAMES, GenerationOptions, JsonFormat, OneTool
from gateway.wishes.run_wishes import (
    LOCKABLE,
    NO_WISHES,
    RunWishes,
    WishedLimits,
    stored_wishes,
    wishes_record,
)
from tests.loop_runs import tool_giving

EVERYTHING = AnswerOptions(
    frozenset(OPTION_NAMES), frozenset({"json_object", "json_schema"}), frozenset({"one", "any"}), 4
)
SHOW = ToolSpec("show", "", {})
FULL = RunWishes(
    GenerationOptions(0.1, 0.2, 3, 4, ("x",), 5, 0.6, 0.7, JsonFormat({"type": "object"}), False, "low", "auto"),
    OneTool("show"),
    "Be brief.",
    ("look_up",),
    WishedLimits(1, 2, 3, 4),
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


def asking(wishes: RunWishes | None, *tools: ToolSpec, **more: Any) -> AgentInput:
    return AgentInput("t", "r", (), tools, wishes=wishes, **more)


def test_without_wishes_a_run_goes_by_the_agents_own_definition() -> None:
    shop = agent()
    terms = terms_of(shop, asking(None))
    assert terms.definition is shop.definition
    assert terms.fallback is shop.fallback
    assert (terms.tool_choice, terms.instructions, terms.selected_tools, terms.detached) == ("auto", "", None, False)


def test_wishes_that_say_nothing_change_nothing() -> None:
    shop = agent(budgets=Budgets(max_total_tokens=9), on_concurrent_run="enqueue", own=GenerationOptions(seed=1))
    assert terms_of(shop, asking(NO_WISHES)).definition == shop.definition
    assert NO_WISHES.lockable == ()


def test_a_request_decides_before_the_agent_does() -> None:
    own = GenerationOptions(temperature=1.0, seed=1, max_tokens=50)
    shop = agent(own=own, budgets=Budgets(max_iteration=3, max_tool_calls=4, max_total_tokens=1_000))
    wishes = RunWishes(
        GenerationOptions(temperature=0.0, max_tokens=100, stop=("x",)),
        limits=WishedLimits(max_iteration=7, max_tool_calls=0, max_total_tokens=500),
        on_concurrent_run="cancel_previous",
    )
    definition = terms_of(shop, asking(wishes)).definition
    assert definition.model.options == GenerationOptions(temperature=0.0, max_tokens=50, stop=("x",), seed=1)
    assert definition.budgets == Budgets(max_iteration=7, max_tool_calls=0, max_total_tokens=500)
    assert definition.on_concurrent_run == "cancel_previous"


def test_what_follows_the_last_iteration_is_the_agents_however_many_a_request_wishes() -> None:
    shop = agent(budgets=Budgets(max_iteration=3, on_max_iteration="stop"))
    wished = terms_of(shop, asking(RunWishes(limits=WishedLimits(max_iteration=7)))).definition
    assert wished.budgets == Budgets(max_iteration=7, on_max_iteration="stop")


def test_of_limits_of_tokens_the_smaller_counts() -> None:
    shop = agent(budgets=Budgets(max_total_tokens=100))
    more = terms_of(shop, asking(RunWishes(limits=WishedLimits(max_total_tokens=200)))).definition
    assert more.budgets.max_total_tokens == 100
    unlimited = terms_of(agent(), asking(RunWishes(limits=WishedLimits(max_total_tokens=200)))).definition
    assert unlimited.budgets.max_total_tokens == 200


def test_what_the_operator_locks_stays_as_the_agent_has_it(caplog: pytest.LogCaptureFixture) -> None:
    own = GenerationOptions(temperature=1.0)
    shop = agent(AnswerOptions(), own=own, locked=LOCKABLE)
    given = asking(FULL, SHOW)
    terms = terms_of(shop, given)
    assert terms.definition == shop.definition
    assert (terms.tool_choice, terms.selected_tools, terms.detached) == ("auto", None, False)
    assert terms.instructions == "Be brief."  # ruled by `client_instructions`
    check_wishes(shop, given)  # a locked format is not asked for, so that it need not be possible
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


def test_the_names_that_can_be_locked_are_those_of_the_wishes() -> None:
    limits = {field.name for field in dataclasses.fields(WishedLimits)}
    others = {field.name for field in dataclasses.fields(RunWishes)} - {
        "options",
        "limits",
        "instructions",
        "model",
        "system_prompt",
    }
    assert {*OPTION_NAMES, *limits, *others} == LOCKABLE


# --- what cannot come true --------------------------------------------------------------------------------------------


def refused(shop: Any, given: AgentInput) -> tuple[int, str, str]:
    with pytest.raises(InvalidRequestError) as caught:
        check_wishes(shop, given)
    (problem,) = caught.value.problems
    return caught.value.status, problem.pointer, caught.value.message


@pytest.mark.parametrize(
    ("options", "wishes", "pointer"),
    [
        (AnswerOptions(), RunWishes(GenerationOptions(response_format=JsonFormat())), "/response_format"),
        (
            AnswerOptions(formats=frozenset({"json_schema"})),
            RunWishes(GenerationOptions(response_format=JsonFormat())),
            "/response_format",
        ),
        (AnswerOptions(), RunWishes(tool_choice=OneTool("show")), "/tool_choice"),
        (AnswerOptions(forced_tools=frozenset({"one"})), RunWishes(tool_choice="required"), "/tool_choice"),
        (EVERYTHING, RunWishes(GenerationOptions(stop=("a", "b", "c", "d", "e"))), "/stop"),
        (EVERYTHING, RunWishes(tool_choice=OneTool("buy")), "/tool_choice"),
    ],
)
def test_a_wish_that_cannot_come_true_is_refused_by_its_field(
    options: AnswerOptions, wishes: RunWishes, pointer: str
) -> None:
    status, named, _ = refused(agent(options), asking(wishes, SHOW))
    assert (status, named) == (400, pointer)


def test_a_call_cannot_be_forced_where_the_request_has_no_tools() -> None:
    assert refused(agent(), asking(RunWishes(tool_choice="required")))[1] == "/tool_choice"


def test_a_format_may_be_impossible_beside_tools() -> None:
    able = dataclasses.replace(EVERYTHING, formats_beside_tools=False)
    form = GenerationOptions(response_format=JsonFormat())
    check_wishes(agent(able), asking(RunWishes(form)))
    check_wishes(agent(able), asking(RunWishes(form, "none"), SHOW))
    assert refused(agent(able), asking(RunWishes(form), SHOW))[:2] == (400, "/response_format")
    box = (ToolSettings("FunctionTool"), SingleTool(tool_giving("look_up", "7")))
    with_tools = dataclasses.replace(agent(able), toolboxes=[box])
    assert refused(with_tools, asking(RunWishes(form)))[:2] == (400, "/response_format")
    check_wishes(with_tools, asking(RunWishes(form, tools=())))


def test_a_sampler_that_a_model_does_not_know_is_dropped_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    knows = AnswerOptions(frozenset({"temperature"}))
    check_wishes(agent(knows), asking(RunWishes(GenerationOptions(temperature=0.1, seed=1, top_k=2))))
    (said,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert (said.__dict__["count"], said.__dict__["first"]) == (2, ["top_k", "seed"])


def test_a_fallback_that_cannot_answer_so_is_not_asked() -> None:
    able, unable = OtherModel(EVERYTHING, "able"), OtherModel(AnswerOptions(), "unable")
    shop = agent(EVERYTHING, unable, able)
    form = RunWishes(GenerationOptions(response_format=JsonFormat()))
    assert [other.model.model_id for other in terms_of(shop, asking(form)).fallback.others] == ["able"]
    sampler = RunWishes(GenerationOptions(seed=1))
    assert len(terms_of(shop, asking(sampler)).fallback.others) == 2


# --- which tool has to be called --------------------------------------------------------------------------------------


def test_a_tool_choice_concerns_the_requests_own_tools() -> None:
    named = asking(RunWishes(tool_choice=OneTool("show")), SHOW)
    assert with_choice(terms_of(agent(), named), named) == (named, OneTool("show"))
    taken = dataclasses.replace(named, tools=())  # a backend tool has the name
    assert with_choice(terms_of(agent(), named), taken) == (taken, "auto")
    none = asking(RunWishes(tool_choice="none"), SHOW)
    assert with_choice(terms_of(agent(), none), none) == (dataclasses.replace(none, tools=()), "auto")


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


@pytest.mark.parametrize("wishes", [NO_WISHES, FULL, RunWishes(tool_choice="required", tools=())])
def test_wishes_are_the_same_once_they_were_stored(wishes: RunWishes) -> None:
    assert stored_wishes(wishes_record(wishes)) == wishes
