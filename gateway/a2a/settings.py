"""The settings of `protocols.a2a` in the configuration file, and `agents[].a2a`.

Above: cards, the routes. Below: the configuration's sections. A card's members have the specification's
names, so that one can be pasted.
https://a2a-protocol.org/latest/specification/#441-agentcard (1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gateway.configuration.section import Section

Text: TypeAlias = Annotated[str, Field(min_length=1)]
MediaTypes: TypeAlias = Annotated[tuple[Text, ...], Field(min_length=1)]


class _CardPart(Section):
    model_config = ConfigDict(alias_generator=to_camel)


class ProviderSettings(_CardPart):
    """Who offers the agent."""

    organization: Text
    """The organization's name."""
    url: Text
    """Its website."""


class SkillSettings(_CardPart):
    """Something that the agent can do."""

    id: Text
    """Unique among the agent's skills."""
    name: Text
    """What people call it."""
    description: Text
    """What it does, for whoever looks for it."""
    tags: Annotated[tuple[Text, ...], Field(min_length=1)]
    """Words that describe it."""
    examples: tuple[Text, ...] = ()
    """Prompts that it is for."""
    input_modes: tuple[Text, ...] = ()
    """Media types that it takes, where they are not the card's."""
    output_modes: tuple[Text, ...] = ()
    """Media types that it gives, where they are not the card's."""


class CardSettings(_CardPart):
    """The members of the agent's public card. Members that are left out come from the agent."""

    name: Text | None = None
    """The agent's name."""
    description: Text | None = None
    """What it is for."""
    version: Text = "1.0.0"
    """The agent's version, in its operator's own numbers."""
    provider: ProviderSettings | None = None
    """Who offers it."""
    documentation_url: Text | None = None
    """Where more is written about it."""
    icon_url: Text | None = None
    """A picture of it."""
    skills: tuple[SkillSettings, ...] = ()
    """What it can do. Without any there is one, with the agent's name."""
    default_input_modes: MediaTypes = ("text/plain", "application/json")
    """Media types that it takes."""
    default_output_modes: MediaTypes = ("text/plain", "application/json")
    """Media types that it gives."""


class A2ASettings(Section):
    """A2A: agents as tasks, for other agents."""

    strict: bool = False
    """Whether only version 1.0 is served, and only to clients that name it (A2A-Version)."""
    last_chunk: Literal["empty", "whole"] = "empty"
    """The last chunk of a text that is streamed: empty, or the whole text in the place of the chunks before it."""
    card: CardSettings | None = None
    """The default agent's public card, where that agent has none of its own."""


class AgentA2ASettings(Section):
    """The agent's settings for A2A."""

    card: CardSettings | None = None
    """Its public card. Without one the agent is not shown to strangers."""


A2A_SECTION: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"a2a": A2ASettings})
"""WireProtocol.settings of A2A."""
AGENT_SECTION: Final[Mapping[str, type[BaseModel]]] = MappingProxyType({"a2a": AgentA2ASettings})
"""WireProtocol.agent_settings of A2A."""
