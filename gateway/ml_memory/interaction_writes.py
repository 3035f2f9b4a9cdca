"""Interactions that clients write: reads the bodies, and makes messages of them.

Below: fields, interactions. Above: the protocol of memories. Pure, but for new ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.errors import InvalidRequestError
from gateway.frozen import replace
from gateway.messages import JsonObject, Message, TextBlock, new_id, new_message_id
from gateway.ml_memory.interaction_notes import with_note
from gateway.ml_memory.interactions import Turn
from gateway.ml_memory.memories import info_of
from gateway.protocol.fields import Fields
from gateway.wire.merge_patch import merge_patch

_TEXTS: Final = ("input", "prompt_template", "response", "origin")
_PARENTS: Final = ("parent_message_id", "parent_interaction_id")
_POSTED: Final = frozenset([*_TEXTS, "additional_info", *_PARENTS, "trace_number"])
_EMPTY: Final = (
    "At least one of the following parameters must be non-empty: "
    "input, prompt_template, response, origin, additional_info"
)


@dataclass(frozen=True, slots=True)
class InteractionWords:
    """An interaction or, with a `parent`, a trace as a client gives it. Blank members are None."""

    input: str | None = None
    prompt_template: str | None = None
    response: str | None = None
    origin: str | None = None
    additional_info: JsonObject | None = None
    parent: str | None = None
    trace_number: int | None = None

    @property
    def said(self) -> JsonObject:
        """Its words and notes, without the ids that it belongs to."""
        given: JsonObject = {
            "input": self.input,
            "prompt_template": self.prompt_template,
            "response": self.response,
            "origin": self.origin,
            "additional_info": self.additional_info,
        }
        return {name: value for name, value in given.items() if value is not None}


def posted_words(body: JsonObject) -> InteractionWords:
    """A new interaction or trace. Raises InvalidRequestError (400)."""
    given = Fields(body)
    for name in body:
        if name not in _POSTED:
            given.wrong(name, f"Invalid field [{name}] found in request body; known are {', '.join(sorted(_POSTED))}")
    texts = {name: text for name in _TEXTS if (text := given.text(name)) is not None and text.strip()}
    parent, other = (given.text(name) for name in _PARENTS)
    if parent and other and parent != other:
        given.wrong(_PARENTS[1], f"{_PARENTS[1]} differs from {_PARENTS[0]}; give one of them")
    info: JsonObject = {**(given.texts("additional_info") or {})}
    number = given.number("trace_number")
    if number is not None and not (parent or other):
        given.wrong("trace_number", "trace_number is of a trace: give parent_message_id, too")
    given.check()
    if not texts and not info:
        raise InvalidRequestError(_EMPTY, status=400)
    return InteractionWords(**texts, additional_info=info or None, parent=parent or other or None, trace_number=number)


def edited_words(body: JsonObject) -> InteractionWords:
    """The changes to an interaction: its response, and members of its additional_info, of which null removes
    one. Other members are ignored.

    Raises:
        InvalidRequestError: 400
    """
    given = Fields(body)
    response, info = given.text("response"), info_of(given)
    given.check()
    if response is None and info is None:
        raise InvalidRequestError("nothing to update: give response or additional_info", status=400)
    return InteractionWords(response=response, additional_info=info)


def posted_messages(words: InteractionWords, message_id: str, now: float) -> tuple[Message, ...]:
    """The messages of a new interaction; the first one has its id and its note."""
    said = words.said
    note: JsonObject = {"begins": True, "create_time": now}
    note |= {name: said[name] for name in ("prompt_template", "origin", "additional_info") if name in said}
    answer = () if words.response is None else (TextBlock(words.response),)
    if words.input is None:
        # without words it is an answer: no model is shown an empty one
        return (with_note(Message(message_id, "assistant", answer), note),)
    question = with_note(Message(message_id, "user", (TextBlock(words.input),)), note)
    return (question, Message(new_message_id(), "assistant", answer)) if answer else (question,)


def edited_messages(
    messages: Sequence[Message], turn: Turn, words: InteractionWords, now: float
) -> tuple[Message, ...]:
    """The thread's messages with another answer of one of its turns, and other information about it."""
    edited = list(turn.messages)
    if words.response is not None:
        edited = _answered(turn, words.response, now)
    if words.additional_info is not None:
        info = merge_patch(turn.note.additional_info or {}, words.additional_info)
        # the message is stored anew, but it was said before
        edited[0] = with_note(edited[0], {"create_time": turn.created_at, "update_time": now, "additional_info": info})
    of_turn, as_now = {message.id for message in turn.messages}, {message.id: message for message in edited}
    added = [message for message in edited if message.id not in of_turn]
    written: list[Message] = []
    for message in messages:
        if message.id not in of_turn:
            written.append(message)
        elif message.id in as_now:
            written.append(as_now[message.id])
        if message.id == turn.messages[-1].id:
            written += added
    return tuple(written)


def _answered(turn: Turn, response: str, now: float) -> list[Message]:
    """The turn with this answer in place of its own, or at the end where it has none.

    The answer is of a turn of its own: a provider's server has the earlier one. The reasoning for the earlier one goes.
    """
    note: JsonObject = {"is_answer": True, "update_time": now}
    answer = turn.answer
    own = next((message for message in answer if message.role == "assistant" and not message.is_medium), None)
    text = (TextBlock(response),)
    if own is None:
        return [*turn.messages, with_note(Message(new_message_id(), "assistant", text), note)]
    made = with_note(replace(own, content=text, turn_id=own.turn_id and new_id("turn"), incomplete=False), note)
    gone = {message.id for message in answer if not message.is_medium and message is not own}
    return [made if message is own else message for message in turn.messages if message.id not in gone]
