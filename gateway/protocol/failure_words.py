"""The message of a failed run, as one caller may read it. The code is the same for all.

Above: everything that shows messages. `runs.failure_words` writes the message that operators read.
"""

from __future__ import annotations

from collections.abc import Mapping

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


def shown_message(code: str, message: str, *, to_operator: bool, who: str = _ASSISTANT) -> str:
    """The `message` of a failed run. If its model failed, only operators read it; others read that `who` cannot
    answer.
    """
    if to_operator or not code.startswith(_MODEL):
        return message
    return _PUBLIC_MESSAGES.get(code, _LATER).format(who=who)
