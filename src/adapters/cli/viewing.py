"""The views of an open home: updated during a watch, read by commands."""

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.views_copy import readable
from watchkeeper.adapters.views_file import FILE, ViewsFile
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.projections.views.catalogue import PROJECTIONS
from watchkeeper.services.views.worker import tailing

_LOG = logging.getLogger(__name__)


@contextmanager
def viewed(session: Session) -> Generator[None, None, None]:
    """Keep the views of a home up to date with its ledger during a block.

    The caller holds the watch lock, so no other process of the home does the same. Views are
    disposable. If they cannot be opened, log it and watch without them. `status` and `doctor`
    report it too.
    """
    try:
        views = views_of(session)
    except ViewsFailure as error:
        _LOG.warning("the views are not updated: %s", error)
        yield
        return
    with views:
        for gone in views.beats():
            # These are from killed watches, because only one process watches a home.
            views.left(gone.holder)
        with tailing(session.ledger.store, views, PROJECTIONS, f"watch {os.getpid()}"):
            yield


def views_of(session: Session) -> ViewsFile:
    """Open the views of a home.

    Raises:
        ViewsFailure: The views could not be opened.
    """
    return ViewsFile(session.home.path / FILE)


@contextmanager
def views_to_read(session: Session) -> Generator[ViewsFile, None, None]:
    """Yield the views of a home, or a copy if the home is read-only.

    Raises:
        ViewsFailure: The views could not be opened or copied.
    """
    where = readable(session.home.path, at_rest=session.at_rest)
    with where as folder, ViewsFile(folder / FILE) as views:
        yield views
