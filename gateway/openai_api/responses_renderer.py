"""Renders a run as a Response: the events of a stream, or the one object.

Below: responses_output, responses_resource, errors. Above: the protocol `responses`, and what shows stored ones. Pure.
https://platform.openai.com/docs/api-reference/responses-streaming (November 2026), https://www.openresponses.org

    event: response.output_text.delta
    data: {"type":"response.output_text.delta","item_id":"msg_..._0","output_index":0,...,"sequence_number":4}

`sequence_number` counts the frames from 0, so a client goes on after the last number that it has; the last frame is
`[DONE]`, without one. Each item is added, grows and is done; `response.completed`, `.incomplete` or `.failed` has them
all once more. Words that have ended are done at the next event that is shown: only that tells whether a failure or a
cancel cut them off. A call of the client's is done at the end, when it is known whether it waits for its result: some
clients run a call that is done, whatever follows it. One that does not wait is `incomplete`.

Words that are taken back stay in the deltas that were sent: there is no event that removes them. What replaces them
stands in the item's done events where it follows the words directly, and in the Response at the end in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

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
from gateway.messages import Base64Source, ImageBlock, JsonObject, ToolCall
from gateway.openai_api.chat_messages import is_refusal, pending_calls
from gateway.openai_api.errors import run_failure
from gateway.openai_api.ids import ItemKind, item_id
from gateway.openai_api.media_out import markdown_of
from gateway.openai_api.questions import REFUSED, Question, question_text
from gateway.openai_api.responses_output import (
    CallItem,
    Fact,
    GivenItem,
    ItemStatus,
    McpCallItem,
    MessageItem,
    OutputItem,
    PictureItem,
    ReasoningItem,
    Seal,
    WordsItem,
    approval_request,
    function_output,
    result_text,
)
from gateway.openai_api.responses_resource import (
    ResponseForm,
    ResponseStatus,
    incomplete_details,
    response_error,
    response_object,
)
from gateway.openai_api.usage import responses_usage
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.failure_status import RunFailedError
from gateway.tool_output import encodable
from gateway.wire import strict_json
from gateway.wire.text_frames import numbered_frames

ItemT = TypeVar("ItemT", bound=OutputItem)

# What comes behind the text of a delta, and behind its number.
_BETWEEN: Final = b',"sequence_number":'
_TAIL: Final = b"}\n\n"
_DONE: Final = b"data: [DONE]\n\n"
_UNKNOWN: Final = "unknown"
_ENDS: Final = frozenset({TextEnded, ReasoningEnded, ToolCallEnded})
_CUT_OFF: Final = frozenset({StopReason.MAX_TOKENS, StopReason.CONTENT_FILTER, StopReason.CONTEXT_OVERFLOW})


@dataclass(slots=True)
class _Call:
    """A call of this run. `item` is None as long as it is not shown; the two have the same `parts`."""

    started: ToolCallStarted
    number: int
    parts: list[str] = field(default_factory=list)
    item: CallItem | None = None


class ResponsesRenderer:
    """The renderer of one Response (renderer.Renderer). `items` are those that are shown so far.

    All items of a run count, also those that these settings do not show, so that an id does not depend on settings.
    """

    def __init__(
        self,
        form: ResponseForm,
        *,
        to_operator: bool = True,
        seal: Seal | None = None,
        shows_failure: bool = False,
        ended_at: Callable[[], float | None] = lambda: None,
        calls_as_written: bool = True,
    ) -> None:
        """`to_operator`: the caller may see why a model failed. `shows_failure`: a run that failed or was cancelled is
        an object, too. `ended_at` tells when the run has ended, and is asked at its last event. `calls_as_written` as
        in InputTerms; without it a call of the client's may still be refused, and is shown once it waits.
        """
        self._form = form
        self._to_operator = to_operator
        self._seal = seal if form.seals else None
        self._shows_failure = shows_failure
        self._ended_at = ended_at
        self._calls_as_written = calls_as_written
        self.items: list[OutputItem] = []
        self._number = 0  # of the next item
        self._sequence = 0
        self._words: dict[str, WordsItem] = {}  # by message, also those that are done
        self._pictures: dict[str, PictureItem] = {}
        self._calls: dict[str, _Call] = {}
        self._written: set[str] = set()  # the client's calls, which are done at the end
        self._is_cut_off = False  # one of them does not wait for the client
        self._earlier = {call.call_id: call for call in form.earlier}
        self._ended: list[OutputItem] = []  # not done yet
        self._failure: RunFailedError | None = None
        self._begun: JsonObject = {}
        self._response: JsonObject | None = None
        # of the last deltas of words and of a call: its message or call, its frames' beginning; the words' parts
        self._words_id = self._call_id = ""
        self._head = self._call_head = b""
        self._parts: list[str] = []

    @property
    def frames(self) -> int:
        """How many numbered frames there were so far."""
        return self._sequence

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        """The frames of the next events."""
        frames: list[bytes] = []
        for event in events:
            if isinstance(event, Deltas):
                frames += self._deltas(event)
            elif type(event) in _SHOWN:
                frames += self._rare(event)
        return frames

    def _deltas(self, event: TextDelta | ReasoningDelta | ToolCallDelta) -> list[bytes]:
        frames, head = self._add_texts(event)
        if not head:
            return frames
        sequence = self._sequence
        self._sequence = sequence + len(event.texts)
        return frames + numbered_frames(head, event.texts, _BETWEEN, sequence, _TAIL)

    def _add_texts(self, event: TextDelta | ReasoningDelta | ToolCallDelta) -> tuple[list[bytes], bytes]:
        """Add the pieces to their item. Gives the frames before theirs, and what theirs begin with; nothing where they
        are not shown.
        """
        frames: list[bytes] = []
        if isinstance(event, ToolCallDelta):
            if event.id != self._call_id:
                frames = self._rare(event)
            self._calls[event.id].parts.extend(event.texts)
            return frames, self._call_head if event.id == self._call_id else b""
        if event.id != self._words_id:
            frames = self._rare(event)
            if event.id != self._words_id:
                return frames, b""
        self._parts += event.texts
        return frames, self._head

    def final(self) -> JsonObject:
        """The Response.

        Raises:
            RunFailedError: the run failed, or was cancelled.
        """
        assert self._response is not None, "a run ends before its answer is wanted"
        if self._failure is not None and not self._shows_failure:
            raise self._failure
        return self._response

    def so_far(self, status: ResponseStatus) -> JsonObject:
        """The Response of a run that goes on."""
        return response_object(self._form, status, self._output())

    def _output(self) -> list[JsonObject]:
        return [item.value() for item in self.items if not item.is_retracted]

    # --- frames

    def _rare(self, event: Event) -> list[bytes]:
        if isinstance(event, MessageRetracted):  # before its item is done
            self._retract(event)
        elif isinstance(event, TurnRetracted):
            self._retract_turn(event)
        kind = type(event)
        frames: list[bytes] = []
        if self._ended and kind not in _ENDS:
            ended, self._ended = self._ended, []
            status = _status_behind(event)
            frames += self._frames(fact for item in ended for fact in item.closed(status))
        if (rule := _RULES.get(kind)) is not None:
            frames += rule(self, event)
        return frames

    def _frames(self, facts: Iterable[Fact]) -> list[bytes]:
        return [self._frame(kind, members) for kind, members in facts]

    def _frame(self, kind: str, members: JsonObject) -> bytes:
        name, sequence = kind.encode(), self._sequence
        self._sequence = sequence + 1
        data = strict_json.dump(members)[1:-1]
        return b'event: %b\ndata: {"type":"%b",%b,"sequence_number":%d}\n\n' % (name, name, data, sequence)

    def _delta_frame(self, head: bytes, text: str) -> bytes:
        sequence = self._sequence
        self._sequence = sequence + 1
        return b"%b%b%b%d%b" % (head, strict_json.dump(text), _BETWEEN, sequence, _TAIL)

    def _snapshot(self, kind: str, response: bytes) -> bytes:
        name, sequence = kind.encode(), self._sequence
        self._sequence = sequence + 1
        form = b'event: response.%b\ndata: {"type":"response.%b","response":%b,"sequence_number":%d}\n\n'
        return form % (name, name, response, sequence)

    # --- items

    def _take(self) -> int:
        number = self._number
        self._number = number + 1
        return number

    def _id(self, kind: ItemKind, number: int) -> str:
        return item_id(kind, self._form.run_id, number)

    def _add(self, item: ItemT) -> ItemT:
        """The item has the next place in the output."""
        self.items.append(item)
        return item

    def _end_item(self, item: OutputItem) -> None:
        """It is done at the next event that is shown."""
        self._ended.append(item)
        self._words_id = self._call_id = ""

    # --- the run's frame

    def _open(self, event: RunStarted | None = None) -> list[bytes]:
        if self._sequence:
            return []
        self._begun = response_object(self._form, "in_progress")
        begun = strict_json.dump(self._begun)
        if not self._form.background:
            return [self._snapshot("created", begun), self._snapshot("in_progress", begun)]
        queued = strict_json.dump({**self._begun, "status": "queued"})
        return [
            self._snapshot("created", queued),
            self._snapshot("queued", queued),
            self._snapshot("in_progress", begun),
        ]

    def _end(self, last: RunFinished | RunFailed) -> list[bytes]:
        frames = self._open()
        pending = pending_calls(last.outcome) if isinstance(last, RunFinished) else ()
        waiting = {call.call_id for call in pending}
        for item in self.items:
            if item.status == "in_progress":
                waits = item.source_id in waiting and item.source_id in self._written
                frames += self._frames(item.closed("completed" if waits else "incomplete"))
        for call in pending:
            if call.call_id not in self._written:
                frames += self._frames(self._pending(call))
        self._is_cut_off = not self._written <= waiting
        if isinstance(last, RunFinished) and isinstance(last.outcome, Interrupted):
            for interrupt in last.outcome.interrupts:
                frames += self._question(interrupt)
        if isinstance(last, RunFinished) and is_refusal(last.outcome) and not self._has_refused():
            frames += self._refuse()
        self._failure = run_failure(last, agent_id=self._form.model, to_operator=self._to_operator)
        status, members = self._ending(last)
        output = self._output()
        usage = responses_usage(last.usage)
        self._response = {**self._begun, "status": status, "output": [*output], "usage": usage, **members}
        kind = "incomplete" if status == "cancelled" else status  # there is no event for a cancel
        return [*frames, self._snapshot(kind, strict_json.dump(self._response)), _DONE]

    def _ending(self, last: RunFinished | RunFailed) -> tuple[ResponseStatus, JsonObject]:
        """The status of a run that has ended, and the members of the Response about its end."""
        if isinstance(last, RunFailed):
            assert self._failure is not None, "it is a failure's"
            return "failed", {"error": response_error(last.code, encodable(self._failure.message))}
        match last.outcome:
            case Completed() | Interrupted():
                return self._completed()
            case Incomplete():
                if is_refusal(last.outcome):
                    return self._completed()
                return "incomplete", {"incomplete_details": incomplete_details(last.outcome)}
            case Cancelled():
                return "cancelled", {}

    def _completed(self) -> tuple[ResponseStatus, JsonObject]:
        if self._is_cut_off:
            return "incomplete", {"incomplete_details": incomplete_details(Incomplete(StopReason.MAX_TOKENS))}
        at = self._ended_at()
        return "completed", {} if at is None else {"completed_at": max(int(at), self._form.created_at)}

    # --- words and pictures

    def _begin_text(self, event: TextStarted) -> list[bytes]:
        number = self._take()
        if event.role != "assistant":
            return []
        item = MessageItem(self._id("msg", number), len(self.items), event.message_id, refusal=event.refusal)
        self._words[event.message_id] = self._add(item)
        return self._frames(item.opened())

    def _begin_reasoning(self, event: ReasoningStarted) -> list[bytes]:
        item = ReasoningItem(self._id("rs", self._take()), len(self.items), event.message_id, self._seal)
        self._words[event.message_id] = self._add(item)
        return self._frames(item.opened())

    def _go_on_with(self, event: TextDelta | ReasoningDelta) -> list[bytes]:
        """The next words are those of another text than the last ones."""
        if (item := self._words.get(event.id)) is None:
            return []
        self._words_id, self._head, self._parts = event.id, item.head, item.parts
        return [] if item.parts else self._frames(item.begun())

    def _end_words(self, event: TextEnded | ReasoningEnded) -> list[bytes]:
        if (item := self._words.get(event.message_id)) is not None:
            item.opaque = event.opaque
            self._end_item(item)
        return []

    def _retract(self, event: MessageRetracted) -> None:
        if (item := self._words.get(event.message_id)) is not None:
            item.replace(event.text)
        elif (picture := self._pictures.get(event.message_id)) is not None:
            picture.take_back()

    def _retract_turn(self, event: TurnRetracted) -> None:
        """The next items get the numbers of these: they are counted as in the thread, which never had the answer."""
        for message_id in event.message_ids:
            self._retract(MessageRetracted(message_id))
        retracted = {*event.message_ids, *event.call_ids}
        for item in self.items:
            item.is_retracted |= item.source_id in retracted
        self._written -= retracted
        self._number -= len(event.message_ids) + len(event.call_ids)

    def _end_retracted(self, event: TurnRetracted) -> list[bytes]:
        self._call_id = ""
        left = [item for item in self.items if item.is_retracted and item.status == "in_progress"]
        return self._frames(fact for item in left for fact in item.closed("incomplete"))

    def _show_medium(self, event: MediaGiven) -> list[bytes]:
        number, source = self._take(), event.block.source
        if isinstance(event.block, ImageBlock) and isinstance(source, Base64Source):
            picture = PictureItem(self._id("ig", number), len(self.items), event.message_id, source)
            self._pictures[event.message_id] = self._add(picture)
            return self._frames(picture.whole())
        item = self._add(MessageItem(self._id("msg", number), len(self.items), event.message_id))
        self._words[event.message_id] = item
        return self._say(item, markdown_of(event.block))

    def _has_refused(self) -> bool:
        return any(isinstance(item, MessageItem) and item.is_refusal for item in self.items)

    def _refuse(self) -> list[bytes]:
        """The refusal of a model that had no words for it."""
        return self._say(
            self._add(MessageItem(self._id("msg", self._take()), len(self.items), "", refusal=True)), REFUSED
        )

    def _say(self, item: MessageItem, text: str) -> list[bytes]:
        """A message that comes at once."""
        frames = self._frames(item.opened())
        item.parts.append(text)
        frames.append(self._delta_frame(item.head, text))
        return [*frames, *self._frames(item.closed("completed"))]

    # --- calls

    def _begin_call(self, event: ToolCallStarted) -> list[bytes]:
        call = self._calls[event.call_id] = _Call(event, self._take())
        if event.executor == "client":
            if not self._calls_as_written:
                return []
            self._written.add(event.call_id)
            call.item = self._client_item(call.number, event.call_id, event.name)
        elif event.asks or self._form.backend_tools == "hidden":  # a question is shown once it is asked
            return []
        else:
            call.item = self._add(self._call_item(call.number, event.call_id, event.name, event.server))
        call.item.parts = call.parts
        return self._frames(call.item.opened())

    def _call_item(
        self, number: int, call_id: str, name: str, server: str | None, approval_request_id: str | None = None
    ) -> CallItem:
        """The item of a call of a backend tool."""
        index = len(self.items)
        if self._form.backend_tools == "function_call":
            return CallItem(self._id("fc", number), index, call_id, name)
        return McpCallItem(self._id("mcp", number), index, call_id, name, server, approval_request_id)

    def _client_item(self, number: int, call_id: str, tool: str) -> CallItem:
        """The item of a call of the client's, under the name that it gave the tool."""
        namespace, name = self._form.namespaced.get(tool, (None, tool))
        return self._add(CallItem(self._id("fc", number), len(self.items), call_id, name, namespace))

    def _go_on_with_call(self, event: ToolCallDelta) -> list[bytes]:
        """The next arguments are those of another call than the last ones."""
        if (item := self._calls[event.id].item) is not None:
            self._call_id, self._call_head = event.id, item.head
        return []

    def _end_call(self, event: ToolCallEnded) -> list[bytes]:
        call = self._calls.get(event.call_id)
        if call is None or (item := call.item) is None:
            return []
        if event.call_id in self._written:
            self._call_id = ""
        elif not isinstance(item, McpCallItem):  # it is done without its result
            self._end_item(item)
        return self._frames(item.written())

    def _return(self, event: ToolReturned) -> list[bytes]:
        number, shown = self._take(), self._form.backend_tools
        call = self._calls.get(event.call_id)
        if shown == "hidden" or (call is not None and call.started.executor == "client"):
            return []
        facts: list[Fact] = []
        item = None if call is None else call.item
        if item is None:
            item, facts = self._late_item(event.call_id, number)
            if not isinstance(item, McpCallItem):
                facts += item.closed("completed")
        output = result_text(event.content)
        if isinstance(item, McpCallItem):
            return self._frames([*facts, *item.returned(output, is_error=event.is_error)])
        given = self._given(self._id("fco", number), event.call_id, function_output(event.call_id, output))
        return self._frames([*facts, *given])

    def _late_item(self, call_id: str, number: int) -> tuple[CallItem, list[Fact]]:
        """The item of a call that has a result, and was not shown: it is an earlier run's, or somebody was to be asked.
        `number` is the result's.
        """
        if (call := self._calls.get(call_id)) is not None:
            item = self._call_item(call.number, call_id, call.started.name, call.started.server)
            arguments = "".join(call.parts)
        else:
            earlier = self._earlier_call(call_id)
            item = self._call_item(number, call_id, earlier.name, earlier.server, earlier.approval_request_id)
            arguments = earlier.arguments
        return self._add(item), [*item.whole(arguments)]

    def _earlier_call(self, call_id: str) -> EarlierCall:
        return self._earlier.get(call_id) or EarlierCall(call_id, _UNKNOWN, "")

    def _given(self, given_id: str, source_id: str, value: JsonObject) -> list[Fact]:
        """The events of an item that comes at once."""
        item = self._add(GivenItem(given_id, len(self.items), source_id, value))
        return [*item.opened(), *item.closed("completed")]

    # --- what the run waits for

    def _pending(self, call: ToolCall) -> list[Fact]:
        """A call that waits for the client and was not shown yet."""
        made = self._calls.get(call.call_id)
        number = self._take() if made is None else made.number
        item = self._client_item(number, call.call_id, call.name)
        return [*item.whole(call.arguments), *item.closed("completed")]

    def _question(self, interrupt: Interrupt) -> list[bytes]:
        """A question to a person. Its id has the number of its call, so that an answer leads to the call."""
        call_id = interrupt.call_id or ""
        if (made := self._calls.get(call_id)) is not None:
            name, arguments, server = made.started.name, "".join(made.parts), made.started.server
            asked = self._id("mcpr", made.number)
        else:
            earlier = self._earlier_call(call_id)
            name, arguments, server = earlier.name, earlier.arguments, earlier.server
            asked = earlier.approval_request_id or self._id("mcpr", self._take())
        if call_id and self._form.approvals == "mcp_approval_request":
            return self._frames(self._given(asked, call_id, approval_request(name, arguments, server)))
        message = self._add(MessageItem(self._id("msg", self._take()), len(self.items), call_id))
        if not call_id:
            return self._say(message, encodable(interrupt.message))
        question = Question(interrupt, asked, "" if name == _UNKNOWN else name, arguments)
        return self._say(message, question_text([question], by_word=self._form.by_word))


class ResponseBody(ResponsesRenderer):
    """The renderer of one body: it has no frames, which takes less than half of the time."""

    def render(self, events: Sequence[Event], first: int) -> Sequence[bytes]:
        for event in events:
            if isinstance(event, Deltas):
                self._add_texts(event)
            elif type(event) in _SHOWN:
                self._rare(event)
        return ()


def _status_behind(event: Event) -> ItemStatus:
    """The status of an item that ended before this event: complete, or cut off."""
    match event:
        case ModelCallEnded(reason):
            return "incomplete" if reason in _CUT_OFF else "completed"
        case RunFailed() | RunFinished(outcome=Cancelled()) | TurnRetracted():
            return "incomplete"
        case RunFinished(outcome=Incomplete()):
            return "completed" if is_refusal(event.outcome) else "incomplete"
        case _:
            return "completed"


# What each kind of event shows. A look-up: a `match` asks for one class after the other.
_RULES: Final[Mapping[type[Event], Callable[[ResponsesRenderer, Any], list[bytes]]]] = MappingProxyType(
    {
        RunStarted: ResponsesRenderer._open,
        TextStarted: ResponsesRenderer._begin_text,
        TextDelta: ResponsesRenderer._go_on_with,
        TextEnded: ResponsesRenderer._end_words,
        ReasoningStarted: ResponsesRenderer._begin_reasoning,
        ReasoningDelta: ResponsesRenderer._go_on_with,
        ReasoningEnded: ResponsesRenderer._end_words,
        MediaGiven: ResponsesRenderer._show_medium,
        ToolCallStarted: ResponsesRenderer._begin_call,
        ToolCallDelta: ResponsesRenderer._go_on_with_call,
        ToolCallEnded: ResponsesRenderer._end_call,
        ToolReturned: ResponsesRenderer._return,
        TurnRetracted: ResponsesRenderer._end_retracted,
        RunFinished: ResponsesRenderer._end,
        RunFailed: ResponsesRenderer._end,
    }
)
_SHOWN: Final = frozenset({*_RULES, MessageRetracted, ModelCallEnded})
