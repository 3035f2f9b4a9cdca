"""Reads the members of a body of OpenAI's API. Messages name them as `param` does: `messages[0].content`.

Below: errors. Above: the readers of bodies.
"""

from __future__ import annotations

from gateway.protocol.fields import PlacedFields


class OpenAIFields(PlacedFields):
    """Fields that are called as `param` calls them. They stand in a body of OpenAI's API."""
