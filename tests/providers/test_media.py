"""Media on their way to a model: as providers take them, or left out in the same words whoever answers."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import pytest

from gateway.anthropic import messages_api as anthropic_messages
from gateway.anthropic.request import anthropic_request
from gateway.bedrock.converse_request import converse_request
from gateway.bedrock.families import family_of
from gateway.gemini import generate_content as gemini
from gateway.gemini.request import gemini_request
from gateway.messages import Base64Source, DocumentBlock, FileSource, ImageBlock, MediaBlock, Message, UrlSource
from gateway.model import ModelRequest
from gateway.openai import chat_completions as openai_chat
from gateway.openai import responses as openai_responses
from gateway.openai.chat_request import chat_request
from gateway.openai.responses_request import ResponsesTarget, responses_request
from gateway.providers.media import UnsendableError, data_url_source, picture, quoted, reachable, text_in, whole

PNG = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
OPENAI_URL = "https://api.openai.com/v1"


def chat_text(request: ModelRequest) -> str:
    return str(chat_request(request, "gpt-5", openai_chat.dialect_of(OPENAI_URL)))


def responses_text(request: ModelRequest) -> str:
    profile = openai_responses.profile_of("api.openai.com", "gpt-5")
    return str(responses_request(request, ResponsesTarget("openai/v1/responses", "gpt-5", profile, "gpt-5")))


def anthropic_text(request: ModelRequest) -> str:
    return str(anthropic_request(request, "claude-sonnet-4-5", anthropic_messages.profile_of("claude-sonnet-4-5")))


def gemini_text(request: ModelRequest) -> str:
    return str(gemini_request(request, "gemini-2.5-flash", gemini.profile_of("gemini-2.5-flash")))


def converse_text(request: ModelRequest) -> str:
    model_id = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    return str(converse_request(request, model_id, family_of(model_id)).body)


WRITERS: dict[str, Callable[[ModelRequest], str]] = {
    "chat": chat_text,
    "responses": responses_text,
    "anthropic": anthropic_text,
    "gemini": gemini_text,
    "converse": converse_text,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize(
    ("block", "why"),
    [
        (ImageBlock(UrlSource("file:///etc/passwd")), "an image was left out: the model cannot reach it where it is"),
        (DocumentBlock(Base64Source("", "application/pdf")), "a document was left out: its data is empty or broken"),
        (DocumentBlock(Base64Source("!", "application/pdf")), "a document was left out: its data is empty or broken"),
    ],
    ids=["far", "empty", "broken"],
)
def test_whoever_answers_reads_the_same_words_in_the_place_of_a_medium_that_is_not_sent(
    write: Callable[[ModelRequest], str], block: MediaBlock, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert f"({why})" in write(ModelRequest("turn", (Message("u", "user", (block,)),)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    kind, _, reason = why.partition(" was left out: ")
    assert vars(caplog.records[0])["left_out"] == {f"{kind.split()[-1]}: {reason}": 1}


@pytest.mark.parametrize(
    ("url", "held"),
    [
        ("data:image/png;base64,aGk=", Base64Source("aGk=", "image/png")),
        ("DATA:image/png;name=a.png;base64,aGk=", Base64Source("aGk=", "image/png")),
        ("data:image/png;base64,aG%6b=", Base64Source("aGk=", "image/png")),
        ("data:image/png;base64,aG\nk=", Base64Source("aGk=", "image/png")),
        ("data:,h%69", Base64Source("aGk=", "text/plain")),
        ("data:;base64,aGk=", Base64Source("aGk=", "text/plain")),
        ("data:image/png", None),
        ("data:image/png;base64,", None),
        ("data:image/png;base64,!", None),
        ("data:image/png;base64,%ff", None),
        ("https://x.example/a.png", None),
    ],
)
def test_a_data_url_is_read_as_what_it_holds(url: str, held: Base64Source | None) -> None:
    assert data_url_source(url) == held


def test_what_was_said_elsewhere_of_a_data_url_counts_where_it_says_nothing_itself() -> None:
    assert data_url_source("data:;base64,aGk=", "image/gif") == Base64Source("aGk=", "image/gif")
    assert data_url_source("data:image/png;base64,aGk=", "image/gif") == Base64Source("aGk=", "image/png")


def test_only_urls_of_the_schemes_that_a_provider_reaches_are_sent() -> None:
    far, file = UrlSource("HTTPS://x.example/a.png"), FileSource("file-1", "openai")
    assert reachable(far, "https://") == far
    assert reachable(file, "https://") == file
    assert reachable(UrlSource("data:image/png;base64,aGk="), "https://") == Base64Source("aGk=", "image/png")
    for url in ("http://x.example/a.png", "s3://bucket/key", "data:image/png;base64,!"):
        with pytest.raises(UnsendableError):
            reachable(UrlSource(url), "https://")


def test_base64_is_whole_without_the_line_breaks_of_mime_and_within_its_limit() -> None:
    assert whole("aG\r\nk=", most=2) == "aGk="
    for data in ("", "!", "aGk"):
        with pytest.raises(UnsendableError, match="empty or broken"):
            whole(data)
    with pytest.raises(UnsendableError, match="larger than 1 bytes"):
        whole("aGk=", most=1)


def test_a_picture_goes_under_the_type_that_its_bytes_tell() -> None:
    assert picture(Base64Source(PNG, "image/jpeg")) == Base64Source(PNG, "image/png")
    assert picture(Base64Source("aGk=", "image/JPG; x=y")) == Base64Source("aGk=", "image/jpeg")
    with pytest.raises(UnsendableError, match="format"):
        picture(Base64Source("aGk=", "image/tiff"))


def test_the_text_of_a_document_is_quoted_and_never_blank() -> None:
    data = b64encode("grüß".encode() + b"\xff").decode()
    assert text_in(data) == "grüß\ufffd"
    block = DocumentBlock(Base64Source(data, "text/plain"), "a.txt")
    assert quoted(block, data) == '<document name="a.txt">\ngrüß\ufffd\n</document>'
    for blank in ("", "a", b64encode(b" \n").decode()):
        with pytest.raises(UnsendableError, match="empty or broken"):
            text_in(blank)
