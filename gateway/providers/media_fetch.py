"""Fetches media behind URLs, for providers that do not accept URLs.

Below: http_client and its fetch policy. A medium that cannot be fetched never fails a run: the model reads a short note
in its place.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from gateway.clock import Clock
from gateway.errors import GatewayError
from gateway.http_client.clients import HttpClients
from gateway.lru import LruCache
from gateway.messages import (
    MEDIA_KINDS,
    Base64Source,
    ContentBlock,
    DocumentBlock,
    MediaBlock,
    Message,
    TextBlock,
    ToolResult,
    UrlSource,
)
from gateway.providers.media import data_url_source, is_of_web
from gateway.wire import stand_ins

logger = logging.getLogger(__name__)

MAX_URLS = 20
KEPT_BYTES = 32 * 1024 * 1024
KEPT_SECONDS = 300.0
REFUSED_SECONDS = 30.0
_ENTRY_BYTES = 1024  # besides the URL and the medium


@dataclass(frozen=True, slots=True)
class _Kept:
    """The result of fetching a URL: the source, or a note if it failed."""

    found: Base64Source | TextBlock
    until: float


class MediaFetcher:
    """Fetches media and keeps them for a while: a loop sends the same history again and again.

    `max_bytes` is the limit for each block type. Types that are not in it are not fetched.
    """

    def __init__(
        self,
        http: HttpClients,
        clock: Clock,
        max_bytes: Mapping[type[MediaBlock], int],
        *,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._http = http
        self._clock = clock
        self._max_bytes = max_bytes
        self._kept: LruCache[tuple[str, type[MediaBlock]], _Kept] = LruCache(kept_bytes)

    async def inline(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages with `http`, `https` and `data` URLs replaced by their content, or by a note.

        Other URLs (`s3:`) stay for the provider. Of many URLs the last `MAX_URLS` are fetched.
        """
        wanted: OrderedDict[tuple[str, type[MediaBlock]], UrlSource] = OrderedDict()
        for block, source in _pointing(messages):
            wanted[source.url, type(block)] = source
            wanted.move_to_end((source.url, type(block)))
        if not wanted:
            return tuple(messages)
        keys = list(wanted)
        found: dict[tuple[str, type[MediaBlock]], Base64Source | TextBlock] = {
            key: _left_out(key[1], f"only the last {MAX_URLS} of a conversation are fetched")
            for key in keys[:-MAX_URLS]
        }
        chosen = keys[-MAX_URLS:]
        results = await asyncio.gather(*(self._one(key, wanted[key].media_type) for key in chosen))
        found.update(zip(chosen, results, strict=True))
        return tuple(_replaced(message, found) for message in messages)

    async def _one(self, key: tuple[str, type[MediaBlock]], media_type: str | None) -> Base64Source | TextBlock:
        url, kind = key
        if url[:5].lower() == "data:":
            return data_url_source(url, media_type) or _left_out(kind, stand_ins.BROKEN)
        kept = self._kept.get(key)
        if kept is not None and kept.until > self._clock.monotonic():
            return kept.found
        found = await self._fetched(url, kind, media_type)
        seconds = KEPT_SECONDS if isinstance(found, Base64Source) else REFUSED_SECONDS
        self._kept.keep(key, _Kept(found, self._clock.monotonic() + seconds), _kept_bytes(url, found))
        return found

    async def _fetched(self, url: str, kind: type[MediaBlock], media_type: str | None) -> Base64Source | TextBlock:
        if kind not in self._max_bytes:
            return _left_out(kind, stand_ins.NO_SUCH_MEDIA)
        try:
            fetched = await self._http.fetcher.fetch(url, max_bytes=self._max_bytes[kind])
        except GatewayError as error:
            logger.warning("a medium could not be fetched and was left out", extra={"code": error.code})
            return _left_out(kind, "it could not be fetched")
        extra = {"kind": MEDIA_KINDS[kind], "media_type": fetched.media_type, "bytes": len(fetched.content)}
        logger.debug("fetched a medium for a model", extra=extra)
        data = base64.b64encode(fetched.content).decode("ascii")
        return Base64Source(data, media_type or fetched.media_type or "")


def _pointing(messages: Sequence[Message]) -> Iterator[tuple[MediaBlock, UrlSource]]:
    for message in messages:
        for block in message.content:
            for part in block.content if isinstance(block, ToolResult) else (block,):
                if isinstance(part, MediaBlock) and isinstance(part.source, UrlSource) and is_of_web(part.source.url):
                    yield part, part.source


def _replaced(message: Message, found: Mapping[tuple[str, type[MediaBlock]], Base64Source | TextBlock]) -> Message:
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, ToolResult):
            content.append(replace(block, content=tuple(_with_source(part, found) for part in block.content)))
        else:
            content.append(_with_source(block, found))
    return message if tuple(content) == message.content else replace(message, content=tuple(content))


def _with_source(
    block: ContentBlock, found: Mapping[tuple[str, type[MediaBlock]], Base64Source | TextBlock]
) -> ContentBlock:
    if not isinstance(block, MediaBlock) or not isinstance(block.source, UrlSource):
        return block
    got = found.get((block.source.url, type(block)))
    if got is None or isinstance(got, TextBlock):
        return got or block
    if isinstance(block, DocumentBlock) and block.name is None and not block.source.url.startswith("data:"):
        return DocumentBlock(got, urlsplit(block.source.url).path.rpartition("/")[2] or None)
    return replace(block, source=got)


def _left_out(kind: type[MediaBlock], why: str) -> TextBlock:
    return TextBlock(stand_ins.left_out(MEDIA_KINDS[kind], why))


def _kept_bytes(url: str, found: Base64Source | TextBlock) -> int:
    return _ENTRY_BYTES + len(url) + (len(found.data) if isinstance(found, Base64Source) else 0)
