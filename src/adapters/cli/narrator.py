"""Prints events at the terminal as they are recorded."""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

from eventsourcing.persistence import Notification

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.projections.describe.event_lines import summary
from watchkeeper.services.ledger.ledger_feed import Tailer

_LOOK_EVERY = timedelta(seconds=1)
"""Longest delay at the end of a narration. New events are printed at once."""

_END_LIMIT_S = 5.0

_LOG = logging.getLogger(__name__)

Say = Callable[[str, str, object], None]


@contextmanager
def narrated(session: Session, narrate: Say) -> Generator[None, None, None]:
    """Report each new event of a run's history during the block, whatever process records it.

    Args:
        session: The open home.
        narrate: Called on a separate thread with the run's slug, a line, and the event's data. The
            data is None for an event that cannot be read.
    """
    newest = session.recorder.max_notification_id() or 0
    tailer = Tailer(session.recorder, session.ledger.store, after=newest)
    done = threading.Event()
    narrator = threading.Thread(
        target=_narrate, args=(tailer, narrate, done.is_set), name="narrator", daemon=True
    )
    narrator.start()
    try:
        yield
    finally:
        done.set()
        narrator.join(timeout=_END_LIMIT_S)


def _narrate(tailer: Tailer, narrate: Say, is_done: Callable[[], bool]) -> None:
    warned = False
    while True:
        last_round = is_done()
        try:
            for page in tailer.pages():
                for row in page:
                    _narrate_row(row, narrate)
            if not last_round:
                tailer.wait(_LOOK_EVERY)
            warned = False
        except StoreFailure as error:
            # The watch sees the same failure and decides whether to end or go on.
            if not warned:
                _LOG.warning("progress lines are off: %s", error)
            warned = True
            if not last_round:
                clock.sleep(_LOOK_EVERY)
        if last_round:
            return


def _narrate_row(row: Notification, narrate: Say) -> None:
    stream, version = str(row.originator_id), row.originator_version
    if not stream.startswith("run/"):
        return
    slug = stream.removeprefix("run/")
    try:
        event = decode(stream, version, row.topic, row.state)
    except Undecodable as error:
        narrate(slug, f"event {version} cannot be read: {error}", None)
        return
    narrate(slug, f"event {version}: {summary(event)}", event.data)
