"""The database file: its lock, its connections, and SQLite's errors as ours.

Below: address, reserve, file_watch, schema. Above: group_commit, which owns `Database.writer`, and the store, whose
reads use `reader()`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

from gateway.embedded_index.search_slots import SEARCHERS
from gateway.errors import ConfigurationError, StoreError, StoreFullError
from gateway.sqlite.address import Address
from gateway.sqlite.file_watch import FileWatch
from gateway.sqlite.plain_values import bind_plainly
from gateway.sqlite.private_files import OWNER_ONLY, make_private, tighten
from gateway.sqlite.reserve import Reserve
from gateway.sqlite.schema import check_version, migrate

try:
    import fcntl
except ImportError:  # on Windows: the file is not locked there
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

READERS = 2
BUSY_SECONDS = 5.0

_MEMORY_PRAGMAS = ("PRAGMA foreign_keys = ON", "PRAGMA temp_store = MEMORY")
# NORMAL under WAL: a commit survives the process (kill -9), not a loss of power in the last instant; FULL would cost a
# flush of the disk per commit. https://sqlite.org/pragma.html#pragma_synchronous
_WRITER_PRAGMAS = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA wal_autocheckpoint = 0",  # see group_commit: it flushes to the disk
    f"PRAGMA journal_size_limit = {64 * 1024 * 1024}",
    "PRAGMA cache_size = -8000",
    # Deleted data is overwritten. Benchmarks of runs show no cost: they hardly free anything.
    "PRAGMA secure_delete = ON",
)
_LOOP_READER_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA cache_size = -1000", "PRAGMA busy_timeout = 0")
_READER_PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA cache_size = -4000", "PRAGMA temp_store = MEMORY")

# By SQLite's primary result code (https://sqlite.org/rescode.html); any other code is a plain "failed".
_ERRORS: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_PERM: (StoreError, "the store's file may not be written"),
    sqlite3.SQLITE_BUSY: (StoreError, "the store is busy: another program holds its file"),
    sqlite3.SQLITE_LOCKED: (StoreError, "the store is busy: another program holds its file"),
    sqlite3.SQLITE_NOMEM: (StoreError, "the store ran out of memory"),
    sqlite3.SQLITE_READONLY: (StoreError, "the store's file may not be written"),
    sqlite3.SQLITE_IOERR: (StoreError, "the store's disk failed"),
    sqlite3.SQLITE_CORRUPT: (StoreError, "the store's file is damaged"),
    sqlite3.SQLITE_FULL: (StoreFullError, "the store is full; it works again when there is room"),
    sqlite3.SQLITE_CANTOPEN: (StoreError, "the store's file cannot be opened"),
    sqlite3.SQLITE_TOOBIG: (StoreError, "a record is too large for the store"),
    sqlite3.SQLITE_NOTADB: (StoreError, "the store's file is damaged"),
}


def store_error(error: sqlite3.Error) -> StoreError:
    """The error for callers of the store; SQLite's own message stays in `__cause__`."""
    extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    if extended == sqlite3.SQLITE_IOERR_SHMSIZE:  # the index of the write-ahead log could not grow: no room either
        extended = sqlite3.SQLITE_FULL
    kind, message = _ERRORS.get(extended & 0xFF, (StoreError, "the store failed"))
    mapped = kind(message)
    mapped.__cause__ = error
    return mapped


class Database:
    """An open database.

    `writer` is for one writing thread at a time, `reader()` for any other thread. The event loop reads with
    `loop_reader`, which never waits for a lock, while it does not hold `writer`. A database in memory has no
    `loop_reader` and no `reserve`. `watch` looks after the file and its write-ahead log.
    """

    def __init__(self, address: Address) -> None:
        """Lock and open the file, create or migrate it.

        Raises:
            ConfigurationError: it is in use, newer, damaged, another program's, or cannot be written.
        """
        bind_plainly()
        self.path = None if address.path is None else address.path.resolve()
        self.reserve = None if self.path is None else Reserve(self.path)
        self._readers: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._connections: list[sqlite3.Connection] = []
        self._lock = None if self.path is None else _lock(self.path)
        try:
            self.writer = self._open_writer(address.max_size_bytes)
            self.loop_reader: sqlite3.Connection | None = None
            if self.path is not None:
                for _ in range(READERS + SEARCHERS):
                    self._readers.put(self._connect(_READER_PRAGMAS))
                self.loop_reader = self._connect(_LOOP_READER_PRAGMAS)
            if self.reserve is not None:
                self.reserve.fill()
            self.watch = FileWatch([] if self.path is None else [self.path, Path(f"{self.path}-wal")])
        except sqlite3.Error as error:
            self.close()
            raise opening_error(self.path, error) from error
        except BaseException:
            self.close()
            raise

    @property
    def in_memory(self) -> bool:
        """Whether the writer's connection is the only one."""
        return self.path is None

    @contextlib.contextmanager
    def reader(self) -> Iterator[sqlite3.Connection]:
        """A connection for one thread; it sees one state of the file until it is given back.

        Raises:
            StoreError: instead of SQLite's errors.
        """
        connection = self._readers.get()
        try:
            connection.execute("BEGIN")
            yield connection
        except sqlite3.Error as error:
            raise store_error(error) from error
        finally:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            self._readers.put(connection)

    def close(self) -> None:
        """Close the connections, then release the lock. Committed data stays."""
        for connection in reversed(self._connections):
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._connections.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _open_writer(self, max_size_bytes: int | None) -> sqlite3.Connection:
        connection = self._connect(_MEMORY_PRAGMAS)
        if self.path is not None:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            if mode != "wal":
                raise ConfigurationError(
                    f"the file system of {str(self.path)!r} cannot carry a write-ahead log;"
                    " put the store on a local disk"
                )
            for pragma in _WRITER_PRAGMAS:
                connection.execute(pragma)
        if max_size_bytes is not None:
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {max_size_bytes // page_size}")
        found, version = migrate(connection)
        if 0 < found < version:
            logger.info("store migrated", extra={"from_version": found, "to_version": version})
        if self.path is not None:
            tighten(self.path)  # not earlier: it might be another program's file
        _touch_tables(connection)
        if self.path is not None:
            with contextlib.suppress(sqlite3.OperationalError):  # no room, or another program: start anyway
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()  # with a killed process's log
        return connection

    def _connect(self, pragmas: tuple[str, ...]) -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        self._connections.append(connection)
        for pragma in pragmas:
            connection.execute(pragma)
        return connection


@contextlib.contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection]:
    """One state of a database's file to be read, also while another process uses it.

    Raises:
        ConfigurationError: there is no such file, it cannot be read, or it was written by another version.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no store {str(path)!r}; name another")
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"  # without this mode a missing file would be created
        with contextlib.closing(
            sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        ) as connection:
            for pragma in _READER_PRAGMAS:
                connection.execute(pragma)
            connection.execute("BEGIN")
            check_version(connection)
            yield connection
    except sqlite3.Error as error:
        raise opening_error(path, error) from error


def _touch_tables(connection: sqlite3.Connection) -> None:
    """Read a row of each table, so that a truncated file is found at start and not by the first caller."""
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        connection.execute(f'SELECT * FROM "{name}" LIMIT 1').fetchone()


def _lock(path: Path) -> int:
    """Take the operating system's lock on a file beside the database; it ends with the process, however that ends.

    The lock is not on the database file itself, because closing any descriptor of that file drops SQLite's own locks.
    https://sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_
    """
    if not path.parent.is_dir():
        raise ConfigurationError(f"the folder {str(path.parent)!r} of the store does not exist; create it")
    if path.is_dir():
        raise ConfigurationError(f"the store {str(path)!r} is a folder; name a file in it")
    descriptor = _open_to_write(f"{path}.lock", os.O_CREAT)
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigurationError(
            f"the store {str(path)!r} is in use by another process; stop that gateway first, or give this one a store"
            " of its own"
        ) from error
    try:
        if path.exists():  # SQLite would open a file without write permission, and fail at the first write
            os.close(_open_to_write(str(path)))
        make_private(path)
    except ConfigurationError:
        os.close(descriptor)
        raise
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process has the database open, as far as the operating system tells."""
    try:
        with open(f"{path}.lock", "rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # for an instant
    except BlockingIOError:
        return True
    except OSError:  # it is not there, or another user's
        return False
    return False


def _open_to_write(name: str, flags: int = 0) -> int:
    try:
        return os.open(name, os.O_RDWR | os.O_CLOEXEC | flags, OWNER_ONLY)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {name!r} ({error.strerror}); the gateway needs write access to the store and its folder"
        ) from error


def opening_error(path: Path | None, error: sqlite3.Error) -> ConfigurationError:
    """The error for the operator whose store SQLite cannot open."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    name = "the store" if path is None else f"the store {str(path)!r}"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return ConfigurationError(
            f"{name} is damaged or not a SQLite file; put back a copy, or move it away to start with an empty one"
            " (it was left as it is)"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return ConfigurationError(
            f"{name} cannot be written; the gateway needs write access to the file and its folder"
        )
    if code == sqlite3.SQLITE_FULL:
        return ConfigurationError(f"{name} cannot be opened: there is no room; free some space")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ConfigurationError(f"{name} is held by another program; close it there and start again")
    return ConfigurationError(f"{name} cannot be opened: {error}")
