"""Estimates the cost of compiling a regular expression from its text. Pure.

A class such as `\\pL` is 600 ranges, and a counted repetition (`{110}`) is as many copies, so an expression of nine
characters can take megabytes. The estimate is never too low and takes linear time. Invalid expressions get one, too.
A cost of 1 is at most 300 bytes and about a microsecond, measured with Rust's `regex`, which `jsonschema-rs` uses.
"""

from __future__ import annotations

import re
from typing import Final

BYTES_PER_UNIT: Final = 300

_TOKEN = re.compile(
    r"""
      (?P<class> \[\^?\]?(?:\\.|[^\]\\])*+\]? )
    | (?P<property> \\[pP] )
    | (?P<code> \\[xuU]\{[^}]{0,20}\} )
    | (?P<wide> \\[DWSs] | \. )
    | (?P<repeat> \{\s*(?P<least>\d+)\s*(?:,\s*(?P<most>\d*)\s*)?\} )
    | (?P<open> \( )
    | (?P<close> \) )
    | (?P<quantifier> [*+?] )
    | (?P<blank> [\ \t\r\n] )
    | (?P<literal> \\?. )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_PROPERTY = re.compile(r"\{[^}]{0,60}\}|.", re.DOTALL)
_PLAIN_CLASS = re.compile(r"\[(?!\^)(?:\\[wd\W]|[^\\])*\]", re.ASCII)
_IGNORES_CASE = re.compile(r"\(\?[a-zA-Z]*i")
_PROPERTY = 720  # weights are quarters of a unit
_WIDE = 20
_WIDE_ITEMS = {".": 14, "\\D": 18, "\\W": 18, "\\s": 14, "\\S": 32}
_CASES = 4
_MOST_DIGITS = 9
_MOST = 1_000_000_000


def pattern_cost(pattern: str) -> int:
    """The expression's cost; 5 for one of a few characters."""
    outer: list[int] = []  # the costs before each open group
    total = last = 0  # the cost of the innermost group, and of its last item, which a repetition would multiply
    place = 0
    while (token := _TOKEN.match(pattern, place)) is not None:
        place = token.end()
        if token["open"]:
            outer.append(total)
            total = last = 0
        elif token["close"]:
            last = total + 2
            total = last + (outer.pop() if outer else 0)
        elif token["repeat"]:
            times = max(1, int((token["most"] or token["least"])[:_MOST_DIGITS]))
            total += last * (times - 1)
            last = min(last * times, _MOST)
        elif token["blank"]:
            total += 2
            last = max(last, 2)  # with the flag `x`, a repetition after the blank multiplies the item before it
        elif not token["quantifier"]:
            if token["property"] and (name := _IN_PROPERTY.match(pattern, place)):
                place = name.end()
            last = _weight(token[0])
            total += last
    total += sum(outer)
    return total * (_CASES if _IGNORES_CASE.search(pattern) else 1) // 4 + 4


def _weight(item: str) -> int:
    if item[0] != "[":
        return _PROPERTY if item[:2] in ("\\p", "\\P") else _WIDE_ITEMS.get(item, len(item.encode()) + 1)
    size = len(item.encode()) + _PROPERTY * (item.count("\\p") + item.count("\\P"))
    is_plain = item.isascii() and _PLAIN_CLASS.fullmatch(item) is not None
    return size if is_plain else size + _WIDE * (1 + item.count("\\"))
