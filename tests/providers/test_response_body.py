"""What a provider answers with: a stream, a document, or a web page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.response_body import ResponseBody
from gateway.providers.sse_reader import LONGEST_RECORD, UnreadableAnswerError

BEFORE = st.lists(st.sampled_from([b" ", b"\t", b"\r", b"\n"]), max_size=3).map(b"".join)
BOM = st.sampled_from([b"", b"\xef\xbb\xbf"])


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[i : i + size] for i in range(0, len(data), size)]


@given(before=BEFORE, bom=BOM, size=st.integers(1, 12))
def test_a_document_is_known_by_its_first_sign_and_is_whole_at_its_end(before: bytes, bom: bytes, size: int) -> None:
    body = ResponseBody()
    for piece in cut(bom + before + b'{"choices": [1]}', size):
        assert body.feed(piece) == []
    assert body.is_document
    assert body.document() == {"choices": [1]}
    assert body.eof() == []


@given(bom=BOM, before=st.sampled_from([b"", b"\n", b"\r\n\r\n"]), size=st.integers(1, 12))
def test_what_begins_with_a_word_or_a_comment_is_a_stream(bom: bytes, before: bytes, size: int) -> None:
    for start in (b"data: {}\n\n", b": hello\n\ndata: {}\n\n", b"event: x\ndata: {}\n\n"):
        body = ResponseBody(takes_documents=False)
        records = [record for piece in cut(bom + before + start + b"data: [1", size) for record in body.feed(piece)]
        assert records == [b"{}"]
        assert body.eof() == [b"[1"]
        assert not body.is_document


@pytest.mark.parametrize("takes_documents", [True, False])
def test_a_web_page_is_refused_and_shown_to_the_log(takes_documents: bool) -> None:
    body = ResponseBody(takes_documents=takes_documents)
    assert body.feed(b"\n \n") == []
    with pytest.raises(UnreadableAnswerError, match="web page") as caught:
        body.feed(b"  <!doctype html>" + b"x" * 500)
    assert caught.value.sample == (b"<!doctype html>" + b"x" * 500)[:200]


@pytest.mark.parametrize("document", [b'{"error": {}}', b'[{"error": {}}]'])
def test_a_document_is_refused_where_none_is_taken(document: bytes) -> None:
    with pytest.raises(UnreadableAnswerError, match="answered with a document") as caught:
        ResponseBody(takes_documents=False).feed(document)
    assert caught.value.sample == document


def test_a_document_that_is_no_json_is_refused_and_shown_to_the_log() -> None:
    body = ResponseBody()
    body.feed(b'{"choices": ')
    body.feed(b"oh no}")
    with pytest.raises(UnreadableAnswerError, match="not JSON") as caught:
        body.document()
    assert caught.value.sample == body.beginning == b'{"choices": oh no}'


def test_a_document_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    body = ResponseBody()
    body.feed(b"[")
    body.feed(b" " * (LONGEST_RECORD - 1))
    with pytest.raises(UnreadableAnswerError, match=f"a document of more than {LONGEST_RECORD} bytes"):
        body.feed(b" ")
