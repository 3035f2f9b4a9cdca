"""Which media of a user each provider does not take, and that it says what it takes."""

from __future__ import annotations

import pytest

from gateway.anthropic.messages_api import profile_of
from gateway.anthropic.request import media_refusal as by_anthropic
from gateway.bedrock.converse_request import media_refusal as by_bedrock
from gateway.gemini.request import media_refusal as by_gemini
from gateway.messages import (
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    MediaBlock,
    UrlSource,
    VideoBlock,
)
from gateway.model import MediaRefusal
from gateway.openai.chat_completions import Dialect
from gateway.openai.chat_request import media_refusal as by_chat
from gateway.openai.responses import Profile as ResponsesProfile
from gateway.openai.responses_request import media_refusal as by_responses

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

MEDIA: dict[str, MediaBlock] = {
    "png": ImageBlock(Base64Source(PNG, "image/png")),
    "web": ImageBlock(UrlSource("https://x/y.png", "image/png")),
    "s3": ImageBlock(UrlSource("s3://b/i.png", "image/png")),
    "gs": VideoBlock(UrlSource("gs://b/v.mp4", "video/mp4")),
    "mp4": VideoBlock(Base64Source("AAAA", "video/mp4")),
    "pdf": DocumentBlock(Base64Source("JVBERi0xLjQ=", "application/pdf")),
    "zip": DocumentBlock(Base64Source("UEsDBA==", "application/zip")),
    "file": DocumentBlock(FileSource("files/1")),
    "foreign": DocumentBlock(FileSource("f1", "elsewhere")),
    "broken": ImageBlock(Base64Source("iVBORw0KGgo...", "image/png")),
}

PROVIDERS: dict[str, tuple[MediaRefusal, set[str]]] = {
    "bedrock": (by_bedrock, {"gs", "zip", "file", "foreign"}),
    "gemini": (by_gemini, {"s3", "foreign"}),
    "chat": (by_chat(Dialect()), {"s3", "gs", "mp4", "zip", "foreign"}),
    "anthropic": (by_anthropic(profile_of("claude-sonnet-4-5")), {"s3", "gs", "mp4", "zip", "foreign"}),
    "responses": (by_responses("openai", ResponsesProfile()), {"s3", "gs", "mp4", "zip", "foreign"}),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_what_a_provider_does_not_take_is_refused_and_broken_data_is_left_to_the_model(name: str) -> None:
    refusal, refused = PROVIDERS[name]
    said = {kind: why for kind, block in MEDIA.items() if (why := refusal(block)) is not None}
    assert said.keys() == refused
    assert all("; " in why for why in said.values()), "each says what it takes instead"
