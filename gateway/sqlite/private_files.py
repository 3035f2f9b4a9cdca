"""Files that only the gateway's own user may read, whatever the umask is.

Above: the store and the embedded search engine. SQLite gives the files beside a database (-wal, -shm, -journal) the
permissions of the database file, also when it creates them later.
https://sqlite.org/src/file/src/os_unix.c (findCreateFileMode)
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

logger = logging.getLogger(__name__)

OWNER_ONLY = 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_COMPANIONS = ("-wal", "-shm", "-journal", ".lock", ".reserve")


def make_private(database: Path) -> None:
    """Create a database's file, if it does not exist."""
    with suppress(OSError):  # it exists; or it cannot be created, and SQLite will say so
        os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, OWNER_ONLY))


def bytes_on_disk(database: Path) -> int:
    """The size of a database's file and its write-ahead log, which may have most of what was written last."""
    size = database.stat().st_size
    with suppress(FileNotFoundError):
        size += database.with_name(f"{database.name}-wal").stat().st_size
    return size


def open_to_others(database: Path, companions: Sequence[str] = _COMPANIONS) -> list[Path]:
    """Those of a file and its companions beside it that other users have permissions for."""
    if os.name == "nt":  # Windows has no such permissions
        return []
    files = (database, *(database.with_name(database.name + end) for end in companions))
    found: list[Path] = []
    for file in files:
        with suppress(OSError):  # it is not there
            if stat.S_IMODE(file.stat().st_mode) & _OTHERS:
                found.append(file)
    return found


def tighten(database: Path, companions: Sequence[str] = _COMPANIONS) -> None:
    """Remove other users' permissions from a file and its companions beside it, by default those of a database.

    A failure is only logged: a user who may not change a file's permissions may still use the file.
    """
    tightened: list[str] = []
    for file in open_to_others(database, companions):
        try:
            file.chmod(stat.S_IMODE(file.stat().st_mode) & ~_OTHERS)
            tightened.append(file.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.warning(
                "others may use a file of the gateway's, and its permissions cannot be changed",
                extra={"file": str(file), "cause": error.strerror},
            )
    if tightened:
        logger.warning(
            "others could use files of the gateway's: only its own user can from now on",
            extra={"folder": str(database.parent), "files": tightened},
        )
