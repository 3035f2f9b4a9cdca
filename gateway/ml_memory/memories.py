"""Threads as ml-commons' memories, and the bodies of requests for them.

Below: fields, the store's data. Above: the protocol of memories. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gateway.agent import ABSENT, Absent
from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, JsonValue
from gateway.ml_commons.errors import EXCEPTION
from gateway.protocol import time_text
from gateway.protocol.fields import Fields
from gateway.protocol.pages import PageSize
from gateway.store import ThreadSummary
from gateway.wire.merge_patch import merge_patch

Item = TypeVar("Item")

MEMORY_INDEX: Final = ".plugins-ml-memory-meta"
MESSAGE_INDEX: Final = ".plugins-ml-memory-message"
_NOTE: Final = "ml_commons"  # the member of a thread's metadata with a memory's members beside its name
_NOTED: Final = {"application_type": str, "additional_info": dict}
_MOST_NAME: Final = 4096
_USUAL_RESULTS: Final = 10
_MOST_RESULTS: Final = 10_000
_MOST: Final = 2**31 - 1
_WHOLE_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class MemoryWords:
    """The members of a memory in a request. `name` is ABSENT if there is none; `noted` are all others. None removes a
    member, in `noted` too.
    """

    name: str | Absent | None = ABSENT
    noted: JsonObject = field(default_factory=dict)

    @property
    def says_nothing(self) -> bool:
        return self.name is ABSENT and not self.noted

    def metadata(self, before: JsonObject) -> JsonObject:
        """The thread's metadata with these changes."""
        return {**before, _NOTE: merge_patch(_noted(before), self.noted)} if self.noted else before


@dataclass(frozen=True, slots=True)
class Stretch:
    """The part of a list that is asked for: at most `most` items from number `start` on."""

    start: int
    most: int

    def of(self, items: Sequence[Item]) -> Sequence[Item]:
        """The part of a whole list."""
        return items[self.start : self.start + self.most]

    def answer(self, name: str, items: Iterable[JsonObject], there: int) -> JsonObject:
        """The answer with the items of this part, fewer where they are large (PageSize), and where the next part
        begins, if there are more; `there` are all that there are.
        """
        shown: list[JsonValue] = []
        size = PageSize()
        for item in items:
            shown.append(item)
            size.add(item)
            if size.is_full:
                break
        end = self.start + len(shown)
        return {name: shown, **({"next_token": end} if there > end else {})}


def memory_words(body: JsonObject) -> MemoryWords:
    """The members of a memory in a body; other members are ignored. Raises InvalidRequestError (400)."""
    given = Fields(body)
    name = given.text("name")
    if name is not None and len(name) > _MOST_NAME:
        given.wrong("name", f"name has {len(name):,} characters; it may have {_MOST_NAME:,}")
    noted: JsonObject = {"application_type": given.text("application_type"), "additional_info": info_of(given)}
    given.check()
    return MemoryWords(name if "name" in body else ABSENT, {each: noted[each] for each in noted if each in body})


def info_of(body: Fields) -> JsonObject | None:
    """The `additional_info` of a body, whose values are texts; null: the member goes."""
    texts = body.texts("additional_info")
    if texts is None:
        return None
    given = body.value["additional_info"]
    assert isinstance(given, dict), "it has texts"
    return {name: None if given[name] is None else text for name, text in texts.items()}


def memory_json(thread: ThreadSummary, user: str) -> JsonObject:
    """A thread as a memory. `user` is its owner's name; empty: nobody has one here."""
    shown: JsonObject = {
        "memory_id": thread.thread_id,
        "create_time": time_text(thread.created_at),
        "updated_time": time_text(thread.updated_at),
        "name": thread.title,
    }
    return {**shown, **_noted(thread.metadata), **({"user": user} if user else {})}


def stretch_asked(query: Mapping[str, str], *, too_few: str, too_low: str | None = None) -> Stretch:
    """The part that `max_results` and `next_token` ask for. `too_few` and `too_low` are ml-commons' messages for wrong
    values of the two; without `too_low` the message is that of its search.

    Raises:
        InvalidRequestError: 400
    """
    most = _whole_number(query, "max_results", _USUAL_RESULTS)
    if most < 1:
        raise _invalid("max_results", too_few, f"from 1 to {_MOST_RESULTS}")
    if most > _MOST_RESULTS:
        raise _wrong("max_results", f"max_results is {most}: it must be from 1 to {_MOST_RESULTS}")
    start = _whole_number(query, "next_token", 0)
    if start < 0 and too_low is not None:
        raise _invalid("next_token", too_low, "0 or more")
    if start < 0:
        raise _wrong(
            "next_token", f"[from] parameter cannot be negative, found [{start}]: next_token must be 0 or more"
        )
    return Stretch(start, most)


def _whole_number(query: Mapping[str, str], name: str, usual: int) -> int:
    text = query.get(name)
    if text is None:
        return usual
    if not _WHOLE_NUMBER.fullmatch(text) or abs(number := int(text)) > _MOST:
        raise _wrong(
            name, f"Failed to parse int parameter [{name}] with value [{text[:64]}]: it must be a whole number"
        )
    return number


def _invalid(name: str, theirs: str, right: str) -> InvalidRequestError:
    message = f"Validation Failed: 1: {theirs}; {name} must be {right}"
    problems, members = [FieldProblem(name, message)], {EXCEPTION: "action_request_validation_exception"}
    return InvalidRequestError(message, status=400, problems=problems, members=members)


def _wrong(name: str, message: str) -> InvalidRequestError:
    return InvalidRequestError(message, status=400, problems=[FieldProblem(name, message)])


def _noted(metadata: JsonObject) -> JsonObject:
    """The notes on a memory, as far as they have the right form: other protocols let their clients write metadata."""
    note = metadata.get(_NOTE)
    if not isinstance(note, dict):
        return {}
    return {name: note[name] for name, kind in _NOTED.items() if isinstance(note.get(name), kind)}
