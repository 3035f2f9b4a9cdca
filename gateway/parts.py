"""Collects the parts of a room, of the rooms that it names, and of the entry points of the same name.

A room of parts names further rooms in `ROOMS`. In these, only modules called `endpoints` or `..._endpoints` end with
parts.

A part is a typed constant at the end of a module (`PROVIDER = ModelProvider("demo", open_demo)`). Above: the
composition root. Below: the contracts. No part is named here: a new part needs only a new file.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from types import ModuleType
from typing import Protocol, TypeVar

from gateway.errors import ConfigurationError


class Part(Protocol):
    """The interface of every kind of part."""

    @property
    def name(self) -> str: ...


PartT = TypeVar("PartT", bound=Part)


def collect(room: str, kind: type[PartT]) -> Mapping[str, PartT]:
    """The parts of type `kind` in `gateway.<room>` and in the entry point group of that name, by their names, sorted.

    Raises:
        ConfigurationError: two parts have one name, or an entry point has no part.
    """
    found: dict[str, PartT] = {}
    origins: dict[str, str] = {}
    for origin, part in _parts(room, kind):
        if part.name in found and found[part.name] is not part:
            raise ConfigurationError(
                f"two parts are called {part.name!r}: one in {origins[part.name]}, one in {origin}; rename one of them"
            )
        found[part.name] = part
        origins[part.name] = origin
    return dict(sorted(found.items()))


def find(parts: Mapping[str, PartT], name: str, what: str) -> PartT:
    """The part called `name`.

    Raises:
        ConfigurationError: there is none; the message lists all parts.
    """
    try:
        return parts[name]
    except KeyError:
        close = get_close_matches(name, parts, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigurationError(f"no {what} is called {name!r}; there are: {', '.join(sorted(parts))}{hint}") from None


def _parts(room: str, kind: type[PartT]) -> Iterator[tuple[str, PartT]]:
    package = importlib.import_module(f"gateway.{room}")
    names = [*_modules(package)]
    for other in getattr(package, "ROOMS", ()):
        of_room = _modules(importlib.import_module(f"gateway.{other}"))
        names += (name for name in of_room if name.endswith((".endpoints", "_endpoints")))
    for name in names:
        yield from _constants(importlib.import_module(name), kind)
    for entry_point in _installed(tuple(sys.path)).get(f"gateway.{room}", ()):
        yield from _plugged_in(entry_point, kind)


@lru_cache(maxsize=1)  # opening a gateway asks for seven groups, and each reading opens a file of every package
def _installed(path: tuple[str, ...]) -> Mapping[str, EntryPoints]:
    """The entry points of the packages on this path, which is `sys.path`, by their groups."""
    found = entry_points()
    return {group: found.select(group=group) for group in found.groups if group.startswith("gateway.")}


def _modules(package: ModuleType) -> list[str]:
    return sorted(f"{package.__name__}.{module.name}" for module in pkgutil.iter_modules(package.__path__))


def _plugged_in(entry_point: EntryPoint, kind: type[PartT]) -> list[tuple[str, PartT]]:
    """The parts of an installed package's entry point, which names one part, or a module with parts."""
    where = f"the entry point {entry_point.name!r} = {entry_point.value!r} of {entry_point.group!r}"
    try:
        loaded = entry_point.load()
    except Exception as error:
        raise ConfigurationError(f"{where} cannot be loaded ({error}); repair or uninstall its package") from error
    if isinstance(loaded, kind):
        return [(entry_point.value, loaded)]
    found = list(_constants(loaded, kind)) if isinstance(loaded, ModuleType) else []
    if not found:
        raise ConfigurationError(f"{where} is neither a {kind.__name__} nor a module with one")
    return found


def _constants(module: ModuleType, kind: type[PartT]) -> Iterator[tuple[str, PartT]]:
    for value in vars(module).values():
        if isinstance(value, kind):
            yield module.__name__, value
