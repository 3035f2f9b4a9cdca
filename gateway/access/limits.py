"""Quotas: runs in any minute, runs at once, new visitors, sizes. In memory, for this process alone.

Below: clock, errors. Above: callers, settings. Two gateways behind one balancer count separately, and so allow twice as
much; a restart begins at zero. Memory is bounded by the quotas: a refused request is not recorded, and a subject
without requests for a minute is forgotten.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from gateway.clock import Clock
from gateway.errors import TooManyRequestsError, UnavailableError

UNREAD: Final = "agui_gateway.unread"
"""The server's extension of a request's scope: how many bytes an owner's clients have not read of their answers."""

ONLY_READS: Final = "only_reads"
"""The member of a request's state that is set for one that changes nothing, whatever its method: its answer is refused
to who leaves too many unread, and can be asked for again.
"""

_MINUTE = 60.0
_BUSY_SECONDS = 5  # when a run will end is unknown; many have by then

Release = Callable[[object], None]
"""Called, with any argument, once a counted thing is over."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The limits of one key. None: no limit. Sizes are in bytes, of text in UTF-8, see runs.limits."""

    runs_per_minute: int | None = None
    concurrent_runs: int | None = None
    max_body_bytes: int | None = None
    max_message_bytes: int | None = None
    max_input_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class VisitorLimits(KeyLimits):
    """The limits of visitors with one publishable key: all of them together, each one, and each client address.

    The defaults are for a small site: a person never reaches them, a script does within a minute.
    """

    runs_per_minute: int | None = 60
    concurrent_runs: int | None = 20
    visitor_runs_per_minute: int | None = 10
    visitor_concurrent_runs: int | None = 3
    address_runs_per_minute: int | None = 30
    visitors_per_minute: int | None = 60
    address_visitors_per_minute: int | None = 10
    max_body_bytes: int | None = 1_000_000
    max_message_bytes: int | None = 16_000
    max_input_bytes: int | None = 64_000
    max_stored_bytes: int | None = 1_000_000_000


class Quota(NamedTuple):
    """How much one subject may ask. `prefix` says whose limit it is, in the setting's name and in the code:
    `limit_visitor_runs_per_minute` is the code of `visitor_runs_per_minute`.
    """

    subject: str
    prefix: str
    per_minute: int | None
    at_once: int | None = None


class _Count:
    """The number of things that one subject began in the last minute, and that are under way."""

    __slots__ = ("begun", "under_way")

    def __init__(self) -> None:
        self.begun: deque[float] = deque()
        self.under_way = 0


_NOTHING = _Count()  # the count of an unknown subject; nothing is ever added to it


class Meter:
    """Counts one kind of thing (`runs`, `visitors`) by subject, and refuses what exceeds a quota.

    Minutes slide: within any 60 seconds no more begin than the quota allows. A check and its count are one step of the
    event loop, so of a hundred simultaneous requests only what is left is admitted.
    """

    def __init__(self, clock: Clock, things: str, *, most_at_once: int | None = None) -> None:
        """`most_at_once`: the limit for all subjects together."""
        self._clock = clock
        self._things = things
        self._most_at_once = most_at_once
        self._under_way = 0
        self._counts: dict[str, _Count] = {}  # in the order of their last beginning

    def __len__(self) -> int:
        """How many subjects are remembered."""
        return len(self._counts)

    def begin(self, quotas: Sequence[Quota]) -> Release:
        """Count one more for each quota's subject; call the result once it is over.

        Raises:
            TooManyRequestsError: the first quota that is used up.
            UnavailableError: there are too many in all.
        """
        now = self._clock.monotonic()
        for quota in quotas:
            self._check(quota, now)
        if self._most_at_once is not None and self._under_way >= self._most_at_once:
            raise UnavailableError(
                f"the gateway has all the {self._things} under way that it can take; try again in a moment",
                code="overloaded",
            )
        counts = [self._count(quota, now) for quota in quotas]
        self._under_way += 1
        self._forget_idle(now)

        def release(_: object) -> None:
            self._under_way -= 1
            for count in counts:
                count.under_way -= 1

        return release

    def count(self, quotas: Sequence[Quota]) -> None:
        """Count one more that is over at once: of the quotas those of a minute hold.

        Raises:
            TooManyRequestsError: the first quota that is used up.
        """
        now = self._clock.monotonic()
        of_a_minute = [quota._replace(at_once=None) for quota in quotas]
        for quota in of_a_minute:
            self._check(quota, now)
        for quota in of_a_minute:
            self._count(quota, now).under_way -= 1
        self._forget_idle(now)

    def take_back(self, quotas: Sequence[Quota]) -> None:
        """Forget the last one that was counted for these: it was not done."""
        for quota in quotas:
            count = self._counts.get(quota.subject, _NOTHING)
            if quota.per_minute is not None and count.begun:
                count.begun.pop()

    def _check(self, quota: Quota, now: float) -> None:
        count = self._counts.get(quota.subject)
        if count is None:
            count = _NOTHING
        begun = count.begun
        while begun and begun[0] <= now - _MINUTE:
            begun.popleft()
        if quota.per_minute is not None and len(begun) >= quota.per_minute:
            seconds = math.ceil(begun[-quota.per_minute] + _MINUTE - now)
            raise TooManyRequestsError(
                f"{_WHOSE[quota.prefix]} have begun {quota.per_minute:,} {self._things} in the last minute,"
                f" and more are not allowed; try again in {seconds} s",
                code=f"limit_{quota.prefix}{self._things}_per_minute",
                retry_after_seconds=seconds,
            )
        if quota.at_once is not None and count.under_way >= quota.at_once:
            raise TooManyRequestsError(
                f"{_WHOSE[quota.prefix]} have {quota.at_once:,} {self._things} under way, and more at once are not"
                " allowed; stop one, or wait until one ends",
                code=f"limit_{quota.prefix}concurrent_{self._things}",
                retry_after_seconds=_BUSY_SECONDS,
            )

    def _count(self, quota: Quota, now: float) -> _Count:
        count = self._counts.pop(quota.subject, None) or _Count()
        self._counts[quota.subject] = count
        if quota.per_minute is not None:
            count.begun.append(now)
        count.under_way += 1
        return count

    def _forget_idle(self, now: float) -> None:
        # A few at each step suffice: a step adds at most as many subjects.
        for subject in _first(self._counts, 8):
            count = self._counts[subject]
            if count.begun and count.begun[-1] > now - _MINUTE:
                return
            del self._counts[subject]
            if count.under_way:  # a long one: it is checked again after all others
                self._counts[subject] = count


_WHOSE = {"": "users of this key", "visitor_": "you", "address_": "clients from your network address"}


def _first(counts: dict[str, _Count], number: int) -> list[str]:
    return [subject for subject, _ in zip(counts, range(number), strict=False)]
