"""Reads a tool's `parameters` from the configuration, and names of indices as models write them.

Above: the tools. Below: agent, errors, tool_output.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from gateway.agent import ToolSettings
from gateway.errors import ConfigurationError, ToolError
from gateway.messages import JsonObject
from gateway.tool_output import MAX_OUTPUT_CHARACTERS


class ToolParameters(BaseModel):
    """Base of the parameters of one type of tool: unknown keys are errors, values are never changed.

    A field that may hold a secret is an `InstanceOf[str]`: a plain `str` field would turn a Secret into readable text.
    The docstring of a field is its description in the configuration file's JSON Schema.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    max_output_characters: int = Field(default=MAX_OUTPUT_CHARACTERS, gt=0)
    """The most text of one result. If a result has more, the rest is left out, and the model is told so."""


ParametersT = TypeVar("ParametersT", bound=ToolParameters)


def read_parameters(settings: ToolSettings, kind: type[ParametersT]) -> ParametersT:
    """The parameters of a tool as their own type.

    Raises:
        ConfigurationError: the message names each wrong field, and for an unknown field the most similar valid one.
    """
    try:
        return kind.model_validate(settings.parameters)
    except ValidationError as error:
        problems = [
            (details["loc"], _problem(details, kind))
            for details in error.errors(include_url=False, include_input=False)
        ]
        raise _parameters_error(settings, problems) from None


def parameter_error(settings: ToolSettings, name: str, problem: str) -> ConfigurationError:
    """The error for one parameter. `problem` continues a sentence that begins with its name: `is not an http or https
    URL`.
    """
    return _parameters_error(settings, [((name,), problem)])


def _parameters_error(
    settings: ToolSettings, problems: Sequence[tuple[tuple[str | int, ...], str]]
) -> ConfigurationError:
    said = "; ".join(f"{'.'.join(map(str, ('parameters', *path)))} {problem}" for path, problem in problems)
    fields = [(("parameters", *path), problem) for path, problem in problems]
    return ConfigurationError(f"the tool {tool_label(settings)}: {said}", fields=fields)


def tool_label(settings: ToolSettings) -> str:
    """A tool's name in messages to the operator."""
    return f"{settings.name!r} ({settings.type})" if settings.name else settings.type


def _problem(details: ErrorDetails, kind: type[ToolParameters]) -> str:
    if details["type"] == "missing":
        return "is missing; add it"
    if details["type"] != "extra_forbidden":
        return f"cannot be used: {details['msg'].removeprefix('Value error, ')}"
    known = list(kind.model_fields)
    close = get_close_matches(str(details["loc"][-1]), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(sorted(known))}"
    return f"is not known{hint}"


def given_names(arguments: JsonObject, argument: str) -> tuple[str, ...]:
    """Names of indices as a model gives them: a list, its JSON text, one bare name, or any of these under `input`.

    Raises:
        ToolError: the value has none of these forms.
    """
    value: object = arguments.get(argument)
    if value is None and "input" in arguments:
        value = _from_json(arguments["input"])
        value = value.get(argument) if isinstance(value, dict) else value
    value = _from_json(value)
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(str(name) for name in value)
    raise ToolError(f"the argument {argument!r} is a list of names such as ['products'], not {value!r}")


def _from_json(value: object) -> object:
    """The list or object in a JSON text; any other value as it is."""
    if isinstance(value, str) and value.strip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _as_names(value: object) -> object:
    value = _from_json(value)
    return (value,) if isinstance(value, str) else value


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_names),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
"""Names as an operator gives them: a list, its JSON text, or one bare name."""
