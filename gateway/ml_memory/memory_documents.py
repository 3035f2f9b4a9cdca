"""The documents of a container that are no messages: reads the bodies that make and change sessions, data and records.

Below: fields. Above: the protocol. Documents are of the kinds in memory_kinds, with the members that ml-commons has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.errors import InvalidRequestError, NotFoundError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.answers import milliseconds
from gateway.ml_memory.memory_kinds import MEMORIES, Memories, MemoryType
from gateway.protocol.fields import Fields
from gateway.wire.merge_patch import merge_patch

CONVERSATIONAL: Final = "conversational"
DATA: Final = "data"
SESSION: Final = "session_id"
_ACTIONS: Final = ("ADD", "UPDATE", "DELETE")
_CHANGED: Mapping[MemoryType, tuple[str, ...]] = MappingProxyType(
    {
        "sessions": ("summary", "metadata", "agents", "additional_info", "pinned"),
        "working": ("binary_data", "structured_data", "structured_data_blob", "metadata", "tags"),
        "long-term": ("memory", "tags", "pinned"),
    }
)
_CONTENT: Final = frozenset({"summary", "memory", "binary_data", "structured_data", "structured_data_blob"})
"""Changing one of these is an update in `last_updated_time`."""
_NO_MEMORY: Final = "memory is required: the text to be remembered"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a new document belongs, and when it is written."""

    container_id: str
    owner: str
    now: float

    def document(self, members: JsonObject) -> JsonObject:
        """The document with these members; those that are None are absent."""
        time = milliseconds(self.now)
        return {
            "owner_id": self.owner,
            "memory_container_id": self.container_id,
            **{name: value for name, value in members.items() if value is not None},
            "created_time": time,
            "last_updated_time": time,
        }


def memories_of(memory_type: str) -> Memories:
    """The type of memories that a path names. Raises InvalidRequestError."""
    for name, memories in MEMORIES.items():
        if name == memory_type:
            return memories
    message = f"Invalid memory type: {memory_type[:64]}. Must be one of: {', '.join(MEMORIES)}"
    raise InvalidRequestError(message, status=400)


def new_session(body: JsonObject, place: Place) -> tuple[str | None, JsonObject]:
    """The id that was asked for, and the document of a new session."""
    fields = Fields(body)
    session_id = fields.text(SESSION)
    if session_id is not None and not session_id.strip():
        fields.wrong(SESSION, f"{SESSION} must not be blank; leave it out, and one is made")
    members = {**_members(fields, "sessions"), **_namespace(fields)}
    fields.check()
    return session_id, place.document({**members, "pinned": members.get("pinned") or False})


def new_data(fields: Fields, payload_type: str, namespace: Mapping[str, str], place: Place) -> JsonObject:
    """The document of working memory that is no message."""
    members = _members(fields, "working")
    number = fields.number("message_id")
    checkpoint, parameters = fields.text("checkpoint_id"), fields.object("parameters")
    fields.check()
    return place.document(
        {
            "payload_type": payload_type,
            **members,
            "message_id": number,
            "checkpoint_id": checkpoint,
            "parameters": parameters,
            **namespaced(namespace),
            SESSION: namespace.get(SESSION),
            "infer": False,
        }
    )


def new_record(memory_type: MemoryType, body: JsonObject, place: Place) -> JsonObject:
    """The document of a long-term memory or of a record of history, as a client writes it."""
    fields = Fields(body)
    members = _long_term(fields) if memory_type == "long-term" else _history(fields)
    members |= {**_namespace(fields), "tags": _texts(fields, "tags"), "pinned": fields.boolean("pinned") or False}
    fields.check()
    return place.document(members)


def change_record(
    action: str, memory_id: str, before: JsonObject | None, after: JsonObject | None, place: Place
) -> JsonObject:
    """The record of history of a change to a long-term memory; `before` and `after` are its documents."""
    document = after or before or {}
    about: JsonObject = {name: document[name] for name in ("namespace", "namespace_size", "tags") if name in document}
    return place.document(
        {"memory_id": memory_id, "action": action, "before": _said(before), "after": _said(after), **about}
    )


def changed_document(memory_type: MemoryType, document: JsonObject, body: JsonObject, now: float) -> JsonObject:
    """The document as a body changes it: objects are merged, and null removes a member. Members that cannot be changed
    are ignored, as ml-commons does.

    Raises:
        InvalidRequestError: the body is wrong, or changes nothing.
        NotFoundError: documents of this type cannot be changed.
    """
    if (known := _CHANGED.get(memory_type)) is None:
        raise NotFoundError("Can't update memory history")
    sent = {name: body[name] for name in known if name in body}
    merged = merge_patch({name: document[name] for name in known if name in document}, sent)
    fields = Fields(merged)
    members = _members(fields, memory_type)
    if not sent:
        fields.wrong(known[0], f"nothing to change; a document of {memory_type} memory has {', '.join(known)}")
    if "memory" in sent and sent["memory"] is None:
        fields.wrong("memory", _NO_MEMORY)
    fields.check()
    changed = merge_patch({name: value for name, value in document.items() if name not in known}, members)
    if not _CONTENT.isdisjoint(sent):
        changed["last_updated_time"] = milliseconds(now)
    return changed


def read_namespace(fields: Fields) -> dict[str, str]:
    """The namespace in a body; empty: there is none."""
    return fields.texts("namespace") or {}


def namespaced(namespace: Mapping[str, str]) -> JsonObject:
    """The members of a document in this namespace."""
    return {"namespace": {**namespace}, "namespace_size": len(namespace)} if namespace else {}


def _members(fields: Fields, memory_type: MemoryType) -> JsonObject:
    """The members of a document of this type that its writers may set and change."""
    read: Mapping[str, Callable[[str], JsonValue]] = {
        "summary": fields.text,
        "memory": fields.text,
        "binary_data": fields.text,
        "pinned": fields.boolean,
        "tags": lambda name: _texts(fields, name),
        "metadata": fields.object if memory_type == "sessions" else lambda name: _texts(fields, name),
    }
    return {name: read.get(name, fields.object)(name) for name in _CHANGED[memory_type]}


def _namespace(fields: Fields) -> JsonObject:
    return namespaced(read_namespace(fields))


def _texts(fields: Fields, name: str) -> JsonObject | None:
    texts = fields.texts(name)
    return None if texts is None else {**texts}


def _long_term(fields: Fields) -> JsonObject:
    memory = fields.text("memory")
    if not (memory or "").strip():
        fields.wrong("memory", _NO_MEMORY)
    return {"memory": memory, **{name: fields.text(name) for name in ("strategy_type", "strategy_id")}}


def _history(fields: Fields) -> JsonObject:
    action = fields.text("action")
    if action not in _ACTIONS:
        fields.wrong("action", f"action must be one of {', '.join(_ACTIONS)}")
    sides: JsonObject = {}
    for name in ("before", "after"):
        side = fields.inner(name)
        sides[name] = None if side is None else {**side.value, "memory": side.text("memory") or ""}
    return {"memory_id": fields.text("memory_id"), "action": action, **sides, "error": fields.text("error")}


def _said(document: JsonObject | None) -> JsonObject:
    return {} if document is None else {name: document[name] for name in ("memory", "tags") if name in document}
