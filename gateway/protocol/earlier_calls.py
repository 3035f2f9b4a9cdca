"""The calls that an earlier run left open for a person, as a run's record keeps them and its renderer shows them.

Above: the rooms of protocols whose answers show what became of such calls. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from gateway.messages import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class EarlierCall:
    """A call that an earlier run left open for a person, and that this run may carry out, refuse or leave open.

    `server` is the label of the tool's MCP server. `approval_request_id` is the id of the question as clients know it,
    in protocols where it is not the call's own.
    """

    call_id: str
    name: str
    arguments: str
    server: str | None = None
    approval_request_id: str | None = None


def kept_calls(calls: Sequence[EarlierCall]) -> JsonObject:
    """The form in which a run's record keeps these calls; `earlier_calls` reads it."""
    kept: list[JsonValue] = [
        [call.call_id, call.name, call.arguments, call.server, call.approval_request_id] for call in calls
    ]
    return {"earlier": kept} if kept else {}


def earlier_calls(request: JsonObject) -> tuple[EarlierCall, ...]:
    """The calls in a run's record."""
    return tuple(EarlierCall(*call) for call in cast("list[list[str]]", request.get("earlier", [])))
