"""Whatever the gateway says of a run, the builder says in the same frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent_api import AgentResponse, ContentBuilder, Event, Message, MessageBuilder, ResponseBuilder
from gateway.agent_api_builder.schemas import read_content
from gateway.events import (
    Cancelled,
    Completed,
    Events,
    Incomplete,
    MessageRetracted,
    RunFailed,
    RunFinished,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallEnded,
    ToolCallStarted,
)
from tests.agent_api_frames import FORM, rendered
from tests.event_samples import START, batches, batches_of_a_run, run, whose
from tests.word_samples import REPEATABLE


class Retelling:
    """Says with the builder what the gateway's frames say. `ids` are the gateway's ids of the builder's messages."""

    def __init__(self) -> None:
        self._response = ResponseBuilder(FORM.thread_id, FORM.run_id)
        self._messages: dict[str, MessageBuilder] = {}
        self._content: ContentBuilder | None = None
        self.ids: dict[str, str] = {}

    def say(self, frame: Mapping[str, Any]) -> Event:
        match frame["object"]:
            case "response":
                return self._say_response(frame)
            case "message":
                return self._say_message(frame)
            case _:
                return self._say_content(frame)

    def _say_response(self, frame: Mapping[str, Any]) -> Event:
        status = frame["status"]
        if status in ("created", "in_progress"):
            told: Event = getattr(self._response, status)()
            return told
        said = {name: frame[name] for name in ("usage", "completed_at", "incomplete_details") if name in frame}
        if status == "failed":
            return self._response.failed(**frame["error"], **said)
        ended: Event = getattr(self._response, status)(**said)
        return ended

    def _say_message(self, frame: Mapping[str, Any]) -> Event:
        known = self._messages.get(frame["id"])
        if known is None and frame["status"] != "created":  # an error: it is whole at once
            told = self._response.add_message(Message.model_validate({**frame, "id": "msg_error"}))
            self.ids["msg_error"] = frame["id"]
            return told
        if known is None:
            known = self._messages[frame["id"]] = self._response.create_message_builder(frame["role"], frame["type"])
            self.ids[known.message_id] = frame["id"]
            return known.get_message_data()
        if known.get_message_data().status == "completed":  # something of it was taken back
            return self._response.update_message(Message.model_validate({**frame, "id": known.message_id}))
        self._content = None
        if frame["status"] == "in_progress":
            return known.in_progress()
        end = {"completed": known.complete, "incomplete": known.incomplete, "canceled": known.canceled}
        return end[frame["status"]]()

    def _say_content(self, frame: Mapping[str, Any]) -> Event:
        message = self._messages[frame["msg_id"]]
        if self._content is None or self._content.index != frame["index"]:
            self._content = message.create_content_builder(frame["type"])
        content = self._content
        if frame["status"] == "in_progress":
            return self._say_value(content, frame)
        whole = read_content({**frame, "msg_id": message.message_id, "sequence_number": None})
        if content.get_content_data().model_copy(update={"status": frame["status"]}) != whole:
            return message.add_content(whole)  # the gateway has not shown all of it before
        end = {"completed": content.complete, "incomplete": content.incomplete, "canceled": content.canceled}
        return end[frame["status"]]()

    def _say_value(self, content: ContentBuilder, frame: Mapping[str, Any]) -> Event:
        match frame["type"]:
            case "text" | "refusal":
                return content.add_delta(frame[frame["type"]])
            case "data":
                return content.set_data(frame["data"])
            case "image":
                return content.set_image_url(frame["image_url"])
            case kind:
                raise AssertionError(f"no sample of {kind}")


def told(events: Sequence[Any]) -> None:
    """Check that the builder tells of a run what the gateway tells."""
    frames, _ = rendered(events)
    retelling = Retelling()
    said = [retelling.say(frame).model_dump(exclude_none=True) for frame in frames]
    for expected, frame in zip(frames, said, strict=True):
        if frame["object"] == "response":
            frame["created_at"] = expected["created_at"]
        assert renamed(frame, retelling.ids) == expected


def renamed(value: Any, ids: Mapping[str, str]) -> Any:
    """A frame with the gateway's ids of messages."""
    if isinstance(value, dict):
        return {name: renamed(each, ids) for name, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, ids) for each in value]
    return ids.get(value, value) if isinstance(value, str) else value


@settings(REPEATABLE)
@given(said=batches_of_a_run, owners=whose, waits=st.booleans())
def test_the_builder_says_every_run_in_the_gateways_frames(
    said: list[Events], owners: dict[str, Any], waits: bool
) -> None:
    told(run(said, owners, waits=waits))


@settings(REPEATABLE)
@given(said=batches, owners=whose, waits=st.booleans())
def test_the_models_read_every_frame_and_lose_nothing(said: list[Events], owners: dict[str, Any], waits: bool) -> None:
    frames, _ = rendered(run(said, owners, waits=waits))
    read: Mapping[str, Callable[[Any], Event]] = {
        "response": AgentResponse.model_validate,
        "message": Message.model_validate,
        "content": read_content,
    }
    for frame in frames:
        assert read[frame["object"]](frame).model_dump(exclude_none=True) == frame


def test_the_builder_says_what_was_taken_back_in_the_gateways_frames() -> None:
    words = [TextStarted("m"), TextDelta("m", "A secret."), TextEnded("m")]
    call = [ToolCallStarted("c", "tool", "n", executor="backend"), ToolCallEnded("c")]
    told([START, *words, *call, MessageRetracted("m", "No."), RunFinished(Completed())])


@pytest.mark.parametrize(
    "end",
    [
        RunFinished(Cancelled()),
        RunFinished(Incomplete(StopReason.MAX_TOKENS)),
        RunFailed("model_timeout", "It took too long."),
    ],
)
def test_the_builder_says_how_a_run_breaks_off_in_the_gateways_frames(end: RunFinished | RunFailed) -> None:
    told([START, TextStarted("m"), TextDelta("m", "part"), TextEnded("m"), end])
