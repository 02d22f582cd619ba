"""Snapshot of signal bindings: a fast start without reading the whole ledger.

The view `bindings` holds the bindings up to a ledger position. If it is missing, halted
or ahead of the ledger, the ledger is read from its first event instead. That is slower, but gives
the same result.
"""

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from watchkeeper.domain.rules.signals.binding import Registry
from watchkeeper.ports.event_store import EventStore
from watchkeeper.ports.views import Build, BuildState, Views, ViewsFailure
from watchkeeper.projections.views.bindings import BINDINGS, registry_of
from watchkeeper.services.views.rebuild import hash_at

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known:
    """The known bindings at a position.

    Attributes:
        position: Where to continue reading the ledger; 0 reads everything.
    """

    registry: Registry = field(default_factory=Registry)
    position: int = 0


def load_bindings(opened: Callable[[], AbstractContextManager[Views]], store: EventStore) -> Known:
    """Return the stored bindings; no bindings at position 0 if they cannot be used.

    Args:
        opened: Opens the views for the length of a block.
        store: The ledger.

    Raises:
        StoreFailure: The ledger could not be read.
    """
    try:
        with opened() as views:
            return _known(views, store)
    except ViewsFailure as error:
        log.warning("the bindings are read from the whole ledger: %s", error)
        return Known()


def _known(views: Views, store: EventStore) -> Known:
    build = _live(views)
    if build is None:
        return Known()
    if build.error or hash_at(store, build.position) != build.hash:
        log.warning("%s cannot be used: the bindings are read from event 1", build.title)
        return Known()
    # The position was read first. Applying later facts again has no effect.
    rows = {key: json.loads(row) for key, row in views.rows(build).items()}
    after = _live(views)
    if after is None or after.id != build.id:
        return Known()  # Another build replaced it meanwhile, and its rows are gone.
    return Known(registry_of(rows), build.position)


def _live(views: Views) -> Build | None:
    live = (build for build in views.builds() if build.state is BuildState.LIVE)
    return next((build for build in live if build.title == BINDINGS.title), None)
