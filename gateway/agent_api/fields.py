"""Reads the members of a body of the Agent API. A problem is a 422.

Below: protocol.fields. Above: the readers of bodies.
"""

from __future__ import annotations

from typing import ClassVar

from gateway.protocol.fields import PlacedFields


class AgentApiFields(PlacedFields):
    """Fields that messages call by their place: `input[0].content`."""

    status: ClassVar[int] = 422
