"""The rules by which the Agent API's stock web UI makes a transcript of a stream, as a fold over its frames.

They are those of its `Response/Builder.tsx` (what becomes of a frame), `Response/Card.tsx` and its neighbours (what
of it is on the screen), and `Chat/hooks/useChatRequest.tsx` (when the UI waits no more), in words of our own; none of
them is kinder here than there. Where the UI would throw, or drop something, the fold raises `LostError`.
https://github.com/agentscope-ai/agentscope-spark-design/tree/main/packages/spark-chat (January 2026)
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

Shown: TypeAlias = tuple[Any, ...]

CALLS: Final = ("function_call", "plugin_call", "component_call", "mcp_call")
OUTPUTS: Final = tuple(f"{kind}_output" for kind in CALLS)
_CARDS: Final = ("plugin_call", "plugin_call_output", "mcp_call", "mcp_call_output", "mcp_approval_request")
_GENERATING: Final = ("created", "in_progress")
_DONE: Final = ("completed", "canceled", "failed")


class LostError(AssertionError):
    """The UI would lose this."""


@dataclass(frozen=True, slots=True)
class Build:
    """What a build of the UI does with two kinds of frames. Earlier ones append a heartbeat as an empty message, and
    know of data only what stands in frames that are no deltas.
    """

    name: str
    skips_heartbeats: bool = True
    takes_data_deltas: bool = True


JANUARY: Final = Build("January 2026")
DECEMBER: Final = Build("23 December 2025", takes_data_deltas=False)
EARLIER: Final = Build("9 December 2025", skips_heartbeats=False, takes_data_deltas=False)
BUILDS: Final = (JANUARY, DECEMBER, EARLIER)


@dataclass(slots=True)
class StockUI:
    """One answer on the screen. `finished`: the UI waits no more."""

    build: Build = JANUARY
    data: dict[str, Any] = field(default_factory=lambda: {"object": "response", "status": "created", "output": []})
    finished: bool = False

    def read(self, stream: str) -> None:
        """Take in the whole text of a stream, as it comes over the wire."""
        for frame in frames_of(stream):
            self.take(frame)

    def take(self, frame: dict[str, Any]) -> None:
        frame = copy.deepcopy(frame)  # as parsed from its own text
        match frame.get("object"):
            case "response":
                self.data |= {**frame, "output": frame.get("output") or []}
            case "message":
                if frame.get("type") != "heartbeat" or not self.build.skips_heartbeats:
                    self._take_message(frame)
            case "content":
                self._take_content(frame)
            case _:
                self._fail(frame)
        if self.data["status"] in _DONE and self._is_shown():
            self.finished = True

    @property
    def output(self) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = self.data["output"]
        return output

    @property
    def spins(self) -> bool:
        """Whether something on the screen says that more is to come."""
        output = [message for message in self.output if message["type"] != "heartbeat"]
        contents = [content for message in output for content in message.get("content") or ()]
        return any(each["status"] in _GENERATING for each in (self.data, *output, *contents))

    def transcript(self) -> list[Shown]:
        """What is on the screen, from top to bottom; the calls of the client's own tools too, which its page shows."""
        return [shown for message in merged(self.output) for shown in _shown(message)]

    def _is_shown(self) -> bool:
        """The screen stays as it was as long as the first message is empty, unless the response has failed."""
        first = self.output[0] if self.output else {}
        return bool(self.data["status"] == "failed" or first.get("content"))

    def _take_message(self, frame: dict[str, Any]) -> None:
        for message in self.output:
            if message.get("id") == frame.get("id"):
                content = message.get("content")
                message |= frame
                if not frame.get("content"):
                    message["content"] = content
                return
        self.output.append(frame)

    def _take_content(self, frame: dict[str, Any]) -> None:
        message = next((each for each in self.output if each.get("id") == frame.get("msg_id")), None)
        if message is None:
            raise LostError(f"a content of a message that was not announced: {frame}")
        contents = message["content"] = message.get("content") or []
        last = contents[-1] if contents else None
        if not frame.get("delta"):
            if last is None:
                contents.append(frame)
            else:
                last |= frame
        elif last is None or not last.get("delta"):
            contents.append(frame)
        elif frame["type"] == last["type"] == "text":
            last["text"] += frame["text"]
        elif frame["type"] == "image":
            last["image_url"] = frame["image_url"]
        elif frame["type"] == "data" and self.build.takes_data_deltas:
            last["data"] = frame["data"]

    def _fail(self, frame: dict[str, Any]) -> None:
        """A frame that is none of the protocol's."""
        self.data["status"] = "failed"
        told = {"code": frame.get("code"), "message": frame.get("message")}
        self.output.append({"type": "error", "status": "failed", "content": [], "role": "assistant", **told})


def transcript_of(frames: Sequence[Any], build: Build = JANUARY) -> list[Shown]:
    """What the screen shows after a stream, having checked it at every frame."""
    ui = StockUI(build)
    for frame in frames[:-1]:
        ui.take(frame)
        if frame["object"] == "content":
            _check_content(ui, frame)
    shown = ui.transcript()
    ui.take(frames[-1])
    assert ui.transcript() == shown, "the last frame brings nothing new, and takes nothing away"
    only_last = StockUI(build)
    only_last.take(frames[-1])
    assert only_last.transcript() == shown
    assert not ui.spins
    assert ui.finished or not shown
    return shown


def _check_content(ui: StockUI, frame: dict[str, Any]) -> None:
    """The frame's content is the last one of its message, and says nothing else once it has ended. Reasoning is on the
    screen as it comes.
    """
    [message] = [each for each in ui.output if each["id"] == frame["msg_id"]]
    assert message["type"] != "reasoning" or [*_shown(message)]
    assert len(message["content"]) == frame["index"] + 1
    if frame["status"] != "in_progress":
        assert message["content"][-1] == frame


def frames_of(stream: str) -> Iterator[dict[str, Any]]:
    """The frames of a stream's text."""
    for part in stream.split("\n\n"):
        event: dict[str, str] = {}
        for line in part.split("\n") if part.strip() else ():
            key, colon, value = line.partition(":")
            if not colon:
                raise LostError(f"a line without a colon: {line!r}")
            if key.strip():
                event[key] = value
        if event:
            yield json.loads(event["data"])


def merged(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages, with each output in the place of its call and behind it."""
    shown: list[dict[str, Any]] = []
    for message in messages:
        if message["type"] not in (*CALLS, *OUTPUTS) or not message.get("content"):
            shown.append(message)
            continue
        key = _key(message)
        if message["type"] in CALLS:
            shown.append(message)
            continue
        places = [place for place, each in enumerate(shown) if each["type"] in CALLS and _key(each) == key]
        if not places:
            raise LostError(f"an output without its call: {message}")
        for place in places:
            shown[place] = {**message, "content": [*shown[place]["content"], message["content"][0]]}
    return shown


def _key(message: dict[str, Any]) -> str:
    if not message.get("content") or "data" not in message["content"][0]:
        raise LostError(f"a call or an output whose first content has no data: {message}")
    data = message["content"][0]["data"]
    return str(data.get("call_id") or data["name"])


def _shown(message: dict[str, Any]) -> Iterator[Shown]:
    kind, contents = message["type"], message.get("content") or []
    if kind == "error":
        yield "error", message.get("code"), message.get("message")
    elif kind == "reasoning":
        if len(contents) > 1:
            raise LostError(f"more than one content of reasoning: {message}")
        if message["status"] != "created" and contents:
            yield "reasoning", contents[0]["text"]
    elif kind == "message":
        for content in contents:
            yield _shown_content(content)
    elif kind in (*_CARDS, *CALLS, *OUTPUTS) and contents:
        call, output = contents[0]["data"], contents[1]["data"] if len(contents) > 1 else {}
        word = "question" if kind == "mcp_approval_request" else "call"
        yield word, call.get("server_label"), call["name"], call["arguments"], output.get("output")
    elif kind in ("mcp_list_tools", "heartbeat"):
        return


def _shown_content(content: dict[str, Any]) -> Shown:
    kind = content["type"]
    if kind in ("text", "refusal"):
        return kind, content[kind]
    value = {name: content[name] for name in sorted(content.keys() - _ENVELOPE)}
    return kind, json.dumps(value)


_ENVELOPE: Final = frozenset({"object", "type", "status", "index", "delta", "msg_id", "sequence_number"})
