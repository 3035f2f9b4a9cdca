"""Calls the listeners of a thread when a run begins on it.

Below: store. Above: the run driver, which reports begun runs; the environment of protocols, which registers listeners.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gateway.store import RunRecord

Listener: TypeAlias = Callable[[RunRecord], None]
"""It is called with the run's record, and must return at once."""


class Beginnings:
    """The listeners of all threads, by owner and thread. A run on any other thread calls none."""

    def __init__(self) -> None:
        self._listeners: dict[tuple[str, str], list[Listener]] = {}

    def listen(self, owner: str, thread_id: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` for each run that begins on the thread. The returned function removes the listener."""
        place = (owner, thread_id)
        self._listeners.setdefault(place, []).append(listener)

        def stop() -> None:
            listeners = self._listeners[place]
            listeners.remove(listener)
            if not listeners:
                del self._listeners[place]

        return stop

    def are_awaited(self, owner: str, thread_id: str) -> bool:
        """Whether anybody waits for a run of this thread."""
        return (owner, thread_id) in self._listeners

    def tell(self, record: RunRecord) -> None:
        """Call the listeners of the run's thread."""
        for listener in tuple(self._listeners.get((record.owner, record.thread_id), ())):
            listener(record)
