"""Recognises a thread's messages in the items that a client of Responses sends again.

Below: messages. Above: responses_start. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.history import recognition
from gateway.messages import Message

_BACKEND_CALLS: Final = ("mcp_",)  # begin the ids of `mcp_call` items, which are their calls' ids (responses_items)


def recognised(stored: Sequence[Message], sent: Sequence[Message]) -> tuple[Message, ...]:
    """What was sent, with the thread's own messages in place of their copies."""
    known, new = common_beginning(stored, sent)
    return (*stored[:known], *sent[new:])


def common_beginning(
    stored: Sequence[Message], sent: Sequence[Message], start: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """As history.recognition does."""
    return recognition.common_beginning(stored, sent, start, backend_calls=_BACKEND_CALLS)
