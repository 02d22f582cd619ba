"""Verification of histories by several processes, each with its own runs."""

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path

from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.home import Home, open_home
from watchkeeper.adapters.processes import Say, in_processes
from watchkeeper.adapters.store.choosing import open_ledger
from watchkeeper.adapters.store.parts import Jobs
from watchkeeper.ports.event_store import EventStore, NoFreeConnection
from watchkeeper.services.ledger.verify import (
    Report,
    audit,
    audit_rest,
    audit_run,
    rows_of,
    slugs_of,
)

EVENTS_EACH = 20_000
"""Fewest events of the ledger for each process: with fewer, starting it pays not."""

_TURNS = 16
"""Pieces for each process, so that one long run does not keep all others waiting at the end."""


def audit_home(
    home: Home,
    chosen: str,
    store: EventStore,
    report: Report,
    *,
    remotes: bool,
    jobs: Jobs,
) -> None:
    """Verify every history of a home as `audit` does, by several processes where that pays.

    What is found, and its order, are the same.

    Args:
        home: The home.
        chosen: URL of its ledger's server; empty for the file.
        store: Its ledger, opened after its bytes were verified.
        report: Filled in.
        remotes: Compare with the git remotes, too.
        jobs: How many processes.

    Raises:
        ProcessLost: A process did not answer.
        StoreFailure: The ledger could not be read.
    """
    number = min(jobs.number, store.newest() // EVENTS_EACH)
    if number < 2:
        audit(store, Adapters(home), report, remotes=remotes, reported=jobs.reported)
        return
    # Rows, then names, then histories, as by one process: no row is without a name.
    rows = rows_of(store)
    slugs = slugs_of(store)
    size = max(1, len(slugs) // (number * _TURNS))
    pieces = [tuple(slugs[at : at + size]) for at in range(0, len(slugs), size)]
    turn = multiprocessing.get_context("spawn").Lock()
    try:
        reports = list(_in_order(_Given(home.path, chosen, remotes, turn), pieces, number, jobs))
    except NoFreeConnection:
        # This process has its connection.
        jobs.fewer()
        audit(store, Adapters(home), report, remotes=remotes, reported=jobs.reported)
        return
    for found in reports:
        report.problems += found.problems
        report.unchecked += found.unchecked
        report.runs += found.runs
        report.events += found.events
        report.redactions += found.redactions
        report.witnessed += found.witnessed
    audit_rest(store, rows, slugs, report)


@dataclass(frozen=True, slots=True)
class _Given:
    home: Path
    chosen: str
    remotes: bool
    turn: AbstractContextManager[object]


def _in_order(
    given: _Given, pieces: Sequence[tuple[str, ...]], number: int, jobs: Jobs
) -> Iterator[Report]:
    done, whole = 0, sum(map(len, pieces))

    def report_progress(more: int) -> None:
        nonlocal done
        done += more
        jobs.reported(done, whole)

    waiting: dict[int, Report] = {}
    following = 0
    with closing(
        in_processes(_work, given, pieces, number, report_progress, jobs.fewer)
    ) as answers:
        for place, report in answers:
            waiting[place] = report
            while following in waiting:
                yield waiting.pop(following)
                following += 1
    assert following == len(pieces), "every piece was answered, or an error was raised"


def _work(given: _Given, pieces: Iterator[tuple[str, ...]], progress: Say) -> Iterator[Report]:
    """Verify the runs of each piece."""
    home = open_home(given.home)
    outside = Adapters(home)
    with open_ledger(given.chosen, home.ledger) as opened:
        rows = rows_of(opened.store)
        for piece in pieces:
            report = Report()
            for slug in piece:
                audit_run(
                    opened.store, outside, rows, slug, report,
                    remotes=given.remotes, turn=given.turn,
                )  # fmt: skip
                progress(1)
            yield report
