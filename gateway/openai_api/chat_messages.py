"""A run's output as the one message that Chat Completions has for it; and whether a client's copy of it is the same.

Below: media_out, backend_tools, messages. Above: chat_renderer, which shows it, and chat_history, which recognises what
a client sends back. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from gateway.events import Completed, Incomplete, Interrupted, Outcome, StopReason
from gateway.messages import MediaBlock, Message, ReasoningBlock, TextBlock, ToolCall
from gateway.openai_api.backend_tools import execution_text
from gateway.openai_api.media_out import markdown_of
from gateway.openai_api.questions import REFUSED, WAITS, is_question

BackendTools: TypeAlias = Literal["hidden", "reasoning"]
"""Whether calls of backend tools are shown, as lines of the reasoning."""

RETRACTION_MARK: Final = "[The text above was taken back.]"
"""In a stream, in place of what a client cannot be made to forget; what replaces it follows."""

BETWEEN: Final = "\n\n"
"""What stands between two paragraphs."""

_NOTE: Final = re.compile(r"(?:\A|\n\n)" + re.escape(WAITS))
_TARGET: Final = re.compile(r"\]\([^()\s]*\)")


class ShownAnswer(NamedTuple):
    """The texts of one message of the assistant; each is empty where there is none."""

    content: str
    refusal: str = ""
    reasoning: str = ""


class Joints:
    """Gives the separators between the pieces of one text: those of one answer of the model follow each other
    directly.
    """

    __slots__ = ("_alone", "_turn_id")

    def __init__(self) -> None:
        self._turn_id: str | None = None
        self._alone = False

    def before(self, turn_id: str, *, alone: bool = False) -> str:
        """The separator before the next piece, which is not empty. `alone`: the piece is a paragraph of its own."""
        parted = self._turn_id is not None and (alone or self._alone or turn_id != self._turn_id)
        self._turn_id, self._alone = turn_id, alone
        return BETWEEN if parted else ""


def pending_calls(outcome: Outcome) -> Sequence[ToolCall]:
    """The calls that wait for the client at the end of a run."""
    return outcome.pending_calls if isinstance(outcome, Completed | Interrupted) else ()


def is_refusal(outcome: Outcome) -> bool:
    """Whether a run ended because its model refuses to answer. To OpenAI's clients that is an answer."""
    return isinstance(outcome, Incomplete) and outcome.reason is StopReason.REFUSAL


def shown_answer(messages: Sequence[Message], backend_tools: BackendTools = "hidden") -> ShownAnswer:
    """The text that clients see of the messages that a run added."""
    reasoning = _Pieces()
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if message.role == "reasoning":
            for block in message.content:
                if isinstance(block, ReasoningBlock):
                    reasoning.add(block.text, message.id)
        elif backend_tools == "reasoning":
            calls |= {call.call_id: call for call in message.tool_calls}
            if (result := message.tool_result) is not None:
                call = calls.get(result.call_id)
                name, arguments = ("", "") if call is None else (call.name, call.arguments)
                reasoning.add(execution_text(name, arguments, result.content, is_error=result.is_error), message.id)
    return ShownAnswer(shown_content(messages), _texts(messages, refusals=True), reasoning.text)


def shown_content(messages: Sequence[Message]) -> str:
    """The `content` for the messages that a run added: the assistant's texts, and media as markdown."""
    if len(messages) == 1 and len(content := messages[0].content) == 1 and type(block := content[0]) is TextBlock:
        return "" if block.refusal or messages[0].role != "assistant" else block.text
    return _texts(messages, refusals=False)


def is_copy(sent: str, shown: str) -> bool:
    """Whether a client's text is a copy of a content, as a stream or a body gave it. Clients may cut off space around
    it, or keep pictures elsewhere; and the thread may have gone on since the copy was made.
    """
    if sent == shown:
        return True
    sent, shown = sent.strip(), shown.strip()
    if (note := _NOTE.search(sent)) is not None:  # what followed the approval came to nobody
        return shown.startswith(sent[: note.start()])
    if RETRACTION_MARK in sent:
        return shown.endswith(sent.rpartition(RETRACTION_MARK)[2].strip())
    if "](data:" in shown:
        sent, shown = _TARGET.sub("]()", sent), _TARGET.sub("]()", shown)
    return sent == shown


def without_question(sent: str) -> str | None:
    """The part of an answer before its question; None: it asks nothing."""
    return None if (note := _NOTE.search(sent)) is None else sent[: note.start()]


def is_note(sent: str) -> bool:
    """Whether a text only says how a run ended: then the thread may have no message for it."""
    return sent == REFUSED or is_question(sent)


class _Pieces:
    def __init__(self) -> None:
        self._joints = Joints()
        self._pieces: list[str] = []

    def add(self, text: str, turn_id: str, *, alone: bool = False) -> None:
        if text:
            self._pieces += (self._joints.before(turn_id, alone=alone), text)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def _texts(messages: Iterable[Message], *, refusals: bool) -> str:
    pieces = _Pieces()
    for message in messages:
        if message.role != "assistant":
            continue
        turn_id = message.turn_id or message.id
        for block in message.content:
            if isinstance(block, TextBlock) and block.refusal == refusals:
                pieces.add(block.text, turn_id)
            elif isinstance(block, MediaBlock) and not refusals:
                pieces.add(markdown_of(block), turn_id, alone=True)
    return pieces.text
