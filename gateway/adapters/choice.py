"""Chooses the protocols that an application serves: all of the installation that the file does not turn off, or the
protocols that a program names.

Below: protocol_adapter, settings. Above: the composition root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from pydantic import BaseModel

from gateway.adapters.protocol_adapter import ProtocolAdapter
from gateway.configuration.protocol_sections import NamedSettings
from gateway.errors import ConfigurationError
from gateway.parts import collect
from gateway.protocol import WireProtocol
from gateway.settings import Settings

_ALWAYS: Final = frozenset({"ag_ui", "agents", "approvals", "runs", "threads", "visitors"})
"""AG-UI and the gateway's own API, which the page needs."""


@dataclass(frozen=True, slots=True)
class ProtocolChoice:
    """`found` are all protocols: one that is not served still looks after the data that it stored. `served` are names,
    `settings` as in Settings.
    """

    found: Sequence[WireProtocol]
    served: frozenset[str]
    settings: NamedSettings

    def serves(self, protocol: WireProtocol) -> bool:
        return protocol.name in self.served


def choose_protocols(settings: Settings, adapters: Sequence[ProtocolAdapter] | None) -> ProtocolChoice:
    """The protocols to serve. `adapters`: the protocols beside AG-UI and the gateway's own API; None: all that the file
    does not turn off.

    Raises:
        ConfigurationError: the file has settings of a protocol that is not among the adapters, two adapters have a
            protocol of one name, or one is no adapter.
    """
    found = dict(collect("protocols", WireProtocol))
    if adapters is None:
        off = {name for name, own in settings.protocols.items() if own is None}
        served = frozenset(name for name, protocol in found.items() if not protocol.is_off(off))
        return ProtocolChoice(tuple(found.values()), served, settings.protocols)
    adapters = _listed(adapters)
    given = _protocols_of(adapters, found)
    served = _ALWAYS | given.keys()
    found |= given
    _check_written(settings, [found[name] for name in served if name in found])
    return ProtocolChoice(tuple(found.values()), served, {**settings.protocols, **_settings_of(adapters, settings)})


def _listed(given: object) -> list[ProtocolAdapter]:
    listed = [*given] if isinstance(given, Iterable) else [given]
    adapters = [each for each in listed if isinstance(each, ProtocolAdapter)]
    if len(adapters) < len(listed) or not isinstance(given, Iterable):
        raise ConfigurationError("protocol_adapters must be a list of ProtocolAdapter objects, such as [A2AAdapter()]")
    return adapters


def _protocols_of(adapters: Sequence[ProtocolAdapter], found: Collection[str]) -> dict[str, WireProtocol]:
    """The adapters' protocols by name. `found`: the names of the installation's protocols; an adapter that is named
    after its class gets none of these.
    """
    given: dict[str, WireProtocol] = {}
    for protocol in (each for adapter in adapters if _names_its_own(adapter) for each in adapter.protocols()):
        if protocol.name in given or protocol.name in _ALWAYS:
            raise ConfigurationError(f"there are two protocols {protocol.name!r}; leave one of their adapters out")
        given[protocol.name] = protocol
    for protocol in (each for adapter in adapters if not _names_its_own(adapter) for each in adapter.protocols()):
        names = (protocol.name if number == 1 else f"{protocol.name}_{number}" for number in count(1))
        name = next(each for each in names if each not in given and each not in found)
        given[name] = replace(protocol, name=name)
    return given


def _names_its_own(adapter: ProtocolAdapter) -> bool:
    """Whether the adapter names its protocols itself; other adapters' protocols are named after the adapter's class."""
    return type(adapter).protocols is not ProtocolAdapter.protocols


def _settings_of(adapters: Sequence[ProtocolAdapter], settings: Settings) -> Mapping[str, BaseModel]:
    """The settings of the adapters' protocols, which are on even if the file turns them off."""
    found: dict[str, BaseModel] = {}
    for adapter in adapters:
        kinds = {name: kind for protocol in adapter.protocols() for name, kind in protocol.settings.items()}
        written = {name: settings.protocols.get(name) or kind() for name, kind in kinds.items()}
        found |= {**written, **adapter.settings(written)}
    return found


def _check_written(settings: Settings, served: Sequence[WireProtocol]) -> None:
    known = {name for protocol in served for name in protocol.settings}
    of_agents = {name for protocol in served for name in protocol.agent_settings}
    places = [f"protocols.{name}" for name in _written(settings.protocols, known)]
    for index, key in enumerate(settings.server.api_keys):
        places += [f"server.api_keys[{index}].protocols.{name}" for name in _written(key.protocols, known)]
    for index, agent in enumerate(settings.agents):
        places += [f"agents[{index}].{name}" for name in agent.protocol_settings if name not in of_agents]
    if places:
        raise ConfigurationError(
            f"the file says {', '.join(places)}, but no adapter of the application has the protocol;"
            " leave that out, or add the adapter"
        )


def _written(settings: Mapping[str, BaseModel | None], known: Collection[str]) -> Iterator[str]:
    """The names of unknown protocols for which settings are written."""
    for name, own in settings.items():
        if own is not None and own.model_fields_set and name not in known:
            yield name
