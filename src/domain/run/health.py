"""Events and state of findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.values.check import Health, Severity


class FindingOpened(Fact):
    """A detector found a problem. The finding stays open until it is cleared.

    Attributes:
        kind: The kind of finding, such as `pending`.
        rule: Its rule, such as `H6`.
        about: The subject, in stable words; empty if the kind is enough.
    """

    topic: ClassVar[str] = "run.finding_opened.1"
    kind: str
    rule: str
    severity: Severity
    summary: str
    evidence: tuple[str, ...]
    about: str = ""


class FindingRaised(Fact):
    """An open finding became more severe, or its subject changed.

    Attributes:
        kind: The kind of finding. It stays open.
        severity: The new severity. It never falls while the finding is open.
        before: The earlier severity.
        about: The new subject.
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
    """An open finding is no longer true.

    Attributes:
        closes: The open questions about it, which close too.
    """

    topic: ClassVar[str] = "run.finding_cleared.1"
    kind: str
    rule: str
    reason: str
    closes: tuple[str, ...] = ()


OpenFinding = FindingOpened | FindingRaised
"""A finding that is open from now on."""

FindingEvent = OpenFinding | FindingCleared


UNACCOUNTED = "job_unaccounted"
"""The finding that the orchestrator does not know the fate of a job."""


DRIFTED = "tracker_identity"
"""The finding that the run does not log under the agreed identity (H2)."""


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
