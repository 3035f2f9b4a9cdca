"""Calls the listeners of a thread when a run begins on it.

Below: store. Above: the run driver, which reports begun runs; the environment of protocols, which registers listeners.
While anybody listens, this gateway holds the thread, so that its next run begins here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gateway.errors import StoreError
from gateway.store import HeldElsewhereError, RunRecord, Store

logger = logging.getLogger(__name__)

Listener: TypeAlias = Callable[[RunRecord], None]
"""It is called with the run's record, and must return at once."""


def _nothing() -> None:
    """There is nothing to do about the end of the listening."""


@dataclass(frozen=True, slots=True, eq=False)
class _Listening:
    listener: Listener
    on_lost: Callable[[], None]


class Beginnings:
    """The listeners of all threads, by owner and thread. A run on any other thread calls none. `has_runs` says whether
    runs work on a thread or wait for it here.
    """

    def __init__(self, store: Store, has_runs: Callable[[str, str], object]) -> None:
        self._store = store
        self._has_runs = has_runs
        self._listeners: dict[tuple[str, str], list[_Listening]] = {}
        self._releasing: set[asyncio.Task[None]] = set()

    async def listen(
        self, owner: str, thread_id: str, listener: Listener, on_lost: Callable[[], None] = _nothing
    ) -> Callable[[], None]:
        """Call `listener` for each run that begins on the thread. The returned function removes the listener.

        `on_lost` is called if this gateway loses the thread, because it was taken for dead: the listening is over then.

        Raises:
            HeldElsewhereError: another gateway holds the thread.
            ConflictError: a gateway that is gone left a run on it.
            StoreError: the store cannot be used now.
        """
        place, is_shared = (owner, thread_id), self._store.gateways.is_shared
        own = _Listening(listener, on_lost)
        self._listeners.setdefault(place, []).append(own)

        def stop() -> None:
            listeners = self._listeners.get(place, [])
            if own not in listeners:  # the thread was lost
                return
            listeners.remove(own)
            if not listeners:
                del self._listeners[place]
                if is_shared:
                    task = asyncio.create_task(self._release(owner, thread_id), name="release a thread")
                    self._releasing.add(task)
                    task.add_done_callback(self._releasing.discard)

        if is_shared:
            try:
                await self._store.hold_thread(owner, thread_id, holds=True)
            except BaseException:
                stop()
                raise
        return stop

    async def _release(self, owner: str, thread_id: str) -> None:
        """Release the thread, unless it is needed again. The end of its last run here releases it too."""
        if self.are_awaited(owner, thread_id) or self._has_runs(owner, thread_id):
            return
        try:
            await self._store.hold_thread(owner, thread_id, holds=False)
        except HeldElsewhereError:
            pass
        except StoreError as error:
            extra = {"thread_id": thread_id, "code": error.code}
            logger.warning("a thread stays with this gateway until its next run ends", extra=extra)

    def are_awaited(self, owner: str, thread_id: str) -> bool:
        """Whether anybody waits for a run of this thread."""
        return (owner, thread_id) in self._listeners

    def tell(self, record: RunRecord) -> None:
        """Call the listeners of the run's thread."""
        for each in tuple(self._listeners.get((record.owner, record.thread_id), ())):
            each.listener(record)

    def give_up(self) -> None:
        """This gateway holds no thread any more: whoever listens is told so, and listens no more."""
        lost, self._listeners = self._listeners, {}
        for each in [each for listeners in lost.values() for each in listeners]:
            each.on_lost()
