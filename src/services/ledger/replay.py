"""Replays old histories through today's code and reports differences.

It compares what was recorded at the time: the status row, the digest of each pushed logbook, and
the result of each check. So a changed fold, renderer or rule shows up before it affects a run.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

from watchkeeper.domain.run.effects import LogbookPushed
from watchkeeper.domain.run.envelope import Event, Undecodable, decode
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.outbox.effects import Effects, effects_stream, evolve_effects
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.ports.event_store import EventStore
from watchkeeper.projections.logbook.logbook import EMPTY, project, render
from watchkeeper.projections.status.writer import effects_row, status_row
from watchkeeper.projections.verification import Kind, Problem


class Stored(Protocol):
    """The parts of a stored event that a replay reads."""

    @property
    def version(self) -> int:
        """Its place in its stream."""
        ...

    @property
    def topic(self) -> str:
        """As stored."""
        ...

    @property
    def state(self) -> bytes:
        """As stored."""
        ...


class Judged(Protocol):
    """One check, with its recorded result and today's result."""

    @property
    def version(self) -> int:
        """Of the check."""
        ...

    @property
    def recorded(self) -> tuple[RunEvent, ...]:
        """The recorded result."""
        ...

    @property
    def now(self) -> tuple[RunEvent, ...]:
        """The result of today's rules."""
        ...


Judge = Callable[[str, Sequence[Event]], Sequence[Judged]]
"""Judges every check of a history again."""


@dataclass(frozen=True, slots=True)
class History:
    """One run as it is stored.

    Attributes:
        slug: The run.
        run: Its events.
        effects: The events of its effects stream.
        rows: Its status rows by part; empty if there are none, as in an export.
    """

    slug: str
    run: Sequence[Stored]
    effects: Sequence[Stored]
    rows: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference that today's code makes in a run.

    Attributes:
        run: The slug.
        version: The event at which it shows.
        kind: `unreadable`, `decision`, `logbook` or `status`.
        found: The old result and the new one.
    """

    run: str
    version: int
    kind: str
    found: Problem


def histories(store: EventStore, slugs: Iterable[str]) -> Iterator[History]:
    """Yield the histories of some runs of a ledger."""
    kept: dict[str, dict[str, str]] = {}
    for row in store.status_rows():
        kept.setdefault(row.run, {})[row.part] = row.row
    for slug in slugs:
        run, effects_events = store.read(f"run/{slug}"), store.read(effects_stream(slug))
        yield History(slug, run, effects_events, kept.get(slug, {}))


def replay(history: History, judge: Judge | None = None) -> Difference | None:
    """Replay one run; return the first difference, or None.

    Args:
        history: As stored.
        judge: Judges its checks again; None to skip decisions.
    """
    slug = history.slug
    events: list[Event] = []
    folded = Run(slug)
    for one in history.run:
        try:
            event = decode(f"run/{slug}", one.version, one.topic, one.state)
        except Undecodable as error:
            return _unreadable(slug, one.version, str(error))
        run = evolve(folded, event)
        if isinstance(run, Unreadable):
            return _unreadable(slug, one.version, run.why)
        folded = run
        events.append(event)
    effects_events: list[Event] = []
    for one in history.effects:
        try:
            effects_events.append(decode(effects_stream(slug), one.version, one.topic, one.state))
        except Undecodable as error:
            unread = Problem(Kind.EFFECTS_UNREADABLE, slug, detail=str(error))
            return Difference(slug, one.version, "unreadable", unread)
    found = [
        _decisions(slug, events, judge),
        _logbooks(slug, events, effects_events),
        _rows(history, folded, effects_events),
    ]
    return min((one for one in found if one is not None), key=lambda d: d.version, default=None)


def _unreadable(slug: str, version: int, why: str) -> Difference:
    found = Problem(Kind.UNREADABLE, slug, version - 1, detail=why)
    return Difference(slug, version, "unreadable", found)


def _decisions(slug: str, events: Sequence[Event], judge: Judge | None) -> Difference | None:
    if judge is None:
        return None
    for one in judge(slug, events):
        if _as_json(one.recorded) == _as_json(one.now):
            continue
        then, now = (
            ", ".join(_named(fact) for fact in some) or "nothing"
            for some in (one.recorded, one.now)
        )
        changed = Problem(Kind.DECISION_DIFFERS, slug, one.version, then, now)
        if then == now:
            changed = Problem(Kind.DECISION_WORDED_OTHERWISE, slug, one.version, detail=then)
        return Difference(slug, one.version, "decision", changed)
    return None


def _as_json(facts: Iterable[RunEvent]) -> list[str]:
    """Return events to compare: a NaN among their numbers is not equal to itself."""
    return [f"{fact.topic} {fact.model_dump_json()}" for fact in facts]


def _named(fact: RunEvent) -> str:
    return fact.topic.removeprefix("run.").rpartition(".")[0]


def _logbooks(
    slug: str, events: Sequence[Event], effects_events: Sequence[Event]
) -> Difference | None:
    """Compare each pushed logbook with today's rendering."""
    pushed = {
        event.data.version: event.data
        for event in effects_events
        if isinstance(event.data, LogbookPushed)
    }
    book = EMPTY
    for event in events:
        book = project(book, event)
        one = pushed.get(event.version)
        if one is not None and hashlib.sha256(render(book)).hexdigest() != one.content:
            changed = Problem(Kind.LOGBOOK_DIFFERS, slug, event.version)
            return Difference(slug, event.version, "logbook", changed)
    return None


def _rows(history: History, run: Run, effects_events: Sequence[Event]) -> Difference | None:
    if history.rows is None:
        return None
    effects = reduce(evolve_effects, effects_events, Effects())
    wanted: dict[str, Mapping[str, Any]] = {"run": status_row(run)}
    if effects_events:
        wanted["effects"] = effects_row(effects)
    for part, row in wanted.items():
        there = history.rows.get(part)
        if there is None:
            missing = Problem(Kind.ROW_MISSING, run.slug, what=part)
            return Difference(run.slug, run.version, "status", missing)
        was, now = json.loads(there), json.loads(json.dumps(row))
        # An earlier release did not write fields that it did not know.
        differ = sorted(key for key in was if was[key] != now.get(key))
        if differ:
            fields = Problem(Kind.FIELDS_DIFFER, run.slug, what=part, detail=", ".join(differ))
            return Difference(run.slug, run.version, "status", fields)
    return None
