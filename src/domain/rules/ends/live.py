"""Response to a finding on a live instance (R17): notify at once, do nothing.

A live run is never relaunched. An instance ends only when the orchestrator says so (R18). To end
one on purpose is a guarded action.
"""

from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity

ALERTED = frozenset({"H2", "H3", "H5", "H7", "H8", "H9", "H16", "H17"})
"""Findings that alert the DRI at once; the DRI has to acknowledge."""

NOTIFIED = frozenset({"H4", "H6", "H10", "H12", "H15"})
"""Findings that notify the DRI at once. A finding proven to be worse opens as an alert."""

HANGING = frozenset({"H3", "H16"})
"""Findings of a stalled job, whose evidence is lost once the job ends."""

CAPTURE = "stacks of all ranks, the state of collectives and node names"
"""Evidence to keep of a job that hangs; the finding says how, for its kind of machine."""


def answer_to(found: FindingOpened | FindingRaised, check: CheckRecorded) -> DecisionMade:
    """Return the decision on a finding of a live instance: only whom to notify.

    Args:
        found: The finding as it opened, or as its severity rose.
        check: The check at which that happened.
    """
    loud = found.rule in ALERTED or found.severity is Severity.ALERT
    quiet = found.rule in NOTIFIED and found.severity is Severity.NOTIFY
    action = Action.ALERT if loud and not quiet else Action.NOTIFY
    who = "the DRI is asked" if action is Action.ALERT else "the DRI is told"
    because = f"{found.rule} while {check.instance} lives: {who} at once, and the job is left alone"
    return DecisionMade(
        instance=check.instance,
        action=action,
        # No detector rule covers it, for example a job that is unaccounted for: a person judges.
        rule="R17" if found.rule.startswith("H") else found.rule,
        because=because,
        evidence=found.evidence or (found.summary,),
        proposes=_advice(found.rule),
    )


def _advice(rule: str) -> str:
    if rule in HANGING:
        return f"Before anything ends it, keep {CAPTURE}"
    return ""
