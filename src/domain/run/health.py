"""Findings: opened, raised, cleared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.check import Health, Severity


class FindingOpened(Fact):
    """A detector concluded something about a run; it stays open until cleared.

    Attributes:
        kind: Which detector, such as `pending`.
        rule: Its rule, such as `H6`.
        about: What exactly was found, in words that stay the same while it does; empty where the
            kind says it all.
    """

    topic: ClassVar[str] = "run.finding_opened.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    about: str = ""


class FindingRaised(Fact):
    """An open finding became louder, or what it is about changed while it stayed open.

    Attributes:
        kind: Which finding; it stays open.
        severity: As loud as it is from here; it never gets quieter while it is open.
        before: How loud it was.
        about: What exactly is found by now.
    """

    topic: ClassVar[str] = "run.finding_raised.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    before: Severity
    about: str = ""


class FindingCleared(Fact):
    """An open finding no longer holds.

    Attributes:
        closes: The open questions about it, which this closes.
    """

    topic: ClassVar[str] = "run.finding_cleared.1"
    kind: str
    rule: str
    reason: str
    closes: tuple[str, ...] = ()


OpenFinding = FindingOpened | FindingRaised
"""A finding that holds from here on."""

FindingEvent = OpenFinding | FindingCleared


UNACCOUNTED = "job_unaccounted"
"""The finding that the orchestrator does not know the fate of a job."""


DRIFTED = "tracker_identity"
"""The finding that the run does not log under the identity that was agreed (H2)."""


MONITOR_STALE = "monitor_stale"
"""The finding that nobody checks a run; it says nothing about the run."""


@dataclass(frozen=True, slots=True)
class HealthState:
    """How healthy a run is.

    Attributes:
        verdict: The health that the newest check found; `queries.health_now` adds later findings.
        findings: Open findings by kind.
    """

    verdict: Health = Health.UNKNOWN
    findings: Mapping[str, FindingOpened] = field(default_factory=dict[str, FindingOpened])
