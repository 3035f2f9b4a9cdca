"""How long writes wait while the file is held: another program writes to it, or it is being rewritten.

Above: writes, each of which says how patient it is; group_commit, which has a `Hold` for as long as the file is held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from gateway.errors import StoreError


class BusyStoreError(StoreError):
    """A write gave up, because the file is held."""


class Patience(IntEnum):
    """How long a write waits for a file that is held."""

    NONE = 0  # not at all
    SHORT = 1  # somebody waits for an answer
    LONG = 2  # a run under way depends on it


@dataclass(frozen=True, slots=True)
class HoldTimes:
    """After how long writes give up. The time counts from when the file was found held, not from when they came: so
    what takes several writes does not wait again for each. The first is below the 5 seconds that Store promises, as the
    file is tried at intervals.
    """

    short_seconds: float = 4.5
    long_seconds: float = 60.0


USUAL_HOLD_TIMES = HoldTimes()
NO_TIME = HoldTimes(0.0, 0.0)


class Hold:
    """The file has been held since `since`, in seconds of the caller's clock, as are all its times."""

    def __init__(self, since: float, times: HoldTimes, message: str, *, is_own: bool = False) -> None:
        """`is_own`: the store itself holds the file, and will let it go: runs wait for that as long as it takes."""
        self.since = since
        self.is_own = is_own
        self.is_told = False  # in the log
        self.message = message
        self._times = times

    def hurry(self) -> None:
        """Nothing waits any longer."""
        self._times = NO_TIME

    def refuses(self, patience: Patience, now: float) -> bool:
        """Whether a write of that patience gives up."""
        long_seconds = math.inf if self.is_own and self._times is not NO_TIME else self._times.long_seconds
        return now - self.since >= (0.0, self._times.short_seconds, long_seconds)[patience]

    def error(self) -> BusyStoreError:
        return BusyStoreError(self.message)
