"""Reads the bytes of any provider's answer as events.

Above: the vendors' readers and the models. Below: answer_builder, access, failures, response_body.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import Any

from gateway.commit_window import CommitWindow
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Deltas, Events
from gateway.http_client.clients import HttpCall, HttpStream, StreamTimeouts
from gateway.model import ModelEnvironment
from gateway.providers.access import refusal
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.error_bodies import ProviderError
from gateway.providers.failures import failure
from gateway.providers.response_body import ResponseBody
from gateway.providers.sse_reader import UnreadableAnswerError


class AnswerReader(ABC):
    """Reads one answer: bytes in, canonical events out.

    After each `feed`, pass on the events, then raise `failure` if there is one, and stop if it is `done`.
    """

    def __init__(self, builder: AnswerBuilder) -> None:
        self.done = False
        self.failure: ModelError | None = None
        self._builder = builder

    @property
    def has_finish_reason(self) -> bool:
        """Whether the answer is whole, even if its connection does not end well."""
        return False

    @abstractmethod
    def feed(self, data: bytes) -> Events:
        """The events in the bytes of one network read; possibly none."""

    @abstractmethod
    def eof(self) -> Events:
        """The events of an answer whose bytes have ended."""

    def _is_over(self) -> bool:
        return self.done or self.failure is not None


class RecordReader(AnswerReader):
    """Reads an answer that comes as server-sent events, or as one document.

    The reader of a wire implements the methods at the end of the class. `last_text` shows a RepeatedEventsReader how
    this wire writes text: the last record of the last `read`, its JSON value and its text, if it brought more text and
    nothing else.
    """

    def __init__(self, builder: AnswerBuilder, *, takes_documents: bool = True) -> None:
        """`takes_documents`: the answer may be one JSON document instead of a stream."""
        super().__init__(builder)
        self.last_text: tuple[bytes, Any, str] | None = None
        self._body = ResponseBody(takes_documents=takes_documents)

    def feed(self, data: bytes) -> Events:
        """As AnswerReader says."""
        self.read(data)
        return self._builder.take()

    def read(self, data: bytes) -> None:
        """Take in the bytes of one network read, or a part of them. The next `feed` gives the events, too."""
        if self._is_over():
            return
        self.last_text = None
        try:
            self._read(self._body.feed(data))
        except UnreadableAnswerError as error:
            self._fail(ModelErrorKind.PROTOCOL, str(error), error.sample)

    @property
    def expects_record(self) -> bool:
        """Whether the next byte begins a record."""
        return self._body.is_between_records and not self._is_over()

    def eof(self) -> Events:
        """As AnswerReader says."""
        if self._is_over():
            return []
        try:
            if self._body.is_document:
                self._on_document(self._body.document())
            else:
                for record in self._body.eof():
                    self._record(record, cut=True)
        except UnreadableAnswerError as error:
            self._fail(ModelErrorKind.PROTOCOL, str(error), error.sample)
        if not self._is_over():
            self._on_end()
        return self._builder.take()

    def _fail(self, kind: ModelErrorKind, message: str, sample: bytes = b"") -> None:
        self._report_usage()
        self.failure = ModelError(kind, message, provider_message=sample.decode("utf-8", "replace"))

    def _report_failure(self, error: ProviderError) -> None:
        """The provider itself says that it failed."""
        self._report_usage()
        self.failure = failure(error)

    # --- what differs between wires -----------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, records: list[bytes]) -> None:
        """Take the records of one network read; there may be none."""

    @property
    @abstractmethod
    def text_place(self) -> Hashable:
        """The block of the current text; None if the next event is not likely to bring more of it."""

    @abstractmethod
    def take_texts(self, texts: list[str], last: bytes, number: int) -> None:
        """Take the texts of events that bring more text for that block and nothing else. `last` is the record of the
        last of them and `number` its number, if this wire's `Likeness` has numbers.
        """

    @abstractmethod
    def _record(self, record: bytes, *, cut: bool = False) -> None:
        """Take one record. `cut`: the stream may have ended within it."""

    @abstractmethod
    def _report_usage(self) -> None:
        """Give the usage of the answer as far as it is known, once."""

    def _on_document(self, answer: object) -> None:
        """Take an answer that is one document."""
        self._fail(ModelErrorKind.PROTOCOL, "the model provider answered with a document", self._body.beginning)

    def _on_end(self) -> None:
        """The bytes ended before the answer was complete."""
        self._fail(ModelErrorKind.TRUNCATED, "the model provider's answer was cut off")


class AnswerStream:
    """An answer that is being received: the events of each network read.

    The store keeps events of many runs together, once per commit `window`. Words that come faster are not read before
    the window closes, and then all at once: they would only wait later. Until then they stay in the system's buffers,
    because waking up for each word costs more than handling it. Deltas 1 ms apart took 95 us of processor time each
    when read at once, and take 55 us now. The end of an answer waits for its window, too.
    """

    def __init__(self, response: HttpStream, reader: AnswerReader, window: CommitWindow | None) -> None:
        """`window`: None if nobody stores the events."""
        self._response = response
        self._reader = reader
        self._window = window
        self._gathers = False
        self._waits_since = 0.0

    async def next(self) -> Events:
        """The events of the next read; possibly none. Must not be called once the reader is done.

        Raises:
            ModelError: the answer failed. All events before the failure were given.
        """
        reader, window = self._reader, self._window
        if reader.failure is not None:
            raise reader.failure
        now = asyncio.get_running_loop().time
        self._waits_since = now()
        if self._gathers and window is not None and self._response.pause():
            window.when_closed(self._read_on)
        try:
            data = await self._response.receive()
        except ModelError:
            if not reader.has_finish_reason:
                raise
            data = b""  # the answer is whole; only its connection ended badly
        events = reader.feed(data) if data else reader.eof()
        if window is not None:
            # After words alone: the first sign of an answer must not wait for more. After a short wait the next one is
            # likely to be short, too, and to end before the next window closes.
            brought_words = bool(events) and isinstance(events[-1], Deltas)
            self._gathers = brought_words and now() - self._waits_since < window.seconds
        return events

    def _read_on(self) -> None:
        self._waits_since = asyncio.get_running_loop().time()
        self._response.resume()


async def read_answer(
    environment: ModelEnvironment,
    ask: Callable[[], Awaitable[HttpCall]],
    timeouts: StreamTimeouts,
    reader: AnswerReader,
) -> AsyncGenerator[Events]:
    """The events of the answer to the call that `ask` makes, one batch per network read, as `Model.stream` gives them.

    A model returns this generator itself: another generator around it would cost each batch a switch.

    Raises:
        ModelError: the provider refused, or the answer failed.
    """
    async with environment.http.stream(await ask(), timeouts) as response:
        if response.status != 200:
            raise await refusal(response, environment.clock.now())
        answer = AnswerStream(response, reader, environment.window)
        while not reader.done:
            if events := await answer.next():
                yield events
        await response.settle()
