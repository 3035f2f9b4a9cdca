"""What a response shows that its run's events do not say, and what its run's record keeps of that.

Below: the store's records. Above: the renderer, the readers of requests, what is done with responses that have begun.
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
    """What the frames of a run's response depend on, besides its events.

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
        """What the run's record keeps of it; `form_of` reads it."""
        kept: JsonObject = {"created_at": self.created_at, "backend_tools": self.backend_tools}
        if self.warnings:
            kept["warnings"] = [*self.warnings]
        if self.list_tools:
            kept["list_tools"] = [*self.list_tools]
        return {**kept, **kept_calls(self.earlier)}

    @property
    def members(self) -> JsonObject:
        """What each frame of the response says of it."""
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
