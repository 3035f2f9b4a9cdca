"""ConverseStream's frames, recorded and invented, become canonical events."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import pytest
from botocore.loaders import Loader

from gateway.bedrock.converse_reader import ConverseReader
from gateway.bedrock.families import family_of
from gateway.bedrock.guardrails import BLOCKED_INPUT, GuardrailMode
from gateway.errors import ModelError, ModelErrorKind
from gateway.events import StopReason
from gateway.messages import Message, Opaque, TextBlock, ToolCall
from gateway.model import ModelRequest
from gateway.providers.answer_builder import AnswerBuilder
from gateway.wire.stand_ins import TAKEN_BACK
from tests import converse_exceptions
from tests.bedrock_recordings import recorded_bytes, recorded_model_id, recordings
from tests.bedrock_server import (
    block_stop,
    error,
    event,
    exception,
    frame,
    hello,
    message_stop,
    metadata,
    text,
    thought,
    tool,
)
from tests.model_answers import Answer, answer_of, read_to_end
from tests.recorded_traffic import each, ways_to_cut

CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
SERVICE = Loader().load_service_model("bedrock-runtime", "service-2")

REQUEST = ModelRequest("turn", (Message("m", "user", (TextBlock("hi"),)),))


def read(*pieces: bytes, model_id: str = CLAUDE, names: dict[str, str] | None = None) -> Answer:
    builder = AnswerBuilder(REQUEST, "bedrock/converse", model_id)
    return answer_from(ConverseReader(builder, model_id, family_of(model_id), names or {}), pieces)


def answer_from(reader: ConverseReader, pieces: Iterable[bytes]) -> Answer:
    """Raises what the answer failed with."""
    events, failure = read_to_end(reader, pieces)
    if failure is not None:
        raise failure
    return answer_of(events)


@each(recordings("eventstream"))
def test_a_recorded_stream_gives_what_its_manifest_says_however_it_is_cut(entry: dict[str, Any]) -> None:
    expect = entry["expect"]
    for pieces in ways_to_cut(recorded_bytes(entry)):
        answer = read(*pieces, model_id=recorded_model_id(entry))
        assert answer.text == expect["text"]
        assert answer.reasoning == expect["reasoning"]
        assert answer.calls == [(call["id"], call["name"], call["args"]) for call in expect["tools"]]
        assert answer.raw_stop == expect["stop"]
        assert answer.usage is not None
        assert answer.usage.input_tokens == expect["usage"]["inputTokens"]
        assert answer.usage.output_tokens == expect["usage"]["outputTokens"]


def test_a_recorded_signature_is_kept_whole() -> None:
    (entry,) = [entry for entry in recordings("eventstream") if "thinking" in entry["response"]]
    (opaque,) = read(recorded_bytes(entry)).opaques
    assert opaque.kind == "signature"
    assert opaque.value.startswith("Eu0CCkgIBxABGAIqQJDccbDQkr81n7QjZ0Fi43umSvw0YvnGkMPE")
    assert base64.b64decode(opaque.value, validate=True)


# --- blocks ------------------------------------------------------------------------------------------------------


def test_an_empty_block_opens_nothing_and_padding_is_ignored() -> None:
    answer = read(
        text(""), block_stop(0), thought(1, text="hm"), block_stop(1), text("Hi", 2), message_stop(), metadata()
    )
    assert (answer.text, answer.reasoning, len(answer.blocks), answer.raws) == ("Hi", "hm", 2, [])


def test_blocks_that_are_never_stopped_end_with_the_answer() -> None:
    answer = read(thought(0, text="hm"), text("Hi", 1), message_stop(), metadata())
    assert (answer.text, answer.reasoning, answer.stop) == ("Hi", "hm", StopReason.END_TURN)


def test_calls_may_interleave_and_may_take_no_arguments() -> None:
    def start(index: int, call_id: str) -> bytes:
        begun = {"toolUse": {"toolUseId": call_id, "name": f"tool_{call_id}", "type": "tool_use"}}
        return event("contentBlockStart", contentBlockIndex=index, start=begun)

    def arguments(index: int, fragment: Any) -> bytes:
        return event("contentBlockDelta", contentBlockIndex=index, delta={"toolUse": {"input": fragment}})

    answer = read(
        start(1, "a") + start(2, "b") + arguments(2, '{"x"') + arguments(1, "") + arguments(2, ": 1}"),
        block_stop(2) + block_stop(1) + start(3, "c") + arguments(3, {"y": "é"}) + block_stop(3),
        message_stop("tool_use") + metadata(),
    )
    assert answer.calls == [("b", "tool_b", '{"x": 1}'), ("a", "tool_a", ""), ("c", "tool_c", '{"y":"é"}')]
    assert answer.stop is StopReason.TOOL_CALLS


def test_an_end_turn_with_calls_is_a_stop_for_tools() -> None:
    assert read(tool(0, "a", "add", "{}"), message_stop(), metadata()).stop is StopReason.TOOL_CALLS


def test_mapped_tool_names_come_back_as_they_were_offered() -> None:
    answer = read(tool(0, "a", "find_it_1234", "{}"), message_stop(), metadata(), names={"find_it_1234": "find it"})
    assert answer.calls == [("a", "find it", "{}")]


def test_an_id_that_the_thread_has_already_gets_another_one() -> None:
    request = ModelRequest("turn", (Message("m", "assistant", (ToolCall("a", "add", "{}"),)),))
    builder = AnswerBuilder(request, "bedrock/converse", CLAUDE)
    events = ConverseReader(builder, CLAUDE, family_of(CLAUDE), {}).feed(
        tool(0, "a", "add", "{}") + tool(1, "", "add", "{}") + message_stop() + metadata()
    )
    ids = [call_id for call_id, _, _ in answer_of(events).calls]
    assert len({*ids, "a", ""}) == 4


def test_signatures_and_sealed_reasoning_are_kept_for_the_way_back() -> None:
    sealed = [base64.b64encode(part).decode() for part in (b"one", b"two!")]
    answer = read(
        thought(0, text="hm"),
        thought(0, signature="sig"),
        block_stop(0),
        *(thought(1, redactedContent=part) for part in sealed),
        block_stop(1),
        thought(2, redactedContent=sealed[0]),  # never stopped
        thought(3, signature="bare"),
        message_stop(),
        metadata(),
    )
    kept = [(opaque.provider, opaque.model, opaque.kind, opaque.value) for opaque in answer.opaques]
    assert sorted(kept) == sorted(
        ("bedrock/converse", CLAUDE, kind, value)
        for kind, value in [
            ("signature", "sig"),
            ("redacted", base64.b64encode(b"onetwo!").decode()),
            ("redacted", base64.b64encode(b"one").decode()),
            ("signature", "bare"),
        ]
    )
    assert answer.reasoning == "hm"


def test_tools_and_results_of_the_providers_own_are_shown_and_never_called() -> None:
    result_start = {"toolResult": {"toolUseId": "s", "type": "web_search_result", "status": "success"}}
    result_delta = {"toolResult": [{"text": "found"}]}
    answer = read(
        tool(0, "s", "web_search", '{"q": "x"}', type="server_tool_use"),
        event("contentBlockStart", contentBlockIndex=1, start=result_start),
        event("contentBlockDelta", contentBlockIndex=1, delta=result_delta),
        block_stop(1),
        text("So.", 2),
        message_stop(),
        metadata(),
    )
    assert (answer.calls, answer.text, answer.stop) == ([], "So.", StopReason.END_TURN)
    assert [next(iter(raw)) for raw in answer.raws if isinstance(raw, dict)] == [
        "contentBlockStart",
        "contentBlockDelta",
        "contentBlockStop",
    ] * 2
    assert answer.raws[4] == {"contentBlockDelta": {"contentBlockIndex": 1, "delta": result_delta}}


def test_the_tool_that_stands_for_none_is_never_called() -> None:
    answer = read(tool(0, "a", "gateway_no_tool_available", "{}"), message_stop("tool_use"), metadata())
    assert (answer.calls, answer.stop) == ([], StopReason.END_TURN)


def test_citations_pictures_and_what_is_new_are_passed_on_as_they_are() -> None:
    citation = {"citation": {"title": "t", "location": {"web": {"url": "http://x"}}}}
    answer = read(
        text("As said"),
        event("contentBlockDelta", contentBlockIndex=0, delta=citation),
        block_stop(0),
        event("contentBlockDelta", contentBlockIndex=1, delta={"somethingNew": 1}),
        event("neverHeardOf", x=1),
        message_stop(additionalModelResponseFields={"a": 1}),
        metadata(),
    )
    assert answer.text == "As said"
    assert answer.raws == [
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": citation}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"somethingNew": 1}}},
        {"additionalModelResponseFields": {"a": 1}},
    ]


def test_a_surrogate_pair_that_is_cut_in_two_is_one_character() -> None:
    def half(escape: str) -> bytes:
        payload = b'{"contentBlockIndex":0,"delta":{"text":"' + escape.encode() + b'"}}'
        return frame({":event-type": "contentBlockDelta", ":message-type": "event"}, payload)

    assert read(half("a\\ud83d"), half("\\ude00b"), message_stop(), metadata()).text == "a\N{GRINNING FACE}b"


def test_the_thinking_that_nova_writes_into_its_text_is_reasoning() -> None:
    pieces = ["<thinking", "> To find it, add.", "</thin", "king>\n", "\nIt ", "is 5."]
    answer = read(*map(text, pieces), block_stop(), message_stop(), metadata(), model_id=NOVA)
    assert (answer.reasoning, answer.text) == (" To find it, add.", "It is 5.")
    assert len(answer.blocks) == 2
    held = read(text("<think"), message_stop(), metadata(), model_id=NOVA)
    assert (held.reasoning, held.text) == ("", "<think")
    assert read(text("<thinking>x</thinking>"), message_stop(), metadata()).text == "<thinking>x</thinking>"


# --- the end -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.END_TURN),  # without a call
        ("max_tokens", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("guardrail_intervened", StopReason.CONTENT_FILTER),
        ("content_filtered", StopReason.CONTENT_FILTER),
        ("model_context_window_exceeded", StopReason.CONTEXT_OVERFLOW),
        ("refusal", StopReason.REFUSAL),
        ("something_new", StopReason.END_TURN),
    ],
)
def test_every_stop_reason_has_a_meaning(reason: str, stop: StopReason) -> None:
    answer = read(text("x"), message_stop(reason), metadata())
    assert (answer.stop, answer.raw_stop) == (stop, reason)


def test_every_stop_reason_of_the_service_model_is_known(caplog: pytest.LogCaptureFixture) -> None:
    for reason in SERVICE["shapes"]["StopReason"]["enum"]:
        if reason.startswith("malformed"):
            with pytest.raises(ModelError) as caught:
                read(text("x"), message_stop(reason), metadata())
            assert caught.value.kind is ModelErrorKind.PROTOCOL
            assert caught.value.retryable
        else:
            read(message_stop(reason), metadata())
    assert "not known" not in caplog.text


@pytest.mark.parametrize("reason", ["max_tokens", "content_filtered", "model_context_window_exceeded"])
def test_a_call_in_an_answer_that_was_cut_off_is_no_stop_for_tools(reason: str) -> None:
    assert read(tool(0, "a", "add", '{"x"'), message_stop(reason), metadata()).stop is not StopReason.TOOL_CALLS


@pytest.mark.parametrize(
    ("actions", "stop"),
    [
        (["ANONYMIZED", "NONE"], StopReason.END_TURN),
        (["ANONYMIZED", "BLOCKED"], StopReason.CONTENT_FILTER),
        ([], StopReason.CONTENT_FILTER),
    ],
)
def test_a_guardrail_that_only_masked_leaves_a_whole_answer(actions: list[str], stop: StopReason) -> None:
    found = {"g": [{"wordPolicy": {"customWords": [{"match": "secret", "action": action}]}} for action in actions]}
    trace = {"guardrail": {"modelOutput": ["x"], "outputAssessments": found}}
    answer = read(text("x"), message_stop("guardrail_intervened"), metadata(trace=trace))
    assert answer.stop is stop
    assert "secret" not in repr(answer)


def test_the_input_counts_what_came_from_the_cache() -> None:
    usage = {
        "inputTokens": 2,
        "cacheWriteInputTokens": 1322,
        "cacheReadInputTokens": 10,
        "cacheReadInputTokenCount": 10,
        "outputTokens": 5,
        "totalTokens": 1339,
        "serverToolUsage": {},
    }
    counted = read(text("x"), message_stop(), metadata(usage)).usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens, counted.total_tokens) == (1334, 5, 1339)
    assert (counted.cached_input_tokens, counted.cache_write_input_tokens) == (10, 1322)


@pytest.mark.parametrize("usage", [{}, {"inputTokens": -1, "outputTokens": "many"}, {"inputTokens": None}])
def test_counts_that_are_no_counts_are_left_out(usage: dict[str, Any]) -> None:
    counted = read(text("x"), message_stop(), metadata(usage)).usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens) == (None, None)


def test_the_costs_may_come_before_the_stop_or_never() -> None:
    assert read(text("x"), metadata(), message_stop()).stop is StopReason.END_TURN
    without = read(text("x"), message_stop())
    assert (without.stop, without.usage) == (StopReason.END_TURN, None)


def test_nothing_counts_that_comes_after_the_end() -> None:
    assert read(hello("Hi") + text("more", 5) + exception("throttlingException")).text == "Hi"


@pytest.mark.parametrize("data", [b"", text("Hel"), text("Hel") + block_stop(), hello()[:-1], text("x") + metadata()])
def test_a_stream_without_its_stop_is_truncated(data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(data)
    assert caught.value.kind is ModelErrorKind.TRUNCATED
    assert caught.value.retryable


@pytest.mark.parametrize(
    "data",
    [
        b"<html><body>Bad gateway</body></html>",
        frame({":event-type": "contentBlockDelta", ":message-type": "event"}, b"{"),
        frame({":event-type": "contentBlockDelta", ":message-type": "event"}, b"[]"),
        event("contentBlockDelta", contentBlockIndex=0),
        event("contentBlockDelta", contentBlockIndex=0, delta=5),
        event("contentBlockDelta", contentBlockIndex=0, delta={"text": 5}),
        event("contentBlockDelta", contentBlockIndex=0, delta={"toolUse": {"input": "{}"}}),
        event("contentBlockDelta", contentBlockIndex=0, delta={"reasoningContent": {"redactedContent": "!"}}),
        event("contentBlockDelta", contentBlockIndex=[], delta={"text": "x"}),
        event("contentBlockStart", contentBlockIndex=0, start={"toolUse": {"toolUseId": "a"}}),
        event("messageStop"),
    ],
)
def test_what_is_no_such_stream_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ModelError) as caught:
        read(data)
    assert caught.value.kind is ModelErrorKind.PROTOCOL
    assert caught.value.message == "Bedrock's endpoint gave an answer that cannot be read"


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", converse_exceptions.of_streams())
def test_an_exception_in_the_middle_of_a_stream_ends_it(name: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(text("Hel") + exception(name, "too bad", originalStatusCode=503))
    assert (caught.value.kind, caught.value.retryable) == converse_exceptions.MEANINGS[name[0].upper() + name[1:]]
    assert caught.value.provider_message.endswith("too bad")


def test_other_error_frames_end_it_too() -> None:
    with pytest.raises(ModelError) as caught:
        read(error("InternalFailure", "oops"))
    assert (caught.value.kind, caught.value.provider_message) == (ModelErrorKind.SERVER, "InternalFailure: oops")
    with pytest.raises(ModelError) as caught:
        read(frame({":message-type": "exception", ":exception-type": "brandNewException"}, b"not json"))
    assert caught.value.kind is ModelErrorKind.SERVER


# --- guardrails --------------------------------------------------------------------------------------------------

OUTPUT = "To open the lock you turn the left pin three times and then push."


def guarded(*pieces: bytes, mode: GuardrailMode = "async", model_id: str = CLAUDE) -> Answer:
    builder = AnswerBuilder(REQUEST, "bedrock/converse", model_id)
    return answer_from(ConverseReader(builder, model_id, family_of(model_id), {}, mode), pieces)


def found(where: str, action: str = "BLOCKED", **more: Any) -> dict[str, Any]:
    assessment: Any = {"topicPolicy": {"topics": [{"name": "locks", "type": "DENY", "action": action}]}}
    return {"guardrail": {where: {"g": [assessment] if where == "outputAssessments" else assessment}, **more}}


BLOCKED_OUTPUT = found("outputAssessments", modelOutput=[OUTPUT])


@pytest.mark.parametrize(
    "pieces",
    [
        (text("To open the lock "), text("you turn "), text("Sorry, not that."), block_stop()),
        (text("To open the lock you turn "), block_stop(), text("Sorry, not that.", 1), block_stop(1)),
        (text("To open the lock you turn ") + text("Sorry, ") + text("not that."),),
    ],
    ids=["one block", "two blocks", "one read"],
)
def test_what_an_asynchronous_guardrail_let_out_is_taken_back(pieces: tuple[bytes, ...]) -> None:
    end = (message_stop("guardrail_intervened"), metadata(trace=BLOCKED_OUTPUT))
    answer = guarded(thought(5, text="The left pin."), block_stop(5), *pieces, *end)
    assert answer.stop is StopReason.CONTENT_FILTER
    assert sorted(answer.retracted) == sorted(answer.blocks)
    assert "".join(answer.retracted.values()) == "Sorry, not that."


def test_an_answer_in_tags_is_taken_back_with_its_thoughts() -> None:
    words = text("<thinking>The left pin.</thinking>To open the lock ") + text("you turn Sorry, not that.")
    end = (message_stop("guardrail_intervened"), metadata(trace=BLOCKED_OUTPUT))
    answer = guarded(words, block_stop(), *end, model_id=NOVA)
    assert sorted(answer.retracted) == sorted(answer.blocks)
    assert "".join(answer.retracted.values()) == "Sorry, not that."


def test_without_a_trace_nothing_of_the_answer_is_trusted() -> None:
    shown = (text("To open the lock you turn Sorry."), block_stop(), message_stop("guardrail_intervened"))
    for rest in ((metadata(),), ()):  # the connection may break behind the stop
        assert list(guarded(*shown, *rest).retracted.values()) == [TAKEN_BACK]


@pytest.mark.parametrize("mode", ["none", "sync"])
def test_what_a_guardrail_looked_at_first_stands(mode: GuardrailMode) -> None:
    end = (message_stop("guardrail_intervened"), metadata(trace=BLOCKED_OUTPUT))
    answer = guarded(text("To open the lock Sorry, not that."), block_stop(), *end, mode=mode)
    assert (answer.text, answer.retracted) == ("To open the lock Sorry, not that.", {})
    assert answer.stop is StopReason.CONTENT_FILTER


def test_an_answer_that_no_guardrail_minds_is_not_touched() -> None:
    answer = guarded(text("Hello "), text("there"), block_stop(), tool(1, "a", "add", "{}"), message_stop(), metadata())
    assert (answer.text, answer.retracted, answer.opaques) == ("Hello there", {}, [])


def test_a_guardrails_answer_to_a_question_that_it_blocked_says_so_to_later_requests() -> None:
    for mode in ("sync", "async"):
        end = (message_stop("guardrail_intervened"), metadata(trace=found("inputAssessment")))
        answer = guarded(text("I cannot talk about that."), block_stop(), *end, mode=mode)
        assert (answer.text, answer.retracted) == ("I cannot talk about that.", {})
        assert answer.opaques == [Opaque("bedrock/converse", CLAUDE, BLOCKED_INPUT, "blocked")]


def test_text_ends_before_what_comes_behind_it_also_under_a_guardrail() -> None:
    builder = AnswerBuilder(REQUEST, "bedrock/converse", CLAUDE)
    reader = ConverseReader(builder, CLAUDE, family_of(CLAUDE), {}, "sync")
    pieces = (text("One"), block_stop(), text("Two", 1), block_stop(1), tool(2, "a", "add", "{}"))
    kinds = [type(each).__name__ for piece in pieces for each in reader.feed(piece)]
    assert kinds == [
        *("TextStarted", "TextDelta", "TextEnded") * 2,
        *("ToolCallStarted", "ToolCallDelta", "ToolCallEnded"),
    ]
