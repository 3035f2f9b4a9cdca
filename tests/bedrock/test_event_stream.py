"""gateway.bedrock.event_stream, checked against botocore's decoder."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given
from hypothesis import strategies as st

from gateway.bedrock.event_stream import EventStreamDecoder, EventStreamError, Frame, parse_headers
from tests.bedrock_recordings import recorded_bytes, recordings
from tests.bedrock_server import event, frame, framed, hello, text

STREAMS = [pytest.param(recorded_bytes(entry), id=entry["response"]) for entry in recordings("eventstream")]


def decoded(pieces: Iterable[bytes]) -> list[Frame]:
    decoder = EventStreamDecoder()
    frames = [frame for piece in pieces for frame in decoder.feed(piece)]
    assert not decoder.inside_frame
    return frames


def decoded_by_botocore(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(message.headers, message.payload) for message in buffer]


def cut(data: bytes, seed: int) -> list[bytes]:
    places = sorted(random.Random(seed).sample(range(len(data) + 1), min(40, len(data))))
    return [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("data", STREAMS)
def test_a_recorded_stream_gives_botocores_frames_whole_byte_by_byte_and_cut_anywhere(data: bytes) -> None:
    expected = decoded_by_botocore(data)
    assert len(expected) > 5
    assert [(dict(frame.headers), frame.payload) for frame in decoded([data])] == expected
    assert decoded(data[i : i + 1] for i in range(len(data))) == decoded([data])
    for seed in range(10):
        assert decoded(cut(data, seed)) == decoded([data])


def header(name: bytes, kind: int, value: bytes) -> bytes:
    return bytes([len(name)]) + name + bytes([kind]) + value


ODD_HEADERS = b"".join(
    [
        header(b"yes", 0, b""),
        header(b"no", 1, b""),
        header(b"byte", 2, b"\xff"),
        header(b"short", 3, b"\x80\x00"),
        header(b"int", 4, struct.pack("!i", -5)),
        header(b"long", 5, struct.pack("!q", 2**40)),
        header(b"bytes", 6, b"\x00\x02\x00\xff"),
        header(b"text", 7, b"\x00\x04h\xc3\xa9!"),
        header(b"moment", 8, struct.pack("!q", 1_700_000_000_000)),
        header(b"uuid", 9, bytes(range(16))),
        header(b"empty", 7, b"\x00\x00"),
    ]
)


def test_every_type_of_header_is_read() -> None:
    headers = parse_headers(ODD_HEADERS)
    assert headers == {
        "yes": True,
        "no": False,
        "byte": -1,
        "short": -32768,
        "int": -5,
        "long": 2**40,
        "bytes": b"\x00\xff",
        "text": "hé!",
        "moment": 1_700_000_000_000,
        "uuid": bytes(range(16)),
        "empty": "",
    }
    (found,) = decoded_by_botocore(framed(ODD_HEADERS, b"payload"))
    assert {name: headers[name] for name in ("yes", "byte", "long", "bytes", "text")} == {
        name: found[0][name] for name in ("yes", "byte", "long", "bytes", "text")
    }


TEXT_HEADERS = st.dictionaries(st.text(max_size=20), st.text(max_size=40), max_size=4)


@pytest.mark.thorough
@given(st.lists(st.tuples(TEXT_HEADERS, st.binary(max_size=80))), st.integers(0, 1000))
def test_any_frames_cut_anywhere_come_out_as_they_went_in(
    frames: list[tuple[dict[str, str], bytes]], seed: int
) -> None:
    data = b"".join(frame(headers, payload) for headers, payload in frames)
    assert decoded(cut(data, seed)) == [Frame(headers, payload) for headers, payload in frames]


@pytest.mark.parametrize("place", [0, 5, 9, 14, 40, -5, -1])
def test_a_flipped_bit_anywhere_is_an_error(place: int) -> None:
    data = bytearray(text("hello"))
    data[place] ^= 0x10
    decoder = EventStreamDecoder()
    with pytest.raises(EventStreamError):
        # padded, so that a changed length does not merely make the decoder wait
        list(decoder.feed(bytes(data) + bytes(300)))


def test_the_frames_before_a_broken_one_are_given_first() -> None:
    broken = bytearray(text("two"))
    broken[-1] ^= 1
    frames = EventStreamDecoder().feed(text("one") + bytes(broken))
    assert b"one" in next(frames).payload
    with pytest.raises(EventStreamError, match="checksum"):
        next(frames)


def test_a_page_of_html_is_an_error_as_soon_as_a_prelude_would_be_there() -> None:
    with pytest.raises(EventStreamError):
        list(EventStreamDecoder().feed(b"<html><body>"))


@pytest.mark.parametrize(("total", "headers"), [(15, 0), (16, 1), (40, 2**20), (2**31, 10), (2**25 + 2**24, 0)])
def test_impossible_lengths_are_refused_before_anything_is_awaited(total: int, headers: int) -> None:
    prelude = struct.pack("!II", total, headers)
    with pytest.raises(EventStreamError, match="not possible"):
        list(EventStreamDecoder().feed(prelude + struct.pack("!I", zlib.crc32(prelude))))


@pytest.mark.parametrize(
    "raw",
    [
        header(b"a", 10, b""),
        header(b"a", 7, b"\x00\x09short"),
        header(b"a", 7, b"\x00"),
        header(b"a", 7, b"\x00\x01\xff"),
        header(b"a", 5, b"\x00"),
        header(b"a", 9, b"\x00"),
        b"\x09a",
    ],
)
def test_broken_headers_are_an_error(raw: bytes) -> None:
    with pytest.raises(EventStreamError):
        list(EventStreamDecoder().feed(framed(raw, b"")))


def test_a_stream_that_stops_inside_a_frame_says_so() -> None:
    decoder = EventStreamDecoder()
    whole = hello()
    assert len(list(decoder.feed(whole[:-3]))) == 4
    assert decoder.inside_frame
    assert len(list(decoder.feed(whole[-3:]))) == 1
    assert not decoder.inside_frame


def test_a_flood_of_different_headers_does_not_fill_the_memory() -> None:
    decoder = EventStreamDecoder()
    for number in range(500):
        list(decoder.feed(event(f"kind{number}")))
    assert len(decoder._header_cache) <= 64
