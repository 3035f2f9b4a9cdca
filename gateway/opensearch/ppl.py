"""Queries in PPL, the Piped Processing Language: where one reads from, and that it reads nowhere else. Pure.

Grammar: https://docs.opensearch.org/latest/search-plugins/sql/ppl/syntax/ (3.x). A query is taken apart at its pipes.
Its first command names the source and nothing else. The commands after it are those of a list, none of which has a
source of its own. A query with brackets, in which subqueries stand, or with comments is refused. So the rest of it need
not be understood.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gateway.errors import ToolError

_LONGEST = 10_000
_COMMANDS: Final = (
    "where", "fields", "table", "stats", "eventstats", "dedup", "sort", "head", "top", "rare", "eval", "rename",
    "parse", "rex", "regex", "fillnull", "flatten", "expand", "trendline", "reverse", "bin", "timechart", "chart",
)  # fmt: skip
_QUOTES = "'\"`"
_SOURCE = re.compile(r"\s*(?:search\s+)?(?:source|index)\s*=\s*(?P<index>[^\s=]+(?:\s*,\s*[^\s=]+)*)\s*", re.IGNORECASE)
_COMMAND = re.compile(r"\s*([a-zA-Z]+)\b")
_FORBIDDEN: Final = {
    "[": "a subquery, which begins with '['",
    "]": "a subquery",
    "//": "a comment",
    "/*": "a comment",
    ";": "';'",
}


class PplQuery(NamedTuple):
    """`source`: the names of its indices, parted by commas. `rest`: the commands behind it."""

    source: str
    rest: tuple[str, ...]

    def reading(self, names: tuple[str, ...]) -> str:
        """The query with these indices as its source."""
        quoted = ", ".join(f"`{name}`" for name in names)
        return " | ".join((f"source = {quoted}", *self.rest))


def parse_ppl(query: str) -> PplQuery:
    """Take a query apart.

    Raises:
        ToolError: it is too long, does not begin with its source, or has a command or a sign that is not allowed.
    """
    if len(query) > _LONGEST:
        raise ToolError(f"the query has {len(query)} characters; at most {_LONGEST} are possible")
    first, *rest = _commands(query)
    source = _SOURCE.fullmatch(first)
    if source is None:
        raise ToolError("a query begins with 'source = INDEX' and nothing else: 'source = books | where price > 5'")
    for command in rest:
        found = _COMMAND.match(command)
        if found is None or found[1].lower() not in _COMMANDS:
            shown = command.split()[0][:50] if command.strip() else ""
            raise ToolError(f"the command {shown!r} cannot be used here; there are: {', '.join(_COMMANDS)}")
    return PplQuery(source["index"].replace("`", ""), tuple(command.strip() for command in rest))


def _commands(query: str) -> list[str]:
    """The query, parted at the pipes that stand in no quotes."""
    commands, begin, at = [], 0, 0
    while at < len(query):
        sign = query[at]
        if sign in _QUOTES:
            at = _end_of_quotes(query, at)
        elif sign == "|":
            commands.append(query[begin:at])
            begin = at + 1
        for forbidden, what in _FORBIDDEN.items():
            if sign not in _QUOTES and query.startswith(forbidden, at):
                raise ToolError(f"the query has {what}, which cannot be used here")
        at += 1
    return [*commands, query[begin:]]


def _end_of_quotes(query: str, at: int) -> int:
    """Where the text ends whose first quote is there. Versions of PPL differ in what a backslash before a quote is."""
    end = query.find(query[at], at + 1)
    if end < 0:
        raise ToolError(f"the query has a {query[at]} without an end")
    if re.search(r"\\['\"`]", query[at : end + 1]):
        raise ToolError("the query has a backslash before a quote, which cannot be used here; use the other quotes")
    return end
