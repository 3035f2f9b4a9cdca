"""What a run's events come to so far: the messages they add, what they cost, and the state they leave.

Below: events, transcript, usage. Above: the loop, which goes on from it; live_run, which keeps it and tells viewers
that join late; endings, which ends a run from its log. Each has a fold of its own, because they do not see the same
events: the loop sees what its model said as it came; a live run what the sealer let pass, which may have other ids; the
log is read where there is neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from gateway.agent import ABSENT, Absent
from gateway.events import Event, StateChanged, StateReplaced
from gateway.messages import JsonValue
from gateway.transcript import Transcript
from gateway.usage import UsageLedger


class RunFold:
    """Follows one run. `state` is ABSENT until there is one."""

    __slots__ = ("state", "transcript", "usage")

    def __init__(self, call_turns: Mapping[str, str] | None = None, state: JsonValue | Absent = ABSENT) -> None:
        """`call_turns` as Transcript has it; `state` as the run found it."""
        self.transcript = Transcript(call_turns)
        self.usage = UsageLedger()
        self.state = state

    def follow(self, events: Sequence[Event]) -> Sequence[Event]:
        """Take the next events in. Gives those that are no deltas: what others may want to look at."""
        rare = self.transcript.follow(events)
        if rare:
            self.usage.follow(rare)
            for event in rare:
                kind = type(event)
                if kind is StateReplaced or kind is StateChanged:
                    self.state = cast(StateReplaced, event).state
        return rare
