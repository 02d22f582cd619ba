"""Response to a finding on a live instance (R17): notify at once, do nothing.

A live run is never relaunched. An instance ends only when the orchestrator says so (R18). To end
one on purpose is a guarded action.
"""

from watchkeeper.domain.rules.health.registry import LIVE_RULES
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import OpenFinding
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity

_LOUD = frozenset(rule.id for rule in LIVE_RULES if rule.severity is Severity.ALERT)
_KEEPING = frozenset(rule.id for rule in LIVE_RULES if rule.keeps_stacks)

CAPTURE = "stacks of all ranks, the state of collectives and node names"
"""Advice to keep evidence of a hanging job. The finding says how."""


def answer_to(found: OpenFinding, check: CheckRecorded) -> DecisionMade:
    """Return the decision on a finding of a live instance: only whom to notify.

    Args:
        found: The new finding, or the finding with its raised severity.
        check: The check at which it opened or rose.
    """
    loud = found.rule in _LOUD or found.severity is Severity.ALERT
    action = Action.ALERT if loud else Action.NOTIFY
    who = "the DRI is asked" if action is Action.ALERT else "the DRI is notified"
    because = f"{found.rule} while {check.instance} lives: {who} at once, and the job is left alone"
    return DecisionMade(
        instance=check.instance,
        action=action,
        # No rule covers such a finding, for example about a lost job. A person judges it.
        rule="R17" if found.rule.startswith("H") else found.rule,
        because=because,
        evidence=found.evidence or (found.summary,),
        proposes=_advice(found.rule),
    )


def _advice(rule: str) -> str:
    if rule in _KEEPING:
        return f"Before anything ends it, keep {CAPTURE}"
    return ""
