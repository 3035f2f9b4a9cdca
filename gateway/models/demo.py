"""A model without a network, a key or a language model: it matches words, and says so.

Below: model, response, word_matching. It chooses among the tools it is offered, the browser's too, by their names,
descriptions and schemas, fills their arguments from the user's words, and makes its answer of their results. It is
there to show everything else at work (streams, tools, approvals, reasoning) on any machine, every time the same.

`model_parameters`: `words_per_second` (how fast it "speaks", 0 for no pauses) and `reasoning` (whether it says why).
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

import orjson

from gateway.agent import ModelSettings
from gateway.clock import Clock
from gateway.demo.word_matching import Match, concepts, match_tools, properties, schema_type
from gateway.errors import ConfigurationError
from gateway.events import Events, StopReason, Usage
from gateway.messages import JsonObject, JsonValue, TextBlock, ToolCall, ToolResult, ToolSpec
from gateway.model import ModelCapabilities, ModelEnvironment, ModelProvider, ModelRequest, OneTool
from gateway.providers.answer_builder import AnswerBuilder
from gateway.turns.client_words import is_client_words

NAME = "demo"
_LABEL = "\n\n*(Demo model: it matches words, it is not an LLM.)*"
_ABOUT = (
    "I am the demo model of this gateway: no LLM, only word matching. I choose tools by their names and descriptions, "
    "fill their arguments from your words and show what they give."
)
_READ_CHARACTERS = 2_000  # of the user's words; matching more would only take time
_CALLS_AT_ONCE = 4
_CELL_CHARACTERS = 200

_GREETING = re.compile(r"^\W*(?:hi|hello|hey|good (?:morning|day|evening|afternoon)|greetings|moin|hallo)\b", re.I)
_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers)\b", re.I)
_FAREWELL = re.compile(r"^\W*(?:bye|goodbye|see you|farewell)\b", re.I)
_IDENTITY = re.compile(r"\b(?:who|what) are you\b|\bare you (?:an? )?(?:llm|ai|bot|real|human)\b|\byour name\b", re.I)


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call since the user's last message, with its result."""

    call: ToolCall
    result: ToolResult

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.result.content if isinstance(block, TextBlock))


@dataclass(frozen=True, slots=True)
class _Situation:
    """What the demo model reads of a request."""

    words: str
    media: int
    answered: tuple[_Answered, ...]
    specs: tuple[ToolSpec, ...]
    may_call: bool


@dataclass(slots=True)
class _Plan:
    """What it will do: say why, then call tools or answer."""

    reasons: list[str] = field(default_factory=list)
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    answer: str = ""


class DemoModel:
    """One demo model. Everything it says follows from the request."""

    provider = NAME
    capabilities = ModelCapabilities(reasoning=True, image_input=True, document_input=True)

    def __init__(
        self, clock: Clock, *, model_id: str = NAME, words_per_second: float = 60.0, reasoning: bool = True
    ) -> None:
        self.model_id = model_id
        self._clock = clock
        self._pause_seconds = 1 / words_per_second if words_per_second > 0 else 0.0
        self._reasoning = reasoning

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As model.Model says; never raises."""
        plan = _plan(_read(request))
        builder = AnswerBuilder(request, self.provider, self.model_id)
        said, key = 0, 0
        for kind, piece in _pieces(plan, self._reasoning):
            said += 1
            if kind == "reasoning":
                builder.reasoning("reasoning", piece)
            elif kind == "call":
                builder.close("reasoning")
                builder.close(key)
                key = said
                builder.tool_started(key, None, piece)
            elif kind == "arguments":
                builder.tool_arguments(key, piece)
            else:
                builder.close("reasoning")
                builder.text("text", piece)
            if self._pause_seconds:
                yield builder.take()
                await self._clock.sleep(self._pause_seconds)
        heard = sum(len(message.text.split()) for message in request.messages)
        builder.usage(Usage(self.provider, self.model_id, input_tokens=heard, output_tokens=said))
        builder.finish(StopReason.END_TURN)
        yield builder.take()

    async def close(self) -> None:
        return None


# --- what to do -----------------------------------------------------------------------------------------------------


def _read(request: ModelRequest) -> _Situation:
    words, media = "", 0
    calls: dict[str, ToolCall] = {}
    answered: list[_Answered] = []
    for message in request.messages:
        if message.role == "user":
            texts = [block.text for block in message.content if isinstance(block, TextBlock)]
            words, answered = "".join(text for text in texts if not is_client_words(text))[:_READ_CHARACTERS], []
            media = len(message.content) - len(texts)
        for call in message.tool_calls:
            calls[call.call_id] = call
        if (result := message.tool_result) is not None and result.call_id in calls:
            answered.append(_Answered(calls[result.call_id], result))
    specs, choice = request.tools, request.tool_choice
    if type(choice) is OneTool:
        specs = tuple(spec for spec in specs if spec.name == choice.name)
    return _Situation(words, media, tuple(answered), specs, choice != "none")


def _plan(situation: _Situation) -> _Plan:
    plan = _Plan()
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
        plan.answer = "\n\n".join(_describe(item, said) for item in shown) + _LABEL
    else:
        plan.answer = _answer_without_results(situation, matches)
    return plan


def _plan_calls(plan: _Plan, matches: Sequence[Match], situation: _Situation) -> None:
    """What fits and was not called yet: as many calls of a tool as the words ask for, so that this comes to an end."""
    called = Counter(item.call.name for item in situation.answered)
    for match in matches:
        if called[match.spec.name] > 0:
            called[match.spec.name] -= 1
            continue
        words = " and ".join(repr(word) for word in match.words)
        fitting = f"{words or 'A question'} {'fit' if len(match.words) > 1 else 'fits'}"
        if not match.missing:
            plan.reasons.append(f"{fitting} the tool {match.spec.name}{_told(match.arguments)}.")
            plan.calls.append((match.spec.name, match.arguments))
            continue
        plan.reasons.append(f"{fitting} the tool {match.spec.name}, which needs {_listed(match.missing)}.")
        for filled in _filled_from_results(match, situation):
            plan.reasons.append(f"An earlier result has it{_told(filled)}.")
            plan.calls.append((match.spec.name, filled))
        helper = _helper(match, situation)
        if helper is not None and (helper.name, {}) not in plan.calls:
            plan.reasons.append(f"The tool {helper.name} may tell.")
            plan.calls.append((helper.name, {}))


def _filled_from_results(match: Match, situation: _Situation) -> list[JsonObject]:
    """The match's arguments with what is missing taken from earlier results; several where several would do."""
    if len(match.missing) != 1:
        return []
    name = match.missing[0]
    values = [value for item in situation.answered for value in _values_named(item.text, name)]
    visible = [value for value in dict.fromkeys(values) if not value.startswith(".")]
    said = set(concepts(match.clause))
    meant = [value for value in visible if said & set(concepts(value.replace("-", " ")))]
    several = schema_type(properties(match.spec.input_schema).get(name, {})) == "array"
    chosen = (meant or visible)[:_CALLS_AT_ONCE]
    return [{name: [value] if several else value, **match.arguments} for value in chosen]


def _helper(match: Match, situation: _Situation) -> ToolSpec | None:
    """A tool that needs no arguments and lists what is missing."""
    called = {item.call.name for item in situation.answered}
    missing = {concept for name in match.missing for concept in concepts(name)}
    for spec in situation.specs:
        words = set(concepts(spec.name))
        if spec.name not in called and not spec.input_schema.get("required") and "list" in words and missing & words:
            return spec
    return None


def _told(arguments: JsonObject) -> str:
    return " with " + ", ".join(f"{name} = {_short(value)}" for name, value in arguments.items()) if arguments else ""


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 80 else text[:80] + "..."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


# --- what to say ----------------------------------------------------------------------------------------------------


def _answer_without_results(situation: _Situation, matches: Sequence[Match]) -> str:
    words = situation.words
    if incomplete := [match for match in matches if match.missing]:
        asks = [f"For `{match.spec.name}` I also need {_listed(match.missing)}." for match in incomplete]
        return "\n".join(asks) + " Say it in the same sentence, please." + _LABEL
    if _IDENTITY.search(words):
        return f"{_ABOUT}\n\n{_offer(situation.specs)}"
    if _THANKS.search(words):
        return "You are welcome." + _LABEL
    if _FAREWELL.search(words):
        return "Goodbye!" + _LABEL
    if _GREETING.search(words) or not words.strip():
        opening = "Hello! " if words.strip() else ""
        return f"{opening}{_ABOUT}\n\n{_offer(situation.specs)}"
    seen = f" (and {situation.media} attachment{'s' if situation.media > 1 else ''} that I cannot look into)"
    heard = f'You said: "{_short(words.strip())}"{seen if situation.media else ""}.'
    return f"{heard} No tool of mine fits that.\n\n{_offer(situation.specs)}{_LABEL}"


def _offer(specs: Sequence[ToolSpec]) -> str:
    if not specs:
        return "There are no tools here, so there is nothing more that I can do."
    lines = [f"- `{spec.name}`: {_first_sentence(spec.description) or 'no description'}" for spec in specs[:20]]
    more = f"\n- ... and {len(specs) - 20} more" if len(specs) > 20 else ""
    return "I can call these tools for you:\n\n" + "\n".join(lines) + more


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0][:160]


def _describe(item: _Answered, said: frozenset[str]) -> str:
    name, text = f"`{item.call.name}`{_plainly(item.call.arguments)}", item.text.strip()
    if item.result.is_error:
        return f"{name} was not run: {text}" if "denied" in text else f"{name} did not work: {text}"
    rows = _rows(text)
    if rows is not None:
        count = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}"
        return f"{name} found {count}.\n\n{_table(rows, said)}" if rows else f"{name} found nothing."
    value = _parsed(text)
    if isinstance(value, dict) and value:
        lines = "\n".join(f"- {key}: {_short(inner)}" for key, inner in value.items())
        return f"{name} gave:\n\n{lines}"
    if isinstance(value, float) and value.is_integer():
        text = str(int(value))
    if "\n" in text or len(text) > 200:
        quoted = "\n".join(f"> {line}" for line in text[:2_000].splitlines())
        return f"{name} gave:\n\n{quoted}"
    media = sum(1 for block in item.result.content if not isinstance(block, TextBlock))
    if media:
        return f"{name} gave {media} attachment{'s' if media > 1 else ''}. {text}".strip()
    return f"{name}: {text}" if text.endswith((".", "!", ")")) else f"{name} gave **{text}**."


def _plainly(arguments: str) -> str:
    """The short ones among a call's arguments, to tell calls of one tool apart."""
    value = _parsed(arguments)
    if not isinstance(value, dict):
        return ""
    shown = [f"{name} = {_short(given)}" for name, given in value.items() if not isinstance(given, dict)]
    return f" ({', '.join(shown)})" if shown else ""


def _rows(text: str) -> list[JsonObject] | None:
    """The entries of a result that is a list of them: search hits, an array of objects, JSON lines, CSV."""
    value = _parsed(text)
    if isinstance(value, dict) and isinstance(hits := value.get("hits"), dict):
        value = hits.get("hits")
    if isinstance(value, dict) and "_source" in value:
        value = [value]
    if value is None and text.startswith("{"):
        value = [_parsed(line) for line in text.splitlines() if line.strip()]
    if value is None and text == "(The tool gave no output.)":
        return []
    if value is None:
        value = _csv_rows(text)
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        return None
    return [_flat_hit(row) for row in value if isinstance(row, dict)]


def _flat_hit(row: JsonObject) -> JsonObject:
    source = row.get("_source")
    if not isinstance(source, dict):
        return row
    return {**({"index": row["_index"]} if "_index" in row else {}), **source}


def _csv_rows(text: str) -> JsonValue:
    if text.partition("\n")[0].count(",") < 2:  # two commas in the first line: else it is prose as likely as a table
        return None
    names, *rows = csv.reader(text.splitlines())
    if not rows or any(len(row) != len(names) for row in rows):
        return None
    return [dict(zip(names, row, strict=True)) for row in rows]


def _table(rows: Sequence[JsonObject], said: frozenset[str]) -> str:
    names = [name for name, _ in Counter(name for row in rows for name in row).most_common(5)]
    if not names:
        return ""
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    lines += ["| " + " | ".join(_cell(row.get(name), said) for name in names) + " |" for row in rows[:10]]
    if len(rows) > 10:
        lines.append(f"\n... and {len(rows) - 10} more.")
    return "\n".join(lines)


def _cell(value: JsonValue, said: frozenset[str]) -> str:
    """The value on one line; of a long text the sentence that has most of the user's words in it."""
    text = "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
    if len(text) > _CELL_CHARACTERS:
        sentences = re.split(r"(?<=[.!?;])\s+|\n", text[:20_000])
        # Of several that are as good, the first is most often a heading.
        ranks = [(len(said & set(concepts(sentence))), place > 0, -place) for place, sentence in enumerate(sentences)]
        text = sentences[-max(ranks)[2]]
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= _CELL_CHARACTERS else text[:_CELL_CHARACTERS] + "..."


def _values_named(text: str, name: str) -> list[str]:
    """The texts that stand under that name anywhere in a result."""
    found: list[str] = []
    pending: list[JsonValue] = [_parsed(text) if _parsed(text) is not None else list(_rows(text) or ())]
    while pending:
        value = pending.pop(0)
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            pending.extend(inner for inner in value.values() if isinstance(inner, list | dict))
            if isinstance(inner := value.get(name), str):
                found.append(inner)
    return found


def _parsed(text: str) -> JsonValue:
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value


def _pieces(plan: _Plan, reasoning: bool) -> list[tuple[str, str]]:
    """What to stream, one piece per pause: (what it is, its text)."""
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


def open_demo(settings: ModelSettings, environment: ModelEnvironment) -> DemoModel:
    """As model.ModelProvider says."""
    parameters = settings.model_parameters
    pace = parameters.get("words_per_second", 60.0)
    if isinstance(pace, bool) or not isinstance(pace, int | float) or not 0 <= pace < float("inf"):
        raise ConfigurationError(f"words_per_second is {pace!r}; it is a number, 0 for no pauses")
    reasoning = parameters.get("reasoning", True)
    if not isinstance(reasoning, bool):
        raise ConfigurationError(f"reasoning is {reasoning!r}; it is true or false")
    return DemoModel(
        environment.clock, model_id=settings.model_id or NAME, words_per_second=float(pace), reasoning=reasoning
    )


PROVIDER = ModelProvider(NAME, open_demo, needs_model_id=False)
