"""Writes canonical options as parameters of a provider.

Below: options. Above: the vendors' files `options.py`, each with a table of its own, and their request writers. A table
is data: it has the provider's names for each option, and the spellings that operators may use for it in
`model_parameters`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeGuard

from gateway.messages import JsonObject, JsonValue
from gateway.model import AnswerOptions, ForcedTool
from gateway.options.generation import FormatKind, GenerationOptions

Path: TypeAlias = tuple[str, ...]


def _as_it_is(value: Any) -> JsonValue:
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class WireMember:
    """One member of `model_parameters` that an option is written to.

    `spellings` are all names that an operator may have used: the value replaces one that is there, else it gets the
    first. Members under `excludes` are removed beside it. `value` converts the option for the wire; None: the wire
    expresses it by leaving it out.
    """

    spellings: tuple[Path, ...]
    excludes: tuple[Path, ...] = ()
    value: Callable[[Any], JsonValue] = _as_it_is


def member(
    *spellings: str, excludes: Sequence[str] = (), value: Callable[[Any], JsonValue] = _as_it_is
) -> tuple[WireMember, ...]:
    """The one member that an option has, with paths that are written with dots: `inferenceConfig.topP`."""
    return (WireMember(_paths(spellings), _paths(excludes), value),)


def _paths(dotted: Sequence[str]) -> tuple[Path, ...]:
    return tuple(tuple(path.split(".")) for path in dotted)


@dataclass(frozen=True)
class OptionTable:
    """The options that a wire takes. `members` has GenerationOptions' names; the rest is as in AnswerOptions."""

    members: Mapping[str, tuple[WireMember, ...]]
    formats: frozenset[FormatKind] = frozenset()
    forced_tools: frozenset[ForcedTool] = frozenset()
    most_stops: int | None = None
    formats_beside_tools: bool = True

    @cached_property
    def taken(self) -> AnswerOptions:
        """The options that a model of this wire supports."""
        names = frozenset(self.members)
        return AnswerOptions(names, self.formats, self.forced_tools, self.most_stops, self.formats_beside_tools)


def with_options(parameters: JsonObject, options: GenerationOptions, table: OptionTable) -> JsonObject:
    """An agent's `model_parameters` with the options added in the wire's form.

    They are added in the table's order. Of two limits of tokens the smaller counts. Options that the table does not
    have are left out.
    """
    merged = {**parameters}
    for name, places in table.members.items():
        if (option := getattr(options, name)) is None:
            continue
        for place in places:
            value = place.value(option)
            standing = [(path, given) for path in place.spellings if (given := _taken(merged, path)) is not None]
            if name == "max_tokens":
                value = min(limit for limit in (value, *(given for _, given in standing)) if _is_number(limit))
            for path in place.excludes:
                _taken(merged, path)
            if value is not None:
                _put(merged, standing[0][0] if standing else place.spellings[0], value)
    return merged


def _is_number(value: JsonValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _taken(parameters: JsonObject, path: Path) -> JsonValue:
    """Remove a value, and give it; None if there is none. Mappings on the way are copied, and removed when empty."""
    name, *rest = path
    value = parameters.get(name)
    if not rest:
        return parameters.pop(name, None)
    if not isinstance(value, dict):
        return None
    inner = {**value}
    found = _taken(inner, tuple(rest))
    if inner:
        parameters[name] = inner
    else:
        del parameters[name]
    return found


def _put(parameters: JsonObject, path: Path, value: JsonValue) -> None:
    name, *rest = path
    if not rest:
        parameters[name] = value
        return
    inner = parameters.get(name)
    copy: JsonObject = {**inner} if isinstance(inner, dict) else {}
    _put(copy, tuple(rest), value)
    parameters[name] = copy
