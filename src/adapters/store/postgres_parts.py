"""Verification of a ledger on PostgreSQL by several processes on one snapshot."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg

from watchkeeper.adapters.processes import Say
from watchkeeper.adapters.store.content import Seen
from watchkeeper.adapters.store.parts import (
    Jobs,
    Part,
    Task,
    Walked,
    parts_of,
    proved_by,
    reported_by,
    walk,
)
from watchkeeper.adapters.store.postgres_address import Address
from watchkeeper.adapters.store.postgres_link import Limits
from watchkeeper.adapters.store.postgres_walk import (
    Asking,
    asking_at,
    event_pages,
    read_names,
    row_problems,
)
from watchkeeper.domain.run.chain import Head
from watchkeeper.ports.event_store import NoFreeConnection


@dataclass(frozen=True, slots=True)
class View:
    """The ledger and the snapshot that another process verifies.

    Attributes:
        address: Where the ledger is.
        limits: How long things may take.
        alone: Whether the caller has exclusive use of the ledger.
        snapshot: The name under which the view was exported.
    """

    address: Address
    limits: Limits
    alone: bool
    snapshot: str


def prove_ledger(asking: Asking, view: View, seen: Seen, jobs: Jobs) -> None:
    """Verify the events in several processes, if that is faster; `seen` gets the result.

    Args:
        asking: A connection in the transaction that is verified; it stays open meanwhile.
        view: What each process needs to see the same snapshot.
        seen: Receives the result; empty at first.
        jobs: How many processes.

    Raises:
        StoreFailure: A process did not answer, or could not reach the server.
    """
    newest = asking.rows("SELECT coalesce(max(id), 0) FROM events")[0][0]
    seen.reported = lambda events: jobs.reported(events, newest)
    parts = parts_of(newest, jobs)
    if not parts:
        return
    read_names(asking, seen)
    try:
        seen.proved = proved_by(_verify_parts, view, (), parts, seen, jobs)
    except NoFreeConnection:
        # No further connection is free, so the caller verifies all events over its own.
        jobs.fewer()


def _verify_parts(view: View, tasks: Iterator[Task], say: Say) -> Iterator[Walked | bool]:
    """Walk parts over one connection."""
    with asking_at(view.address, view.limits, view.snapshot, alone=view.alone) as asking:
        try:
            seen = Seen()
            read_names(asking, seen)
            for part in tasks:
                assert isinstance(part, Part), "nothing else is asked"
                part_seen = Seen(seen.names, seen.topics, reported=reported_by(say))
                yield _walk(asking, part_seen, part) or False
        except (psycopg.ProgrammingError, psycopg.errors.InternalError_):
            # The stored data is at fault. The sequential walk finds this as well, and reports it.
            yield False


def _walk(asking: Asking, seen: Seen, part: Part) -> Walked | None:
    def heads_before(begin: Mapping[int, int]) -> dict[int, Head]:
        places = {stream: version - 1 for stream, version in begin.items() if version > 0}
        rows = asking.rows(_HEADS_BEFORE, list(places), list(places.values()), part.after)
        return {stream: (version, chain) for stream, version, chain in rows}

    pages = event_pages(asking, (part.after + 1, part.last))
    return walk(seen, part, pages, row_problems, heads_before)


_HEADS_BEFORE = """SELECT e.stream, e.version, e.hash
FROM unnest(%s::bigint[], %s::bigint[]) AS a (stream, version)
JOIN events AS e ON e.stream = a.stream AND e.version = a.version
WHERE e.id <= %s AND octet_length(e.hash) = 32"""
