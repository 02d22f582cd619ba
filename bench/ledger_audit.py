"""The bench of the ledger: an audit of many runs, against replays in the library's default style.

An audit reads the whole ledger once, in the order of commits, proves the hash of each event and
folds the needed fields of each run by the narrow reader. Its target speaks of 10,000 runs of 500
events; the ratio is of one event to one event, so some runs are enough. It was set with an audit
that folds fields and proves no hash, which the library's style does not either: that one is
measured as well.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from eventsourcing.application import Application

from bench.ledger_append import Found
from bench.ledger_read import Tally, replayed
from bench.ledger_small import AT, TOPIC, SmallCheck, SmallRun, SmallStored, small
from bench.ledger_world import (
    CHECK,
    CheckedRun,
    Payload,
    fill,
    library_application,
    library_data,
    opened,
)
from watchkeeper.domain.run.chain import Head, follow
from watchkeeper.ports.event_store import EventStore, Recorded
from watchkeeper.services.ledger.partial_decode import NarrowReader, struct_of

EVENTS = 500
"""Of each run."""

_AUDIT = "audit, each hash and needed fields by the narrow reader"
_FIELDS = "audit, needed fields by the narrow reader and no hash"
AUDITS = tuple(
    f"{prefix}{way}, of the default style"
    for prefix in ("", "small checks, ")
    for way in (_AUDIT, _FIELDS)
)
"""What the comparisons are called in the report."""


def audit(store: str, folder: Path, payload: Payload, repetitions: int, runs: int) -> Found:
    """Compare audits of many runs with replays of all of them."""
    found: Found = {}
    for prefix, small_checks in KINDS.items():
        take, ours = taker(small_checks=small_checks), opened(store, folder)
        for run in range(runs):
            fill(ours, f"run/{run}", events_of(payload, small_checks=small_checks))
        application, ids = library_runs(store, folder, payload, runs, small_checks=small_checks)
        ways: dict[str, Callable[[], object]] = {
            "default": partial(replay_all, application, ids),
            "audit": partial(audit_part, ours, take, 0, runs * EVENTS),
            "fields": partial(audit_part, ours, take, 0, runs * EVENTS, proving=False),
        }
        said = {"audit": f"{prefix}{_AUDIT}", "fields": f"{prefix}{_FIELDS}"}
        found |= replayed(ways, store, repetitions, runs * EVENTS, said)
        ours.close()
        application.close()
    return found


KINDS = {"": False, "small checks, ": True}
"""What comparisons of either payload begin with."""

Take = Callable[[Recorded, Tally], None]


def events_of(payload: Payload, *, small_checks: bool) -> list[tuple[str, bytes]]:
    """Return the events of a run."""
    if not small_checks:
        return list(payload.events(EVENTS))
    return [
        (TOPIC, SmallStored(at=AT, data=small(place)).model_dump_json().encode())
        for place in range(EVENTS)
    ]


def taker(*, small_checks: bool) -> Take:
    """Return what takes the needed fields of a stored event."""
    reader = NarrowReader({CHECK: ("health", "metrics")})
    wire = msgspec.defstruct("Wire", [("data", struct_of(SmallCheck, ("verdict", "loss")))])
    decoder: Any = msgspec.json.Decoder(wire)

    def checked(recorded: Recorded, tally: Tally) -> None:
        found = reader.read(recorded)
        if found is not None:
            tally.take(found.data.health, found.data.metrics)

    def checked_small(recorded: Recorded, tally: Tally) -> None:
        data: Any = decoder.decode(recorded.state).data
        tally.take(data.verdict, {"loss": data.loss})

    return checked_small if small_checks else checked


def library_runs(
    store: str, folder: Path, payload: Payload, runs: int, *, small_checks: bool
) -> tuple[Application[UUID], list[UUID]]:
    """Save so many runs in the library's default style."""

    def made() -> SmallRun | CheckedRun:
        if small_checks:
            tiny = SmallRun()
            for place in range(EVENTS - 1):
                tiny.record(**small(place).model_dump(mode="json"))
            return tiny
        run = CheckedRun()
        for place in range(EVENTS - 1):
            run.record(**library_data(payload.checks[place % len(payload.checks)]))
        return run

    application = library_application(store, folder)
    all_runs = [made() for _ in range(runs)]
    application.save(*all_runs)
    return application, [one.id for one in all_runs]


def replay_all(application: Application[UUID], ids: Sequence[UUID]) -> None:
    """Replay runs in the library's default style."""
    for one in ids:
        application.repository.get(one)


def audit_part(
    store: EventStore, take: Take, after: int, last: int, *, proving: bool = True
) -> int:
    """Audit the runs that lie between two positions, which begin and end there; count them."""
    heads: dict[str, Head] = {}
    tallies: dict[str, Tally] = {}
    seen = 0
    for page in store.pages(after=after):
        if page[-1].position > last:
            page = [one for one in page if one.position <= last]
        if proving:
            _, streams, versions, topics, states, hashes = zip(*page, strict=True)
            links = zip(streams, streams, versions, topics, states, hashes, strict=True)
            assert follow(heads, links) == len(page), page[0]
        seen += len(page)
        for recorded in page:
            tally = tallies.get(recorded.stream)
            if tally is None:
                tally = tallies[recorded.stream] = Tally()
            take(recorded, tally)
        if page[-1].position == last:
            break
    assert all(version == EVENTS for version, _ in heads.values()), heads
    assert seen == len(tallies) * EVENTS, seen
    return len(tallies)
