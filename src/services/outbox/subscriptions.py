"""Publishes every event to outside targets: in order, at least once, resumable.

Each target has its own thread, position and back-off, so a failing target delays nothing else. A
position is saved durably after the target confirmed. After a crash, events may be sent again with
the same ids.
"""

import logging
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from eventsourcing.persistence import ApplicationRecorder, Notification, PersistenceError

from watchkeeper import clock
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.event_store import EventStore, StoreFailure
from watchkeeper.ports.sources import EventTarget, Unavailable
from watchkeeper.projections.published.cloud_event import cloud_event
from watchkeeper.projections.views.delivery import Delivery
from watchkeeper.services import time_limit
from watchkeeper.services.ledger.ledger_feed import Tailer

log = logging.getLogger(__name__)

SEND_LIMIT = timedelta(seconds=60)
"""The timeout of one batch at one target. Targets have shorter timeouts; this one catches a file
that hangs."""

RETRY_FIRST = timedelta(seconds=1)
"""The first wait after a failure. Later waits double."""

RETRY_LONGEST = timedelta(seconds=60)
"""The longest wait that we choose. A recovered target gets its events within about a minute."""

RETRY_JITTER = 0.5
"""Jitter of a wait, so that many targets of one server do not retry together."""

RETRY_AFTER_MAX = timedelta(hours=1)
"""The longest wait that a target may ask for."""

LEAVING = timedelta(seconds=15)
"""How long targets may take for the remaining events when the watch ends. The next watch
continues."""

_LOOK_EVERY = timedelta(milliseconds=500)
"""How long the end of the watch may be delayed. A new event is sent at once."""


class Deliveries(Protocol):
    """Stores the delivery progress of each target."""

    def read_delivery(self, key: str) -> Delivery | None:
        """Return the progress of a target, or None for a new target.

        Raises:
            Unavailable: It exists and cannot be read.
        """
        ...

    def write_delivery(self, key: str, delivery: Delivery) -> None:
        """Store the progress durably and atomically.

        Raises:
            OSError: It could not be written.
        """
        ...


class NotThisLedger(Exception):
    """The last confirmed event is not in this ledger: the ledger was replaced."""


@contextmanager
def publishing(
    recorder: ApplicationRecorder,
    store: EventStore,
    deliveries: Deliveries,
    deployment: str,
    targets: Sequence[EventTarget],
) -> Generator[None, None, None]:
    """Publish to targets for the length of a block, each on its own thread.

    At its end the remaining events are sent within `LEAVING`, where the target accepts them.
    """
    stop = threading.Event()
    lines = [_Line(recorder, store, deliveries, deployment, target, stop) for target in targets]
    threads = [
        threading.Thread(target=line.run, name=f"publish: {line.name}", daemon=True)
        for line in lines
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        deadline = clock.Deadline.after(LEAVING)
        for thread in threads:
            thread.join(timeout=deadline.remaining().total_seconds())
            if thread.is_alive():
                log.warning("%s: abandoned; the next watch continues from there", thread.name)


class _Line:
    """The delivery queue of one target. All of it runs on one thread."""

    def __init__(
        self,
        recorder: ApplicationRecorder,
        store: EventStore,
        deliveries: Deliveries,
        deployment: str,
        target: EventTarget,
        stop: threading.Event,
    ) -> None:
        self.name = target.name
        self._recorder = recorder
        self._tailer = Tailer(recorder, store)
        self._deliveries = deliveries
        self._deployment = deployment
        self._target = target
        self._stop = stop
        self._backoff = clock.ExponentialBackoff(
            RETRY_FIRST, RETRY_LONGEST, factor=2, jitter=RETRY_JITTER
        )
        self._state = Delivery(target.name)
        self._begun = False

    def run(self) -> None:
        """Deliver until stopped, then deliver the rest; report and retry failures."""
        try:
            self._deliver()
        finally:
            self._target.close()

    def _deliver(self) -> None:
        while True:
            leaving = self._stop.is_set()
            wait = self._turn()
            if leaving or (wait is not None and self._stop.is_set()):
                return
            if wait is not None:
                self._stop.wait(wait.total_seconds())
                if self._stop.is_set():
                    return  # A failure here is retried by the next watch.
                continue
            self._rest()

    def _rest(self) -> None:
        try:
            self._tailer.wait(_LOOK_EVERY)
        except StoreFailure:
            # The next turn meets the same error and reports it.
            self._stop.wait(_LOOK_EVERY.total_seconds())

    def _turn(self) -> timedelta | None:
        """Send the pending events; return the wait after a failure, or None."""
        try:
            if not self._begun:
                self._begin()
            self._send_all()
        except (Unavailable, StoreFailure, PersistenceError, NotThisLedger) as error:
            reason = error.reason if isinstance(error, Unavailable) else str(error)
            return self._failed(reason, error)
        except Exception as error:
            log.exception("%s: publishing failed", self.name)
            return self._failed(
                f"internal error, please report: {type(error).__name__}: {error}", error
            )
        return None

    def _begin(self) -> None:
        """Continue from the saved progress if it belongs to this ledger."""
        kept = self._deliveries.read_delivery(self._target.key)
        if kept is not None:
            # Set before the check, so that a failure is reported together with the progress.
            self._state = replace(
                kept, target=self.name, active=True, attempts=0, reason="", retry_at=None
            )
        if self._state.position and self._id_at(self._state.position) != self._state.event_id:
            raise NotThisLedger(
                f"event {self._state.position}, which was sent last, is another one in this "
                "ledger, as after a restored backup: remove its file from the home's folder "
                "`publish` to send everything again"
            )
        self._tailer.position = self._state.position
        self._begun = True
        self._keep()

    def _id_at(self, position: int) -> str:
        found = self._recorder.select_notifications(start=position, limit=1)
        event = self._event(found[0]) if found else None
        return event.id if event is not None and event.position == position else ""

    def _send_all(self) -> None:
        deadline: clock.Deadline | None = None
        # A failed page is read again from the last confirmed position.
        self._tailer.position = self._state.position
        for page in self._tailer.pages():
            events = [self._event(notification) for notification in page]
            for first in range(0, len(events), self._target.batch_max):
                if self._stop.is_set():
                    deadline = deadline or clock.Deadline.after(LEAVING)
                    if deadline.expired():
                        return
                self._send(events[first : first + self._target.batch_max])

    def _send(self, events: Sequence[CloudEvent]) -> None:
        # A timed-out call may still arrive. Until it returns, no other call is made.
        time_limit.call(f"publish {self.name}", SEND_LIMIT, self._target.send, events)
        self._backoff.reset()
        if self._state.reason:
            log.warning("%s: takes events again", self.name)
        newest = max(self._recorder.max_notification_id() or 0, events[-1].position)
        behind = events[-1].position < newest
        self._state = replace(
            self._state,
            position=events[-1].position,
            event_id=events[-1].id,
            newest=newest,
            behind_since=(self._state.behind_since or _now()) if behind else None,
            attempts=0,
            reason="",
            retry_at=None,
        )
        self._keep()

    def _failed(self, reason: str, error: Exception) -> timedelta:
        wait = self._backoff.next_wait()
        asked = error.retry_after if isinstance(error, Unavailable) else None
        if asked is not None:
            wait = max(wait, min(asked, RETRY_AFTER_MAX))
        if reason != self._state.reason:
            # Log once. `status` counts the attempts, and repeated lines would hide other messages.
            log.warning("%s: %s; it is tried again", self.name, reason)
        try:
            newest = self._recorder.max_notification_id() or 0
        except PersistenceError:
            newest = self._state.newest  # The failure of the store is already reported.
        self._state = replace(
            self._state,
            newest=newest,
            behind_since=self._state.behind_since or _now(),
            attempts=self._state.attempts + 1,
            reason=reason,
            retry_at=(clock.now() + wait).isoformat(),
        )
        if self._begun or isinstance(error, NotThisLedger):
            # Progress that could not be read is not overwritten.
            self._keep()
        return wait

    def _keep(self) -> None:
        try:
            self._deliveries.write_delivery(self._target.key, self._state)
        except OSError as error:
            # This process knows the confirmed position. After a restart the events are sent again
            # with the same ids.
            log.warning("%s: its position was not kept: %s", self.name, error)

    def _event(self, row: Notification) -> CloudEvent:
        return cloud_event(
            self._deployment,
            position=row.id,
            stream=str(row.originator_id),
            version=row.originator_version,
            topic=row.topic,
            state=row.state,
        )


def _now() -> str:
    return clock.now().isoformat()
