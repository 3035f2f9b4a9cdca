"""Working memory that is messages: each message of a session's thread is a document, and the thread holds it.

Below: ml_commons.input_messages, memory_documents. Above: container_memories; the store, which keeps the documents
with the messages (store.ThreadDocuments). Pure. A document has the searched fields, and names its message; the message
itself is put in when it is shown.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.documents.document import DocumentKind
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.frozen import replace
from gateway.messages import ContentBlock, JsonObject, JsonValue, MediaBlock, Message, TextBlock
from gateway.ml_commons.content import is_block, media_kind, written_call, written_source
from gateway.ml_commons.input_messages import read_messages
from gateway.ml_memory.memory_documents import CONVERSATIONAL, SESSION, Place, namespaced, new_session
from gateway.ml_memory.memory_kinds import SESSIONS, WORKING
from gateway.protocol.fields import Fields
from gateway.records import dump_json
from gateway.store import ThreadSummary
from gateway.wire.merge_patch import merge_patch

BLOB: Final = "structured_data_blob"
MESSAGE: Final = "message"
"""The member of a message's document that names the message; it is not shown."""

_TEXT: Final = "text"
_SAID: Final = "working_memory"
"""The member of a message's metadata that has what its sender said of it beside its words."""

_INPUT_TYPE: Final = "input_type"
"""The member beside it that has the form of the input that the message came in, where its words do not say that."""

_SENT: Final = "content"
"""The member beside it that has the content as it was sent, where its blocks are no content blocks of ours."""

_INPUT_TYPES: Final = ("TEXT", "CONTENT_BLOCKS", "MESSAGES")
_SEARCHED_CHARACTERS: Final = 8_000
_SEARCHED_BLOCKS: Final = 50
_MOST_LABELS: Final = 100
_LABELS: Final = ("namespace", "metadata", "tags")
_CREATED, _UPDATED = "created_time", "last_updated_time"
_DIGEST_BYTES: Final = 15  # 20 characters of base64
_FIRST: Final = str.maketrans("-_", "Zz")


class ThreadsAsMemory:
    """The documents of sessions and their messages, made of threads: a store.ThreadDocuments."""

    thread_kind: DocumentKind = SESSIONS
    message_kind: DocumentKind = WORKING

    def of_thread(self, thread: ThreadSummary) -> JsonObject:
        """The document of a session that nobody described: its thread was begun by a run."""
        place = Place(thread.collection, thread.owner, thread.created_at)
        agent = {"agent_id": thread.agent_id} if thread.agent_id else {}
        _, document = new_session({"summary": thread.title, "namespace": {**agent}}, place)
        return document

    def id_of(self, thread_id: str, message_id: str) -> str:
        """The id of a message's document."""
        return document_id(thread_id, message_id)

    def of_message(self, thread: ThreadSummary, message: Message, number: int, at: float) -> JsonObject | None:
        """The document of a message; None for reasoning, which is not remembered."""
        if message.role == "reasoning":
            return None
        said = _labels_of(message)
        namespace = {**said["namespace"], SESSION: thread.thread_id}
        if thread.agent_id:
            namespace = {"agent_id": thread.agent_id, **namespace}
        document = Place(thread.collection, thread.owner, at).document(
            {
                "payload_type": CONVERSATIONAL,
                "message_id": number,
                "infer": False,
                **namespaced(namespace),
                SESSION: thread.thread_id,
                "metadata": {
                    **said["metadata"],
                    "type": "structured_message",
                    "role": message.role,
                    _INPUT_TYPE: _input_type(message),
                },
                "tags": said["tags"] or None,
                _TEXT: _words(message),
                "messages": [{"role": message.role, "content": _searched(message)}],
                MESSAGE: message.id,
            }
        )
        return {**document, **_times_of(message)}


def with_input_type(messages: Sequence[Message], form: str) -> tuple[Message, ...]:
    """The messages of an input, with ml-commons' name for its form."""
    return tuple(
        message if _usual_type(message) == form else _with_said(message, {**_said_of(message), _INPUT_TYPE: form})
        for message in messages
    )


def document_id(thread_id: str, message_id: str) -> str:
    """The id of a message's document."""
    digest = hashlib.sha256(f"{len(thread_id)}:{thread_id}{message_id}".encode("utf-8", "surrogatepass")).digest()
    text = base64.urlsafe_b64encode(digest[:_DIGEST_BYTES]).decode()
    return text[0].translate(_FIRST) + text[1:]


def shown_document(document: JsonObject, message: Message | None) -> JsonObject:
    """The document of working memory as clients see it. `message` is the one that it names; None: it names none."""
    shown = {name: value for name, value in document.items() if name not in (MESSAGE, _TEXT, "messages")}
    if message is None:
        return shown
    return {**shown, "messages": [_as_sent(message)], BLOB: {"message": _as_stored(message)}}


@dataclass(frozen=True, slots=True)
class PostedMessages:
    """Messages for a session, with their labels in their metadata. `namespace` has no session."""

    session_id: str | None
    namespace: JsonObject
    messages: tuple[Message, ...]


def posted_messages(fields: Fields) -> PostedMessages | None:
    """The messages in the body of a new working memory: its `messages`, or the one in `structured_data_blob`, where the
    memory of agents has it. None: it has none.

    Raises:
        InvalidRequestError: something is wrong with it.
    """
    if not (items := _posted_items(fields)):
        fields.check()
        return None
    said = _read_labels(fields, _LABELS)
    namespace = said.get("namespace", {})
    session_id = namespace.pop(SESSION, None)
    fields.check()
    read: list[Message] = []
    for pointer, item in items:
        typed, sent = _typed(item)
        read += (_with_said(each, {**said, _SENT: sent}) for each in read_messages([(pointer, typed)]))
    return PostedMessages(session_id, namespace, tuple(read))


def _posted_items(fields: Fields) -> Sequence[tuple[str, JsonValue]]:
    if fields.value.get("messages") is not None:
        items = fields.value["messages"]
        if isinstance(items, list) and items:
            return [(f"/messages/{place}", item) for place, item in enumerate(items)]
        fields.wrong("messages", "messages must be an array of messages, each with role and content")
    elif (blob := fields.inner(BLOB)) is not None and (message := blob.object("message")) is not None:
        return [(f"/{BLOB}/message", message)]
    return ()


def changed_message(message: Message, document: JsonObject, body: JsonObject) -> Message:
    """The message as a body changes its `document`. The document's times stay, but for `last_updated_time` where its
    words are others.

    Raises:
        InvalidRequestError: the body is wrong, or changes an agent's message.
    """
    fields = Fields(body)
    for name in ("binary_data", "structured_data"):
        if body.get(name) is not None:
            fields.wrong(name, f"{name} is for data; this is a message, which has messages, metadata and tags")
    before, changed = _labels_of(message), ("metadata", "tags")
    merged = merge_patch(before, {name: body[name] for name in changed if name in body})
    labels = _read_labels(Fields(merged, problems=fields.problems), changed)
    said = {**before, **{name: labels.get(name, {}) for name in changed}, _CREATED: document[_CREATED]}
    said[_INPUT_TYPE] = _said_of(message).get(_INPUT_TYPE)
    fields.check()
    if (sent := _sent_message(body)) is None:
        return _with_said(message, {**said, _SENT: _sent_content(message), _UPDATED: document[_UPDATED]})
    pointer, item = sent
    typed, said[_SENT] = _typed(item)
    read = read_messages([(pointer, typed)])
    if message.turn_id is not None:
        raise _unchangeable(pointer, "what an agent or its tools said cannot be changed; delete it instead")
    if len(read) != 1 or read[0].role != message.role:
        raise _unchangeable(pointer, f"the document is one message of the role {message.role}")
    return _with_said(replace(message, content=read[0].content), said)


def named_message(document: JsonObject) -> tuple[str, str] | None:
    """The ids of the session and the message that the document is of; None: it is data."""
    session_id, message_id = document.get(SESSION), document.get(MESSAGE)
    return (session_id, message_id) if isinstance(session_id, str) and isinstance(message_id, str) else None


# --- the document of a message


def _input_type(message: Message) -> str:
    """ml-commons' name for the form of the input that the message came in."""
    form = _said_of(message).get(_INPUT_TYPE)
    return form if form in _INPUT_TYPES else _usual_type(message)


def _usual_type(message: Message) -> str:
    """ml-commons' name for the form of input that this message would be by itself."""
    if message.role in ("user", "system", "developer"):
        media = any(not isinstance(block, TextBlock) for block in message.content)
        return "CONTENT_BLOCKS" if media or len(message.content) > 1 else "TEXT"
    return "MESSAGES"


def _words(message: Message) -> str | None:
    blocks = _content(message)
    text = " ".join(block.text for block in blocks if isinstance(block, TextBlock))
    return text[:_SEARCHED_CHARACTERS] or None


def _searched(message: Message) -> list[JsonValue]:
    """The blocks of a message as they are searched: texts, as far as one value of a field goes, and kinds of media."""
    searched: list[JsonValue] = []
    for block in _content(message)[:_SEARCHED_BLOCKS]:
        if isinstance(block, TextBlock):
            searched.append({"type": "text", "text": block.text[:_SEARCHED_CHARACTERS]})
        elif isinstance(block, MediaBlock):
            searched.append({"type": media_kind(block)})
    return searched


def _content(message: Message) -> Sequence[ContentBlock]:
    result = message.tool_result
    return message.content if result is None else result.content


def _as_sent(message: Message) -> JsonObject:
    """The message as requests have it, and as it was sent where its content had another form."""

    def written(block: TextBlock | MediaBlock) -> JsonObject:
        if isinstance(block, TextBlock):
            return {"type": "text", "text": block.text}
        return {"type": media_kind(block), "source": written_source(block.source)}

    shown, sent = _written(message, written), _sent_content(message)
    return shown if sent is None else {**shown, "content": sent}


def _as_stored(message: Message) -> JsonObject:
    """The message as ml-commons stores it: kinds in capitals, a medium in a member of its kind."""

    def written(block: TextBlock | MediaBlock) -> JsonObject:
        if isinstance(block, TextBlock):
            return {"type": "TEXT", "text": block.text}
        source, kind = written_source(block.source), media_kind(block)
        return {"type": kind.upper(), kind: {**source, "type": str(source["type"]).upper()}}

    return _written(message, written)


def _written(message: Message, write: Callable[[TextBlock | MediaBlock], JsonObject]) -> JsonObject:
    content: list[JsonValue] = [
        write(block) for block in _content(message) if isinstance(block, TextBlock | MediaBlock)
    ]
    written: JsonObject = {"role": message.role, "content": content}
    if calls := message.tool_calls:
        written["toolCalls"] = [written_call(call) for call in calls]
    if (result := message.tool_result) is not None:
        written["toolCallId"] = result.call_id
    return written


# --- content of other forms, such as Strands' and Bedrock's


def _typed(item: JsonValue) -> tuple[JsonValue, list[JsonValue] | None]:
    """A sent message with content blocks that can be read, and the content as it was sent where they could not: a block
    without `type` may be any object. A medium becomes one; anything else is a text, its JSON.
    """
    content = item.get("content") if isinstance(item, dict) else None
    if not (isinstance(item, dict) and isinstance(content, list) and any(map(_is_foreign, content))):
        return item, None
    return {**item, "content": [_typed_block(block) if _is_foreign(block) else block for block in content]}, content


def _is_foreign(block: JsonValue) -> bool:
    return isinstance(block, dict) and not is_block(block)


def _typed_block(block: Any) -> JsonValue:
    for kind in ("image", "document", "video"):
        medium: Any = block.get(kind) if len(block) == 1 else None
        source = medium.get("source") if isinstance(medium, dict) else None
        data = source.get("bytes") if isinstance(source, dict) else None
        if isinstance(data, str) and isinstance(medium.get("format"), str):
            name = {"name": medium["name"]} if isinstance(medium.get("name"), str) else {}
            return {"type": kind, "source": {"type": "base64", "format": medium["format"], "data": data}, **name}
    return {"type": "text", "text": dump_json(block).decode()}


def _sent_content(message: Message) -> list[JsonValue] | None:
    content = _said_of(message).get(_SENT)
    return content if isinstance(content, list) else None


# --- labels and times in a message's metadata


def _said_of(message: Message) -> dict[str, Any]:
    said = (message.metadata or {}).get(_SAID)
    return said if isinstance(said, dict) else {}


def _labels_of(message: Message) -> dict[str, Any]:
    known = _said_of(message)
    return {name: known[name] if isinstance(known.get(name), dict) else {} for name in _LABELS}


def _times_of(message: Message) -> JsonObject:
    """The times that a changed message's metadata have, in milliseconds: when its document was made, and when its words
    last changed.
    """
    said = _said_of(message)
    times = {name: said.get(name) for name in (_CREATED, _UPDATED)}
    return {name: time for name, time in times.items() if type(time) is int and time >= 0}


def _with_said(message: Message, said: Mapping[str, Any]) -> Message:
    kept = {name: value for name, value in said.items() if value}
    others = {name: value for name, value in (message.metadata or {}).items() if name != _SAID}
    metadata: JsonObject = {**others, **({_SAID: kept} if kept else {})}
    return replace(message, metadata=metadata or None)


def _read_labels(fields: Fields, names: Sequence[str]) -> dict[str, Any]:
    """The texts by name that the body gives."""
    read: dict[str, Any] = {}
    for name in names:
        if (texts := fields.texts(name)) is not None:
            read[name] = texts
            if len(texts) > _MOST_LABELS:
                fields.wrong(name, f"{name} has {len(texts)} members; a message may have {_MOST_LABELS}")
    return read


def _sent_message(body: JsonObject) -> tuple[str, JsonValue] | None:
    """The one message in a changed document, with its pointer."""
    items, blob = body.get("messages"), body.get(BLOB)
    if isinstance(items, list) and len(items) == 1:
        return "/messages/0", items[0]
    if items is not None:
        raise _unchangeable("/messages", "the document is one message; give an array of one")
    return (f"/{BLOB}/message", blob.get("message")) if isinstance(blob, dict) else None


def _unchangeable(pointer: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, status=400, problems=[FieldProblem(pointer, detail)])
