"""Which process serves a store: a file beside the store with its id, for `agui-gateway reload`.

Above: process, which keeps it; the command line, which reads it. The process holds a lock on the file as long as it
lives: an id that a killed process left behind is not taken for that of whoever has this number by now.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

_OWNER_ONLY = 0o600


def pid_file(store: Path) -> Path:
    """The file beside that of the store: `gateway.pid` beside `gateway.db`."""
    file = store.with_suffix(".pid")
    return file if file != store else store.with_name(f"{store.name}.pid")


@contextlib.contextmanager
def kept_pid(store: Path | None) -> Iterator[None]:
    """Say in a file beside the store, which this process has, that this is the process; take the file away at the end.

    None: the store has no file, and nothing is said.
    """
    if store is None:
        yield
        return
    file, descriptor = pid_file(store), None
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # no room, or a store of nearly the same name: no reason not to serve
        logger.warning("'agui-gateway reload' will not find this process", extra={"cause": error.strerror})
        if descriptor is not None:
            os.close(descriptor)
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _OWNER_ONLY)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(descriptor)


def serving_pid(store: Path) -> int | None:
    """The process that serves the store; None where there is none, or where nobody can tell."""
    try:
        with pid_file(store).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                content = file.read(32).strip()
                return int(content) if content.isdigit() else None
            return None  # whoever wrote it is gone
    except OSError:
        return None
