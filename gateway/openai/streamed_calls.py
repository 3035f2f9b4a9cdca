"""Assembles tool calls from the fragments of a chat completions stream. Pure.

Source: https://platform.openai.com/docs/api-reference/chat/streaming (`delta.tool_calls`). As documented, each fragment
has the `index` of its call, and the first one has its `id` and name. Some servers leave out the index or the id, give
every call the index 0, skip numbers, repeat the name in every fragment or split it, change the id each time, or send
the arguments as an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.wire import strict_json

_STRUCTURE = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
_LONGEST_NAME = 1_000  # of one that comes in pieces without an end


class CallStep(NamedTuple):
    """The meaning of one fragment. The first step of a slot is `started` and has the `call_id` (may be empty) and
    name.
    """

    slot: int
    started: bool
    call_id: str
    name: str
    arguments: str
    extra: object = None


class _Ending:
    """Finds the end of a JSON object that comes in pieces. It looks at each piece once."""

    def __init__(self) -> None:
        self._pieces = 0  # that were looked at
        self._open = 0  # brackets
        self._in_text = False
        self._escaped = False
        self._is_whole: bool | None = None  # once all brackets were closed

    def is_reached(self, pieces: list[str]) -> bool:
        """Whether `pieces`, to which only more is added, are a whole JSON object."""
        for piece in pieces[self._pieces :]:
            if self._is_whole and not piece.isspace():
                self._is_whole = False
            elif self._is_whole is None:
                self._look_at(piece)
                if self._open == 0 and not self._in_text and not piece.isspace():
                    self._is_whole = _is_object("".join(pieces))
        self._pieces = len(pieces)
        return self._is_whole is True

    def _look_at(self, piece: str) -> None:
        start = 1 if self._escaped else 0
        for token in _STRUCTURE.finditer(piece, start):
            found = token[0]
            if found == '"':
                self._in_text = not self._in_text
            elif not self._in_text and found in "{[":
                self._open += 1
            elif not self._in_text and found in "}]":
                self._open -= 1
        rest = piece[start:]
        self._escaped = (len(rest) - len(rest.rstrip("\\"))) % 2 == 1


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


@dataclass(slots=True)
class _Slot:
    number: int
    call_id: str = ""
    name: str = ""
    started: bool = False
    arguments: list[str] = field(default_factory=list)
    ending: _Ending = field(default_factory=_Ending)
    extra: object = None

    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, after which nothing of this call can come."""
        return self.ending.is_reached(self.arguments)


class StreamedCalls:
    """One per response. A call starts as soon as its name is certain: it is a known name, or arguments follow."""

    def __init__(self, known_names: Container[str]) -> None:
        self._known_names = known_names
        self._slots: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}
        self._by_id: dict[str, _Slot] = {}
        self._by_position: dict[int, _Slot] = {}

    @property
    def count(self) -> int:
        """How many calls there are, including those whose name is not certain yet."""
        return len(self._slots)

    def feed(self, entries: Sequence[object]) -> Iterator[CallStep]:
        """The steps in the `tool_calls` of one chunk, one by one. The caller may stop before the last."""
        for position, entry in enumerate(entries):
            if isinstance(entry, dict) and (step := self._fragment(position, entry)) is not None:
                yield step

    def finish(self) -> list[CallStep]:
        """The calls whose name was not certain until the end. Fragments without name and arguments are not calls."""
        return [self._start(slot) for slot in self._slots if not slot.started and (slot.name or slot.arguments)]

    def _fragment(self, position: int, entry: dict[str, object]) -> CallStep | None:
        function = entry.get("function")
        if not isinstance(function, dict):
            function = {}
        name = function.get("name")
        name = name if isinstance(name, str) else ""
        call_id = entry.get("id")
        call_id = "" if call_id is None else str(call_id)
        arguments = _text_of(function.get("arguments"))
        slot = self._slot_of(position, entry.get("index"), call_id, name, arguments)
        slot.call_id = slot.call_id or call_id
        slot.extra = entry.get("extra_content") or slot.extra
        if name and not slot.started:
            slot.name = (name if name.startswith(slot.name) else slot.name + name)[:_LONGEST_NAME]
        if arguments:
            slot.arguments.append(arguments)
        if slot.started:
            return CallStep(slot.number, False, "", "", arguments, slot.extra) if arguments or slot.extra else None
        if slot.name and (slot.arguments or slot.name in self._known_names):
            return self._start(slot)
        return None

    def _start(self, slot: _Slot) -> CallStep:
        slot.started = True
        return CallStep(slot.number, True, slot.call_id, slot.name, "".join(slot.arguments), slot.extra)

    def _slot_of(self, position: int, index: object, call_id: str, name: str, arguments: str) -> _Slot:
        slot: _Slot | None
        if isinstance(index, int) and not isinstance(index, bool):
            slot = self._by_index.get(index)
        elif call_id and (name or call_id in self._by_id):
            slot, index = self._by_id.get(call_id), None
        else:
            slot, index = (
                self._by_position.get(position) or (self._slots[-1] if self._slots and not name else None),
                None,
            )
        if slot is None or self._is_another(slot, call_id, name, arguments):
            slot = _Slot(len(self._slots))
            self._slots.append(slot)
        if index is not None:
            self._by_index[index] = slot
        if call_id:
            self._by_id[call_id] = slot
        self._by_position[position] = slot
        return slot

    def _is_another(self, slot: _Slot, call_id: str, name: str, arguments: str) -> bool:
        """Whether a fragment that seems to belong to the slot begins another call. Without a name it does not."""
        if not name or not slot.name:
            return False
        if call_id and slot.call_id:
            return call_id != slot.call_id or (name != slot.name and slot.is_complete())
        if slot.is_complete():
            return name != slot.name or bool(arguments.strip())
        # A second piece of one name, or a call without arguments and the next one: what is a whole name decides.
        return name != slot.name and slot.started and name in self._known_names


def _text_of(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else strict_json.dump(arguments).decode()
