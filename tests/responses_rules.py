"""What the Responses API takes, twice: by the types of the official SDK, and by the rules of the local server.

Above: the tests of requests. The SDK's types say the shapes; which item needs which other only the server knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from tests.responses_server import _check_context, _new_items


@cache
def _types() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseCreateParamsStreaming)


def accept(body: dict[str, Any], shown: Sequence[dict[str, Any]] | None = None) -> None:
    """Raises where the API would refuse the request. `shown`: the whole conversation, where it continues one.

    Fields that the types do not know are dropped by them, so what comes out must be what went in.
    """
    read = _whole(_types().validate_python(body))
    assert read == body, f"the SDK knows only {read}"
    items = _new_items({"input": _whole(body["input"])})
    assert items, "there is no input"
    context = items if shown is None else shown
    _check_context(context, len(context) - len(items))


def _whole(value: Any) -> Any:
    """The value with its lazy lists read: pydantic checks an Iterable's members as they are asked for."""
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return [_whole(member) for member in value]
