"""Reads the members of a body, and names all that are wrong at once.

Below: errors. Above: the protocols' readers of bodies. null is the same as absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final, Self, TypeVar

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue, json_kind
from gateway.wire.json_pointer import dotted, escaped

Kind = TypeVar("Kind")

MOST_ITEMS: Final = 10_000
"""How many objects the arrays of a body may have together: messages, contents, calls, tools. With 1 KB each they are
the largest body; reading many times as many would keep everybody waiting for seconds.
"""

_MOST = 2**31 - 1
_MOST_LONG = 2**63
_LONGEST_ID = 256
_MOST_PROBLEMS = 100  # an error of all would be larger than the body


class ItemCount:
    """The objects in the arrays of a body, as far as they were asked for."""

    __slots__ = ("items",)

    def __init__(self) -> None:
        self.items = 0


class Fields:
    """The members of one object. Problems are noted; `check` refuses them together, with the `status`."""

    status: ClassVar[int] = 400

    def __init__(
        self,
        value: JsonObject,
        at: str = "",
        problems: list[FieldProblem] | None = None,
        count: ItemCount | None = None,
    ) -> None:
        """`at` is the object's JSON pointer in the body; `problems` and `count` are those of the object around it."""
        self.value = value
        self._at = at
        self.problems = [] if problems is None else problems
        self._count = ItemCount() if count is None else count

    def wrong(self, name: str, message: str) -> None:
        """Note that a member is wrong, or missing."""
        self._note(self.pointer(name), message)

    def wrong_at(self, place: str, message: str) -> None:
        """Note that something deeper in the object is wrong; `place` is its pointer below the object: `tools/0`."""
        self._note(f"{self._at}/{place}", message)

    @property
    def is_full(self) -> bool:
        """Whether there are as many problems as an error lists."""
        return len(self.problems) >= _MOST_PROBLEMS

    def _note(self, pointer: str, message: str) -> None:
        if not self.is_full:
            self.problems.append(FieldProblem(pointer, message))

    def below(self, place: str, value: JsonObject) -> Self:
        """The members of an object that stands deeper, see `wrong_at`."""
        return type(self)(value, f"{self._at}/{place}", self.problems, self._count)

    def called(self, name: str) -> str:
        """The name of the member in messages."""
        return name

    def check(self) -> None:
        """Raises InvalidRequestError if there are problems; its message has all of them."""
        if self.problems:
            raise InvalidRequestError(
                "; ".join(each.detail for each in self.problems), status=self.status, problems=self.problems
            )

    @property
    def at(self) -> str:
        """The object's JSON pointer in the body."""
        return self._at

    def text(self, name: str) -> str | None:
        value = self.value.get(name)
        return value if type(value) is str else self._of(name, str, "a string")

    def required(self, name: str, *, filled: bool = False) -> str:
        """A text that must be there, and if `filled` must not be empty. If it is wrong, that is noted, and the result
        is empty.
        """
        value = self.value.get(name)
        if type(value) is str and value:
            return value
        if value is None:
            self.missing(name, "a string")
        elif filled and value == "":
            self.wrong(name, f"{self.called(name)} must not be empty")
        return self.text(name) or ""

    def identifier(self, name: str) -> str | None:
        """An id; None where it is wrong, which is noted, or empty."""
        value = self.text(name)
        if not value or is_id(value):
            return value or None
        self.wrong(name, f"{self.called(name)} must be an id of 1 to {_LONGEST_ID} printable characters")
        return None

    def missing(self, name: str, right: str) -> None:
        """Note that a member is missing; `right` is what it must be."""
        self.wrong(name, f"{self.called(name)} is missing; it must be {right}")

    def boolean(self, name: str) -> bool | None:
        return self._of(name, bool, "true or false")

    def object(self, name: str) -> JsonObject | None:
        return self._of(name, dict, "an object")

    def inner(self, name: str) -> Self | None:
        """The members of an object in this one; None: there is none."""
        value = self.object(name)
        return None if value is None else type(self)(value, self.pointer(name), self.problems, self._count)

    def objects(self, name: str) -> Iterator[Self]:
        """The members of each object of an array, one by one, until there are as many problems as an error lists. An
        item that is no object is a problem.
        """
        if not (items := self.items(name)):
            return
        kind, at = type(self), self.pointer(name)
        for place, item in enumerate(items):
            if self.is_full:
                return
            if isinstance(item, dict):
                yield kind(item, f"{at}/{place}", self.problems, self._count)
            else:
                self.no_object(name, place, item)

    def items(self, name: str) -> Sequence[JsonValue]:
        """The items of an array; none where they are too many, which is noted: MOST_ITEMS."""
        given: Sequence[JsonValue] = self._of(name, list, "an array") or ()
        return given if self.admits(name, len(given)) else ()

    def admits(self, name: str, items: int) -> bool:
        """Count the items of an array. False: with them they are more than MOST_ITEMS, which is noted."""
        before = self.counted
        self.count(items)
        if before <= MOST_ITEMS < self.counted:
            beside = f", and what was read before it {before:,}" if before else ""
            self.wrong(
                name,
                f"{self.called(name)} has {items:,} items{beside}; a request may have {MOST_ITEMS:,} in all arrays",
            )
        return self.counted <= MOST_ITEMS

    @property
    def counted(self) -> int:
        """How many items the arrays of the body have that were read by now."""
        return self._count.items

    def count(self, items: int) -> None:
        """Count items that are not read here."""
        self._count.items += items

    def no_object(self, name: str, place: int, item: JsonValue) -> None:
        """Note that an item of an array is no object."""
        called = self.called(name)
        self.wrong_at(f"{escaped(name)}/{place}", f"each of {called} must be an object, not {json_kind(item)}")

    def number(self, name: str, *, least: int = 0, most: int = _MOST) -> int | None:
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        bounds = f"of at most {_MOST}" if type(value) is int and value > _MOST else f"of at least {least}"
        if most < _MOST:
            bounds = f"from {least} to {most}"
        self.wrong(name, f"{self.called(name)} must be a whole number {bounds}, not {_shown(value)}")
        return None

    def long(self, name: str) -> int | None:
        """A whole number of 64 bits."""
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and -_MOST_LONG <= value < _MOST_LONG:
            return value
        self.wrong(name, f"{self.called(name)} must be a whole number of at most 64 bits")
        return None

    def real(self, name: str, least: float, most: float) -> float | None:
        """A number between these two."""
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.wrong(name, f"{self.called(name)} must be a number from {least:g} to {most:g}, not {_shown(value)}")
        return None

    def word(self, name: str, words: Mapping[str, Kind]) -> Kind | None:
        """The value that the member's word stands for."""
        value = self.value.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value in words:
            return words[value]
        self.wrong(name, f"{self.called(name)} must be one of {', '.join(words)}, not {_shown(value)}")
        return None

    def strings(self, name: str) -> list[str] | None:
        value: list[JsonValue] | None = self._of(name, list, "an array of strings")
        if value is None:
            return None
        if not all(isinstance(each, str) for each in value):
            self.wrong(name, f"{self.called(name)} must be an array of strings")
        return [each for each in value if isinstance(each, str)]

    def string_or_strings(self, name: str) -> tuple[str, ...] | None:
        """A text, or an array of texts, without the empty ones; None: there are none."""
        value = self.value.get(name)
        if isinstance(value, str):
            return (value,) if value else None
        if value is None or isinstance(value, list):
            return tuple(each for each in self.strings(name) or () if each) or None
        self.wrong(name, f"{self.called(name)} must be a string or an array of strings")
        return None

    def texts(self, name: str) -> dict[str, str] | None:
        """An object whose values are texts; other values are written as JSON."""
        value = self.object(name)
        if value is None:
            return None
        return {key: each if isinstance(each, str) else json.dumps(each) for key, each in value.items()}

    def _of(self, name: str, kind: type[Kind], expected: str) -> Kind | None:
        value = self.value.get(name)
        if value is None or isinstance(value, kind):
            return value
        self.wrong(name, f"{self.called(name)} must be {expected}, not {json_kind(value)}")
        return None

    def pointer(self, name: str) -> str:
        """The member's JSON pointer in the body."""
        return f"{self._at}/{escaped(name)}"


class PlacedFields(Fields):
    """Fields that messages call by their place in the body: `messages[0].content`."""

    def called(self, name: str) -> str:
        return dotted(self.pointer(name)) or "the body"


def is_id(text: str) -> bool:
    """Whether a text may be the id of a thread, a run or a message."""
    return 0 < len(text) <= _LONGEST_ID and text.isprintable()


def shown_word(value: JsonValue) -> str:
    """A wrong word as messages show it: the beginning of a text, the kind of anything else."""
    return repr(value[:64]) if isinstance(value, str) else json_kind(value)


def _shown(value: JsonValue) -> str:
    return json.dumps(value)[:64]
