"""The agent under the TCK's tests: what it does is said by the beginning of the id of the message that it is sent."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final

from gateway.agent import AgentDefinition
from gateway.events import (
    Completed,
    Custom,
    Event,
    Events,
    MediaGiven,
    RunFailed,
    RunFinished,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallEnded,
    ToolCallStarted,
)
from gateway.loop import AgentType, Loop, LoopContext, LoopEnvironment
from gateway.messages import Base64Source, DocumentBlock, JsonObject, MediaSource, ToolCall, UrlSource, new_id

_RESUBSCRIBED: Final = "test-resubscribe-message-id"
_RESUBSCRIBED_SECONDS: Final = 4.0
"""The suite subscribes again while the task works for this long."""
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "tck-artifact-text": ["Generated text content"],
    "tck-stream-001": ["Stream hello from TCK"],
    "tck-stream-002": [],
    "tck-stream-003": ["Stream task lifecycle"],
    "tck-stream-ordering-001": ["Ordered output"],
    "tck-stream-artifact-text": ["Streamed text content"],
    "tck-stream-artifact-chunked": ["chunk-1 ", "chunk-2"],
}
_FILE: Final = Base64Source("T3V0cHV0", "text/plain")
_SOURCES: Final[Mapping[str, MediaSource]] = {
    "tck-artifact-file": _FILE,
    "tck-artifact-file-url": UrlSource("https://example.com/output.txt", "text/plain"),
    "tck-stream-artifact-file": _FILE,
}
_CUSTOM: Final[Mapping[str, tuple[str, JsonObject]]] = {
    "tck-artifact-data": ("a2a.artifact", {"parts": [{"data": {"key": "value", "count": 42}}]}),
    "tck-message-response": ("a2a.message", {"parts": [{"text": "Direct message response"}]}),
}


class _Scenarios:
    """The scenarios of the suite's `scenarios/*.feature`."""

    async def run(self, context: LoopContext) -> AsyncGenerator[Events]:
        name = _scenario(context)
        if name == _RESUBSCRIBED:
            await context.clock.sleep(_RESUBSCRIBED_SECONDS)
        if name == "tck-reject-task":
            yield [RunFailed("rejected", "rejected")]
            return
        if name == "tck-input-required":
            call = ToolCall(new_id("call"), "ask_user", "")
            asked = ToolCallStarted(call.call_id, call.name, new_id("msg"), executor="client")
            yield [asked, ToolCallEnded(call.call_id)]
            yield [RunFinished(Completed((call,)))]
            return
        if given := _given(name):
            yield given
        yield [RunFinished(Completed())]


def _scenario(context: LoopContext) -> str:
    """The longest name that the message's id begins with."""
    request: Any = context.input.origin.request or {}
    message_id: str = request["message"]["messageId"]
    names = [*_WORDS, *_SOURCES, *_CUSTOM, "tck-reject-task", "tck-input-required", _RESUBSCRIBED]
    return max((name for name in names if message_id.startswith(name)), key=len, default="tck-complete-task")


def _given(name: str) -> list[Event]:
    message_id = new_id("msg")
    if (source := _SOURCES.get(name)) is not None:
        return [MediaGiven(message_id, DocumentBlock(source, "output.txt"))]
    if (custom := _CUSTOM.get(name)) is not None:
        return [Custom(*custom)]
    words = _WORDS.get(name, ["Hello from TCK"])
    if not words:
        return []
    return [TextStarted(message_id), *[TextDelta(message_id, each) for each in words], TextEnded(message_id)]


def _open(definition: AgentDefinition, environment: LoopEnvironment) -> Loop:
    return _Scenarios()


AGENT_TYPE = AgentType("a2a_tck", _open)
