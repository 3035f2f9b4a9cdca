"""The options of a model's answer, independent of any provider.

Below: messages. Above: agent, model. Each vendor's room has a file for its own names of these options, such as
`anthropic/options.py`.
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
"""`required`: the answer has to call a tool, no matter which."""


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The answer's text is JSON that fits `schema`; None: any object. `strict`: it has no keys that the schema does not
    name.

    `name` and `description` are sent to the provider with a schema.
    """

    schema: JsonObject | None = None
    name: str = "answer"
    description: str = ""
    strict: bool | None = None

    @property
    def kind(self) -> FormatKind:
        """`json_schema` if there is a schema, else `json_object`."""
        return "json_object" if self.schema is None else "json_schema"


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """The options of a model's answer. None: not set; the agent's `model_parameters` or the provider decide.

    `temperature` goes from 0 to 2; an API whose scale ends at 1 gets at most 1. `max_tokens` is the limit of one
    answer. `stop`: texts at which an answer ends. `parallel_calls`: whether one answer may have several tool calls.
    `reasoning_summary`: ask for a summary of the model's reasoning, for providers that show it only if asked.
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
        """The names of the options that are set."""
        return tuple(name for name in OPTION_NAMES if getattr(self, name) is not None)


OPTION_NAMES = tuple(field.name for field in fields(GenerationOptions))
NO_OPTIONS = GenerationOptions()
