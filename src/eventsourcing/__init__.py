"""A home as an application of the `eventsourcing` library, 9.5.

    from watchkeeper.eventsourcing import Runs

    with Runs(env={"WATCHKEEPER_HOME": "/srv/watchkeeper"}) as app:
        run = app.repository.get("run/hero")

`PERSISTENCE_MODULE=watchkeeper.eventsourcing` names the factory in this package to the library.
"""

from watchkeeper.eventsourcing.application import Runs, fold_run
from watchkeeper.eventsourcing.factory import Factory
from watchkeeper.eventsourcing.mapper import Mapper
from watchkeeper.eventsourcing.recorder import LedgerRecorder

__all__ = ["Factory", "LedgerRecorder", "Mapper", "Runs", "fold_run"]
