"""Bedrock's guardrails in a Converse conversation: marks what they check, and reads what they found. Pure.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/guardrails-use-converse-api.html and, for streams,
https://docs.aws.amazon.com/bedrock/latest/userguide/guardrails-streaming.html. Above: the request writer, which marks
the content to check (`guard_content`), and the reader, which reads the trace.

A guardrail with `streamProcessingMode: async` passes text on before it has checked it. If it intervenes, text that
should not be read may have been shown already. That text is retracted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from gateway.bedrock.converse import Turn
from gateway.wire.stand_ins import TAKEN_BACK

GUARD_CONTENT = "guard_content"

# The kind of opaque part that marks a guardrail's own answer: it blocked the question.
BLOCKED_INPUT = "guardrail_blocked_input"

GuardrailMode: TypeAlias = Literal["none", "sync", "async"]

WITHHELD = "(this message is withheld: a guardrail blocked it)"

_PLACES = ("latest_user_message", "user_messages", "system")
_QUALIFIERS = ("grounding_source", "query", "guard_content")
_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"streamProcessingMode": ("sync", "async"), "trace": ("enabled", "disabled", "enabled_full")}
)
_GUARDED_IMAGES = frozenset({"png", "jpeg"})
# If so many words are the guardrail's message, they are not from the model by chance.
_QUOTE_WORDS = 5


def check_guardrail(config: Mapping[str, object], guard_content: object) -> None:
    """Check a guardrail's configuration, and `guard_content`, the places of the request that it checks.

    Raises:
        ValueError: something that the service can never accept, or `guard_content` without a guardrail.
    """
    for name, choices in _CHOICES.items():
        if name in config and config[name] not in choices:
            raise ValueError(f"guardrailConfig.{name} is {config[name]!r}: it must be {' or '.join(choices)}")
    if config and not (config.get("guardrailIdentifier") and config.get("guardrailVersion")):
        raise ValueError("guardrailConfig needs a guardrailIdentifier and a guardrailVersion (a number, or DRAFT)")
    if guard_places(guard_content) and not config:
        raise ValueError(f"{GUARD_CONTENT} needs a guardrailConfig")


def guard_places(guard_content: object) -> Mapping[str, Sequence[str]]:
    """The places that a guardrail is to check, with their qualifiers. Empty: the guardrail decides that itself.

    `guard_content` is a place, or places with their qualifiers: `{latest_user_message: [query], system:
    [grounding_source]}`.

    Raises:
        ValueError: it is something else.
    """
    if guard_content is None:
        return {}
    places = {guard_content: []} if isinstance(guard_content, str) else guard_content
    if not isinstance(places, Mapping) or not places.keys() <= set(_PLACES):
        raise ValueError(
            f"{GUARD_CONTENT} is {guard_content!r}: it must be {', '.join(_PLACES)}, or a mapping of these"
        )
    found: dict[str, Sequence[str]] = {}
    for place, qualifiers in places.items():
        listed = [qualifiers] if isinstance(qualifiers, str) else qualifiers or []
        if not isinstance(listed, list) or not all(item in _QUALIFIERS for item in listed):
            raise ValueError(
                f"{GUARD_CONTENT}.{place} is {qualifiers!r}: it must be a list of {', '.join(_QUALIFIERS)}"
            )
        found[place] = listed
    return found


def guarded_turns(turns: Sequence[Turn], places: Mapping[str, Sequence[str]]) -> list[object]:
    """The turns with users' words and pictures marked. Nothing is changed in place; unchanged parts are shared.

    Results of tools cannot be marked: guardrails never check them.
    """
    asked = [number for number, turn in enumerate(turns) if turn["role"] == "user" and not _has_results(turn)]
    guarded: list[object] = list(turns)
    if (qualifiers := places.get("user_messages")) is not None:
        for number in asked:
            guarded[number] = _guarded_turn(turns[number], qualifiers)
    if asked and (qualifiers := places.get("latest_user_message")) is not None:
        guarded[asked[-1]] = _guarded_turn(turns[asked[-1]], qualifiers)
    return guarded


def guarded_system(blocks: Sequence[Mapping[str, object]], places: Mapping[str, Sequence[str]]) -> list[object]:
    """The system prompt's blocks, with its texts marked if that is asked for."""
    qualifiers = places.get("system")
    return [block if qualifiers is None else _guarded(block, qualifiers) for block in blocks]


def _has_results(turn: Turn) -> bool:
    return any("toolResult" in block for block in turn["content"])


def _guarded_turn(turn: Turn, qualifiers: Sequence[str]) -> object:
    return {"role": turn["role"], "content": [_guarded(block, qualifiers) for block in turn["content"]]}


def _guarded(block: Mapping[str, object], qualifiers: Sequence[str]) -> Mapping[str, object]:
    if "text" in block:
        text: dict[str, object] = {"text": block["text"]}
        return {"guardContent": {"text": {**text, "qualifiers": list(qualifiers)} if qualifiers else text}}
    image = block.get("image")
    if isinstance(image, Mapping) and image["format"] in _GUARDED_IMAGES and "bytes" in image["source"]:
        return {"guardContent": {"image": image}}
    return block


# --- what it found -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """What a guardrail did, as far as its trace says. `model_output`: the model's own answer; empty if the trace lacks
    it.
    """

    blocked_input: bool = False
    blocked_output: bool = False
    masked: bool = False
    model_output: str = ""

    @property
    def only_masked(self) -> bool:
        """Only words were replaced: the answer is complete."""
        return self.masked and not (self.blocked_input or self.blocked_output)


def read_trace(trace: object) -> Finding:
    """The finding in the `trace` of the metadata; an empty one if there is no trace."""
    guardrail = trace.get("guardrail") if isinstance(trace, Mapping) else None
    if not isinstance(guardrail, Mapping):
        return Finding()
    before, after = (set(_actions(guardrail.get(name))) for name in ("inputAssessment", "outputAssessments"))
    said = guardrail.get("modelOutput")
    return Finding(
        "BLOCKED" in before,
        "BLOCKED" in after,
        bool((before | after) - {"NONE"}),
        "".join(map(str, said)) if isinstance(said, list) else "",
    )


def _actions(assessment: object) -> Iterator[str]:
    """Each `BLOCKED`, `ANONYMIZED` and `NONE` in the assessment."""
    if isinstance(assessment, list):
        for item in assessment:
            yield from _actions(item)
    elif isinstance(assessment, Mapping):
        if isinstance(action := assessment.get("action"), str):
            yield action
        for item in assessment.values():
            yield from _actions(item)


def in_its_place(shown: Sequence[str], finding: Finding) -> str | None:
    """The replacement for an answer that a guardrail stopped after words of it were shown. None: no words were shown.

    `shown` are the pieces in which the answer came. The service puts the guardrail's message right after the model's
    words, without a mark between them. Only a trace with the model's words can distinguish them. Otherwise the
    replacement is our own message.
    """
    if finding.blocked_input and not finding.blocked_output:
        return None  # the model was not asked: everything shown is the guardrail's message
    if not finding.model_output:
        return TAKEN_BACK
    pieces, place = 0, 0
    while pieces < len(shown) and finding.model_output.startswith(shown[pieces], place):
        place += len(shown[pieces])
        pieces += 1
    message = "".join(shown[pieces:])
    if pieces:  # the message may have come in one piece with the model's last words
        message = _behind_common_words(message, finding.model_output[place:])
    if _quotes(message, finding.model_output):
        return TAKEN_BACK
    return (message.strip() or TAKEN_BACK) if pieces else None


def _behind_common_words(text: str, other: str) -> str:
    """The rest of the text after the whole words with which the other begins, too."""
    cut = 0
    for word, others in zip(re.finditer(r"\s*\S+", text), re.finditer(r"\s*\S+", other), strict=False):
        if word.group() != others.group():
            break
        cut = word.end()
    return text[cut:]


def _quotes(text: str, source: str) -> bool:
    """Whether some words of `text`, or all of a short text, are in `source` in the same order."""
    words, known = text.split(), " ".join(source.split())
    return any(stretch in known for stretch in _stretches(words))


def _stretches(words: Sequence[str]) -> Iterable[str]:
    if not words:
        return []
    last = max(len(words) - _QUOTE_WORDS, 0)
    return (" ".join(words[start : start + _QUOTE_WORDS]) for start in range(last + 1))
