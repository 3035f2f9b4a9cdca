"""Backend tools as text, for clients that would run whatever is shown to them as a call.

Below: messages. Above: chat_messages, chat_renderer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.messages import ContentBlock, TextBlock

_MOST: Final = 2_000  # characters of the arguments, and of the result


def execution_text(name: str, arguments: str, content: Sequence[ContentBlock], *, is_error: bool) -> str:
    """A call of a backend tool with its result. `name` may be empty: the call was made in an earlier run."""
    result = _short("\n".join(block.text for block in content if isinstance(block, TextBlock)))
    call = f"{name or 'tool'}({_short(arguments)})" if name or arguments else "The approved call"
    return f"{call} {'failed' if is_error else 'gave'}: {result}"


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
