"""Room on the disk that is kept for what makes room: a deletion writes before it frees anything.

Above: transactions. SQLite writes a deletion into its log first, and on a full disk the log cannot grow; nor can it go
back into the file, which would have to grow. The reserve is a file beside the database with nothing in it. Where a
deletion finds no room it goes, the log goes back into the file, the deletion is done, and the reserve is taken again.

What this promises: one deletion after the other, as long as no other program takes the bytes that were let go in that
moment. On a disk that had less than 48 MB left when the gateway started the reserve is smaller, and the promise with
it: then the deletion is done in what there is, and the log may stay where it is.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gateway.sqlite.private_files import OWNER_ONLY

# The log goes back into the file when it has 4 MB; a deletion may write some of them.
MOST_BYTES = 6 * 1024 * 1024
LEAST_BYTES = 64 * 1024
_SHARE_OF_ROOM = 8  # never more of the room there is than such a share
_ZEROS = bytes(64 * 1024)


class Reserve:
    """One for a database's file. Blocking: for the thread that writes, or before there is one."""

    def __init__(self, database: Path) -> None:
        self._path = database.with_name(f"{database.name}.reserve")

    def fill(self, released: int = 0) -> None:
        """Take room, where there is enough; behind a `release` what that let go, if nobody else has taken it."""
        with suppress(OSError):
            kept = self._path.stat().st_size if self._path.exists() else 0
            room = shutil.disk_usage(self._path.parent).free + kept
            wanted = max(min(MOST_BYTES, room // _SHARE_OF_ROOM), min(released, room))
            while wanted > kept and wanted >= LEAST_BYTES and not self._take(wanted):
                wanted //= 2

    def release(self) -> int:
        """Let the room go; how many bytes it was."""
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
