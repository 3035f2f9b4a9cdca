"""Reads the members of a body of the Agent API. What is wrong is a 422.

Below: endpoints. Above: the readers of bodies.
"""

from __future__ import annotations

from typing import ClassVar

from gateway.endpoints.fields import Fields
from gateway.wire.json_pointer import dotted


class AgentApiFields(Fields):
    """Fields that messages call by their place: `input[0].content`."""

    status: ClassVar[int] = 422

    def called(self, name: str) -> str:
        return dotted(self.pointer(name)) or "the body"
