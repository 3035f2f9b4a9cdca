"""How much the visitors of each site have stored, updated in the transaction of each change.

Below: owners. Above: event_log, message_rows, tables and the store. A thread counts with its messages, its versions'
states, its metadata and its documents, a run with its log once it has ended. Only visitors' data is counted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gateway.owners import site_of
from gateway.sqlite.schema import has_documents

_DOCUMENTS = "SELECT ifnull(sum(length(source) + ifnull(length(sealed), 0)), 0) FROM documents WHERE thread = ?"
_ADD = (
    "INSERT INTO stored_bytes (site, bytes) VALUES (:site, max(0, :more))"
    " ON CONFLICT (site) DO UPDATE SET bytes = max(0, bytes + :more)"
)
_LOG = "SELECT ifnull(sum(length(records)), 0) FROM events WHERE run = ?"
_THREAD = """
    SELECT ifnull(length(state), 0) + ifnull(length(metadata), 0)
        + ifnull((SELECT sum(length(state)) FROM versions WHERE thread = threads.key), 0)
        + ifnull((SELECT sum(length(records)) FROM runs JOIN events ON run = runs.key WHERE runs.owner = threads.owner
            AND runs.thread_id = threads.id AND log_kept = 1 AND finished_at IS NOT NULL), 0)
    FROM threads WHERE key = ?
"""


def read_bytes(connection: sqlite3.Connection, site: str) -> int:
    """The bytes that the site's visitors have stored."""
    row = connection.execute("SELECT bytes FROM stored_bytes WHERE site = ?", (site,)).fetchone()
    return 0 if row is None else int(row[0])


def count(connection: sqlite3.Connection, owner: str, more: int) -> None:
    """Add `more` bytes (negative: fewer) to the site of this owner."""
    count_site(connection, site_of(owner), more)


def count_site(connection: sqlite3.Connection, site: str | None, more: int) -> None:
    """Add `more` bytes to the site's. None: the data is no visitor's, and is not counted."""
    if more and site is not None:
        connection.execute(_ADD, {"site": site, "more": more})


def count_log(connection: sqlite3.Connection, owner: str, run: int) -> None:
    """Count the log of a run that has ended."""
    if site_of(owner) is not None:
        count(connection, owner, connection.execute(_LOG, (run,)).fetchone()[0])


def discount_thread(connection: sqlite3.Connection, owner: str, thread: int) -> None:
    """To be called before a thread is deleted with its logs. `message_rows.sweep` discounts its messages later."""
    if site_of(owner) is not None:
        count(connection, owner, -connection.execute(_THREAD, (thread,)).fetchone()[0])
        if has_documents(connection):
            count(connection, owner, -connection.execute(_DOCUMENTS, (thread,)).fetchone()[0])


def discount_logs(connection: sqlite3.Connection, runs: Sequence[int]) -> None:
    """To be called before the logs of ended runs are deleted."""
    found = connection.execute(
        "SELECT owner, sum(length(records)) FROM runs JOIN events ON run = runs.key"
        f" WHERE runs.key IN ({', '.join('?' * len(runs))}) AND owner GLOB 'visitor:*' GROUP BY owner",
        runs,
    ).fetchall()
    for owner, size in found:
        count(connection, owner, -size)
