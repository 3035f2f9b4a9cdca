"""Finds out whether the disk is quick enough for commits on the event loop.

Above: group_commit. A commit copies pages to the page cache and waits for nothing, unless the disk is in trouble. Then
the loop is blocked for one commit, and the writer thread does the next ones for a while.
"""

from __future__ import annotations

import sys
import time
from itertools import count

if sys.platform == "win32":
    _numbers = count()

    def _waits() -> int:
        """A number that never repeats, so that every slow commit counts: Windows does not count waits."""
        return next(_numbers)

else:
    import resource

    # macOS does not count waits by thread: any wait of the process counts.
    _WHOSE = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)

    def _waits() -> int:
        """How often this thread has waited by itself; being preempted does not count."""
        return resource.getrusage(_WHOSE).ru_nvcsw


SLOW_SECONDS = 0.020
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 60.0
# After this long without a slow commit, the next one counts as the first again.
CALM_SECONDS = 10.0


class DiskPace:
    """Measures the commits of the event loop. Those of the thread are not measured: they also wait for the GIL.

    with pace:
        ...  # the commit
    """

    def __init__(self, first_rest_seconds: float = FIRST_REST_SECONDS) -> None:
        self._first_rest_seconds = self._rest_seconds = first_rest_seconds
        self._rests_until = 0.0
        self._begun = 0.0
        self._waits = 0

    def is_quick(self) -> bool:
        return time.monotonic() >= self._rests_until

    def __enter__(self) -> None:
        self._waits = _waits()
        self._begun = time.monotonic()

    def __exit__(self, *_: object) -> None:
        now = time.monotonic()
        # Without a wait the process only lacked CPU time; a thread would have been as slow.
        if now - self._begun >= SLOW_SECONDS and _waits() != self._waits:
            self.rest(now)

    def rest(self, now: float) -> None:
        """Let the writer thread commit for a while. `now`: in seconds of time.monotonic."""
        if now > self._rests_until + CALM_SECONDS:
            self._rest_seconds = self._first_rest_seconds
        self._rests_until = now + self._rest_seconds
        self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)

    @property
    def rests_until(self) -> float:
        return self._rests_until
