"""The tokens of JSON pointers: member names between slashes, with `~` and `/` in them escaped. Pure.

Source: https://www.rfc-editor.org/rfc/rfc6901
"""

from __future__ import annotations

from collections.abc import Iterable


def escaped(name: str) -> str:
    """A member's name as a token."""
    return name.replace("~", "~0").replace("/", "~1")


def unescaped(token: str) -> str:
    """The name of the member that a token stands for."""
    return token.replace("~1", "/").replace("~0", "~")


def pointer_to(path: Iterable[str | int]) -> str:
    """The pointer to a value by the names and indices on the way; empty for the whole document."""
    return "".join([f"/{escaped(str(part))}" for part in path])


def names_in(pointer: str) -> list[str]:
    """The names on the way that a pointer describes; an index is its digits."""
    return [unescaped(token) for token in pointer.split("/")[1:]]


def dotted(pointer: str) -> str:
    """A pointer as programs write it: `messages[0].content`; empty for the whole document."""
    written = "".join(f"[{name}]" if name.isdecimal() else f".{name}" for name in names_in(pointer))
    return written.removeprefix(".")
