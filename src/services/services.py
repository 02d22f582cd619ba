"""What the acts work with: the ledger, the ports, and the name of whoever acts by itself."""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper.domain.reading.triage.second_reader import Hypotheses
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.sources import Evidence, Outside
from watchkeeper.services.ledger.ledger import Handled, Ledger

log = logging.getLogger(__name__)

SERVICE = Actor(principal="watchkeeper", kind="service")
"""Who acts when the built-in loop does."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the acts work with.

    Attributes:
        ledger: Where everything is recorded.
        recorder: The ledger as the `eventsourcing` library knows it, for whoever follows it.
        outside: The ports.
        evidence: Where full observations are kept.
        deployment: Short id of this home; part of every submission id, so that two homes that
            use one orchestrator never name the same job.
        draw: Gives random numbers from 0 to 1, for waits. What came of them is recorded, so that a
            replay draws nothing.
        reader: Who is asked for hypotheses about an end; none, unless somebody switched it on.
    """

    ledger: Ledger
    recorder: ApplicationRecorder
    outside: Outside
    evidence: Evidence
    deployment: str
    draw: Callable[[], float] = random.Random().random
    reader: Hypotheses | None = None


def submission_id(services: Services, run: str, number: int) -> str:
    """Return the id of a run's instance at the orchestrator, the same whenever it is asked."""
    return f"{run}-i{number}-{services.deployment}"


def recorded(outcome: Handled | Refused, doing: str) -> bool:
    """Tell whether a command left events; a refusal is told in the log."""
    if isinstance(outcome, Refused):
        # Another process was first; what is due is asked of the ledger again.
        log.info("%s: %s", doing, outcome.sentence)
        return False
    return bool(outcome.events)
