"""The embedded store: one SQLite file, one process, durable at every commit.

URLs: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:` (gone with the process), each with an
optional `?max_size_bytes=N`. To copy a live file: `sqlite3 gateway.db ".backup copy.db"`. Below: `gateway.sqlite`, its
inside.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

from gateway.sqlite.address import parse_address
from gateway.sqlite.doctor import examine
from gateway.sqlite.store import SqliteStore
from gateway.store import Finding, Store, StoreEnvironment, StoreType


def open_sqlite(url: str, environment: StoreEnvironment) -> Store:
    """The store of a `sqlite:` URL, not opened yet.

    Raises:
        ConfigurationError: the URL is not one of a SQLite store.
    """
    return SqliteStore(parse_address(url, environment.directory), environment)


def sqlite_file(url: str, environment: StoreEnvironment) -> Path | None:
    """The file that the URL names; None for a store in memory. Raises ConfigurationError as `open_sqlite`."""
    path = parse_address(url, environment.directory).path
    return None if path is None else path.resolve()


def examine_sqlite(url: str, environment: StoreEnvironment) -> AsyncGenerator[Finding]:
    """Look at the file that the URL names. Raises ConfigurationError as `open_sqlite`."""
    return examine(parse_address(url, environment.directory), environment)


STORE = StoreType("sqlite", open_sqlite, sqlite_file, examine_sqlite)
