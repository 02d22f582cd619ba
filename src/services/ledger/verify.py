"""Verifies a home without trusting it: bytes, histories, views and remotes.

A hash chain proves the order inside one copy. Only a head that a third party holds proves which
copy is the right one. So the chain is compared with the trailers of pushed logbook commits and seal
tags.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from watchkeeper.domain.rules.launch.roots import ROOTS, Roots, evolve_roots
from watchkeeper.domain.rules.permits.standing_waivers import PEOPLE, PeopleState, evolve_people
from watchkeeper.domain.run.envelope import Event, Undecodable, decode
from watchkeeper.domain.run.evolve.evolve import fold
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.phases import Sealed
from watchkeeper.domain.run.run import Run, Unreadable, contract_of
from watchkeeper.domain.values.contract.contract import logbook_path_of, logbook_remote_of
from watchkeeper.ports.event_store import EventStore, Recorded
from watchkeeper.ports.sources import Outside, Unavailable
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.status.writer import effects_row, status_row
from watchkeeper.projections.verification import Kind, Problem
from watchkeeper.services.ledger.ledger_reader import run_stream

_HEAD = re.compile(r"^(\d+) sha256:([0-9a-f]{64})$")
_NEWER = "newer than this code"
"""The words of `Undecodable` for events of a later release."""

_AT_ONCE = nullcontext()

_MARK = re.compile(r"«redacted:[^»]+»")


@dataclass(slots=True)
class Report:
    """The findings of a verification.

    Attributes:
        problems: Everything that is broken.
        unchecked: Everything that could not be checked, and why.
        runs: How many runs were read.
        events: How many events were read.
        redactions: Marks in the place of removed secrets.
        notes: Checks that were skipped and need no attention.
        witnessed: How many runs were compared with their git remotes.
    """

    problems: list[Problem] = field(default_factory=list[Problem])
    unchecked: list[Problem] = field(default_factory=list[Problem])
    runs: int = 0
    events: int = 0
    redactions: int = 0
    notes: list[Problem] = field(default_factory=list[Problem])
    witnessed: int = 0

    @property
    def exit_code(self) -> int:
        """0 intact, 1 broken, 2 unknown; never intact by default."""
        if self.problems:
            return 1
        return 2 if self.unchecked else 0


LOOKS = 3
"""Attempts on a run whose rows differ while others append, before it counts as unchecked."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The live rows of status.

    Attributes:
        rows: By run and part.
        newest: The newest event when the read of the rows began. The rows may lack later events.
    """

    rows: Mapping[tuple[str, str], str]
    newest: int


def audit(
    store: EventStore,
    outside: Outside,
    report: Report,
    *,
    remotes: bool,
    reported: Callable[[int, int], None] = lambda _done, _whole: None,
) -> None:
    """Verify every history in a store.

    Args:
        store: The store, opened after its bytes were verified.
        outside: The ports, for the git remotes that witnessed the histories.
        report: Filled in.
        remotes: Compare with the remotes too.
        reported: Called with the number of verified runs and the total.
    """
    rows, slugs = rows_of(store), slugs_of(store)
    for done, slug in enumerate(slugs, 1):
        audit_run(store, outside, rows, slug, report, remotes=remotes)
        reported(done, len(slugs))
    audit_rest(store, rows, slugs, report)


def rows_of(store: EventStore) -> Rows:
    """Read the status rows to compare histories with."""
    newest = store.newest()
    return Rows({(row.run, row.part): row.row for row in store.status_rows()}, newest)


def slugs_of(store: EventStore) -> list[str]:
    """Return the runs that have a history, in order of verification."""
    return [stream.removeprefix("run/") for stream in store.streams("run/")]


def audit_run(
    store: EventStore,
    outside: Outside,
    rows: Rows,
    slug: str,
    report: Report,
    *,
    remotes: bool,
    turn: AbstractContextManager[object] = _AT_ONCE,
) -> None:
    """Verify the history of one run.

    Args:
        store: The store, opened after its bytes were verified.
        outside: The ports, for the git remotes that witnessed it.
        rows: The live rows of status.
        slug: The run.
        report: Filled in.
        remotes: Compare with the remotes too.
        turn: Held while remotes are read, since only one process at a time may use their mirrors.
    """
    report.runs += 1
    run, recorded, events = _read_run(store, slug, report)
    effects = _effects(store, slug, report)
    if isinstance(run, Unreadable):
        _unreadable(Problem(Kind.UNREADABLE, slug, run.version, detail=run.why), report)
        return
    _compare_views(store, rows, run, effects, report)
    _decisions_cite_evidence(slug, events, report)
    if remotes and effects is not None and effects.pushed is not None:
        report.witnessed += 1
        with turn:
            _witnessed(store, outside, run, recorded, events, report)
            _milestones(outside, run, effects, report)


def audit_rest(store: EventStore, rows: Rows, slugs: Sequence[str], report: Report) -> None:
    """Verify everything that belongs to no run with a history. Call it after all runs."""
    known = {(slug, part) for slug in slugs for part in ("run", "effects")}
    for run, _ in sorted(rows.rows.keys() - known):
        report.problems.append(Problem(Kind.ROW_WITHOUT_HISTORY, run))
    _shared(store, report)


_LATER = (
    "declined_because",
    "eta",
    "outbox",
    "seal_waivable",
    "loss",
    "tokens_s",
    "error",
    "failed",
    "ended_by",
    "links",
    "places",
)
"""Keys of rows that an earlier release did not write."""


def _stored(store: EventStore, stream: str, report: Report) -> list[Recorded]:
    recorded = store.read(stream)
    report.events += len(recorded)
    report.redactions += sum(len(_MARK.findall(r.state.decode(errors="replace"))) for r in recorded)
    return recorded


def _decoded(store: EventStore, stream: str, report: Report) -> list[Event]:
    recorded = _stored(store, stream, report)
    return [decode(r.stream, r.version, r.topic, r.state) for r in recorded]


def _unreadable(problem: Problem, report: Report) -> None:
    """Report unreadable data as broken, or as unchecked if a later release wrote it."""
    found = report.unchecked if _NEWER in problem.detail else report.problems
    found.append(problem)


def _read_run(
    store: EventStore, slug: str, report: Report
) -> tuple[Run | Unreadable, list[Recorded], list[Event]]:
    recorded, events = _stored(store, run_stream(slug), report), list[Event]()
    for one in recorded:
        try:
            events.append(decode(one.stream, one.version, one.topic, one.state))
        except Undecodable as error:
            run = fold(slug, events)
            beyond = Unreadable(slug, one.version - 1, str(error))
            return run if isinstance(run, Unreadable) else beyond, [], []
    return fold(slug, events), recorded, events


def _effects(store: EventStore, slug: str, report: Report) -> Effects | None:
    effects = Effects()
    try:
        for event in _decoded(store, effects_stream(slug), report):
            effects = evolve_effects(effects, event)
    except Undecodable as error:
        _unreadable(Problem(Kind.EFFECTS_UNREADABLE, slug, detail=str(error)), report)
        return None
    return effects


def _shared(store: EventStore, report: Report) -> None:
    roots = Roots()
    try:
        for event in _decoded(store, ROOTS, report):
            roots = evolve_roots(roots, event)
    except Undecodable as error:
        _unreadable(Problem(Kind.SHARED_UNREADABLE, what="roots", detail=str(error)), report)
    people = PeopleState()
    try:
        for event in _decoded(store, PEOPLE, report):
            people = evolve_people(people, event)
    except Undecodable as error:
        _unreadable(Problem(Kind.SHARED_UNREADABLE, what="people", detail=str(error)), report)


def _compare_views(
    store: EventStore, rows: Rows, run: Run, effects: Effects | None, report: Report
) -> None:
    """Check that every projection equals its rebuild; retry if a watch appends meanwhile."""
    again = Report()
    for _ in range(LOOKS):
        found = [*_differing(rows, (run.slug, "run"), status_row(run))]
        if effects is not None and effects.version:
            found += _differing(rows, (run.slug, "effects"), effects_row(effects))
        streams = (run_stream(run.slug), effects_stream(run.slug))
        if not found or all(_last(store, stream) <= rows.newest for stream in streams):
            report.problems += found
            return
        rows = rows_of(store)
        later, effects = _read_run(store, run.slug, again)[0], _effects(store, run.slug, again)
        if isinstance(later, Unreadable):
            break
        run = later
    report.unchecked.append(Problem(Kind.ROW_KEEPS_CHANGING, run.slug))


def _last(store: EventStore, stream: str) -> int:
    """Return the position of a stream's last event; 0 when it is empty."""
    version, _ = store.head(stream)
    return store.read(stream, after=version - 1, limit=1)[0].position if version else 0


def _differing(rows: Rows, key: tuple[str, str], expected: object) -> Iterator[Problem]:
    found = rows.rows.get(key)
    if found is None:
        yield Problem(Kind.ROW_MISSING, key[0], what=key[1])
        return
    try:
        there, rebuilt = json.loads(found), json.loads(json.dumps(expected))
        for name in _LATER:
            # Rows of an older release lack this key. The next append writes it.
            if name not in there:
                rebuilt.pop(name, None)
        same = there == rebuilt
    except ValueError:
        same = False
    if not same:
        yield Problem(Kind.ROW_DIFFERS, key[0], what=key[1])


def _decisions_cite_evidence(slug: str, events: Iterable[Event], report: Report) -> None:
    for event in events:
        if event.data.topic == "run.decision_made.1" and not getattr(event.data, "evidence", ()):
            report.problems.append(Problem(Kind.NO_EVIDENCE, slug, event.version))


def _witnessed(
    store: EventStore,
    outside: Outside,
    run: Run,
    recorded: list[Recorded],
    events: list[Event],
    report: Report,
) -> None:
    contract = contract_of(run)
    try:
        remote = outside.git(logbook_remote_of(contract), contract.logbook.branch)
        branch = remote.fetch()
        newest = remote.newest_for_run(branch, run.slug)
        there = remote.read_file(branch, logbook_path_of(contract))
        tag = None
        if isinstance(run.phase, Sealed):
            code = outside.git(contract.code.remote, contract.code.branch)
            tag = code.find_tag(run.phase.tag)
    except Unavailable as error:
        report.unchecked.append(Problem(Kind.REMOTE_SILENT, run.slug, detail=error.reason))
        return
    if newest is None:
        report.problems.append(Problem(Kind.LOGBOOK_MISSING, run.slug))
        return
    match = _HEAD.match(newest.trailers.get("Watchkeeper-Head", ""))
    if match is None:
        report.problems.append(Problem(Kind.NO_HEAD, run.slug, what=newest.commit[:8]))
        return
    version, digest = int(match[1]), match[2]
    if version > len(recorded):
        # A watch may have appended and pushed since the history was read.
        recorded = store.read(run_stream(run.slug))
        events = [decode(r.stream, r.version, r.topic, r.state) for r in recorded]
    if version > len(recorded):
        ahead = Problem(Kind.REMOTE_AHEAD, run.slug, version, detail=str(len(recorded)))
        report.problems.append(ahead)
    elif recorded[version - 1].hash.hex() != digest:
        report.problems.append(Problem(Kind.OTHER_EVENT, run.slug, version))
    elif there != render_at(events, version=version):
        report.problems.append(Problem(Kind.LOGBOOK_EDITED, run.slug))
    if isinstance(run.phase, Sealed) and tag != run.phase.commit:
        report.problems.append(Problem(Kind.TAG_MOVED, run.slug, what=run.phase.tag))


def _milestones(outside: Outside, run: Run, effects: Effects, report: Report) -> None:
    """Check that every pushed milestone tag is still on its commit."""
    code = contract_of(run).code
    for tag, commit in effects.milestones.items():
        try:
            there = outside.git(code.remote, code.branch).find_tag(tag)
        except Unavailable as error:
            unread = Problem(Kind.TAG_UNREADABLE, run.slug, what=tag, detail=error.reason)
            report.unchecked.append(unread)
            continue
        if there != commit:
            report.problems.append(Problem(Kind.TAG_MOVED, run.slug, what=tag))


def check_evidence(files: Iterable[tuple[str, Callable[[], bytes]]], report: Report) -> None:
    """Compare kept observations with their digests. An erased observation is no problem."""
    for digest, read in files:
        if hashlib.sha256(read()).hexdigest() != digest:
            report.problems.append(Problem(Kind.EVIDENCE_CHANGED, what=digest[:12]))
