"""Whatever is called on the builders, in whatever order: it gives the next frame, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.agent_api import (
    ContentBuilder,
    ContentType,
    DataContent,
    Event,
    Message,
    MessageBuilder,
    ResponseBuilder,
    TextContent,
)
from tests.word_samples import REPEATABLE

Call: TypeAlias = Callable[["Hands"], Event | None]
ENDS = ("completed", "failed", "canceled", "rejected", "incomplete")


class Hands:
    """The builders that there are so far."""

    def __init__(self) -> None:
        self.response = ResponseBuilder("session_1")
        self.messages: list[MessageBuilder] = []
        self.contents: list[ContentBuilder] = []

    def open_message(self) -> Event:
        self.messages.append(self.response.create_message_builder())
        return self.messages[-1].get_message_data()

    def open_content(self, which: int, kind: str, index: int | None) -> None:
        if self.messages:
            message = self.messages[which % len(self.messages)]
            self.contents.append(message.create_content_builder(kind, index))


def on_response(name: str, *args: Any) -> Call:
    return lambda hands: getattr(hands.response, name)(*args)


def on_message(which: int, name: str, *args: Any) -> Call:
    return lambda hands: getattr(hands.messages[which % len(hands.messages)], name)(*args) if hands.messages else None


def on_content(which: int, name: str, *args: Any) -> Call:
    return lambda hands: getattr(hands.contents[which % len(hands.contents)], name)(*args) if hands.contents else None


WHICH = st.integers(0, 3)
INDEXES = st.none() | st.integers(0, 2)
ON_CONTENT = st.sampled_from(
    [
        ("add_text_delta", "a"),
        ("add_delta", "b"),
        ("add_data_delta", {"a": "b"}),
        ("set_text", "c"),
        ("set_refusal", "no"),
        ("set_data", {"a": 1}),
        ("update_data", "a", [1]),
        ("set_image_url", "https://example.com/"),
        ("set_audio_data", "AAAA", "wav"),
        ("set_video_url", "https://example.com/"),
        ("set_file_id", "file_1"),
        ("complete",),
        ("canceled",),
        ("incomplete",),
    ]
)
ON_MESSAGE = st.sampled_from(
    [("in_progress",), ("complete",), ("failed", "code", "why"), ("canceled",), ("incomplete",)]
)
ON_RESPONSE = st.sampled_from(
    [("created",), ("in_progress",), ("completed",), ("failed", "code", "why"), ("canceled",), ("rejected",)]
)
GIVEN = st.builds(lambda index: TextContent(text="t", index=index), INDEXES) | st.builds(
    lambda index: DataContent(data={"a": 1}, index=index, delta=True), INDEXES
)
CALLS: st.SearchStrategy[Call] = st.one_of(
    st.builds(lambda call: on_response(*call), ON_RESPONSE),
    st.just(Hands.open_message),
    st.builds(lambda *args: lambda hands: hands.open_content(*args), WHICH, st.sampled_from([*ContentType]), INDEXES),
    st.builds(lambda which, call: on_message(which, *call), WHICH, ON_MESSAGE),
    st.builds(on_message, WHICH, st.sampled_from(["add_content", "add_delta_content"]), GIVEN),
    st.builds(on_message, WHICH, st.just("content_completed"), st.integers(0, 2)),
    st.builds(lambda which, call: on_content(which, *call), WHICH, ON_CONTENT),
    st.builds(lambda id: on_response("add_message", Message(id=id, content=[])), st.sampled_from(["m1", "m2"])),
)


@settings(REPEATABLE, max_examples=300)
@given(calls=st.lists(CALLS, max_size=25))
def test_every_call_gives_the_next_frame_or_an_error(calls: list[Call]) -> None:
    hands = Hands()
    frames: list[Event] = []
    texts: list[str] = []
    for call in calls:
        try:
            frame = call(hands)
        except ValueError:  # of which ProtocolStateError is one
            continue
        if frame is None:
            continue
        if frame in frames:  # what has ended repeats its frame
            assert frame.status in ENDS
            continue
        assert frame.sequence_number == len(frames)
        frames.append(frame)
        texts.append(frame.model_dump_json())
    assert [frame.model_dump_json() for frame in frames] == texts, "no frame changes"
    ended = [place for place, frame in enumerate(frames) if frame.object == "response" and frame.status in ENDS]
    assert ended in ([], [len(frames) - 1]), "a response ends once, with its last frame"
