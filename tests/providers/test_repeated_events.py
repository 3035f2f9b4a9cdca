"""The words of events that are the same but for them, a number before them, padding, numbers behind them."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.providers.repeated_events import Likeness, RepeatedEvents, likeness

Json = dict[str, Any]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
DIGITS = b"0123456789"
ANYWHERE = b" "  # a space may stand before the words or not


@dataclass(frozen=True, slots=True)
class Kind:
    """A wire: an event, where its words are, how it is framed. `padding` and `number` are members of it."""

    event: Json
    path: tuple[str | int, ...]
    padding: str = ""
    number: str = ""
    counted: bool = False
    opening: bytes = b"data: "
    blank: bytes = b"\n\n"

    @property
    def likeness(self) -> Likeness:
        return likeness(*self.path, padding=self.padding, number=self.number, counted=self.counted)

    def saying(self, text: object, number: int = 0) -> Json:
        """The event `number` of a stream."""
        event = copy.deepcopy(self.event)
        said: Any = event
        for step in self.path[:-1]:
            said = said[step]
        said[self.path[-1]] = text
        if self.number:
            event[self.number] = number
        if self.padding.strip():
            event[self.padding] = "aB3xyz"[: number % 7]
        if self.counted:
            event["usage"]["total"] = number * 7
        return event

    def framed(self, record: bytes) -> bytes:
        return self.opening + record + self.blank

    def write(
        self, text: str, number: int = 0, separators: tuple[str, str] = (",", ":"), *, ascii: bool = False
    ) -> bytes:
        record = json.dumps(self.saying(text, number), separators=separators, ensure_ascii=ascii).encode()
        if self.padding == " ":
            record = record[:-1] + b" " * (number % 5) + b"}"
        return self.framed(record)

    def record_of(self, event: bytes) -> bytes:
        return event.removeprefix(self.opening).removesuffix(self.blank)

    def taught(self, event: bytes, text: str = "first") -> RepeatedEvents:
        events = RepeatedEvents(self.likeness)
        record = self.record_of(event)
        events.learn(b": ping" + self.blank + event, record, orjson.loads(record), text, "place")
        return events


CHAT: Json = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}],
    "usage": None,
}
AT = {"item_id": "msg_1%d", "output_index": 0, "content_index": 0}
KINDS = {
    "plain": Kind(CHAT, ("choices", 0, "delta", "content")),
    "padded": Kind({**CHAT, "obfuscation": ""}, ("choices", 0, "delta", "content"), padding="obfuscation"),
    "spaces": Kind(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}},
        ("delta", "text"),
        padding=" ",
        opening=b"event: content_block_delta\ndata: ",
    ),
    "numbered": Kind(
        {"type": "delta", "sequence_number": 0, **AT, "delta": "", "logprobs": [], "obfuscation": ""},
        ("delta",),
        padding="obfuscation",
        number="sequence_number",
        opening=b"event: delta\ndata: ",
    ),
    "counted": Kind(
        {"candidates": [{"content": {"parts": [{"text": ""}]}}], "usage": {"total": 0, "of": [7]}, "model": "g-2.5"},
        ("candidates", 0, "content", "parts", 0, "text"),
        counted=True,
        blank=b"\r\n\r\n",
    ),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def written(kind: Kind, texts: Sequence[str], first: int = 5) -> list[bytes]:
    return [kind.write(text, number) for number, text in enumerate(texts, first)]


@pytest.mark.parametrize("separators", [(",", ":"), (",", ": "), (", ", ": ")], ids=["compact", "google's", "spaced"])
@pytest.mark.parametrize("name", KINDS)
@given(texts=st.lists(TEXTS, min_size=1), ascii=st.booleans())
@example(texts=['"}],"role":"model"},"index":', "\\", "é\n\u2028", 'say "b"', "ends in \\", "", '"'], ascii=False)
def test_all_that_repeat_the_event_are_taken_however_they_are_written(
    name: str, separators: tuple[str, str], texts: list[str], ascii: bool
) -> None:
    kind = KINDS[name]
    events = kind.taught(kind.write("first", 3, separators))
    read = [kind.write(text, number, separators, ascii=ascii) for number, text in enumerate(texts, 5)]
    taken = events.take(b"".join(read))
    whole = [len(b"".join(read[:count])) for count in range(len(read) + 1)]
    assert taken == texts[: len(taken)]
    assert events.taken == whole[len(taken)]
    assert len(taken) == len(texts) or whole[len(taken) + 1] > 8192, "all that fits into one look"


def test_a_long_read_is_taken_look_by_look(kind: Kind) -> None:
    texts = [f"word {number} " for number in range(500)]
    read, events, found = b"".join(written(kind, texts)), kind.taught(kind.write("first")), []
    while read:
        found += events.take(read)
        read = read[events.taken :]
    assert found == texts


def test_of_the_last_event_its_data_and_its_number_are_known() -> None:
    counted, numbered = KINDS["counted"], KINDS["numbered"]
    events = counted.taught(counted.write("first"))
    events.take(b"".join(written(counted, ["a", "b"], 41)))
    assert orjson.loads(events.last) == counted.saying("b", 42)
    events = numbered.taught(numbered.write("first"))
    events.take(b"".join(written(numbered, ["a", "b"], 41)))
    assert events.number == 42


def odd_ones(kind: Kind) -> st.SearchStrategy[bytes]:
    """What may stand in a stream where an event was: much like it, and seldom it."""
    event = kind.write("@@", 5)
    before, after = event.split(b'"@@"')
    pieces = [b'"a"', b'"', b"a", b",", b"\\", b"}", b"]", b"null", b"5", b" ", b'"text":"b"', b"\n", after, before]
    inner = st.lists(st.sampled_from(pieces), max_size=5).map(b"".join)
    return st.one_of(
        inner.map(lambda odd: before + odd + after),
        inner.map(lambda odd: before + b'"a"' + after + odd),
        inner.map(lambda odd: before + b'"a"' + after[:-3] + odd + after[-3:]),
        st.sampled_from([b"data: [DONE]\n\n", b": ping\n\n", b"\n", event[:-1], event.replace(b"\n", b"\r\n")]),
        st.builds(lambda text, number: kind.write(text, number), st.text("ab"), st.integers(0, 9)),
        st.just({**kind.saying("a", 5), "error": {"message": "no"}}).map(lambda odd: kind.framed(orjson.dumps(odd))),
    )


def without_digits(event: object) -> bytes:
    return orjson.dumps(event).translate(None, DIGITS + ANYWHERE)


@pytest.mark.parametrize("name", KINDS)
@given(drawn=st.data())
def test_what_is_taken_is_what_reading_each_whole_gives(name: str, drawn: st.DataObject) -> None:
    kind = KINDS[name]
    reads = drawn.draw(st.lists(odd_ones(kind), max_size=6))
    read = b"".join([*written(kind, drawn.draw(st.lists(st.text("ab"), max_size=2)), 3), *reads])
    events = kind.taught(kind.write("first", 2))
    texts = events.take(read)
    taken = read[: events.taken] if texts else b""
    records = [line[6:] for line in taken.splitlines() if line.startswith(b"data: ")]
    assert len(records) == len(texts)
    for text, record in zip(texts, records, strict=True):
        if kind.counted:  # digits are not looked at, wherever they stand
            assert record.translate(None, DIGITS + ANYWHERE) == without_digits(kind.saying(text))
            continue
        event = orjson.loads(record)
        assert event.pop(kind.padding, "").isalnum() or not kind.padding.strip() or b'"obfuscation":""' in record
        expected = kind.saying(text, event.get(kind.number, 0))
        expected.pop(kind.padding, None)
        assert event == expected


def test_the_first_that_says_more_ends_it(kind: Kind) -> None:
    late = kind.framed(orjson.dumps({**kind.saying("c", 7), "error": {"message": "no"}}))
    good = written(kind, ["a", "b"])
    for end in (late, b": ping\n\n", good[0][:-9], kind.framed(orjson.dumps(kind.saying(7, 7)))):
        events = kind.taught(kind.write("first"))
        assert events.take(b"".join([*good, end, *written(kind, ["d"], 7)])) == ["a", "b"]
        assert events.taken == len(b"".join(good))
        assert events.take(end) == []


def test_numbers_that_do_not_follow_each_other_end_it() -> None:
    kind = KINDS["numbered"]
    events = kind.taught(kind.write("first"))
    assert events.take(kind.write("a", 5) + kind.write("b", 7)) == ["a"]
    assert (events.number, events.taken) == (5, len(kind.write("a", 5)))


def test_the_numbers_of_ids_and_places_are_no_numbers_that_may_differ() -> None:
    kind = KINDS["numbered"]
    events = kind.taught(kind.write("first"))
    for name, other in (("item_id", "msg_2%d"), ("output_index", 1), ("content_index", 3)):
        assert events.take(kind.framed(orjson.dumps({**kind.saying("a", 5), name: other}))) == []


def test_halves_of_a_surrogate_pair_are_left_to_who_can_join_them(kind: Kind) -> None:
    half = kind.write("@@", 6).replace(b"@@", b"\\ud83d")
    assert kind.taught(kind.write("first")).take(kind.write("a", 5) + half) == []


def test_words_that_stand_elsewhere_too_teach_only_where_they_count(kind: Kind) -> None:
    name = str(kind.path[-1])
    event = kind.framed(orjson.dumps({"echo": {name: "first"}, **kind.saying("first")}))
    assert not kind.taught(event).is_known("place")


def test_a_number_that_stands_elsewhere_too_teaches_nothing() -> None:
    kind = KINDS["numbered"]
    event = kind.framed(orjson.dumps({"echo": {"sequence_number": 0, "x": 1}, **kind.saying("first")}))
    assert not kind.taught(event).is_known("place")


def test_data_of_several_lines_teaches_nothing(kind: Kind) -> None:
    record = kind.record_of(kind.write("first"))
    events = RepeatedEvents(kind.likeness)
    for read in (b"id: 1\n" + kind.framed(record), kind.opening + record + b"\nretry: 5\n\n", b"somewhere else"):
        events.learn(read, record, orjson.loads(record), "first", "place")
        assert not events.is_known("place")


def test_what_was_learnt_is_for_one_place(kind: Kind) -> None:
    events = kind.taught(kind.write("first"))
    assert events.is_known("place")
    assert not events.is_known("another")


def test_a_server_whose_events_all_differ_is_not_studied_for_ever(kind: Kind) -> None:
    events = RepeatedEvents(kind.likeness)
    for letter in "abcdefghij":
        assert events.wants_lesson("place") == (letter < "e")
        record = orjson.dumps({"made": letter, **kind.saying("first")})
        events.learn(kind.framed(record), record, orjson.loads(record), "first", "place")
        assert events.take(kind.framed(orjson.dumps({"made": "z", **kind.saying("first")}))) == []
    assert events.wants_lesson("another")
