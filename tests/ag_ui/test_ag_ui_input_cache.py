"""An input of which a part is known reads as it does when nothing is."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.ag_ui.input import parse_run_input
from gateway.ag_ui.input_cache import InputCache
from gateway.ag_ui.peer import PeerProfile
from gateway.agent import AgentInput
from gateway.errors import InvalidRequestError
from gateway.protocol.input_cache import LEAST_MESSAGES, LIMIT_BYTES
from gateway.protocol.time_sharing import TimeSharing
from gateway.wire import strict_json
from tests.word_samples import REPEATABLE

Json = dict[str, Any]
THREAD = "thread-1"


def user(number: int, text: str = "hello") -> Json:
    return {"id": f"m{number}", "role": "user", "content": text}


def body(messages: Sequence[Any], **members: Any) -> bytes:
    return orjson.dumps({"threadId": THREAD, "runId": "r", **members, "messages": messages})


def long(count: int = 200) -> list[Json]:
    roles = ("user", "assistant")
    return [{"id": f"m{n}", "role": roles[n % 2], "content": f'{n} grüß 👋 "quoted" \\ \n'} for n in range(count)]


def outcome(parse: Any, content: bytes) -> object:
    """What comes of it, ids that are made up left out."""
    try:
        given, profile = parse(content)
    except InvalidRequestError as error:
        return error.code, error.message, error.problems
    minted = given.sent.minted_ids
    rows = [(None if m.id in minted else m.id, m.role, m.content, m.name, m.metadata) for m in given.sent.messages]
    return rows, len(minted), profile, given.thread.id, given.run_id, given.application


def expect_the_same(known: InputCache, content: bytes, owner: str = "o") -> None:
    assert outcome(lambda data: parsed(known, owner, data), content) == outcome(parse_run_input, content)


def parsed(known: InputCache, owner: str, content: bytes) -> tuple[AgentInput, PeerProfile]:
    """What is read of a body."""
    return asyncio.run(known.parse(owner, content, TimeSharing()))


def is_known(known: InputCache, content: bytes, owner: str = "o") -> bool:
    """Whether the messages of this input are those that were read before, and not read again."""
    return parsed(known, owner, content)[0].sent.history_cache is not None


def test_what_came_before_is_the_very_same_and_what_is_new_is_read() -> None:
    known, history = InputCache(), long()
    first, _ = parsed(known, "o", body(history))
    assert first.sent.history_cache is None
    for round_number in range(300):  # more pieces than are kept apart
        history += [{"id": f"a{round_number}", "role": "assistant", "content": "said"}, user(1000 + round_number)]
        second, _ = parsed(known, "o", body(history))
        assert second == parse_run_input(body(history))[0]
        assert second.sent.history_cache is not None
        assert all(one is other for one, other in zip(first.sent.messages, second.sent.messages, strict=False))
        first = second


@pytest.mark.parametrize("place", [0, 3, 64, 150, 199])
def test_an_edit_leaves_what_stands_before_it_known(place: int) -> None:
    known, history = InputCache(), long()
    before, _ = parsed(known, "o", body(history))
    history[place] = user(place, "edited")
    after, _ = parsed(known, "o", body(history))
    assert after == parse_run_input(body(history))[0]
    kept = sum(one is other for one, other in zip(before.sent.messages, after.sent.messages, strict=True))
    assert place - 64 <= kept <= place


def test_nothing_is_known_of_another_owner_or_thread() -> None:
    known, content = InputCache(), body(long())
    parsed(known, "o", content)
    assert is_known(known, content)
    assert not is_known(known, content, "somebody else")
    assert not is_known(known, content.replace(b"thread-1", b"thread-2"))
    assert is_known(known, content, "somebody else"), "by now it is theirs, too"


def test_the_history_of_a_client_that_writes_snake_case_is_known_too() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    asked: Json = {"id": "a", "role": "assistant", "tool_calls": [call]}
    history = [*long(), asked, {"id": "b", "role": "tool", "content": "3", "tool_call_id": "c1"}]
    known = InputCache()
    content = orjson.dumps({"thread_id": THREAD, "run_id": "r", "messages": history})
    expect_the_same(known, content)
    assert is_known(known, content)
    expect_the_same(known, orjson.dumps({"thread_id": THREAD, "run_id": "r2", "messages": [*history, user(1000)]}))


def test_where_the_thread_is_named_elsewhere_first_the_input_is_read_whole() -> None:
    known, content = InputCache(), body(long())
    parsed(known, "o", content)
    other = content.replace(b'{"threadId":"thread-1"', b'{"state":{"threadId":"thread-1"},"threadId":"thread-2"')
    assert parsed(known, "o", other)[0].thread.id == "thread-2"
    assert not is_known(known, other)


def test_messages_that_stand_elsewhere_are_not_taken_for_the_input() -> None:
    known, history = InputCache(), long()
    parsed(known, "o", body(history))
    for members in ({"state": {"messages": history}}, {"forwardedProps": {"messages": history}}):
        expect_the_same(known, body([*history, user(500)], **members))
        expect_the_same(known, body([user(501)], **members))
    quoted = body(history).decode()
    expect_the_same(known, body([user(502, quoted)]))
    expect_the_same(known, body([user(n, quoted) for n in range(20)]))


def test_a_member_that_stands_twice_is_refused_all_the_same() -> None:
    known, history = InputCache(), long()
    parsed(known, "o", body(history))
    inside = orjson.dumps(history)
    expect_the_same(known, b'{"threadId":"thread-1","runId":"r","messages":%b,"messages":[]}' % inside)
    expect_the_same(known, b'{"threadId":"thread-1","runId":"r","messages":[],"messages":%b}' % inside)
    expect_the_same(known, b'{"threadId":"thread-1","runId":"r","state":{"a":1,"a":2},"messages":%b}' % inside)


def test_a_large_body_is_judged_by_its_whole_size() -> None:
    known, history = InputCache(), [user(n, "x" * 60_000) for n in range(20)]
    parsed(known, "o", body(history))
    twice = body(history).replace(b'"runId":"r"', b'"runId":"q","runId":"r"')
    assert is_known(known, twice)
    expect_the_same(known, twice)


@pytest.mark.parametrize(
    "end", [b"", b"]", b"}", b",]}", b"null]}", b'{"id":"x","role":"user","content":"y"}]}', b"]]}"]
)
def test_a_body_that_breaks_off_behind_what_is_known_is_no_json(end: bytes) -> None:
    known, content = InputCache(), body(long())
    parsed(known, "o", content)
    expect_the_same(known, content.removesuffix(b"]}") + end)


def test_what_is_wrong_behind_what_is_known_is_named_by_its_place() -> None:
    known, history = InputCache(), [*long(), {"id": "x", "role": "activity", "content": {}}]
    parsed(known, "o", body(history))
    wrong = [*history, {"id": "w", "role": "user", "content": 5}, 7, {"id": 5, "role": "tool"}]
    expect_the_same(known, body(wrong))
    with pytest.raises(InvalidRequestError) as caught:
        parsed(known, "o", body(wrong))
    assert caught.value.problems[0].pointer == "/messages/201/content"


def test_media_that_are_known_count_for_the_dialect_that_is_answered_in() -> None:
    picture = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
    known, history = InputCache(), [*long(), {"id": "p", "role": "user", "content": [picture]}]
    parsed(known, "o", body(history))
    expect_the_same(known, body([*history, user(900)]))
    expect_the_same(known, body([*long(), user(901)]))


def test_short_histories_and_those_that_are_read_with_a_warning_are_not_kept() -> None:
    known = InputCache()
    for history in (
        long(LEAST_MESSAGES - 1),
        [*long(), {"id": "x", "role": "user", "content": "x", "unknown": 1}],
        [*long(), {"role": "user", "content": "x"}],
        [*long(), user(3, "again")],
    ):
        parsed(known, "o", body(history))
        assert not is_known(known, body(history))


def test_a_client_that_writes_its_json_otherwise_is_served_as_ever() -> None:
    known, history = InputCache(), long()
    for _ in range(2):
        expect_the_same(known, json.dumps({"threadId": THREAD, "runId": "r", "messages": history}).encode())


def test_what_was_used_longest_ago_goes_first() -> None:
    content = body(long())
    known = InputCache(limit_bytes=5 * len(content) + 5 * 200 * 2000)
    for number in range(20):
        parsed(known, "o", content.replace(b"thread-1", b"thread-%d" % number))
        parsed(known, "o", content.replace(b"thread-1", b"thread-0"))
    assert is_known(known, content.replace(b"thread-1", b"thread-0"))
    assert not is_known(known, content.replace(b"thread-1", b"thread-5"))


ODD: list[Any] = [
    {"id": "m3", "role": "user", "content": "an id that is known"},
    {"id": "m3", "role": "tool", "toolCallId": "c", "content": "another role"},
    {"role": "user", "content": "without an id"},
    {"id": "t", "role": "tool", "toolCallId": "c", "content": "result"},
    {"id": "b", "role": "user", "content": [{"type": "binary", "mimeType": "Image/png", "data": "AAAA"}]},
    {"id": "a", "role": "activity", "activityType": "x", "content": {}},
    {"id": "n", "role": "user", "content": "", "metadata": {"n": 1.50}, "name": "Ann"},
    {"id": "u", "role": "unheard-of"},
    {"id": "w", "role": "user", "content": 5},
    "no message",
    None,
]


@pytest.mark.parametrize("limit_bytes", [0, LIMIT_BYTES], ids=["off", "on"])
@settings(REPEATABLE, max_examples=150)
@given(data=st.data())
def test_requests_of_every_kind_in_every_order_read_as_they_do_alone(limit_bytes: int, data: st.DataObject) -> None:
    known, held = InputCache(limit_bytes), list[Any](long(70))
    for number in range(data.draw(st.integers(1, 6))):
        for _ in range(data.draw(st.integers(0, 3))):
            place = data.draw(st.integers(0, max(0, len(held) - 1)))
            match data.draw(st.integers(0, 5)):
                case 0:
                    del held[place:]
                case 1 if held:
                    held[place] = user(place, data.draw(st.text('a"\\é', max_size=3)))
                case 2 if held:
                    held.insert(place, held.pop())
                case 3:
                    held.append(copy.deepcopy(data.draw(st.sampled_from(ODD))))
                case _:
                    held.append(user(1000 + 10 * number + place))
        members: Json = data.draw(
            st.sampled_from([{}, {"protocolVersion": "1.0"}, {"state": {"messages": held[:9]}}, {"x": 1}])
        )
        expect_the_same(known, body(held, **members))
        if data.draw(st.integers(0, 3)) == 0:  # what was refused or odd is taken back
            held = [item for item in held if item not in ODD]


def test_without_room_nothing_is_cached() -> None:
    off, content = InputCache(limit_bytes=0), body(long())
    for _ in range(3):
        assert not is_known(off, content)
        expect_the_same(off, content)


def test_the_size_of_the_whole_counts_for_what_is_compared() -> None:
    content = b'{"a":1,"a":2}'
    assert strict_json.load(content, 2 * 1024 * 1024) == {"a": 2}
    with pytest.raises(strict_json.NotStrictJsonError):
        strict_json.load(content, len(content))


def test_known_messages_count_with_their_parts_as_those_that_are_read() -> None:
    known, text = InputCache(), {"type": "text", "text": "p"}
    history = [user(number) for number in range(4_000)]
    history += [{"id": f"p{number}", "role": "user", "content": [text] * 5} for number in range(900)]
    parsed(known, "o", body(history))
    for number in range(700):
        history.append(user(5_000 + number))
        if number in (0, 599, 600, 699):
            expect_the_same(known, body(history))
