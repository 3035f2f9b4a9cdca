"""The inside of the embedded store (`stores/sqlite.py` is the part).

store.py          the Store: what each promise of the contract is made of
group_commit.py   writes in call order, many runs in one commit, on the event loop or on the writer thread
disk_pace.py      whether the disk is quick enough for the event loop
erasure.py        deleted words out of the files, when nobody waits
transactions.py   the connection that writes
writes.py         what waits for a commit
worker_turns.py   the store's threads get their turn while the event loop is busy
tables.py         threads, messages, runs and what is to be deleted elsewhere as rows
event_log.py      the runs' events as rows
stored_bytes.py   how much the visitors of each site have
thread_cache.py   threads that were just used, decoded
reserve.py        room on the disk for what makes room
database.py       the file: lock, connections, SQLite's errors as ours
schema.py         the tables and their versions
address.py        the store URL
private_files.py  files that only the gateway's own user may read
"""
