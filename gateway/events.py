"""The canonical events: the one vocabulary between model providers, the loop and every protocol.

Below: messages. Above: everything else. Providers yield events through `answer_builder`, the loop passes them on and
adds its own, `event_order` enforces their order, `transcript` folds them into messages, protocols render them.

A run is: RunStarted, anything in the middle, then one terminal event (RunFinished or RunFailed). Texts, reasoning and
tool calls come as Started / Delta / Ended triplets that may interleave. In a run's log each event has a number, from 1;
each piece of a `Deltas` has one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self, TypeAlias

from gateway.errors import LIMIT_CODE
from gateway.frozen import quickly_made
from gateway.messages import ContentBlock, JsonObject, JsonValue, MediaBlock, Message, Opaque, Role, ToolCall

# Who runs a tool: the gateway, or the client, whose next request brings the result.
Executor: TypeAlias = Literal["backend", "client"]


class StopReason(StrEnum):
    """Why a model's response ended. `MAX_ITERATIONS` is a reason for runs only: the model may not be asked again."""

    END_TURN = "end_turn"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    CONTEXT_OVERFLOW = "context_overflow"
    PAUSE = "pause"
    MAX_ITERATIONS = "max_iterations"


@quickly_made
@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one provider and model. None: the provider did not report them, which is not the same as 0.

    `input_tokens` and `output_tokens` are totals: cached and reasoning tokens are parts of them.
    """

    provider: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None

    @property
    def total_tokens(self) -> int | None:
        """The sum of input and output; None if one of the two is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens


# --- a run's frame -----------------------------------------------------------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True)
class RunStarted:
    """`input` is the part of the run's input that its loop needs (`turns.resumption.kept_input`), if another process
    may go on with the run from its log; else None.
    """

    thread_id: str
    run_id: str
    parent_run_id: str | None = None
    input: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class RunTakenOver:
    """Another process than before goes on with the run: all that follows is its own."""


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A named part of the run. Names that are open at the same time differ."""

    name: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    name: str


@quickly_made
@dataclass(frozen=True, slots=True)
class ModelCallStarted:
    """The loop asks a model. All events until ModelCallEnded belong to `turn_id`."""

    turn_id: str
    provider: str
    model: str


@quickly_made
@dataclass(frozen=True, slots=True)
class ModelCallEnded:
    """The model's response is over. `raw_reason` is the provider's own word, if it has one.

    `response_id`: the provider keeps the response, with everything that led to it, under this name; `continued` names
    the kept response before it, None if it begins a conversation there (model_state.py).
    """

    reason: StopReason
    raw_reason: str | None = None
    response_id: str | None = None
    continued: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCallAccepted:
    """The model's provider works on the response `response_id`, even if the connection is lost.

    If the process ends first, another one can continue it: `input` is the part of the run's input that the loop needs
    for that (`kept_input`), None if it cannot be continued.
    """

    response_id: str
    input: JsonObject | None = None


# --- the model's output -----------------------------------------------------------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True)
class Deltas:
    """The next pieces of one text, one reasoning or one call's arguments, as they came together: a TextDelta,
    ReasoningDelta or ToolCallDelta.

    `id` is the id of the message or the call. There is at least one piece; none is empty or has lone surrogates. How
    pieces are put together says nothing: two events of one piece each mean the same as one event of both.
    """

    id: str
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        """All pieces as one."""
        return "".join(self.texts)

    def changed(self, id: str, texts: Iterable[str]) -> Self:
        """Other pieces of the same kind."""
        return type(self)(id, tuple(texts))


# Set the fields of a frozen event.
_set_id: Final = vars(Deltas)["id"].__set__
_set_texts: Final = vars(Deltas)["texts"].__set__


class _Words(Deltas):
    """Pieces of a message."""

    __slots__ = ()
    __match_args__ = ("message_id", "text")

    def __init__(self, message_id: str, text: str | Iterable[str]) -> None:
        """`text`: one piece, or several."""
        _set_id(self, message_id)
        _set_texts(self, (text,) if isinstance(text, str) else tuple(text))

    @property
    def message_id(self) -> str:
        return self.id


@quickly_made
@dataclass(frozen=True, slots=True)
class TextStarted:
    """`refusal`: the model says in this text that it will not answer."""

    message_id: str
    role: Role = "assistant"
    index: int = -1
    refusal: bool = False


class TextDelta(_Words):
    __slots__ = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class TextEnded:
    message_id: str
    opaque: Opaque | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ReasoningStarted:
    message_id: str
    index: int = -1


class ReasoningDelta(_Words):
    __slots__ = ()


@quickly_made
@dataclass(frozen=True, slots=True)
class ReasoningEnded:
    message_id: str
    opaque: Opaque | None = None


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """`message_id` is the assistant message that the call is part of: the same for all calls of one model response.

    That message may have no text of its own and then never had a TextStarted. `executor` says who runs the tool; a call
    of a tool that does not exist is the backend's, which gives it an error as result. The loop fills it in: it is None
    in the events that a model yields, and in logs of earlier versions. `server` is the label of the MCP server that has
    the tool. `asks`: a person is asked before the call may run.
    """

    call_id: str
    name: str
    message_id: str
    index: int = -1
    provider_call_id: str | None = None
    executor: Executor | None = None
    server: str | None = None
    asks: bool = False


class ToolCallDelta(Deltas):
    """The next pieces of the arguments' JSON text."""

    __slots__ = ()
    __match_args__ = ("call_id", "arguments")

    def __init__(self, call_id: str, arguments: str | Iterable[str]) -> None:
        """`arguments`: one piece, or several."""
        _set_id(self, call_id)
        _set_texts(self, (arguments,) if isinstance(arguments, str) else tuple(arguments))

    @property
    def call_id(self) -> str:
        return self.id

    @property
    def arguments(self) -> str:
        """All pieces as one."""
        return self.text


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    call_id: str
    opaque: Opaque | None = None


@dataclass(frozen=True, slots=True)
class MediaGiven:
    """A medium that the model made, whole, as the message `message_id` of the assistant.

    If the run took it back, its data are empty in the log.
    """

    message_id: str
    block: MediaBlock


@dataclass(frozen=True, slots=True)
class MessageRetracted:
    """The text, reasoning or medium `message_id`, which has ended, is taken back: it should not have been shown.

    `text` replaces it, possibly empty: for viewers, in the thread, and for every model from now on.
    """

    message_id: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class TurnRetracted:
    """The answer of turn `turn_id` was cut off, and its model is asked again: the answer is taken back, as if it had
    never been. These are its messages with words or media, and its calls, none of which was run.
    """

    turn_id: str
    message_ids: tuple[str, ...] = ()
    call_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UsageReported:
    """The tokens of one model call. At most one per call counts: the last."""

    usage: Usage


# --- the loop's own events --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolExecutionStarted:
    """The call's tool is about to run. It does not before this is stored; only in runs that another process may go on
    with.
    """

    call_id: str


@quickly_made
@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A backend tool's result, as the message `message_id` of the thread. At most one per call."""

    message_id: str
    call_id: str
    content: tuple[ContentBlock, ...]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class StateReplaced:
    """The thread's shared state, whole."""

    state: JsonValue


@dataclass(frozen=True, slots=True)
class StateChanged:
    """An RFC 6902 patch that applies to the state as the viewer has it. `state` is the state after it."""

    patch: tuple[JsonObject, ...]
    state: JsonValue


@dataclass(frozen=True, slots=True)
class MessagesReplaced:
    """The thread's messages, whole."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ActivityReplaced:
    """Something to show beside the messages: `content` has the activity's own shape."""

    message_id: str
    activity_type: str
    content: JsonObject
    replace: bool = True


@dataclass(frozen=True, slots=True)
class ActivityChanged:
    message_id: str
    activity_type: str
    patch: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True)
class Custom:
    """An application's own event."""

    name: str
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Raw:
    """A provider's event that no canonical event expresses, unchanged (server-side tools, citations)."""

    event: JsonValue
    source: str | None = None


# --- how a run ends ----------------------------------------------------------------------------------------------


def approval_id(call_id: str) -> str:
    """The id of the question whether a call may run."""
    return f"int-{call_id}"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question to a person that ended the run. A later request on the thread answers it by `id`.

    `expires_at` is Unix time in seconds; from then on it counts as denied. `approvers` is the rule for who may answer
    it (see owners.may_approve); empty: an older gateway stored no rule.
    """

    id: str
    reason: str
    message: str
    call_id: str | None = None
    response_schema: JsonObject | None = None
    expires_at: float | None = None
    metadata: JsonObject | None = None
    approvers: str = ""


@dataclass(frozen=True, slots=True)
class OpenInterrupt:
    """An unanswered interrupt of this server on a thread, with the call that waits for it.

    `approval_id` is unique among all threads; `agent_id` is the asking agent. `opened_at` is Unix seconds.
    """

    interrupt: Interrupt
    call: ToolCall
    approval_id: str = ""
    agent_id: str = ""
    opened_at: float = 0.0

    def is_asked_by(self, agent_id: str) -> bool:
        """Whether runs of that agent continue after it. An interrupt of an older gateway names no agent: any agent's
        run does.
        """
        return self.agent_id in ("", agent_id)


@dataclass(frozen=True, slots=True)
class Completed:
    """The run is complete. `pending_calls`: frontend calls that wait for the browser, in call order.

    `limit`: the budget (a field of agent.Budgets) that was used up, so that the model had to answer without tools.
    """

    pending_calls: tuple[ToolCall, ...] = ()
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The run waits for a person. `pending_calls` as in Completed."""

    interrupts: tuple[Interrupt, ...]
    pending_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Incomplete:
    """The run ended early without an error: the response was cut off or filtered, or its model may not be asked again.

    `limit` as in Completed: for `max_iterations` the budget that ended the run.
    """

    reason: StopReason
    limit: str | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody stopped the run. `reason`: `cancelled`, `server_shutdown`, ..."""

    reason: str = "cancelled"


Outcome: TypeAlias = Completed | Interrupted | Incomplete | Cancelled


@quickly_made
@dataclass(frozen=True, slots=True)
class RunFinished:
    outcome: Outcome
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteError:
    """A provider's HTTP response to a call that it refused: the status; the body, cut and without keys."""

    status: int
    body: str


@quickly_made
@dataclass(frozen=True, slots=True)
class RunFailed:
    """`code` is stable; `message` is safe to show. `remote` is only for the caller that made the model."""

    code: str
    message: str
    usage: tuple[Usage, ...] = ()
    remote: RemoteError | None = None

    @property
    def limit(self) -> str | None:
        """The budget that was used up, as in Completed; None for any other failure."""
        name = self.code.removeprefix(LIMIT_CODE)
        return name if name != self.code else None


Event: TypeAlias = (
    RunStarted
    | RunTakenOver
    | StepStarted
    | StepEnded
    | ModelCallStarted
    | ModelCallAccepted
    | ModelCallEnded
    | TextStarted
    | TextDelta
    | TextEnded
    | ReasoningStarted
    | ReasoningDelta
    | ReasoningEnded
    | ToolCallStarted
    | ToolCallDelta
    | ToolCallEnded
    | MediaGiven
    | MessageRetracted
    | TurnRetracted
    | UsageReported
    | ToolExecutionStarted
    | ToolReturned
    | StateReplaced
    | StateChanged
    | MessagesReplaced
    | ActivityReplaced
    | ActivityChanged
    | Custom
    | Raw
    | RunFinished
    | RunFailed
)
Events: TypeAlias = list[Event]


# --- how events are numbered ------------------------------------------------------------------------------------------


def count_of(events: Iterable[Event]) -> int:
    """How many numbers the events have in a run's log."""
    count = 0
    for event in events:
        count += len(event.texts) if isinstance(event, Deltas) else 1
    return count


def joined(events: Events) -> Events:
    """The events, with consecutive pieces of one text, reasoning or call in one event. One alone: the same list."""
    if len(events) == 1:
        return events
    found: list[tuple[Event, list[str]]] = []  # each with all of its pieces
    kind: type[Event] | None = None  # of the last one, if it has pieces; and its id and its pieces
    id = ""
    texts: list[str] = []
    for event in events:
        if not isinstance(event, Deltas):
            kind, texts = None, []
        elif event.id == id and type(event) is kind:
            texts += event.texts
            continue
        else:
            kind, id, texts = type(event), event.id, [*event.texts]
        found.append((event, texts))
    return [
        event.changed(event.id, texts) if isinstance(event, Deltas) and len(texts) > len(event.texts) else event
        for event, texts in found
    ]


def sliced(events: Iterable[Event], start: int, stop: int | None = None) -> Events:
    """A slice of the events by their numbers, of which the first is 0: it may begin and end within a `Deltas`."""
    found: Events = []
    place = 0
    for event in events:
        size = len(event.texts) if isinstance(event, Deltas) else 1
        begin, end = max(0, start - place), size if stop is None else min(size, stop - place)
        if begin == 0 and end == size:
            found.append(event)
        elif begin < end and isinstance(event, Deltas):
            found.append(event.changed(event.id, event.texts[begin:end]))
        place += size
    return found
