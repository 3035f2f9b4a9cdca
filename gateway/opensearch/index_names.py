"""Names of indices: those that may be searched, and those in what a model wrote. Pure.

An index may be searched if one of the operator's patterns fits its own name. Names of aliases and data streams,
patterns and date math lead to indices; only the cluster knows to which, see cluster_search.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from gateway.errors import ToolError

_LONGEST = 1_000  # in a URL, of which OpenSearch reads 4,096 bytes
_COMMA = re.compile(r",(?![^<>]*>)")  # none of those in date math
_NAME = re.compile(r'-?[^\s\\/?"<>|,#:%+_\ud800-\udfff-][^\s\\/?"<>|,#:%\ud800-\udfff]*')
_DATE_MATH = re.compile(r"<[^\s<>:,\ud800-\udfff]+>")
_ALL = "_all"
_BACKING = re.compile(r"\.ds-(.+)-\d{6,}")


@dataclass(frozen=True, slots=True)
class AllowedIndices:
    """The indices that may be searched: those that one of `patterns` fits, without the hidden ones, whose names begin
    with a dot, and without those whose names begin with one of `kept_out`.
    """

    patterns: tuple[str, ...]
    kept_out: tuple[str, ...] = ()
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        choices = (re.escape(each).replace(r"\*", ".*") for each in self.patterns)
        object.__setattr__(self, "_pattern", re.compile("|".join(choices), re.DOTALL))

    def has(self, index: str) -> bool:
        """Whether the index of that very name may be searched. One behind a data stream goes by the stream's name."""
        stream = _BACKING.fullmatch(index)
        name = index if stream is None else stream[1]
        if name.startswith((".", *self.kept_out)) or ":" in name:
            return False
        return self._pattern.fullmatch(name) is not None


def names_in(expression: str) -> tuple[str, ...]:
    """The names, patterns and date math in an expression, which commas part.

    Raises:
        ToolError: it is too long, or one of them can be no name of this cluster.
    """
    if len(expression) > _LONGEST:
        raise ToolError(f"the names of indices have more than {_LONGEST} characters; name fewer, or use '*'")
    names = tuple("*" if name == _ALL else name for name in map(str.strip, _COMMA.split(expression)))
    for name in names:
        if ":" in name:
            raise ToolError(f"{name!r} names an index of another cluster, which cannot be searched")
        if not (_NAME.fullmatch(name) or _DATE_MATH.fullmatch(name)) or not name.strip("."):
            raise ToolError(
                f"{name!r} is no name of an index; write one such as 'books', or a pattern such as 'books-*'"
            )
    return names


def single_name(expression: str) -> str:
    """The one name, or the date math, that stands where only one index can be read.

    Raises:
        ToolError: it is a pattern, or several names.
    """
    names = names_in(expression)
    if len(names) != 1 or "*" in names[0] or names[0].startswith("-"):
        raise ToolError(f"{expression!r} does not name one index")
    return names[0]


def is_plain(name: str) -> bool:
    """Whether it is a name, and not a pattern, an exclusion or date math."""
    return not ("*" in name or name.startswith(("-", "<")))


def in_path(names: tuple[str, ...]) -> str:
    """The names as a part of a URL's path."""
    return quote(",".join(names), safe="*,")
