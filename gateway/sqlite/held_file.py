"""How long writes wait while the file is held: another program writes to it, or it is being rewritten.

Above: writes, each of which says how patient it is; group_commit, which has a `Hold` for as long as the file is held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from gateway.errors import StoreError


class BusyStoreError(StoreError):
    """A write gave up because the file is held."""


class Patience(IntEnum):
    """How long a write waits for a file that is held."""

    NONE = 0  # not at all
    SHORT = 1  # a client waits for the response
    LONG = 2  # a run under way depends on it


@dataclass(frozen=True, slots=True)
class HoldTimes:
    """How long writes wait before they give up, in seconds for Patience.SHORT and LONG. The time is counted from the
    moment when the file was found held, so a request with several writes does not wait again for each. `short_seconds`
    is below the 5 seconds that Store promises, because the file is tried at intervals.
    """

    short_seconds: float = 4.5
    long_seconds: float = 60.0


USUAL_HOLD_TIMES = HoldTimes()
NO_TIME = HoldTimes(0.0, 0.0)


class Hold:
    """The time while the file is held. It began at `since`; all times are seconds of the caller's clock."""

    def __init__(self, since: float, times: HoldTimes, message: str, *, is_own: bool = False) -> None:
        """`is_own`: the store itself holds the file and will release it, so runs wait however long that takes."""
        self.since = since
        self.is_own = is_own
        self.is_logged = False
        self.message = message
        self._times = times

    def hurry(self) -> None:
        """Let no write wait any longer."""
        self._times = NO_TIME

    def refuses(self, patience: Patience, now: float) -> bool:
        """Whether a write with that patience gives up at `now`."""
        long_seconds = math.inf if self.is_own and self._times is not NO_TIME else self._times.long_seconds
        return now - self.since >= (0.0, self._times.short_seconds, long_seconds)[patience]

    def error(self) -> BusyStoreError:
        return BusyStoreError(self.message)
