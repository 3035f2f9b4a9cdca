"""Messages as rows, each stored once, however many versions and forks have it.

Below: spans, document_rows, stored_bytes, row_values. Above: version_rows, tables and the store. Messages that no
version has any more are deleted a slice at a time, so that no run waits long for the writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence

from gateway.owners import site_of
from gateway.sqlite import document_rows, stored_bytes
from gateway.sqlite.row_values import from_text
from gateway.store.spans import Span, decode_layout, gaps, plain

# The owner of deleted threads until no fork has their messages any more. Bytes are equal to no text.
NOBODY = b""
_SLICE_ROWS = 500
_SLICE_BYTES = 1_000_000

# How many rows one statement inserts, see event_log.
_STATEMENT_ROWS = (64, 16, 4, 1)
_INSERT = {
    count: "INSERT INTO messages (thread, position, record, at) VALUES " + ", ".join(["(?, ?, ?, ?)"] * count)
    for count in _STATEMENT_ROWS
}
# The versions that may have rows of a thread: its own and those of threads that were forked from it. The current
# version's spans are in its thread's row.
_READERS = """
    WITH readers AS (
        SELECT key, message_count, spans FROM threads WHERE owner <> :nobody AND (key = :thread
            OR key IN (SELECT thread FROM borrowed_messages WHERE source = :thread))
    )
    SELECT key, message_count, spans FROM readers
    UNION ALL SELECT thread, 0, versions.spans FROM versions JOIN readers ON thread = readers.key
"""
_DELETE_UNLENT = (
    "DELETE FROM threads WHERE key = :thread AND NOT EXISTS (SELECT 1 FROM borrowed_messages WHERE source = :thread)"
)


def insert_messages(
    connection: sqlite3.Connection,
    thread: int,
    position: int,
    records: Sequence[bytes],
    times: Sequence[float | None],
) -> None:
    """Insert messages, which came at these times, as rows from this position on."""
    if len(records) == 1:  # as at nearly every run's begin
        connection.execute(_INSERT[1], (thread, position, records[0], times[0]))
        return
    start = 0
    for count in _STATEMENT_ROWS:
        while len(records) - start >= count:
            values: list[object] = []
            for offset in range(start, start + count):
                values += (thread, position + offset, records[offset], times[offset])
            connection.execute(_INSERT[count], values)
            start += count


def read_records(connection: sqlite3.Connection, spans: Iterable[Span]) -> Generator[bytes]:
    """The messages of the spans, in order."""
    for span in spans:
        rows = connection.execute(
            "SELECT record FROM messages WHERE thread = ? AND position >= ? AND position < ? ORDER BY position",
            (span.thread, span.first, span.first + span.length),
        )
        for (record,) in rows:
            yield record


def read_times(connection: sqlite3.Connection, spans: Iterable[Span]) -> Iterator[float | None]:
    """When the messages of the spans came, in order; None: before times were stored."""
    for span in spans:
        rows = connection.execute(
            "SELECT at FROM messages WHERE thread = ? AND position >= ? AND position < ? ORDER BY position",
            (span.thread, span.first, span.first + span.length),
        )
        for (at,) in rows:
            yield at


def let_go(connection: sqlite3.Connection, threads: Iterable[int]) -> None:
    """Let `sweep` look for messages of these threads that no version has any more."""
    connection.executemany("INSERT OR IGNORE INTO loose_messages (thread) VALUES (?)", [(key,) for key in set(threads)])


def sources_of(connection: sqlite3.Connection, thread: int) -> list[int]:
    """The keys of the threads whose rows this thread's versions may have: itself, and those that it was forked from."""
    rows = connection.execute("SELECT source FROM borrowed_messages WHERE thread = ?", (thread,))
    return [thread, *(source for (source,) in rows)]


def sweep(connection: sqlite3.Connection) -> bool:
    """Delete a slice of the messages that no version has, and of deleted threads' documents and versions. Gives whether
    there may be more.
    """
    row = connection.execute(
        "SELECT thread, owner, counts_for FROM loose_messages JOIN threads ON key = thread LIMIT 1"
    ).fetchone()
    if row is None:
        return False
    thread, owner, site = row
    is_deleted = owner == NOBODY
    if is_deleted and (document_rows.sweep_thread(connection, thread) or _delete_version(connection, thread)):
        return True
    if rows := _unused_rows(connection, thread):
        size = sum(size for _, size in rows)
        connection.executemany(
            "DELETE FROM messages WHERE thread = ? AND position = ?", [(thread, position) for position, _ in rows]
        )
        stored_bytes.count_site(connection, site if is_deleted else site_of(from_text(owner)), -size)
        return True
    connection.execute("DELETE FROM loose_messages WHERE thread = ?", (thread,))
    if is_deleted:
        connection.execute(_DELETE_UNLENT, {"thread": thread})
    return True


def _delete_version(connection: sqlite3.Connection, thread: int) -> bool:
    """Delete one version of a deleted thread, as each may have a large state; False where there is none."""
    deleted = connection.execute(
        "DELETE FROM versions WHERE key = (SELECT key FROM versions WHERE thread = ? LIMIT 1)", (thread,)
    )
    return deleted.rowcount > 0


def _unused_rows(connection: sqlite3.Connection, thread: int) -> list[tuple[int, int]]:
    """Positions and sizes of a slice of the thread's rows that no version has."""
    rows = connection.execute(_READERS, {"thread": thread, "nobody": NOBODY})
    layouts = [plain(key, count) if spans is None else decode_layout(spans) for key, count, spans in rows]
    used = [(span.first, span.length) for layout in layouts for span in layout.spans if span.thread == thread]
    found: list[tuple[int, int]] = []
    size = 0
    for start, stop in gaps(used):
        behind, values = ("", (thread, start)) if stop is None else (" AND position < ?", (thread, start, stop))
        for row in connection.execute(
            "SELECT position, length(record) FROM messages WHERE thread = ? AND position >= ?"
            f"{behind} ORDER BY position LIMIT ?",
            (*values, _SLICE_ROWS - len(found)),
        ):
            found.append(row)
            size += row[1]
            if size >= _SLICE_BYTES:
                return found
        if len(found) >= _SLICE_ROWS:
            break
    return found
