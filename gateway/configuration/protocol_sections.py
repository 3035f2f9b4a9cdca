"""The configuration's sections with those of the protocols: `protocols.<name>`, also of each key, and an agent's
settings for a protocol.

Below: sections. Above: reading, settings. The fields of a protocol's section are the protocol's own: a pydantic model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, Field, create_model

from gateway.configuration.sections import (
    AgentSection,
    ApiKeySection,
    ConfigurationSection,
    ProtocolsSection,
    ServerSection,
)
from gateway.errors import ConfigurationError

SettingsKinds: TypeAlias = "Mapping[str, type[BaseModel]]"
"""The models of protocols' settings, by their names below `protocols`, or in an agent."""
NamedSettings: TypeAlias = "dict[str, BaseModel | None]"
"""Settings of protocols by these names; None: turned off."""
_Kinds: TypeAlias = tuple[tuple[str, type[BaseModel]], ...]
_NONE: SettingsKinds = MappingProxyType({})


def with_protocols(kinds: SettingsKinds, of_agents: SettingsKinds = _NONE) -> type[ConfigurationSection]:
    """The file's sections where there are protocols with these settings, and with these members of agents.

    Raises:
        ConfigurationError: a member has the name of one that every agent has.
    """
    if taken := of_agents.keys() & AgentSection.model_fields.keys():
        raise ConfigurationError(f"every agent has {min(taken)!r} already; rename what the protocol says of agents")
    return _with_protocols(tuple(sorted(kinds.items())), tuple(sorted(of_agents.items())))


@lru_cache(maxsize=4)  # making one takes longer than reading a file
def _with_protocols(kinds: _Kinds, of_agents: _Kinds) -> type[ConfigurationSection]:
    fields: dict[str, Any] = {name: (_may_be_off(kind), kind()) for name, kind in kinds}
    protocols = create_model("ProtocolsSection", __base__=ProtocolsSection, __doc__=ProtocolsSection.__doc__, **fields)
    key = create_model(
        "ApiKeySection",
        __base__=ApiKeySection,
        __doc__=ApiKeySection.__doc__,
        protocols=_like(ApiKeySection, "protocols", protocols, protocols()),
    )
    server = create_model(
        "ServerSection",
        __base__=ServerSection,
        __doc__=ServerSection.__doc__,
        api_keys=_like(ServerSection, "api_keys", tuple[key, ...], ()),  # type: ignore[valid-type]
    )
    return create_model(
        "ConfigurationSection",
        __base__=ConfigurationSection,
        __doc__=ConfigurationSection.__doc__,
        server=_like(ConfigurationSection, "server", server, server()),
        protocols=_like(ConfigurationSection, "protocols", protocols, protocols()),
        agents=_like(ConfigurationSection, "agents", tuple[_agent(of_agents), ...] | None, None),  # type: ignore[misc]
    )


def _agent(members: _Kinds) -> type[AgentSection]:
    fields: dict[str, Any] = {name: (kind | None, Field(None, description=kind.__doc__)) for name, kind in members}
    return create_model("AgentSection", __base__=AgentSection, __doc__=AgentSection.__doc__, **fields)


def _like(section: type[BaseModel], name: str, kind: Any, default: Any) -> Any:
    """A field of another type that is described as that field is."""
    return (kind, Field(default=default, description=section.model_fields[name].description))


def _may_be_off(kind: type[BaseModel]) -> Any:
    return Annotated[
        kind | None,
        BeforeValidator(lambda value: None if value is False else value),
        Field(description=kind.__doc__, json_schema_extra=_false_for_null),
    ]


def _false_for_null(schema: dict[str, Any]) -> None:
    schema["anyOf"] = [{"const": False} if each == {"type": "null"} else each for each in schema["anyOf"]]


def general_settings(section: ProtocolsSection) -> NamedSettings:
    """The settings of the file for all callers, and the defaults."""
    return dict(_settings_in(section))


def settings_of_key(section: ProtocolsSection, general: NamedSettings) -> NamedSettings:
    """The settings of a key that has a section of its own; a field that it does not set is as in `general`."""
    return {name: _over(own, general[name]) for name, own in _settings_in(section) if name in section.model_fields_set}


def _over(own: BaseModel | None, general: BaseModel | None) -> BaseModel | None:
    if own is None or general is None:
        return None
    return general.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def _settings_in(section: ProtocolsSection) -> Iterator[tuple[str, BaseModel | None]]:
    for name in type(section).model_fields:
        yield name, getattr(section, name)
