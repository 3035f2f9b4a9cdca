"""Whether the disk is quick enough for the event loop to write itself.

Above: group_commit. A commit writes to the page cache and waits for nothing, until the disk or the machine is in
trouble: then one commit is the price of finding out, and the writer thread does them for a while.
"""

from __future__ import annotations

SLOW_SECONDS = 0.020
FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 60.0
# After so long without one, a slow commit is the first again. One alone may be the machine's: a process that was not
# given the processor looks the same as a disk that does not answer.
CALM_SECONDS = 10.0


class DiskPace:
    """Measured by the loop's own commits alone: those of the thread also wait for their turn with Python's lock.

    `now` is in seconds that never go back.
    """

    def __init__(self) -> None:
        self._rest_seconds = FIRST_REST_SECONDS
        self._rests_until = 0.0

    def is_quick(self, now: float) -> bool:
        return now >= self._rests_until

    def took(self, seconds: float, now: float) -> None:
        """A commit of the loop's took so long."""
        if seconds < SLOW_SECONDS:
            return
        if now > self._rests_until + CALM_SECONDS:
            self._rest_seconds = FIRST_REST_SECONDS
        self._rests_until = now + self._rest_seconds
        self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)
