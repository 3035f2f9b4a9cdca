"""Resolves the ids in a request's items: items of stored responses, and questions that wait for a person.

Below: responses_chain. Above: responses_start.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, starmap
from typing import Final, NamedTuple, TypeAlias

from gateway.access.callers import Caller
from gateway.agent import InterruptAnswer
from gateway.errors import GatewayError, NotFoundError
from gateway.events import Interrupt, approval_id
from gateway.messages import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    VideoBlock,
    new_message_id,
)
from gateway.openai_api.errors import wrong
from gateway.openai_api.ids import ItemPlace, item_id, place_of
from gateway.openai_api.questions import asked_ids, decision_of, is_question
from gateway.openai_api.responses_chain import Chain, approval_gone, asked_last
from gateway.openai_api.responses_items import ApprovalItem, InputItem, ReferenceItem, SaidItem, may_stand_for_another
from gateway.openai_api.thread_items import noted_ids
from gateway.protocol import ProtocolEnvironment
from gateway.protocol.earlier_calls import EarlierCall
from gateway.protocol.run_events import blocks_in_order

_KINDS: Final[Mapping[type[ContentBlock], Sequence[str]]] = {
    TextBlock: ("msg",),
    ReasoningBlock: ("rs",),
    ToolCall: ("fc", "mcp"),
    ToolResult: ("fco",),
    **dict.fromkeys((ImageBlock, AudioBlock, VideoBlock, DocumentBlock), ("msg", "ig")),
}


class StoredItem(NamedTuple):
    """An item of a stored response: its block, and the message that this stands in."""

    message: Message
    block: ContentBlock


ItemsByNumber: TypeAlias = Mapping[int, StoredItem]


class StoredItems:
    """The items of a caller's stored responses and conversations; each response and message is read once."""

    def __init__(self, environment: ProtocolEnvironment, caller: Caller) -> None:
        self._environment = environment
        self._caller = caller
        self._read: dict[str, ItemsByNumber] = {}
        self._messages: dict[str, Message | None] = {}

    async def of(self, run_id: str) -> ItemsByNumber:
        """By number; none of an unknown response."""
        if run_id not in self._read:
            self._read[run_id] = await self._items(run_id)
        return self._read[run_id]

    async def message(self, message_id: str) -> Message | None:
        """The message of that id, which is an item of a conversation; None: there is none."""
        if message_id not in self._messages:
            self._messages[message_id] = await self._found(message_id)
        return self._messages[message_id]

    async def _found(self, message_id: str) -> Message | None:
        for thread_id in await self._environment.find_message(self._caller, message_id):
            return await self._environment.message(self._caller, thread_id, message_id)
        return None

    async def _items(self, run_id: str) -> ItemsByNumber:
        try:
            return numbered((await self._environment.run_messages(self._caller, run_id)).produced)
        except NotFoundError:
            return {}


def numbered(produced: Sequence[Message]) -> ItemsByNumber:
    """The items of the messages that a run produced. Each text, reasoning, call, medium and result has a number, in the
    order of their begin.
    """
    items: list[StoredItem] = []
    for _, answer in groupby(produced, lambda message: (message.turn_id, message.role == "tool")):
        items += starmap(StoredItem, blocks_in_order([*answer]))
    return dict(_numbers(items))


def _numbers(items: Sequence[StoredItem]) -> Iterator[tuple[int, StoredItem]]:
    """Each item with its number, which its message notes where others of the run were deleted."""
    noted: dict[str, list[ItemPlace]] = {}
    number = 0
    for item in items:
        message = item.message
        if message.id not in noted:
            noted[message.id] = [place for each in noted_ids(message) if (place := place_of(each)) is not None]
        places = noted[message.id]
        if places and places[0].kind in _KINDS[type(item.block)]:
            number = places.pop(0).number
        yield number, item
        number += 1


async def resolved(
    items: Sequence[InputItem], chain: Chain | None, stored: StoredItems
) -> list[SaidItem | ApprovalItem]:
    """The items with stored ones in place of references to them, and without those that the chain has already.

    Raises:
        NotFoundError: there is no such item.
    """
    known = set() if chain is None or chain.replays else {message.id for message in chain.messages}
    calls = {call.call_id for message in chain.messages for call in message.tool_calls} if known and chain else set()
    found: list[SaidItem | ApprovalItem] = []
    for item in items:
        if isinstance(item, ApprovalItem):
            found.append(item)
        elif isinstance(item, ReferenceItem):
            if item.item_id not in known:
                found += await _referred(item, known, stored)
        elif not await _is_known(item, known, calls, stored):
            found += await _as_stored(item, stored)
    return found


def without_decisions(items: Sequence[InputItem], chain: Chain | None) -> Sequence[InputItem]:
    """A history's items without the questions in words that clients sent back without their ids, and without the words
    that answered a question before: the thread has neither.
    """
    if chain is None or not chain.replays:
        return items
    said = {message.text.strip().lower() for message in chain.messages if message.role == "user"}
    kept: list[InputItem] = []
    asked = False
    for place, item in enumerate(items):
        is_word = asked and place + 1 < len(items) and _is_decision(item, said)
        asked = _asks(item)
        if not is_word and not (asked and isinstance(item, SaidItem) and not item.item_id):
            kept.append(item)
    return kept


def _asks(item: InputItem) -> bool:
    return isinstance(item, SaidItem) and any(
        message.role == "assistant" and is_question(message.text) and asked_ids(message.text)
        for message in item.messages
    )


def _is_decision(item: InputItem, said: Container[str]) -> bool:
    """Whether it is a decision by word that the thread does not have as something that was said."""
    if not isinstance(item, SaidItem) or len(item.messages) != 1 or decision_of(item.messages[0]) is None:
        return False
    return item.messages[0].text.strip().lower() not in said


async def _referred(item: ReferenceItem, known: set[str], stored: StoredItems) -> list[SaidItem]:
    """The item that a reference stands for; none where the chain has it."""
    if (place := place_of(item.item_id)) is None:
        if (message := await stored.message(item.item_id)) is None:
            raise _no_item(item.item_id)
        return [SaidItem(item.at, (replace(message, id=new_message_id(), turn_id=None),))]
    items = await stored.of(place.run_id)
    if (there := items.get(place.number)) is None:
        if items and place.kind == "msg" and place.number <= max(items) + 1 + _unanswered(items):
            return [SaidItem(item.at, (), item.item_id)]  # a question to a person, or a refusal without words
        raise _no_item(item.item_id)
    if there.message.id in known:
        return []
    messages = _alone(there, items)
    # a question, and a call whose result is not there yet, say nothing to a model
    says = place.kind != "mcpr" and (place.kind != "mcp" or len(messages) > 1)
    return [SaidItem(item.at, tuple(messages) if says else (), item.item_id)]


def _unanswered(items: ItemsByNumber) -> int:
    """How many of the calls among these have no result."""
    calls = {there.block.call_id for there in items.values() if isinstance(there.block, ToolCall)}
    return len(calls - {there.block.call_id for there in items.values() if isinstance(there.block, ToolResult)})


def _no_item(item_id: str) -> NotFoundError:
    message = f"Item with id '{item_id[:256]}' not found; send the item itself, or leave it out"
    return NotFoundError(message, code="item_not_found", problems=wrong(message, "/input").problems)


def _alone(item: StoredItem, items: ItemsByNumber) -> list[Message]:
    """An item as messages of its own: a call that the gateway made has its result."""
    message, block = item
    role = "reasoning" if isinstance(block, ReasoningBlock) else message.role
    said = [Message(new_message_id(), role, (block,))]
    if isinstance(block, ToolCall):
        said += (
            Message(new_message_id(), "tool", (other.block,))
            for other in items.values()
            if isinstance(other.block, ToolResult) and other.block.call_id == block.call_id
        )
    return said


async def _as_stored(item: SaidItem, stored: StoredItems) -> list[SaidItem]:
    """The item as its thread has it, if a response showed something else as words: a medium, or a note of its own."""
    if not (item.item_id and any(may_stand_for_another(message.text) for message in item.messages)):
        return [item]
    place = place_of(item.item_id)
    items = {} if place is None else await stored.of(place.run_id)
    if place is None or not items:
        return [item]
    if (there := items.get(place.number)) is None:
        return []  # a question to a person is no part of the thread
    return [item if isinstance(there.block, TextBlock) else replace(item, messages=tuple(_alone(there, items)))]


async def _is_known(item: SaidItem, known: set[str], calls: set[str], stored: StoredItems) -> bool:
    """Whether the chain has the item already: a client may send again what a response showed it."""
    if not known:
        return False
    if (place := place_of(item.item_id)) is not None:
        there = (await stored.of(place.run_id)).get(place.number)
        return there is not None and there.message.id in known
    return any(call.call_id in calls for message in item.messages for call in message.tool_calls)


# --- questions -------------------------------------------------------------------------------------------------------


async def answers_of(
    items: Sequence[SaidItem | ApprovalItem], chain: Chain | None, stored: StoredItems
) -> tuple[tuple[InterruptAnswer, ...], GatewayError | None]:
    """A person's answers to the questions of the chain's thread, and the error where one is not open any more. An
    answer before something that the agent said is one that a client sends again.

    Raises:
        InvalidRequestError: there is no such question.
    """
    answers, late = list[InterruptAnswer](), None
    given = _new_answers(items)
    calls = {call.call_id for message in chain.messages for call in message.tool_calls} if chain else set()
    for item in given:
        call_id = await _asked_call(item, calls, stored)
        asked = next((each for each in chain.interrupts if each.call_id == call_id), None) if chain else None
        if asked is None:
            late = approval_gone()
        question = approval_id(call_id) if asked is None else asked.id
        answers.append(InterruptAnswer(question, "resolved", approved=item.approve, reason=item.reason))
    return tuple(answers), late


def answers_by_word(
    items: Sequence[SaidItem | ApprovalItem],
    given: Sequence[InputItem],
    chain: Chain | None,
    waiting: Sequence[EarlierCall],
    own: Sequence[Interrupt],
) -> tuple[Sequence[SaidItem | ApprovalItem], tuple[InterruptAnswer, ...]]:
    """The items without their last one, and what that answers, if it is a person's word for what the chain's last run
    asked. `given` are the request's own items; in a history that no run leads to, the last answer says what was asked.
    `own` are the questions of the agent that is asked now.
    """
    if chain is None or not chain.interrupts or not items or not isinstance(last := items[-1], SaidItem):
        return items, ()
    if len(last.messages) != 1 or (approved := decision_of(last.messages[0])) is None:
        return items, ()
    asked = chain.interrupts
    if chain.replays and chain.record is None:
        ids = asked_last(given)
        named = {call.call_id for call in waiting if call.approval_request_id in ids}
        asked = [each for each in asked if each.call_id in named]
    asked = [each for each in asked if each in own] or asked  # another agent's are refused by name
    if not asked:
        return items, ()
    return items[:-1], tuple(InterruptAnswer(each.id, "resolved", approved=approved) for each in asked)


def _new_answers(items: Sequence[SaidItem | ApprovalItem]) -> list[ApprovalItem]:
    """The answers after everything that the agent said. The agent's questions do not count as its words."""
    found: list[ApprovalItem] = []
    for item in reversed(items):
        if isinstance(item, ApprovalItem):
            found.append(item)
        elif any(message.role == "assistant" for message in item.messages):
            break
    return found[::-1]


async def call_asked(request_id: str, stored: StoredItems) -> str | None:
    """The call that a question is about; None: there is no such question."""
    place = place_of(request_id)
    if place is None or place.kind != "mcpr":
        return None
    there = (await stored.of(place.run_id)).get(place.number)
    return there.block.call_id if there is not None and isinstance(there.block, ToolCall) else None


async def _asked_call(item: ApprovalItem, calls: Container[str], stored: StoredItems) -> str:
    """The call that a question is about, one of the thread's `calls`."""
    call_id = await call_asked(item.request_id, stored)
    if call_id is not None and call_id in calls:
        return call_id
    raise wrong(
        f"No approval request found with id '{item.request_id[:256]}'; give the id of an mcp_approval_request item",
        f"{item.at}/approval_request_id",
    )


async def waiting_calls(
    interrupts: Sequence[Interrupt], messages: Sequence[Message], stored: StoredItems
) -> tuple[EarlierCall, ...]:
    """The calls in a thread's messages that wait for a person."""
    if not interrupts:
        return ()
    calls = {call.call_id: call for message in messages for call in message.tool_calls}
    asked = [calls[each.call_id] for each in interrupts if each.call_id in calls]
    return tuple(
        [
            EarlierCall(call.call_id, call.name, call.arguments, None, await _question_of(call.call_id, stored))
            for call in asked
        ]
    )


async def _question_of(call_id: str, stored: StoredItems) -> str | None:
    """The id of the question about a call, as its response shows it."""
    if (place := place_of(call_id)) is None:
        return None
    for number, (_, block) in (await stored.of(place.run_id)).items():
        if isinstance(block, ToolCall) and block.call_id == call_id:
            return item_id("mcpr", place.run_id, number)
    return None
