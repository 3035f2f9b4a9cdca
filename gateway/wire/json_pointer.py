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
    """The pointer to the value at `path`, its names and indices from the root on; empty for the whole document."""
    return "".join([f"/{escaped(str(part))}" for part in path])


def names_in(pointer: str) -> list[str]:
    """The names and indices of a pointer from the root on; an index is a text of digits."""
    return [unescaped(token) for token in pointer.split("/")[1:]]


def dotted(pointer: str) -> str:
    """A pointer in the notation of programs, such as `messages[0].content`; empty for the whole document."""
    written = "".join(f"[{name}]" if name.isdecimal() else f".{name}" for name in names_in(pointer))
    return written.removeprefix(".")
