"""The bench of the ledger: an audit of many runs, against replays in the library's default style.

An audit reads the whole ledger once, in the order of commits, proves the hash of each event and
folds the needed fields of each run by the narrow reader. Its target speaks of 10,000 runs of 500
events; the ratio is of one event to one event, so some runs are enough.
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
from watchkeeper.domain.chain import Head, follow
from watchkeeper.event_store import READ_PAGE, EventStore, Recorded
from watchkeeper.narrow import NarrowReader, struct_of

EVENTS = 500
"""Of each run."""

_AUDIT = "audit, each hash and needed fields by the narrow reader"
AUDITS = tuple(f"{prefix}{_AUDIT}, of the default style" for prefix in ("", "small checks, "))
"""What the two comparisons are called in the report."""


def audit(store: str, folder: Path, payload: Payload, repetitions: int, runs: int) -> Found:
    """Compare audits of many runs with replays of all of them."""
    reader = NarrowReader({CHECK: ("health", "metrics")})
    wire = msgspec.defstruct("Wire", [("data", struct_of(SmallCheck, ("verdict", "loss")))])
    decoder: Any = msgspec.json.Decoder(wire)
    states = [
        SmallStored(at=AT, data=small(place)).model_dump_json().encode() for place in range(EVENTS)
    ]

    def checked(recorded: Recorded, tally: Tally) -> None:
        found = reader.read(recorded)
        if found is not None:
            tally.take(found.data.health, found.data.metrics)

    def checked_small(recorded: Recorded, tally: Tally) -> None:
        data: Any = decoder.decode(recorded.state).data
        tally.take(data.verdict, {"loss": data.loss})

    def library_small() -> SmallRun:
        run = SmallRun()
        for place in range(EVENTS - 1):
            run.record(**small(place).model_dump(mode="json"))
        return run

    def library() -> CheckedRun:
        run = CheckedRun()
        for place in range(EVENTS - 1):
            run.record(**library_data(payload.checks[place % len(payload.checks)]))
        return run

    found: Found = {}
    for prefix, events, take, make in (
        ("", payload.events(EVENTS), checked, library),
        ("small checks, ", [(TOPIC, state) for state in states], checked_small, library_small),
    ):
        ours = opened(store, folder)
        for run in range(runs):
            fill(ours, f"run/{run}", events)
        application = library_application(store, folder)
        made = [make() for _ in range(runs)]
        application.save(*made)
        ids = [one.id for one in made]
        ways: dict[str, Callable[[], object]] = {
            "default": partial(_replayed, application, ids),
            "audit": partial(_audited, ours, take, runs),
        }
        said = {"audit": f"{prefix}{_AUDIT}"}
        found |= replayed(ways, store, repetitions, runs * EVENTS, said)
        ours.close()
        application.close()
    return found


def _replayed(application: Application[UUID], ids: Sequence[UUID]) -> None:
    for one in ids:
        application.repository.get(one)


def _audited(store: EventStore, take: Callable[[Recorded, Tally], None], runs: int) -> None:
    heads: dict[str, Head] = {}
    tallies: dict[str, Tally] = {}
    after = 0
    while page := store.read_all(after=after, limit=READ_PAGE):
        _, streams, versions, topics, states, hashes = zip(*page, strict=True)
        links = zip(streams, streams, versions, topics, states, hashes, strict=True)
        assert follow(heads, links) == len(page), after
        for recorded in page:
            tally = tallies.get(recorded.stream)
            if tally is None:
                tally = tallies[recorded.stream] = Tally()
            take(recorded, tally)
        after = page[-1].position
    assert [version for version, _ in heads.values()] == [EVENTS] * runs, heads
