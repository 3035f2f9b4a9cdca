"""How long things stay in a store, and what is due to be deleted.

Below: agent. Above: threads, the store. All times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gateway.clock import Kept as Kept  # what a store's writes give

LEAST_LIFE_SECONDS = 3600.0
"""How long a thread stays behind its last write, so that retries and those who watch again find it."""


PAUSED_LIFE_SECONDS = 86_400.0
"""How long one stays that waits for its client or for a person: these may come back the next day."""


@dataclass(frozen=True, slots=True)
class DueDeletion:
    """Responses of a deleted thread that a provider's server must still be asked to delete.

    `agent_id` and `holder`: the agent whose model asks, if it still asks the server that holds them (see
    model_state.Chain). `names` are the responses that are left. `tries` counts the failed tries.
    """

    deletion_id: str
    agent_id: str
    holder: str
    names: tuple[str, ...]
    since: float
    tries: int = 0


class RetentionStore(Protocol):
    """What is old, and what is due. Every method raises StoreError if the store fails."""

    async def expired_threads(self, *, by: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads whose life ended before then (see Thread), those that expired first in front."""

    async def idle_visitor_threads(self, *, before: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads of visitors (see owners) whose last run ended before then, the oldest first."""

    async def stored_bytes(self, site: str) -> int:
        """About how many bytes the threads and logs of a site's visitors take (see owners.site_of); a log counts once
        its run has ended.
        """

    async def due_deletions(self) -> list[DueDeletion]:
        """The oldest first."""

    async def update_deletion(self, deletion: DueDeletion) -> None:
        """Store its new state; one without names is done and removed. No effect if it is not there."""

    async def remove_logs(self, *, finished_before: float) -> int:
        """Delete the logs of runs that ended before then (the runs' rows and the threads stay); gives how many."""
