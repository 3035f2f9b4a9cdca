"""Paths with ids. Ids are any text: a slash that belongs to one is sent as `%2F`, and marked until it is read."""

from __future__ import annotations

from urllib.parse import unquote

_SLASH = "\0"  # no id has control characters


def path_with_marked_slashes(raw_path: bytes) -> str:
    """The path with `%2F` marked: such a slash separates nothing, and belongs to an id.

    Otherwise nobody could ask for the run `a/events`: servers decode a path before it is split.
    """
    parts = (unquote(part.decode("ascii", "replace")) for part in raw_path.split(b"/"))
    # a NUL that was sent is not a slash, and in no id either
    return "/".join(part.replace(_SLASH, "\ufffd").replace("/", _SLASH) for part in parts)


def unmarked(part: str) -> str:
    """A part of such a path as it was sent."""
    return part.replace(_SLASH, "/")
