"""Verification of a store by several processes, and joining their results.

Each process walks a range of positions with the same code as a full walk. It assumes the state of
each stream before its range. The events are proved only if every assumption held and no range has
an error. Any other result is not a finding: one process then walks all events in order, and only
its findings are reported. So several processes can report only "nothing is wrong", and only if
every range was answered.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from watchkeeper.adapters.processes import Say, Work, in_processes
from watchkeeper.adapters.store.content import (
    Problem,
    Row,
    Seen,
    event_pages,
    integrity_problems,
    lenient_text,
    page_problems,
    read_names,
    reference_problems,
    row_problems,
    schema_problems,
)
from watchkeeper.adapters.store.failures import SQLITE_ERRORS
from watchkeeper.adapters.store.schema import connect
from watchkeeper.domain.run.chain import GENESIS, Head

PART_EVENTS = 100_000
"""Fewest events of a part: below two parts of so many, starting processes costs more than it saves.

Measured by `bench.ledger --audit`; see docs/maintainers/performance.md.
"""

Given = TypeVar("Given")


_PARTS_EACH = 4
"""Parts for each process, so that a slow one does not keep all others waiting at the end."""

_LOWEST = -(2**63)
"""The lowest position that a row can have in SQLite, planted or not."""


@dataclass(frozen=True, slots=True)
class Jobs:
    """Limits and callbacks for verification by several processes.

    Attributes:
        number: Maximum number of processes.
        part: Minimum number of events in a part.
        told: Called with the number of walked events, and of all events.
        fewer: Called for each process for which the ledger's server had no connection left.
    """

    number: int = 1
    part: int = PART_EVENTS
    reported: Callable[[int, int], None] = lambda _done, _whole: None
    fewer: Callable[[], None] = lambda: None


ALONE = Jobs()
"""One process for everything."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some positions.

    Attributes:
        after: The position before the first.
        last: The last one.
    """

    after: int
    last: int


@dataclass(frozen=True, slots=True)
class Walked:
    """A part without errors, provided that the assumed state before it is right.

    Attributes:
        after: The newest position before it, as assumed.
        newest: The newest position in it.
        events: The number of its events.
        supposed: The assumed head of each stream before it; None for one that begins in it.
        heads: Their heads after it.
    """

    after: int
    newest: int
    events: int
    supposed: Mapping[int, Head | None]
    heads: Mapping[int, Head]


Task = Part | str
"""A part to walk, or the name of something else that has to be right."""


def parts_of(newest: int, jobs: Jobs) -> list[Part]:
    """Divide positions into parts; empty if one process is faster.

    >>> parts_of(10, Jobs(2, part=3))
    [Part(after=0, last=3), Part(after=3, last=6), Part(after=6, last=10)]
    >>> parts_of(5, Jobs(2, part=3))
    []
    """
    number = min(newest // jobs.part, jobs.number * _PARTS_EACH)
    if jobs.number < 2 or number < 2:
        return []
    bounds = [newest * place // number for place in range(number + 1)]
    return [Part(after, last) for after, last in pairwise(bounds)]


def walk(
    seen: Seen,
    part: Part,
    pages: Iterable[Sequence[Row]],
    one_by_one: Callable[[Seen, Row], Iterator[Problem]],
    heads_before: Callable[[Mapping[int, int]], Mapping[int, Head]],
) -> Walked | None:
    """Walk the events of a part; return None at the first error.

    Args:
        seen: Only the names.
        part: The positions.
        pages: Their events, in order.
        one_by_one: See `page_problems`.
        heads_before: Returns the heads before this part of streams, given with the version at
        which each continues. Its answer is compared with what was found there.
    """
    seen.newest = part.after
    supposed: dict[int, Head | None] = {}
    for page in pages:
        begin = {row[1]: row[2] for row in reversed(page) if row[1] not in supposed}
        if begin:
            found: Mapping[int, Head] = heads_before(begin) if part.after else {}
            seen.heads.update(found)
            supposed.update((stream, found.get(stream)) for stream in begin)
        for _problem in page_problems(seen, page, one_by_one):
            return None
    return Walked(part.after, seen.newest, seen.events, supposed, seen.heads)


def join(seen: Seen, walked: Walked) -> bool:
    """Join a part after all earlier ones; return false if its assumptions were wrong."""
    if walked.after != seen.newest:
        return False
    if any(seen.heads.get(stream) != head for stream, head in walked.supposed.items()):
        return False
    seen.heads.update(walked.heads)
    seen.newest = walked.newest
    seen.events += walked.events
    return True


def proved_by(
    work: Work[Given, Task, Walked | bool],
    given: Given,
    others: Sequence[str],
    parts: Sequence[Part],
    seen: Seen,
    jobs: Jobs,
) -> bool:
    """Walk all parts in several processes and join the results.

    Args:
        work: Answers each task: a part like `walk`, but false for None; another with true or false.
        given: The input of each process.
        others: Other checks; done first, because they take longest.
        parts: All positions.
        seen: Has the names; gets the heads of all streams if all is proved.
        jobs: The limits on processes.

    Returns:
        Whether everything is correct. If not, nothing was joined, and nothing is known.

    Raises:
        ProcessLost: A process did not answer.
        NoFreeConnection: No process could ask the ledger's server.
        StoreFailure: A process failed on the store.
    """
    done, following = 0, 0
    waiting: dict[int, Walked] = {}
    open_tasks = set(range(len(others) + len(parts)))

    def report_progress(more: int) -> None:
        nonlocal done
        done += more
        jobs.reported(done, parts[-1].last)

    tasks: list[Task] = [*others, *parts]
    with closing(
        in_processes(work, given, tasks, jobs.number, report_progress, jobs.fewer)
    ) as answers:
        for number, answer in answers:
            open_tasks.discard(number)
            if isinstance(answer, Walked):
                waiting[number - len(others)] = answer
            elif not answer:
                break
            while (walked := waiting.pop(following, None)) is not None and join(seen, walked):
                following += 1
            if walked is not None:
                break
    if following == len(parts) and not open_tasks:
        return True
    seen.heads, seen.events, seen.newest = {}, 0, 0
    return False


def reported_by(say: Say) -> Callable[[int], None]:
    """Return a callback that takes the count so far and passes on the increase."""
    before = 0

    def report(events: int) -> None:
        nonlocal before
        say(events - before)
        before = events

    return report


def prove_file(
    connection: sqlite3.Connection, path: Path, parameters: str, seen: Seen, jobs: Jobs
) -> None:
    """Prove a file's structure and events in several processes, if that is faster.

    What they prove is marked in `seen`; else nothing is.

    Args:
        connection: In the read transaction that is verified.
        path: The store.
        parameters: With which the connection was opened.
        seen: Empty.
        jobs: How many processes.

    Raises:
        StoreFailure: A process did not answer.
    """
    try:
        newest = connection.execute("SELECT max(id) FROM events").fetchone()[0]
        parts = parts_of(newest, jobs) if isinstance(newest, int) else []
        seen.reported = lambda events: jobs.reported(events, newest)
        if not parts or any(True for _ in schema_problems(connection, seen)):
            return
        read_names(connection, seen)
    except SQLITE_ERRORS:
        # The sequential check meets the same error and reports it.
        return
    others = (_INTEGRITY, _REFERENCES)
    seen.proved = proved_by(_work_on_file, _File(path, parameters), others, parts, seen, jobs)


_INTEGRITY, _REFERENCES = "integrity", "references"


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    parameters: str


def _work_on_file(given: _File, tasks: Iterator[Task], say: Say) -> Iterator[Walked | bool]:
    """Answer tasks over one connection, in one read transaction.

    Recorded rows never change, and no position beyond those of the first process is read. So a
    snapshot that is some appends newer holds the same.
    """
    try:
        with closing(connect(given.path, parameters=given.parameters)) as connection:
            connection.text_factory = lenient_text
            connection.execute("BEGIN")
            seen = Seen()
            read_names(connection, seen)
            for task in tasks:
                match task:
                    case Part():
                        names = Seen(seen.names, seen.topics, reported=reported_by(say))
                        yield _walk_file(connection, names, task) or False
                    case str() if task == _INTEGRITY:
                        yield next(integrity_problems(connection), None) is None
                    case _:
                        yield next(reference_problems(connection), None) is None
    except SQLITE_ERRORS:
        yield False


def _walk_file(connection: sqlite3.Connection, seen: Seen, part: Part) -> Walked | None:
    def heads_before(begin: Mapping[int, int]) -> dict[int, Head]:
        found: dict[int, Head] = {}
        for stream, version in begin.items():
            row = connection.execute(_HEAD_BEFORE, (stream, version, part.after)).fetchone()
            if row is not None and can_be_head(*row):
                found[stream] = row
        return found

    first = part.after + 1 if part.after else _LOWEST
    pages = event_pages(connection, (first, part.last))
    return walk(seen, part, pages, row_problems, heads_before)


def can_be_head(version: object, chain: object) -> bool:
    """Return whether a stored version and hash can belong to a stream's head."""
    return isinstance(version, int) and isinstance(chain, bytes) and len(chain) == len(GENESIS)


_HEAD_BEFORE = "SELECT version, hash FROM events WHERE stream = ? AND version = ? - 1 AND id <= ?"
