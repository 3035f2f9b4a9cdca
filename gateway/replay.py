"""A run that is over, from its log.

Below: store, live_run (viewers), transcript. Above: the runner.
"""

from __future__ import annotations

from gateway.bookkeeping import Terminal
from gateway.clock import Clock
from gateway.events import Completed, RunFailed, RunFinished
from gateway.live_run import LiveRun, Viewer, read_log
from gateway.messages import Message
from gateway.store import RunRecord, Store
from gateway.transcript import Transcript


def replay(store: Store, clock: Clock, record: RunRecord, *, after: int) -> Viewer:
    """A viewer of the events after that number."""
    viewer = Viewer(clock)
    viewer.read_first(read_log(store, record.owner, record.run_id, after=after, until=None))
    viewer.finish()
    return viewer


async def produced_by(store: Store, record: RunRecord, live: LiveRun | None) -> tuple[Message, ...]:
    """The messages that a run added to its thread, from memory while it is under way."""
    if live is not None:
        return live.transcript.messages
    transcript = Transcript()
    async for batch in read_log(store, record.owner, record.run_id, after=0, until=None):
        transcript.follow(batch.events)
    return transcript.messages


async def last_event(store: Store, owner: str, run_id: str) -> Terminal:
    """How a run ended. Where its log is gone, only what it said stays."""
    last = await store.last_sequence(owner, run_id)
    for row in await store.read_events(owner, run_id, after=last - 1, limit=1):
        if isinstance(row.event, RunFinished | RunFailed):
            return row.event
    return RunFinished(Completed())
