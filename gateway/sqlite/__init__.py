"""The inside of the embedded store (`stores/sqlite.py` is the part).

store.py          the Store: keeps each promise of the contract with rows and commits
access.py         how the store reaches the file: writes, reads, searches
group_commit.py   writes in call order, many runs in one commit, on the event loop or on the writer thread
disk_pace.py      whether the disk is quick enough for the event loop to commit itself
erasure.py        removes deleted text from the files while the store is idle
transactions.py   the connection that writes
writes.py         writes that wait for a commit
worker_time.py    gives the store's threads time while the event loop is busy
tables.py         threads and pending deletions as rows
collected_threads.py  threads with the documents of those in a collection
summary_rows.py   the summaries of threads that lists show, and their owners' changes
thread_search.py  threads found by the id of a message
version_rows.py   versions of threads as rows
message_rows.py   messages as rows, each stored once for all versions and forks
spans.py          which rows hold a version's messages
run_rows.py       runs as rows
run_logs.py       checks and writes the next events of a run's log
row_values.py     text and records as values of rows
plain_values.py   binds None, bytes and booleans without a search for an adapter
cursors.py        the end of a list's page, as opaque text
event_log.py      the runs' events as rows
stored_bytes.py   how much the visitors of each site have stored
documents.py      the DocumentStore: seals, stores and searches documents
document_rows.py  documents as rows, with their index entries
key_file.py       the generated key that seals documents, in a file beside the store
cached_threads.py  whole threads, from the cache or the file; the runs with a client's id
export_rows.py    everything as pieces for another store
import_rows.py    the rows of such pieces
thread_cache.py   recently used threads, decoded
doctor.py         looks at the file without changing it, for `agui-gateway doctor`
reserve.py        disk space kept free for deletions
database.py       the file: lock, connections, SQLite's errors as ours
schema.py         the tables and their versions
address.py        the store URL
private_files.py  files that only the gateway's own user may read
"""
