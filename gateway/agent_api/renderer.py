"""Renders a run as a response of the Agent API: the frames of a stream, or the one object.

Below: grammar, output, media_out. Above: the starts of runs, and stored responses. Pure.

    data: {"sequence_number":3,"object":"content","status":"in_progress","type":"text","index":0,"delta":true,...}

`sequence_number` counts the frames from 0, so a client goes on after the last number that it has. Clients put a delta
onto the last content that they have, whatever its index says. So messages come strictly one after the other, and so do
the contents of a message: what a run does meanwhile waits, and is shown once the open one has ended.

The texts, refusals and media of one model call that follow each other are the contents of one message. Reasoning, a
call and a tool's result are messages of their own. Words that have ended are completed at the next event that is shown:
only that event shows whether a failure, a cancel or a limit cut them off. Words that are taken back stay in the deltas
that were sent; the text in their place stands in the completed content, or their message comes again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final

from gateway.agent_api.errors import run_error
from gateway.agent_api.grammar import DELTA, Frame, MessageState, ResponseState, read, text_written, written
from gateway.agent_api.ids import message_id
from gateway.agent_api.items import (
    BROKEN,
    CANCELED,
    COMPLETE,
    CUT_OFF,
    Call,
    Ending,
    Item,
    Medium,
    Note,
    Part,
    Whole,
    Words,
    arguments_text,
)
from gateway.agent_api.media_out import result_text
from gateway.agent_api.output import ResponseForm
from gateway.agent_api.usage import response_usage
from gateway.events import (
    Cancelled,
    Completed,
    Deltas,
    Event,
    Incomplete,
    Interrupt,
    Interrupted,
    MediaGiven,
    MessageRetracted,
    ModelCallEnded,
    ModelCallStarted,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    RunFailed,
    RunFinished,
    RunStarted,
    StopReason,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolCallDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolReturned,
    TurnRetracted,
)
from gateway.messages import JsonObject, ToolCall
from gateway.protocol.earlier_calls import EarlierCall
from gateway.tool_output import encodable
from gateway.wire.text_frames import MANY, inner_texts, numbers_from

HEARTBEAT: Final = b'data: {"object":"message","type":"heartbeat","status":"in_progress"}\n\n'
"""The frame that may be sent during silence: it has no number, and clients skip it."""

_GATEWAY: Final = "gateway"  # the `server_label` of a question about a tool that is on no MCP server
_BEGIN, _END = DELTA.split(b"%d%b%b")
_UNKNOWN: Final = "unknown"
_ENDS: Final = frozenset({TextEnded, ReasoningEnded, ToolCallEnded})
_CUT_OFF: Final = frozenset({StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER, StopReason.CONTEXT_OVERFLOW})


class ResponseRenderer:
    """The renderer of one response (renderer.Renderer)."""

    def __init__(self, form: ResponseForm, *, ended_at: Callable[[], float], to_operator: bool = True) -> None:
        """`ended_at` gives the time at which the run ended, and is called at its last event. `to_operator`: the caller
        may see why a model failed.
        """
        self._form = form
        self._ended_at = ended_at
        self._to_operator = to_operator
        self._response = ResponseState(form.members)
        self._frames: list[bytes] = []  # of the batch that is being rendered
        self._final: Frame | None = None
        self._turn = 0  # changes where a model call begins or ends
        self._words: dict[str, Words | Medium] = {}  # by message, also those that were shown
        self._calls: dict[str, Call] = {}
        self._earlier = {call.call_id: call for call in form.earlier}
        self._queue: deque[Item] = deque()  # the first one is being shown
        self._ended: list[Item] = []  # their endings are not decided yet
        self._answer: MessageState | None = None  # which may get more contents
        self._answer_turn = 0
        self._answer_status = ""
        # of the item that is being shown: its message or call, its frames' beginning, its parts
        self._live: Item | None = None
        self._words_id = self._call_id = ""
        self._head = b""
        self._parts: list[str] = []

    @property
    def frames(self) -> int:
        """How many frames there were so far."""
        return self._response.frames

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events."""
        self._frames = []
        for event in events:
            if (rule := _rule_of(type(event))) is not None:
                self._follow(rule, event)
            elif isinstance(event, ToolCallDelta):
                self._write(event)
            elif isinstance(event, Deltas):
                self._say(event)
        return self._frames

    def final(self) -> JsonObject:
        """The response, which is the last frame."""
        assert self._final is not None, "a run ends before its answer is wanted"
        return read(self._final)

    def so_far(self, status: str) -> JsonObject:
        """The response of a run that goes on, as it is after the frames so far."""
        shown = self._response.frames
        number: JsonObject = {"sequence_number": shown - 1} if shown else {}
        return {**number, **self._response.value(status)}

    # --- frames

    def _follow(self, rule: Callable[[ResponseRenderer, Any], None], event: Event) -> None:
        if type(event) in _ENDS:  # nothing is shown yet
            rule(self, event)
            return
        if self._ended:
            self._settle(event)
        rule(self, event)
        if self._queue or self._answer is not None:
            self._advance()

    def _show(self, texts: Sequence[str]) -> None:
        """The frames of the next words of the text that is being shown."""
        self._parts += texts
        first = self._response.frames
        self._response.frames = first + len(texts)
        if len(texts) == 1:  # as in most reads of a slow stream
            self._frames.append(DELTA % (first, self._head, written(texts[0])))
            return
        if len(texts) < MANY:
            self._frames += [DELTA % (n, self._head, written(text)) for n, text in enumerate(texts, first)]
            return
        pieces = inner_texts(texts, written, one_line=True)
        numbers, head, end = numbers_from(first, len(pieces)), self._head + b'"', b'"' + _END
        self._frames += map(b"".join, zip(repeat(_BEGIN), numbers, repeat(head), pieces, repeat(end), strict=False))

    def _settle(self, event: Event) -> None:
        """Give the items that have ended the ending that follows from this event."""
        ending = _ending_of(event)
        for item in self._ended:
            item.ending = ending
        self._ended.clear()

    # --- what is shown, one after the other

    def _add(self, item: Item, ending: Ending | None = None) -> None:
        """Show an item after those that wait already. `ending`: the item is whole."""
        item.turn, item.ending, item.waits = self._turn, ending, True
        self._queue.append(item)

    def _advance(self) -> None:
        """Show what can be shown now."""
        queue = self._queue
        while queue:
            item = queue[0]
            if item is not self._live:
                self._live = item
                self._words_id = self._call_id = ""
                self._begin(item)
            if item.ending is None:
                break
            self._complete(item, item.ending)
            queue.popleft()
        if self._answer is not None and not queue and self._answer_turn != self._turn:
            self._close_answer()

    def _begin(self, item: Item) -> None:
        if isinstance(item, Part):
            self._begin_part(item)
        elif isinstance(item, Whole):
            if self._answer is not None:
                self._close_answer()
            self._call_id = item.call_id
            self._frames += item.begin(self._response.data_message(self._next_id(), item.message_kind, item.role))

    def _begin_part(self, part: Part) -> None:
        frames, message = self._frames, self._answer
        if message is None or part.message_kind != "message" or self._answer_turn != part.turn:
            if message is not None:
                self._close_answer()
            message = self._response.message(self._next_id(), part.message_kind)
            frames.append(message.opened())
            if part.message_kind == "message":
                self._answer, self._answer_turn, self._answer_status = message, part.turn, "completed"
            else:
                frames.append(message.in_progress())
        if (frame := part.show(message)) is not None:
            frames.append(frame)
        if isinstance(part, Words):
            assert part.content is not None, "it is being shown"
            self._words_id, self._head, self._parts = part.message_id, part.content.delta_head(), part.parts
            frames.append(DELTA % (self._response.take(), self._head, written(part.parts[0])))

    def _next_id(self) -> str:
        return message_id(self._form.run_id, len(self._response.messages))

    def _complete(self, item: Item, ending: Ending) -> None:
        if isinstance(item, Whole):
            self._frames += item.complete(ending)
        elif isinstance(item, Part):
            assert item.content is not None, "it is being shown"
            assert item.message is not None, "its content has one"
            kind, message, status = item.content_kind, item.message, ending.message
            if message is self._answer:
                if status == "completed":
                    status = self._answer_status
                goes_on = len(self._queue) > 1 or self._answer_turn == self._turn
                if goes_on or len(message.contents) > 1:
                    self._answer_status = status
                    self._frames.append(item.content.finish(kind, item.value(), ending.content))
                    return
                self._answer = None
            self._frames += message.end_with(item.content, kind, item.value(), ending.content, status)

    def _close_answer(self) -> None:
        if self._answer is not None:
            self._frames.append(self._answer.close(self._answer_status))
            self._answer = None

    # --- the run's frame

    def _start(self, event: RunStarted | None = None) -> None:
        if self._response.frames:
            return
        self._frames += self._response.begin()
        for number, server in enumerate(self._form.list_tools):
            listed: JsonObject = {"id": message_id(self._form.run_id, number), **server}
            self._add(Note("mcp_list_tools", written(listed)), COMPLETE)

    def _change_turn(self, event: ModelCallStarted | ModelCallEnded) -> None:
        self._turn += 1

    def _end(self, last: RunFinished | RunFailed) -> None:
        self._start()
        self._turn += 1
        for item in self._queue:
            item.ending = item.ending or _ending_of(last)
        outcome = None if isinstance(last, RunFailed) else last.outcome
        if isinstance(outcome, (Completed, Interrupted)):  # a union would be made anew
            for call in outcome.pending_calls:
                self._add(Note("function_call", _function_call(call)), COMPLETE)
        if isinstance(outcome, Interrupted):
            for interrupt in outcome.interrupts:
                self._ask(interrupt)
        self._advance()
        self._close_answer()
        self._finish(last)

    def _finish(self, last: RunFinished | RunFailed) -> None:
        """The response's last frame; if it failed, after a message that says so."""
        status = "completed"
        members: JsonObject = {}
        if isinstance(last, RunFailed):
            status, error = "failed", run_error(last, to_operator=self._to_operator)
            error["message"] = encodable(str(error["message"]))
            message = self._response.message(self._next_id(), "error")
            self._frames.append(message.close("failed", code=error["code"], message=error["message"]))
            members["error"] = error
        elif isinstance(last.outcome, Cancelled):
            status = "canceled"
        elif isinstance(last.outcome, Incomplete):  # some clients wait on if a response ends as anything else
            members["incomplete_details"] = {"reason": last.outcome.reason.value}
        members["completed_at"] = max(int(self._ended_at()), self._form.created_at)
        self._final = self._response.end(status, usage=response_usage(last.usage), **members)
        self._frames.append(self._final)

    # --- words and media

    def _begin_text(self, event: TextStarted) -> None:
        if event.role == "assistant":
            self._words[event.message_id] = Words(event.message_id, "refusal" if event.refusal else "text")

    def _begin_reasoning(self, event: ReasoningStarted) -> None:
        self._words[event.message_id] = Words(event.message_id, "text", "reasoning")

    def _say(self, event: TextDelta | ReasoningDelta) -> None:
        texts = event.texts
        if event.id != self._words_id:
            self._follow(ResponseRenderer._begin_words, event)
            texts = texts[1:]
        if event.id == self._words_id:
            self._show(texts)
        elif isinstance(words := self._words.get(event.id), Words):
            words.parts += texts

    def _begin_words(self, event: TextDelta | ReasoningDelta) -> None:
        """The next piece of a text that is not being shown: with its first one it has its place."""
        if isinstance(words := self._words.get(event.id), Words):
            words.parts.append(event.texts[0])
            if not words.waits:
                self._add(words)

    def _end_words(self, event: TextEnded | ReasoningEnded) -> None:
        if (words := self._words.get(event.message_id)) is not None and words.waits:
            self._ended.append(words)

    def _give(self, event: MediaGiven) -> None:
        medium = self._words[event.message_id] = Medium(event.block)
        self._add(medium, COMPLETE)

    def _retract(self, event: MessageRetracted) -> None:
        item = self._words.get(event.message_id)
        if item is None or not item.waits:
            return
        item.take_back(encodable(event.text))
        if item.content is not None and item.content.ended:
            item.content.replace(item.content_kind, item.value())
            if item.message is not None and item.message.ended:
                self._frames.append(item.message.again())

    def _retract_turn(self, event: TurnRetracted) -> None:
        self._turn += 1
        for name in event.message_ids:
            self._retract(MessageRetracted(name))

    # --- calls

    def _begin_call(self, event: ToolCallStarted) -> None:
        call = self._calls[event.call_id] = Call(event.call_id, event.name, event.server, event.executor)
        # A client's call is shown once it waits for the client, a question once it is asked.
        if event.executor == "backend" and not event.asks and self._form.backend_tools == "shown":
            self._add(call)

    def _write(self, event: ToolCallDelta) -> None:
        texts = event.texts
        if event.id != self._call_id:
            self._follow(ResponseRenderer._begin_arguments, event)
            texts = texts[1:]
        for text in texts:
            if (frame := self._calls[event.id].grow(text)) is not None:
                self._frames.append(frame)

    def _begin_arguments(self, event: ToolCallDelta) -> None:
        """The next piece of a call that is not being shown."""
        if (frame := self._calls[event.id].grow(event.texts[0])) is not None:
            self._frames.append(frame)

    def _end_call(self, event: ToolCallEnded) -> None:
        if (call := self._calls.get(event.call_id)) is not None and call.waits:
            self._ended.append(call)

    def _return(self, event: ToolReturned) -> None:
        call = self._call(event.call_id)
        if self._form.backend_tools == "hidden" or call.executor == "client":
            return
        if not call.waits:  # it is an earlier run's, or somebody was to be asked
            self._add(call, COMPLETE)
        failed = b',"is_error":true' if event.is_error else b""
        output = b'%b,"output":%b%b}' % (call.named, text_written(result_text(event.content)), failed)
        kind = "plugin_call_output" if call.server is None else "mcp_call_output"
        if self._queue:
            self._add(Note(kind, output, "tool"), COMPLETE)
        else:  # no item is in the queue before it
            self._close_answer()
            self._frames += self._response.data_message(self._next_id(), kind, "tool").all_frames(output)

    def _call(self, call_id: str) -> Call:
        """A call of this run, or of an earlier one."""
        if (call := self._calls.get(call_id)) is None:
            earlier = self._earlier.get(call_id) or EarlierCall(call_id, _UNKNOWN, "")
            call = self._calls[call_id] = Call(call_id, earlier.name, earlier.server, "backend")
            call.grow(earlier.arguments)
        return call

    def _ask(self, interrupt: Interrupt) -> None:
        """A question to a person."""
        if call_id := interrupt.call_id:
            call = self._call(call_id)
            about = {"id": interrupt.id, "call_id": call_id, "name": call.name}
            question = {**about, "arguments": call.arguments, "server_label": call.server or _GATEWAY}
            self._add(Note("mcp_approval_request", written(question)), COMPLETE)
        else:
            said = Words(interrupt.id, "text")
            said.parts.append(encodable(interrupt.message))
            self._add(said, COMPLETE)


def _function_call(call: ToolCall) -> bytes:
    said = {"call_id": call.call_id, "name": encodable(call.name), "arguments": arguments_text(call.arguments)}
    return written(said)


def _ending_of(event: Event) -> Ending:
    """The ending of an item that ended before this event."""
    match event:
        case ModelCallEnded(reason):
            return CUT_OFF if reason in _CUT_OFF else COMPLETE
        case RunFailed():
            return BROKEN
        case RunFinished(outcome=Cancelled()) | TurnRetracted():
            return CANCELED
        case RunFinished(outcome=Incomplete()):
            return CUT_OFF
        case _:
            return COMPLETE


# What each kind of event shows. A look-up: a `match` asks for one class after the other.
_RULES: Final[Mapping[type[Event], Callable[[ResponseRenderer, Any], None]]] = MappingProxyType(
    {
        RunStarted: ResponseRenderer._start,
        ModelCallStarted: ResponseRenderer._change_turn,
        ModelCallEnded: ResponseRenderer._change_turn,
        TextStarted: ResponseRenderer._begin_text,
        TextEnded: ResponseRenderer._end_words,
        ReasoningStarted: ResponseRenderer._begin_reasoning,
        ReasoningEnded: ResponseRenderer._end_words,
        MediaGiven: ResponseRenderer._give,
        ToolCallStarted: ResponseRenderer._begin_call,
        ToolCallEnded: ResponseRenderer._end_call,
        ToolReturned: ResponseRenderer._return,
        RunFinished: ResponseRenderer._end,
        RunFailed: ResponseRenderer._end,
        MessageRetracted: ResponseRenderer._retract,
        TurnRetracted: ResponseRenderer._retract_turn,
    }
)
_rule_of: Final = _RULES.get  # looked up once
