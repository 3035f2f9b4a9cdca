"""Plans the demo model's next step: calls of tools, or an answer. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from gateway.demo.phrases import LABEL, answer_without_results, describe, listed, with_arguments
from gateway.demo.results import values_named
from gateway.demo.situation import Situation
from gateway.demo.word_matching import Match, concepts, match_tools, properties, schema_type
from gateway.messages import JsonObject, ToolSpec

_CALLS_AT_ONCE = 4


@dataclass(slots=True)
class Plan:
    """The next step: its reasons, then calls of tools or an answer."""

    reasons: list[str] = field(default_factory=list)
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    answer: str = ""


def plan_answer(situation: Situation) -> Plan:
    """The plan for a situation: calls of tools that fit and were not called yet; else an answer."""
    plan = Plan()
    matches = match_tools(situation.words, situation.specs)
    if situation.may_call:
        _plan_calls(plan, matches, situation)
    if plan.calls:
        plan.calls = plan.calls[:_CALLS_AT_ONCE]
        return plan
    if situation.answered:
        asked_for = {match.spec.name for match in matches}
        shown = [item for item in situation.answered if item.call.name in asked_for] or situation.answered
        said = frozenset(concepts(situation.words))
        plan.answer = "\n\n".join(describe(item, said) for item in shown) + LABEL
    else:
        plan.answer = answer_without_results(situation, matches)
    return plan


def _plan_calls(plan: Plan, matches: Sequence[Match], situation: Situation) -> None:
    """Plan calls of the tools that fit. A tool is called as often as the words ask for it and no more, so this ends."""
    called = Counter(item.call.name for item in situation.answered)
    for match in matches:
        if called[match.spec.name] > 0:
            called[match.spec.name] -= 1
            continue
        words = " and ".join(repr(word) for word in match.words)
        fitting = f"{words or 'A question'} {'fit' if len(match.words) > 1 else 'fits'}"
        if not match.missing:
            plan.reasons.append(f"{fitting} the tool {match.spec.name}{with_arguments(match.arguments)}.")
            plan.calls.append((match.spec.name, match.arguments))
            continue
        plan.reasons.append(f"{fitting} the tool {match.spec.name}, which needs {listed(match.missing)}.")
        for filled in _filled_from_results(match, situation):
            plan.reasons.append(f"An earlier result has it{with_arguments(filled)}.")
            plan.calls.append((match.spec.name, filled))
        helper = _helper(match, situation)
        if helper is not None and (helper.name, {}) not in plan.calls:
            plan.reasons.append(f"The tool {helper.name} may tell.")
            plan.calls.append((helper.name, {}))


def _filled_from_results(match: Match, situation: Situation) -> list[JsonObject]:
    """The match's arguments, completed from earlier results. Each value that fits makes arguments of its own."""
    if len(match.missing) != 1:
        return []
    name = match.missing[0]
    values = [value for item in situation.answered for value in values_named(item.text, name)]
    visible = [value for value in dict.fromkeys(values) if not value.startswith(".")]
    said = set(concepts(match.clause))
    meant = [value for value in visible if said & set(concepts(value.replace("-", " ")))]
    several = schema_type(properties(match.spec.input_schema).get(name, {})) == "array"
    chosen = (meant or visible)[:_CALLS_AT_ONCE]
    return [{name: [value] if several else value, **match.arguments} for value in chosen]


def _helper(match: Match, situation: Situation) -> ToolSpec | None:
    """A tool without required arguments whose name says that it lists values for a missing argument."""
    called = {item.call.name for item in situation.answered}
    missing = {concept for name in match.missing for concept in concepts(name)}
    for spec in situation.specs:
        words = set(concepts(spec.name))
        if spec.name not in called and not spec.input_schema.get("required") and "list" in words and missing & words:
            return spec
    return None


def pieces_of(plan: Plan, reasoning: bool) -> list[tuple[str, str]]:
    """The pieces to stream, with a pause for each: (`reasoning`, `call`, `arguments` or `text`; the piece's text)."""
    pieces: list[tuple[str, str]] = []
    if reasoning and plan.reasons:
        pieces += [("reasoning", piece) for piece in _spoken(" ".join(plan.reasons))]
    for name, arguments in plan.calls:
        pieces.append(("call", name))
        text = orjson.dumps(arguments).decode()
        pieces += [("arguments", text[start : start + 12]) for start in range(0, len(text), 12)]
    return pieces + [("text", piece) for piece in _spoken(plan.answer)]


def _spoken(text: str) -> list[str]:
    """The text word by word, every character in it."""
    return re.findall(r"\s*\S+|\s+$", text)
