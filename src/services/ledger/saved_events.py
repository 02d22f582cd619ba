"""Appends notes that were made without a command, as the library does.

The rules of `AddNote` decide each of them. Only commands record any other event: an event that is
stored as it is would approve, launch or end something that no rule has looked at.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from watchkeeper import clock
from watchkeeper.domain.rules.decide import decide
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.envelope import Event, decode
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.secrets.scrubbing import has_mark, scrub
from watchkeeper.ports.event_store import VersionConflict, Write
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.scrub_and_encode import scrubbed_bytes, to_json
from watchkeeper.services.ledger.status_rows import rows_of_run

CLOCK_SLACK = timedelta(minutes=1)
"""How far the time of recording in a note may be from the clock here."""

_PAGE = 1_000


class NotSaved(Exception):
    """Only a command may record such an event, or it does not fit. The message says why."""


def save_notes(ledger: Ledger, events: Sequence[Event]) -> list[int]:
    """Append notes of one run as a command would: scrubbed, chained, and with its status rows.

    The idempotency key is the one in their envelopes. A repeated key stores nothing.

    Args:
        ledger: The ledger.
        events: At least one, with the versions that follow the run's newest one.

    Returns:
        Their positions in the ledger; for a repeated key, those of the first time.

    Raises:
        NotSaved: An event cannot be stored in this way.
        VersionConflict: The versions do not follow the run's newest one.
        KeyReused: The key was used with other notes.
    """
    first = events[0]
    slug, key = first.stream.removeprefix("run/"), first.envelope.key
    for place, event in enumerate(events):
        if event.stream != run_stream(slug) or not isinstance(event.data, NoteAdded):
            raise NotSaved(
                f"{event.stream}: {event.data.topic} is recorded by commands alone, and only notes "
                "of one run are saved: use `Runs.handle`"
            )
        if (event.version, event.envelope.key) != (first.version + place, key):
            raise NotSaved(f"{event.stream}: notes of one save have one key and following versions")
    # The mapper may have replaced the secret already.
    if key is not None and (scrub(ledger.scrubber, key).text != key or has_mark(key)):
        raise NotSaved(f"{first.stream}: the key holds a secret; name another one")
    rows = tuple(scrubbed_bytes(ledger.scrubber, event.envelope) for event in events)
    digest = hashlib.sha256(
        to_json([first.stream, *(event.data.model_dump(mode="json") for event in events)]).encode()
    ).digest()
    known = None if key is None else ledger.store.answer(key, digest=digest)
    if known is None:
        run = ledger.run(slug)
        if run.version != first.version - 1:
            raise VersionConflict(f"{first.stream} is at version {run.version}")
        _refuse_times_and_ids(ledger, events)
        run = _after(run, events, rows)
        known = ledger.store.append(
            [Write(first.stream, first.version - 1, rows)],
            key=key,
            digest=digest,
            status=rows_of_run(run),
        )
    begin, end = known.versions[first.stream]
    stored = ledger.store.read(first.stream, after=begin - 1, limit=end - begin + 1)
    return [one.position for one in stored]


def _after(
    run: Run | Unreadable, events: Sequence[Event], rows: Sequence[tuple[str, bytes]]
) -> Run:
    """Return a run after what would be stored, if the rules for notes allow it."""
    for event, (topic, state) in zip(events, rows, strict=True):
        if isinstance(run, Run):
            _refuse_by_rules(run, event)
        run = evolve(run, decode(event.stream, event.version, topic, state))
    if isinstance(run, Unreadable):
        raise NotSaved(f"{events[0].stream}: {run.why}")
    return run


def _refuse_by_rules(run: Run, event: Event) -> None:
    assert isinstance(event.data, NoteAdded), "checked before"
    envelope = event.envelope
    note = AddNote(actor=envelope.actor, now=envelope.occurred_at, text=event.data.text)
    outcome = decide(run, note)
    if isinstance(outcome, Refused):
        raise NotSaved(f"{event.stream}: {outcome.sentence}")
    if outcome != [event.data]:
        raise NotSaved(f"{event.stream}: remove the spaces around the note's text")


def _refuse_times_and_ids(ledger: Ledger, events: Sequence[Event]) -> None:
    stream, now, seen = events[0].stream, clock.now(), set[UUID]()
    for event in events:
        recorded, occurred = event.envelope.recorded_at, event.at
        if abs(recorded - now) > CLOCK_SLACK or occurred > recorded:
            raise NotSaved(
                f"{stream}: recorded_at is {recorded.isoformat()} and occurred_at is "
                f"{occurred.isoformat()}; expected recorded_at within a minute of "
                f"{now.isoformat()}, and occurred_at not after it"
            )
        seen.add(event.envelope.event_id)
    if len(seen) < len(events):
        raise NotSaved(f"{stream}: two notes have the same event_id; give each one of its own")
    # The bytes are searched, since decoding a long history takes seconds.
    ids = [str(one).encode() for one in seen]
    after = 0
    while page := ledger.store.read(stream, after=after, limit=_PAGE):
        for stored in page:
            if any(one in stored.state for one in ids):
                raise NotSaved(
                    f"{stream}: event {stored.version} names the same event_id; make a new one"
                )
        after = page[-1].version
