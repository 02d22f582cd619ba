"""Verifies a store file and trusts neither SQLite's structures nor its writer.

Found: a changed byte anywhere in a file at rest. Found in any file: an event whose name, version,
topic, bytes or hash was changed, and one that was removed, added or moved.

Not found in a file that is not at rest: the newest events, removed together with every counter that
mentions them. An attacker who changes an event can also recompute all hashes after it. Heads are
stored elsewhere against both.
"""

import sqlite3
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from watchkeeper.adapters.ledger_choice import postgres_part
from watchkeeper.adapters.ledger_gone import no_ledger
from watchkeeper.adapters.store.content import (
    PROBLEMS_MAX,
    UNDECIDED,
    Problem,
    ProblemKind,
    Seen,
    content_problems,
    damaged,
    lenient_text,
)
from watchkeeper.adapters.store.failures import SQLITE_ERRORS, failure, primary_code
from watchkeeper.adapters.store.lock import UseLock
from watchkeeper.adapters.store.log import log_problem
from watchkeeper.adapters.store.parts import ALONE, Jobs, prove_file
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.rest import REST_BYTES_MAX, rest_path, rest_problem, unsettled
from watchkeeper.adapters.store.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    check_schema,
    connect,
)
from watchkeeper.ports.event_store import StoreFailure


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The result of verifying a store.

    Attributes:
        problems: What is wrong, at most `PROBLEMS_MAX`; empty when the store is intact.
        notes: What was not checked, and why, in sentences.
        whole_file: Every byte of the file was checked against its digest at rest, and agrees.
        streams: Number of streams seen.
        events: Number of events seen.
    """

    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    whole_file: bool
    streams: int
    events: int


def verify_ledger(chosen: str, file: Path, jobs: Jobs = ALONE) -> StoreReport:
    """Prove a ledger's bytes, wherever it is kept.

    Args:
        chosen: URL of a PostgreSQL server; empty for the file.
        file: The file in the home.
        jobs: How many processes may be used; what is found is the same.

    Raises:
        StoreFailure: Nothing can be said; the message says why.
    """
    if not chosen:
        if not file.exists() and (gone := no_ledger(file.parent)):
            raise StoreFailure(gone)
        return verify_store(file, jobs)
    address = parse_address(chosen)
    verify = postgres_part("postgres_verify", "verify_postgres", chosen)
    report: StoreReport = verify(address, jobs=jobs)
    return report


def verify_store(path: Path, jobs: Jobs = ALONE) -> StoreReport:
    """Check a whole store file. Changes no file and blocks no other process for long.

    While this or another process has the store open, the events are checked but not the whole
    file; so close it before. The caller must check the contents of events and status rows.

    Args:
        path: The store's file.
        jobs: How many processes may be used; the findings are the same.

    Raises:
        StoreFailure: No verdict: the file is missing, unreadable or of a newer watchkeeper, or a
        process that verified a part of it was killed.
    """
    if not path.is_file():
        raise StoreFailure(f"{path}: no store to verify. Name the store's file.")
    try:
        lock = UseLock(path, create=False)
    except FileNotFoundError:
        # An unopened copy. An auditor may not be allowed to create the lock.
        return _verify_unused(path, None, jobs)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        if lock.own():
            return _verify_unused(path, lock, jobs)
    finally:
        lock.close()
    note = "not at rest: it is open in a process, so the whole-file digest was not checked"
    return _report(path, "mode=ro", [], [note], jobs)


def _verify_unused(path: Path, lock: UseLock | None, jobs: Jobs) -> StoreReport:
    problems: list[Problem] = []
    notes: list[str] = []
    try:
        at_rest, before = rest_path(path).exists(), _fingerprint(path)
        wrong = rest_problem(path) if at_rest else None
        crashed = not at_rest and bool(unsettled(path))
        lost = None if at_rest else log_problem(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if wrong is not None:
        problems.append(Problem(ProblemKind.DIGEST, wrong))
    if not at_rest:
        notes.append(_note_without_rest(path))
    if lost is not None:
        # Whatever asks SQLite now gets the rest for the whole, and loses the traces.
        notes.append("events were not checked: the log that holds the newest is damaged")
        return StoreReport((Problem(ProblemKind.LOG, lost),), tuple(notes), False, 0, 0)
    if lock is not None:
        # Others may open the store from here on; only reading the whole file had to be alone.
        lock.share()
    if not crashed:
        report = _report(path, "immutable=1", problems, notes, jobs)
        if _fingerprint(path) == before:
            return report
    # SQLite reads its log along with the file, or someone began to write meanwhile.
    return _report(path, "mode=ro", problems, notes, jobs)


def _note_without_rest(path: Path) -> str:
    if path.stat().st_size > REST_BYTES_MAX:
        return (
            f"larger than {REST_BYTES_MAX >> 20} MiB: such files have no whole-file digest, so it "
            "was not checked"
        )
    return "not at rest: it was not closed cleanly, so there is no whole-file digest to check"


def _fingerprint(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _unreadable(path: Path, error: OSError) -> StoreFailure:
    return StoreFailure(
        f"{path}: it can't be verified: {error}. Check that this user may read the file, its "
        "companion files and their folder."
    )


def _report(
    path: Path, parameters: str, problems: list[Problem], notes: list[str], jobs: Jobs
) -> StoreReport:
    """Check the content over one connection; add to the findings about the file."""
    seen = Seen()
    found = list(problems)
    try:
        connection = connect(path, parameters=parameters)
        try:
            connection.text_factory = lenient_text
            # One snapshot for all checks, whatever is appended meanwhile.
            connection.execute("BEGIN")
            if not found:
                _refuse_if_newer(connection, path)
                prove_file(connection, path, parameters, seen, jobs)
            found += islice(content_problems(connection, seen), PROBLEMS_MAX)
        finally:
            connection.close()
    except SQLITE_ERRORS as error:
        # A damaged header can look like any failure; then the digest has already shown it.
        if primary_code(error) in UNDECIDED and not found:
            raise failure(error, path, "verify") from error
        found.append(damaged(error))
    more = len(found) >= PROBLEMS_MAX
    return StoreReport(
        problems=tuple(found[:PROBLEMS_MAX]),
        notes=(*notes, f"stopped after {PROBLEMS_MAX} problems") if more else tuple(notes),
        whole_file=not problems and not notes,
        streams=len(seen.names),
        events=seen.events,
    )


def _refuse_if_newer(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID:
        return
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    if row is not None and str(row[0]).isdecimal() and int(row[0]) > SCHEMA_VERSION:
        check_schema(connection, path)
