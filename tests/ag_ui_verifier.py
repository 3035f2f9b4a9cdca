"""A verifier of AG-UI streams, for the tests of everything that emits one.

    events = [sent.event for sent in read_stream(body)]
    verify(events)                                              what @ag-ui/client 1.0.0 refuses
    verify_server(events, thread_id="t", run_id="r")            and what this server promises beyond that

`verify` has the client's rules (https://docs.ag-ui.com/spec/1.0/events; verifyEvents of @ag-ui/client 1.0.0), numbered:

     1  nothing after RUN_ERROR but RUN_STARTED                 2  after RUN_FINISHED only RUN_ERROR or RUN_STARTED
     3  the first event is RUN_STARTED or RUN_ERROR             4  no RUN_STARTED in an active run
     5  no null where an owner, a parent or an outcome belongs  6  no TEXT_MESSAGE_START of an open message
     7  text content and end belong to an open message          8  no TOOL_CALL_START of an open call
     9  arguments and end belong to an open call               10  a step is started once, finished while open
    11  no reasoning start of what is open                     12  reasoning content and ends belong to what is open
    13  an encrypted value or activity keeps its owner         14  a subagent is started once, ended while active
    15  no message with `subagentRunId: null`                  16  nothing is open at RUN_FINISHED

Pure; it knows nothing of the gateway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Payload = Mapping[str, Any]


class BrokenRuleError(AssertionError):
    """The stream breaks a rule; `rule` is its number above, or the name of a promise of this server."""

    def __init__(self, rule: int | str, position: int, event: object, why: str) -> None:
        super().__init__(f"rule {rule} is broken at event {position}: {why}: {event!r}")
        self.rule = rule


class SentEvent(NamedTuple):
    """An event with the `id:` of its frame, None where the frame has none."""

    id: int | None
    event: dict[str, Any]


def read_stream(body: bytes) -> list[SentEvent]:
    """The events of a response's body. Comments are skipped; bytes after the last empty line must not be there.

    Raises:
        BrokenRuleError: `framing`: not framed as AG-UI asks (LF, one JSON object in one `data:` line per frame).
    """
    sent: list[SentEvent] = []
    *frames, rest = body.split(b"\n\n")
    for position, frame in enumerate(frames):
        lines = frame.split(b"\n")
        data = [line for line in lines if line.startswith(b"data: ")]
        ids = [line for line in lines if line.startswith(b"id: ")]
        comments = [line for line in lines if line.startswith((b":", b"retry: "))]
        if b"\r" in frame or len(data) + len(ids) + len(comments) != len(lines) or len(ids) > 1:
            raise BrokenRuleError("framing", position, frame, "a line that is no data, id, retry or comment")
        if not data and not ids:
            continue
        if len(data) != 1:
            raise BrokenRuleError("framing", position, frame, "a frame has one data line")
        sent.append(SentEvent(int(ids[0][4:]) if ids else None, _read_json(position, data[0][6:])))
    if rest:
        raise BrokenRuleError("framing", len(frames), rest, "the last frame is not closed")
    return sent


def verify(events: Sequence[Payload]) -> None:
    """Raises BrokenRuleError where the client would refuse the stream. One that ends early is not refused."""
    verifier = Verifier()
    for event in events:
        verifier.follow(event)


class Verifier:
    """Follows a stream event by event; `open_entities` are what rule 16 asks about."""

    def __init__(self) -> None:
        self._position = -1
        self._event: Payload = {}
        self._active = False
        self._finished = False
        self._failed = False
        self._reset()

    def _reset(self) -> None:
        # id -> owner (the subagentRunId it was started with)
        self._open: dict[str, dict[str, Any]] = {kind: {} for kind in _ENTITIES}
        self._owners: dict[str, dict[str, Any]] = {kind: {} for kind in _ENTITIES}
        self._encrypted_owners: dict[str, Any] = {}
        self._subagents: dict[str, bool] = {}  # whether it is active

    @property
    def open_entities(self) -> list[tuple[str, str]]:
        """What is open: (kind, id)."""
        entities = [(kind, entity) for kind, entities in self._open.items() for entity in entities]
        return entities + [("subagent", name) for name, active in self._subagents.items() if active]

    def follow(self, event: Payload) -> None:
        """Raises BrokenRuleError where the client would refuse the event."""
        self._position += 1
        self._event = event
        kind = event.get("type")
        self._require(isinstance(kind, str), "type", "an event has a type")
        self._follow_frame(str(kind))
        self._require("subagentRunId" not in event or event["subagentRunId"] is not None, 5, "an owner is never null")
        if kind in _STARTS:
            self._start(*_STARTS[str(kind)])
        elif kind in _WITHIN:
            self._within(*_WITHIN[str(kind)])
        elif kind in ("REASONING_ENCRYPTED_VALUE", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA"):
            self._follow_owned()
        elif kind in ("SUBAGENT_STARTED", "SUBAGENT_FINISHED", "SUBAGENT_ERROR"):
            self._follow_subagent(str(kind))
        elif kind == "MESSAGES_SNAPSHOT":
            self._follow_messages(event.get("messages"))
        elif kind == "RUN_STARTED":
            self._follow_messages((event.get("input") or {}).get("messages"))
        elif kind == "RUN_FINISHED":
            self._follow_finish()

    def _require(self, holds: object, rule: int | str, why: str) -> None:
        if not holds:
            raise BrokenRuleError(rule, self._position, dict(self._event), why)

    def _follow_frame(self, kind: str) -> None:
        self._require(not self._failed or kind == "RUN_STARTED", 1, "the run has failed")
        self._require(not self._finished or kind in ("RUN_STARTED", "RUN_ERROR"), 2, "the run is finished")
        if not self._active and not self._failed and not self._finished:
            self._require(kind in ("RUN_STARTED", "RUN_ERROR"), 3, "the first event starts the run")
        if kind == "RUN_STARTED":
            self._require(not self._active, 4, "a run is active")
            self._reset()
            self._active, self._finished, self._failed = True, False, False
        elif kind == "RUN_ERROR":
            self._active, self._finished, self._failed = False, False, True

    def _start(self, entity: str, field: str, rule: int) -> None:
        name = self._event.get(field)
        owner = self._event.get("subagentRunId")
        self._require(isinstance(name, str), rule, f"{field} is a string")
        self._require(name not in self._open[entity], rule, f"the {entity} is open")
        known = self._owners[entity]
        if entity != "step":
            self._require(name not in known or known[str(name)] == owner, rule, "it was opened by another owner")
        if entity == "call":
            parent = self._event.get("parentMessageId")
            owners = self._owners["text"]
            self._require(parent not in owners or owners[parent] == owner, rule, "its message has another owner")
        self._open[entity][str(name)] = known[str(name)] = owner

    def _within(self, entity: str, field: str, rule: int, ends: bool) -> None:
        name = self._event.get(field)
        still_open = self._open[entity]
        self._require(name in still_open, rule, f"the {entity} is not open")
        self._require(still_open[str(name)] == self._event.get("subagentRunId"), rule, "it has another owner")
        if ends:
            del still_open[str(name)]

    def _follow_owned(self) -> None:
        name = str(self._event.get("entityId") or self._event.get("messageId"))
        owner = self._event.get("subagentRunId")
        self._require(self._encrypted_owners.setdefault(name, owner) == owner, 13, "it has another owner")

    def _follow_subagent(self, kind: str) -> None:
        event, name = self._event, self._event.get("subagentRunId")
        for field in ("description", "parentSubagentRunId", "parentToolCallId", "parentMessageId", "outcome", "code"):
            self._require(field not in event or event[field] is not None, 5, f"{field} is never null")
        self._require(isinstance(name, str), 14, "a subagent has an id")
        if kind == "SUBAGENT_STARTED":
            self._require(isinstance(event.get("name"), str), 14, "a subagent has a name")
            self._require(name not in self._subagents, 14, "the subagent was started")
            parent = event.get("parentSubagentRunId")
            self._require(parent is None or parent in self._subagents, 14, "its parent was never started")
            self._subagents[str(name)] = True
            return
        self._require(self._subagents.get(str(name)), 14, "the subagent is not active")
        if kind == "SUBAGENT_ERROR":
            self._require(isinstance(event.get("message"), str), 14, "an error has a message")
        else:
            outcome = event.get("outcome", {"type": "success"})
            self._require(outcome.get("type") in ("success", "suspended"), 5, "the outcome is success or suspended")
            ids = outcome.get("interruptIds", [])
            self._require(isinstance(ids, list) and all(isinstance(i, str) for i in ids), 5, "interruptIds are strings")
        self._subagents[str(name)] = False

    def _follow_messages(self, messages: Iterable[Payload] | None) -> None:
        for message in messages or ():
            ok = "subagentRunId" not in message or message["subagentRunId"] is not None
            self._require(ok, 15, "a message's owner is never null")

    def _follow_finish(self) -> None:
        self._require(not self.open_entities, 16, f"open at the end: {self.open_entities}")
        outcome = self._event.get("outcome")
        if isinstance(outcome, Mapping):
            for interrupt in outcome.get("interrupts", ()):
                ok = "subagentRunId" not in interrupt or interrupt["subagentRunId"] is not None
                self._require(ok, 5, "an interrupt's owner is never null")
        self._active, self._finished = False, True


_ENTITIES = ("text", "call", "reasoning message", "reasoning", "step")

_STARTS: dict[str, tuple[str, str, int]] = {
    "TEXT_MESSAGE_START": ("text", "messageId", 6),
    "TOOL_CALL_START": ("call", "toolCallId", 8),
    "STEP_STARTED": ("step", "stepName", 10),
    "REASONING_START": ("reasoning", "messageId", 11),
    "REASONING_MESSAGE_START": ("reasoning message", "messageId", 11),
}
_WITHIN: dict[str, tuple[str, str, int, bool]] = {
    "TEXT_MESSAGE_CONTENT": ("text", "messageId", 7, False),
    "TEXT_MESSAGE_END": ("text", "messageId", 7, True),
    "TOOL_CALL_ARGS": ("call", "toolCallId", 9, False),
    "TOOL_CALL_END": ("call", "toolCallId", 9, True),
    "STEP_FINISHED": ("step", "stepName", 10, True),
    "REASONING_MESSAGE_CONTENT": ("reasoning message", "messageId", 12, False),
    "REASONING_MESSAGE_END": ("reasoning message", "messageId", 12, True),
    "REASONING_END": ("reasoning", "messageId", 12, True),
}


# --- what this server promises beyond that -------------------------------------------------------------------------

# event -> (required, optional) fields; SUBAGENT_*, *_CHUNK and THINKING_* are not offered
_FIELDS: dict[str, tuple[str, str]] = {
    "RUN_STARTED": ("threadId runId protocolVersion", "parentRunId input"),
    "RUN_FINISHED": ("threadId runId", "result outcome usage"),
    "RUN_ERROR": ("message code", "usage"),
    "STEP_STARTED": ("stepName", ""),
    "STEP_FINISHED": ("stepName", ""),
    "TEXT_MESSAGE_START": ("messageId role", "name"),
    "TEXT_MESSAGE_CONTENT": ("messageId delta", ""),
    "TEXT_MESSAGE_END": ("messageId", ""),
    "TOOL_CALL_START": ("toolCallId toolCallName parentMessageId", ""),
    "TOOL_CALL_ARGS": ("toolCallId delta", ""),
    "TOOL_CALL_END": ("toolCallId", ""),
    "TOOL_CALL_RESULT": ("messageId toolCallId content role", ""),
    "STATE_SNAPSHOT": ("snapshot", ""),
    "STATE_DELTA": ("delta", ""),
    "MESSAGES_SNAPSHOT": ("messages", ""),
    "ACTIVITY_SNAPSHOT": ("messageId activityType content", "replace"),
    "ACTIVITY_DELTA": ("messageId activityType patch", ""),
    "RAW": ("event", "source"),
    "CUSTOM": ("name value", ""),
    "REASONING_START": ("messageId", ""),
    "REASONING_END": ("messageId", ""),
    "REASONING_MESSAGE_START": ("messageId role", ""),
    "REASONING_MESSAGE_CONTENT": ("messageId delta", ""),
    "REASONING_MESSAGE_END": ("messageId", ""),
    "REASONING_ENCRYPTED_VALUE": ("subtype entityId encryptedValue", ""),
}
_ANY_JSON = frozenset({"snapshot", "event", "value"})  # null is a value here
_POINTER = re.compile(r"(/([^/~]|~[01])*)*")
_LEGACY_OUTCOMES = ("interrupt",)


def verify_server(
    events: Sequence[Payload], *, thread_id: str, run_id: str, legacy: bool = False, complete: bool = True
) -> None:
    """Raises BrokenRuleError where the stream breaks a rule of the client or a promise of this server.

    One run, its ids echoed, one terminal event and it is the last; nothing is opened twice, no message id stands for
    two messages, no delta is empty, each call has at most one result; no field is unknown, missing or null. `legacy`:
    the dialect of clients before 1.0. `complete=False`: the stream may end early.
    """
    verify(events)
    promises: list[Callable[[Sequence[Payload]], None]] = [_known_fields, _no_second_use, _results, _deltas, _patches]
    for promise in promises:
        promise(events)
    _frame(events, thread_id, run_id, complete)
    _dialect(events, legacy)


def _require(holds: object, promise: str, position: int, event: Payload, why: str) -> None:
    if not holds:
        raise BrokenRuleError(promise, position, dict(event), why)


def _known_fields(events: Sequence[Payload]) -> None:
    for position, event in enumerate(events):
        kind = event["type"]
        _require(kind in _FIELDS, "fields", position, event, "it is of a type that this server does not emit")
        required, optional = (set(names.split()) for names in _FIELDS[kind])
        fields = set(event) - {"type", "metadata", "timestamp"}
        _require(required <= fields, "fields", position, event, f"it lacks {sorted(required - fields)}")
        _require(fields <= required | optional, "fields", position, event, "it has a field that is not known")
        nulls = [name for name in event if event[name] is None and name not in _ANY_JSON]
        _require(not nulls, "fields", position, event, f"{nulls} are null")
        _require(isinstance(event.get("timestamp", 0), int), "fields", position, event, "timestamps are integers")


def _no_second_use(events: Sequence[Payload]) -> None:
    seen: dict[str, str] = {}
    calls: set[str] = set()
    parents: set[str] = set()
    for position, event in enumerate(events):
        match event["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START" | "TOOL_CALL_RESULT" as kind:
                message_id = event["messageId"]
                _require(message_id not in seen, "ids", position, event, "a message of that id was there")
                text = kind == "TEXT_MESSAGE_START" and event["role"] == "assistant"
                _require(text or message_id not in parents, "ids", position, event, "calls are part of that id")
                seen[message_id] = "answer" if text else "other"
            case "TOOL_CALL_START":
                _require(event["toolCallId"] not in calls, "ids", position, event, "the call was made")
                calls.add(event["toolCallId"])
                parent = event["parentMessageId"]
                parents.add(parent)
                _require(seen.get(parent) != "other", "ids", position, event, "its parent is no assistant message")
            case _:
                pass


def _results(events: Sequence[Payload]) -> None:
    answered: set[str] = set()
    still_open: set[str] = set()
    for position, event in enumerate(events):
        match event["type"]:
            case "TOOL_CALL_START":
                still_open.add(event["toolCallId"])
            case "TOOL_CALL_END":
                still_open.discard(event["toolCallId"])
            case "TOOL_CALL_RESULT":
                call_id = event["toolCallId"]
                _require(call_id not in answered, "results", position, event, "the call has a result")
                _require(call_id not in still_open, "results", position, event, "the call has not ended")
                _require(event["messageId"] != call_id, "results", position, event, "the message has the call's id")
                answered.add(call_id)
            case _:
                pass


def _deltas(events: Sequence[Payload]) -> None:
    for position, event in enumerate(events):
        if event["type"] in ("TEXT_MESSAGE_CONTENT", "TOOL_CALL_ARGS", "REASONING_MESSAGE_CONTENT"):
            _require(event["delta"] != "", "deltas", position, event, "the delta is empty")


def _patches(events: Sequence[Payload]) -> None:
    for position, event in enumerate(events):
        for operation in event.get("patch") or (event["delta"] if event["type"] == "STATE_DELTA" else ()):
            for field in ("path", "from"):
                pointer = operation.get(field, "")
                ok = isinstance(pointer, str) and _POINTER.fullmatch(pointer)
                _require(ok, "patches", position, event, f"{field} is no JSON pointer")


def _frame(events: Sequence[Payload], thread_id: str, run_id: str, complete: bool) -> None:
    last = len(events) - 1
    for position, event in enumerate(events):
        kind = event["type"]
        _require((kind == "RUN_STARTED") <= (position == 0), "frame", position, event, "a second run")
        ends = kind in ("RUN_FINISHED", "RUN_ERROR")
        _require(not ends or position == last, "frame", position, event, "the run has ended before the stream")
        if kind in ("RUN_STARTED", "RUN_FINISHED"):
            ids = (event["threadId"], event["runId"])
            _require(ids == (thread_id, run_id), "frame", position, event, "the ids are not those of the request")
    if complete:
        ended = bool(events) and events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
        _require(ended, "frame", last, events[-1] if events else {}, "the stream ends without a terminal event")


def _dialect(events: Sequence[Payload], legacy: bool) -> None:
    for position, event in enumerate(events):
        if event["type"] == "TOOL_CALL_RESULT" and legacy:
            _require(isinstance(event["content"], str), "dialect", position, event, "old clients know only text")
        if event["type"] == "RUN_FINISHED" and "outcome" in event:
            kind = event["outcome"]["type"]
            known = _LEGACY_OUTCOMES if legacy else ("success", "interrupt", "cancelled")
            _require(kind in known, "dialect", position, event, "the client does not know this outcome")
            if kind == "interrupt":
                ids = [interrupt["id"] for interrupt in event["outcome"]["interrupts"]]
                _require(ids and len(set(ids)) == len(ids), "dialect", position, event, "interrupt ids differ")


def _read_json(position: int, data: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} is not JSON")

    try:
        value = json.loads(data, parse_constant=refuse)
    except ValueError as error:
        raise BrokenRuleError("framing", position, data, str(error)) from None
    if not isinstance(value, dict):
        raise BrokenRuleError("framing", position, data, "an event is a JSON object")
    return value
