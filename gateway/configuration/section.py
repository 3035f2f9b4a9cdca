"""What every section of the configuration file is, and the types of numbers in it.

Below: access.limits. Above: sections, and the settings of protocols.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from gateway.access.limits import VisitorLimits


def no_boolean(value: object) -> object:
    """A validator: true and false are no numbers."""
    # pydantic counts true as 1; in a file that is a mistake
    if isinstance(value, bool):
        raise PydanticCustomError("boolean", "is true or false; a number is needed")
    return value


# null has a meaning for these; elsewhere it is a section whose lines are all commented out, and means the default
_NULLABLE = frozenset(
    {
        "search",
        "max_run_seconds",
        "max_total_tokens",
        "max_concurrent_runs",
        "max_earlier_messages",
        "max_messages",
        "max_tokens",
        "visitor_retention_days",
    }
    | {field.name for field in dataclasses.fields(VisitorLimits)}
)

Whole: TypeAlias = Annotated[int, BeforeValidator(no_boolean)]
Seconds: TypeAlias = Annotated[float, BeforeValidator(no_boolean), Field(allow_inf_nan=False)]
Number: TypeAlias = Annotated[float, BeforeValidator(no_boolean), Field(allow_inf_nan=False)]


class Section(BaseModel):
    """A section of the file: it has no unknown keys, and a key without a value has its default."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        kept = _NULLABLE | (values.keys() - cls.model_fields.keys())  # an unknown key is a mistake even if it is null
        return {key: value for key, value in values.items() if value is not None or key in kept}
