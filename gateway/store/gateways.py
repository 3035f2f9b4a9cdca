"""The gateways that use one store at the same time, and which of them has a thread.

Below: the standard library. Above: the contract of a whole store, the runner, gateway.cluster. A thread with a run
under way, or for which somebody waits, is held by one gateway: only that one writes it. A request about it goes there
as a whole.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol


class HeldElsewhereError(Exception):
    """Another gateway holds the thread, so nothing was done here: the request has to go to `gateway_id`. None: another
    gateway has just changed the thread; the request has to be done again, from its begin.

    It is no GatewayError, because no caller ever sees it: see gateway.cluster.
    """

    def __init__(self, thread_id: str, gateway_id: str | None) -> None:
        super().__init__(f"thread {thread_id!r} is held by another gateway")
        self.thread_id = thread_id
        self.gateway_id = gateway_id


@dataclass(frozen=True, slots=True)
class Gateway:
    """A process that uses the store. `name` is its host and process; `address` is the URL by which others reach it,
    None for one that takes the store alone. `runs`: how many it had under way when it was last heard of, at `beat_at`.
    `is_first` as in Gateways. Times are Unix seconds, by its own clock.
    """

    gateway_id: str
    name: str
    address: str | None
    version: str
    joined_at: float
    beat_at: float
    runs: int = 0
    is_first: bool = False


@dataclass(slots=True)
class GatewayEvents:
    """What a store tells its gateway. `on_left`: others are gone, and their runs are to be ended (see
    RunStore.unfinished_runs); called again if it fails. `on_lost`: this gateway was taken for dead: whatever it had is
    another one's now. `runs` gives the number of its runs under way. Each of `on_beat` is called at every heartbeat,
    to read what others may have changed; not in a store that is not shared.
    """

    on_left: Callable[[], Awaitable[None]] | None = None
    on_lost: Callable[[], Awaitable[None]] | None = None
    runs: Callable[[], int] = lambda: 0
    on_beat: list[Callable[[], Awaitable[None]]] = field(default_factory=list)


class Gateways(Protocol):
    """The gateways of a store, of which this process is one."""

    events: GatewayEvents

    @property
    def own_id(self) -> str:
        """This process; another id after it was taken for dead."""

    @property
    def is_shared(self) -> bool:
        """Whether other gateways may use the store."""

    @property
    def is_first(self) -> bool:
        """Whether this gateway does what one gateway does for all: expiry, retention, deletions at providers."""

    async def until_sure(self) -> None:
        """Wait until this gateway surely has what it holds: no tool begins before."""

    def address_of(self, gateway_id: str) -> str | None:
        """The URL of another gateway; None: it is not there any more."""

    async def all(self) -> Sequence[Gateway]:
        """All gateways of the store, the first one first. Raises StoreError."""


class Alone:
    """The gateways of a store that takes one process at a time."""

    own_id: Final = "this"
    is_shared: Final = False
    is_first: Final = True

    def __init__(self) -> None:
        self.events = GatewayEvents()

    async def until_sure(self) -> None:
        """It has it."""

    def address_of(self, gateway_id: str) -> str | None:
        return None

    async def all(self) -> Sequence[Gateway]:
        return ()
