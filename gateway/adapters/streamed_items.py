"""The items that an adapter's handler yields, as a stream of server-sent events.

Below: sse. Above: adapter_app. The items come from a task of their own, so that heartbeats go out while the handler
waits for the next one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from typing import Final

import orjson

from gateway.errors import GatewayError
from gateway.wire.strict_json import on_one_line

logger = logging.getLogger(__name__)

_AHEAD: Final = 256 * 1024  # bytes that wait for a slow client
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


class StreamedItems:
    """A source with a frame for each item. Await `begun` before it is sent. A failure after that is the last frame,
    with its code.
    """

    def __init__(self, items: AsyncIterator[object]) -> None:
        self.ended = False
        self._failure: Exception | None = None  # the handler's exception before the first frame
        self._items = items
        self._frames = bytearray()
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._read(), name="read what a handler yields")
        self._task.add_done_callback(lambda _: self._news.set())

    async def begun(self) -> None:
        """Wait for the first frame. Raises the handler's exception if there is one before that frame."""
        try:
            await self._news.wait()
        except BaseException:
            self.close()
            raise
        if self._failure is not None:
            raise self._failure

    async def next(self, timeout_seconds: float) -> bytes | None:
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._news.wait()
        except TimeoutError:
            return None
        frames, self.ended = bytes(self._frames), self._task.done()
        self._frames.clear()
        self._room.set()
        if not self.ended:
            self._news.clear()
        return frames

    def close(self) -> None:
        self._task.cancel()

    async def _read(self) -> None:
        sent = 0
        try:
            async for item in self._items:
                sent += self._add(frame_of(item))
                if len(self._frames) > _AHEAD:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:
            if sent:
                self._add(_failure_frame(error))
            else:
                self._failure = error
        finally:
            if (close := getattr(self._items, "aclose", None)) is not None:  # as generators have it
                await close()

    def _add(self, frame: bytes) -> int:
        if frame:  # an empty one would be taken for the end
            self._frames += frame
            self._news.set()
        return len(frame)


def frame_of(item: object) -> bytes:
    """The frame of an item: bytes are a frame already, a text is a frame's data, anything else becomes JSON on one
    line, also for clients that end a line at U+2028.
    """
    if isinstance(item, bytes):
        return item
    data = item if isinstance(item, str) else on_one_line(plain_json(item)).decode()
    return "".join(f"data: {line}\n" for line in _LINE_END.split(data)).encode(errors="replace") + b"\n"


def plain_json(value: object) -> bytes:
    """JSON of plain values, dataclasses and pydantic models; a model's nulls are left out. A lone surrogate, which
    models write now and then, stays as its escape.
    """
    try:
        return orjson.dumps(value, default=_plain)
    except TypeError:
        return json.dumps(value, default=_plain, separators=(",", ":"), allow_nan=False).encode()


def _plain(value: object) -> object:
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json", exclude_none=True)
    raise TypeError(
        f"{type(value).__name__} is no JSON; give dicts, lists, texts, numbers, a Response, or an async iterator"
    )


def _failure_frame(error: Exception) -> bytes:
    if isinstance(error, GatewayError):
        code, message = error.code, error.message
    else:
        logger.error("a handler failed after its response had begun", exc_info=error)
        code, message = "internal_error", "something went wrong in the gateway; its log has the details"
    return frame_of({"object": "error", "code": code, "message": message, "error": {"code": code, "message": message}})
