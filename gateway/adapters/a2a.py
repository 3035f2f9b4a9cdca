"""A2A as an adapter.

Below: the protocol `a2a`, protocol_adapter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pydantic import BaseModel

from gateway.a2a.endpoints import PROTOCOL
from gateway.a2a.settings import A2ASettings, CardSettings
from gateway.adapters.protocol_adapter import ServedProtocols
from gateway.errors import ConfigurationError
from gateway.protocol import WireProtocol


class A2AAdapter(ServedProtocols):
    """`/a2a`, and the agents' cards."""

    def __init__(self, agent_name: str | None = None, agent_description: str | None = None) -> None:
        """The name and the description on the default agent's public card, if the file has none. With either there is a
        card.

        Raises:
            ConfigurationError: one of them is not a text.
        """
        for name, said in (("agent_name", agent_name), ("agent_description", agent_description)):
            _expect_text(name, said)
        self._name = agent_name
        self._description = agent_description

    def protocols(self) -> Sequence[WireProtocol]:
        return [PROTOCOL]

    def settings(self, written: Mapping[str, BaseModel]) -> Mapping[str, BaseModel]:
        said = {name: value for name, value in (("name", self._name), ("description", self._description)) if value}
        found = written["a2a"]
        if not said or not isinstance(found, A2ASettings):
            return {}
        card = found.card or CardSettings()
        missing = {name: value for name, value in said.items() if getattr(card, name) is None}
        return {"a2a": found.model_copy(update={"card": card.model_copy(update=missing)})}


def _expect_text(name: str, said: object) -> None:
    if not (said is None or isinstance(said, str)):
        raise ConfigurationError(f"{name} must be a text, not a {type(said).__name__}")


A2AFastAPIDefaultAdapter: TypeAlias = A2AAdapter
