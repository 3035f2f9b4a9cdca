"""Recognises a thread's messages in the items that a client of Responses sends again.

Below: messages. Above: responses_start. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.history import recognition
from gateway.messages import Message

_BACKEND_CALLS: Final = ("mcp_",)  # begin the ids of `mcp_call` items, which are their calls' ids (responses_items)


def common_beginning(
    stored: Sequence[Message], sent: Sequence[Message], start: tuple[int, int] = (0, 0)
) -> tuple[int, int]:
    """As history.recognition does."""
    return recognition.common_beginning(stored, sent, start, backend_calls=_BACKEND_CALLS)
