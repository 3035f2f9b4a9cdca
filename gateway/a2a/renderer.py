"""Renders a run as a task: the frames of a stream, the result of SendMessage, or push notifications.

Below: tasks, dialects. Above: the files that begin and show tasks. Pure.
https://a2a-protocol.org/latest/specification/#312-send-streaming-message (1.0)

    data: {"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":...,"artifact":{...,"parts":[{"text":"tok"}]}}}}

The first frame is the task as it is when the stream begins; then come its changes. The words of a message are one
artifact: its first chunk has its name, the next ones are appended, and the last one is empty or, if the settings say
so, the whole text. The frame of a chunk is made once for each artifact, so a delta costs no more than its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.a2a.dialects import Dialect, StreamKind, dump, stream_response
from gateway.a2a.tasks import TaskFold, Update
from gateway.events import Event, TextDelta
from gateway.messages import JsonObject
from gateway.wire.text_frames import text_frames

_EMPTY_TEXT: Final = b'"text":""'
_TEXT: Final = b'"text":'


class TaskRenderer:
    """The renderer of one stream (renderer.Renderer), of a task that may be under way already."""

    def __init__(
        self,
        fold: TaskFold,
        dialect: Dialect,
        *,
        envelope: bytes | None = None,
        history_length: int | None = None,
    ) -> None:
        """`fold`: the task as it is before the events that are rendered; this renderer folds them. `envelope`: the JSON
        of the request's id, for JSON-RPC; None: REST. `history_length`: how much of the history is shown, None: all.
        """
        self._fold = fold
        self._dialect = dialect
        self._history_length = history_length
        begin = b"" if envelope is None else b'{"jsonrpc":"2.0","id":%b,"result":' % envelope
        self._head = b"data: " + begin
        self._tail = b"\n\n" if envelope is None else b"}\n\n"
        self._opened = False
        # the frames of the chunks of `words_id`, without their words
        self._words_id = ""
        self._begin = self._end = b""

    def opening(self) -> Sequence[bytes]:
        """The first frame, before there are events; none where it was given."""
        if self._opened:
            return ()
        self._opened = True
        return (self._frame("task", self._fold.task(history_length=self._history_length)),)

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events."""
        frames = [*self.opening()]
        for event in events:
            if isinstance(event, TextDelta):
                frames += self._texts(event)
            else:
                frames += self._updates(event)
        return frames

    def final(self) -> JsonObject:
        """The result of SendMessage, also of a task that has not ended."""
        if (message := self._fold.direct_message) is not None:
            return stream_response(self._dialect, "message", message)
        return stream_response(self._dialect, "task", self._fold.task(history_length=self._history_length))

    def _texts(self, event: TextDelta) -> list[bytes]:
        fold, texts = self._fold, event.texts
        frames: list[bytes] = []
        if event.id != fold.words_id:
            frames = self._updates(event.changed(event.id, texts[:1]))
            texts = texts[1:]
        if event.id == fold.words_id:
            fold.words += texts
            begin, end = self._words_frame(event.id)
            frames += text_frames(begin, texts, end, dump, one_line=True)
        return frames

    def _updates(self, event: Event) -> list[bytes]:
        return [self._frame(kind, value) for kind, value in self._fold.apply(event)]

    def _words_frame(self, words_id: str) -> tuple[bytes, bytes]:
        """The beginning and the end of the frames with an artifact's next words."""
        if words_id != self._words_id:
            kind, value = self._fold.chunk(words_id)
            begin, _, end = self._frame(kind, value).rpartition(_EMPTY_TEXT)
            self._words_id, self._begin, self._end = words_id, begin + _TEXT, end
        return self._begin, self._end

    def _frame(self, kind: StreamKind, value: JsonObject) -> bytes:
        return b"%b%b%b" % (self._head, dump(stream_response(self._dialect, kind, value)), self._tail)


class TaskBody(TaskRenderer):
    """The renderer of SendMessage's result: it has no frames, which takes less time."""

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        self._fold.follow(events)
        return ()


@dataclass(frozen=True, slots=True)
class PushUpdate:
    """One notification: a StreamResponse of 1.0. `is_status`: the task's state changed; `ends`: the run's last one."""

    payload: JsonObject
    is_status: bool
    ends: bool


class PushUpdates:
    """The push notifications of a run: its states, and each artifact once it is whole, but no single words."""

    def __init__(self, fold: TaskFold) -> None:
        """`fold`: as of TaskRenderer."""
        self._fold = fold

    def follow(self, events: Sequence[Event]) -> Sequence[PushUpdate]:
        """The updates in the next events."""
        found: list[PushUpdate] = []
        fold = self._fold
        for event in events:
            found += [push for update in fold.apply(event) if (push := self._push(update)) is not None]
        return found

    def _push(self, update: Update) -> PushUpdate | None:
        kind, value = update
        if kind == "statusUpdate":
            return PushUpdate({kind: value}, is_status=True, ends=not self._fold.state.at_work)
        artifact = value["artifact"]
        if "lastChunk" not in value or not isinstance(artifact, dict):
            return None
        whole = {name: each for name, each in value.items() if name != "append"}
        whole["artifact"] = self._fold.artifact(str(artifact["artifactId"]))
        return PushUpdate({kind: whole}, is_status=False, ends=False)
