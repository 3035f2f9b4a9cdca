"""The facts by which the demo model chooses: the user's words, the tools, and the calls so far."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.messages import TextBlock, ToolCall, ToolResult, ToolSpec


@dataclass(frozen=True, slots=True)
class Answered:
    """A call since the user's last message, with its result."""

    call: ToolCall
    result: ToolResult

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.result.content if isinstance(block, TextBlock))


@dataclass(frozen=True, slots=True)
class Situation:
    """The facts that the demo model reads from a request. `media` is the number of media in the user's message."""

    words: str
    media: int
    answered: tuple[Answered, ...]
    specs: tuple[ToolSpec, ...]
    may_call: bool
