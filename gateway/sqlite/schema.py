"""The tables and their versions.

`PRAGMA user_version` counts the MIGRATIONS that a file has had. A change to the tables is a new entry at the end; a
released entry is never changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gateway.errors import ConfigurationError

# 'AGUI': tells our files from other programs' (https://sqlite.org/fileformat2.html#application_id)
APPLICATION_ID = 0x41475549

Migration = Sequence[str]

_FIRST: Migration = (
    """
    CREATE TABLE threads (
        key INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        title TEXT,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        message_count INTEGER NOT NULL,
        last_run_id TEXT,
        interrupts BLOB NOT NULL, -- records, a line each
        state BLOB,               -- JSON; NULL: no run ever had one
        UNIQUE (owner, id)
    )
    """,
    "CREATE INDEX threads_by_update ON threads (owner, updated_at)",
    """
    CREATE TABLE messages (
        thread INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
        position INTEGER NOT NULL, -- from 0
        record BLOB NOT NULL,
        PRIMARY KEY (thread, position)
    ) WITHOUT ROWID
    """,
    # A key is not used again while events of its deleted log remain, see run_rows.insert_run.
    """
    CREATE TABLE runs (
        key INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        thread_id TEXT NOT NULL,
        agent_id TEXT NOT NULL,
        status TEXT NOT NULL,
        created_at REAL NOT NULL,
        started_at REAL,
        finished_at REAL,
        error_code TEXT,
        error_message TEXT,
        usage BLOB NOT NULL,       -- records, a line each
        input_digest TEXT NOT NULL,
        log_kept INTEGER NOT NULL, -- 0: the log was forgotten
        UNIQUE (owner, id)
    )
    """,
    "CREATE INDEX runs_by_thread ON runs (owner, thread_id)",
    # One index for the runs under way (NULL) and for finished runs by age.
    "CREATE INDEX runs_by_end ON runs (finished_at) WHERE log_kept = 1",
    # A row has one run's events of one commit: `first` to `last`, see records.
    """
    CREATE TABLE events (
        run INTEGER NOT NULL,
        first INTEGER NOT NULL,
        last INTEGER NOT NULL,
        records BLOB NOT NULL,
        PRIMARY KEY (run, first)
    ) WITHOUT ROWID
    """,
    # Runs whose logs are marked as deleted: their events are deleted a slice at a time, see event_log.
    "CREATE TABLE forgotten_logs (run INTEGER PRIMARY KEY)",
    "CREATE TABLE write_probe (content BLOB)",
)

# Signing secrets by purpose: they must outlive the process.
_SECRETS: Migration = ("CREATE TABLE secrets (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID",)

# The state that providers keep on their servers for a thread, by agent, as JSON; NULL: none.
_MODEL_STATES: Migration = ("ALTER TABLE threads ADD COLUMN model_states BLOB",)

# Data of deleted threads that providers have yet to delete.
_DUE_DELETIONS: Migration = (
    """
    CREATE TABLE due_deletions (
        id TEXT PRIMARY KEY,
        agent_id TEXT NOT NULL,
        holder TEXT NOT NULL,
        names BLOB NOT NULL, -- JSON
        since REAL NOT NULL,
        tries INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)

# Lists find their threads by index, however many unlisted ones there are.
_LISTED_THREADS: Migration = (
    "ALTER TABLE threads ADD COLUMN listed INTEGER NOT NULL DEFAULT 1",
    "DROP INDEX threads_by_update",
    "CREATE INDEX threads_by_update ON threads (owner, updated_at) WHERE listed = 1",
)

# Runs whose client gave them an id that differs from their own.
_REUSED_IDS: Migration = (
    "ALTER TABLE runs ADD COLUMN reused_id TEXT",
    "CREATE INDEX runs_by_reused_id ON runs (owner, reused_id) WHERE reused_id IS NOT NULL",
)

_SITE = "substr(owner, 9, instr(substr(owner, 9), ':') - 1)"  # see owners.site_of
_MESSAGES_SIZE = "ifnull((SELECT sum(length(record)) FROM messages WHERE thread = threads.key), 0)"

# The bytes that visitors of each website have stored, counted at each change; an index of visitors' threads by age.
_VISITORS: Migration = (
    "CREATE TABLE stored_bytes (site TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX threads_of_visitors ON threads (updated_at) WHERE owner GLOB 'visitor:*'",
    f"""
    INSERT INTO stored_bytes SELECT site, sum(size) FROM (
        SELECT {_SITE} AS site, {_MESSAGES_SIZE} + ifnull(length(state), 0) AS size
        FROM threads WHERE owner GLOB 'visitor:*'
        UNION ALL
        SELECT {_SITE}, length(records) FROM runs JOIN events ON run = key
        WHERE owner GLOB 'visitor:*' AND log_kept = 1 AND finished_at IS NOT NULL
    ) GROUP BY site
    """,
)

# All interrupts by id, and whether they are open; their content is in the thread's row. No key is used a second time,
# because cursors contain keys.
_APPROVALS: Migration = (
    """
    CREATE TABLE approvals (
        key INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        thread INTEGER NOT NULL REFERENCES threads (key) ON DELETE CASCADE,
        expires_at REAL,
        waits INTEGER NOT NULL
    )
    """,
    "CREATE INDEX approvals_by_thread ON approvals (thread)",
    "CREATE INDEX approvals_that_wait ON approvals (key) WHERE waits = 1",
)

# The request of a run, and the version of its thread when the run ended.
_REMEMBERED_REQUESTS: Migration = (
    "ALTER TABLE runs ADD COLUMN origin TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE runs ADD COLUMN request BLOB",  # JSON; NULL: nothing
    "ALTER TABLE runs ADD COLUMN thread_version INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE runs ADD COLUMN thread_length INTEGER",
    "ALTER TABLE runs ADD COLUMN last_message_id TEXT",
)

# When a row's events came, in Unix seconds; NULL: before times were stored.
_EVENT_TIMES: Migration = ("ALTER TABLE events ADD COLUMN at REAL",)

# The metadata that owners give their threads, whether these are hidden, and when they expire.
_OWNERS_WORDS: Migration = (
    "ALTER TABLE threads ADD COLUMN metadata BLOB",  # JSON; NULL: none
    "ALTER TABLE threads ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE threads ADD COLUMN expires_at REAL",
    "CREATE INDEX threads_by_expiry ON threads (expires_at) WHERE expires_at IS NOT NULL",
)

# Versions of threads, see version_rows; and threads with messages that no version may have, see message_rows.
_VERSIONS: Migration = (
    "ALTER TABLE threads ADD COLUMN version INTEGER NOT NULL DEFAULT 1",
    "ALTER TABLE threads ADD COLUMN last_version INTEGER NOT NULL DEFAULT 1",
    # Where the messages are, see spans; NULL: the first `message_count` rows of the thread.
    "ALTER TABLE threads ADD COLUMN spans BLOB",
    "ALTER TABLE threads ADD COLUMN next_position INTEGER",  # of its next message; NULL: message_count
    "ALTER TABLE threads ADD COLUMN counts_for TEXT",  # of a deleted thread: the site whose bytes its messages are
    """
    CREATE TABLE versions (
        key INTEGER PRIMARY KEY,
        thread INTEGER NOT NULL REFERENCES threads (key),
        number INTEGER NOT NULL, -- from 1
        parent INTEGER,
        from_message TEXT,
        created_at REAL NOT NULL,
        shortened INTEGER NOT NULL,
        -- from here on as in threads, which has it of the version that is current
        agent_id TEXT NOT NULL,
        message_count INTEGER NOT NULL,
        last_run_id TEXT,
        interrupts BLOB NOT NULL,
        state BLOB,
        model_states BLOB,
        spans BLOB,
        UNIQUE (thread, number)
    )
    """,
    # Threads that are forks (`thread`), and the threads whose rows they may have (`source`).
    """
    CREATE TABLE borrowed_messages (
        source INTEGER NOT NULL REFERENCES threads (key),
        thread INTEGER NOT NULL REFERENCES threads (key),
        PRIMARY KEY (source, thread)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX borrowed_messages_by_thread ON borrowed_messages (thread)",
    # Threads with messages that perhaps no version has any more.
    "CREATE TABLE loose_messages (thread INTEGER PRIMARY KEY REFERENCES threads (key))",
    "INSERT INTO loose_messages SELECT key FROM threads WHERE owner = x''",
)

# The collection of a thread; empty: none.
_COLLECTIONS: Migration = ("ALTER TABLE threads ADD COLUMN collection TEXT NOT NULL DEFAULT ''",)

# When a message came, in Unix seconds; NULL: before times were stored.
_MESSAGE_TIMES: Migration = ("ALTER TABLE messages ADD COLUMN at REAL",)

# Whether a thread waits for its client or for a person.
_PAUSED_THREADS: Migration = ("ALTER TABLE threads ADD COLUMN paused INTEGER NOT NULL DEFAULT 0",)

CHANGED_AT = "coalesce(finished_at, started_at, created_at)"

# The runs of A2A by their last change: A2A's clients list the latest first.
_LISTED_RUNS: Migration = (f"CREATE INDEX runs_of_a2a ON runs (owner, {CHANGED_AT}, key) WHERE origin = 'a2a'",)

# The messages of a run that waits to begin: a line each, see records. NULL: the run has none, or has begun.
_WAITING_MESSAGES: Migration = (
    "ALTER TABLE runs ADD COLUMN waiting_messages BLOB",
    "CREATE INDEX runs_with_messages ON runs (key) WHERE waiting_messages IS NOT NULL",
)

# Late documents of messages, see collected_threads. Usually a row means: write the documents of the messages from
# `number` up to the number in `message`, as text, without that one. With the number -1: delete the document of the
# message with the id `message`.
_LATE_DOCUMENTS: Migration = (
    """
    CREATE TABLE late_documents (
        thread INTEGER NOT NULL,
        number INTEGER NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (thread, number, message)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX late_documents_by_message ON late_documents (thread, message)",
)

# The event with which a run ended; empty: it follows from the other columns. NULL: it has not ended, or an older
# gateway ended it. And whether it has events of an agent's own.
_TERMINAL_EVENTS: Migration = (
    "ALTER TABLE runs ADD COLUMN terminal BLOB",
    "ALTER TABLE runs ADD COLUMN has_custom INTEGER NOT NULL DEFAULT 0",
)

MIGRATIONS: Sequence[Migration] = (
    *(_FIRST, _SECRETS, _MODEL_STATES, _DUE_DELETIONS, _LISTED_THREADS, _REUSED_IDS),
    *(_VISITORS, _APPROVALS, _REMEMBERED_REQUESTS, _EVENT_TIMES, _OWNERS_WORDS, _VERSIONS),
    *(_COLLECTIONS, _MESSAGE_TIMES, _PAUSED_THREADS, _LISTED_RUNS, _WAITING_MESSAGES),
    *(_LATE_DOCUMENTS, _TERMINAL_EVENTS),
)


def migrate(connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS) -> tuple[int, int]:
    """Bring the file to the last version in one transaction. Gives the version before and the version now.

    Raises:
        ConfigurationError: the file is newer, or another program's.
        sqlite3.Error: it could not be read or written; it is unchanged.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = version_of(connection, len(migrations))
        if found < len(migrations):
            for migration in migrations[found:]:
                for statement in migration:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(migrations)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return found, len(migrations)


def check_version(connection: sqlite3.Connection) -> None:
    """Raises ConfigurationError if the file needs a migration, is newer, or another program's."""
    if version_of(connection) < len(MIGRATIONS):
        raise ConfigurationError(
            "the store's file was written by an older agui-gateway; serve it once with this version, or run"
            " 'agui-gateway vacuum': both bring it up to date"
        )


def version_of(connection: sqlite3.Connection, known: int = len(MIGRATIONS)) -> int:
    """How many migrations the file has had; 0: it is empty. Raises ConfigurationError if these are more than the
    `known` ones, or the file is another program's.
    """
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    application_id: int = connection.execute("PRAGMA application_id").fetchone()[0]
    empty = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None
    if not empty and application_id != APPLICATION_ID:
        raise ConfigurationError(
            "the store's file is an SQLite database of another program; point `store` at another file"
        )
    if version > known:
        raise ConfigurationError(
            f"the store's file was written by a newer agui-gateway (schema {version}, this one knows up to {known});"
            " start that version, or point `store` at another file"
        )
    return version


# Documents by kind, with their index entries (see embedded_index.entries). Each owner's documents have an index of
# their own; the public ones of all owners share one. An object in a nested field has a hidden row: no id, but a path
# and a parent. A row's number is its document's version, and is never used again.
# The tables are created for the first document, because they take 70 kB. A migration that changes them creates them
# first, where they do not exist.
_DOCUMENTS: Migration = (
    """
    CREATE TABLE document_indices (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        owner TEXT NOT NULL,
        public INTEGER NOT NULL,
        searched TEXT NOT NULL,  -- how its documents are indexed
        UNIQUE (kind, owner, public)
    )
    """,
    """
    CREATE TABLE documents (
        row INTEGER PRIMARY KEY AUTOINCREMENT,
        index_id INTEGER NOT NULL,
        id TEXT,
        source BLOB,             -- JSON, without what is sealed
        path TEXT NOT NULL DEFAULT '',
        parent INTEGER,
        kind TEXT,
        owner TEXT,
        created_at REAL,
        updated_at REAL,
        thread INTEGER,
        sealed BLOB,             -- JSON, by pointers
        UNIQUE (index_id, id)
    )
    """,
    "CREATE INDEX documents_by_id ON documents (kind, id) WHERE kind IS NOT NULL",
    "CREATE INDEX documents_by_path ON documents (index_id, path)",
    "CREATE INDEX documents_by_parent ON documents (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX documents_by_thread ON documents (thread) WHERE thread IS NOT NULL",
    """
    CREATE TABLE fields (
        id INTEGER PRIMARY KEY,
        index_id INTEGER NOT NULL,
        path TEXT NOT NULL,
        UNIQUE (index_id, path)
    )
    """,
    "CREATE TABLE field_values (field INTEGER NOT NULL, document INTEGER NOT NULL, text TEXT, number NUMERIC)",
    "CREATE INDEX values_by_text ON field_values (field, text)",
    "CREATE INDEX values_by_number ON field_values (field, number)",
    "CREATE INDEX values_by_document ON field_values (document)",
    """
    CREATE TABLE words (
        field INTEGER NOT NULL,
        word TEXT NOT NULL,
        document INTEGER NOT NULL,
        length INTEGER NOT NULL,
        positions BLOB NOT NULL,
        PRIMARY KEY (field, word, document)
    ) WITHOUT ROWID
    """,
)


def has_documents(connection: sqlite3.Connection) -> bool:
    """Whether the tables of documents exist."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'documents'").fetchone() is not None


def make_documents(connection: sqlite3.Connection) -> None:
    """Create the tables of documents, if they do not exist."""
    if not has_documents(connection):
        for statement in _DOCUMENTS:
            connection.execute(statement)
