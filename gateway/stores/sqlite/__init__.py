"""The embedded store: one SQLite file, one process, durable at every commit.

    store.py          the Store: what each promise of the contract is made of
    group_commit.py   the writer thread: writes in call order, many runs in one commit
    tables.py         threads, messages and runs as rows
    event_log.py      the runs' events as rows
    thread_cache.py   threads that were just used, decoded
    database.py       the file: lock, connections, SQLite's errors as ours
    schema.py         the tables and their versions
    address.py        the store URL

URLs: `sqlite:///relative.db`, `sqlite:////absolute.db`, `sqlite://:memory:` (gone with the process), each with an
optional `?max_size_bytes=N`. To copy a live file: `sqlite3 gateway.db ".backup copy.db"`.
"""

from __future__ import annotations

from gateway.store import Store, StoreEnvironment, StoreType
from gateway.stores.sqlite.address import parse_address
from gateway.stores.sqlite.store import SqliteStore


def open_sqlite(url: str, environment: StoreEnvironment) -> Store:
    """The store behind a `sqlite:` URL, not opened yet.

    Raises:
        ConfigurationError: the URL is not one.
    """
    return SqliteStore(parse_address(url, environment.directory))


STORE = StoreType("sqlite", open_sqlite)
