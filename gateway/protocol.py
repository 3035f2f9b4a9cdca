"""What a wire protocol is to the application: a name and the routes it serves.

Below: the runner. A protocol parses requests into AgentInput (pure), asks the runner, and renders events (pure).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from gateway.runner import Runner


@dataclass(frozen=True, slots=True)
class Gateway:
    """What the application lends to a protocol."""

    runner: Runner
    heartbeat_seconds: float
    max_body_bytes: int


@dataclass(frozen=True, slots=True)
class WireProtocol:
    """A part: `routes(gateway)` gives what the protocol serves."""

    name: str
    routes: Callable[[Gateway], Sequence[BaseRoute]]
