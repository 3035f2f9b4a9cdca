"""Disk space kept free for deletions: a deletion writes before it frees anything.

Above: transactions. SQLite writes a deletion into its log first. On a full disk the log cannot grow, and a checkpoint
cannot move it into the file, which would have to grow. The reserve is a file of zeros beside the database that occupies
space. When a deletion finds no room, the reserve is removed, the log goes back into the file, the deletion is done, and
the reserve is created again.

This guarantees one deletion after the other, as long as no other program takes the freed bytes meanwhile. When the disk
had less than 48 MB free at the gateway's start, the reserve is smaller: a deletion then uses the space that there is,
and the log may keep its size.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gateway.sqlite.private_files import OWNER_ONLY

# The log is checkpointed at 4 MB; a deletion may add to that.
MOST_BYTES = 6 * 1024 * 1024
LEAST_BYTES = 64 * 1024
SHARE_OF_ROOM = 8  # the reserve takes at most an eighth of the free space
_ZEROS = bytes(64 * 1024)


class Reserve:
    """The reserve of one database file. Blocking: use it on the writer's thread, or before there is one."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.reserve")

    def fill(self, released: int = 0) -> None:
        """Reserve space, if the disk has enough. `released`: the bytes that `release` has freed, which are taken again
        unless another program took them.
        """
        with suppress(OSError):
            kept = self._path.stat().st_size if self._path.exists() else 0
            room = shutil.disk_usage(self._path.parent).free + kept
            wanted = max(min(MOST_BYTES, room // SHARE_OF_ROOM), min(released, room))
            while wanted > kept and wanted >= LEAST_BYTES and not self._take(wanted):
                wanted //= 2

    def release(self) -> int:
        """Free the reserved space; gives how many bytes that were."""
        try:
            size = self._path.stat().st_size
            self._path.unlink()
        except OSError:
            return 0
        return size

    def _take(self, size: int) -> bool:
        descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, OWNER_ONLY)
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, 0, size)
            else:  # macOS, Windows
                for _ in range(0, size, len(_ZEROS)):
                    os.write(descriptor, _ZEROS)
        except OSError:
            self._path.unlink()
            return False
        finally:
            os.close(descriptor)
        return True
