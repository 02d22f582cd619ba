"""Verifies a PostgreSQL ledger: schema, chains, positions and keys.

It trusts neither rows nor triggers.

Found: an event whose name, version, topic, bytes or hash was changed; an event that was removed,
added or moved; tables, triggers or functions that are not as watchkeeper makes them.

Not found: the newest events, removed together with every counter and key that mentions them;
damage of the server's files that no query meets. Heads are stored elsewhere against the first. The
server has its own checksums against the second.
"""

from collections.abc import Iterator
from itertools import islice

import psycopg

from watchkeeper.adapters.store.content import (
    PROBLEMS_MAX,
    Problem,
    ProblemKind,
    Seen,
    answer_versions,
    end_problems,
    kept_problem,
    misplaced,
    page_problems,
)
from watchkeeper.adapters.store.parts import ALONE, Jobs
from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_guard import Connection
from watchkeeper.adapters.store.postgres_link import LIMITS, Limits
from watchkeeper.adapters.store.postgres_parts import View, prove_ledger
from watchkeeper.adapters.store.postgres_schema import (
    FUNCTIONS,
    MIGRATIONS,
    REFUSALS,
    REFUSALS_SINCE,
    TRIGGERS,
    schema_version,
)
from watchkeeper.adapters.store.postgres_walk import (
    PAGE,
    Asking,
    asking_at,
    event_pages,
    export,
    read_names,
    row_problems,
)
from watchkeeper.adapters.store.verify import StoreReport
from watchkeeper.ports.event_store import StoreFailure

COLUMNS = {
    "migrations": ("version integer", "ran_at timestamp with time zone"),
    "streams": ("id bigint", "name text"),
    "topics": ("id bigint", "name text"),
    "events": (
        "id bigint", "stream bigint", "version bigint", "topic bigint", "state bytea", "hash bytea",
    ),
    "keys": ("key text", "digest bytea", "answer text", "position bigint"),
    "status": ("run text", "part text", "row text"),
    "counter": ("position bigint", "only_row boolean"),
    "tracking": ("follower text", "position bigint"),
}  # fmt: skip

CONSTRAINTS = {
    "migrations": "p",
    "streams": "pu",
    "topics": "pu",
    "events": "ccffpu",
    "keys": "p",
    "status": "p",
    "counter": "ccp",
    "tracking": "p",
}
"""Sorted kinds of the constraints of each table: check, foreign, primary, unique."""


def verify_postgres(
    address: Address,
    *,
    limits: Limits = LIMITS,
    snapshot: str = "",
    alone: bool = False,
    jobs: Jobs = ALONE,
) -> StoreReport:
    """Check a whole ledger on a server. Changes nothing and blocks no other process.

    The caller must check the contents of events and status rows.

    Args:
        address: Where the ledger is.
        limits: Time limits.
        snapshot: The exported name of another transaction's snapshot to read.
        alone: The caller is the only user of the ledger, as during a restore.
        jobs: How many processes may be used; the findings are the same.

    Raises:
        StoreFailure: No verdict: the ledger is missing, unreadable or of a newer watchkeeper, or a
        process that verified a part of it was killed.
    """
    seen = Seen()
    with asking_at(address, limits, snapshot, alone=alone) as asking:
        _refuse_unknown(asking.connection, asking.links.where)
        if jobs.number > 1:
            view = View(address, limits, alone, snapshot or export(asking))
            _prove(asking, view, seen, jobs)
        found = list(islice(_problems(asking, seen), PROBLEMS_MAX))
        notes = _notes(asking, address.schema)
    if len(found) >= PROBLEMS_MAX:
        notes.append(f"stopped after {PROBLEMS_MAX} problems")
    return StoreReport(tuple(found), tuple(notes), False, len(seen.names), seen.events)


def _refuse_unknown(connection: Connection, where: str) -> None:
    version = schema_version(connection)
    if version is None:
        raise StoreFailure(f"{where}: no ledger to verify. Name its server, database and schema.")
    if version > len(MIGRATIONS):
        raise StoreFailure(
            f"{where}: this ledger was written by a newer watchkeeper (schema {version}, this one "
            f"knows {len(MIGRATIONS)}). Upgrade watchkeeper, then verify."
        )


def _prove(asking: Asking, view: View, seen: Seen, jobs: Jobs) -> None:
    """Prove the events in several processes, if their tables are correct."""
    try:
        asking.connection.execute("SAVEPOINT proved")
        checks = (_table_problems, _guard_problems)
        if not any(True for check in checks for _ in check(asking, seen)):
            prove_ledger(asking, view, seen, jobs)
    except (psycopg.ProgrammingError, psycopg.errors.InternalError_):
        # The sequential check meets the same error and reports it.
        asking.connection.execute("ROLLBACK TO SAVEPOINT proved")


def _problems(asking: Asking, seen: Seen) -> Iterator[Problem]:
    for check in (_table_problems, _guard_problems, _event_problems, _key_problems):
        try:
            # A savepoint: what a missing table makes fail must not end the other checks.
            asking.connection.execute("SAVEPOINT checked")
            yield from check(asking, seen)
        except psycopg.ProgrammingError as error:
            asking.connection.execute("ROLLBACK TO SAVEPOINT checked")
            yield Problem(ProblemKind.SCHEMA, f"A check failed: {error.diag.message_primary}.")
        except psycopg.errors.InternalError_ as error:
            asking.connection.execute("ROLLBACK TO SAVEPOINT checked")
            yield Problem(
                ProblemKind.FILE, f"PostgreSQL can't read it: {error.diag.message_primary}."
            )


def _table_problems(asking: Asking, _: Seen) -> Iterator[Problem]:
    versions = [version for (version,) in asking.rows(_MIGRATIONS_RUN)]
    if versions != list(range(1, len(versions) + 1)):
        yield Problem(ProblemKind.SCHEMA, f"The migrations that ran are {versions!r}.")
    columns: dict[str, list[str]] = {}
    for table, column in asking.rows(_COLUMNS_THERE):
        columns.setdefault(table, []).append(column)
    constraints = dict(asking.rows(_CONSTRAINTS_THERE))
    for table, expected in COLUMNS.items():
        if (
            tuple(columns.get(table, ())) != expected
            or constraints.get(table) != CONSTRAINTS[table]
        ):
            yield Problem(
                ProblemKind.SCHEMA, f"The table {table} is not as watchkeeper creates it."
            )


def _guard_problems(asking: Asking, _: Seen) -> Iterator[Problem]:
    there = {
        (table, trigger): (function, enabled)
        for table, trigger, function, enabled in asking.rows(_TRIGGERS_THERE)
    }
    expected = {guard: (function, "A") for guard, function in TRIGGERS.items()}
    for table, trigger in sorted(there.keys() | expected.keys()):
        if there.get((table, trigger)) != expected.get((table, trigger)):
            yield Problem(
                ProblemKind.SCHEMA,
                f"The trigger {trigger} of {table} is not as watchkeeper creates it, or is off.",
            )
    bodies = dict(asking.rows(_FUNCTIONS_THERE))
    # A ledger of an older release is migrated by the next process that writes.
    refusing = len(asking.rows(_MIGRATIONS_RUN)) >= REFUSALS_SINCE
    functions = FUNCTIONS | (REFUSALS if refusing else {})
    for name in sorted(bodies.keys() | functions.keys()):
        if bodies.get(name) != functions.get(name):
            yield Problem(
                ProblemKind.SCHEMA, f"The function {name} is not as watchkeeper creates it."
            )


def _event_problems(asking: Asking, seen: Seen) -> Iterator[Problem]:
    """Walk all events in the order of their commits."""
    if not seen.proved:
        read_names(asking, seen)
        for page in event_pages(asking):
            yield from page_problems(seen, page, row_problems)
    counted = asking.rows("SELECT position FROM counter")
    yield from end_problems(seen, counted[0][0] if len(counted) == 1 else "nothing")


def _key_problems(asking: Asking, seen: Seen) -> Iterator[Problem]:
    ids = {name: stream_id for stream_id, name in seen.names.items()}
    after = ""
    while True:
        page = asking.rows(_KEYS, after, PAGE)
        for key, answer, position, last in page:
            after = key
            versions = answer_versions(answer)
            if versions is None:
                yield Problem(ProblemKind.KEY, f"Key {key!r} holds values that are never stored.")
                continue
            for stream, kept in versions.items():
                problem = kept_problem(seen, ids, key, stream, kept)
                if problem is not None:
                    yield problem
            if (last or 0) != position:
                yield misplaced(key, position, last or 0)
        if len(page) < PAGE:
            return


def _notes(asking: Asking, schema: str) -> list[str]:
    notes = [
        "a server has no whole-file digest: to compare indexes with their tables, run "
        f"`pg_amcheck --schema={schema} --heapallindexed`"
    ]
    if asking.rows("SELECT current_setting('data_checksums')") != [("on",)]:
        notes.append(
            "the server keeps no checksums of its pages (data_checksums is off): damage of its "
            "files shows only where a chain breaks"
        )
    return notes


_MIGRATIONS_RUN = "SELECT version FROM migrations ORDER BY version"

_COLUMNS_THERE = """SELECT c.relname::text,
    a.attname::text || ' ' || format_type(a.atttypid, a.atttypmod)
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum"""

_CONSTRAINTS_THERE = """SELECT c.relname::text,
    string_agg(o.contype::text, '' ORDER BY o.contype::text)
FROM pg_class AS c JOIN pg_constraint AS o ON o.conrelid = c.oid
WHERE c.relnamespace = current_schema()::regnamespace AND o.convalidated
    AND o.contype IN ('c', 'f', 'p', 'u')
GROUP BY c.relname"""

_TRIGGERS_THERE = """SELECT c.relname::text, t.tgname::text, p.proname::text, t.tgenabled::text
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal"""

_FUNCTIONS_THERE = """SELECT proname::text, prosrc FROM pg_proc
WHERE pronamespace = current_schema()::regnamespace"""

_KEYS = """SELECT k.key, k.answer, k.position, (
    SELECT max(e.id) FROM json_each(k.answer::json) AS a
    JOIN streams AS s ON s.name = a.key
    JOIN events AS e ON e.stream = s.id AND e.version = (a.value ->> 1)::bigint
)
FROM keys AS k WHERE k.key > %s ORDER BY k.key LIMIT %s"""
