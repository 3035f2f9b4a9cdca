"""`filter_path`: which parts of an answer a client wants. Pure.

Source: https://docs.opensearch.org/latest/opensearch/common-parameters/#filtered-responses. Paths are parted by commas;
`*` is any text in a name, `**` any names, and a path after `-` is left out. Below: query_dsl.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from gateway.errors import InvalidRequestError
from gateway.messages import JsonValue
from gateway.query_dsl.name_patterns import fits, pieces_of

MOST_PATHS: Final = 100
_Path: TypeAlias = tuple[tuple[str, ...], ...]
"""The names of a path, each as the pieces between its stars."""

_ANY: Final = pieces_of("**")


def filtered(value: JsonValue, wanted: str) -> JsonValue:
    """The parts of an answer that `wanted` names, in their places.

    Raises:
        InvalidRequestError: it names too many.
    """
    paths = [path for path in wanted.split(",") if path]
    if len(paths) > MOST_PATHS:
        raise InvalidRequestError(f"filter_path has {len(paths)} paths; at most {MOST_PATHS} are possible", status=400)
    included = [_path(path) for path in paths if not path.startswith("-")]
    excluded = [_path(path[1:]) for path in paths if path.startswith("-")]
    if included:
        value = _included(value, included)
    if excluded and value is not None:
        value = _without(value, excluded)
    return {} if value is None else value


def _path(text: str) -> _Path:
    return tuple(pieces_of(name) for name in text.split("."))


def _next(paths: Sequence[_Path], name: str) -> tuple[bool, list[_Path]]:
    """Whether one of the paths ends with this member, and the rest of the paths that go on in it."""
    ends, further = False, []
    waiting = list(paths)
    while waiting:
        first, *rest = waiting.pop()
        if first == _ANY:
            further.append((first, *rest))
            if rest:
                waiting.append(tuple(rest))
            ends = ends or not rest
        elif fits(first, name):
            ends = ends or not rest
            if rest:
                further.append(tuple(rest))
    return ends, list(dict.fromkeys(further))


def _included(value: JsonValue, paths: Sequence[_Path]) -> JsonValue:
    """The parts that the paths name; None: there are none."""
    if isinstance(value, list):
        return [part for item in value if (part := _included(item, paths)) is not None] or None
    if not isinstance(value, dict):
        return None
    kept: dict[str, JsonValue] = {}
    for name, inner in value.items():
        ends, further = _next(paths, name)
        if ends:
            kept[name] = inner
        elif further and (part := _included(inner, further)) is not None:
            kept[name] = part
    return kept or None


def _without(value: JsonValue, paths: Sequence[_Path]) -> JsonValue:
    if isinstance(value, list):
        return [_without(item, paths) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, JsonValue] = {}
    for name, inner in value.items():
        ends, further = _next(paths, name)
        if not ends:
            kept[name] = _without(inner, further) if further else inner
    return kept
