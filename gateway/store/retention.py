"""How long threads and logs stay in a store, and the deletions that are due at providers.

Below: agent. Above: threads, the store. All times are Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

LEAST_LIFE_SECONDS = 3600.0
"""How long a thread stays after its last write, so that retries and returning viewers find it."""


PAUSED_LIFE_SECONDS = 86_400.0
"""How long a thread stays after its last write while it waits for its client or a person, who may come back the next
day.
"""


@dataclass(frozen=True, slots=True)
class DueDeletion:
    """Responses of a deleted thread that a provider's server must still be asked to delete.

    `agent_id` and `holder`: the agent whose model asks, if its server is still `holder` (see model_state.Chain).
    `names` are the responses that are left. `tries` counts the failed tries.
    """

    deletion_id: str
    agent_id: str
    holder: str
    names: tuple[str, ...]
    since: float
    tries: int = 0


class RetentionStore(Protocol):
    """Old threads and logs, and due deletions. Every method raises StoreError if the store fails."""

    async def expired_threads(self, *, by: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads whose life ended before then (see Thread), the first expired first."""

    async def idle_visitor_threads(self, *, before: float, limit: int) -> list[tuple[str, str]]:
        """Owners and ids of threads of visitors (see owners) whose last run ended before then, the oldest first."""

    async def stored_bytes(self, site: str) -> int:
        """About how many bytes the threads and logs of a site's visitors take (see owners.site_of); a log counts once
        its run has ended.
        """

    async def due_deletions(self) -> list[DueDeletion]:
        """All due deletions, the oldest first."""

    async def update_deletion(self, deletion: DueDeletion) -> None:
        """Store a deletion's new state. One without names is done and is removed. No effect if the deletion is not
        stored.
        """

    async def remove_logs(self, *, finished_before: float) -> int:
        """Delete the logs of runs that ended before then (the runs' rows and the threads stay); returns how many."""
