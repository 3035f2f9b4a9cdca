"""What to do about a run or a thread that another gateway of the store has.

Below: store, clock. Above: the run driver, ids, the runner, the environment of protocols. A request about one run or
one thread goes to the gateway that holds it. What touches several threads stays here: it reads the store, and finds
such a thread busy.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from gateway.clock import Clock
from gateway.errors import ConflictError, StoreError
from gateway.store import HeldElsewhereError, Store

_BUSY_SECONDS: Final = 0.5  # between two looks whether another gateway has a thread still

_stays: ContextVar[bool] = ContextVar("stays_here", default=False)


def check_here(thread_id: str, holder: str | None) -> None:
    """Raises HeldElsewhereError if another gateway holds the thread, unless the request stays here."""
    if holder is not None and not is_staying():
        raise HeldElsewhereError(thread_id, holder)


def is_staying() -> bool:
    """Whether the request reads the store, also of runs that another gateway has under way."""
    return _stays.get()


@contextmanager
def staying_here() -> Generator[None]:
    """Read the store, also of runs that another gateway has under way.

    Raises:
        ConflictError: the block writes a thread that another gateway holds.
    """
    token = _stays.set(True)
    try:
        yield
    except HeldElsewhereError as error:
        raise busy_elsewhere(error) from None
    finally:
        _stays.reset(token)


async def until_held(store: Store, clock: Clock, owner: str, thread_id: str) -> None:
    """Wait until this gateway holds the thread, for a run that waits here: another one may have begun a run on it,
    because nobody waited yet when the last one ended here.
    """
    while store.gateways.is_shared:
        try:
            await store.hold_thread(owner, thread_id, holds=True)
            return
        except (HeldElsewhereError, ConflictError):
            await clock.sleep(_BUSY_SECONDS)
        except StoreError:  # the run's begin fails for the same reason
            return


def busy_elsewhere(error: HeldElsewhereError) -> ConflictError:
    """The error for a write that cannot go to the other gateway."""
    return ConflictError(
        f"thread {error.thread_id!r} is busy at another gateway; wait for the end of its run", code="thread_busy"
    )
