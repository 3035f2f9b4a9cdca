"""A stream of the Agent API, read as a strict client reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from gateway.agent_api.deltas import VALUES
from gateway.agent_api.output import ResponseForm
from gateway.agent_api.renderer import ResponseRenderer
from gateway.events import Event
from tests.stock_ui import BUILDS, transcript_of

FORM = ResponseForm("response_1", "session_1", 7)
ENDED_AT = 9.9
TERMINAL = ("completed", "incomplete", "failed", "canceled", "rejected")


def read_frame(frame: bytes) -> Any:
    """One frame, which has nothing but its data."""
    text = frame.decode()
    assert text.startswith("data: {")
    assert text.endswith("}\n\n")
    assert text.splitlines() == [text[:-2], ""], "whatever a reader takes for the end of a line"
    return json.loads(text.removeprefix("data: "))


def renderer_of(form: ResponseForm = FORM, **settings: Any) -> ResponseRenderer:
    return ResponseRenderer(form, ended_at=lambda: ENDED_AT, **settings)


def rendered(
    events: Sequence[Event], form: ResponseForm = FORM, *, cuts: Iterable[int] = (), **settings: Any
) -> tuple[list[Any], ResponseRenderer]:
    """The frames of a run whose events come in batches that begin at 0 and at `cuts`."""
    renderer = renderer_of(form, **settings)
    places = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    frames: list[bytes] = []
    for begin, end in pairwise(places):
        frames += renderer.render(events[begin:end], begin + 1)
    assert renderer.frames == len(frames)
    return [read_frame(frame) for frame in frames], renderer


class StrictClient:
    """Follows a response frame by frame, and refuses what the protocol does not say.

    `messages` are those that were announced, by id, each with its contents; a content is whole once it is completed.
    """

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}
        self._open_message = self._open_content = ""
        self._shown: dict[str, Any] = {}  # of the open content

    def follow(self, frames: Sequence[Any]) -> dict[str, Any]:
        """The response that a whole stream ends with."""
        for number, frame in enumerate(frames):
            assert frame["sequence_number"] == number
            assert None not in frame.values()
            assert self._response.get("status") not in TERMINAL, "nothing follows the end"
            getattr(self, f"_follow_{frame['object']}")({**frame})
        assert self._response["status"] in TERMINAL
        assert not self._open_message
        return self._response

    def _follow_response(self, frame: dict[str, Any]) -> None:
        before = self._response.get("status", "")
        assert (before, frame["status"]) in {("", "created"), ("created", "in_progress")} or before == "in_progress"
        for member in ("id", "created_at", "session_id", "metadata"):
            assert not before or frame.get(member) == self._response.get(member)
        self._response = frame
        if frame["status"] in TERMINAL:
            assert frame["completed_at"] >= frame["created_at"]
            assert frame["output"] == [*self.messages.values()]
        else:
            assert frame["output"] == []

    def _follow_message(self, frame: dict[str, Any]) -> None:
        del frame["sequence_number"]
        if frame["status"] == "created":
            assert not self._open_message, "messages come one after the other"
            assert frame["id"] not in self.messages
            assert "content" not in frame
            self._open_message = frame["id"]
            self.messages[frame["id"]] = {**frame, "content": []}
            return
        if frame["status"] == "in_progress":
            assert self.messages[frame["id"]] == {**frame, "status": "created", "content": []}, "its second frame"
            self.messages[frame["id"]]["status"] = "in_progress"
            return
        if frame["type"] == "error":
            assert frame["id"] not in self.messages
        elif frame["id"] == self._open_message:
            assert not self._open_content
            assert frame["content"] == self.messages[frame["id"]]["content"] or frame["status"] == "completed"
            self._open_message = ""
        else:
            assert self.messages[frame["id"]]["status"] not in ("created", "in_progress"), "it comes again"
        self.messages[frame["id"]] = frame

    def _follow_content(self, frame: dict[str, Any]) -> None:
        del frame["sequence_number"]
        assert frame["msg_id"] == self._open_message, "a content belongs to the message that is open"
        contents = self.messages[self._open_message]["content"]
        if not self._open_content:
            assert frame["index"] == len(contents), "contents come one after the other"
            assert frame["index"] == 0 or frame["delta"], "clients put it onto the one before it else"
            self._open_content, self._shown = frame["type"], {}
        assert frame["index"] == len(contents)
        value = {name: frame[name] for name in VALUES[frame["type"]] if name in frame}
        if frame["delta"] and frame["type"] in ("text", "refusal"):
            value = {frame["type"]: self._shown.get(frame["type"], "") + frame[frame["type"]]}
        self._shown = value
        if frame["status"] != "in_progress":
            assert frame["delta"] is False
            contents.append(frame)
            self._open_content = ""


def checked(frames: Sequence[Any]) -> dict[str, Any]:
    """The response of a whole stream that a strict client accepts, and that every build of the stock UI shows."""
    for build in BUILDS:
        transcript_of(frames, build)
    return StrictClient().follow(frames)
