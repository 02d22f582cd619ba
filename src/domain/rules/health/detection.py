"""The answer of a detector at one check."""

from dataclasses import dataclass

from watchkeeper.domain.values.check import Severity


@dataclass(frozen=True, slots=True)
class DetectorAnswer:
    """A detector's answer at one check.

    Attributes:
        holds: Whether the problem exists. `None` means unknown: an open finding then stays open.
        about: The subject, in stable words. If it changes while the finding is open, it notifies
            again. Empty for a finding that notifies once.
    """

    kind: str
    rule: str
    severity: Severity
    holds: bool | None
    summary: str
    evidence: tuple[str, ...] = ()
    about: str = ""
