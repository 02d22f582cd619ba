"""Guarded actions that a decision advises.

A decision proposes such an action. People consent to it and carry it out.
"""

from datetime import datetime

from watchkeeper.domain.rules.permits.guarded import (
    GuardedAction,
    live_consent,
    open_proposals,
    proposal_of,
)
from watchkeeper.domain.rules.permits.permissions import PROPOSALS_OPEN_MAX
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.permits import ConsentUsed, PermitEvent
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.run import Run


def proposal_for(run: Run, decision: DecisionMade) -> list[PermitEvent]:
    """Return the proposal of a decision's guarded action, unless it already waits."""
    if not decision.guarded:
        return []
    action, waiting = GuardedAction(decision.guarded), open_proposals(run)
    same = any((one.action, one.target) == (action, decision.target) for one in waiting)
    if same or len(waiting) >= PROPOSALS_OPEN_MAX:
        return []
    return [proposal_of(run, action, decision.target, decision.because)]


def consent_used_by(run: Run, now: datetime) -> list[ConsentUsed]:
    """Record the use of the awaited consent, after a human answered.

    The answer means that people carried out the action. watchkeeper never does it.
    """
    decided = run.phase.decision if isinstance(run.phase, Interrupted) else None
    if decided is None or not decided.guarded:
        return []
    found = live_consent(run, GuardedAction(decided.guarded), decided.target, now)
    if found is None:
        return []
    action, target = found.action, found.target
    return [ConsentUsed(consent=found.name, action=action, target=target, digest=found.digest)]
