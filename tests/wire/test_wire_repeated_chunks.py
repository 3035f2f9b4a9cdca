"""The words of chunks that are the same but for them."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
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


def test_the_first_that_differs_ends_it() -> None:
    usage = orjson.dumps({**CHUNK, "usage": {"prompt_tokens": 1}})
    assert taught().texts([COMPACT, COMPACT, usage, COMPACT]) == ["first", "first"]


def test_a_chunk_that_says_the_words_elsewhere_too_teaches_only_where_they_count() -> None:
    chunk = {"echo": {"content": "first"}, **CHUNK}
    record = orjson.dumps(chunk)
    assert taught(record).texts([record]) == []


def test_before_anything_is_learnt_nothing_is_taken() -> None:
    assert RepeatedChunks().texts([COMPACT]) == []


def test_a_server_whose_chunks_all_differ_is_not_studied_for_ever() -> None:
    chunks = RepeatedChunks()
    for number in range(10):
        record = orjson.dumps({**CHUNK, "obfuscation": "x" * number})
        chunks.learn(record, orjson.loads(record), "first")
    assert chunks.texts([orjson.dumps({**CHUNK, "obfuscation": "x" * 9})]) == []
