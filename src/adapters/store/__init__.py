"""The default event store: one SQLite file that several processes append to.

- `sqlite`: `open_store` and `SqliteStore`, the port `watchkeeper.ports.sources.EventStore`.
- `recorder`, `library`: the same store with the interfaces of the `eventsourcing` library.
- `verify`, `content`: verify the file without trusting anything in it.
- `opening`, `database`, `schema`, `feed`, `sqlite_feed`, `answers`, `lock`, `rest`, `failures`:
  what those use.

Next to the store `ledger.db` are `ledger.db.lock` (who uses it), `ledger.db.rest` (the digest of
the whole file, while no process uses it) and, while it is in use, SQLite's own `-wal` and `-shm`.
"""
