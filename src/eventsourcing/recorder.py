"""The eventsourcing library's recorder for a home's ledger.

Everything may be read. Writes keep every guarantee of the ledger.
"""

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    ApplicationRecorder,
    IntegrityError,
    Notification,
    NotSupportedError,
    ProgrammingError,
    StoredEvent,
    Subscription,
)

from watchkeeper.adapters.store.library import library_errors, nothing_else, stream_of
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub, scrub_json
from watchkeeper.ports.event_store import KeyReused
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.saved_events import NotSaved, save_notes
from watchkeeper.services.ledger.scrub_and_encode import to_json

_OURS = frozenset({"run", "effects", "roots", "people", "signals"})
"""Watchkeeper's own streams, by the part of the name before the first slash."""


class LedgerRecorder(ApplicationRecorder):
    """The library's application recorder for an open home. It raises the library's errors.

    Args:
        recorder: The recorder of the home's store.
        ledger: The home's ledger; None if it was opened to read.
    """

    def __init__(self, recorder: ApplicationRecorder, ledger: Ledger | None) -> None:
        """Record into an open home, which the caller closes."""
        self._recorder = recorder
        self._ledger = ledger

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int]:
        """Store events in one transaction, all or nothing; return their notification ids.

        For a run, only notes are accepted, under the idempotency key in their envelopes. Other
        applications' events are also scrubbed and chained.

        Raises:
            IntegrityError: A version does not directly follow its stream's newest one, or a key was
                used with other content.
            NotSupportedError: The home was opened to read.
            OperationalError: The store failed; nothing was stored.
            ProgrammingError: Only a command may record the event, its bytes are not text or cannot
                be searched for secrets, or its stream or topic holds a secret.
        """
        nothing_else({name: value for name, value in kwargs.items() if value is not None})
        if self._ledger is None:
            raise NotSupportedError(
                "this home was opened to read: set WATCHKEEPER_WRITE=yes to save events"
            )
        streams = [stream_of(event.originator_id) for event in stored_events]
        if any(stream.partition("/")[0] in _OURS for stream in streams):
            with _refusals():
                notes = [
                    decode(stream, event.originator_version, event.topic, event.state)
                    for stream, event in zip(streams, stored_events, strict=True)
                ]
                return save_notes(self._ledger, notes)
        clean = [_scrubbed(self._ledger.scrubber, event) for event in stored_events]
        return self._recorder.insert_events(clean) or ()

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return a stream's events with versions above `gt` and up to `lte`, in either order."""
        return self._recorder.select_events(originator_id, gt=gt, lte=lte, desc=desc, limit=limit)

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return a page of the whole ledger between two ids, in commit order."""
        return self._recorder.select_notifications(
            start, limit, stop, topics, inclusive_of_start=inclusive_of_start
        )

    def max_notification_id(self) -> int | None:
        """Return the newest id; None if nothing is recorded."""
        return self._recorder.max_notification_id()

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> Subscription[ApplicationRecorder]:
        """Iterate over events after an id, then over new ones as any process records them."""
        return self._recorder.subscribe(gt, topics)


@contextmanager
def _refusals() -> Generator[None, None, None]:
    """Convert the refusal of a note inside the block into the library's errors."""
    try:
        with library_errors():
            yield
    except KeyReused as error:
        raise IntegrityError(str(error)) from error
    except (NotSaved, Undecodable) as error:
        raise ProgrammingError(str(error)) from error


def _scrubbed(scrubber: Scrubber, event: StoredEvent) -> StoredEvent:
    """Return another application's event without secrets, its bytes as JSON or as text."""
    place = f"event {event.originator_version} of {event.originator_id}"
    for name in (str(event.originator_id), event.topic):
        clean = scrub(scrubber, name).text
        if clean != name:
            raise ProgrammingError(f"a name holds a secret: {clean}; name it otherwise")
    try:
        text = event.state.decode()
    except UnicodeDecodeError as error:
        raise ProgrammingError(
            f"{place} is no text, so secrets in it cannot be found: store it without cipher and "
            "compressor"
        ) from error
    try:
        state = _scrubbed_text(scrubber, text)
    except (_Unsearchable, RecursionError) as error:
        raise ProgrammingError(f"{place} is not stored: {error}") from error
    return StoredEvent(event.originator_id, event.originator_version, event.topic, state)


class _Unsearchable(Exception):
    """JSON in which secrets could be missed."""


def _scrubbed_text(scrubber: Scrubber, text: str) -> bytes:
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except ValueError:
        return scrub(scrubber, text).text.encode()
    try:
        clean, _ = scrub_json(scrubber, value)
        return text.encode() if clean == value else to_json(clean).encode()
    except ValueError as error:
        raise _Unsearchable(str(error)) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        # A reader sees one of the values, and the bytes keep both.
        raise _Unsearchable("an object in it has the same key twice")
    return found
