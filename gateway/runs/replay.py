"""Shows a finished run from its log, or one that is ending.

Below: store, live_run, viewer, transcript. Above: the runner.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from gateway.clock import Clock
from gateway.errors import StoreError
from gateway.events import Event, RunFailed, RunFinished, RunStarted
from gateway.runs.endings import terminal_of
from gateway.runs.live_run import LiveRun
from gateway.runs.paced_viewer import PacedViewer
from gateway.runs.phases import Phase
from gateway.runs.viewer import Batch, Viewer, read_log
from gateway.store import RunRecord, Store, Terminal
from gateway.transcript import Transcript


def replay(store: Store, clock: Clock, record: RunRecord, *, after: int, pace: float | None = None) -> Viewer:
    """A viewer of the events after number `after`, at PacedViewer's `pace`."""
    viewer = Viewer(clock, log_id=record.log_id)
    viewer.end_at(record.finished_at)
    log = read_log(store, record.owner, record.run_id, after=after, until=None, by_time=pace is not None)
    viewer.finish()
    if pace is not None:
        return PacedViewer(clock, _to_the_end(log), viewer, pace)
    viewer.read_first(_to_the_end(log))
    return viewer


def so_far(store: Store, clock: Clock, record: RunRecord, *, after: int) -> Viewer:
    """A viewer of the stored events after number `after` of a run that another gateway has under way, or left: it
    ends with them, and does not wait for more.
    """
    viewer = Viewer(clock, log_id=record.log_id)
    viewer.finish()
    viewer.read_first(read_log(store, record.owner, record.run_id, after=after, until=None))
    return viewer


async def _to_the_end(log: AsyncGenerator[Batch]) -> AsyncGenerator[Batch]:
    """The log up to the run's terminal event.

    Raises:
        StoreError: the event is missing. A run whose thread is deleted meanwhile must not look successful.
    """
    last: Event | None = None
    async with aclosing(log) as batches:
        async for batch in batches:
            last = batch.events[-1]
            yield batch
    if not isinstance(last, RunFinished | RunFailed):
        raise StoreError("the run's log is not there any more")


async def produced_by(store: Store, record: RunRecord, live: LiveRun | None) -> frozenset[str]:
    """The ids of the messages that clients may have of a run, from memory while it is running."""
    if live is not None:
        return live.fold.made
    transcript = Transcript()
    async for batch in read_log(store, record.owner, record.run_id, after=0, until=None):
        transcript.follow(batch.events)
    return transcript.made


def without_log(clock: Clock, record: RunRecord) -> Viewer:
    """A viewer of a run whose log was deleted: RunStarted and its end."""
    viewer = Viewer(clock)
    viewer.feed_unnumbered([RunStarted(record.thread_id, record.run_id), terminal_of(record)])
    viewer.finish()
    return viewer


async def end_of(store: Store, record: RunRecord) -> Terminal:
    """The terminal event of a run that has ended. Of a run that an older gateway ended it is read from the log."""
    if record.terminal is None:
        last = await store.last_sequence(record.owner, record.run_id)
        for row in await store.read_events(record.owner, record.run_id, after=last - 1, limit=1):
            if isinstance(row.event, RunFinished | RunFailed):
                return row.event
    return terminal_of(record)


async def join(live: LiveRun) -> Viewer | None:
    """A viewer of all events so far and of those that come; None once the run has ended.

    Raises:
        StoreError: the events so far cannot be stored now.
    """
    if live.trace is not None:
        live.trace.note_watched()
    if not live.finishing:
        try:
            return await live.join()
        except StoreError:  # it ended meanwhile, with events lost: its log and its thread have the rest
            if live.phase is not Phase.OVER:
                raise
            return None
    await live.until_concluded()
    if live.phase is Phase.OVER:
        return None
    raise live.unkept or StoreError("the run's end could not be kept; try again in a moment")
