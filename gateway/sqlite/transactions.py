"""The connection that writes: batches of writes as one transaction, and checkpoints of the write-ahead log.

Below: writes, reserve, database (errors). Above: group_commit, which calls this on the event loop or on the writer
thread, never on both at once. When a batch's transaction fails, each write is tried again in its own, so that one
failing write does not fail the others. It waits for no other program: group_commit does, between two tries.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from typing import Any

from gateway.errors import StoreFullError
from gateway.sqlite.database import store_error
from gateway.sqlite.reserve import Reserve
from gateway.sqlite.writes import Operation

logger = logging.getLogger(__name__)

_SPARE_PAGES = 64  # beyond max_size_bytes: a deletion writes before it frees anything

# A rebuild copies the file to the temporary directory. Copying it back takes about a second and cannot be interrupted.
LARGEST_REBUILD_BYTES = 256 * 1024 * 1024


class HeldFileError(Exception):
    """Another program is writing to the file. `outcomes` has the batch's first writes; the others were not done."""

    def __init__(self, outcomes: list[Any]) -> None:
        super().__init__()
        self.outcomes = outcomes


class Transactions:
    """Writes batches and checkpoints with one connection, and never waits for other programs."""

    def __init__(self, connection: sqlite3.Connection, reserve: Reserve | None = None) -> None:
        """`reserve`: disk space kept for writes that free space."""
        self.connection = connection
        self.reserve = reserve
        connection.execute("PRAGMA busy_timeout = 0")

    def write(self, batch: list[Operation[Any]]) -> list[Any]:
        """Do all writes of the batch. Gives a result or an exception for each.

        Raises:
            HeldFileError: some writes would have to wait.
        """
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            outcomes = [operation.work(self.connection) for operation in batch]
            self.connection.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            if _is_busy(error):
                raise HeldFileError([]) from None
            return self._retry(batch, error)
        return outcomes

    def checkpoint(self) -> int:
        """Move the write-ahead log into the file, and flush both to the disk. Gives how many pages the log had.

        Pages stay in the log, and are not lost, while another program reads or the disk has no room.
        """
        try:
            _, pages, _ = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            logger.warning(
                "store could not empty its write-ahead log", extra={"cause": getattr(error, "sqlite_errorname", "")}
            )
            return 0
        return int(pages)

    def empty_log(self) -> bool:
        """As `checkpoint`, and truncate the log, which may have deleted text. False if another connection is reading,
        or it failed; nothing is lost.
        """
        try:
            busy, _, _ = self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            logger.debug("store could not cut its write-ahead log", exc_info=error)
            return False
        return not busy

    def rebuild(self) -> bool:
        """Rewrite the whole file. False if that was interrupted, or another program holds the file: the file is
        unchanged.

        The file also stays unchanged when it is too large, or there is no room for a copy.
        """
        try:
            if self._value("page_count") * self._value("page_size") <= LARGEST_REBUILD_BYTES:
                self.vacuum()
        except sqlite3.Error as error:  # also a damaged page, which nothing else may have read
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_BUSY):
                logger.debug("the store's file is in use: it is rewritten later")
                return False
            logger.warning("the store's file could not be rewritten", extra={"cause": error.sqlite_errorname})
        return True

    def vacuum(self) -> None:
        """Rewrite the whole file, however large it is. Raises sqlite3.Error: the file is unchanged."""
        logger.debug("the store's file is being rewritten")
        self._set("PRAGMA temp_store = FILE")
        try:
            self.connection.execute("VACUUM")
        finally:
            self._set("PRAGMA temp_store = MEMORY")
        logger.debug("the store's file was rewritten")

    def _retry(self, batch: list[Operation[Any]], error: Exception) -> list[Any]:
        if len(batch) != 1:
            return self._write_each(batch)
        outcome = store_error(error) if isinstance(error, sqlite3.Error) else error
        if isinstance(outcome, StoreFullError) and batch[0].makes_room and self.reserve is not None:
            return self._write_with_reserve(batch, self.reserve)
        return [outcome]

    def _write_each(self, batch: list[Operation[Any]]) -> list[Any]:
        outcomes: list[Any] = []
        for operation in batch:
            try:
                outcomes += self.write([operation])
            except HeldFileError:
                raise HeldFileError(outcomes) from None
        return outcomes

    def _write_with_reserve(self, batch: list[Operation[Any]], reserve: Reserve) -> list[Any]:
        """Write the batch with the reserve's space, on the writer's thread, so that no other write takes that space."""
        try:
            most = self._value("max_page_count")
        except sqlite3.Error as error:
            return [store_error(error)]
        self.reserve = None  # for the tries below
        released = reserve.release()
        self._set(f"PRAGMA max_page_count = {most + _SPARE_PAGES}")
        outcomes: list[Any] = []
        try:
            if self._log_bytes() <= released:  # otherwise the file would take the space at the next checkpoint
                self.empty_log()
                outcomes = self.write(batch)
            if not outcomes or isinstance(outcomes[0], StoreFullError):
                outcomes = self._write_without_overwriting(batch)
            self.empty_log()
        finally:
            self._set(f"PRAGMA max_page_count = {most}")
            self.reserve = reserve
            reserve.fill(released)
        return outcomes

    def _write_without_overwriting(self, batch: list[Operation[Any]]) -> list[Any]:
        """Write the batch without overwriting deleted data, which would need as much log as the data is large."""
        self._set("PRAGMA secure_delete = OFF")
        try:
            outcomes = self.write(batch)
        finally:
            self._set("PRAGMA secure_delete = ON")
        if not isinstance(outcomes[0], Exception):
            logger.warning("no room to overwrite deleted data: it stays in the file until the file is rewritten")
        return outcomes

    def _log_bytes(self) -> int:
        """By how much the file may grow at the next checkpoint, at most."""
        path = self.connection.execute("PRAGMA database_list").fetchone()[2]
        try:
            return os.stat(f"{path}-wal").st_size
        except OSError:
            return 0

    def _value(self, pragma: str) -> int:
        value: int = self.connection.execute(f"PRAGMA {pragma}").fetchone()[0]
        return value

    def _roll_back(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            logger.exception("store could not roll back")

    def _set(self, pragma: str) -> None:
        try:
            self.connection.execute(pragma)
        except sqlite3.Error as error:  # a real problem makes the transaction fail, too
            logger.debug("a setting of the store's connection could not be changed", exc_info=error)


def _is_busy(error: Exception) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_BUSY
