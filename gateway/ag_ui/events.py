"""Canonical events as AG-UI's events in server-sent frames: one `Renderer` per viewer.

Below: the words and the transcript. Above: the protocols that show a run as AG-UI. Pure. Source:
https://docs.ag-ui.com/spec/1.0/events and the models of the PyPI package `ag-ui-protocol` 1.0.0; tests hold every
frame against what the package writes. Deltas, of which a run has hundreds, are put together from bytes: at most
0.8 us each, where a pydantic model and its encoder take 43.

A frame is `data: <one JSON object>`, then, on the last frame of an event, `id: <the event's number in its run's log>`
(behind `<the log's id>:` where the client's run id has a second log), then an empty line, all with LF: HttpAgent does
not accept CRLF. Fields without a value are left out, never null. SUBAGENT_*, the *_CHUNK forms and protobuf are not
offered.

No frame is longer than HttpAgent 1.0.0 accepts (10 Mi characters). Long deltas are split, and a tool's huge result is
cut with a mark. What cannot be cut (a snapshot, a patch) is replaced by a CUSTOM event that says so: a client would
send a shortened snapshot back as its history. The server always keeps the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from gateway.ag_ui.answers import response_schema
from gateway.ag_ui.messages import MEDIA_ACTIVITY, HiddenMedia, ag_ui_messages, media_content, result_content
from gateway.ag_ui.peer import PROTOCOL_VERSION, PeerProfile
from gateway.agent import Absent
from gateway.errors import InvalidRequestError
from gateway.events import (
    ActivityChanged,
    ActivityReplaced,
    Cancelled,
    Completed,
    Custom,
    Deltas,
    Event,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    MessagesReplaced,
    ModelCallAccepted,
    ModelCallEnded,
    ModelCallStarted,
    Raw,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    RunTakenOver,
    StateChanged,
    StateReplaced,
    StepEnded,
    StepStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolExecutionStarted,
    ToolReturned,
    TurnRetracted,
    Usage,
    UsageReported,
)
from gateway.messages import NO_DATA, JsonObject, JsonValue, Message, Opaque, Role, ToolCall
from gateway.protocol.failure_words import shown_message
from gateway.transcript import OpenItems
from gateway.wire import strict_json
from gateway.wire.text_frames import numbered_frames

logger = logging.getLogger(__name__)

MAX_FRAME_BYTES: Final = 10 * 1024 * 1024 - 1024
"""A frame's JSON; HttpAgent 1.0.0 counts 10 Mi characters, with `data: ` and the id line."""

_MAX_DELTA: Final = 256 * 1024  # characters; as escapes up to six times that
_MAX_RESULT: Final = 1024 * 1024  # characters of a tool's text
_MAX_MESSAGE: Final = 8 * 1024  # characters of an error's message
_MAX_COUNT: Final = 2**53 - 1
_CUT: Final = "\n[The rest was left out: the result is too long to be shown.]"
_OMITTED: Final = "agui_gateway.omitted"
_RETRACTED: Final = "agui_gateway.retracted"

# The provider's side of a run, what the terminal event sums up, and what a snapshot of the messages shows.
_UNSHOWN: Final = frozenset(
    {
        ModelCallStarted,
        ModelCallAccepted,
        ModelCallEnded,
        UsageReported,
        RunTakenOver,
        ToolExecutionStarted,
        TurnRetracted,
    }
)

# Of each kind of delta: the event's type, and the member with the id.
_DELTAS: Final[Mapping[type[Event], tuple[bytes, bytes]]] = MappingProxyType(
    {
        TextDelta: (b"TEXT_MESSAGE_CONTENT", b"messageId"),
        ReasoningDelta: (b"REASONING_MESSAGE_CONTENT", b"messageId"),
        ToolCallDelta: (b"TOOL_CALL_ARGS", b"toolCallId"),
    }
)

# Roles that TEXT_MESSAGE_START may have; a client refuses the run for any other.
_TEXT_ROLES: Final[frozenset[Role]] = frozenset({"developer", "system", "assistant", "user"})


class Renderer:
    """Renders one run for one viewer: in that client's dialect, under one thread and run id from start to end."""

    def __init__(
        self, profile: PeerProfile, thread_id: str, run_id: str, log_id: str = "", *, to_operator: bool = False
    ) -> None:
        """`log_id` is written before the events' numbers if that run id has a second log. `to_operator`: the viewer
        may see why a model failed.
        """
        self._to_operator = to_operator
        self._profile = profile
        self._id = b"id: %b:" % log_id.encode() if log_id else b"id: "
        self._thread_id = thread_id
        self._run_id = run_id
        self._between = b"}\n" + self._id  # a delta and its number
        # The last text, reasoning and call that had deltas, and with what their frames begin.
        self._begun: dict[type[Event], tuple[str, bytes]] = dict.fromkeys(_DELTAS, ("", b""))

    def render(self, events: Sequence[Event], first: int) -> bytes:
        """The frames of events with consecutive numbers from `first`; empty if none of them has a frame.

        Events with numbers below 1 are not in the run's log; none of them is a delta.
        """
        frames: list[bytes] = []
        for event in events:
            if isinstance(event, Deltas):
                frames += self._deltas(event, first)
                first += len(event.texts)
            else:
                if type(event) not in _UNSHOWN:
                    frames.append(self._rare(event, first))
                first += 1
        return b"".join(frames)

    def prelude(self, messages: Sequence[Message], state: JsonValue | Absent, open_items: OpenItems) -> bytes:
        """The first frames for a viewer that joins late: the thread, and the open parts of the run.

        `messages` are the closed ones: 0.0.47 would get an open one twice. The frames have no id, since they belong to
        no event.

        Raises:
            InvalidRequestError: it is too large for clients. A client that got only a part of the thread would
                remove the rest by its next request.
        """
        return b"".join(_whole_frame(payload) for payload in self._prelude(messages, state, open_items))

    # --- deltas

    def _deltas(self, event: TextDelta | ReasoningDelta | ToolCallDelta, first: int) -> Sequence[bytes]:
        kind, texts = type(event), event.texts
        entity_id, prefix = self._begun[kind]
        if entity_id != event.id:
            prefix = _delta_prefix(*_DELTAS[kind], event.id)
            self._begun[kind] = event.id, prefix
        if len("".join(texts)) > _MAX_DELTA or "" in texts:
            ids = [b"%b%d\n" % (self._id, number) for number in range(first, first + len(texts))]
            return [frame for text, line in zip(texts, ids, strict=True) for frame in _pieces(prefix, text, line)]
        return numbered_frames(prefix, texts, self._between, first, b"\n\n")

    # --- everything else

    def _rare(self, event: Event, number: int) -> bytes:
        frames = [_frame(payload) for payload in self._payloads(event)]
        if frames and number > 0:
            frames[-1] = b"%b\n%b%d\n\n" % (frames[-1][:-2], self._id, number)
        return b"".join(frames)

    def _payloads(self, event: Event) -> Iterator[JsonObject]:
        match event:
            case RunStarted():
                yield self._run_started(event.parent_run_id)
            case RunFinished():
                yield self._run_finished(event)
            case RunFailed():
                said = shown_message(event.code, event.message, to_operator=self._to_operator)
                yield _run_error(said, event.code, event.usage)
            case StepStarted():
                yield {"type": "STEP_STARTED", "stepName": event.name}
            case StepEnded():
                yield {"type": "STEP_FINISHED", "stepName": event.name}
            case TextStarted():
                yield _text_start(event.message_id, event.role)
            case TextEnded():
                yield {"type": "TEXT_MESSAGE_END", "messageId": event.message_id}
                yield from _encrypted("message", event.message_id, event.opaque)
            case ReasoningStarted():
                yield from _reasoning_start(event.message_id)
            case ReasoningEnded():
                yield {"type": "REASONING_MESSAGE_END", "messageId": event.message_id}
                yield from _encrypted("message", event.message_id, event.opaque)
                yield {"type": "REASONING_END", "messageId": event.message_id}
            case ToolCallStarted():
                yield _call_start(event.call_id, event.name, event.message_id)
            case ToolCallEnded():
                yield {"type": "TOOL_CALL_END", "toolCallId": event.call_id}
                yield from _encrypted("tool-call", event.call_id, event.opaque)
            case MediaGiven():
                yield from _medium(event)
            case ToolReturned():
                yield self._result(event)
            case StateReplaced():
                yield {"type": "STATE_SNAPSHOT", "snapshot": event.state}
            case StateChanged():
                yield self._state_change(event)
            case MessageRetracted():
                yield _retraction(event)
            case MessagesReplaced():
                yield {"type": "MESSAGES_SNAPSHOT", "messages": [*ag_ui_messages(event.messages, self._profile)]}
            case ActivityReplaced():
                yield _activity(event)
            case ActivityChanged():
                yield _activity_change(event)
            case Custom():
                yield {"type": "CUSTOM", "name": event.name, "value": event.value}
            case Raw():
                yield {"type": "RAW", "event": event.event, **_given(source=event.source)}
            case TextDelta() | ReasoningDelta() | ToolCallDelta():  # render writes these itself
                pass
            case ModelCallStarted() | ModelCallAccepted() | ModelCallEnded() | UsageReported():  # see _UNSHOWN
                pass
            case RunTakenOver() | ToolExecutionStarted() | TurnRetracted():  # see _UNSHOWN
                pass

    def _run_started(self, parent_run_id: str | None = None) -> JsonObject:
        return {
            "type": "RUN_STARTED",
            "threadId": self._thread_id,
            "runId": self._run_id,
            "protocolVersion": PROTOCOL_VERSION,
            **_given(parentRunId=parent_run_id),
        }

    def _run_finished(self, event: RunFinished) -> JsonObject:
        finished: JsonObject = {"type": "RUN_FINISHED", "threadId": self._thread_id, "runId": self._run_id}
        full = self._profile.is_full
        match event.outcome:
            case Completed(pending_calls=calls):
                # 0.0.55 to 0.0.59 refuse an outcome of success that names calls, and read its absence as success
                if full:
                    finished["outcome"] = _success(calls)
            case Interrupted(interrupts=interrupts):
                finished["outcome"] = {"type": "interrupt", "interrupts": [interrupt_json(item) for item in interrupts]}
            case Incomplete(reason=reason):
                finished["result"] = {"stopReason": reason.value}
                if full:
                    finished["outcome"] = _success(())
            case Cancelled(reason=why):
                if not full:  # older clients refuse the outcome; a cancelled run must not look like a success
                    return _run_error("the run was cancelled", why, event.usage)
                finished["outcome"] = {"type": "cancelled"}
                if why != "cancelled":
                    finished = {"type": "RUN_FINISHED", "metadata": {"code": why}, **finished}
        if event.usage:
            finished["usage"] = [_usage(usage) for usage in event.usage]
        return finished

    def _state_change(self, event: StateChanged) -> JsonObject:
        # 0.0.47 cannot apply a patch in Node (its module asks fast-json-patch for a name that is not there)
        if not self._profile.is_full:
            return {"type": "STATE_SNAPSHOT", "snapshot": event.state}
        return {"type": "STATE_DELTA", "delta": list(event.patch)}

    def _result(self, event: ToolReturned) -> JsonObject:
        hidden = HiddenMedia()
        content = result_content(event.content, self._profile, hidden)
        hidden.tell()
        if isinstance(content, str) and len(content) > _MAX_RESULT:
            content = content[:_MAX_RESULT] + _CUT
        result: JsonObject = {
            "type": "TOOL_CALL_RESULT",
            "messageId": event.message_id,
            "toolCallId": event.call_id,
            "content": content or ("the tool failed" if event.is_error else ""),
            "role": "tool",
        }
        if event.is_error:  # this event has no `error`, unlike the tool's message
            result["metadata"] = {"isError": True}
        return result

    def _prelude(
        self, messages: Sequence[Message], state: JsonValue | Absent, open_items: OpenItems
    ) -> Iterator[JsonObject]:
        yield self._run_started()
        if not isinstance(state, Absent):
            yield {"type": "STATE_SNAPSHOT", "snapshot": state}
        if messages:
            yield {"type": "MESSAGES_SNAPSHOT", "messages": [*ag_ui_messages(messages, self._profile)]}
        for name in open_items.steps:
            yield {"type": "STEP_STARTED", "stepName": name}
        for reasoning in open_items.reasoning:
            yield from _reasoning_start(reasoning.message_id)
            yield from _contents("REASONING_MESSAGE_CONTENT", "messageId", reasoning.message_id, reasoning.text)
        for text in open_items.texts:
            yield _text_start(text.message_id, text.role)
            yield from _contents("TEXT_MESSAGE_CONTENT", "messageId", text.message_id, text.text)
        for call in open_items.calls:
            yield _call_start(call.call_id, call.name, call.message_id)
            yield from _contents("TOOL_CALL_ARGS", "toolCallId", call.call_id, call.arguments)
            if call.ended:
                yield {"type": "TOOL_CALL_END", "toolCallId": call.call_id}


# --- frames ------------------------------------------------------------------------------------------------------


def _delta_prefix(kind: bytes, id_field: bytes, entity_id: str) -> bytes:
    return b'data: {"type":"%b","%b":%b,"delta":' % (kind, id_field, strict_json.dump(entity_id))


def _pieces(prefix: bytes, delta: str, id_line: bytes) -> Iterator[bytes]:
    """The frames of a delta that is not plain; none for an empty one, which clients up to 0.0.47 refuse."""
    for start in range(0, len(delta), _MAX_DELTA):
        text = strict_json.dump(delta[start : start + _MAX_DELTA])
        yield b"%b%b}\n%b\n" % (prefix, text, id_line if start + _MAX_DELTA >= len(delta) else b"")


def _contents(kind: str, id_field: str, entity_id: str, text: str) -> Iterator[JsonObject]:
    for start in range(0, len(text), _MAX_DELTA):
        yield {"type": kind, id_field: entity_id, "delta": text[start : start + _MAX_DELTA]}


def _frame(payload: JsonObject) -> bytes:
    data = strict_json.dump(payload)
    if len(data) > MAX_FRAME_BYTES:
        logger.warning("an event is too large for a frame", extra={"event": payload["type"], "bytes": len(data)})
        data = strict_json.dump(_instead(payload, len(data)))
    return b"data: %b\n\n" % data


def _whole_frame(payload: JsonObject) -> bytes:
    data = strict_json.dump(payload)
    if len(data) > MAX_FRAME_BYTES:
        raise InvalidRequestError(
            f"the thread cannot be shown in one stream: its {payload['type']} would be an event of {len(data):,} bytes,"
            f" and {MAX_FRAME_BYTES:,} is the most that clients read; read its messages page by page from"
            " GET /threads/{threadId}/messages",
            code="thread_too_large",
        )
    return b"data: %b\n\n" % data


def _instead(payload: JsonObject, size: int) -> JsonObject:
    """The event that replaces a frame that is too large."""
    match payload["type"]:
        case "TOOL_CALL_RESULT":  # parts: a text would have been cut
            return {**payload, "content": _CUT.strip()}
        case "RUN_FINISHED":
            return {"type": "RUN_ERROR", "message": "the outcome is too large to be shown", "code": "event_too_large"}
        case kind:
            return {"type": "CUSTOM", "name": _OMITTED, "value": {"event": kind, "bytes": size}}


def _given(**fields: str | None) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}


# --- events ------------------------------------------------------------------------------------------------------


def _text_start(message_id: str, role: Role) -> JsonObject:
    shown = role if role in _TEXT_ROLES else "assistant"
    return {"type": "TEXT_MESSAGE_START", "messageId": message_id, "role": shown}


def _reasoning_start(message_id: str) -> Iterator[JsonObject]:
    yield {"type": "REASONING_START", "messageId": message_id}
    yield {"type": "REASONING_MESSAGE_START", "messageId": message_id, "role": "reasoning"}


def _call_start(call_id: str, name: str, message_id: str) -> JsonObject:
    return {
        "type": "TOOL_CALL_START",
        "toolCallId": call_id,
        "toolCallName": name,
        "parentMessageId": message_id,
    }


def _encrypted(subtype: str, entity_id: str, opaque: Opaque | None) -> Iterator[JsonObject]:
    if opaque is not None:
        yield {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": subtype,
            "entityId": entity_id,
            "encryptedValue": opaque.value,
        }


def _medium(event: MediaGiven) -> Iterator[JsonObject]:
    if event.block.source != NO_DATA:
        content = media_content(event.block)
        yield _activity(ActivityReplaced(event.message_id, MEDIA_ACTIVITY, content))


def _activity(event: ActivityReplaced) -> JsonObject:
    payload: JsonObject = {
        "type": "ACTIVITY_SNAPSHOT",
        "messageId": event.message_id,
        "activityType": event.activity_type,
        "content": event.content,
    }
    if not event.replace:
        payload["replace"] = False
    return payload


def _activity_change(event: ActivityChanged) -> JsonObject:
    return {
        "type": "ACTIVITY_DELTA",
        "messageId": event.message_id,
        "activityType": event.activity_type,
        "patch": list(event.patch),
    }


def _retraction(event: MessageRetracted) -> JsonObject:
    """AG-UI has no event for it. A snapshot of the messages follows, which every client understands."""
    return {"type": "CUSTOM", "name": _RETRACTED, "value": {"messageId": event.message_id, "content": event.text}}


def _run_error(message: str, code: str, usages: Sequence[Usage]) -> JsonObject:
    payload: JsonObject = {"type": "RUN_ERROR", "message": message[:_MAX_MESSAGE], "code": code}
    if usages:
        payload["usage"] = [_usage(usage) for usage in usages]
    return payload


def _success(pending: Sequence[ToolCall]) -> JsonObject:
    outcome: JsonObject = {"type": "success"}
    if pending:
        outcome["pendingToolCallIds"] = [call.call_id for call in pending]
    return outcome


def interrupt_json(interrupt: Interrupt) -> JsonObject:
    """An interrupt in a run's outcome."""
    expires_at = interrupt.expires_at
    payload: JsonObject = {
        "id": interrupt.id,
        "reason": interrupt.reason,
        "message": interrupt.message,
        **_given(toolCallId=interrupt.call_id),
    }
    if (schema := response_schema(interrupt)) is not None:
        payload["responseSchema"] = schema
    if expires_at is not None:
        payload["expiresAt"] = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
    if interrupt.metadata is not None:
        payload["metadata"] = interrupt.metadata
    return payload


def _usage(usage: Usage) -> JsonObject:
    """One TokenUsage. Its provider is only the vendor; a count that clients would refuse is left out."""
    counts = {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
    }
    payload: JsonObject = {"provider": usage.provider.partition("/")[0], "model": usage.model}
    for name, count in counts.items():
        if count is not None and 0 <= count <= _MAX_COUNT:
            payload[name] = count
    return payload
