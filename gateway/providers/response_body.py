"""The body of a model provider's answer, while it arrives: a stream of records, one JSON document, or a web page.

The first bytes decide which it is: content types are often wrong, and many servers answer with a document even when
asked for a stream. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from gateway.providers.sse_reader import LONGEST_RECORD, SAMPLE_BYTES, SseReader, UnreadableAnswerError
from gateway.wire.lenient_json import load

_BEFORE_ANYTHING = b"\xef\xbb\xbf \t\r\n"


class ResponseBody:
    """One per answer. Feed it each read, then call `eof` once the bytes have ended.

    `feed(data)` gives the data of the stream's complete records, and nothing for a document. It raises
    UnreadableAnswerError for a web page, for a document if none is accepted, and for a body that is far too long. In
    a stream it is the SseReader's own method, so that the check costs nothing per read.
    """

    def __init__(self, *, takes_documents: bool = True) -> None:
        self.feed: Callable[[bytes], list[bytes]] = self._first
        self._takes_documents = takes_documents
        self._sse = SseReader()
        self._document = _Document()
        self.is_document = False

    @property
    def beginning(self) -> bytes:
        """The document's first bytes, for the log."""
        return self._document.whole()[:SAMPLE_BYTES]

    @property
    def is_between_records(self) -> bool:
        """Whether the body is a stream whose next bytes begin a record."""
        return not self.is_document and self._sse.is_between_records

    def document(self) -> object:
        """The JSON value of the document, which has ended.

        Raises:
            UnreadableAnswerError: it is not JSON.
        """
        try:
            return load(self._document.whole())
        except ValueError as error:
            raise UnreadableAnswerError("the model provider's answer is not JSON", self.beginning) from error

    def eof(self) -> list[bytes]:
        """The data of the stream's last record, if the blank line after it is missing; at most one."""
        return self._sse.eof()

    def _first(self, data: bytes) -> list[bytes]:
        start = data.lstrip(_BEFORE_ANYTHING)
        if start.startswith(b"<"):
            raise UnreadableAnswerError("the model provider answered with a web page", start)
        if start.startswith((b"{", b"[")):
            if not self._takes_documents:
                raise UnreadableAnswerError("the model provider answered with a document", start)
            self.is_document = True
            self.feed = self._document.feed
            return self.feed(start)
        if start:
            self.feed = self._sse.feed
        return self._sse.feed(data)


class _Document:
    """The bytes of a document."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        self._size += len(data)
        if self._size > LONGEST_RECORD:
            raise UnreadableAnswerError(f"the model provider sent a document of more than {LONGEST_RECORD} bytes")
        self._pieces.append(data)
        return []

    def whole(self) -> bytes:
        return b"".join(self._pieces)
