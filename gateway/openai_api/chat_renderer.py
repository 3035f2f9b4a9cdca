"""Renders a run as a chat completion: the chunks of a stream, or one body.

Below: chat_messages, usage, errors, transcript. Above: the protocol `chat_completions`. Pure.
https://platform.openai.com/docs/api-reference/chat (November 2026)

    data: {"id","object":"chat.completion.chunk","created","model","choices":[{"index":0,"delta":{"content":"tok"},
        "finish_reason":null}]}

The first chunk has the role, then come the words, the reasoning (`reasoning_content`) and the client's calls, as the
model writes them. Behind them stand the chunk with the `finish_reason`, the usage where it is wanted, and `[DONE]`. A
failure is `data: {"error": {...}}` and `[DONE]`. All chunks have the same id, time and model; no delta is null.

Clients run the calls of an answer that ends with `tool_calls`. An answer whose calls do not wait for their results, as
one that was cut off, never ends so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import orjson

from gateway.events import (
    Deltas,
    Event,
    Incomplete,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    Outcome,
    ReasoningDelta,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.messages import JsonObject, JsonValue, ToolCall
from gateway.openai_api.backend_tools import execution_text
from gateway.openai_api.chat_messages import (
    BETWEEN,
    RETRACTION_MARK,
    BackendTools,
    Joints,
    is_refusal,
    pending_calls,
    shown_answer,
)
from gateway.openai_api.errors import error_body, run_failure
from gateway.openai_api.item_numbers import ItemNumbers
from gateway.openai_api.media_out import markdown_of
from gateway.openai_api.questions import REFUSED, question_text
from gateway.openai_api.usage import chat_usage
from gateway.protocol.earlier_calls import EarlierCall, earlier_calls, kept_calls
from gateway.store import RunRecord
from gateway.tool_output import encodable
from gateway.transcript import Transcript
from gateway.wire.text_frames import text_frames

_DONE: Final = b"data: [DONE]\n\n"
_MEMBERS: Final = ("content", "refusal", "reasoning_content")
_SHOWN: Final = frozenset(
    {
        RunStarted,
        ModelCallStarted,
        ModelCallEnded,
        TextStarted,
        ReasoningStarted,
        MediaGiven,
        MessageRetracted,
        ToolCallStarted,
        ToolCallEnded,
        ToolReturned,
        TurnRetracted,
        RunFinished,
        RunFailed,
    }
)
_VOID_CALLS: Final = (
    "the server was restarted while the model wrote tool calls, and it wrote them anew: none of these may be run;"
    " repeat the request without 'stream'"
)
_FINISH_REASONS: Mapping[StopReason, str] = MappingProxyType(
    {
        StopReason.MAX_TOKENS: "length",
        StopReason.CONTEXT_OVERFLOW: "length",
        StopReason.MAX_ITERATIONS: "length",
        StopReason.PAUSE: "length",
        StopReason.CONTENT_FILTER: "content_filter",
    }
)


@dataclass(frozen=True, slots=True)
class ChatForm:
    """The parts of an answer that come from its request. `created` is in whole Unix seconds, `model` the agent's id as
    it was asked.

    `store` and `metadata` are shown as the request had them; None: it had none. `by_word` as in `question_text`,
    `earlier` as in ResponseForm.
    """

    id: str
    created: int
    model: str
    include_usage: bool = False
    backend_tools: BackendTools = "hidden"
    store: bool | None = None
    metadata: JsonObject | None = None
    by_word: bool = False
    earlier: tuple[EarlierCall, ...] = ()

    @property
    def remembered(self) -> JsonObject:
        """The form in which the run's record keeps it; `form_of` reads it."""
        return {
            **({"by_word": True} if self.by_word else {}),
            **kept_calls(self.earlier),
            "created": self.created,
            "model": self.model,
            "include_usage": self.include_usage,
            "backend_tools": self.backend_tools,
            "store": self.store,
            "metadata": self.metadata,
        }


def form_of(record: RunRecord) -> ChatForm:
    """The form of an answer to a request that began its run earlier."""
    request = record.request or {}
    created, store, metadata = request.get("created"), request.get("store"), request.get("metadata")
    return ChatForm(
        record.client_id,
        created if isinstance(created, int) else int(record.created_at),
        str(request.get("model", record.agent_id)),
        include_usage=request.get("include_usage") is True,
        backend_tools="reasoning" if request.get("backend_tools") == "reasoning" else "hidden",
        store=store if isinstance(store, bool) else None,
        metadata=metadata if isinstance(metadata, dict) else None,
        by_word=request.get("by_word") is True,
        earlier=earlier_calls(request),
    )


class ChatCompletion:
    """The renderer of one body (renderer.Renderer). It has no frames."""

    def __init__(self, form: ChatForm, *, to_operator: bool = True) -> None:
        """`to_operator`: the caller may see why a model failed."""
        self._form = form
        self._to_operator = to_operator
        self._transcript = Transcript()
        self._written: list[str] = []  # the client's calls
        self._numbers = ItemNumbers(form.id)
        self._last: RunFinished | RunFailed | None = None

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        for event in self._transcript.follow(events):
            self._numbers.follow(event)
            if isinstance(event, RunFinished | RunFailed):
                self._last = event
            elif isinstance(event, ToolCallStarted) and event.executor == "client":
                self._written.append(event.call_id)
            elif isinstance(event, TurnRetracted):
                self._written = [call_id for call_id in self._written if call_id not in event.call_ids]
        return ()

    def final(self) -> JsonObject:
        """The `chat.completion`.

        Raises:
            RunFailedError: the run failed, or was cancelled.
        """
        last, form = self._last, self._form
        assert last is not None, "a run ends before its answer is wanted"
        if (failure := run_failure(last, agent_id=self._form.model, to_operator=self._to_operator)) is not None:
            raise failure
        assert isinstance(last, RunFinished), "all others failed"
        choice: JsonObject = {
            "index": 0,
            "message": self._message(last.outcome),
            "logprobs": None,
            "finish_reason": finish_reason(last.outcome, self._written),
        }
        echoed: JsonObject = {}
        if form.store is not None:
            echoed["store"] = form.store
        if form.metadata is not None:
            echoed["metadata"] = form.metadata
        return {
            "id": form.id,
            "object": "chat.completion",
            "created": form.created,
            "model": form.model,
            "choices": [choice],
            "usage": chat_usage(last.usage),
            **echoed,
        }

    def _message(self, outcome: Outcome) -> JsonObject:
        form = self._form
        shown = shown_answer(self._transcript.messages, form.backend_tools)
        made = {call.call_id: call for message in self._transcript.messages for call in message.tool_calls}
        content = BETWEEN.join(filter(None, (shown.content, _waits_for(outcome, form, made, self._numbers))))
        calls = self._calls(outcome, made)
        refusal = shown.refusal or (REFUSED if is_refusal(outcome) else "")
        message: JsonObject = {
            "role": "assistant",
            "content": content if content or not (calls or refusal) else None,
            "refusal": refusal or None,
        }
        if shown.reasoning:
            message["reasoning_content"] = shown.reasoning
        if calls:
            message["tool_calls"] = [_written_call(call) for call in calls]
        return message

    def _calls(self, outcome: Outcome, made: Mapping[str, ToolCall]) -> Sequence[ToolCall]:
        """The client's calls of the run, in the order in which they began, and those that an earlier run left open."""
        written = [made[call_id] for call_id in self._written]
        return [*written, *(call for call in pending_calls(outcome) if call.call_id not in self._written)]


class ChatChunks:
    """The renderer of one stream (renderer.Renderer)."""

    def __init__(self, form: ChatForm, *, to_operator: bool = True) -> None:
        """`to_operator`: the viewer may see why a model failed."""
        self._form = form
        self._to_operator = to_operator
        named = orjson.dumps({"id": form.id, "object": "chat.completion.chunk", "created": form.created})
        self._named = b'data: %b,"model":%b,"choices":' % (named[:-1], _written(form.model))
        self._no_usage = b',"usage":null}\n\n' if form.include_usage else b"}\n\n"
        # All chunks of words begin alike, up to the words, and end alike.
        self._heads = {member: b'%b[{"index":0,"delta":{"%b":' % (self._named, member.encode()) for member in _MEMBERS}
        self._tail = b'},"finish_reason":null}]%b' % self._no_usage
        self._call_tail = b"}}]%b" % self._tail
        self._joints = {member: Joints() for member in _MEMBERS}
        self._shows_tools = form.backend_tools == "reasoning"
        self._numbers = ItemNumbers(form.id)
        self._members: dict[str, str] = {}  # of the texts and reasoning that are shown, by message id
        self._said: set[str] = set()  # those that had words
        self._calls: dict[str, tuple[str, list[str]]] = {}  # names and arguments of shown backend calls
        self._written: list[str] = []  # the client's calls; each has its place as index
        self._without_arguments: set[str] = set()
        self._turn_id = ""
        self._has_refused = False
        self._has_void_calls = False  # calls of the client's were written, and taken back
        # of the last delta
        self._words_id = ""
        self._head = b""
        self._call_id = ""  # the client's call whose arguments come
        self._call_head = b""

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events."""
        frames: list[bytes] = []
        for event in events:
            if isinstance(event, ToolCallDelta):
                frames += self._add_arguments(event)
            elif isinstance(event, Deltas):
                frames += self._add_words(event)
            elif type(event) in _SHOWN:
                frames += self._rare(event)
        return frames

    def final(self) -> None:
        """There is no other answer than the stream."""

    def _rare(self, event: Event) -> Sequence[bytes]:
        self._numbers.follow(event)
        match event:
            case RunStarted():
                return [self._delta({"role": "assistant", "content": ""})]
            case ModelCallStarted(turn_id):
                self._turn_id = turn_id
            case ModelCallEnded():
                self._turn_id = ""
            case TextStarted(message_id, role, _, refusal):
                if role == "assistant":
                    self._members[message_id] = "refusal" if refusal else "content"
            case ReasoningStarted(message_id):
                self._members[message_id] = "reasoning_content"
            case MediaGiven(message_id, block):
                self._members[message_id] = "content"
                self._said.add(message_id)
                self._words_id = ""
                return [self._piece("content", message_id, markdown_of(block), alone=True)]
            case MessageRetracted(message_id, text):
                return self._retracted(message_id, text)
            case TurnRetracted():
                return self._retract_turn(event)
            case ToolCallStarted():
                return self._begin_call(event)
            case ToolCallEnded(call_id):
                return self._end_call(call_id)
            case ToolReturned():
                return [self._execution(event)] if self._shows_tools else ()
            case RunFinished() | RunFailed():
                return self._end(event)
            case _:  # nothing to show
                pass
        return ()

    def _add_words(self, event: TextDelta | ReasoningDelta) -> Sequence[bytes]:
        texts, message_id = event.texts, event.id
        if message_id == self._words_id:
            return text_frames(self._head, texts, self._tail, _written)
        if (member := self._members.get(message_id)) is None:
            return ()
        self._words_id, self._head = message_id, self._heads[member]
        self._has_refused = self._has_refused or member == "refusal"
        self._said.add(message_id)
        first = self._piece(member, message_id, texts[0])
        return [first, *text_frames(self._head, texts[1:], self._tail, _written)]

    def _piece(self, member: str, message_id: str, text: str, *, alone: bool = False) -> bytes:
        of_turn = member != "reasoning_content" and self._turn_id
        before = self._joints[member].before(of_turn or message_id, alone=alone)
        return self._words(member, before + text)

    def _words(self, member: str, text: str) -> bytes:
        return b"%b%b%b" % (self._heads[member], _written(text), self._tail)

    def _retracted(self, message_id: str, text: str) -> Sequence[bytes]:
        """A mark for text that was taken back, which the client has already; then the text that replaces it."""
        if (member := self._members.get(message_id)) is None:
            return ()
        mark = RETRACTION_MARK if message_id in self._said else ""
        said = BETWEEN.join(filter(None, (mark, text)))
        self._words_id = ""
        return [self._piece(member, message_id, said, alone=True)] if said else ()

    def _retract_turn(self, event: TurnRetracted) -> Sequence[bytes]:
        """Nothing that was sent can be taken back: a mark says so after words, and calls make it a failure."""
        self._has_void_calls |= not {*self._written}.isdisjoint(event.call_ids)
        return [frame for message_id in event.message_ids for frame in self._retracted(message_id, "")]

    def _begin_call(self, event: ToolCallStarted) -> Sequence[bytes]:
        if event.executor == "client":
            self._written.append(event.call_id)
            self._without_arguments.add(event.call_id)
            call = _written_call(ToolCall(event.call_id, event.name, ""), at_least="")
            return [self._delta({"tool_calls": [{"index": len(self._written) - 1, **call}]})]
        if self._shows_tools or event.asks:
            self._calls[event.call_id] = (event.name, [])
        return ()

    def _add_arguments(self, event: ToolCallDelta) -> Sequence[bytes]:
        call_id = event.id
        if call_id != self._call_id:
            if call_id in self._calls:
                self._calls[call_id][1].extend(event.texts)
            if call_id not in self._written:
                return ()
            self._without_arguments.discard(call_id)
            self._call_id, self._call_head = call_id, self._arguments_head(call_id)
        return text_frames(self._call_head, event.texts, self._call_tail, _written)

    def _end_call(self, call_id: str) -> Sequence[bytes]:
        """Clients parse the arguments, so there are always some."""
        self._call_id = ""
        if call_id not in self._without_arguments:
            return ()
        self._without_arguments.discard(call_id)
        return [b'%b"{}"%b' % (self._arguments_head(call_id), self._call_tail)]

    def _arguments_head(self, call_id: str) -> bytes:
        """All chunks of a call's arguments begin alike."""
        place = self._written.index(call_id)
        return b'%b[{"index":0,"delta":{"tool_calls":[{"index":%d,"function":{"arguments":' % (self._named, place)

    def _execution(self, event: ToolReturned) -> bytes:
        name, arguments = self._calls.get(event.call_id, ("", []))
        self._words_id = ""
        text = execution_text(name, "".join(arguments), event.content, is_error=event.is_error)
        return self._piece("reasoning_content", event.message_id, text)

    def _end(self, last: RunFinished | RunFailed) -> Sequence[bytes]:
        if (failure := run_failure(last, agent_id=self._form.model, to_operator=self._to_operator)) is not None:
            body = error_body(encodable(failure.message), failure.status, failure.code)
            return [b"data: %b\n\n" % orjson.dumps(body), _DONE]
        assert isinstance(last, RunFinished), "all others failed"
        if self._has_void_calls:
            return [b"data: %b\n\n" % orjson.dumps(error_body(_VOID_CALLS, 502, "server_restarted")), _DONE]
        outcome = last.outcome
        frames: list[bytes] = []
        made = {id: ToolCall(id, name, "".join(arguments)) for id, (name, arguments) in self._calls.items()}
        if waits := _waits_for(outcome, self._form, made, self._numbers):
            frames.append(self._piece("content", "", waits, alone=True))
        if is_refusal(outcome) and not self._has_refused:
            frames.append(self._piece("refusal", "", REFUSED))
        earlier = [call for call in pending_calls(outcome) if call.call_id not in self._written]
        for index, call in enumerate(earlier, len(self._written)):
            frames.append(self._delta({"tool_calls": [{"index": index, **_written_call(call)}]}))
        frames.append(self._delta({}, finish_reason(outcome, self._written)))
        if self._form.include_usage:
            usage = orjson.dumps(chat_usage(last.usage))
            frames.append(b'%b[],"usage":%b}\n\n' % (self._named, usage))
        return [*frames, _DONE]

    def _delta(self, delta: JsonObject, reason: str | None = None) -> bytes:
        choices: list[JsonValue] = [{"index": 0, "delta": delta, "finish_reason": reason}]
        return b"%b%b%b" % (self._named, orjson.dumps(choices), self._no_usage)


def _written(text: str) -> bytes:
    return orjson.dumps(encodable(text))


def finish_reason(outcome: Outcome, written: Sequence[str] = ()) -> str:
    """The reason for which a run ended, in OpenAI's words. A question for a person is a text, and ends as one. Without
    a call that waits an answer with calls of the client's (`written`) ends as one that was cut off.
    """
    if pending_calls(outcome):
        return "tool_calls"
    usual = "length" if written else "stop"
    return _FINISH_REASONS.get(outcome.reason, usual) if isinstance(outcome, Incomplete) else usual


def _waits_for(outcome: Outcome, form: ChatForm, made: Mapping[str, ToolCall], numbers: ItemNumbers) -> str:
    """The question that waits for a person, in words. `made` are calls of the run."""
    if not isinstance(outcome, Interrupted):
        return ""
    return question_text(numbers.questions(outcome.interrupts, made, form.earlier), by_word=form.by_word)


def _written_call(call: ToolCall, at_least: str = "{}") -> JsonObject:
    """A call as messages have it. Clients parse the arguments, so there are always some at the end."""
    function: JsonObject = {"name": encodable(call.name), "arguments": encodable(call.arguments) or at_least}
    return {"id": call.call_id, "type": "function", "function": function}
