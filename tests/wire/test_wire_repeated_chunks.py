"""The words of chunks that are the same but for them."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.wire.repeated_chunks import RepeatedChunks

Json = dict[str, Any]
CHUNK: Json = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "choices": [{"index": 0, "delta": {"content": "first"}, "finish_reason": None}],
    "usage": None,
}
COMPACT = orjson.dumps(CHUNK)


def with_text(text: str) -> Json:
    chunk = copy.deepcopy(CHUNK)
    chunk["choices"][0]["delta"]["content"] = text
    return chunk


def taught(record: bytes = COMPACT) -> RepeatedChunks:
    chunks = RepeatedChunks()
    chunk = orjson.loads(record)
    chunks.learn(record, chunk, chunk["choices"][0]["delta"]["content"])
    return chunks


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1))
def test_all_that_repeat_the_chunk_are_taken_however_they_are_written(
    separators: tuple[str, str], texts: list[str]
) -> None:
    def written(text: str) -> bytes:
        return json.dumps(with_text(text), separators=separators, ensure_ascii=len(text) % 2 == 0).encode()

    records = [written(text) for text in texts]
    assert taught(written("first")).texts(records) == texts


BEFORE, AFTER = COMPACT.split(b'"first"')
INNER = st.lists(
    st.sampled_from(
        [b'"a"', b'"', b"a", b",", b":", b"\\", b"}", b"]", b"[", b"null", b"1", b'"usage":{}', AFTER, BEFORE]
    ),
    max_size=6,
).map(b"".join)
ODD = st.one_of(
    INNER.map(lambda inner: BEFORE + inner + AFTER),
    st.sampled_from([b"[DONE]", b"", COMPACT[:-1], BEFORE, AFTER, BEFORE[:-1] + AFTER, COMPACT + b" "]),
    st.builds(lambda text: orjson.dumps({**with_text(text), "usage": {"prompt_tokens": 1}}), st.text("ab")),
    st.text("ab").map(lambda text: orjson.dumps(with_text(text))),
)


@given(records=st.lists(ODD, max_size=6))
def test_what_is_taken_is_what_reading_each_whole_gives(records: list[bytes]) -> None:
    taken = taught().texts(records)
    assert [with_text(text) for text in taken] == [orjson.loads(record) for record in records[: len(taken)]]


QUOTED = st.lists(st.sampled_from([b"a", b'"', b'","', b"\\", b"\\n", b",", AFTER, BEFORE]), max_size=4).map(
    lambda inner: BEFORE + b'"' + b"".join(inner) + b'"' + AFTER
)


@given(records=st.lists(st.one_of(QUOTED, st.just(COMPACT)), min_size=4, max_size=8), end=st.lists(ODD, max_size=2))
@example(records=[BEFORE + quoted + AFTER for quoted in (b'"a\\"', b'"b","c"', b'"d"', b'"e"')], end=[])
@example(records=[BEFORE + quoted + AFTER for quoted in (b'"a","', b'","b"', b'"c"', b'"d"')], end=[])
def test_many_that_are_read_together_are_as_each_is_by_itself(records: list[bytes], end: list[bytes]) -> None:
    taken = taught().texts([*records, *end])
    assert [with_text(text) for text in taken] == [orjson.loads(record) for record in [*records, *end][: len(taken)]]


def test_a_burst_is_taken_up_to_its_end() -> None:
    words = ["a", 'say "b"', "line\n", "ends in \\", ""]
    stop = orjson.dumps({**CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    for burst in (words, words[:3] * 20, words * 20):
        records = [orjson.dumps(with_text(word)) for word in burst]
        assert taught().texts([*records, stop, b"[DONE]"]) == burst


def test_the_first_that_differs_ends_it() -> None:
    usage = orjson.dumps({**CHUNK, "usage": {"prompt_tokens": 1}})
    assert taught().texts([COMPACT, COMPACT, usage, COMPACT]) == ["first", "first"]


def test_a_chunk_that_says_the_words_elsewhere_too_teaches_only_where_they_count() -> None:
    chunk = {"echo": {"content": "first"}, **CHUNK}
    record = orjson.dumps(chunk)
    assert taught(record).texts([record]) == []


def test_a_read_that_brings_the_chunk_alone_needs_no_reader_of_streams() -> None:
    second = orjson.dumps(with_text("second"))
    assert taught().lone_text(b"data: %b\n\n" % second) == "second"


@pytest.mark.parametrize(
    "brought",
    [
        b"data: %b\n" % COMPACT,
        b"data: %b\n\ndata: %b\n\n" % (COMPACT, COMPACT),
        b"event: x\ndata: %b\n\n" % COMPACT,
        b"data: %b\r\n\r\n" % COMPACT,
        b"data: %b\n\n" % COMPACT.replace(b'"first"', b'"a\n\nb"'),
        b": ping\n\n",
        b"data: \n\n",
        b"data: \n",
        b"",
    ],
)
def test_any_other_read_is_left_to_it(brought: bytes) -> None:
    assert taught().lone_text(brought) == ""


def test_before_anything_is_learnt_nothing_is_taken() -> None:
    assert RepeatedChunks().texts([COMPACT]) == []
    assert RepeatedChunks().lone_text(b"data: %b\n\n" % COMPACT) == ""


def test_a_server_whose_chunks_all_differ_is_not_studied_for_ever() -> None:
    chunks = RepeatedChunks()
    for number in range(10):
        assert chunks.learning == (number < 4)
        record = orjson.dumps({**CHUNK, "created": number})
        chunks.learn(record, orjson.loads(record), "first")
    assert chunks.texts([orjson.dumps({**CHUNK, "created": 10})]) == []


# --- padded chunks

PADDED = orjson.dumps({**CHUNK, "obfuscation": "aB3"})
LETTERS = st.text("abcXYZ019", max_size=12)


@given(words=st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), LETTERS), min_size=1))
def test_chunks_may_differ_in_the_letters_that_pad_them_too(words: list[tuple[str, str]]) -> None:
    records = [orjson.dumps({**with_text(text), "obfuscation": letters}) for text, letters in words]
    assert taught(PADDED).texts(records) == [text for text, _ in words]
    assert taught(orjson.dumps({**CHUNK, "obfuscation": ""})).texts(records) == [text for text, _ in words]


PADDED_BEFORE, PADDED_REST = PADDED.split(b'"first"')
PADDED_AFTER = PADDED_REST.removesuffix(b'aB3"}')
PADDED_INNER = st.lists(
    st.sampled_from(
        [b'"a"', b'"', b"a", b",", b"\\", b"}", b'"}', b"null", b'"error":1', PADDED_AFTER, PADDED_REST, PADDED_BEFORE]
    ),
    max_size=6,
).map(b"".join)


@given(inner=PADDED_INNER, end=PADDED_INNER)
@example(inner=b'"a"', end=b"}")
def test_what_is_taken_of_padded_chunks_is_what_reading_each_whole_gives(inner: bytes, end: bytes) -> None:
    for record in (PADDED_BEFORE + inner + PADDED_AFTER + end, PADDED_BEFORE + inner + PADDED_AFTER + end + b'"}'):
        for text in taught(PADDED).texts([record]):
            chunk = orjson.loads(record)
            assert chunk.pop("obfuscation").isalnum() or record.endswith(b'"obfuscation":""}')
            assert chunk == with_text(text)


def test_what_stands_behind_the_padding_is_not_overlooked() -> None:
    late = orjson.dumps({**CHUNK, "obfuscation": "abc", "error": {"message": "no"}})
    assert taught(PADDED).texts([late]) == []
    assert taught(late).texts([late.replace(b'"abc"', b'"abcd"')]) == []
