"""The kept views of an open home: kept level while a watch runs, and opened for commands."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.lagging import read_lags, time_recorded
from watchkeeper.adapters.views_copy import readable
from watchkeeper.adapters.views_file import FILE, ViewsFile
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.projections.views.lag import Lag
from watchkeeper.services.views.worker import tailing

_LOG = logging.getLogger(__name__)

HOLDER = f"command {os.getpid()}"
"""Who holds the lease of what a command builds."""


@contextmanager
def viewed(session: Session) -> Generator[None, None, None]:
    """Keep the views of a home level with its ledger for the length of a block.

    The caller stands watch, so no other process of the home does. Views are disposable: that they
    cannot be opened is told, by `status` and `doctor` too, and keeps nobody from watching.
    """
    try:
        views = views_of(session)
    except ViewsFailure as error:
        _LOG.warning("the views are not kept: %s", error)
        yield
        return
    with views:
        for gone in views.beats():
            # Of watches that were killed: one process stands watch over a home.
            views.left(gone.holder)
        with tailing(session.ledger.store, views, PROJECTIONS, f"watch {os.getpid()}"):
            yield


def views_of(session: Session) -> ViewsFile:
    """Open the views of a home.

    Raises:
        ViewsFailure: They could not be opened.
    """
    return ViewsFile(session.home.path / FILE)


@contextmanager
def views_to_read(session: Session) -> Generator[ViewsFile, None, None]:
    """Give the views of a home, or a copy of a home's at rest; the ledger is only read.

    Raises:
        ViewsFailure: They could not be opened or copied.
    """
    where = readable(session.home.path, at_rest=session.at_rest)
    with where as folder, ViewsFile(folder / FILE) as views:
        yield views


def lags_of(session: Session, folder: Path) -> list[Lag]:
    """Return how far each view in a folder is from an open home's ledger, whatever its store."""
    store = session.ledger.store

    def recorded_at(position: int) -> datetime | None:
        found = store.read_all(after=position, limit=1)
        return time_recorded(found[0].state) if found else None

    return read_lags(folder, store.newest, recorded_at)
