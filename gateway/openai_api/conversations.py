"""Threads as OpenAI's conversations, and the bodies of requests for them. Pure.

Below: thread_items, responses_items, metadata, the store's data. Above: the protocol of conversations.
https://platform.openai.com/docs/api-reference/conversations
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from gateway.errors import InvalidRequestError, NotFoundError
from gateway.frozen import replace
from gateway.messages import JsonObject, Message
from gateway.openai_api.errors import wrong
from gateway.openai_api.fields import OpenAIFields
from gateway.openai_api.ids import new_digits
from gateway.openai_api.metadata import read_metadata
from gateway.openai_api.responses_items import ReferenceItem, SaidItem, read_input
from gateway.openai_api.thread_items import ThreadItem, ThreadItems, with_ids
from gateway.store import ThreadSummary

MOST_ITEMS: Final = 20
_KINDS: Final = {"reasoning": "rs", "tool": "fco"}


def conversation_json(thread: ThreadSummary) -> JsonObject:
    """A conversation as OpenAI shows it. Of its metadata it has the texts: OpenAI's has nothing else."""
    noted: JsonObject = {name: value for name, value in thread.metadata.items() if isinstance(value, str)}
    created = int(thread.created_at)
    return {"id": thread.thread_id, "object": "conversation", "created_at": created, "metadata": noted}


def deleted_json(thread_id: str) -> JsonObject:
    """The answer to the deletion of a conversation."""
    return {"id": thread_id, "object": "conversation.deleted", "deleted": True}


def metadata_after(before: JsonObject, given: JsonObject) -> JsonObject:
    """A thread's metadata once a request has replaced its texts. The members of other protocols stay."""
    return {**{name: value for name, value in before.items() if not isinstance(value, str)}, **given}


def read_new(body: JsonObject) -> tuple[tuple[Message, ...], JsonObject]:
    """The items of a new conversation as messages, and its metadata. Raises InvalidRequestError (400)."""
    fields = OpenAIFields(body)
    messages, metadata = _messages(fields), read_metadata(fields)
    fields.check()
    return messages, metadata or {}


def read_change(body: JsonObject) -> JsonObject:
    """The metadata that a request gives a conversation; null takes it away. Raises InvalidRequestError (400)."""
    fields = OpenAIFields(body)
    metadata = read_metadata(fields)
    if "metadata" not in body:
        fields.wrong("metadata", "metadata is missing; it must be an object")
    fields.check()
    return metadata or {}


def read_added(body: JsonObject) -> tuple[Message, ...]:
    """The items that a request adds to a conversation, as messages. Raises InvalidRequestError (400)."""
    fields = OpenAIFields(body)
    messages = _messages(fields)
    if not messages and not fields.problems:
        fields.wrong("items", f"items is missing or empty; it must be an array of 1 to {MOST_ITEMS} items")
    fields.check()
    return messages


def _messages(fields: OpenAIFields) -> tuple[Message, ...]:
    items = read_input(fields, "items")
    if len(items) > MOST_ITEMS:
        fields.wrong("items", f"items has {len(items):,} items; it may have {MOST_ITEMS}")
    messages: list[Message] = []
    for item in items:
        if isinstance(item, SaidItem):
            messages += item.messages
        else:
            what = "a reference to a stored item" if isinstance(item, ReferenceItem) else "an answer to a question"
            fields.wrong_at(item.at[1:], f"only the input of a response can have {what}")
    return tuple(messages)


def named(messages: Sequence[Message], key: str) -> tuple[Message, ...]:
    """The messages of one request under new ids, which tell their kind; a request's `key` gives the same every time."""
    digits = [new_digits(key and f"{key} {number}") for number in range(len(messages))]
    return tuple(
        replace(message, id=f"{_KINDS.get(message.role, 'msg')}_{name}")
        for message, name in zip(messages, digits, strict=True)
    )


@contextmanager
def conversation_named(thread_id: str) -> Generator[None]:
    """Tell of a thread that is not there in OpenAI's words."""
    try:
        yield
    except NotFoundError as error:
        if error.code != "thread_not_found":
            raise
        message = f"Conversation with id {thread_id[:200]!r} not found."
        raise NotFoundError(message, code="conversation_not_found") from None


@contextmanager
def items_refused() -> Generator[None]:
    """Name the field of items that the thread does not take."""
    try:
        yield
    except InvalidRequestError as error:
        if error.code != "result_not_allowed":
            raise
        raise wrong(f"items has a {error.message}", "/items", code=error.code) from None


def item_with(items: ThreadItems, thread_id: str, item_id: str) -> ThreadItem:
    """The item of that id. Raises NotFoundError."""
    if (found := items.find(item_id)) is None:
        message = f"Item with id {item_id[:200]!r} not found in conversation {thread_id[:200]!r}."
        raise NotFoundError(message, code="item_not_found")
    return found


def without_item(items: ThreadItems, item: ThreadItem) -> Callable[[tuple[Message, ...]], tuple[Message, ...]]:
    """A thread's messages without the item. The other messages of its run note the ids of their items."""
    run, beside = item.part
    noted: dict[str, list[str]] = {} if run is None else {message.id: [] for message in beside}
    for each in items.of(item.part):
        if each.message_id in noted and (each.message_id, each.call_id) != (item.message_id, item.call_id):
            noted[each.message_id].append(each.id)

    def left(messages: tuple[Message, ...]) -> tuple[Message, ...]:
        stays = [each for message in messages if (each := _without(message, item)) is not None]
        return tuple(with_ids(each, noted[each.id]) if each.id in noted else each for each in stays)

    return left


def _without(message: Message, item: ThreadItem) -> Message | None:
    """The message without the item; None: nothing is left of it."""
    if message.id != item.message_id:
        return message
    if item.call_id:
        content = tuple(block for block in message.content if getattr(block, "call_id", "") != item.call_id)
    else:
        content = message.tool_calls
    return replace(message, content=content) if content else None
