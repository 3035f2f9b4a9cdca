"""The id of the process that serves a store, in a file beside the store, for `agui-gateway reload` and `vacuum`.

Above: process, which writes it; the command line, which reads it. The process holds a lock on the file while it lives,
so the id of a killed process is not mistaken for a later process with the same id. The second line names the work that
a process of an earlier version does not know: its signal would end such a process.
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
_VACUUMS = b"vacuum"


def pid_file(store: Path) -> Path:
    """The pid file of a store: `gateway.pid` beside `gateway.db`."""
    file = store.with_suffix(".pid")
    return file if file != store else store.with_name(f"{store.name}.pid")


@contextlib.contextmanager
def kept_pid(store: Path | None) -> Iterator[None]:
    """Write this process's id into a file beside its store, and remove the file at the end.

    With None, for a store without a file, it does nothing.
    """
    if store is None:
        yield
        return
    file, descriptor = pid_file(store), None
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNER_ONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:  # a full disk, or a store of nearly the same name, must not prevent serving
        logger.warning("'agui-gateway reload' and 'vacuum' will not find this process", extra={"cause": error.strerror})
        if descriptor is not None:
            os.close(descriptor)
        yield
        return
    try:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _OWNER_ONLY)
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"%d\n%s\n" % (os.getpid(), _VACUUMS))
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(descriptor)


def serving_pid(store: Path) -> int | None:
    """The process that serves the store; None if there is none, or it cannot be known."""
    first = _lines(store)[:1]
    return int(first[0]) if first and first[0].isdigit() else None


def can_vacuum(store: Path) -> bool:
    """Whether the process that serves the store expects SIGUSR1."""
    return _VACUUMS in _lines(store)[1:]


def _lines(store: Path) -> list[bytes]:
    """The lines of the pid file; empty if its process does not live."""
    try:
        with pid_file(store).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read(64).split()
    except OSError:
        pass
    return []
