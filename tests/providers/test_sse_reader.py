"""The reader of upstreams' event streams."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.sse_reader import SseReader, UnreadableAnswerError

STREAM = (
    b'\xef\xbb\xbf: a comment\n\nevent: x\ndata: {"a": 1}\n\n'
    + 'data: {"b": "grüß 👋"}\nevent: y\n\n'.encode()
    + b"data: one\ndata: two\ndata\ndata:three\n\nid: 7\nretry: 10\n\n\n\ndata:\n\ndata: \n\ndata: [DONE]\n\n"
)
EXPECTED = [b'{"a": 1}', '{"b": "grüß 👋"}'.encode(), b"one\ntwo\n\nthree", b"[DONE]"]


def read(pieces: list[bytes]) -> list[bytes]:
    reader = SseReader()
    return [found for piece in pieces for found in reader.feed(piece)] + reader.eof()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@given(places=st.lists(st.integers(0, 500), max_size=12))
def test_every_line_end_cut_anywhere_gives_the_same_records(line_end: bytes, places: list[int]) -> None:
    stream = STREAM.replace(b"\n", line_end)
    assert read(cut(stream, places)) == EXPECTED
    assert read([stream[i : i + 1] for i in range(len(stream))]) == EXPECTED


LINES = st.sampled_from(
    [
        b"data: one",
        b"data: two",
        b"data: ",
        b"data:three",
        b"data",
        b"event: x",
        b"event: y",
        b"event:",
        b": hi",
        b"id: 7",
    ]
)


@given(records=st.lists(st.lists(LINES, max_size=3), max_size=6), line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_records_of_any_lines_give_the_data_of_their_data_lines(records: list[list[bytes]], line_end: bytes) -> None:
    """However many of them come in one read: most are of one or two lines, which are read a short way."""
    stream = b"".join(line + line_end for record in records for line in [*record, b""])
    fields = [[line.partition(b":") for line in record] for record in records]
    data = [[value.removeprefix(b" ") for name, _, value in record if name == b"data"] for record in fields]
    expected = [content for values in data if (content := b"\n".join(values))]
    assert read([b": hi" + line_end * 2, stream]) == expected
    assert read([b": hi" + line_end * 2 + stream]) == expected


def test_a_record_is_given_as_soon_as_its_blank_line_is_there() -> None:
    reader = SseReader()
    assert reader.feed(b"data: 1\n") == []
    assert reader.feed(b"\n") == [b"1"]
    assert reader.feed(b"data: 2\r\n\r") == [b"2"]
    assert reader.feed(b"\ndata: 3\r\r") == [b"3"]


def test_data_before_the_events_name_is_data_all_the_same() -> None:
    assert read([b"data: {}\nevent: message\n\n"]) == [b"{}"]


def test_only_one_space_after_the_colon_belongs_to_the_field() -> None:
    assert read([b"data:  x \n\ndata:y\n\n"]) == [b" x ", b"y"]


def test_the_last_record_needs_no_blank_line() -> None:
    assert read([b"data: 1\n\ndata: 2\n"]) == [b"1", b"2"]
    assert read([b"data: 1\n\ndata: 2"]) == [b"1", b"2"]
    assert read([b"data: 1\n\n: bye"]) == [b"1"]
    assert read([]) == []


def test_an_end_is_an_end_only_once() -> None:
    reader = SseReader()
    reader.feed(b"data: 1")
    assert reader.eof() == [b"1"]
    assert reader.eof() == []


def test_a_record_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    reader = SseReader(longest_record=1000)
    reader.feed(b"data: " + b"x" * 900)
    with pytest.raises(UnreadableAnswerError):
        reader.feed(b"x" * 200)


def test_records_after_a_long_one_do_not_count_towards_its_size() -> None:
    reader = SseReader(longest_record=100)
    for _ in range(50):
        assert reader.feed(b"data: " + b"x" * 60 + b"\n\n") == [b"x" * 60]
