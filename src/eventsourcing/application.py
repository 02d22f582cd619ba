"""The runs of a home as an application of the library."""

from collections.abc import Iterable, Sequence
from typing import Any

from eventsourcing import persistence as library
from eventsourcing.application import Application, Repository
from eventsourcing.persistence import InfrastructureFactory, ProgrammingError
from eventsourcing.projection import ApplicationSubscription
from eventsourcing.utils import Environment

from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.values.secrets.scrubbing import scrub
from watchkeeper.eventsourcing.factory import Factory
from watchkeeper.eventsourcing.mapper import Mapper
from watchkeeper.services.ledger.ledger import Handled


def fold_run(run: Run | Unreadable | None, events: Iterable[Event]) -> Run | Unreadable | None:
    """Fold a run's next events; the projector of `Runs`.

    A history that this code cannot read gives `Unreadable`, never a guess.

    Args:
        run: The run so far; None before its first event.
        events: What follows, oldest first.

    Returns:
        The run; None if it has no event.
    """
    for event in events:
        run = evolve(Run(event.stream.removeprefix("run/")) if run is None else run, event)
    return run


_NEWEST = 2**31 - 1
"""A version that no stream reaches."""


class RunRepository(Repository[str]):
    """The library's repository, which folds runs unless it is given another projector."""

    def get(self, aggregate_id: str, **options: Any) -> Any:
        """Return a run, such as `run/hero`, or what `projector_func` makes of a stream's events.

        Raises:
            AggregateNotFoundError: The stream has no event.
        """
        # A run is immutable, so that copies of cached ones would only cost time.
        kept: dict[str, Any] = {"projector_func": fold_run, "deepcopy_from_cache": False}
        if "projector_func" in options:
            # The cache holds runs. The library reads past it where a version is named.
            kept["version"] = _NEWEST
        return super().get(aggregate_id, **(kept | options))


class Runs(Application[str]):
    """The runs of a home. Streams are named as in the ledger, such as `run/hero`.

    The environment names the home in WATCHKEEPER_HOME. Nothing can be saved unless
    WATCHKEEPER_WRITE is set.
    """

    env = {InfrastructureFactory.PERSISTENCE_MODULE: "watchkeeper.eventsourcing"}
    log_section_size = 500
    factory: Factory

    def construct_factory(self, env: Environment) -> Factory:
        """Return the factory of the home.

        Raises:
            ProgrammingError: The environment names another one, which would read no ledger.
        """
        factory = super().construct_factory(env)
        if not isinstance(factory, Factory):
            raise ProgrammingError(
                f"{type(factory).__module__} reads no ledger of watchkeeper: set "
                f"{self.name.upper()}_PERSISTENCE_MODULE=watchkeeper.eventsourcing"
            )
        return factory

    def construct_mapper(self) -> library.Mapper[str]:
        """Return the mapper of the ledger's events.

        Raises:
            ProgrammingError: The environment asks for another one, or for other bytes.
        """
        mapper = self.factory.mapper()
        if not isinstance(mapper, Mapper):
            raise ProgrammingError(
                "the bytes of a ledger are hashed as they are stored: unset MAPPER_TOPIC, "
                "CIPHER_TOPIC, CIPHER_KEY and COMPRESSOR_TOPIC"
            )
        return mapper

    @property
    def repository(self) -> RunRepository:
        """Folds runs from their events."""
        assert isinstance(self._repository, RunRepository)
        return self._repository

    def construct_repository(self) -> RunRepository:
        """Return the repository of runs, with the library's settings."""
        plain = super().construct_repository()
        made = RunRepository(plain.event_store)
        made.__dict__.update(plain.__dict__)
        return made

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> ApplicationSubscription[str]:
        """Iterate over events after a notification id, then over new ones, each with its tracking.

        Use it in a `with` block, and end that before the application is closed.
        """
        return ApplicationSubscription(self, gt=gt, topics=topics)

    def handle(
        self, slug: str, command: RunCommand, *, key: str | None = None
    ) -> Handled | Refused:
        """Handle one command as watchkeeper does; return the recorded events or the refusal.

        Args:
            slug: The run.
            command: The command.
            key: A repeated key returns the first answer.

        Raises:
            NotSupportedError: The home was opened to read.
            ProgrammingError: The key holds a secret. A key is stored as it is.
        """
        ledger = self.factory.ledger
        if key is not None and scrub(ledger.scrubber, key).text != key:
            raise ProgrammingError("the key holds a secret; name another one")
        return ledger.handle(slug, command, key=key)
