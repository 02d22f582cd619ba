"""The event store on SQLite, the default: one file that several processes append to.

- `sqlite`: `open_store` and `SqliteStore`, the port `watchkeeper.ports.sources.EventStore`.
- `recorder`, `library`: the same store behind the interfaces of the `eventsourcing` library.
- `verify`, `content`: prove the file, trusting nothing in it.
- `opening`, `database`, `schema`, `feed`, `sqlite_feed`, `answers`, `lock`, `rest`, `failures`:
  what those stand on.

Beside the store `ledger.db` lie `ledger.db.lock` (who uses it), `ledger.db.rest` (the digest of the
whole file, while nobody uses it) and, while it is in use, SQLite's own `-wal` and `-shm`.
"""
