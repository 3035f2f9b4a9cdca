"""Notes on an interaction besides its words: a member of its messages' metadata.

Below: messages. Above: interactions. Pure. Clients of other protocols may send any metadata: members that do not fit
are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.frozen import quickly_made, replace
from gateway.messages import JsonObject, Message

_MEMBER: Final = "ml_commons"
_LAST_SECOND: Final = 253_402_300_799  # of the year 9999: no later time can be written


@quickly_made
@dataclass(frozen=True, slots=True)
class Note:
    """`begins`: the message begins an interaction, whatever precedes it. `is_answer`: a client gave it as the
    answer. The times are Unix seconds: when the interaction was made, and when it was changed.
    """

    begins: bool = False
    is_answer: bool = False
    create_time: float | None = None
    update_time: float | None = None
    prompt_template: str | None = None
    origin: str | None = None
    additional_info: JsonObject | None = None


_NOTHING: Final = Note()


def note_of(message: Message) -> Note:
    """The note on the message, or on the interaction that it begins."""
    found = None if message.metadata is None else message.metadata.get(_MEMBER)
    if not isinstance(found, dict):
        return _NOTHING
    info = found.get("additional_info")
    return Note(
        found.get("begins") is True,
        found.get("is_answer") is True,
        _time(found.get("create_time")),
        _time(found.get("update_time")),
        _text(found.get("prompt_template")),
        _text(found.get("origin")),
        info if isinstance(info, dict) else None,
    )


def with_note(message: Message, note: JsonObject) -> Message:
    """The message with these members of its note, by their names."""
    metadata = message.metadata or {}
    before = metadata.get(_MEMBER)
    return replace(message, metadata={**metadata, _MEMBER: {**(before if isinstance(before, dict) else {}), **note}})


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= _LAST_SECOND else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
