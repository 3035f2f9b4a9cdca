"""Reads the options of a search and of its queries. Unknown options are refused and never ignored.

Below: clauses. Above: `queries.py`, `query_string.py`, `search_body.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.query_dsl.clauses import Fuzziness, QueryError, Scalar

Json: TypeAlias = Any  # not messages.JsonValue: this room imports no other


@dataclass(slots=True)
class QueryOptions:
    """The options of one query. Its reader takes each option that it knows; an option that is left is an error."""

    query: str
    values: dict[str, Json]
    taken: set[str] = field(default_factory=set)

    def take(self, name: str, default: Json = None) -> Json:
        self.taken.add(name)
        return self.values.get(name, default)

    def text(self, name: str) -> Scalar:
        value = self.take(name)
        if not isinstance(value, str | int | float):
            raise QueryError(f"{self.query!r} needs {name!r}: text or a number, not {described(value)}")
        return value

    def number(self, name: str, default: float) -> float:
        self.taken.add(name)
        return finite_number(self.values, name) if name in self.values else default

    def choice(self, name: str, choices: tuple[str, ...]) -> Any:
        value = self.take(name, choices[0])
        if not isinstance(value, str) or value.lower() not in choices:
            raise QueryError(f"{name!r} of {self.query!r} is one of {quoted(choices)}, not {value!r}")
        return value.lower()

    def done(self) -> None:
        left = self.values.keys() - self.taken
        if left:
            raise QueryError(f"{self.query!r} does not support {quoted(left)} here; it has {quoted(self.taken)}")


def fuzziness_in(options: QueryOptions) -> Fuzziness | None:
    """The query's `fuzziness`, None where it has none."""
    value = options.take("fuzziness")
    prefix, words = whole_number(options.values, "prefix_length", 0), whole_number(options.values, "max_expansions", 50)
    options.taken |= {"prefix_length", "max_expansions"}
    if options.take("fuzzy_transpositions", True) is not True:
        raise QueryError("'fuzzy_transpositions' is always true: two swapped letters count as one that differs")
    if value is None:
        return None
    text = str(value).upper()
    if text in ("0", "1", "2"):
        return Fuzziness(int(text), prefix=prefix, words=words)
    if (match := re.fullmatch(r"AUTO(?::(\d{1,3}),(\d{1,3}))?", text, re.ASCII)) is not None:
        one_from, two_from = int(match[1] or 3), int(match[2] or 6)
        return Fuzziness(one_from=one_from, two_from=two_from, prefix=prefix, words=words)
    raise QueryError(f"'fuzziness' is 'AUTO', 0, 1 or 2, not {value!r}")


def as_list(value: Json) -> list[Json]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def whole_number(body: Mapping[str, Json], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:9])
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise QueryError(f"{name!r} is a whole number from 0, not {value!r}")
    return value


def finite_number(values: Mapping[str, Json], name: str) -> float:
    value = values[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise QueryError(f"{name!r} is a number, not {value!r}")
    return float(value)


def quoted(names: Any) -> str:
    return ", ".join(repr(name) for name in sorted(names))


def described(value: Json) -> str:
    match value:
        case None:
            return "nothing"
        case dict():
            return f"an object with {quoted(value)}" if value else "an empty object"
        case list():
            return "a list"
        case _:
            return repr(value)[:100]
