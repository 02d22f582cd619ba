"""Tells at the terminal what is recorded while a command goes on."""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

from eventsourcing.persistence import Notification

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.domain.run.envelope import Undecodable, decode
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.ports.event_store import StoreFailure
from watchkeeper.projections.describe.event_lines import summary
from watchkeeper.services.ledger.ledger_feed import Tailer

_LOOK_EVERY = timedelta(seconds=1)
"""How long the end of a narration may have to wait; a new event is told at once."""

_END_LIMIT_S = 5.0

_LOG = logging.getLogger(__name__)

Tell = Callable[[str, str, bool], None]


@contextmanager
def narrated(session: Session, tell: Tell) -> Generator[None, None, None]:
    """Tell each event on a run's history, of any process, from here on to the end of the block.

    Args:
        session: The open home.
        tell: Called on a thread of its own with the run's slug, a line, and whether the event is
            one more check.
    """
    newest = session.recorder.max_notification_id() or 0
    tailer = Tailer(session.recorder, session.ledger.store, after=newest)
    done = threading.Event()
    narrator = threading.Thread(
        target=_narrate, args=(tailer, tell, done.is_set), name="narrator", daemon=True
    )
    narrator.start()
    try:
        yield
    finally:
        done.set()
        narrator.join(timeout=_END_LIMIT_S)


def _narrate(tailer: Tailer, tell: Tell, is_done: Callable[[], bool]) -> None:
    told = False
    while True:
        last_round = is_done()
        try:
            for page in tailer.pages():
                for row in page:
                    _tell(row, tell)
            if not last_round:
                tailer.wait(_LOOK_EVERY)
            told = False
        except StoreFailure as error:
            # The watch meets the same failure, and it is the watch that must end or go on.
            if not told:
                _LOG.warning("nothing is narrated: %s", error)
            told = True
            if not last_round:
                clock.sleep(_LOOK_EVERY)
        if last_round:
            return


def _tell(row: Notification, tell: Tell) -> None:
    stream, version = str(row.originator_id), row.originator_version
    if not stream.startswith("run/"):
        return
    slug = stream.removeprefix("run/")
    try:
        event = decode(stream, version, row.topic, row.state)
    except Undecodable as error:
        tell(slug, f"event {version} cannot be read: {error}", False)
        return
    tell(slug, f"event {version}: {summary(event)}", isinstance(event.data, CheckRecorded))
