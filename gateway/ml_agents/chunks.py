"""Renders a run as the chunks of ml-commons' `_execute/stream`: `data:` frames with a piece of the answer each.

Below: execution, usage. Above: the protocol of `_execute/stream`. Pure.

    data: {"inference_results": [{"output": [
        {"name": "memory_id", "result": "..."}, {"name": "parent_interaction_id", "result": "..."},
        {"name": "response", "dataAsMap": {"content": "tok", "is_last": false}}]}]}

The contents are the words of the answer alone: reasoning, tools' arguments and results are not shown. The last chunk
has no content, but the members that `_execute` has beside the answer: calls and questions that wait, why the run ended
early (for a `conversational_v2` always why it ended). A failure is `data: {"error": "..."}` in place of the last chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from gateway.events import (
    Event,
    Incomplete,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    RunFailed,
    RunFinished,
    StopReason,
    TextDelta,
    TextStarted,
    UsageReported,
)
from gateway.messages import JsonObject
from gateway.ml_agents.execution import AnswerForm, execution_failure, pending_of, stop_reason, waits_for
from gateway.tool_output import encodable
from gateway.usage import OF_USAGE, UsageLedger, token_usage
from gateway.wire.text_frames import text_frames

_BETWEEN_TURNS: Final = "\n\n"
_SHOWN: Final = frozenset(
    {TextStarted, MessageRetracted, ModelCallStarted, ModelCallEnded, UsageReported, RunFinished, RunFailed}
)
_NOT_LAST: Final = b',"is_last":false}}]}]}\n\n'


class Chunks:
    """The renderer of one stream (renderer.Renderer). `heartbeat` is a chunk without content."""

    def __init__(self, form: AnswerForm, *, to_operator: bool = True) -> None:
        """`to_operator`: the viewer may see why a model failed."""
        self._form = form
        self._to_operator = to_operator
        output = [
            {"name": "memory_id", "result": form.memory_id},
            {"name": "parent_interaction_id", "result": form.interaction_id},
        ]
        named = orjson.dumps({"inference_results": [{"output": output}]})
        # All frames begin alike, up to the content.
        self._opening = b"data: %b," % named.removesuffix(b"]}]}")
        self._head = self._opening + b'{"name":"response","dataAsMap":{"content":'
        self.heartbeat = self._chunk("")
        self._usage = UsageLedger() if form.token_usage else None
        self._text_id = ""  # of the last delta
        self._hidden: frozenset[str] = frozenset()  # texts that are not the assistant's
        self._said = self._turn_said = False
        self._reason: StopReason | None = None

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events."""
        frames: list[bytes] = []
        for event in events:
            if isinstance(event, TextDelta):
                frames += self._words(event)
            elif type(event) in _SHOWN:
                frames += self._rare(event)
        return frames

    def final(self) -> None:
        """There is no other answer than the stream."""

    def _chunk(self, content: str) -> bytes:
        return b"%b%b%b" % (self._head, _written(content), _NOT_LAST)

    def _rare(self, event: Event) -> Sequence[bytes]:
        if self._usage is not None and type(event) in OF_USAGE:
            self._usage.follow([event])
        match event:
            case TextStarted(message_id, role) if role != "assistant":
                self._hidden |= {message_id}
            case MessageRetracted(_, text) if text:
                return [self._chunk(_BETWEEN_TURNS + text)]
            case ModelCallStarted():
                self._turn_said = False
            case ModelCallEnded(reason):
                self._reason = reason
            case RunFinished() | RunFailed():
                return self._end(event)
            case _:  # nothing to show
                pass
        return ()

    def _words(self, event: TextDelta) -> Sequence[bytes]:
        if event.id in self._hidden:
            return ()
        frames: list[bytes] = []
        texts = event.texts
        if event.id != self._text_id:
            frames.append(self._chunk(self._parted() + texts[0]))
            self._text_id, texts = event.id, texts[1:]
        return frames + text_frames(self._head, texts, _NOT_LAST, _written)

    def _parted(self) -> str:
        """The separator before a text's first words, which parts them from the model's words in an earlier answer."""
        parted = self._said and not self._turn_said
        self._said = self._turn_said = True
        return _BETWEEN_TURNS if parted else ""

    def _end(self, last: RunFinished | RunFailed) -> Sequence[bytes]:
        if (failure := execution_failure(last, to_operator=self._to_operator)) is not None:
            return [error_frame(failure.message)]
        assert isinstance(last, RunFinished), "all others failed"
        frames: list[bytes] = []
        if not self._turn_said and (waits := waits_for(last.outcome)):
            frames.append(self._chunk(waits))
        if self._usage is not None:
            usage: JsonObject = {"name": "token_usage", "dataAsMap": token_usage(self._usage.by_turn)}
            frames.append(self._whole({"content": "", "is_last": False}, usage))
        end: JsonObject = {"content": "", "is_last": True, **pending_of(last.outcome)}
        if self._form.is_unified or isinstance(last.outcome, Incomplete):
            end["stop_reason"] = stop_reason(last.outcome, self._reason)
        return [*frames, self._whole(end)]

    def _whole(self, response: JsonObject, *more: JsonObject) -> bytes:
        """A chunk with more than content."""
        tensors = [{"name": "response", "dataAsMap": response}, *more]
        return b"%b%b]}]}\n\n" % (self._opening, orjson.dumps(tensors)[1:-1])


def _written(text: str) -> bytes:
    return orjson.dumps(encodable(text))


def error_frame(message: str) -> bytes:
    """The last frame of a stream that failed, byte for byte as ml-commons writes it."""
    return b'data: {"error": %b}\n\n' % _written(message)
