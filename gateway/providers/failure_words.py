"""The messages for a failed model: operators read what helps to fix it, everybody else what they can do.

Above: runs.endings, which stores the operator's message with the run, and everything that shows messages. The code is
the same for both.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import ModelError

_MOST_CHARACTERS = 300
_TRACEBACK = "Traceback (most recent call last)"
_MODEL = "model_"

_ASSISTANT = "the assistant"
_LATER = "{who} cannot answer just now; try again later"
_SOON = "{who} is busy just now; try again in a moment"
_PUBLIC_MESSAGES: Mapping[str, str] = {
    "model_throttled": _SOON,
    "model_overloaded": _SOON,
    "model_context_overflow": "the conversation is too long; begin a new one",
    "model_content_filter": "this cannot be answered; put it differently",
}


def operator_message(error: ModelError) -> str:
    """Which model failed, what that means, and the provider's own words, cut before a traceback. They may
    contain secrets.
    """
    said = error.provider_message.partition(_TRACEBACK)[0]
    said = "".join(each if each.isprintable() else " " for each in said)
    said = " ".join(said.split())[:_MOST_CHARACTERS]
    return ": ".join(part for part in (error.asked, error.message, said) if part)


def shown_message(code: str, message: str, *, to_operator: bool, who: str = _ASSISTANT) -> str:
    """A failed run's `message`; to others than operators, without what only these may read. `who` cannot answer."""
    if to_operator or not code.startswith(_MODEL):
        return message
    return _PUBLIC_MESSAGES.get(code, _LATER).format(who=who)
