"""Reads the members of a body of OpenAI's API. Messages name them as `param` does: `messages[0].content`.

Below: errors. Above: the readers of bodies.
"""

from __future__ import annotations

from gateway.endpoints.fields import Fields
from gateway.messages import JsonValue, json_kind
from gateway.openai_api.errors import param_of


class OpenAIFields(Fields):
    """Fields that are called as `param` calls them. They stand in a body of OpenAI's API."""

    def called(self, name: str) -> str:
        return param_of(self.pointer(name)) or "the body"

    @property
    def at(self) -> str:
        """The object's JSON pointer in the body."""
        return self._at

    def required(self, name: str, *, filled: bool = False) -> str:
        """A text that has to be there, and not be empty if it is to be `filled`. Empty where it is wrong, which is
        noted.
        """
        if self.value.get(name) is None:
            self.missing(name, "a string")
        elif filled and self.value[name] == "":
            self.wrong(name, f"{self.called(name)} must not be empty")
        return self.text(name) or ""

    def missing(self, name: str, right: str) -> None:
        """Note that a member is missing; `right` is what it must be."""
        self.wrong(name, f"{self.called(name)} is missing; it must be {right}")


def shown(value: JsonValue) -> str:
    """A wrong word as messages show it: the beginning of a text, the kind of anything else."""
    return repr(value[:64]) if isinstance(value, str) else json_kind(value)
