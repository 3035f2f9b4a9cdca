"""The parts of contents, in the spelling of Chat Completions and of Responses."""

from __future__ import annotations

import pytest

from gateway.errors import InvalidRequestError
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    JsonObject,
    JsonValue,
    TextBlock,
    UrlSource,
    VideoBlock,
)
from gateway.openai_api.content import read_content
from gateway.openai_api.fields import OpenAIFields

PNG = Base64Source("iVBORw0KGgo=", "image/png")
PNG_URL = "data:image/png;base64,iVBORw0KGgo="
PDF = Base64Source("JVBERi0x", "application/pdf")


def read(content: JsonValue, *, media: bool = True) -> tuple[ContentBlock, ...]:
    fields = OpenAIFields({"content": content}, "/messages/2")
    blocks = read_content(fields, "content", media=media)
    fields.check()
    return blocks


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "text", "text": "hello"}, TextBlock("hello")),
        ({"type": "input_text", "text": "hello"}, TextBlock("hello")),
        ({"type": "output_text", "text": "hello", "annotations": [], "logprobs": []}, TextBlock("hello")),
        ({"type": "refusal", "refusal": "no"}, TextBlock("no", refusal=True)),
        ({"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}, ImageBlock(PNG)),
        ({"type": "image_url", "image_url": PNG_URL}, ImageBlock(PNG)),
        (
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            ImageBlock(UrlSource("https://example.org/a.png")),
        ),
        ({"type": "input_image", "image_url": PNG_URL, "file_id": None, "detail": "auto"}, ImageBlock(PNG)),
        ({"type": "input_image", "file_id": "file-1", "image_url": None}, ImageBlock(FileSource("file-1"))),
        (
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            AudioBlock(Base64Source("UklGRg==", "audio/wav")),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
            AudioBlock(Base64Source("SUQz", "audio/mpeg")),
        ),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0x", "filename": "a.pdf"}},
            DocumentBlock(PDF, "a.pdf"),
        ),
        ({"type": "file", "file": {"file_data": "JVBERi0x", "filename": "a.pdf"}}, DocumentBlock(PDF, "a.pdf")),
        ({"type": "file", "file": {"file_id": "file-1"}}, DocumentBlock(FileSource("file-1"))),
        (
            {"type": "input_file", "file_url": "https://example.org/a.pdf"},
            DocumentBlock(UrlSource("https://example.org/a.pdf")),
        ),
        (
            {"type": "input_file", "file_id": "file-1", "filename": "a.pdf"},
            DocumentBlock(FileSource("file-1"), "a.pdf"),
        ),
        (
            {"type": "video_url", "video_url": {"url": "https://example.org/a.mp4"}},
            VideoBlock(UrlSource("https://example.org/a.mp4")),
        ),
    ],
)
def test_each_part_is_a_block_of_its_kind(part: JsonObject, block: ContentBlock) -> None:
    assert read([part]) == (block,)


def test_a_data_url_is_of_the_kind_that_it_says_and_may_be_escaped() -> None:
    svg: JsonObject = {"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg/%3E"}}
    pdf: JsonObject = {"type": "image_url", "image_url": {"url": "DATA:application/pdf;base64,JVBERi0x"}}

    assert read([svg, pdf]) == (ImageBlock(Base64Source("PHN2Zy8+", "image/svg+xml")), DocumentBlock(PDF))


def test_a_text_is_one_block_and_nothing_is_none() -> None:
    assert read("hello") == (TextBlock("hello"),)
    assert read(None) == read("") == read([]) == read([{"type": "text", "text": ""}]) == ()


def test_all_wrong_parts_are_named_in_one_error() -> None:
    parts: list[JsonValue] = [
        "words",
        {"type": "text"},
        {"type": "hologram"},
        {"text": "no type"},
        {"type": "image_url"},
        {"type": "image_url", "image_url": {"url": "ftp://example.org/a.png"}},
        {"type": "image_url", "image_url": 7},
        {"type": "input_audio"},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "flac"}},
        {"type": "file"},
        {"type": "file", "file": {}},
        {"type": "file", "file": {"file_data": 1, "file_id": "file-1"}},
    ]

    with pytest.raises(InvalidRequestError) as caught:
        read(parts)

    assert caught.value.status == 400
    assert [problem.pointer.removeprefix("/messages/2/content/") for problem in caught.value.problems] == [
        "0",
        "1/text",
        "2/type",
        "3/type",
        "4/image_url",
        "5/image_url/url",
        "6/image_url",
        "7/input_audio",
        "8/input_audio/format",
        "9/file",
        "10/file/file_data",
        "11/file/file_data",
    ]
    assert "messages[2].content[5].image_url.url must be an http or https URL" in caught.value.message


@pytest.mark.parametrize("content", [7, True, {"type": "text", "text": "hello"}])
def test_a_content_of_another_kind_is_wrong(content: JsonValue) -> None:
    with pytest.raises(InvalidRequestError, match=r"messages\[2\]\.content must be a string or an array of parts"):
        read(content)


def test_media_are_wrong_where_only_words_can_stand() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        read([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": PNG_URL}}], media=False)

    assert [problem.pointer for problem in caught.value.problems] == ["/messages/2/content/1/type"]
