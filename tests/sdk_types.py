"""Whether a request is one that a provider's own SDK would send: held against the types of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter


def check_accepted(parameters: Any, body: object) -> None:
    """Raises pydantic.ValidationError where the SDK's `parameters` (a TypedDict) have no such request."""
    _exhaust(_adapter(parameters).validate_python(body))


@cache
def _adapter(parameters: Any) -> TypeAdapter[Any]:
    # kept: what is validated as it is read is validated by it
    return TypeAdapter(parameters)


def _exhaust(value: object) -> None:
    """Iterables are validated as they are read."""
    if isinstance(value, dict):
        for inner in value.values():
            _exhaust(inner)
    elif isinstance(value, list | tuple | Iterator):
        for inner in value:
            _exhaust(inner)
