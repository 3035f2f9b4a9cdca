"""What a request of Responses goes on with: an earlier response, a conversation, or the thread that its own items came
from.

Below: the protocols' environment, responses_items. Above: responses_start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.access.callers import Caller
from gateway.agent import ThreadPoint
from gateway.errors import ConflictError, InvalidRequestError, NotFoundError
from gateway.events import Interrupt
from gateway.frozen import replace
from gateway.messages import Message
from gateway.openai_api.errors import wrong
from gateway.openai_api.ids import place_of
from gateway.openai_api.questions import asked_ids
from gateway.openai_api.responses_items import ApprovalItem, InputItem, ReferenceItem, SaidItem
from gateway.openai_api.responses_request import ResponsesRequest
from gateway.protocol import ProtocolEnvironment, ThreadHead, staying_here
from gateway.store import RunRecord

_MOST_TRIED: Final = 3  # runs of which a client replays items; usually the last one is there


@dataclass(frozen=True, slots=True)
class Chain:
    """What a request goes on with. `messages` are all that were said before it.

    `head` is its thread. `record` is the run behind which it goes on, None: the thread as it is. `is_last`: no run of
    the thread came behind it. `replays`: the request's items are the whole history.
    """

    head: ThreadHead
    messages: Sequence[Message]
    interrupts: Sequence[Interrupt] = ()
    record: RunRecord | None = None
    is_last: bool = True
    replays: bool = False

    @property
    def end(self) -> ThreadPoint | None:
        """Where the run left its thread: behind the last message that is still there. None: there is no run."""
        end = None if self.record is None else self.record.end
        if end is None or not self.messages:
            return end and replace(end, length=0, last_message_id=None)
        return replace(end, last_message_id=self.messages[-1].id)

    @property
    def is_short_lived(self) -> bool:
        return self.head.is_short_lived


async def find_chain(environment: ProtocolEnvironment, caller: Caller, request: ResponsesRequest) -> Chain | None:
    """What the request goes on with; None: it begins a thread.

    Raises:
        InvalidRequestError: what it names is not there, or cannot be gone on with.
    """
    if request.previous_response_id is not None:
        if request.conversation is not None:
            message = "previous_response_id and conversation exclude each other; leave one of them out"
            raise wrong(message, "/previous_response_id", code="mutually_exclusive_parameters")
        return await _behind_response(environment, caller, request)
    if request.conversation is not None:
        return await _of_conversation(environment, caller, request.conversation)
    for run_id in islice(_own_runs(request.items), _MOST_TRIED):
        try:
            with staying_here():  # only the thread that is gone on with leads to another gateway
                record, head = await environment.run_and_head(caller, run_id)
            if head is not None and record.status.ended and record.thread_length is not None:
                replays = run_id in _own_runs(request.items, answers=False)
                return await _behind(environment, caller, record, head, request, replays=replays)
        except NotFoundError:
            continue
    return None


async def _behind_response(environment: ProtocolEnvironment, caller: Caller, request: ResponsesRequest) -> Chain:
    response_id = request.previous_response_id or ""
    try:
        record, head = await environment.run_and_head(caller, response_id)
        is_stored = (record.request or {}).get("store") is not False and record.thread_length is not None
        if is_stored and record.status.ended and head is not None:
            return await _behind(environment, caller, record, head, request)
    except NotFoundError:
        raise _no_response(response_id) from None
    if record.status.ended:
        raise _no_response(response_id)
    raise wrong(
        f"Previous response with id {response_id!r} is still in progress; wait for its end, or cancel it",
        "/previous_response_id",
        code="previous_response_in_progress",
    )


def _no_response(response_id: str) -> InvalidRequestError:
    return wrong(
        f"Previous response with id '{response_id[:256]}' not found.",
        "/previous_response_id",
        code="previous_response_not_found",
    )


async def _behind(
    environment: ProtocolEnvironment,
    caller: Caller,
    record: RunRecord,
    head: ThreadHead,
    request: ResponsesRequest,
    *,
    replays: bool = False,
) -> Chain:
    """Behind a run that has ended, or where its thread is now: a question that is still open is answered there.

    Raises NotFoundError if that version of its thread is gone.
    """
    is_last = head.last_run_id == record.run_id
    messages = None if record.end is None else head.up_to(record.end)
    if messages is None:
        said = await environment.run_messages(caller, record.client_id)
        messages = (*said.before, *said.given, *said.produced)
    answers = any(isinstance(item, ApprovalItem) for item in request.items) or bool(asked_last(request.items))
    interrupts = head.interrupts if is_last or answers else ()
    if not is_last and _asks(interrupts, messages):
        return Chain(head, head.messages, interrupts, replays=replays)
    return Chain(head, messages, interrupts if is_last else (), record, is_last=is_last, replays=replays)


def _asks(interrupts: Sequence[Interrupt], messages: Sequence[Message]) -> bool:
    """Whether one of the questions is about a call in the messages."""
    asked = {each.call_id for each in interrupts}
    return any(call.call_id in asked for message in messages for call in message.tool_calls)


async def _of_conversation(environment: ProtocolEnvironment, caller: Caller, thread_id: str) -> Chain:
    if (head := await environment.thread_head(caller, thread_id)) is None:
        message = f"Conversation with id '{thread_id[:256]}' not found."
        problems = wrong(message, "/conversation").problems
        raise NotFoundError(message, code="conversation_not_found", problems=problems)
    return Chain(head, head.messages, head.interrupts)


async def whole_thread(environment: ProtocolEnvironment, caller: Caller, thread_id: str) -> Chain | None:
    """A thread that a request sends again from its beginning; None: there is none of that id."""
    head = await environment.thread_head(caller, thread_id)
    return None if head is None else Chain(head, head.messages, head.interrupts, replays=True)


def _own_runs(items: Sequence[InputItem], *, answers: bool = True) -> Iterator[str]:
    """The runs that the items came from, the last first; each of them once. Without `answers`, those to questions do
    not count.
    """
    seen: set[str] = set()
    asked = asked_last(items)
    for item in reversed(items):
        if not answers and isinstance(item, ApprovalItem):
            continue
        ids = _ids_of(item)
        if asked and _is_answer(item):
            ids, asked = iter([*ids, *asked]), ()
        for item_id in ids:
            if (place := place_of(item_id)) is not None and place.run_id not in seen:
                seen.add(place.run_id)
                yield place.run_id


def asked_last(items: Sequence[InputItem]) -> Sequence[str]:
    """The ids of the approvals for which the last answer asks in words."""
    last = next((item for item in reversed(items) if _is_answer(item)), None)
    return asked_ids(last.messages[-1].text) if isinstance(last, SaidItem) else ()


def _is_answer(item: InputItem) -> bool:
    return isinstance(item, SaidItem) and bool(item.messages) and item.messages[-1].role == "assistant"


def _ids_of(item: InputItem) -> Iterator[str]:
    match item:
        case ReferenceItem(_, item_id):
            yield item_id
        case ApprovalItem(_, request_id):
            yield request_id
        case SaidItem(_, messages, item_id):
            if item_id:
                yield item_id
            for message in () if item.plain else messages:
                yield from (call.call_id for call in message.tool_calls)
                if (result := message.tool_result) is not None:
                    yield result.call_id


# --- open calls ------------------------------------------------------------------------------------------------------


def check_outputs(pending: Sequence[str], items: Sequence[InputItem], chain: Chain | None = None) -> None:
    """Refuse outputs of unknown calls, and an input without the output of a call that waits for one.

    `pending` are the calls of the client's tools that wait before the input. Those of the `chain` that the gateway
    answered itself, because their answer was cut off, need none.

    Raises:
        InvalidRequestError
    """
    waiting: dict[str, None] = dict.fromkeys(pending)
    known: set[str] = set(waiting)
    for item in items:
        for message in item.messages if isinstance(item, SaidItem) else ():
            for call in message.tool_calls:
                known.add(call.call_id)
                waiting[call.call_id] = None
            if (result := message.tool_result) is not None:
                if result.call_id not in known:
                    raise wrong(
                        f"No tool call found for function call output with call_id {result.call_id[:256]}.",
                        f"{item.at}/call_id",
                    )
                waiting.pop(result.call_id, None)
    for message in chain.messages if waiting and chain is not None else ():
        if message.turn_id is not None and (result := message.tool_result) is not None:
            waiting.pop(result.call_id, None)
    if waiting:
        raise wrong(f"No tool output found for function call {next(iter(waiting))[:256]}.", "/input")


def approval_gone() -> ConflictError:
    """The error for an answer that comes too late."""
    return ConflictError("the question was answered or withdrawn meanwhile, or has expired", code="approval_answered")
