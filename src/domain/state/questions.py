"""Questions to the DRI that go with decisions."""

from watchkeeper.domain.events import Action, DecisionMade, EscalationRaised, RunEvent
from watchkeeper.domain.state.run import Run, dri_of


def escalation_of(run: Run, decision: DecisionMade) -> list[RunEvent]:
    """Return the question that goes with a decision to escalate."""
    if decision.action is not Action.ESCALATE:
        return []
    question = EscalationRaised(
        question=f"q-{run.questions_raised + 1}",
        rule=decision.rule,
        to=dri_of(run),
        asks=f"{decision.instance}: {decision.because}. {_what_now(decision)}",
        evidence=decision.evidence,
    )
    return [question]


def _what_now(decision: DecisionMade) -> str:
    if decision.proposes:
        return decision.proposes
    if decision.rule == "R10":
        return "Nothing can be resumed from: abandon it, and launch a new run?"
    return "Relaunch, or leave it?"
