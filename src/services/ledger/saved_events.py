"""Appends notes that were made without a command, as the library does.

A rule decides every other event, so only commands record it: an event that is stored as it is
would approve, launch or end something that no rule has looked at.
"""

import hashlib
from collections.abc import Sequence

from watchkeeper.domain.run.envelope import Event, decode
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.operator import NoteAdded
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.ports.event_store import VersionConflict, Write
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.ledger_reader import run_stream
from watchkeeper.services.ledger.scrub_and_encode import scrubbed_bytes, to_json
from watchkeeper.services.ledger.status_rows import rows_of_run


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
    rows = tuple(scrubbed_bytes(ledger.scrubber, event.envelope) for event in events)
    digest = hashlib.sha256(
        to_json([first.stream, *(event.data.model_dump(mode="json") for event in events)]).encode()
    ).digest()
    known = None if key is None else ledger.store.answer(key, digest=digest)
    if known is None:
        run = ledger.run(slug)
        if run.version != first.version - 1:
            raise VersionConflict(f"{first.stream} is at version {run.version}")
        run = _after(run, first.stream, rows)
        known = ledger.store.append(
            [Write(first.stream, first.version - 1, rows)],
            key=key,
            digest=digest,
            status=rows_of_run(run),
        )
    begin, end = known.versions[first.stream]
    stored = ledger.store.read(first.stream, after=begin - 1, limit=end - begin + 1)
    return [one.position for one in stored]


def _after(run: Run | Unreadable, stream: str, rows: Sequence[tuple[str, bytes]]) -> Run:
    """Return a run after what would be stored."""
    for version, (topic, state) in enumerate(rows, run.version + 1):
        run = evolve(run, decode(stream, version, topic, state))
    if isinstance(run, Unreadable):
        raise NotSaved(f"{stream}: {run.why}")
    return run
