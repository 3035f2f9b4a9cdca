"""The message of a run whose model failed, for operators: which model, why, and the provider's own words.

Above: endings, which stores it with the run. `protocol.failure_words` has the message that others read.
"""

from __future__ import annotations

from gateway.errors import ModelError

_MOST_CHARACTERS = 300
_TRACEBACK = "Traceback (most recent call last)"


def operator_message(error: ModelError) -> str:
    """Which model failed, what that means, and the provider's own words, cut before a traceback. They may
    contain secrets.
    """
    said = error.provider_message.partition(_TRACEBACK)[0]
    said = "".join(each if each.isprintable() else " " for each in said)
    said = " ".join(said.split())[:_MOST_CHARACTERS]
    return ": ".join(part for part in (error.asked, error.message, said) if part)
