"""The settings of protocols as they hold for each caller: those of its key, else the file's, else the defaults.

Below: access. Above: the environment, which a protocol asks; wire_protocol; the composition root.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from pydantic import BaseModel

from gateway.access.callers import Caller

SettingsT = TypeVar("SettingsT", bound=BaseModel)
NamedSettings: TypeAlias = "Mapping[str, BaseModel | None]"
"""Settings by their names below `protocols` in the configuration file; None: turned off."""


class ProtocolSettings:
    """`general` hold for everybody. `of_keys`, by the names of keys, are whole settings: the general ones are in
    them.
    """

    def __init__(self, general: NamedSettings, of_keys: Mapping[str, NamedSettings]) -> None:
        self._general = _by_kind(general)
        self._of_keys = {name: _by_kind(own) for name, own in of_keys.items()}

    def of(self, caller: Caller, kind: type[SettingsT]) -> SettingsT:
        """The settings of this kind that hold for the caller."""
        own = self._of_keys.get(caller.key_name, {}).get(kind)
        found = self._general.get(kind) if own is None else own
        return found if isinstance(found, kind) else kind()


def _by_kind(named: NamedSettings) -> dict[type[BaseModel], BaseModel]:
    return {type(each): each for each in named.values() if each is not None}
