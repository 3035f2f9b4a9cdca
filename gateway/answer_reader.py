"""An answer that comes as records, or as one document: from a provider's bytes to events, whoever the provider is.

Above: the readers of the providers' wires, and the models. Below: answer_builder, model_access, wire.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable

from gateway.answer_builder import AnswerBuilder
from gateway.clock import Clock
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import Events, ReasoningDelta, TextDelta, ToolCallDelta
from gateway.gather_window import GATHER_SECONDS, GatherWindow
from gateway.http_client.clients import HttpCall, HttpClients, StreamTimeouts
from gateway.model_access import refusal
from gateway.model_failures import failure
from gateway.wire.answer_body import AnswerBody
from gateway.wire.provider_errors import ProviderError
from gateway.wire.sse_reader import UnreadableAnswerError

_AT_ONCE_SECONDS = 0.001
# Behind one of these a run has shown its first sign, which nothing may hold back.
_WORDS = (TextDelta, ReasoningDelta, ToolCallDelta)


class AnswerReader(ABC):
    """Reads one answer: bytes in, canonical events out.

    After each `feed` look at `failure`, which is to be raised once the events are passed on, and at `done`. What a
    reader of one wire adds are the hooks at the end.
    """

    def __init__(self, builder: AnswerBuilder, *, takes_documents: bool = True) -> None:
        """`takes_documents`: the answer may be one JSON document, whatever was asked for."""
        self.done = False
        self.failure: ModelError | None = None
        self._builder = builder
        self._body = AnswerBody(takes_documents=takes_documents)

    @property
    def has_finish_reason(self) -> bool:
        """Whether the answer is whole, even if its connection does not end well."""
        return False

    def feed(self, data: bytes) -> Events:
        """The events of what one network read brought; possibly none."""
        try:
            if self.failure is None and not self.done:
                self._read(self._body.feed(data))
        except UnreadableAnswerError as error:
            self._fail(ModelErrorKind.PROTOCOL, str(error), error.sample)
        return self._builder.take()

    def eof(self) -> Events:
        """The events of an answer whose bytes have ended."""
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

    def _is_over(self) -> bool:
        return self.done or self.failure is not None

    def _fail(self, kind: ModelErrorKind, message: str, sample: bytes = b"") -> None:
        self._report_usage()
        self.failure = ModelError(kind, message, provider_message=sample.decode("utf-8", "replace"))

    def _report_failure(self, error: ProviderError) -> None:
        """The provider says itself that it failed."""
        self._report_usage()
        self.failure = failure(error)

    # --- what differs between wires -----------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, records: list[bytes]) -> None:
        """Take what one network read brought of the stream; may be empty."""

    @abstractmethod
    def _record(self, record: bytes, *, cut: bool = False) -> None:
        """Take one record. `cut`: the stream ended within it, perhaps."""

    @abstractmethod
    def _report_usage(self) -> None:
        """Give what is known of the answer's costs, once."""

    def _on_document(self, answer: object) -> None:
        """Take the whole answer, where it is a document."""
        self._fail(ModelErrorKind.PROTOCOL, "the model provider answered with a document", self._body.beginning)

    def _on_end(self) -> None:
        """The bytes ended, and nothing has said that the answer did."""
        self._fail(ModelErrorKind.TRUNCATED, "the model provider's answer was cut off")


async def read_answer(
    http: HttpClients,
    ask: Callable[[], Awaitable[HttpCall]],
    timeouts: StreamTimeouts,
    reader: AnswerReader,
    clock: Clock,
    window: GatherWindow | None = None,
) -> AsyncGenerator[Events]:
    """The events of the answer to the call that `ask` makes, a batch per network read: what a `Model.stream` gives.

    A model gives this generator as its own: one more around it would cost every batch a switch. Words that come faster
    than the `window` lets events be kept are read when its moment is over, all that came at once: they would only wait
    for that somewhere else, and waking up for each of them costs more than all that is done with it.

    Raises:
        ModelError: the provider refused, or the answer failed.
    """
    async with http.stream(await ask(), timeouts) as response:
        if response.status != 200:
            raise await refusal(response, clock.now())
        now = asyncio.get_running_loop().time
        gathers = False
        while not reader.done:
            if gathers and window is not None:
                await response.gather(window.over())
            asked = now()
            try:
                data = await response.receive()
            except ModelError:
                if not reader.has_finish_reason:
                    raise
                data = b""  # the answer is whole; only the end of its connection is not
            waited = now() - asked
            events = reader.feed(data) if data else reader.eof()
            if events:
                yield events
            gathers = _is_quick(waited, gathers) and bool(events) and type(events[-1]) in _WORDS
            if reader.failure is not None:
                raise reader.failure
        await response.settle()


def _is_quick(waited: float, gathered: bool) -> bool:
    """Whether more is likely to come before the next moment is over, after seconds of waiting for what came last."""
    return waited < (_AT_ONCE_SECONDS if gathered else GATHER_SECONDS)
