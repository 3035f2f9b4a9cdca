"""How long a request waits until a run's events or messages are stored.

Below: clock, errors. Above: live_run, thread_queue, replay. A run waits longer for a store that another program holds
(see Store) than a client that waits for an answer.
"""

from __future__ import annotations

from collections.abc import Awaitable

from gateway.clock import Clock, Deadline, DeadlineError
from gateway.errors import StoreError

_SECONDS = 4.5


async def soon_stored(clock: Clock, stored: Awaitable[object]) -> None:
    """Wait for `stored`, and cancel it when the time is over.

    Raises:
        StoreError: it takes too long.
    """
    deadline = Deadline(clock, _SECONDS)
    try:
        with deadline:
            await stored
    except DeadlineError as error:
        message = "what was said on the thread so far is not stored yet: the store is busy; try again in a moment"
        raise StoreError(message) from error
    finally:
        deadline.close()
