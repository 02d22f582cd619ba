"""The eventsourcing library's factory for a home, on SQLite or PostgreSQL."""

import os
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from eventsourcing import persistence as library
from eventsourcing.persistence import (
    AggregateRecorder,
    InfrastructureFactory,
    NotSupportedError,
    ProcessRecorder,
    ProgrammingError,
    TrackingRecorder,
)
from eventsourcing.sqlite import SQLiteFactory
from eventsourcing.utils import Environment, EnvType, strtobool

from watchkeeper.adapters.home import Home, HomeProblem, open_home
from watchkeeper.adapters.ledger_choice import chosen_store
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger
from watchkeeper.adapters.store.library import LedgerAggregateRecorder, library_errors
from watchkeeper.adapters.store.recorder import recorder_of
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, known_secrets
from watchkeeper.eventsourcing.mapper import Mapper
from watchkeeper.eventsourcing.recorder import LedgerRecorder
from watchkeeper.services.ledger.ledger import Ledger

HOME = "WATCHKEEPER_HOME"
"""Variable that names the home's folder. WATCHKEEPER_STORE means the same as for commands."""

WRITE = "WATCHKEEPER_WRITE"
"""Whether events may be saved; they may not by default."""


class Factory(InfrastructureFactory[TrackingRecorder]):
    """Opens a home when the first recorder is made; `close` closes the home.

    The library's followers keep nothing in the ledger. Their tracking and process recorders are the
    library's own. They use the SQLite file that SQLITE_DBNAME names.
    """

    def __init__(self, env: Environment | EnvType | None = None) -> None:
        """Keep the environment; nothing is opened yet."""
        super().__init__(env)
        self._home_stack = ExitStack()
        self._follower_stack = ExitStack()

    @cached_property
    def home(self) -> Home:
        """The home.

        Raises:
            OSError: The environment names no home, or the home does not exist.
        """
        named = self.env.get(HOME)
        if not named:
            raise OSError(f"{' or '.join(self.env.create_keys(HOME))} names no home")
        try:
            return open_home(Path(named))
        except HomeProblem as error:
            raise OSError(str(error)) from error

    @cached_property
    def scrubber(self) -> Scrubber:
        """Removes secrets from what is stored."""
        return Scrubber(self.home.key, known_secrets({**os.environ, **self.env}))

    @property
    def writes(self) -> bool:
        """Whether events may be saved."""
        return strtobool(self.env.get(WRITE, "no"))

    @cached_property
    def opened(self) -> OpenLedger:
        """The open ledger.

        Raises:
            OperationalError: It could not be opened; the message says what to do.
        """
        home = self.home
        chosen = chosen_store(None, self.env, home.store, home.deployment, home.key)
        with library_errors():
            opening = open_ledger(chosen, home.ledger, reading=not self.writes)
            return self._home_stack.enter_context(opening)

    @cached_property
    def ledger(self) -> Ledger:
        """The open ledger as commands use it.

        Raises:
            NotSupportedError: The home was opened to read.
        """
        if not self.writes:
            raise NotSupportedError(f"this home was opened to read: set {WRITE}=yes to write")
        return Ledger(self.opened.store, self.scrubber)

    def mapper(
        self,
        transcoder: library.Transcoder | None = None,
        mapper_class: type[library.Mapper[Any]] | None = None,
    ) -> library.Mapper[Any]:
        """Return the mapper of the ledger's events.

        If the environment names a mapper, a cipher or a compressor, the library's own mapper is
        returned. It serves other applications' streams; `Runs` refuses it.
        """
        named = mapper_class or self.env.get(self.MAPPER_TOPIC)
        if named or self.cipher() is not None or self.compressor() is not None:
            return super().mapper(transcoder, mapper_class)
        return Mapper(self.scrubber)

    def application_recorder(self) -> LedgerRecorder:
        """Return the recorder of the home's ledger."""
        return LedgerRecorder(recorder_of(self.opened.store), self.ledger if self.writes else None)

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        """Return the recorder of the home's ledger, without notification ids.

        Raises:
            ProgrammingError: The purpose is snapshots, which a ledger does not keep.
        """
        if purpose != "events":
            raise ProgrammingError(
                f"a ledger keeps no {purpose}: a run is folded from its events; unset "
                f"{self.IS_SNAPSHOTTING_ENABLED}"
            )
        return LedgerAggregateRecorder(self.application_recorder())

    def tracking_recorder(
        self, tracking_recorder_class: type[TrackingRecorder] | None = None
    ) -> TrackingRecorder:
        """Return the library's tracking recorder, or a view, in a separate file."""
        chosen: Any = tracking_recorder_class
        return self._follower_factory().tracking_recorder(chosen)

    def process_recorder(self) -> ProcessRecorder:
        """Return the library's process recorder, in a separate file."""
        return self._follower_factory().process_recorder()

    def close(self) -> None:
        """Close the home and the files of followers; safe to call twice."""
        self._follower_stack.close()
        self._home_stack.close()

    def _follower_factory(self) -> SQLiteFactory:
        factory = SQLiteFactory(self.env)
        self._follower_stack.callback(factory.close)
        return factory
