"""The words of chunks that are the same but for them and for the numbers behind them."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.wire.counted_chunks import CountedChunks

Json = dict[str, Any]
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(0, 10**6)


def chunk(text: object, count: int = 5, **more: Any) -> Json:
    content = {"parts": [{"text": text}], "role": "model"}
    usage = {"promptTokenCount": 7, "totalTokenCount": count, "details": [{"modality": "TEXT", "tokenCount": 7}]}
    return {"candidates": [{"content": content, "index": 0}], "usageMetadata": usage, "modelVersion": "g-2.5", **more}


def taught(record: bytes, text: str = "first") -> CountedChunks:
    chunks = CountedChunks()
    chunks.learn(record, orjson.loads(record), text)
    return chunks


COMPACT = orjson.dumps(chunk("first"))
TAUGHT = taught(COMPACT)


def without_digits(record: bytes) -> bytes:
    return record.translate(None, b"0123456789")


@pytest.mark.parametrize("separators", [(",", ":"), (",", ": "), (", ", ": ")], ids=["compact", "google's", "spaced"])
@given(words=st.lists(st.tuples(TEXTS, NUMBERS), min_size=1))
@example(words=[('"}],"role":"model"},"index":', 5), ("\\", 6), ("é\n\u2028", 7)])
def test_all_that_repeat_the_chunk_are_taken_however_they_are_written(
    separators: tuple[str, str], words: list[tuple[str, int]]
) -> None:
    def written(text: str, count: int) -> bytes:
        return json.dumps(chunk(text, count), separators=separators, ensure_ascii=count % 2 == 0).encode()

    chunks = taught(written("first", 3))
    assert chunks.known
    assert chunks.texts([written(text, count) for text, count in words]) == [text for text, _ in words]


BEFORE, AFTER = COMPACT.split(b'"first"')
INNER = st.lists(
    st.sampled_from(
        [b'"a"', b'"', b"a", b",", b":", b"\\", b"}", b"]", b"null", b"1", b"5", b'"text":"b"', AFTER, BEFORE, b"{}"]
    ),
    max_size=6,
).map(b"".join)
ODD = st.one_of(
    INNER.map(lambda inner: BEFORE + inner + AFTER),
    INNER.map(lambda inner: BEFORE + b'"a"' + AFTER + inner),
    st.sampled_from([b"", COMPACT[:-1], BEFORE, AFTER, BEFORE[:-1] + AFTER, COMPACT + b" "]),
    st.builds(lambda text: orjson.dumps(chunk(text, error={"code": 503})), st.text("ab")),
    st.builds(lambda text: orjson.dumps(chunk(text, promptFeedback={"blockReason": "SAFETY"})), st.text("ab")),
    st.builds(lambda text, count: orjson.dumps(chunk(text, count)), st.text("ab"), NUMBERS),
)


@given(records=st.lists(ODD, max_size=6))
@example(records=[BEFORE + b'"a"' + AFTER + b"1"])
def test_what_is_taken_is_the_chunk_that_was_learnt_but_for_its_words_and_digits(records: list[bytes]) -> None:
    """Digits are not looked at: where they stand so that it is no JSON, its words are taken all the same."""
    for text, record in zip(TAUGHT.texts(records), records, strict=False):
        assert without_digits(record) == without_digits(orjson.dumps(chunk(text)))


@pytest.mark.parametrize(
    "odd",
    [
        chunk("x", error={"code": 503}),
        chunk(7),
        {**chunk("x"), "candidates": [{**chunk("x")["candidates"][0], "finishReason": "STOP"}]},
        {**chunk("x"), "candidates": [{**chunk("x")["candidates"][0], "index": "0"}]},
        {**chunk("x"), "candidates": [{"content": {"parts": [{"text": "x"}, {"text": "y"}], "role": "model"}}]},
        {**chunk("x"), "candidates": [{"content": {"parts": [{"text": "x", "thought": True}], "role": "model"}}]},
    ],
)
def test_the_first_that_says_more_ends_it(odd: Json) -> None:
    records = [orjson.dumps(chunk("a", 1)), orjson.dumps(chunk("b", 22)), orjson.dumps(odd), orjson.dumps(chunk("c"))]
    assert TAUGHT.texts(records) == ["a", "b"]


def test_words_that_stand_elsewhere_too_teach_only_where_they_count() -> None:
    record = orjson.dumps({"echo": {"text": "first"}, **chunk("first")})
    assert taught(record).texts([record]) == []


def test_before_anything_is_learnt_nothing_is_taken() -> None:
    assert CountedChunks().texts([COMPACT]) == []


def test_a_server_whose_chunks_all_differ_is_not_studied_for_ever() -> None:
    chunks = CountedChunks()
    for number in range(10):
        assert chunks.learning == (number < 4)
        record = orjson.dumps(chunk("first", id="abcdefghij"[number]))
        chunks.learn(record, orjson.loads(record), "first")
    assert chunks.texts([orjson.dumps(chunk("first", id="z"))]) == []
