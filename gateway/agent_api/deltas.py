"""The value of a content, by its type, and how a delta continues it. Pure.

Below: the words. Above: grammar, schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.messages import JsonObject, JsonValue

VALUES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "text": ("text",),
        "data": ("data",),
        "image": ("image_url",),
        "audio": ("data", "format"),
        "file": ("file_url", "file_id", "filename", "file_data"),
        "refusal": ("refusal",),
        "video": ("video_url",),
    }
)
"""The seven types of contents, and the members that each of them says its value in."""

_PIECES: Final = frozenset({"text", "refusal", "data", "file_data"})
"""Members whose deltas are pieces. A URL, a name and a format are whole in each delta."""


def joined(member: str, held: JsonValue, added: JsonValue) -> JsonValue:
    """The value of a content's member after a delta. Neither of the two is changed."""
    if added is None:
        return held
    if held is None or member not in _PIECES:
        return added
    return joined_value(held, added)


def joined_value(held: JsonValue, added: JsonValue) -> JsonValue:
    """Texts and arrays go on, numbers are added, objects are joined member by member; anything else is replaced."""
    match held, added:
        case (bool(), _) | (_, bool()):
            return added
        case (int() | float(), int() | float()):
            return held + added
        case (str(), str()):
            return held + added
        case (list(), list()):
            return [*held, *added]
        case (dict(), dict()):
            return joined_data(held, added)
        case _:
            return added


def joined_data(held: JsonObject, added: JsonObject) -> JsonObject:
    """An object with another one's members: those that both have are joined."""
    both = {name: joined_value(held[name], added[name]) for name in held.keys() & added.keys()}
    return {**held, **added, **both}
