"""How a provider's bytes are cut into reads is not seen in the events, nor which way they were read.

Readers take the records of one read together, and those that bring nothing but more text by a short way. They must come
to what reading each record by itself, the long way, gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.anthropic import reader as anthropic_reader
from gateway.anthropic.reader import MessageReader
from gateway.bedrock.converse_reader import ConverseReader
from gateway.bedrock.families import family_of
from gateway.events import Events, TextDelta
from gateway.gemini import reader as gemini_reader
from gateway.gemini.reader import GenerateContentReader
from gateway.messages import Message, TextBlock
from gateway.model import ModelRequest
from gateway.openai import chat_reader, responses_reader
from gateway.openai.chat_reader import ChatCompletionReader
from gateway.openai.responses_output import ResponsesOutput
from gateway.openai.responses_reader import ResponsesReader
from gateway.providers.answer_builder import AnswerBuilder
from gateway.providers.answer_reader import AnswerReader, RecordReader
from gateway.providers.repeated_events import Likeness, RepeatedEventsReader
from tests.bedrock_server import block_stop, event, exception, message_stop, metadata, text, thought, tool
from tests.pieces import pieces

REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("hello"),)),))


def open_converse(reader: type[ConverseReader]) -> ConverseReader:
    return reader(AnswerBuilder(REQUEST, "bedrock/converse", "model"), "model", family_of("model"), {})


@dataclass(frozen=True, slots=True)
class Case:
    """A reader, the one around it that takes repeated events together, the one that knows no short way, and the records
    that are put together in any order.
    """

    open: Callable[[], AnswerReader]
    open_quick: Callable[[], AnswerReader]
    open_slow: Callable[[], AnswerReader]
    records: Sequence[bytes]


def data(*values: Any, end: bytes = b"\n\n") -> list[bytes]:
    return [b"data: " + orjson.dumps(value) + end for value in values]


def named(*values: dict[str, Any]) -> list[bytes]:
    return [b"event: %b\ndata: %b\n\n" % (value["type"].encode(), orjson.dumps(value)) for value in values]


def chunk(delta: Any, **more: Any) -> dict[str, Any]:
    reason = more.pop("reason", None)
    return {"id": "c", "choices": [{"index": more.pop("index", 0), "delta": delta, "finish_reason": reason}], **more}


CHAT = [
    *data(
        *[chunk({"content": words}, obfuscation=padding) for words in ("one ", "two ", "") for padding in ("ab", "c")],
        chunk({"content": "plain "}),
        chunk({"content": "plain too "}),
        chunk({"content": "with usage"}, usage={"prompt_tokens": 1}),
        chunk({"content": "of another"}, index=1),
        chunk({"content": "last"}, reason="stop"),
        chunk({"content": "words", "reasoning_content": "thought"}),
        chunk({"reasoning_content": "thought"}),
        chunk({"content": None, "tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": "{}"}}]}),
        {"error": {"message": "no", "code": 500}},
        {**chunk({"content": "late"}), "error": {"message": "no"}},
    ),
    b"data: [DONE]\n\n",
    b": ping\n\n",
    b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n',
    b'data: {"choices": [{"delta": {"content": "\\ude00"}}]}\n\n',
    b"data: {broken\n\n",
]


def block(index: int, **start: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": start}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


ANTHROPIC = [
    *named(
        *[block(index, type="text", text=words) for index in (0, 1) for words in ("", "first ")],
        block(1, type="thinking", thinking="", signature=""),
        block(2, type="tool_use", id="t", name="f", input={}),
        block(3, type="server_tool_use", id="s", name="web_search", input={}),
        *[delta(index, "text_delta", text=words) for index in (0, 1, 1) for words in ("a ", "b ", "")],
        delta(1, "thinking_delta", thinking="thought"),
        delta(2, "input_json_delta", partial_json="{}"),
        delta(0, "text_delta", text=7),
        delta(0, "citations_delta", citation={"url": "u"}),
        {"type": "text_delta", "index": 0, "delta": {"type": "text_delta", "text": "no delta"}},
        *[{"type": "content_block_stop", "index": index} for index in range(4)],
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
        {"type": "ping"},
        {"type": "error", "error": {"type": "overloaded_error", "message": "no"}},
    ),
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
    b'"text":"\\ud83d"}}\n\n',
]


def candidate(*parts: Any, **more: Any) -> dict[str, Any]:
    beside = [name for name in ("usageMetadata", "promptFeedback") if name in more]
    chunk: dict[str, Any] = {name: more.pop(name) for name in beside}
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **more}], **chunk}


GEMINI = data(
    *[candidate({"text": words}, index=0, usageMetadata={"promptTokenCount": 7}) for words in ("a ", "b ", "")],
    *[candidate({"text": f"{n} "}, index=0, usageMetadata={"totalTokenCount": n, "of": [{"n": 7}]}) for n in (8, 99)],
    candidate({"text": "without an index "}),
    candidate({"text": "thought", "thought": True}),
    candidate({"text": "no thought", "thought": False}),
    candidate({"text": "signed", "thoughtSignature": "s"}),
    candidate({"text": "two "}, {"text": "parts "}),
    candidate({"functionCall": {"name": "f", "args": {"a": 1}}}),
    candidate({"text": "grounded"}, groundingMetadata={"a": 1}),
    candidate({"text": "last"}, finishReason="STOP"),
    candidate({"text": "blocked"}, promptFeedback={"blockReason": "SAFETY"}),
    candidate({"text": 7}),
    {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3}},
    {"error": {"code": 503, "message": "no"}},
    {**candidate({"text": "late"}), "error": {"code": 503, "message": "no"}},
    end=b"\r\n\r\n",
)


def output(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


def more_output(item: str, place: int, words: object, part: int = 0) -> dict[str, Any]:
    at = {"item_id": item, "output_index": place, "content_index": part}
    return output("output_text.delta", **at, delta=words, logprobs=[])


RESPONSES = named(
    *[output("output_item.added", output_index=n, item={"id": f"m{n}", "type": "message"}) for n in (0, 1)],
    *[more_output(f"m{n}", n, words) for n in (0, 1) for words in ("a ", "b ", "")],
    more_output("m0", 0, "another part ", 1),
    more_output("m0", 0, "b "),
    output("reasoning_text.delta", item_id="r", output_index=2, content_index=0, delta="thought"),
    output("output_item.done", output_index=0, item={"id": "m0", "type": "message", "content": []}),
    output("completed", response={"id": "x", "status": "completed", "output": []}),
    {"type": "error", "code": "server_error", "message": "no"},
    {"type": "keepalive"},
)

CONVERSE = [
    *[text(words, index) for index in (0, 1) for words in ("a ", "b ", "")],
    text("b ", 0),
    event("contentBlockDelta", contentBlockIndex=0, delta={"text": 7}),
    event("contentBlockDelta", contentBlockIndex=0, delta={"image": {"source": {}}}),
    event("contentBlockDelta", contentBlockIndex=0, delta={}),
    thought(1, text="thought"),
    tool(2, "t", "f", "{}"),
    event("contentBlockStart", contentBlockIndex=1, start={"toolResult": {"toolUseId": "x"}}),
    block_stop(0),
    block_stop(1),
    message_stop(),
    metadata(),
    exception("throttlingException", "no"),
    event("somethingNew", text="x"),
]


class SlowChat(ChatCompletionReader):
    def _more_text(self, record: bytes) -> None:
        return None


class SlowAnthropic(MessageReader):
    def _more_text(self, record: bytes) -> None:
        return None


class SlowGemini(GenerateContentReader):
    """It learns nothing of a chunk that it does not read the fast way."""

    def _more_text(self, record: bytes) -> None:
        return None


class SlowOutput(ResponsesOutput):
    def more_of_text(self, event: Any) -> None:
        return None


class SlowResponses(ResponsesReader):
    def __init__(self, request: ModelRequest, provider: str, model_id: str) -> None:
        super().__init__(request, provider, model_id)
        self._output = SlowOutput(self._builder, request.tools, notes_words=False)


class SlowConverse(ConverseReader):
    def _more_text(self, payload: bytes) -> None:
        return None


def case_of(
    reader: Callable[[ModelRequest, str], RecordReader],
    likeness: Likeness,
    slow: Callable[[ModelRequest, str], AnswerReader],
    records: Sequence[bytes],
) -> Case:
    return Case(
        lambda: reader(REQUEST, "model"),
        lambda: RepeatedEventsReader(reader(REQUEST, "model"), likeness),
        lambda: slow(REQUEST, "model"),
        records,
    )


def responses_of(reader: type[ResponsesReader]) -> Callable[[ModelRequest, str], ResponsesReader]:
    return lambda request, model_id: reader(request, "openai", model_id)


CASES = {
    "chat completions": case_of(ChatCompletionReader, chat_reader.LIKENESS, SlowChat, CHAT),
    "anthropic": case_of(MessageReader, anthropic_reader.LIKENESS, SlowAnthropic, ANTHROPIC),
    "gemini": case_of(GenerateContentReader, gemini_reader.LIKENESS, SlowGemini, GEMINI),
    "responses": case_of(
        responses_of(ResponsesReader), responses_reader.LIKENESS, responses_of(SlowResponses), RESPONSES
    ),
    "converse": Case(
        lambda: open_converse(ConverseReader),
        lambda: open_converse(ConverseReader),
        lambda: open_converse(SlowConverse),
        CONVERSE,
    ),
}


# of a message: a UUID; of a call that came without an id: a word, and as many digits
_MADE_ID = re.compile(r"\w+_[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def read(reader: AnswerReader, reads: Sequence[bytes]) -> tuple[list[str], str]:
    """The events with their ids counted, and how it failed."""
    events: Events = []
    for each in reads:
        if not reader.done and reader.failure is None:
            events += reader.feed(each)
    if not reader.done and reader.failure is None:
        events += reader.eof()
    ids: dict[str, str] = {}
    counted = [
        _MADE_ID.sub(lambda found: ids.setdefault(found[0], f"id{len(ids)}"), repr(event)) for event in pieces(events)
    ]
    return counted, repr(reader.failure and (reader.failure.kind, reader.failure.provider_message))


def in_order(records: Sequence[bytes]) -> list[bytes]:
    """The records with the numbers that they have in a stream."""
    number = re.compile(rb'(?<="sequence_number":)\d+')
    return [number.sub(b"%d" % place, record) for place, record in enumerate(records)]


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None)
@given(drawn=st.data())
def test_many_records_in_one_read_are_what_each_by_itself_is(name: str, drawn: st.DataObject) -> None:
    case = CASES[name]
    records = in_order(drawn.draw(st.lists(st.sampled_from(case.records), max_size=12)))
    whole = b"".join(records)
    expected = read(case.open_slow(), records)
    cut = drawn.draw(st.integers(0, len(whole)))
    for opened in (case.open, case.open_quick):
        assert read(opened(), [whole]) == expected
        assert read(opened(), records) == expected
        assert read(opened(), [whole[:cut], whole[cut:]]) == expected


@pytest.mark.parametrize("name", CASES)
@settings(deadline=None)
@given(drawn=st.data())
def test_a_stretch_of_text_is_read_the_short_way_to_the_same_end(name: str, drawn: st.DataObject) -> None:
    """Most of what a model says: much text, and seldom something else."""
    case = CASES[name]
    plain = [record for record in case.records if b'"a ' in record or b'"b ' in record or b'"one ' in record]
    records = in_order(drawn.draw(st.lists(st.sampled_from([*plain * 5, *case.records]), min_size=3, max_size=40)))
    expected = read(case.open_slow(), records)
    for opened in (case.open, case.open_quick):
        assert read(opened(), [b"".join(records)]) == expected
        assert read(opened(), records) == expected


def test_the_usage_of_a_repeated_event_outlives_repeated_events_without_any() -> None:
    counted = b'data: {"candidates":[{"content":{"parts":[{"text":"a "}],"role":"model"},"index":0}],'
    counted += b'"usageMetadata":{"promptTokenCount":7}}\r\n\r\n'
    other = b'data: {"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":3}}\r\n\r\n'
    uncounted = b'data: {"candidates":[{"content":{"parts":[{"text":"b "}],"role":"model"}}]}\r\n\r\n'
    records = [counted, counted, other, counted, uncounted, uncounted]
    case = CASES["gemini"]
    assert read(case.open_quick(), records) == read(case.open_slow(), records)


def test_of_events_that_repeat_one_the_reader_itself_is_given_only_the_first() -> None:
    given: list[bytes] = []

    class Noting(ChatCompletionReader):
        def _read(self, records: list[bytes]) -> None:
            given.extend(records)
            super()._read(records)

    records = data(*[chunk({"content": f"{number} "}) for number in range(300)])
    reader = RepeatedEventsReader(Noting(REQUEST, "model"), chat_reader.LIKENESS)
    texts = [event.text for event in reader.feed(b"".join(records)) if isinstance(event, TextDelta)]
    assert "".join(texts) == "".join(f"{number} " for number in range(300))
    assert len(given) < 20
