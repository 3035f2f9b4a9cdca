"""Reads the members of JSON objects one by one: collects problems, and leaves out unknown members.

Below: the words. Above: content, input.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from gateway.errors import FieldProblem, InvalidRequestError
from gateway.messages import JsonObject, json_kind
from gateway.protocol.fields import MOST_ITEMS

logger = logging.getLogger(__name__)

_MAX_PROBLEMS: Final = 50
_MOST_LEFT_OUT: Final = 20  # kinds, that are logged
_WRONG_ID: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_CAPITAL: Final = re.compile("[A-Z]")


@cache
def _aliases(known: frozenset[str]) -> Mapping[str, str]:
    """The members' names in snake_case, which the Python SDK accepts, too."""
    snake_case = {_CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name): name for name in known}
    return {alias: name for alias, name in snake_case.items() if alias != name}


class MemberReader:
    """Gives a value for every member, a placeholder for a wrong one; `finish` raises if there was one.

    `at` is where the object stands, as a JSON Pointer (RFC 6901).
    """

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []
        self.problem_count = 0
        self.left_out: dict[str, int] = {}
        self.oddities = 0  # how often anything was wrong or left out
        self.counted = 0  # the items of all arrays

    def finish(self) -> None:
        if self.left_out:
            logger.warning("left out of an AG-UI input what is not known", extra={"left_out": dict(self.left_out)})
        if not self.problems:
            return
        first = self.problems[0]
        count = self.problem_count
        more = f" and {count - 1} more" if count > 1 else ""
        raise InvalidRequestError(f"wrong fields: {first.pointer} ({first.detail}){more}", problems=self.problems)

    def wrong(self, pointer: str, detail: str) -> None:
        self.problem_count += 1
        self.oddities += 1
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(FieldProblem(pointer, detail))

    def leave_out(self, what: str) -> None:
        self.oddities += 1
        if what in self.left_out or len(self.left_out) < _MOST_LEFT_OUT:
            self.left_out[what] = self.left_out.get(what, 0) + 1

    def known_members(self, item: dict[str, Any], known: frozenset[str], what: str) -> dict[str, Any]:
        """The item with its known members under their own names: some clients write `thread_id` for `threadId`. If
        both are there, the protocol's spelling counts. Unknown members are left out.
        """
        if item.keys() <= known:
            return item
        aliases, members = _aliases(known), {}
        for name, value in item.items():
            if name in known:
                members[name] = value
            elif name in aliases:
                members.setdefault(aliases[name], item.get(aliases[name], value))
            elif len(self.left_out) < _MOST_LEFT_OUT:
                self.leave_out(f"member {name[:64]!r} of {what}")
            else:
                self.oddities += 1
        return members

    def text(self, item: dict[str, Any], name: str, at: str, *, optional: bool = False) -> Any:
        """The string member `name`; None if it is optional and absent, and "" if it is wrong."""
        value = item.get(name)
        if type(value) is str:
            return value
        if value is None and optional:
            return None
        self.wrong(f"{at}/{name}", "required" if name not in item else f"expected a string, got {json_kind(value)}")
        return ""

    def identifier(self, item: dict[str, Any], name: str, at: str = "") -> str:
        value: str = self.text(item, name, at)
        if type(item.get(name)) is str and (not 0 < len(value) <= 256 or _WRONG_ID.search(value)):
            self.wrong(f"{at}/{name}", "expected 1 to 256 characters without control characters")
        return value

    def metadata(self, item: dict[str, Any], at: str) -> JsonObject | None:
        value = item.get("metadata")
        if value is not None and type(value) is not dict:
            self.wrong(f"{at}/metadata", f"expected an object, got {json_kind(value)}")
            return None
        return value

    def items(self, data: dict[str, Any], name: str, at: str = "", *, required: bool = False) -> list[Any]:
        value = data.get(name)
        if type(value) is list:
            self.counted += len(value)
            if self.counted > MOST_ITEMS:
                raise self.too_many(f"{at}/{name}")
            return value
        if value is not None or required:
            got = f"expected an array, got {json_kind(value)}" if name in data else "required"
            self.wrong(f"{at}/{name}", got)
        return []

    def too_many(self, at: str) -> InvalidRequestError:
        """The error of more than MOST_ITEMS, with those of the array that stands at this pointer."""
        return InvalidRequestError(
            f"the input has more than {MOST_ITEMS:,} messages, parts, calls, tools and other items; to go on with a"
            " longer thread, send only what is new to an agent with 'history: append' or 'history: by_id'",
            code="too_many_items",
            problems=[FieldProblem(at, f"with these it has {self.counted:,} items; {MOST_ITEMS:,} are taken")],
        )

    def objects(self, data: dict[str, Any], name: str, at: str = "") -> list[tuple[str, dict[str, Any]]]:
        """The objects in the array member `name`, each with its pointer."""
        found = []
        for i, item in enumerate(self.items(data, name, at)):
            if type(item) is dict:
                found.append((f"{at}/{name}/{i}", item))
            else:
                self.wrong(f"{at}/{name}/{i}", f"expected an object, got {json_kind(item)}")
        return found
