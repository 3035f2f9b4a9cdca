"""The builder of responses: whole examples, what each call gives, and what may not come next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.agent_api import (
    AgentResponse,
    AudioContent,
    DataContent,
    Event,
    Message,
    MessageBuilder,
    ProtocolStateError,
    ResponseBuilder,
    TextContent,
)


def said(event: Event) -> tuple[Any, ...]:
    """What a frame says: its number, object, status, and of a content its delta and value."""
    told = event.model_dump(exclude_none=True)
    value = [told[name] for name in ("text", "refusal", "data", "image_url") if name in told]
    return (told["sequence_number"], told["object"], told["status"], *([told["delta"]] if value else []), *value)


def begun(session_id: str | None = None) -> ResponseBuilder:
    builder = ResponseBuilder(session_id)
    builder.created()
    builder.in_progress()
    return builder


def message() -> MessageBuilder:
    return begun().create_message_builder()


# --- whole examples --------------------------------------------------------------------------------------------------


def test_a_streaming_response_has_seven_steps() -> None:
    frames = list(ResponseBuilder("session_1").generate_streaming_response(["Hello", " ", "World", "!"]))
    assert [said(frame) for frame in frames] == [
        (0, "response", "created"),
        (1, "response", "in_progress"),
        (2, "message", "created"),
        (3, "content", "in_progress", True, "Hello"),
        (4, "content", "in_progress", True, " "),
        (5, "content", "in_progress", True, "World"),
        (6, "content", "in_progress", True, "!"),
        (7, "content", "completed", False, "Hello World!"),
        (8, "message", "completed"),
        (9, "response", "completed"),
    ]
    first, last = frames[0], frames[-1]
    assert isinstance(first, AgentResponse)
    assert isinstance(last, AgentResponse)
    assert (first.output, first.completed_at) == ([], None)
    assert last.output == [frames[8].model_copy(update={"sequence_number": None})]
    assert last.completed_at is not None
    assert last.completed_at >= last.created_at
    assert {frame.session_id for frame in frames if isinstance(frame, AgentResponse)} == {"session_1"}


def test_each_frame_of_a_content_leads_to_its_message() -> None:
    frames = list(ResponseBuilder().generate_streaming_response(["a", "b"]))
    opening = frames[2]
    assert isinstance(opening, Message)
    contents = [frame for frame in frames if isinstance(frame, TextContent)]
    assert [(each.msg_id, each.index) for each in contents] == [(opening.id, 0)] * 3


def test_a_streaming_response_of_no_tokens_has_an_empty_text() -> None:
    frames = list(ResponseBuilder().generate_streaming_response([]))
    assert [said(frame)[1:] for frame in frames[2:5]] == [
        ("message", "created"),
        ("content", "completed", False, ""),
        ("message", "completed"),
    ]


def test_a_streaming_response_keeps_the_id_that_was_given() -> None:
    builder = ResponseBuilder(response_id="response_7")
    twice = [*builder.generate_streaming_response(["a"]), *builder.generate_streaming_response(["b"])]
    assert {frame.id for frame in twice if isinstance(frame, AgentResponse)} == {"response_7"}
    assert [frame.sequence_number for frame in twice] == [*range(7), *range(7)]


def test_a_new_builder_says_its_id_before_it_streams() -> None:
    builder = ResponseBuilder()
    first = next(iter(builder.generate_streaming_response(["a"])))
    assert isinstance(first, AgentResponse)
    assert first.id == builder.response_id


def test_a_reset_without_an_id_of_ones_own_begins_another_response() -> None:
    builder = begun()
    before = builder.response_id
    builder.reset()
    assert builder.response_id != before
    assert said(builder.created()) == (0, "response", "created")


def test_the_role_of_a_streaming_response_may_be_given() -> None:
    opening = list(ResponseBuilder().generate_streaming_response(["a"], role="tool"))[2]
    assert isinstance(opening, Message)
    assert opening.role == "tool"


def test_a_message_of_text_and_image_is_built_on_a_response_that_is_not_created() -> None:
    response_builder = ResponseBuilder(session_id="session_123")
    message_builder = response_builder.create_message_builder()
    text_builder = message_builder.create_content_builder("text", index=0)
    image_builder = message_builder.create_content_builder("image", index=1)
    frames = [
        text_builder.set_text("This is an image:"),
        text_builder.complete(),
        image_builder.set_image_url("https://example.com/image.jpg"),
        image_builder.complete(),
        message_builder.complete(),
    ]
    assert [said(frame) for frame in frames] == [
        (1, "content", "in_progress", False, "This is an image:"),
        (2, "content", "completed", False, "This is an image:"),
        (3, "content", "in_progress", True, "https://example.com/image.jpg"),
        (4, "content", "completed", False, "https://example.com/image.jpg"),
        (5, "message", "completed"),
    ]
    created = response_builder.created()
    assert created.output is not None
    assert created.output[0].content is not None
    assert [each.type for each in created.output[0].content] == ["text", "image"]


def test_deltas_of_data_are_merged_into_what_was_set() -> None:
    data_builder = message().create_content_builder("data", index=0)
    call: dict[str, Any] = {"type": "function_call", "name": "get_weather", "arguments": '{"city": "Beijing"}'}
    frames = [
        data_builder.set_data(call),
        data_builder.add_data_delta({"status": "processing"}),
        data_builder.add_data_delta({"result": "sunny"}),
        data_builder.complete(),
    ]
    whole = {**call, "status": "processing", "result": "sunny"}
    assert [said(frame)[2:] for frame in frames] == [
        ("in_progress", False, call),
        ("in_progress", True, {"status": "processing"}),
        ("in_progress", True, {"result": "sunny"}),
        ("completed", False, whole),
    ]


def test_a_text_that_is_set_replaces_its_deltas() -> None:
    builder = message().create_content_builder("text", index=0)
    builder.add_text_delta("Hello")
    builder.add_text_delta(" World")
    assert said(builder.set_text("Hello World"))[2:] == ("in_progress", False, "Hello World")
    builder.add_delta("!")
    assert said(builder.complete())[2:] == ("completed", False, "Hello World!")


# --- contents of each type -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "say", "value"),
    [
        ("text", lambda c: c.add_text_delta("a"), {"text": "a"}),
        ("text", lambda c: c.add_delta(None), {"text": ""}),
        ("refusal", lambda c: c.add_delta("No"), {"refusal": "No"}),
        ("refusal", lambda c: c.set_refusal("No"), {"refusal": "No"}),
        ("image", lambda c: c.set_image_url("data:image/png;base64,AA=="), {"image_url": "data:image/png;base64,AA=="}),
        ("data", lambda c: c.add_delta({"a": 1}), {"data": {"a": 1}}),
        ("data", lambda c: c.update_data("a", None), {"data": {"a": None}}),
        ("audio", lambda c: c.set_audio_data("AAAA", "wav"), {"data": "AAAA", "format": "wav"}),
        ("video", lambda c: c.set_video_url("https://example.com/v"), {"video_url": "https://example.com/v"}),
        ("file", lambda c: c.set_file_url("https://a.com/f", "f"), {"file_url": "https://a.com/f", "filename": "f"}),
        ("file", lambda c: c.set_file_data("AAAA"), {"file_data": "AAAA"}),
        ("file", lambda c: c.set_file_id("file_1"), {"file_id": "file_1"}),
    ],
)
def test_a_content_of_each_type_is_complete_and_in_the_response(
    kind: str, say: Callable[[Any], Any], value: dict[str, Any]
) -> None:
    response = begun()
    building = response.create_message_builder()
    content = building.create_content_builder(kind)
    say(content)
    completed = content.complete().model_dump(exclude_none=True, exclude={"sequence_number"})
    assert completed == {
        "object": "content", "type": kind, "status": "completed", "index": 0, "delta": False,
        "msg_id": building.message_id, **value,
    }  # fmt: skip
    building.complete()
    [shown] = response.completed().model_dump(exclude_none=True)["output"]
    assert shown["content"] == [completed]


def test_the_members_of_a_content_are_set_one_after_the_other() -> None:
    audio = message().create_content_builder("audio")
    audio.set_audio_format("wav")
    audio.set_audio_data("AAAA")
    whole = audio.set_audio_data("BBBB")
    assert (whole.data, whole.format) == ("BBBB", "wav")
    data = message().create_content_builder("data")
    data.set_data({"a": 1, "b": 2})
    assert data.update_data("b", 3).data == {"a": 1, "b": 3}


@pytest.mark.parametrize("kind", ["hologram", ""])
def test_a_content_of_no_type_there_is_is_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match=f"one of text, data, image, audio, file, refusal, video, and not {kind!r}"):
        message().create_content_builder(kind)


@pytest.mark.parametrize(
    ("kind", "say", "right"),
    [
        ("text", lambda c: c.set_image_url("a"), "image_url is for .* 'image': of type 'text' expected text"),
        ("text", lambda c: c.add_data_delta({"a": 1}), "data is for .* 'data': of type 'text' expected text"),
        ("image", lambda c: c.add_text_delta("a"), "text is for .* 'text': of type 'image' expected image_url"),
        ("audio", lambda c: c.set_data({}), "data is for .* 'data': of type 'audio' expected data or format"),
    ],
)
def test_a_value_of_another_type_is_an_error(kind: str, say: Callable[[Any], Any], right: str) -> None:
    with pytest.raises(ProtocolStateError, match=right):
        say(message().create_content_builder(kind))


# --- contents through their message ----------------------------------------------------------------------------------


def test_a_message_takes_contents_as_models() -> None:
    building = message()
    frames = [
        building.add_delta_content(TextContent(text="a", delta=True)),
        building.add_delta_content(TextContent(text="b", delta=True, index=0)),
        building.content_completed(0),
        building.add_content(DataContent(data={"a": 1})),
    ]
    assert [said(frame) for frame in frames] == [
        (3, "content", "in_progress", True, "a"),
        (4, "content", "in_progress", True, "b"),
        (5, "content", "completed", False, "ab"),
        (6, "content", "completed", False, {"a": 1}),
    ]
    assert [each.index for each in building.complete().content or ()] == [0, 1]


def test_a_content_that_the_message_gave_is_not_added_twice() -> None:
    building = message()
    content = building.create_content_builder()
    content.set_text("a")
    completed = content.complete()
    assert building.add_content(completed) == building.add_content(content.get_content_data()) == completed
    assert len(building.complete().content or ()) == 1
    with pytest.raises(ProtocolStateError, match="ended as completed"):
        building.add_content(TextContent(text="b"))


def test_a_content_that_is_being_built_is_complete_with_a_value_of_its_index() -> None:
    building = message()
    content = building.create_content_builder("data")
    content.set_data({"arguments": '{"city"'})
    given = DataContent(data={"arguments": '{"city": "Beijing"}'}, index=0)
    assert said(building.add_content(given))[1:] == ("content", "completed", False, given.data)
    with pytest.raises(ProtocolStateError, match="has a content 0 already"):
        building.add_content(TextContent(text="a", index=0))
    assert content.complete() == building.get_message_data().content[0].model_copy(update={"sequence_number": 4})  # type: ignore[index]


def test_a_content_that_is_not_there_cannot_go_on() -> None:
    building = message()
    with pytest.raises(ProtocolStateError, match="has no content 1: expected one of none yet"):
        building.add_delta_content(TextContent(text="a", delta=True, index=1))
    building.add_content(TextContent(text="a"))
    with pytest.raises(ProtocolStateError, match="has no content 5: expected one of 0"):
        building.content_completed(5)


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_message_tells_how_it_is_now() -> None:
    building = message()
    opening = building.get_message_data()
    assert (opening.status, opening.content, opening.sequence_number) == ("created", None, 2)
    content = building.create_content_builder()
    content.add_text_delta("a")
    now = building.get_message_data()
    assert (now.status, now.model_dump()["content"][0]["text"]) == ("in_progress", "a")
    content.complete()
    assert building.complete() == building.get_message_data()


def test_a_message_may_fail() -> None:
    response = begun()
    failed = response.create_message_builder(message_type="error").failed("model_timeout", "It took too long.")
    assert (failed.status, failed.code, failed.message) == ("failed", "model_timeout", "It took too long.")
    assert response.failed("model_timeout", "It took too long.").output == [
        failed.model_copy(update={"sequence_number": None})
    ]


@pytest.mark.parametrize(("role", "kind", "named"), [("robot", "message", "role"), ("tool", "nope", "message_type")])
def test_a_role_and_a_type_are_words_of_the_protocol(role: str, kind: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"^{named} is one of .*, and not "):
        begun().create_message_builder(role, kind)


def test_a_whole_message_is_added_and_replaced() -> None:
    response = begun()
    given = Message(id="msg_1", type="reasoning", content=[TextContent(text="first")], metadata={"a": 1})
    added = response.add_message(given)
    response.add_message(Message(id="msg_2"))
    given.content = [TextContent(text="second"), TextContent(text="third")]
    replaced = response.update_message(given)
    assert [(each.sequence_number, each.status, each.role) for each in (added, replaced)] == [
        (2, "completed", "assistant"),
        (4, "completed", "assistant"),
    ]
    assert [each.model_dump()["text"] for each in replaced.content or ()] == ["second", "third"]
    output = response.completed().output
    assert output is not None
    assert [each.id for each in output] == ["msg_1", "msg_2"]
    assert output[0] == replaced.model_copy(update={"sequence_number": None})
    assert replaced.metadata == {"a": 1}


def test_a_message_that_is_not_there_or_is_built_is_not_replaced() -> None:
    response = begun()
    with pytest.raises(ProtocolStateError, match="has no message msg_1"):
        response.update_message(Message(id="msg_1"))
    building = response.create_message_builder()
    with pytest.raises(ProtocolStateError, match="is open: expected its contents, or its end"):
        response.update_message(building.get_message_data())
    building.complete()
    response.completed()
    with pytest.raises(ProtocolStateError, match="the response has ended as completed"):
        response.update_message(building.get_message_data())


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_no_call_changes_a_frame_that_was_given() -> None:
    response = begun()
    building = response.create_message_builder()
    content = building.create_content_builder("data")
    frames = [content.set_data({"list": [1]}), content.add_data_delta({"list": [2]}), building.get_message_data()]
    before = [frame.model_dump_json() for frame in frames]
    content.add_data_delta({"list": [3]})
    content.complete()
    building.complete()
    response.completed()
    assert [frame.model_dump_json() for frame in frames] == before


def test_changing_a_frame_or_what_was_given_changes_nothing_of_the_response() -> None:
    content = message().create_content_builder("data")
    given: dict[str, Any] = {"list": [1]}
    frame = content.set_data(given)
    given["list"].append(2)
    assert frame.data == {"list": [1]}
    frame.data["list"] = []
    last = content.complete()
    assert isinstance(last, DataContent)
    assert last.data == {"list": [1]}
    last.data["list"] = []
    assert content.complete().model_dump()["data"] == {"list": [1]}


def test_changing_what_was_added_changes_nothing_of_the_response() -> None:
    response = begun()
    data: dict[str, Any] = {"list": [1]}
    usage: dict[str, Any] = {"details": {"cached": 1}}
    content = DataContent()
    content.data = data
    building = response.create_message_builder()
    building.add_content(content)
    building.complete()
    whole = Message()
    whole.metadata = data
    response.add_message(whole)
    ended = response.completed(usage=usage)
    data["list"], usage["details"]["cached"] = [2], 2
    assert response.completed() == ended
    assert [each.get("metadata") for each in ended.model_dump()["output"]] == [None, {"list": [1]}]


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        (lambda r: r.completed(usage={"input_tokens": 1}), "completed", {"usage": {"input_tokens": 1}}),
        (lambda r: r.failed("boom", "It broke."), "failed", {"error": {"code": "boom", "message": "It broke."}}),
        (
            lambda r: r.failed("boom", "It broke.", retryable=True),
            "failed",
            {"error": {"code": "boom", "message": "It broke.", "retryable": True}},
        ),
        (lambda r: r.canceled(), "canceled", {}),
        (lambda r: r.rejected(), "rejected", {}),
        (lambda r: r.rejected("quota", "No."), "rejected", {"error": {"code": "quota", "message": "No."}}),
        (lambda r: r.incomplete("content_filter"), "incomplete", {"incomplete_details": {"reason": "content_filter"}}),
    ],
)
def test_a_response_ends_once_and_repeats_its_end(
    end: Callable[[ResponseBuilder], AgentResponse], status: str, told: dict[str, Any]
) -> None:
    response = begun()
    response.create_message_builder().complete()
    ended = end(response)
    frame = ended.model_dump(exclude_none=True)
    assert frame == {**frame, **told, "status": status, "sequence_number": 4}
    assert len(frame["output"]) == 1
    assert end(response) == ended == response.get_response_data()


@pytest.mark.parametrize(
    ("go_wrong", "right"),
    [
        (lambda r: r.completed(), "not created yet: it cannot become completed; expected created"),
        (lambda r: r.in_progress(), "not created yet: it cannot become in_progress; expected created"),
        (lambda r: (r.created(), r.created()), "is created: it cannot become created; expected in_progress"),
        (lambda r: (r.created(), r.completed()), "is created: it cannot become completed; expected in_progress"),
    ],
)
def test_a_status_out_of_order_is_an_error_that_says_what_was_expected(
    go_wrong: Callable[[ResponseBuilder], object], right: str
) -> None:
    with pytest.raises(ProtocolStateError, match=right):
        go_wrong(ResponseBuilder())


def test_nothing_comes_behind_the_end_of_a_response() -> None:
    response = begun()
    response.completed()
    with pytest.raises(ProtocolStateError, match="ended as completed: it takes no message any more"):
        response.create_message_builder()
    with pytest.raises(ProtocolStateError, match="is completed: it cannot become failed; nothing comes behind"):
        response.failed("boom", "It broke.")


def test_a_response_is_completed_after_its_messages() -> None:
    response = begun()
    building = response.create_message_builder()
    with pytest.raises(ProtocolStateError, match=f"message {building.message_id} is open: complete it first"):
        response.completed()


def test_a_message_may_be_in_progress_before_its_contents() -> None:
    message = ResponseBuilder().create_message_builder(message_type="reasoning")
    frames = [message.get_message_data(), message.in_progress(), message.get_message_data()]
    assert [frame.status for frame in frames] == ["created", "in_progress", "in_progress"]
    with pytest.raises(ProtocolStateError):
        message.in_progress()


def test_a_message_is_completed_after_its_contents() -> None:
    building = message()
    content = building.create_content_builder()
    content.add_text_delta("a")
    with pytest.raises(ProtocolStateError, match=r"content 0 of .* is open: complete it first"):
        building.complete()
    content.complete()
    assert building.complete() == building.complete()


def test_a_content_ends_once_and_repeats_its_end() -> None:
    content = message().create_content_builder("audio")
    content.set_audio_data("AAAA")
    assert content.complete() == content.complete() == content.get_content_data()
    assert isinstance(content.complete(), AudioContent)
    for go_on in (content.set_audio_data, content.set_audio_format):
        with pytest.raises(ProtocolStateError, match="has ended as completed: it takes nothing any more"):
            go_on("BBBB")


def test_a_delta_behind_the_end_of_a_content_is_an_error() -> None:
    content = message().create_content_builder()
    content.add_text_delta("a")
    content.complete()
    with pytest.raises(ProtocolStateError, match="has ended as completed: it takes nothing any more"):
        content.add_text_delta("b")
    assert said(content.complete())[-1] == "a"


def test_what_was_canceled_is_not_completed() -> None:
    building = message()
    content = building.create_content_builder()
    content.add_text_delta("part")
    assert said(content.canceled())[2:] == ("canceled", False, "part")
    with pytest.raises(ProtocolStateError, match="content 0 has ended as canceled"):
        content.complete()
    assert building.canceled().status == "canceled"
    with pytest.raises(ProtocolStateError, match="has ended as canceled"):
        building.complete()


def test_what_is_open_when_a_response_breaks_off_ends_with_it() -> None:
    response = begun()
    building = response.create_message_builder()
    content = building.create_content_builder()
    content.add_text_delta("part")
    [shown] = response.canceled().output or []
    assert (shown.status, shown.model_dump()["content"][0]["text"]) == ("canceled", "part")
    for go_on in (lambda: content.add_text_delta("b"), content.canceled, building.complete, building.canceled):
        with pytest.raises(ProtocolStateError, match="has ended as canceled"):
            go_on()


def test_two_contents_have_places_of_their_own() -> None:
    building = message()
    building.create_content_builder("text", index=0)
    with pytest.raises(ProtocolStateError, match="has a content 0 already"):
        building.create_content_builder("image", index=0)
    with pytest.raises(ValueError, match="counts from 0, and is not -1"):
        building.create_content_builder("image", index=-1)
