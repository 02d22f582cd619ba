"""The view of signal bindings: which run each clue or machine belongs to.

It holds everything learned from the ledger, so that signal intake can start from it. A row holds
the binding of one clue, run or machine. It does not depend on the order of events of several
streams: the event with the highest position decides, and the newest meeting, to the minute.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from watchkeeper.domain.rules.signals.binding import (
    BINDING_EVENTS,
    Anchor,
    Place,
    Registry,
    binding_facts_of,
    meetings_in,
    with_meeting,
)
from watchkeeper.domain.run.registry import UPCASTS
from watchkeeper.projections.views.view import Projection, Row, Seen

TOPICS = frozenset(fact.topic for fact in BINDING_EVENTS) | frozenset(UPCASTS)
"""Only these topics are decoded. If they change, the version must change too, so that skipped
events are read again."""

_ANCHOR, _PLACE, _MET, _OVER = "anchor", "place", "met", "over"


def _keys(seen: Seen) -> Sequence[str]:
    if seen.topic not in TOPICS:
        return ()
    lesson = binding_facts_of(seen.event)
    keys = [f"{_ANCHOR} {clue}" for clue in lesson.anchors]
    keys += [f"{_PLACE} {lesson.placed}"] if lesson.placed else []
    keys += [f"{_MET} {clue}" for clue in meetings_in(lesson)]
    keys += [f"{_OVER} {lesson.over}"] if lesson.over else []
    return keys


def _fold(key: str, row: Row | None, seen: Seen) -> Row:
    lesson = binding_facts_of(seen.event)
    kind, _, name = key.partition(" ")
    if kind == _OVER:
        return {}
    if kind == _MET:
        known = _meetings(row or {})
        after = with_meeting(known, meetings_in(lesson)[name])
        return {other: at.isoformat() for other, at in after.items()}
    if row is not None and row["at"] > seen.position:
        return row  # The event waited behind a parked one, and a newer event was folded meanwhile.
    if kind == _ANCHOR:
        anchor = lesson.anchors[name]
        return {"run": anchor.run, "instance": anchor.instance, "at": seen.position}
    place = lesson.place
    return {
        "roots": [*place.roots],
        "clusters": [*place.clusters],
        "branches": [*place.branches],
        "at": seen.position,
    }


def _meetings(row: Row) -> dict[str, datetime]:
    return {other: datetime.fromisoformat(at) for other, at in row.items()}


def registry_of(rows: Mapping[str, Row]) -> Registry:
    """Return the registry of all rows, the same as from reading every event."""
    anchors: dict[str, Anchor] = {}
    places: list[tuple[int, str, Place]] = []
    links: dict[str, Mapping[str, datetime]] = {}
    over: set[str] = set()
    for key, row in rows.items():
        kind, _, name = key.partition(" ")
        match kind:
            case "anchor":
                anchors[name] = Anchor(row["run"], row["instance"])
            case "place":
                named = (tuple(row[each]) for each in ("roots", "clusters", "branches"))
                places.append((row["at"], name, Place(*named)))
            case "met":
                links[name] = _meetings(row)
            case _:
                over.add(name)
    by_age = {run: place for _, run, place in sorted(places, key=lambda one: one[0])}
    return Registry(anchors, by_age, links, frozenset(over), shape=len(rows))


BINDINGS = Projection(
    name="bindings",
    version=1,
    keys=_keys,
    fold=_fold,
    shows="whose a signal is: what a watch that takes signals starts by",
    topics=TOPICS,
)
