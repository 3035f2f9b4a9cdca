"""How a model is to generate an answer, in no provider's words.

Below: messages. Above: agent, model. Each request writer knows where its wire has which of these: the vendors' files
`options.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from gateway.messages import JsonObject

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ReasoningSummary: TypeAlias = Literal["auto", "concise", "detailed"]
FormatKind: TypeAlias = Literal["json_object", "json_schema"]


@dataclass(frozen=True, slots=True)
class OneTool:
    """A model's answer has to be a call of this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | OneTool
"""`required`: the answer has to call a tool, whichever."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer's text is JSON: as `schema` says; any object where it is None. `strict`: no key that it does not name.

    The other fields are told the model beside a schema.
    """

    schema: JsonObject | None = None
    name: str = "answer"
    description: str = ""
    strict: bool | None = None

    @property
    def kind(self) -> FormatKind:
        """Which of the two it is."""
        return "json_object" if self.schema is None else "json_schema"


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """None: nothing is said of it, and the agent's `model_parameters` or the provider decide.

    `temperature` goes from 0 to 2; a wire whose scale ends at 1 is sent 1 at the most. `max_tokens` are those of one
    answer. `stop`: texts at which an answer ends. `parallel_calls`: whether one answer may hold several tool calls.
    `reasoning_summary`: the model's thoughts are shown, where its provider shows them only when asked.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_format: JsonFormat | None = None
    parallel_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    reasoning_summary: ReasoningSummary | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The names of those of which something is said."""
        return tuple(name for name in OPTION_NAMES if getattr(self, name) is not None)


OPTION_NAMES = tuple(field.name for field in fields(GenerationOptions))
NO_OPTIONS = GenerationOptions()
