"""The parts of a response that do not come from its run's events, and the form in which its run's record keeps them.

Below: the store's records. Above: the renderer, the readers of requests, stored responses.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from gateway.messages import JsonObject, JsonValue
from gateway.protocol.earlier_calls import EarlierCall, earlier_calls, kept_calls
from gateway.store import RunRecord

BackendTools: TypeAlias = Literal["shown", "hidden"]

ORIGIN: Final = "agent_api"
"""InputOrigin.protocol of the runs that this protocol begins."""


@dataclass(frozen=True, slots=True)
class ResponseForm:
    """The parts of a response that do not come from its run's events.

    `created_at` is in whole Unix seconds. `list_tools` are the MCP servers that the response begins with: of each its
    `server_label` and `tools`. `earlier` are the thread's calls that wait for a person.
    """

    run_id: str
    thread_id: str
    created_at: int
    backend_tools: BackendTools = "shown"
    warnings: tuple[str, ...] = ()
    list_tools: tuple[JsonObject, ...] = ()
    earlier: tuple[EarlierCall, ...] = ()

    @property
    def remembered(self) -> JsonObject:
        """The form in which the run's record keeps it; `form_of` reads it."""
        kept: JsonObject = {"created_at": self.created_at, "backend_tools": self.backend_tools}
        if self.warnings:
            kept["warnings"] = [*self.warnings]
        if self.list_tools:
            kept["list_tools"] = [*self.list_tools]
        return {**kept, **kept_calls(self.earlier)}

    @property
    def members(self) -> JsonObject:
        """The members of this form that each frame of the response has."""
        said: JsonObject = {"id": self.run_id, "created_at": self.created_at, "session_id": self.thread_id}
        if self.warnings:
            said["metadata"] = {"warnings": [*self.warnings]}
        return said


def form_of(record: RunRecord) -> ResponseForm:
    """The form of a run that has begun earlier, of whichever protocol."""
    request = (record.request or {}) if record.origin == ORIGIN else {}

    def kept(name: str) -> Sequence[JsonValue]:
        return cast("list[JsonValue]", request.get(name, []))

    return ResponseForm(
        record.client_id,
        record.thread_id,
        cast(int, request.get("created_at", int(record.created_at))),
        cast(BackendTools, request.get("backend_tools", "shown")),
        tuple(cast("list[str]", kept("warnings"))),
        tuple(cast("list[JsonObject]", kept("list_tools"))),
        earlier_calls(request),
    )
