"""An answer that was cut off and taken back is in no protocol's answer, whatever of it was shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pytest

from gateway.agent_api.output import ResponseForm as AgentApiForm
from gateway.agent_api.renderer import ResponseRenderer
from gateway.event_order import Sealer
from gateway.events import (
    Completed,
    Event,
    Events,
    MediaGiven,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningStarted,
    RunFinished,
    RunStarted,
    RunTakenOver,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    TurnRetracted,
)
from gateway.messages import Base64Source, ImageBlock, JsonValue, ToolCall
from gateway.openai_api.chat_renderer import ChatChunks, ChatCompletion, ChatForm
from gateway.openai_api.responses_renderer import ResponseBody
from gateway.openai_api.responses_resource import ResponseForm
from gateway.transcript import Transcript
from tests.a2a_frames import begun
from tests.case_tools import PIXEL

ASKED: Final = ModelCallStarted("turn_2", "p", "m")
OPENING: Final[Sequence[Event]] = (RunStarted("t", "resp_r"),)
ANSWER: Final[Sequence[Event]] = (
    ASKED,
    TextStarted("m_2"),
    TextDelta("m_2", "It is so."),
    TextEnded("m_2"),
    ToolCallStarted("c_2", "pick", "m_2", executor="client"),
    ToolCallDelta("c_2", "{}"),
    ToolCallEnded("c_2"),
    ModelCallEnded(StopReason.TOOL_CALLS),
    RunFinished(Completed((ToolCall("c_2", "pick", "{}"),))),
)


def cut_off(*said: Event, messages: Sequence[str] = (), calls: Sequence[str] = ()) -> Events:
    """The events of a run whose first answer was cut off after these."""
    taken_back = TurnRetracted("turn_1", tuple(messages), tuple(calls))
    events = [*OPENING, ModelCallStarted("turn_1", "p", "m"), *said, RunTakenOver(), taken_back, *ANSWER]
    return Sealer().follow(events)


WORDS: Final = (TextStarted("m_1"), TextDelta("m_1", "It i"))
THOUGHTS: Final = (ReasoningStarted("r_1"), ReasoningDelta("r_1", "Hm"))
PICTURE: Final = MediaGiven("p_1", ImageBlock(Base64Source(PIXEL, "image/png")))
CUT_OFF: Final[Mapping[str, Events]] = {
    "nothing": cut_off(),
    "words": cut_off(*WORDS, messages=["m_1"]),
    "whole words": cut_off(*WORDS, TextEnded("m_1"), messages=["m_1"]),
    "thoughts": cut_off(*THOUGHTS, messages=["r_1"]),
    "a picture": cut_off(*WORDS, TextEnded("m_1"), PICTURE, messages=["m_1", "p_1"]),
    "a backend call": cut_off(
        ToolCallStarted("c_1", "pay", "m_1", executor="backend"), ToolCallDelta("c_1", '{"a'), calls=["c_1"]
    ),
    "a whole backend call": cut_off(
        *WORDS,
        TextEnded("m_1"),
        ToolCallStarted("c_1", "pay", "m_1", executor="backend"),
        ToolCallDelta("c_1", "{}"),
        ToolCallEnded("c_1"),
        messages=["m_1"],
        calls=["c_1"],
    ),
    "a call of the client's": cut_off(
        *WORDS,
        TextEnded("m_1"),
        ToolCallStarted("c_1", "pick", "m_1", executor="client"),
        ToolCallDelta("c_1", "{"),
        messages=["m_1"],
        calls=["c_1"],
    ),
}
UNCUT: Final[Events] = [*OPENING, *ANSWER]


def responses(events: Events) -> JsonValue:
    body = ResponseBody(ResponseForm("resp_r", "t", "assistant", 1_700_000_000))
    body.render(events, 1)
    return body.final()


def chat(events: Events) -> JsonValue:
    body = ChatCompletion(ChatForm("chatcmpl-r", 1_700_000_000, "assistant"))
    body.render(events, 1)
    return body.final()


def task(events: Events) -> JsonValue:
    fold = begun()
    fold.follow(events)
    return fold.task()


def messages(events: Events) -> JsonValue:
    transcript = Transcript()
    transcript.follow(events)
    return f"{transcript.messages} {transcript.closed_messages()}"


ANSWERS: Final[Sequence[Callable[[Events], JsonValue]]] = (responses, chat, task, messages)


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("events", CUT_OFF.values(), ids=CUT_OFF)
def test_the_whole_answer_is_that_of_a_run_that_was_not_cut_off(
    answer: Callable[[Events], JsonValue], events: Events
) -> None:
    assert answer(events) == answer(UNCUT)


@pytest.mark.parametrize("events", CUT_OFF.values(), ids=CUT_OFF)
def test_the_agent_api_shows_canceled_contents_without_words(events: Events) -> None:
    body = ResponseRenderer(AgentApiForm("resp_r", "t", 1_700_000_000), ended_at=lambda: 1_700_000_001)
    body.render(events, 1)
    final = body.final()
    assert final["status"] == "completed"
    shown = final["output"]
    assert isinstance(shown, list)
    said = [content for message in shown if isinstance(message, dict) for content in (message["content"] or [])]  # type: ignore[union-attr]
    texts = [content["text"] for content in said if isinstance(content, dict) and content["type"] == "text"]
    assert [text for text in texts if text] == ["It is so."]


def test_a_stream_of_chat_completions_fails_if_a_call_that_it_wrote_was_taken_back() -> None:
    chunks = ChatChunks(ChatForm("chatcmpl-r", 1_700_000_000, "assistant"))
    *_, error, done = chunks.render(CUT_OFF["a call of the client's"], 1)
    assert b'"server_restarted"' in error
    assert done == b"data: [DONE]\n\n"


def test_a_stream_of_chat_completions_marks_words_that_were_taken_back() -> None:
    chunks = ChatChunks(ChatForm("chatcmpl-r", 1_700_000_000, "assistant"))
    frames = b"".join(chunks.render(CUT_OFF["words"], 1))
    assert frames.index(b'"It i"') < frames.index(b"was taken back") < frames.index(b"It is so.")
