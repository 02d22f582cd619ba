"""What a detector answers at one check."""

from dataclasses import dataclass

from watchkeeper.domain.values.check import Severity


@dataclass(frozen=True, slots=True)
class Held:
    """A detector's answer at one check.

    Attributes:
        holds: True, false, or none where it cannot tell: an open finding then stays open.
        about: What exactly is found, in words that stay the same while it does; where they change
            while the finding is open, it is told again. Empty for a finding that is told once.
    """

    kind: str
    rule: str
    severity: Severity
    holds: bool | None
    summary: str
    evidence: tuple[str, ...] = ()
    about: str = ""
