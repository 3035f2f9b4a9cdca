"""Events that the tests of renderers make runs of, written in short."""

from __future__ import annotations

from typing import Any, Final

from gateway.events import (
    Completed,
    Event,
    Interrupt,
    ModelCallEnded,
    ModelCallStarted,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    Usage,
)
from gateway.messages import TextBlock

START: Final[list[Event]] = [RunStarted("t", "r"), ModelCallStarted("turn", "p", "m")]
SAYS: Final[list[Event]] = [TextStarted("m1"), TextDelta("m1", "Hel"), TextDelta("m1", "lo"), TextEnded("m1")]
ENDS: Final = ModelCallEnded(StopReason.END_TURN)
CALLS: Final = ModelCallEnded(StopReason.TOOL_CALLS)
USED: Final = (Usage("p", "m", 1, 2),)
FINISHED: Final = RunFinished(Completed(), USED)


def call(name: str, arguments: str = '{"a":1}', **more: Any) -> list[Event]:
    """A call whose id is its tool's name."""
    deltas = [ToolCallDelta(name, arguments)] if arguments else []
    started = ToolCallStarted(name, name, "m1", **{"executor": "backend", **more})
    return [started, *deltas, ToolCallEnded(name)]


def gives(name: str, text: str = "42", *, is_error: bool = False) -> Event:
    """The result of that call."""
    return ToolReturned(f"result of {name}", name, (TextBlock(text),), is_error)


def interrupt(call_id: str | None) -> Interrupt:
    """A question whether a call may run."""
    return Interrupt(f"int-{call_id}", "tool_call", "May it run?", call_id)
