"""Scripts of runs as responses of the Agent API: which messages they show, in which frames, and how they end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.agent_api.output import ResponseForm
from gateway.events import (
    Cancelled,
    Completed,
    Custom,
    Event,
    Incomplete,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    Usage,
    UsageReported,
)
from gateway.messages import (
    AudioBlock,
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    MediaBlock,
    TextBlock,
    ToolCall,
    UrlSource,
    VideoBlock,
)
from gateway.protocol.earlier_calls import EarlierCall
from tests.agent_api_frames import FORM, checked, rendered
from tests.pieces import erased
from tests.said_events import CALLS, ENDS, FINISHED, SAYS, START, USED, call, gives, interrupt

THINKS: list[Event] = [ReasoningStarted("r1"), ReasoningDelta("r1", "hm"), ReasoningEnded("r1")]
PIXEL = ImageBlock(Base64Source("aGk=", "image/png"))


def shown(*events: Event, form: ResponseForm = FORM, **settings: Any) -> tuple[list[str], Any]:
    """What each frame is, and the response; stream and body are the same."""
    frames, renderer = rendered([*START, *events], form, **settings)
    response = checked(frames)
    assert renderer.final() == response
    assert len(rendered([*START, *events], form, cuts=range(len(events)), **settings)[0]) == len(frames)
    return [_name(frame) for frame in frames], response


def _name(frame: Any) -> str:
    kind = frame["object"] if frame["object"] == "response" else frame["type"]
    return f"{kind} {'delta' if frame.get('delta') else frame['status']}"


def output(*events: Event, form: ResponseForm = FORM, **settings: Any) -> list[Any]:
    messages: list[Any] = shown(*events, form=form, **settings)[1]["output"]
    return messages


def kinds(messages: list[Any]) -> list[str]:
    return [message["type"] for message in messages]


def data(message: Any) -> Any:
    (content,) = message["content"]
    return content["data"]


def said(messages: list[Any]) -> list[str]:
    return [content.get("text") for message in messages for content in message["content"]]


# --- words


def test_a_text_is_a_message_with_deltas_and_then_all_of_it() -> None:
    frames, response = shown(*SAYS, ENDS, FINISHED)
    assert frames == [
        "response created",
        "response in_progress",
        "message created",
        "text delta",
        "text delta",
        "text completed",
        "message completed",
        "response completed",
    ]
    (message,) = response["output"]
    assert message == {
        "object": "message",
        "status": "completed",
        "id": "msg_response_1_0",
        "type": "message",
        "role": "assistant",
        "content": [
            {
                "object": "content",
                "status": "completed",
                "type": "text",
                "index": 0,
                "delta": False,
                "msg_id": "msg_response_1_0",
                "text": "Hello",
            }
        ],
    }
    assert (response["id"], response["session_id"], response["created_at"]) == ("response_1", "session_1", 7)
    assert (response["status"], response["completed_at"]) == ("completed", 9)
    assert response["usage"] == {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}


def test_a_run_that_says_nothing_has_an_empty_output() -> None:
    assert shown(ENDS, RunFinished(Completed())) == (
        ["response created", "response in_progress", "response completed"],
        {
            "sequence_number": 2,
            "object": "response",
            "status": "completed",
            "id": "response_1",
            "created_at": 7,
            "session_id": "session_1",
            "output": [],
            "completed_at": 9,
        },
    )


def test_texts_without_words_are_not_shown() -> None:
    silent: list[Event] = [TextStarted("m1"), TextEnded("m1"), ReasoningStarted("r1"), ReasoningEnded("r1")]
    assert output(*silent, MessageRetracted("m1", "No."), ENDS, FINISHED) == []


def test_reasoning_is_a_message_that_is_closed_before_the_answer_opens() -> None:
    frames, response = shown(*THINKS, *SAYS, ENDS, FINISHED)
    assert frames[2:7] == [
        "reasoning created",
        "reasoning in_progress",
        "text delta",
        "text completed",
        "reasoning completed",
    ]
    assert kinds(response["output"]) == ["reasoning", "message"]
    assert said(response["output"]) == ["hm", "Hello"]


def test_what_comes_meanwhile_waits_until_the_open_message_has_ended() -> None:
    frames, response = shown(
        TextStarted("m1"),
        TextDelta("m1", "a"),
        ReasoningStarted("r1"),
        ReasoningDelta("r1", "x"),
        TextDelta("m1", "b"),
        ReasoningDelta("r1", "y"),
        *call("look"),
        TextDelta("m1", "c"),
        TextEnded("m1"),
        ReasoningDelta("r1", "z"),
        ReasoningDelta("r1", "!"),
        ReasoningEnded("r1"),
        CALLS,
        gives("look"),
        FINISHED,
    )
    assert kinds(response["output"]) == ["message", "reasoning", "plugin_call", "plugin_call_output"]
    assert said(response["output"])[:2] == ["abc", "xyz!"]
    assert frames.count("text delta") == 5, "what waited comes at once, and what follows as it comes"


def test_texts_refusals_and_media_of_one_model_call_are_the_contents_of_one_message() -> None:
    refuses: list[Event] = [TextStarted("m2", refusal=True), TextDelta("m2", "No."), TextEnded("m2")]
    frames, response = shown(*SAYS, MediaGiven("i1", PIXEL), *refuses, ENDS, FINISHED)
    (message,) = response["output"]
    assert [(each["type"], each["index"]) for each in message["content"]] == [("text", 0), ("image", 1), ("refusal", 2)]
    assert message["content"][1]["image_url"] == "data:image/png;base64,aGk="
    assert message["content"][2]["refusal"] == "No."
    assert frames[5:9] == ["text completed", "image delta", "image completed", "refusal delta"]


def test_texts_of_two_model_calls_are_two_messages() -> None:
    again: list[Event] = [ModelCallStarted("turn 2", "p", "m"), TextStarted("m2"), TextDelta("m2", "!")]
    messages = output(*SAYS, ENDS, *again, TextEnded("m2"), ENDS, FINISHED)
    assert said(messages) == ["Hello", "!"]
    assert [message["id"] for message in messages] == ["msg_response_1_0", "msg_response_1_1"]


def test_a_text_that_waited_for_one_of_an_earlier_model_call_is_another_message() -> None:
    again: list[Event] = [ModelCallStarted("turn 2", "p", "m"), TextStarted("m2"), TextDelta("m2", "!")]
    ends: list[Event] = [TextEnded("m1"), TextEnded("m2"), ENDS]
    assert [said([message]) for message in output(*SAYS[:3], ENDS, *again, *ends, FINISHED)] == [["Hello"], ["!"]]


def test_a_text_behind_a_call_is_another_message() -> None:
    later: list[Event] = [TextStarted("m2"), TextDelta("m2", "!"), TextEnded("m2")]
    messages = output(*SAYS, *call("look"), *later, CALLS, gives("look"), FINISHED)
    assert kinds(messages) == ["message", "plugin_call", "message", "plugin_call_output"]


def test_words_of_others_are_not_shown() -> None:
    others: list[Event] = [TextStarted("u1", "user"), TextDelta("u1", "Hi"), TextEnded("u1")]
    assert said(output(*others, *SAYS, ENDS, FINISHED)) == ["Hello"]


@pytest.mark.parametrize(
    ("block", "content"),
    [
        (ImageBlock(UrlSource("https://x.example/a.png")), {"type": "image", "image_url": "https://x.example/a.png"}),
        (
            AudioBlock(Base64Source("aGk=", "audio/mpeg")),
            {"type": "audio", "data": "aGk=", "format": "mp3"},
        ),
        (AudioBlock(UrlSource("https://x.example/a")), {"type": "audio", "data": "https://x.example/a"}),
        (VideoBlock(Base64Source("aGk=", "video/mp4")), {"type": "video", "video_url": "data:video/mp4;base64,aGk="}),
        (
            DocumentBlock(Base64Source("aGk=", "application/pdf"), "a.pdf"),
            {"type": "file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
        ),
        (DocumentBlock(UrlSource("https://x.example/a")), {"type": "file", "file_url": "https://x.example/a"}),
        (ImageBlock(FileSource("file-1")), {"type": "file", "file_id": "file-1"}),
    ],
)
def test_a_medium_is_a_content_that_is_completed(block: MediaBlock, content: dict[str, str]) -> None:
    frames, response = shown(MediaGiven("i1", block), ENDS, FINISHED)
    kind = content["type"]
    assert frames[2:6] == ["message created", f"{kind} in_progress", f"{kind} completed", "message completed"]
    place = {"object": "content", "status": "completed", "index": 0, "delta": False, "msg_id": "msg_response_1_0"}
    assert response["output"][0]["content"] == [{**place, **content}]


# --- tools


def test_a_backend_tool_is_a_call_and_its_output() -> None:
    frames, response = shown(*SAYS, *call("look"), CALLS, gives("look"), FINISHED)
    assert frames[6:16] == [
        "message completed",
        "plugin_call created",
        "plugin_call in_progress",
        "data in_progress",
        "data in_progress",
        "data completed",
        "plugin_call completed",
        "plugin_call_output created",
        "data completed",
        "plugin_call_output completed",
    ]
    _, called, returned = response["output"]
    assert (called["role"], returned["role"]) == ("assistant", "tool")
    assert data(called) == {"call_id": "look", "name": "look", "arguments": '{"a":1}'}
    assert data(returned) == {"call_id": "look", "name": "look", "output": "42"}


def test_a_tool_of_an_mcp_server_says_which() -> None:
    messages = output(*call("look", server="files"), CALLS, gives("look"), FINISHED)
    assert kinds(messages) == ["mcp_call", "mcp_call_output"]
    assert [data(message)["server_label"] for message in messages] == ["files", "files"]


def test_arguments_are_shown_again_once_they_are_twice_as_long() -> None:
    pieces: list[Event] = [ToolCallDelta("look", "x") for _ in range(100)]
    started = ToolCallStarted("look", "look", "m1", executor="backend")
    frames, _ = rendered([*START, started, *pieces, ToolCallEnded("look"), CALLS, FINISHED])
    snapshots = [frame["data"]["arguments"] for frame in frames if frame["object"] == "content"]
    assert [len(each) for each in snapshots] == [0, 1, 2, 4, 8, 16, 32, 64, 100]
    assert all(frame["delta"] is False for frame in frames if frame["object"] == "content")


def test_a_call_without_arguments_has_an_empty_object() -> None:
    assert [data(output(*call("look", each), CALLS, FINISHED)[0])["arguments"] for each in ("", "null")] == ["{}", "{}"]


def test_a_tool_that_fails_says_so() -> None:
    returned = output(*call("look"), CALLS, gives("look", "broken", is_error=True), FINISHED)[1]
    assert data(returned) == {"call_id": "look", "name": "look", "output": "broken", "is_error": True}


def test_a_result_with_media_is_the_json_of_its_contents() -> None:
    result = ToolReturned("x", "look", (TextBlock("See:"), PIXEL))
    returned = output(*call("look"), CALLS, result, FINISHED)[1]
    assert orjson.loads(data(returned)["output"]) == [
        {"type": "text", "text": "See:"},
        {"type": "image", "image_url": "data:image/png;base64,aGk="},
    ]


def test_tools_may_be_hidden() -> None:
    form = replace(FORM, backend_tools="hidden")
    assert kinds(output(*call("look"), CALLS, gives("look"), *SAYS, ENDS, FINISHED, form=form)) == ["message"]


def test_calls_that_take_turns_are_shown_one_after_the_other() -> None:
    mixed: list[Event] = [ToolCallDelta(name, piece) for piece in ("1", "2", "3") for name in ("a", "b")]
    begun: list[Event] = [ToolCallStarted(name, name, "m1", executor="backend") for name in ("a", "b")]
    messages = output(*begun, *mixed, *mixed[::2], ToolCallEnded("b"), ToolCallEnded("a"), CALLS, FINISHED)
    assert [data(message)["arguments"] for message in messages] == ["123123", "123"]


def test_a_clients_call_is_shown_once_it_is_pending_behind_everything_else() -> None:
    end = RunFinished(Completed((ToolCall("pick", "pick", ""),)), USED)
    frames, response = shown(*call("pick", executor="client"), *call("look"), CALLS, gives("look"), end)
    assert frames[-4:] == [
        "function_call created",
        "data completed",
        "function_call completed",
        "response completed",
    ]
    assert kinds(response["output"]) == ["plugin_call", "plugin_call_output", "function_call"]
    assert data(response["output"][-1]) == {"call_id": "pick", "name": "pick", "arguments": "{}"}


def test_a_clients_call_that_the_gateway_refused_is_not_shown() -> None:
    assert output(*call("pick", executor="client"), CALLS, gives("pick", is_error=True), FINISHED) == []


def test_a_question_is_shown_in_place_of_its_call() -> None:
    outcome = Interrupted((interrupt("refund"),), (ToolCall("pick", "pick", "{}"),))
    asks = call("refund", asks=True, server="shop")
    messages = output(*asks, *call("pick", executor="client"), CALLS, RunFinished(outcome))
    assert kinds(messages) == ["function_call", "mcp_approval_request"]
    assert data(messages[-1]) == {
        "id": "int-refund",
        "call_id": "refund",
        "name": "refund",
        "arguments": '{"a":1}',
        "server_label": "shop",
    }


def test_a_question_about_a_tool_of_the_gateways_own_has_a_server_label_too() -> None:
    (message,) = output(*call("refund", asks=True), CALLS, RunFinished(Interrupted((interrupt("refund"),))))
    assert data(message)["server_label"] == "gateway"


def test_a_question_about_no_call_is_a_message() -> None:
    assert said(output(ENDS, RunFinished(Interrupted((interrupt(None),))))) == ["May it run?"]


def test_a_call_of_an_earlier_run_is_shown_with_its_output() -> None:
    form = replace(FORM, earlier=(EarlierCall("refund", "refund", '{"b":2}', "shop"),))
    called, returned = output(gives("refund"), FINISHED, form=form)
    assert (called["type"], data(called)["arguments"]) == ("mcp_call", '{"b":2}')
    assert (returned["type"], data(returned)["output"]) == ("mcp_call_output", "42")


def test_a_question_that_stays_open_is_asked_again() -> None:
    form = replace(FORM, earlier=(EarlierCall("refund", "refund", '{"b":2}'),))
    (message,) = output(RunFinished(Interrupted((interrupt("refund"),))), form=form)
    assert data(message)["arguments"] == '{"b":2}'


def test_a_call_that_was_to_be_asked_about_and_failed_before_is_shown_with_its_error() -> None:
    called, returned = output(*call("refund", asks=True), CALLS, gives("refund", "bad", is_error=True), FINISHED)
    assert (called["type"], data(called)["arguments"]) == ("plugin_call", '{"a":1}')
    assert data(returned)["is_error"] is True


def test_a_session_begins_with_the_tools_of_its_mcp_servers() -> None:
    tools: Any = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
    form = replace(FORM, list_tools=({"server_label": "files", "tools": tools}, {"server_label": "web", "tools": []}))
    frames, response = shown(*SAYS, ENDS, FINISHED, form=form)
    assert frames[2:5] == ["mcp_list_tools created", "data completed", "mcp_list_tools completed"]
    listed, other, message = response["output"]
    assert data(listed) == {"id": listed["id"], "server_label": "files", "tools": tools}
    assert data(other) == {"id": other["id"], "server_label": "web", "tools": []}
    assert message["id"] == "msg_response_1_2"


# --- ends


@pytest.mark.parametrize("reason", [StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER])
def test_an_answer_that_is_cut_off_is_an_incomplete_message_of_a_completed_response(reason: StopReason) -> None:
    between: list[Event] = [Raw({"trace": 1}), UsageReported(USED[0]), Custom("usage", 1)]
    frames, response = shown(*THINKS, *SAYS, *between, ModelCallEnded(reason), RunFinished(Incomplete(reason)))
    assert frames[-3:] == ["text completed", "message incomplete", "response completed"]
    assert response["incomplete_details"] == {"reason": reason.value}
    assert [message["status"] for message in response["output"]] == ["completed", "incomplete"]


def test_a_run_that_may_not_ask_its_model_again_says_why_it_ended() -> None:
    end = RunFinished(Incomplete(StopReason.MAX_ITERATIONS))
    _, response = shown(*SAYS, ENDS, end)
    assert response["incomplete_details"] == {"reason": "max_iterations"}
    assert response["output"][0]["status"] == "completed"


def test_a_failure_ends_what_is_open_and_is_told_by_a_message_and_by_the_response() -> None:
    frames, response = shown(*SAYS, RunFailed("model_throttled", "the provider said: slow down", USED))
    assert frames[-4:] == ["text incomplete", "message incomplete", "error failed", "response failed"]
    error = {"code": "model_throttled", "message": "the provider said: slow down"}
    assert response["error"] == {**error, "retryable": True}
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert response["output"][1] == {
        "object": "message",
        "status": "failed",
        "id": "msg_response_1_1",
        "type": "error",
        "role": "assistant",
        "content": [],
        **error,
    }
    assert response["usage"]["total_tokens"] == 3


def test_a_failure_cuts_off_all_that_was_under_way() -> None:
    thinks: list[Event] = [ReasoningStarted("r1"), ReasoningDelta("r1", "hm")]
    messages = output(*SAYS[:3], *thinks, TextEnded("m1"), ReasoningEnded("r1"), RunFailed("code", "message"))
    assert [message["status"] for message in messages] == ["incomplete", "incomplete", "failed"]


def test_strangers_are_not_told_why_a_model_failed() -> None:
    _, response = shown(RunFailed("model_auth", "the key sk-1 is wrong"), to_operator=False)
    assert "sk-1" not in str(response)


def test_a_run_that_fails_before_it_starts_is_a_whole_stream() -> None:
    frames, _ = rendered([RunFailed("store_unavailable", "not now")])
    assert [_name(frame) for frame in frames] == [
        "response created",
        "response in_progress",
        "error failed",
        "response failed",
    ]
    checked(frames)


def test_a_cancelled_run_cancels_what_is_open_and_keeps_what_was_said() -> None:
    frames, response = shown(*call("look"), *SAYS, RunFinished(Cancelled()))
    assert frames[-3:] == ["text canceled", "message canceled", "response canceled"]
    assert [message["status"] for message in response["output"]] == ["completed", "canceled"]
    assert said(response["output"])[-1] == "Hello"


def test_a_response_never_ends_before_it_began() -> None:
    _, renderer = rendered([*START, FINISHED], replace(FORM, created_at=100))
    assert renderer.final()["completed_at"] == 100


def test_usage_says_what_is_known() -> None:
    several = (Usage("p", "m", 1, 2), Usage("p", "n", 3, 4))
    assert shown(RunFinished(Completed(), several))[1]["usage"]["total_tokens"] == 10
    assert shown(RunFinished(Completed(), (Usage("p", "m", 1),)))[1]["usage"] == {"input_tokens": 1}
    assert "usage" not in shown(RunFinished(Completed(), (Usage("p", "m"),)))[1]


def test_warnings_are_in_each_frame_of_the_response() -> None:
    frames, _ = rendered([*START, FINISHED], replace(FORM, warnings=("n is 1",)))
    assert [frame["metadata"] for frame in frames] == [{"warnings": ["n is 1"]}] * 3


# --- what is taken back


def test_words_taken_back_at_once_are_not_in_the_completed_content() -> None:
    frames, response = shown(*SAYS, MessageRetracted("m1", "[removed]"), ENDS, FINISHED)
    assert frames.count("message completed") == 1
    assert said(response["output"]) == ["[removed]"]


def test_words_taken_back_later_come_again_with_their_message() -> None:
    frames, response = shown(*THINKS, *SAYS, ENDS, MessageRetracted("m1", "[removed]"), FINISHED)
    assert frames[-3:] == ["message completed", "message completed", "response completed"]
    assert said(response["output"]) == ["hm", "[removed]"]
    assert said(output(*THINKS, *SAYS, MessageRetracted("r1", ""), ENDS, FINISHED)) == ["", "Hello"]


def test_words_taken_back_while_their_message_is_open_are_not_in_its_end() -> None:
    later: list[Event] = [TextStarted("m2"), TextDelta("m2", "!")]
    retracted = MessageRetracted("m1", "[removed]")
    frames, response = shown(*SAYS, *later, retracted, TextEnded("m2"), ENDS, FINISHED)
    assert frames.count("message completed") == 1
    assert said(response["output"]) == ["[removed]", "!"]


def test_words_taken_back_before_they_are_shown_never_are() -> None:
    waits: list[Event] = [ReasoningStarted("r1"), ReasoningDelta("r1", "a secret"), ReasoningEnded("r1")]
    waits += [MessageRetracted("r1", "[removed]"), MediaGiven("i1", PIXEL), MessageRetracted("i1", "[gone]")]
    frames, renderer = rendered([*START, *SAYS[:2], *waits, TextEnded("m1"), ENDS, FINISHED])
    checked(frames)
    assert "a secret" not in str(frames)
    assert "aGk=" not in str(frames)
    response: Any = renderer.final()
    assert said(response["output"]) == ["Hel", "[removed]", "[gone]"]


@pytest.mark.parametrize("waits", [True, False])
def test_a_medium_that_was_taken_back_becomes_what_replaces_it(waits: bool) -> None:
    before = ENDS if waits else Raw({})
    given = [*START, MediaGiven("i1", PIXEL), before, MessageRetracted("i1", "No."), FINISHED]
    erased = [*START, MediaGiven("i1", ImageBlock(Base64Source("", ""))), *given[3:]]
    frames, renderer = rendered(given)
    again, other = rendered(erased)
    checked(frames)
    checked(again)
    response: Any = renderer.final()
    assert said(response["output"]) == ["No."]
    assert "aGk=" not in str(response)
    assert len(again) == len(frames)
    assert other.final() == renderer.final()


@pytest.mark.parametrize("place", [0, 3, 4])
def test_a_stream_that_is_read_again_after_a_retraction_has_as_many_frames(place: int) -> None:
    rest: list[Event] = [*call("look"), ENDS, FINISHED]
    rest.insert(place, MessageRetracted("m1", "[removed]"))
    first, then = rendered([*START, *SAYS, *rest]), rendered([*START, *erased(SAYS), *rest])
    assert len(first[0]) == len(then[0])
    assert first[1].final() == then[1].final()


# --- everything else


def test_half_a_surrogate_pair_breaks_neither_stream_nor_body() -> None:
    half = "\ud83d"
    thinks: list[Event] = [ReasoningStarted("r1"), ReasoningDelta("r1", half), ReasoningDelta("r1", half)]
    calls = [*call("look", f'{{"a":"{half}'), CALLS, gives("look", half), *SAYS, ENDS]
    frames, renderer = rendered([*START, *thinks, ReasoningEnded("r1"), *calls, RunFailed("c", half)])
    assert frames[-1]["status"] == "failed"
    orjson.dumps(renderer.final())


@pytest.mark.parametrize("odd", ["word", ",", '",', '","', "\\", "\ud83d", "", "%d", "\u2028\n", "\u00e9\u2028"])
def test_many_deltas_at_once_are_the_frames_that_they_are_one_by_one(odd: str) -> None:
    texts: list[Event] = [TextDelta("m1", text) for text in (["a", odd, '"', "b"] * 20)]
    events = [*START, TextStarted("m1"), *texts, TextEnded("m1"), ENDS, FINISHED]
    frames, renderer = rendered(events)
    again, other = rendered(events, cuts=range(len(events)))
    assert again == frames
    assert other.final() == renderer.final()


def test_a_long_batch_counts_on_behind_the_numbers_that_are_known() -> None:
    texts: list[Event] = [TextDelta("m1", "a") for _ in range(2100)]
    frames, _ = rendered([*START, TextStarted("m1"), *texts, TextEnded("m1"), ENDS, FINISHED])
    assert checked(frames)["sequence_number"] == 2105


def test_a_run_that_goes_on_is_shown_with_what_there_is() -> None:
    _, renderer = rendered([*START, *THINKS, *SAYS[:2]])
    response: Any = renderer.so_far("in_progress")
    assert (response["status"], response["sequence_number"]) == ("in_progress", 8)
    assert [message["status"] for message in response["output"]] == ["completed", "in_progress"]
    assert said(response["output"]) == ["hm", "Hel"]


def test_a_run_that_has_not_begun_is_shown_without_anything() -> None:
    _, renderer = rendered([])
    head = {"object": "response", "id": "response_1", "created_at": 7, "session_id": "session_1"}
    assert renderer.so_far("queued") == {**head, "status": "queued", "output": []}
