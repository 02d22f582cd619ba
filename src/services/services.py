"""The services' shared dependencies: the ledger, the ports and the actor's name."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper.domain.reading.triage.second_reader import SecondReader
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.sources import Evidence, Outside
from watchkeeper.services.ledger.ledger import Handled, Ledger

log = logging.getLogger(__name__)

SERVICE = Actor(principal="watchkeeper", kind="service")
"""The actor of the built-in loop."""


@dataclass(frozen=True, slots=True)
class Services:
    """The dependencies of all acts.

    Attributes:
        ledger: Where everything is recorded.
        recorder: The ledger as an `eventsourcing` recorder, for followers.
        outside: The ports.
        evidence: The store of full observations.
        deployment: Short id of this home. It is part of every submission id, so two homes on one
            orchestrator never use the same job id.
        draw: Returns random numbers from 0 to 1, for waits. Their results are recorded, so a replay
            draws nothing.
        reader: Gives hypotheses about an end; None unless enabled.
    """

    ledger: Ledger
    recorder: ApplicationRecorder
    outside: Outside
    evidence: Evidence
    deployment: str
    draw: Callable[[], float] = random.Random().random
    reader: SecondReader | None = None


def submission_id(services: Services, run: str, number: int) -> str:
    """Return the fixed id of a run's instance at the orchestrator."""
    return f"{run}-i{number}-{services.deployment}"


def recorded(outcome: Handled | Refused, doing: str) -> bool:
    """Say whether a command recorded events, and log a refusal."""
    if isinstance(outcome, Refused):
        # Another process was first. The due acts are derived from the ledger again.
        log.info("%s: %s", doing, outcome.sentence)
        return False
    return bool(outcome.events)
