"""How well a run is as it stands: by its newest check, and by what was found since."""

from watchkeeper.domain.events import Health
from watchkeeper.domain.state.run import Run

MISSING_ARTEFACTS = "missing_artefacts"
"""The finding that a run ended well and lacks what proves it (H11)."""


def health_now(run: Run) -> Health:
    """Return a run's health after all that is on record.

    A check's own findings are in its health. What a success lacks (H11) is found after the check
    that saw it end: a run that lacks its final checkpoint is not well.
    """
    return Health.DEGRADED if is_belied(run) else run.health


def is_belied(run: Run) -> bool:
    """Say whether a finding that is open since contradicts the health of the newest check."""
    return run.health is Health.HEALTHY and MISSING_ARTEFACTS in run.findings
