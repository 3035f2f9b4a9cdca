"""Who watches a run: viewers come and go, the last one's leaving starts the grace period."""

from __future__ import annotations

from gateway.events import Events, RunFailed, TextDelta
from gateway.runs.audience import Audience
from gateway.runs.viewer import END, Batch
from tests.movable_clock import MovableClock

GRACE_SECONDS = 15.0
WORDS: Events = [TextDelta("m", "words")]
FAREWELL: Events = [RunFailed("store_failed", "the store failed")]


class Watched:
    """An audience, its clock, and how often it was found to be gone."""

    def __init__(self, *, max_viewer_events: int = 10) -> None:
        self.clock = MovableClock()
        self.abandoned = 0
        self.audience = Audience(
            self.clock,
            grace_seconds=GRACE_SECONDS,
            on_abandoned=self._count,
            max_viewer_events=max_viewer_events,
            log_id="log-1",
        )

    def _count(self) -> None:
        self.abandoned += 1


async def test_a_run_that_nobody_ever_watched_is_not_abandoned() -> None:
    watched = Watched()
    await watched.clock.advance(2 * GRACE_SECONDS)
    assert (watched.audience.has_viewers, watched.abandoned) == (False, 0)


async def test_the_grace_period_begins_with_the_last_viewers_leaving_and_ends_with_the_next_ones_coming() -> None:
    watched = Watched()
    one, other = watched.audience.add(after=0), watched.audience.add(after=0)
    one.close()
    await watched.clock.advance(2 * GRACE_SECONDS)
    assert watched.abandoned == 0
    other.close()
    await watched.clock.advance(GRACE_SECONDS / 2)
    third = watched.audience.add(after=0)
    await watched.clock.advance(2 * GRACE_SECONDS)
    assert watched.abandoned == 0
    third.close()
    await watched.clock.advance(GRACE_SECONDS)
    assert watched.abandoned == 1
    assert watched.clock.pending == []


async def test_a_run_does_not_wait_for_a_viewer_that_cannot_return() -> None:
    watched = Watched()
    one, other = watched.audience.add(after=0), watched.audience.add(after=0)
    one.may_return = False
    one.close()
    await watched.clock.advance(2 * GRACE_SECONDS)
    assert watched.abandoned == 0
    third = watched.audience.add(after=0)
    third.may_return = False
    other.close()
    third.close()
    await watched.clock.advance(0)
    assert watched.abandoned == 1


async def test_every_viewer_gets_what_is_behind_its_number() -> None:
    watched = Watched()
    first, second = watched.audience.add(after=0), watched.audience.add(after=1)
    assert (first.log_id, second.log_id) == ("log-1", "log-1")
    watched.audience.feed(1, WORDS)
    watched.audience.feed(2, WORDS)
    assert await first.next(1e9) == Batch(1, [*WORDS, *WORDS])
    assert await second.next(1e9) == Batch(2, WORDS)


async def test_a_viewer_that_does_not_read_is_dropped_and_counted_once() -> None:
    watched = Watched(max_viewer_events=1)
    slow = watched.audience.add(after=0)
    for number in range(5):
        watched.audience.feed(number + 1, WORDS)
    assert slow.dropped
    assert watched.audience.slow_viewers == {slow}


async def test_the_farewell_is_for_those_who_watch_and_for_whoever_comes_later() -> None:
    watched = Watched()
    before = watched.audience.add(after=0)
    watched.audience.feed(1, WORDS)
    watched.audience.show_unnumbered(FAREWELL)
    late = watched.audience.add(after=1)
    assert [await before.next(1e9) for _ in range(3)] == [Batch(1, WORDS), Batch(-1, FAREWELL), END]
    assert [await late.next(1e9) for _ in range(2)] == [Batch(-1, FAREWELL), END]


async def test_when_the_run_is_over_viewers_end_and_nobody_is_waited_for() -> None:
    watched = Watched()
    viewer, gone = watched.audience.add(after=0), watched.audience.add(after=0)
    gone.close()
    watched.audience.finish()
    assert await viewer.next(1e9) == END
    await watched.audience.gone(1e9)
    viewer.close()
    assert await watched.audience.add(after=0).next(1e9) == END
    assert watched.clock.pending == []
