"""Limits of a new run's input: of one item, of all that is new, and of the bytes that a site's visitors store.

Below: agent, messages, records. Above: callers, who have such limits, and the runner, which checks them before a run
begins. Pure.

Only new content counts. Clients send their whole history with each request, and send back the state that a tool
changed: content that the thread has already is free. Everything else counts: messages of every role, tools with their
schemas, context, state, properties, answers. The bytes of pictures and other files are not text; the limit of the
request's body bounds them. A text file counts towards all that is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.agent import Absent, AgentInput, InputNames
from gateway.errors import FieldProblem, TooLargeError, TooManyRequestsError
from gateway.messages import (
    Base64Source,
    ContentBlock,
    DocumentBlock,
    FileSource,
    JsonObject,
    JsonValue,
    MediaBlock,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
    UrlSource,
)
from gateway.options.run_options import RunOptions
from gateway.records import dump_json
from gateway.wire.media_bytes import bare_type, is_written

MOST_REQUEST_BYTES = 256 * 1024
MOST_METADATA_BYTES = 64 * 1024
_MOST_NAMED = 5
_NAME_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of one new item, of all that is new in a request, and of all that a site's visitors store. None: no
    limit.
    """

    max_message_bytes: int | None = None
    max_input_bytes: int | None = None
    max_stored_bytes: int | None = None


class _Thing(NamedTuple):
    """A new item. `size`: the bytes of its text; `beside`: bytes that count only in the sum."""

    pointer: str
    name: str
    size: int
    beside: int = 0


def check_input(
    given: AgentInput,
    limits: RunLimits,
    stored: Sequence[Message],
    state: JsonValue | Absent,
    *,
    replaces: bool,
) -> None:
    """Refuse an input with too much that is new to its thread, which has `stored` messages and `state`.

    `replaces`: the input's messages are the whole history, so stored ones with other ids do not count as new.

    Raises:
        TooLargeError: the error names the fields.
    """
    things = list(_new_things(given, stored, state, replaces=replaces))
    most = limits.max_message_bytes
    if most is not None:
        for thing in things:
            if thing.size > most:
                raise _too_large(thing, most)
    most = limits.max_input_bytes
    if most is not None and (total := sum(thing.size + thing.beside for thing in things)) > most:
        raise _too_much(things, total, most)


def check_stored(stored_bytes: int, limits: RunLimits) -> None:
    """Refuse a run of a site whose visitors have used all of its share of the store.

    Raises:
        TooManyRequestsError: without a time to retry at, since nobody can say when there will be room.
    """
    if limits.max_stored_bytes is not None and stored_bytes >= limits.max_stored_bytes:
        raise TooManyRequestsError(
            "there is no room for more conversations of this website's visitors; delete some, or come back later",
            code="limit_max_stored_bytes",
            retry_after_seconds=None,
        )


def check_request(request: JsonObject | None) -> None:
    """Refuse a request if its part in the run's record would be too large.

    Raises:
        TooLargeError
    """
    if request is not None and (size := _json_size(request)) > MOST_REQUEST_BYTES:
        raise TooLargeError(
            f"what is to be remembered of the request has {size:,} bytes, and {MOST_REQUEST_BYTES:,} bytes are the"
            " most; send less",
            code="input_too_large",
        )


def check_metadata(metadata: JsonObject) -> None:
    """Refuse more metadata than a thread may have.

    Raises:
        TooLargeError
    """
    if (size := _json_size(metadata)) > MOST_METADATA_BYTES:
        raise TooLargeError(
            f"the thread's metadata has {size:,} bytes, and {MOST_METADATA_BYTES:,} bytes are the most; send less",
            code="input_too_large",
            problems=[FieldProblem("/metadata", f"at most {MOST_METADATA_BYTES:,} bytes")],
        )


def _too_large(thing: _Thing, most: int) -> TooLargeError:
    is_message = thing.pointer == "/messages"
    return TooLargeError(
        f"{thing.name} has {thing.size:,} bytes, and {most:,} bytes are the most; send less",
        code="message_too_large" if is_message else "input_too_large",
        problems=[FieldProblem(thing.pointer, f"{thing.name}: at most {most:,} bytes")],
    )


def _too_much(things: Iterable[_Thing], total: int, most: int) -> TooLargeError:
    sizes: Counter[str] = Counter()
    for thing in things:
        sizes[thing.pointer] += thing.size + thing.beside
    return TooLargeError(
        f"what is new in the request has {total:,} bytes, and {most:,} bytes are the most; send less",
        code="input_too_large",
        problems=[FieldProblem(pointer, f"{size:,} bytes are new") for pointer, size in sizes.most_common(_MOST_NAMED)],
    )


def _new_things(
    given: AgentInput, stored: Sequence[Message], state: JsonValue | Absent, *, replaces: bool
) -> Iterator[_Thing]:
    names = given.origin.names
    for message in _new_messages(given.sent.messages, stored, replaces=replaces):
        yield _Thing("/messages", f"the message {_shown(message.id)}", _size(_texts(message)), _beside(message))
    for tool in given.application.tools:
        yield _Thing("/tools", f"the tool {_shown(tool.name)}", _tool_size(tool))
    for place, entry in enumerate(given.application.context):
        yield _Thing(f"/context/{place}", "the context", _size((entry.description, entry.value)))
    if not isinstance(given.application.state, Absent) and given.application.state != state:
        before = 0 if isinstance(state, Absent) else _json_size(state)
        yield _Thing("/state", "what the state has grown by", max(0, _json_size(given.application.state) - before))
    if given.application.forwarded is not None:
        yield _Thing(f"/{names.forwarded}", names.forwarded, _json_size(given.application.forwarded))
    for answer in given.answers:
        size = _size((answer.interrupt_id,)) + _json_size(answer.payload)
        yield _Thing(f"/{names.answers}", f"the answer to {_shown(answer.interrupt_id)}", size)
    if given.terms.options is not None:
        yield from _option_things(given.terms.options, names)
    if given.parent_run_id is not None:
        yield _Thing(f"/{names.parent_run_id}", names.parent_run_id, _size((given.parent_run_id,)))


def _option_things(options: RunOptions, names: InputNames) -> Iterator[_Thing]:
    form = options.generation.response_format
    yield _Thing(f"/{names.instructions}", "the instructions", _size((options.instructions, options.system_prompt)))
    yield _Thing(f"/{names.stop}", "what the answer stops at", _size(options.generation.stop or ()))
    if form is not None:
        schema = 0 if form.schema is None else _json_size(form.schema)
        yield _Thing(f"/{names.response_format}", "the format", schema + _size((form.name, form.description)))


# --- messages


def _new_messages(sent: Sequence[Message], stored: Sequence[Message], *, replaces: bool) -> list[Message]:
    """The sent messages that the thread does not have: not under their ids, and not unchanged under other ids."""
    known = {message.id: message for message in stored}
    new = [message for message in sent if not _is_known(message, known.get(message.id))]
    if any(message.role == "tool" for message in new):
        answered = {
            result.call_id for message in stored if message.turn_id is not None and (result := message.tool_result)
        }
        # It is dropped: the server's own result stays.
        new = [message for message in new if (result := message.tool_result) is None or result.call_id not in answered]
    if len(new) < 2 or not replaces:
        return new
    # Some clients give their messages new ids each time. Each stored one stands for one sent one.
    sent_ids = {message.id for message in sent}
    spare = Counter(_said(message) for message in stored if message.id not in sent_ids)
    found = []
    for message in new:
        said = _said(message)
        if spare[said]:
            spare[said] -= 1
        else:
            found.append(message)
    return found


def _is_known(message: Message, earlier: Message | None) -> bool:
    """Whether the thread has the message. A sent message never replaces one of this server with the same id."""
    return earlier is not None and (earlier.turn_id is not None or earlier is message or earlier == message)


def _said(message: Message) -> Hashable:
    media = tuple(block for block in _blocks(message.content) if isinstance(block, MediaBlock))
    return message.role, tuple(_texts(message)), media


def _texts(message: Message) -> Iterator[str]:
    """All text in a message."""
    for block in _blocks(message.content):
        match block:
            case TextBlock() | ReasoningBlock():
                if block.text:
                    yield block.text
            case ToolCall():
                yield block.name
                yield block.arguments
            case ToolResult():
                pass
            case _:
                yield block.name or ""
                match block.source:
                    case UrlSource():
                        yield block.source.url
                    case FileSource():
                        yield block.source.file_id
                    case Base64Source():
                        pass
    if message.name is not None:
        yield message.name
    if message.metadata is not None:
        yield dump_json(message.metadata).decode()


def _beside(message: Message) -> int:
    """The bytes of the ids in a message, and of text files."""
    size = _size([message.id])
    for block in _blocks(message.content):
        if isinstance(block, ToolCall | ToolResult):
            size += _size([block.call_id])
        elif isinstance(block, DocumentBlock) and isinstance(source := block.source, Base64Source):
            size += 3 * len(source.data) // 4 if is_written(bare_type(source.media_type)) else 0
    return size


def _blocks(content: Iterable[ContentBlock]) -> Iterator[ContentBlock]:
    """The blocks, and those inside tool results."""
    for block in content:
        yield block
        if isinstance(block, ToolResult):
            yield from block.content


# --- sizes


def _size(texts: Iterable[str]) -> int:
    return sum(len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass")) for text in texts)


def _json_size(value: JsonValue) -> int:
    return len(dump_json(value))


def _tool_size(tool: ToolSpec) -> int:
    size = _size((tool.name, tool.description)) + _json_size(tool.input_schema)
    return size + (0 if tool.metadata is None else _json_size(tool.metadata))


def _shown(name: str) -> str:
    return repr(name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}...")
