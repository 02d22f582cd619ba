"""R17: a finding opens while the instance lives; people are notified.

A live run is never relaunched: only the orchestrator's word ends an instance (R18), and ending one
on purpose is a guarded action.
"""

from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity

ALERTED = frozenset({"H2", "H3", "H5", "H7", "H8", "H9", "H16", "H17"})
"""Findings that the DRI is alerted of at once, and has to acknowledge."""

NOTIFIED = frozenset({"H4", "H6", "H10", "H12", "H15"})
"""Findings that the DRI is told of at once. What is proven to be worse opens as an alert."""

HANGING = frozenset({"H3", "H16"})
"""Findings of a job that stands still: what it shows is gone once it is ended."""

CAPTURE = "stacks of all ranks, the state of collectives and node names"
"""What to keep of a job that hangs; the finding says how, for its kind of machine."""


def answer_to(found: FindingOpened | FindingRaised, check: CheckRecorded) -> DecisionMade:
    """Return what is decided about a finding of a live instance: who is told, and nothing else.

    Args:
        found: The finding as it opened, or as it became louder.
        check: The check at which it did.
    """
    loud = found.rule in ALERTED or found.severity is Severity.ALERT
    quiet = found.rule in NOTIFIED and found.severity is Severity.NOTIFY
    action = Action.ALERT if loud and not quiet else Action.NOTIFY
    who = "the DRI is asked" if action is Action.ALERT else "the DRI is told"
    because = f"{found.rule} while {check.instance} lives: {who} at once, and the job is left alone"
    return DecisionMade(
        instance=check.instance,
        action=action,
        # What no detector's rule speaks of, such as a job that is unaccounted for, is judgement.
        rule="R17" if found.rule.startswith("H") else found.rule,
        because=because,
        evidence=found.evidence or (found.summary,),
        proposes=_advice(found.rule),
    )


def _advice(rule: str) -> str:
    if rule in HANGING:
        return f"Before anything ends it, keep {CAPTURE}"
    return ""
