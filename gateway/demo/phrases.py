"""The demo model's texts: greetings, questions for missing arguments, and results in words and tables. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import orjson

from gateway.demo.results import parsed, rows_of
from gateway.demo.situation import Answered, Situation
from gateway.demo.word_matching import Match, concepts
from gateway.messages import JsonObject, JsonValue, TextBlock, ToolSpec

LABEL = "\n\n*(Demo model: it matches words, it is not an LLM.)*"
_ABOUT = (
    "I am the demo model of this gateway: no LLM, only word matching. I choose tools by their names and descriptions, "
    "fill their arguments from your words and show what they give."
)
_CELL_CHARACTERS = 200

_GREETING = re.compile(r"^\W*(?:hi|hello|hey|good (?:morning|day|evening|afternoon)|greetings|moin|hallo)\b", re.I)
_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers)\b", re.I)
_FAREWELL = re.compile(r"^\W*(?:bye|goodbye|see you|farewell)\b", re.I)
_IDENTITY = re.compile(r"\b(?:who|what) are you\b|\bare you (?:an? )?(?:llm|ai|bot|real|human)\b|\byour name\b", re.I)


def answer_without_results(situation: Situation, matches: Sequence[Match]) -> str:
    """The answer if no tool was called: it asks for a missing argument, greets, or offers the tools."""
    words = situation.words
    if incomplete := [match for match in matches if match.missing]:
        asks = [f"For `{match.spec.name}` I also need {listed(match.missing)}." for match in incomplete]
        return "\n".join(asks) + " Say it in the same sentence, please." + LABEL
    if _IDENTITY.search(words):
        return f"{_ABOUT}\n\n{_offer(situation.specs)}"
    if _THANKS.search(words):
        return "You are welcome." + LABEL
    if _FAREWELL.search(words):
        return "Goodbye!" + LABEL
    if _GREETING.search(words) or not words.strip():
        opening = "Hello! " if words.strip() else ""
        return f"{opening}{_ABOUT}\n\n{_offer(situation.specs)}"
    seen = f" (and {situation.media} attachment{'s' if situation.media > 1 else ''} that I cannot look into)"
    heard = f'You said: "{shortened(words.strip())}"{seen if situation.media else ""}.'
    return f"{heard} No tool of mine fits that.\n\n{_offer(situation.specs)}{LABEL}"


def _offer(specs: Sequence[ToolSpec]) -> str:
    if not specs:
        return "There are no tools here, so there is nothing more that I can do."
    lines = [f"- `{spec.name}`: {_first_sentence(spec.description) or 'no description'}" for spec in specs[:20]]
    more = f"\n- ... and {len(specs) - 20} more" if len(specs) > 20 else ""
    return "I can call these tools for you:\n\n" + "\n".join(lines) + more


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s|\n", text.strip(), maxsplit=1)[0][:160]


def describe(item: Answered, said: frozenset[str]) -> str:
    """The text for a call's result. `said` are the concepts of the user's words, which choose the sentence of a long
    text.
    """
    name, text = f"`{item.call.name}`{_plainly(item.call.arguments)}", item.text.strip()
    if item.result.is_error:
        return f"{name} was not run: {text}" if "denied" in text else f"{name} did not work: {text}"
    rows = rows_of(text)
    if rows is not None:
        count = f"{len(rows)} {'entry' if len(rows) == 1 else 'entries'}"
        return f"{name} found {count}.\n\n{_table(rows, said)}" if rows else f"{name} found nothing."
    value = parsed(text)
    if isinstance(value, dict) and value:
        lines = "\n".join(f"- {key}: {shortened(inner)}" for key, inner in value.items())
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
    """The short ones among a call's arguments, to distinguish calls of one tool."""
    value = parsed(arguments)
    if not isinstance(value, dict):
        return ""
    shown = [f"{name} = {shortened(given)}" for name, given in value.items() if not isinstance(given, dict)]
    return f" ({', '.join(shown)})" if shown else ""


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


def with_arguments(arguments: JsonObject) -> str:
    """The arguments as they stand after a tool's name in a sentence; empty if there are none."""
    listing = ", ".join(f"{name} = {shortened(value)}" for name, value in arguments.items())
    return f" with {listing}" if arguments else ""


def shortened(value: JsonValue) -> str:
    """A text as it is, anything else as JSON; 80 characters at most."""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 80 else text[:80] + "..."


def listed(names: Sequence[str]) -> str:
    """The names, each as code, joined by "and"."""
    return " and ".join(f"`{name}`" for name in names)
