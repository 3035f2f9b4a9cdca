"""What the builders are given: models or their JSON; and what is neither changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.agent_api import (
    Content,
    ContentType,
    DataContent,
    Message,
    MessageBuilder,
    ProtocolStateError,
    ResponseBuilder,
    TextContent,
)

HALF = "\ud83d"  # half a surrogate pair, which no JSON in UTF-8 has


def begun() -> ResponseBuilder:
    builder = ResponseBuilder()
    builder.created()
    builder.in_progress()
    return builder


def message() -> MessageBuilder:
    return begun().create_message_builder()


# --- models, or what they are as JSON


def test_a_message_takes_contents_as_json() -> None:
    building = message()
    first = building.add_delta_content({"type": "text", "text": "a", "delta": True})
    assert isinstance(first, TextContent)
    building.add_delta_content({"type": "text", "text": "b", "delta": True, "index": 0})
    building.content_completed(0)
    building.add_content({"type": "data", "data": {"a": 1}})
    building.add_content(Content.model_validate({"type": "refusal", "refusal": "No"}))
    said = [each.model_dump(exclude_none=True) for each in building.complete().content or ()]
    assert [each[each["type"]] for each in said] == ["ab", {"a": 1}, "No"]


def test_a_message_model_takes_contents_as_json() -> None:
    model = Message()
    model.add_delta_content({"type": "text", "text": "a", "delta": True})
    model.add_content({"type": "image", "image_url": "https://example.com/a.png"})
    assert (model.get_text_content(), model.get_image_content()) == ("a", ["https://example.com/a.png"])


def test_a_response_takes_whole_messages_as_json() -> None:
    response = begun()
    added = response.add_message({"id": "msg_1", "content": [{"type": "text", "text": "a"}]})
    replaced = response.update_message({"id": "msg_1", "role": "assistant", "content": []})
    assert (added.id, added.role, added.get_text_content()) == ("msg_1", "assistant", "a")
    assert (replaced.sequence_number, replaced.content) == (3, [])


def test_the_type_assistant_is_a_message_of_the_assistant() -> None:
    opening = begun().create_message_builder(message_type="assistant").get_message_data()
    assert (opening.type, opening.role) == ("message", "assistant")


def test_a_type_may_be_one_of_the_words() -> None:
    content = message().create_content_builder(content_type=ContentType.IMAGE, index=0)
    assert (type(content.content_type), content.content_type) == (str, "image")


def test_an_empty_id_is_none() -> None:
    assert ResponseBuilder(response_id="").created().id.startswith("response_")


# --- what is neither


@pytest.mark.parametrize("given", [None, "a", 1, {}, {"type": "hologram"}, {"type": "text", "text": 1}])
def test_what_is_no_content_is_refused_and_begins_none(given: Any) -> None:
    building = message()
    for take in (building.add_content, building.add_delta_content, Message().add_content, Message().add_delta_content):
        with pytest.raises(ValueError):  # noqa: PT011  pydantic says which member is wrong
            take(given)
    assert building.complete().content == []


@pytest.mark.parametrize("given", [None, "a", {"role": "robot"}, {"content": "a"}])
def test_what_is_no_message_is_refused_and_begins_none(given: Any) -> None:
    response = begun()
    for take in (response.add_message, response.update_message):
        with pytest.raises(ValueError):  # noqa: PT011  pydantic says which member is wrong
            take(given)
    assert response.completed().output == []


@pytest.mark.parametrize(
    ("kind", "say"),
    [
        ("text", lambda c: c.add_text_delta(5)),
        ("text", lambda c: c.add_text_delta(HALF)),
        ("text", lambda c: c.set_text(["a"])),
        ("text", lambda c: c.set_text(HALF)),
        ("refusal", lambda c: c.add_delta(HALF)),
        ("image", lambda c: c.set_image_url(5)),
        ("audio", lambda c: c.set_audio_data(b"\xff")),
        ("data", lambda c: c.set_data(["a"])),
        ("data", lambda c: c.set_data({"a": object()})),
        ("data", lambda c: c.set_data({1: 2})),
        ("data", lambda c: c.add_data_delta({"a": float("nan")})),
        ("data", lambda c: c.add_data_delta({"a": {HALF: 1}})),
        ("data", lambda c: c.update_data("a", float("inf"))),
    ],
)
def test_a_value_of_a_wrong_kind_is_refused_and_changes_nothing(kind: str, say: Callable[[Any], Any]) -> None:
    content = message().create_content_builder(kind)
    before = content.get_content_data()
    with pytest.raises(ValueError):  # noqa: PT011  pydantic says which member is wrong
        say(content)
    assert content.get_content_data() == before
    assert content.complete().sequence_number == 3, "the refused call made no frame"


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda r: r.completed(usage=5), "usage"),
        (lambda r: r.completed(metadata={"a": object()}), "metadata is no JSON"),
        (lambda r: r.completed(metadata=HALF), "metadata has half a surrogate pair"),
        (lambda r: r.completed(id="other"), "id is what the builder says itself"),
        (lambda r: r.completed(status="failed"), "status is what the builder says itself"),
        (lambda r: r.completed(output=[]), "output is what the builder says itself"),
        (lambda r: r.failed(5, "It broke."), "code"),
    ],
)
def test_an_end_with_a_wrong_member_is_refused_and_ends_nothing(end: Callable[[Any], Any], why: str) -> None:
    response = begun()
    with pytest.raises(ValueError, match=why):
        end(response)
    completed = response.completed(usage={"input_tokens": 1})
    assert (completed.sequence_number, completed.usage) == (2, {"input_tokens": 1})


def test_a_message_that_fails_for_a_wrong_reason_has_not_ended() -> None:
    building = message()
    wrong: Any = 5
    with pytest.raises(ValueError, match="code"):
        building.failed(wrong, "It broke.")
    assert building.failed("boom", "It broke.").sequence_number == 3


def test_a_whole_content_that_cannot_be_written_does_not_end_the_one_that_is_built() -> None:
    building = message()
    content = building.create_content_builder("data")
    with pytest.raises(ValueError, match="data is no JSON"):
        building.add_content(DataContent(data={"a": float("nan")}, index=0))
    content.set_data({"a": 1})
    assert content.complete().sequence_number == 4


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (lambda r: r.create_message_builder(role=None), "role is one of assistant, user, system, tool, and not None"),
        (lambda r: r.create_message_builder(message_type=[]), "message_type is one of message, .*, and not "),
        (lambda r: r.create_message_builder().create_content_builder(None), "content_type is one of text, .* not None"),
        (lambda r: r.create_message_builder().create_content_builder("text", "0"), "counts from 0, and is not '0'"),
        (lambda r: r.create_message_builder().create_content_builder("text", True), "counts from 0, and is not True"),
        (lambda r: next(r.generate_streaming_response(["a"], role="robot")), "role is one of .* not 'robot'"),
    ],
)
def test_words_and_places_that_there_are_not_are_refused_by_their_names(
    wrong: Callable[[Any], Any], right: str
) -> None:
    with pytest.raises(ProtocolStateError, match=right):
        wrong(begun())
