"""Reads the members of a body of OpenAI's API. Messages name them as `param` does: `messages[0].content`.

Below: errors. Above: the readers of bodies.
"""

from __future__ import annotations

from gateway.endpoints.fields import Fields
from gateway.openai_api.errors import param_of


class OpenAIFields(Fields):
    """Fields that are called as `param` calls them. They stand in a body of OpenAI's API."""

    def called(self, name: str) -> str:
        return param_of(self.pointer(name)) or "the body"
