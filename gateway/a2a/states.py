"""The states of a task, and how a run's end becomes one.

Below: events. Above: tasks, and both dialects.
https://a2a-protocol.org/latest/specification/#413-taskstate (1.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from gateway.events import Cancelled, Completed, Interrupted, RunFailed, RunFinished

_PREFIX: Final = "TASK_STATE_"
_REJECTED: Final = "rejected"  # the code of a run that its agent will not do


class TaskState(StrEnum):
    """A task's state, by its name in 1.0."""

    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    @property
    def word(self) -> str:
        """Its name in 0.3, and in messages: `input-required`."""
        return self.value.removeprefix(_PREFIX).lower().replace("_", "-")

    @property
    def ended(self) -> bool:
        """Whether the task has ended: nothing can be added to it."""
        return self in _ENDED

    @property
    def at_work(self) -> bool:
        """Whether the task goes on by itself."""
        return self in (TaskState.SUBMITTED, TaskState.WORKING)


_ENDED: Final = frozenset({TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.REJECTED})
_BY_WORD: Final[Mapping[str, TaskState]] = MappingProxyType({state.word: state for state in TaskState})


def state_named(name: str) -> TaskState | None:
    """The state by its name in either version."""
    return _BY_WORD.get(name.removeprefix(_PREFIX).lower().replace("_", "-"))


def state_of_end(last: RunFinished | RunFailed) -> TaskState:
    """The state that a run's last event leaves its task in."""
    if isinstance(last, RunFailed):
        return TaskState.REJECTED if last.code == _REJECTED else TaskState.FAILED
    match last.outcome:
        case Interrupted():
            return TaskState.INPUT_REQUIRED
        case Completed(pending_calls) if pending_calls:
            return TaskState.INPUT_REQUIRED
        case Cancelled():
            return TaskState.CANCELED
        case _:
            return TaskState.COMPLETED
