"""Models that answer with the recorded traffic of a provider, read by that provider's reader."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from gateway.anthropic import reader as anthropic
from gateway.bedrock.converse_reader import ConverseReader
from gateway.bedrock.families import family_of
from gateway.events import Events, StopReason
from gateway.gemini import reader as gemini
from gateway.model import ModelCapabilities, ModelRequest
from gateway.openai import chat_reader, responses_reader
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import AnswerReader
from gateway.providers.repeated_events import RepeatedEventsReader
from tests.bedrock_recordings import recorded_model_id
from tests.recorded_traffic import Entry, Recordings

ReaderOf = Callable[[ModelRequest, Entry], AnswerReader]

_MODEL: Final = "gpt-x"
_RESPONSES: Final = "openai/v1/responses"
_ANSWERED: Final = 200
_PIECE: Final = 61  # bytes


def _bedrock(request: ModelRequest, entry: Entry) -> AnswerReader:
    model_id = recorded_model_id(entry)
    builder = AnswerBuilder(request, "bedrock/converse", model_id)
    return ConverseReader(builder, model_id, family_of(model_id), {})


_READERS: Final[Mapping[str, ReaderOf]] = {
    "anthropic-messages": lambda request, entry: RepeatedEventsReader(
        anthropic.MessageReader(request, _MODEL), anthropic.LIKENESS
    ),
    "bedrock-converse": _bedrock,
    "gemini-generatecontent": lambda request, entry: RepeatedEventsReader(
        gemini.GenerateContentReader(request, _MODEL), gemini.LIKENESS
    ),
    "openai-chat": lambda request, entry: RepeatedEventsReader(
        chat_reader.ChatCompletionReader(request, _MODEL), chat_reader.LIKENESS
    ),
    "openai-responses": lambda request, entry: RepeatedEventsReader(
        responses_reader.ResponsesReader(request, _RESPONSES, _MODEL), responses_reader.LIKENESS
    ),
}
_DOCUMENTS: Final = "openai-chat"
"""The provider whose recorded documents are answers to what the gateway asks."""


def _in_records(data: bytes) -> list[bytes]:
    """Each server-sent event on its own; pieces of 200 bytes where there are none."""
    if (records := data.split(b"\n\n")) and len(records) > 1:
        return [record + b"\n\n" for record in records[:-1]] + [records[-1]] * bool(records[-1])
    return _in_pieces(data, 200)


def _in_pieces(data: bytes, size: int = _PIECE) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([*range(0, len(data), size), len(data)])]


READS: Final[Mapping[str, Callable[[bytes], list[bytes]]]] = {
    "a read an event": _in_records,
    "one read": lambda data: [data],
    "small reads": _in_pieces,
}
"""How the network cuts an answer."""


class RecordedModel:
    """Answers a question with a recording, which comes in these pieces, and tools' results with `Done.`"""

    provider = "recorded"
    model_id = _MODEL
    capabilities = ModelCapabilities()

    def __init__(self, reader_of: ReaderOf, entry: Entry, pieces: Sequence[bytes]) -> None:
        self._reader_of = reader_of
        self._entry = entry
        self._pieces = pieces

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Events]:
        """As the contract says."""
        if request.messages[-1].tool_result is not None:
            builder = AnswerBuilder(request, self.provider, self.model_id)
            builder.text(0, "Done.")
            builder.finish(StopReason.END_TURN)
            yield builder.take()
            return
        reader = self._reader_of(request, self._entry)
        for piece in self._pieces:
            if events := reader.feed(piece):
                yield events
            if reader.done or reader.failure is not None:
                break
        else:
            if events := reader.eof():
                yield events
        if reader.failure is not None:
            raise reader.failure

    async def close(self) -> None:
        """Nothing to close."""


def recorded_models() -> Mapping[str, Mapping[str, RecordedModel]]:
    """By the recording's name, and by how the network cuts its answer."""
    models: dict[str, Mapping[str, RecordedModel]] = {}
    for provider, reader_of in _READERS.items():
        recordings = Recordings(provider)
        for entry in recordings.entries:
            if entry["status"] != _ANSWERED or (entry["kind"] == "json" and provider != _DOCUMENTS):
                continue
            data = recordings.answer(entry)
            name = f"{provider}/{str(entry['response']).removeprefix('test_')}"
            models[name] = {how: RecordedModel(reader_of, entry, cut(data)) for how, cut in READS.items()}
    return models
