"""The grammar of a response: what may follow what, and what each frame has."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from gateway.agent_api.grammar import DELTA, MessageState, ProtocolStateError, ResponseState, read, value_said, written

MEMBERS_OF_RESPONSE: dict[str, Any] = {"id": "response_1", "created_at": 7, "session_id": "s"}


def response(*, begun: bool = True) -> ResponseState:
    made = ResponseState(MEMBERS_OF_RESPONSE)
    if begun:
        made.created()
        made.in_progress()
    return made


def message(of: ResponseState | None = None, message_id: str = "msg_1") -> MessageState:
    made = (of or response()).message(message_id)
    made.opened()
    return made


def test_a_text_is_the_sequence_of_the_protocol() -> None:
    whole = response(begun=False)
    frames = [whole.created(), whole.in_progress()]
    said = whole.message("msg_1")
    frames.append(said.opened())
    text = said.content("text")
    frames += [text.delta("Hel"), text.delta("lo"), text.complete(), said.close()]
    frames.append(whole.end("completed", completed_at=8, usage=None))

    head = {"object": "response", "id": "response_1", "created_at": 7, "session_id": "s"}
    piece = {"object": "content", "type": "text", "index": 0, "msg_id": "msg_1"}
    content = {**piece, "status": "completed", "delta": False, "text": "Hello"}
    opened = {"object": "message", "id": "msg_1", "type": "message", "role": "assistant"}
    closed = {**opened, "status": "completed", "content": [content]}
    assert [read(frame) for frame in frames] == [
        {**head, "sequence_number": 0, "status": "created", "output": []},
        {**head, "sequence_number": 1, "status": "in_progress", "output": []},
        {**opened, "sequence_number": 2, "status": "created"},
        {**piece, "sequence_number": 3, "status": "in_progress", "delta": True, "text": "Hel"},
        {**piece, "sequence_number": 4, "status": "in_progress", "delta": True, "text": "lo"},
        {**content, "sequence_number": 5},
        {**closed, "sequence_number": 6},
        {**head, "sequence_number": 7, "status": "completed", "completed_at": 8, "output": [closed]},
    ]


def test_several_contents_stand_in_the_order_of_their_indexes() -> None:
    said = message()
    later, first = said.content("image", 1), said.content("text", 0)
    later.set(image_url="https://x.example/a.png")
    first.delta("This:")
    later.complete()
    first.complete()
    assert said.content("refusal").index == 2
    with pytest.raises(ProtocolStateError, match="complete it first"):
        said.close()
    shown: Any = said.value()
    assert [content["type"] for content in shown["content"]] == ["text", "image", "refusal"]


def test_a_content_behind_another_opens_with_a_delta_because_clients_overwrite_the_last_one_else() -> None:
    said = message()
    first, second = said.content("text"), said.content("image")
    assert read(first.set(text="a"))["delta"] is False
    assert [read(second.set(image_url=url))["delta"] for url in ("u", "v")] == [True, False]


def test_a_whole_value_replaces_the_pieces_before_it() -> None:
    text = message().content("text")
    text.delta("Hello")
    assert read(text.set(text="Hi"))["text"] == "Hi"
    text.delta("!")
    assert read(text.complete())["text"] == "Hi!"


def test_deltas_of_data_are_merged_into_what_was_set() -> None:
    data = message().content("data")
    data.set(data={"name": "get_weather", "arguments": "{}"})
    assert read(data.delta({"status": "processing"}))["data"] == {"status": "processing"}
    data.delta({"result": "sunny"})
    assert read(data.complete())["data"] == {
        "name": "get_weather",
        "arguments": "{}",
        "status": "processing",
        "result": "sunny",
    }


def test_nobody_changes_a_content_by_what_they_gave_or_got() -> None:
    whole = response()
    said = message(whole)
    data = said.content("data")
    first: Any = {"a": [1]}
    second: Any = {"a": [2]}
    data.set(data=first)
    data.delta(second)
    before: Any = [data.value(), said.value(), whole.value("in_progress")]
    shown = json.dumps(before)
    first["a"].append(3)
    second["a"].append(3)
    data.delta({"a": [4]})
    assert json.dumps(before) == shown
    before[0]["data"]["a"].append(3)
    assert read(data.complete())["data"] == {"a": [1, 2, 4]}


def test_an_end_is_repeated_and_takes_no_second_number() -> None:
    whole = response()
    said = message(whole)
    text = said.content("text")
    text.delta("a")
    assert text.complete() == text.complete()
    assert said.close() == said.close()
    assert whole.end("failed", error={"code": "c", "message": "m"}) == whole.end("failed")
    assert whole.frames == 7


def test_what_a_response_may_become() -> None:
    with pytest.raises(ProtocolStateError, match=r"not created yet.*expected created"):
        response(begun=False).in_progress()
    with pytest.raises(ProtocolStateError, match=r"not created yet.*expected created"):
        response(begun=False).end("completed")
    begun = response(begun=False)
    begun.created()
    with pytest.raises(ProtocolStateError, match="expected in_progress"):
        begun.created()
    with pytest.raises(ProtocolStateError, match="it cannot become completed"):
        begun.end("completed")
    begun.end("rejected")
    for late in (begun.created, begun.in_progress, lambda: begun.end("completed"), lambda: begun.message("m")):
        with pytest.raises(ProtocolStateError):
            late()
    with pytest.raises(ProtocolStateError, match="ends as one of"):
        response().end("in_progress")


def test_a_message_may_open_before_its_response_but_no_id_twice() -> None:
    early = response(begun=False)
    message(early)
    with pytest.raises(ProtocolStateError, match="already"):
        early.message("msg_1")


def test_what_a_message_may_not_do() -> None:
    unopened = response().message("msg_1")
    with pytest.raises(ProtocolStateError, match="not open yet"):
        unopened.content("text")
    said = message()
    with pytest.raises(ProtocolStateError, match="open already"):
        said.opened()
    with pytest.raises(ProtocolStateError, match="shown again once it has ended"):
        said.again()
    with pytest.raises(ValueError, match="one of text, data"):
        said.content("nope")
    with pytest.raises(ValueError, match="counts from 0"):
        said.content("text", -1)
    said.content("text", 1).complete()
    with pytest.raises(ProtocolStateError, match="content 1 already"):
        said.content("text", 1)
    with pytest.raises(ProtocolStateError, match="no content 0"):
        said.close()
    said.content("text", 0).complete()
    said.close()
    with pytest.raises(ProtocolStateError, match="no content any more"):
        said.content("text")


def test_what_a_content_may_not_do() -> None:
    said = message()
    image, text = said.content("image"), said.content("text")
    with pytest.raises(ValueError, match="image_url is only supported"):
        text.set(image_url="u")
    with pytest.raises(ValueError, match="no delta that is str"):
        image.delta("u")
    with pytest.raises(ValueError, match="no delta that is dict"):
        text.delta({"text": "a"})
    text.complete()
    with pytest.raises(ProtocolStateError, match="ended as completed"):
        text.delta("a")
    with pytest.raises(ProtocolStateError, match="ended as completed"):
        text.set(text="a")


def test_a_message_may_be_in_progress_right_behind_its_first_frame() -> None:
    said = message()
    frame = read(said.in_progress())
    assert (frame["status"], "content" in frame) == ("in_progress", False)
    with pytest.raises(ProtocolStateError, match="right behind its opening"):
        said.in_progress()
    with pytest.raises(ProtocolStateError, match="right behind its opening"):
        response().message("msg_2").in_progress()
    said.content("text").complete()
    assert read(said.close())["status"] == "completed"


def test_a_response_completes_when_its_messages_have() -> None:
    whole = response()
    said = message(whole)
    with pytest.raises(ProtocolStateError, match="message msg_1 is open"):
        whole.end("completed")
    said.close()
    assert read(whole.end("completed"))["status"] == "completed"


@pytest.mark.parametrize(("end", "left"), [("failed", "incomplete"), ("canceled", "canceled")])
def test_what_is_open_where_a_response_ends_early_is_cut_off(end: str, left: str) -> None:
    whole = response()
    done, said = message(whole), message(whole, "msg_2")
    done.close()
    said.content("text").delta("so f")
    frame: Any = read(whole.end(end))
    assert [each["status"] for each in frame["output"]] == ["completed", left]
    assert frame["output"][1]["content"][0]["status"] == left
    assert frame["output"][1]["content"][0]["text"] == "so f"
    with pytest.raises(ProtocolStateError):
        said.content("text")


def test_a_message_whose_content_was_replaced_is_shown_again() -> None:
    whole = response()
    said = message(whole)
    image = said.content("image")
    image.set(image_url="u")
    image.complete()
    said.close()
    image.replace("text", value_said("text", {"text": "[removed]"}))
    again: Any = read(said.again())
    assert (again["sequence_number"], again["content"][0]["type"], again["content"][0]["text"]) == (
        6,
        "text",
        "[removed]",
    )
    assert "u" not in [again["content"][0].get("image_url")]
    ended: Any = read(whole.end("completed"))
    assert ended["output"][0]["content"] == again["content"]


def test_what_is_none_is_left_out() -> None:
    assert "format" not in read(message().content("audio").set(data="aGk=", format=None))
    assert "code" not in read(message().close(code=None))


def test_what_is_given_at_once_is_what_is_given_step_by_step() -> None:
    steps, at_once = response(begun=False), response(begun=False)
    assert at_once.begin() == (steps.created(), steps.in_progress())
    with pytest.raises(ProtocolStateError, match="it cannot become created"):
        at_once.begin()
    value = value_said("text", {"text": "so f"})
    for ending, status in (("completed", "completed"), ("completed", "incomplete"), ("canceled", "canceled")):
        one, other = message(at_once, f"msg_{ending}_{status}"), message(steps, f"msg_{ending}_{status}")
        given, text = one.content("text"), other.content("text")
        frames = one.end_with(given, "text", value, ending, status)
        assert frames == (text.finish("text", value, ending), other.close(status))
        assert (given.complete(), one.close()) == frames, "they are repeated"
        assert (given.value(), one.value()) == (text.value(), other.value())
        given.replace("text", value_said("text", {"text": "[removed]"}))
        text.replace("text", value_said("text", {"text": "[removed]"}))
        assert one.again() == other.again()
    assert at_once.end("completed") == steps.end("completed")


def test_a_deltas_bytes_are_those_of_its_frame() -> None:
    for kind in ("text", "refusal"):
        content = message().content(kind)
        frame = content.delta('a "b" \u2028\n')
        assert frame == DELTA % (3, content.delta_head(), written('a "b" \u2028\n'))


def test_no_reader_takes_a_text_for_the_end_of_a_line() -> None:
    frame = message().content("text").delta("a\u2028\u2029\x85\n\u201c").decode()
    assert frame.splitlines() == [frame[:-2], ""]
    assert json.loads(frame[6:])["text"] == "a\u2028\u2029\x85\n\u201c"


def test_a_message_that_is_being_said_takes_little() -> None:
    """The bytes that orjson gives keep its buffer of 4 kB."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        messages = [message(response(), f"msg_{number}") for number in range(100)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(messages) < 4_000
