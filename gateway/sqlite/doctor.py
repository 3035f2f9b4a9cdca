"""Looks at the store's file without changing it, also while a gateway serves it.

Below: address, documents, database, reserve, schema. Above: the part. Blocking calls have a thread. SQLite makes files
beside a database that it opens, even one that it only reads. So a file that nobody uses is opened as one that never
changes, and one that is in use, with the files that are there: https://sqlite.org/wal.html#read_only_databases
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from gateway.errors import ConfigurationError
from gateway.sqlite.address import Address
from gateway.sqlite.database import BUSY_SECONDS, is_locked, opening_error
from gateway.sqlite.document_rows import sealed_key_ids
from gateway.sqlite.documents import MasterKeys
from gateway.sqlite.key_file import key_file
from gateway.sqlite.private_files import open_to_others
from gateway.sqlite.reserve import LEAST_BYTES, MOST_BYTES, SHARE_OF_ROOM
from gateway.sqlite.schema import MIGRATIONS, version_of
from gateway.store import Finding, Level, StoreEnvironment

_CHECK_SECONDS = 30.0
_STEPS_BETWEEN_LOOKS = 100_000  # of SQLite's virtual machine: some milliseconds
_MOST_LOG_BYTES = 64 * 1024 * 1024  # of a gateway at work it has less than 5 MB
_NEARLY_FULL = 0.9


async def examine(
    address: Address, environment: StoreEnvironment, *, check_seconds: float = _CHECK_SECONDS
) -> AsyncGenerator[Finding]:
    """What there is to say of the store's file. The check of its pages gives up after `check_seconds`."""
    if address.path is None:
        remedy = "name a file, as in 'store: sqlite:///gateway.db'"
        yield Finding("store file", Level.WARNING, "the store is in memory: its data end with the process", remedy)
        return
    keys = MasterKeys(environment.master_keys)
    examination = _Examination(address.path.resolve(), address.max_size_bytes, keys, environment.clock.monotonic)
    for finding in await asyncio.to_thread(lambda: list(examination.findings(check_seconds))):
        yield finding


class _Examination:
    def __init__(
        self, path: Path, max_size_bytes: int | None, keys: MasterKeys, monotonic: Callable[[], float]
    ) -> None:
        self._path = path
        self._log = path.with_name(f"{path.name}-wal")
        self._max_size_bytes = max_size_bytes
        self._keys = keys
        self._monotonic = monotonic

    def findings(self, check_seconds: float) -> Iterator[Finding]:
        folder = _folder(self._path.parent)
        yield folder
        if folder.level is Level.PROBLEM:
            return
        file = self._file()
        yield file
        yield from self._permissions()
        in_use = is_locked(self._path)
        if in_use:
            yield _ok("in use", "a running gateway, or another command of agui-gateway, has the store open")
        yield from self._left_behind(in_use=in_use)
        yield from self._room()
        if file.level is not Level.PROBLEM and self._path.exists():
            yield from self._content(check_seconds, in_use=in_use)

    def _file(self) -> Finding:
        name = f"{str(self._path)!r}"
        if not self._path.exists():
            return _ok("store file", f"{name} is made at the first start")
        if self._path.is_dir():
            return _problem("store file", f"{name} is a folder", "name a file in it")
        if not os.access(self._path, os.R_OK | os.W_OK):
            remedy = "give the gateway's user the right to read and write it, and run this command as that user"
            return _problem("store file", f"{name} may not be written", remedy)
        owner = self._path.stat().st_uid
        if owner != os.geteuid():
            remedy = "run this command as the gateway's user: it sees what that user may do"
            return Finding("store file", Level.WARNING, f"{name} belongs to another user ({owner})", remedy)
        return _ok("store file", f"{name}, {_size(self._path.stat().st_size)}")

    def _permissions(self) -> Iterator[Finding]:
        loose = [*open_to_others(self._path), *open_to_others(key_file(self._path), ())]
        if loose:
            names = " ".join(file.name for file in loose)
            remedy = f"chmod 600 {names} (in {str(self._path.parent)!r}); a gateway does it at its start"
            yield Finding("permissions", Level.WARNING, f"other users of this machine may use {names}", remedy)
        elif self._path.exists():
            yield _ok("permissions", "only their owner may use the store's files")

    def _left_behind(self, *, in_use: bool) -> Iterator[Finding]:
        size = _bytes_in(self._log)
        if size and not self._path.exists():
            remedy = f"put {self._path.name!r} back where it belongs, or move {self._log.name!r} away"
            yield _problem("journal", f"{self._log.name!r} has data of a store file that is not there", remedy)
        elif size > _MOST_LOG_BYTES:
            remedy = "end programs that read the store for long; the next start of a gateway takes the journal in"
            yield Finding("journal", Level.WARNING, f"{self._log.name!r} has grown to {_size(size)}", remedy)
        elif size and not in_use:
            text = f"a gateway that was killed left {self._log.name!r} ({_size(size)}); the next start takes it in"
            yield _ok("journal", text)
        rollback = self._path.with_name(f"{self._path.name}-journal")
        if _bytes_in(rollback) and not in_use:
            text = f"a program that was killed left {rollback.name!r}; the next start undoes what it had begun"
            yield _ok("journal", text)

    def _room(self) -> Iterator[Finding]:
        free = shutil.disk_usage(self._path.parent).free
        if free < LEAST_BYTES:
            remedy = "free some space: until then no run begins"
            yield _problem("disk", f"the disk of the store is full ({_size(free)} are free)", remedy)
        elif free < MOST_BYTES * SHARE_OF_ROOM and not self._path.with_name(f"{self._path.name}.reserve").exists():
            remedy = "free some space: with less than 48 MB the reserve for deletions on a full disk is smaller"
            yield Finding("disk", Level.WARNING, f"the disk of the store has only {_size(free)} left", remedy)
        elif self._max_size_bytes is not None and self._max_size_bytes > free + _bytes_in(self._path):
            text = f"the disk has {_size(free)} left: the store cannot grow to its max_size_bytes"
            yield Finding("disk", Level.WARNING, text, "free some space, or lower max_size_bytes")
        else:
            yield _ok("disk", f"{_size(free)} are free")

    def _content(self, check_seconds: float, *, in_use: bool) -> Iterator[Finding]:
        """What is in the file, as SQLite reads it."""
        mode = self._mode(in_use=in_use)
        if mode is None:
            text = "not looked at: the journal that was left has to be taken in first"
            yield _ok("content", text)
            return
        try:
            with self._opened(mode) as connection:
                findings = list(self._read(connection, check_seconds))
        except sqlite3.Error as error:
            findings = [_refusal("integrity", opening_error(self._path, error))]
        if mode == "immutable=1" and any(each.level is Level.PROBLEM for each in findings) and _bytes_in(self._log):
            yield from self._content(check_seconds, in_use=True)  # a gateway began to write meanwhile
        else:
            yield from findings

    def _mode(self, *, in_use: bool) -> str | None:
        """How the file can be opened so that no file is made; None if it cannot."""
        if not in_use and not _bytes_in(self._log):
            return "immutable=1"
        return "mode=ro" if self._path.with_name(f"{self._path.name}-shm").exists() else None

    @contextlib.contextmanager
    def _opened(self, mode: str) -> Iterator[sqlite3.Connection]:
        address = f"file:{quote(str(self._path))}?{mode}"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS)) as connection:
            yield connection

    def _read(self, connection: sqlite3.Connection, check_seconds: float) -> Iterator[Finding]:
        try:
            version = version_of(connection)
        except ConfigurationError as error:
            yield _refusal("format", error)
            return
        yield _format(version)
        yield self._integrity(connection, check_seconds)
        yield from self._fullness(connection)
        if version == len(MIGRATIONS):
            yield self._sealing(connection)

    def _integrity(self, connection: sqlite3.Connection, check_seconds: float) -> Finding:
        latest = self._monotonic() + check_seconds
        connection.set_progress_handler(lambda: self._monotonic() > latest, _STEPS_BETWEEN_LOOKS)
        try:
            said = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            remedy = "check a backup: sqlite3 FILE 'PRAGMA quick_check'"
            text = f"the file is too large to be checked within {check_seconds:g} seconds"
            return Finding("integrity", Level.WARNING, text, remedy)
        finally:
            connection.set_progress_handler(None, 0)
        if said != ["ok"]:
            remedy = "stop the gateway, keep the damaged files, and put back a backup"
            return _problem("integrity", f"the file is damaged: {'; '.join(said).replace(chr(10), ' ')}", remedy)
        return _ok("integrity", "the file is whole")

    def _fullness(self, connection: sqlite3.Connection) -> Iterator[Finding]:
        if self._max_size_bytes is None:
            return
        pages, unused, page_size = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
        used = (pages - unused) * page_size
        text = f"{_size(used)} of max_size_bytes ({_size(self._max_size_bytes)}) are used"
        remedy = "raise max_size_bytes, or delete threads"
        if used >= self._max_size_bytes // page_size * page_size:
            yield _problem("size", f"{text}: no run begins", remedy)
        elif used >= self._max_size_bytes * _NEARLY_FULL:
            yield Finding("size", Level.WARNING, text, remedy)
        else:
            yield _ok("size", text)

    def _sealing(self, connection: sqlite3.Connection) -> Finding:
        try:
            self._keys.read(self._path)
            key_ids = sealed_key_ids(connection)
            self._keys.check(key_ids)
        except ConfigurationError as error:
            return _refusal("keys", error)
        if key_ids:
            return _ok("keys", "the keys of all sealed documents are there")
        return _ok("keys", "no document is sealed")


def _folder(folder: Path) -> Finding:
    name = f"{str(folder)!r}"
    if not folder.is_dir():
        return _problem("folder", f"{name}, the folder of the store, does not exist", "create it")
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = "give the gateway's user the right to write in it: the store makes files there"
        return _problem("folder", f"{name}, the folder of the store, may not be written", remedy)
    return _ok("folder", f"{name} may be written")


def _format(version: int) -> Finding:
    if version == 0:
        return _ok("format", "the file is empty; its tables are made at the first start")
    if version < len(MIGRATIONS):
        text = f"an older agui-gateway wrote the file; the next start brings it from {version} to {len(MIGRATIONS)}"
        remedy = "back it up first: the older version does not open it afterwards"
        return Finding("format", Level.WARNING, text, remedy)
    return _ok("format", f"this version's ({version})")


def _refusal(subject: str, error: ConfigurationError) -> Finding:
    """An error as a finding: its message says what is, then what to do."""
    text, _, remedy = error.message.partition("; ")
    return _problem(subject, text, remedy)


def _ok(subject: str, text: str) -> Finding:
    return Finding(subject, Level.OK, text)


def _problem(subject: str, text: str, remedy: str) -> Finding:
    return Finding(subject, Level.PROBLEM, text, remedy)


def _bytes_in(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
