"""gateway.providers.media_fetch, against a local server."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncGenerator

import pytest

from gateway.http_client.clients import HttpClients
from gateway.messages import (
    AudioBlock,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Message,
    TextBlock,
    ToolResult,
    UrlSource,
)
from gateway.providers.media_fetch import KEPT_SECONDS, MAX_URLS, REFUSED_SECONDS, MediaFetcher
from tests.bedrock_server import BedrockServer, Reply, bedrock_server
from tests.movable_clock import MovableClock

PNG = Base64Source(base64.b64encode(b"png").decode(), "image/png")


@pytest.fixture
async def server() -> AsyncGenerator[BedrockServer]:
    async with bedrock_server() as running:
        yield running


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def fetcher(clock: MovableClock) -> AsyncGenerator[MediaFetcher]:
    http = HttpClients(clock, allowed_private_hosts=frozenset({"127.0.0.1"}))
    yield MediaFetcher(http, clock, {ImageBlock: 100, DocumentBlock: 100})
    await http.close()


def asked(*blocks: ContentBlock) -> tuple[Message, ...]:
    return (Message("m", "user", blocks),)


def picture(server: BedrockServer, times: int = 1) -> None:
    for _ in range(times):
        server.will_reply(Reply([b"png"], 200, {"content-type": "image/png"}))


async def test_a_url_becomes_what_it_holds_also_in_a_tools_result(
    server: BedrockServer, fetcher: MediaFetcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "gateway.providers")
    picture(server)
    block = ImageBlock(UrlSource(f"{server.url}/a.png"))
    (message,) = await fetcher.inline(asked(block, ToolResult("a", (TextBlock("see"), block))))
    assert message.content == (ImageBlock(PNG), ToolResult("a", (TextBlock("see"), ImageBlock(PNG))))
    assert len(server.requests) == 1
    (step,) = (vars(each) for each in caplog.records)
    assert (step["msg"], step["kind"], step["bytes"]) == ("fetched a medium for a model", "image", 3)


async def test_what_is_no_url_to_fetch_stays_as_it_is(server: BedrockServer, fetcher: MediaFetcher) -> None:
    messages = asked(
        TextBlock("see"), ImageBlock(PNG), ImageBlock(FileSource("f")), ImageBlock(UrlSource("s3://bucket/key"))
    )
    assert await fetcher.inline(messages) == messages
    assert server.requests == []


async def test_a_document_is_called_as_its_url_ends(server: BedrockServer, fetcher: MediaFetcher) -> None:
    for _ in range(2):
        server.will_reply(Reply([b"a,b"], 200, {"content-type": "text/csv; charset=utf-8"}))
    data = base64.b64encode(b"a,b").decode()
    url = f"{server.url}/x/sales.csv?token=secret"
    (message,) = await fetcher.inline(asked(DocumentBlock(UrlSource(url)), DocumentBlock(UrlSource(url), "mine")))
    source = Base64Source(data, "text/csv")
    assert message.content == (DocumentBlock(source, "sales.csv"), DocumentBlock(source, "mine"))


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("data:image/png;base64,cG5n", PNG),
        ("data:,a%20b", Base64Source(base64.b64encode(b"a b").decode(), "text/plain")),
        ("DATA:text/csv;charset=utf-8,a", Base64Source(base64.b64encode(b"a").decode(), "text/csv")),
    ],
)
async def test_a_data_url_holds_its_own_content(fetcher: MediaFetcher, url: str, source: Base64Source) -> None:
    (message,) = await fetcher.inline(asked(ImageBlock(UrlSource(url))))
    assert message.content == (ImageBlock(source),)


@pytest.mark.parametrize(
    ("path", "status", "body"), [("/gone", 404, b""), ("/large", 200, bytes(101)), ("/elsewhere", 500, b"")]
)
async def test_what_cannot_be_had_leaves_a_note_for_the_model(
    server: BedrockServer, fetcher: MediaFetcher, path: str, status: int, body: bytes
) -> None:
    server.will_reply(Reply([body] if body else [], status, {"content-type": "image/png"}))
    (message,) = await fetcher.inline(asked(ImageBlock(UrlSource(server.url + path)), TextBlock("see?")))
    assert message.content == (TextBlock("(an image was left out: it could not be fetched)"), TextBlock("see?"))


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://10.0.0.1/x",
        "http://[::1]/x",
        "http://user:password@example.com/",
        "data:broken",
        "data:image/png;base64,!",
        "http://",
    ],
)
async def test_what_may_not_be_fetched_leaves_a_note_too(fetcher: MediaFetcher, url: str) -> None:
    (message,) = await fetcher.inline(asked(ImageBlock(UrlSource(url))))
    (note,) = message.content
    assert isinstance(note, TextBlock)
    assert note.text.startswith("(an image was left out: it")


async def test_a_kind_that_the_model_does_not_take_is_not_fetched(server: BedrockServer, fetcher: MediaFetcher) -> None:
    (message,) = await fetcher.inline(asked(AudioBlock(UrlSource(f"{server.url}/a.mp3"))))
    assert message.content == (TextBlock("(an audio was left out: the model takes no such thing)"),)
    assert server.requests == []


async def test_what_was_fetched_is_kept_for_a_while(
    server: BedrockServer, fetcher: MediaFetcher, clock: MovableClock
) -> None:
    picture(server, 2)
    messages = asked(ImageBlock(UrlSource(f"{server.url}/a.png")))
    await fetcher.inline(messages)
    await clock.advance(KEPT_SECONDS - 1)
    await fetcher.inline(messages)
    assert len(server.requests) == 1
    await clock.advance(2)
    await fetcher.inline(messages)
    assert len(server.requests) == 2


async def test_a_failure_is_remembered_for_a_shorter_while(
    server: BedrockServer, fetcher: MediaFetcher, clock: MovableClock
) -> None:
    server.will_reply(Reply([], 503))
    messages = asked(ImageBlock(UrlSource(f"{server.url}/a.png")))
    await fetcher.inline(messages)
    await fetcher.inline(messages)
    assert len(server.requests) == 1
    picture(server)
    await clock.advance(REFUSED_SECONDS + 1)
    (message,) = await fetcher.inline(messages)
    assert message.content == (ImageBlock(PNG),)


async def test_only_so_many_failures_are_remembered(server: BedrockServer, clock: MovableClock) -> None:
    http = HttpClients(clock, allowed_private_hosts=frozenset({"127.0.0.1"}))
    fetcher = MediaFetcher(http, clock, {ImageBlock: 100}, kept_bytes=1_200)
    for name in ("a", "b", "a"):
        server.will_reply(Reply([], 503))
        await fetcher.inline(asked(ImageBlock(UrlSource(f"{server.url}/{name}"))))
    assert len(server.requests) == 3
    await http.close()


async def test_only_so_many_urls_are_fetched_and_the_last_ones_count(
    server: BedrockServer, fetcher: MediaFetcher
) -> None:
    picture(server, MAX_URLS)
    blocks = [ImageBlock(UrlSource(f"{server.url}/{number}.png")) for number in range(MAX_URLS + 2)]
    (message,) = await fetcher.inline(asked(*blocks))
    assert [type(block) for block in message.content] == [TextBlock] * 2 + [ImageBlock] * MAX_URLS


async def test_what_is_kept_is_bounded(server: BedrockServer, clock: MovableClock) -> None:
    http = HttpClients(clock, allowed_private_hosts=frozenset({"127.0.0.1"}))
    fetcher = MediaFetcher(http, clock, {ImageBlock: 100, DocumentBlock: 100}, kept_bytes=1_200)
    picture(server, 4)
    for name in ("a", "b", "c"):
        await fetcher.inline(asked(ImageBlock(UrlSource(f"{server.url}/{name}"))))
    await fetcher.inline(asked(ImageBlock(UrlSource(f"{server.url}/c"))))
    assert len(server.requests) == 3
    await fetcher.inline(asked(ImageBlock(UrlSource(f"{server.url}/a"))))
    assert len(server.requests) == 4
    await http.close()
