"""Notices that the store's file was removed or replaced while the process uses it.

Below: the standard library. Above: database, which has the open files; group_commit, which asks before it writes. Data
that is written to a removed file is lost when the process ends.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from gateway.errors import StoreError

LOOK_SECONDS = 1.0


class FileWatch:
    """The files that the process has open, by their devices and inodes. A look costs 3 us a file."""

    def __init__(self, paths: Sequence[Path], *, seconds: float = LOOK_SECONDS) -> None:
        """The files are at these paths now. `error_if_due` looks every `seconds`."""
        self._seconds = seconds
        self._places = [(path, _identity(path)) for path in paths]
        self._next = 0.0

    def check(self) -> None:
        """Raises StoreError when a file is no longer at its path; the error's cause names the file, for the log."""
        for path, identity in self._places:
            if _identity(path) != identity:
                raise StoreError(
                    "the store's file was removed or replaced while in use; restart the gateway"
                ) from OSError(errno.ENOENT, "it was removed or replaced", str(path))

    def error_if_due(self, now: float) -> StoreError | None:
        """The error of `check`, which is called if the last look was long ago or failed. `now`: monotonic seconds."""
        if now < self._next:
            return None
        try:
            self.check()
        except StoreError as error:
            return error
        self._next = now + self._seconds
        return None


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
