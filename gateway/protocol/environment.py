"""ProtocolEnvironment: the access of every protocol to agents, runs, threads and documents.

Below: run_access, thread_access. Above: wire_protocol, the protocols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from gateway.protocol.run_access import RunAccess
from gateway.protocol.thread_access import ThreadAccess

Item = TypeVar("Item")


class ProtocolEnvironment(RunAccess, ThreadAccess):
    """The access of every protocol to agents, runs, threads and documents.

    Each method takes the caller first. It refuses what this caller may not do, and counts what is limited, so that
    protocols need no checks of their own. Threads and runs are the caller's own; those of others are unknown.
    """

    __slots__ = ()

    def shared(self, make: Callable[[ProtocolEnvironment], Item]) -> Item:
        """An object that several protocols share. `make` makes it once for all of them."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast(Item, self._shared[make])
