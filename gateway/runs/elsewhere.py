"""What to do about a run or a thread that another gateway of the store has.

Below: store. Above: ids, the runner, the environment of protocols. A request about one run or one thread goes to the
gateway that holds it. What touches several threads stays here: it reads the store, and finds such a thread busy.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from gateway.errors import ConflictError
from gateway.store import HeldElsewhereError

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


def busy_elsewhere(error: HeldElsewhereError) -> ConflictError:
    """The error for a write that cannot go to the other gateway."""
    return ConflictError(
        f"thread {error.thread_id!r} is busy at another gateway; wait for the end of its run", code="thread_busy"
    )
