"""Read what an operator wrote under a tool's `parameters`, and say what is wrong with it.

Above: the tools. Below: agent, errors.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from gateway.agent import ToolSettings
from gateway.errors import ConfigurationError


class ToolParameters(BaseModel):
    """Base of the parameters of one type of tool: unknown keys are errors, values are never changed.

    Text that may be a secret is declared as `InstanceOf[str]`: a plain `str` field would make a Secret readable text.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, hide_input_in_errors=True)


ParametersT = TypeVar("ParametersT", bound=ToolParameters)


def read_parameters(settings: ToolSettings, kind: type[ParametersT]) -> ParametersT:
    """The parameters of a tool as their own type.

    Raises:
        ConfigurationError: they do not fit; the message names each field, and the nearest known one for an unknown one.
    """
    try:
        return kind.model_validate(settings.parameters)
    except ValidationError as error:
        problems = "; ".join(
            _problem(details, kind) for details in error.errors(include_url=False, include_input=False)
        )
        raise ConfigurationError(f"the tool {tool_label(settings)}: {problems}") from None


def tool_label(settings: ToolSettings) -> str:
    """How messages to the operator speak of a tool."""
    return f"{settings.name!r} ({settings.type})" if settings.name else settings.type


def _problem(details: ErrorDetails, kind: type[ToolParameters]) -> str:
    path = ".".join(str(part) for part in details["loc"])
    where = f"parameters.{path}" if path else "parameters"
    if details["type"] != "extra_forbidden":
        return f"{where}: {details['msg'].removeprefix('Value error, ')}"
    known = list(kind.model_fields)
    close = get_close_matches(str(details["loc"][-1]), known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(sorted(known))}"
    return f"{where} is not known{hint}"
