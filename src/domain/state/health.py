"""How well a run is as it stands: by its newest check, and by what was found since."""

from watchkeeper.domain.events import CheckRecorded, Health
from watchkeeper.domain.state.judgement import NOT_RECOVERED, RECOVERING, is_recovered
from watchkeeper.domain.state.phases import Launching, Running, Stabilizing
from watchkeeper.domain.state.run import Run

MISSING_ARTEFACTS = "missing_artefacts"
"""The finding that a run ended well and lacks what proves it (H11)."""


_LIVE = (Launching, Stabilizing, Running)


def health_now(run: Run) -> Health:
    """Return a run's health after all that is on record.

    A check's own findings are in its health. What a success lacks (H11) is found after the check
    that saw it end: a run that lacks its final checkpoint is not well. What resumed is not well
    before that is proven, whatever was said of the instance before it.
    """
    if run.health is not Health.HEALTHY or not isinstance(run.phase, _LIVE):
        return Health.DEGRADED if is_belied(run) else run.health
    proof = run.judgement.proof
    return Health.HEALTHY if is_recovered(run.judgement) else unproven_health(proof)


def unproven_health(proof: str) -> Health:
    """Return the health of what trains well and is not recovered, by the verdict so far."""
    return Health.DEGRADED if proof == "differs" else Health.UNKNOWN


def is_unproven(check: CheckRecorded) -> bool:
    """Say whether a check saw training of which nothing but the proof of its resume is open.

    Its reason tells; checks that were recorded before a proof was asked for never say so.
    """
    return check.health is Health.UNKNOWN and f"; {RECOVERING}:" in check.because


def health_words(check: CheckRecorded) -> str:
    """Return a check's health as people read it: what resumed is `recovering` until proven."""
    if is_unproven(check):
        return RECOVERING
    differs = f"; {NOT_RECOVERED}:" in check.because
    return f"{check.health.value}, {NOT_RECOVERED}" if differs else check.health.value


def is_recovering(run: Run) -> bool:
    """Say whether nothing but the proof that is due keeps a live run from being called healthy."""
    due = not is_recovered(run.judgement) and not run.judgement.proof
    live = isinstance(run.phase, _LIVE)
    return live and due and run.health is Health.UNKNOWN and not run.findings


def is_belied(run: Run) -> bool:
    """Say whether a finding that is open since contradicts the health of the newest check."""
    return run.health is Health.HEALTHY and MISSING_ARTEFACTS in run.findings
