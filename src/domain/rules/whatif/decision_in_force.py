"""The decision in force after a check that made no decision itself.

The decision is about the end, or about the open findings.
"""

from watchkeeper.domain.rules.after_check import ended_badly
from watchkeeper.domain.rules.ends.live import answer_to
from watchkeeper.domain.rules.ends.success import verify_success
from watchkeeper.domain.rules.health.capacity import other_writers
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.phases import Finished, Interrupted
from watchkeeper.domain.run.queries import source_is_fresh
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.observation import source_reading


def decision_in_force(run: Run, check: CheckRecorded) -> DecisionMade | None:
    """Return the decision that is still in force; `None` if nothing is open.

    A live run may have several findings. The most severe counts, and the first of equals.

    Args:
        run: The run after the check.
        check: The check.
    """
    if isinstance(run.phase, Interrupted):
        decided = run.phase.decision
        if decided is not None and decided.action is Action.RELAUNCH:
            why = _why_held(run, decided, check)
            return _held_back(decided, why) if why else decided
        return decided or _awaited(run, check)
    if isinstance(run.phase, Finished):
        return verify_success(check.instance, check.job) if check.job is not None else None
    found = sorted(run.health.findings.values(), key=lambda one: one.severity is not Severity.ALERT)
    return answer_to(found[0], check) if found else None


def _why_held(run: Run, decided: DecisionMade, check: CheckRecorded) -> str:
    """Say why a decided relaunch waits; empty if it may be carried out."""
    if not ended_badly(check):
        return f"the orchestrator does not say now that {decided.instance} is over: {check.because}"
    writers = other_writers(run, run.instances[-1], check)
    named = ", ".join(one.job for one in writers)
    return f"another live job writes to its output root: {named}" if writers else ""


def _held_back(decided: DecisionMade, why: str) -> DecisionMade:
    """Return a decision that a relaunch waits: the job may be live or already relaunched."""
    return DecisionMade(
        instance=decided.instance,
        action=Action.WAIT,
        rule="R18",
        because=f"a relaunch was decided ({decided.rule}), and {why}",
        evidence=decided.evidence,
    )


def _awaited(run: Run, check: CheckRecorded) -> DecisionMade | None:
    """Say what an undecided end waits for: a listing of the checkpoints."""
    if not run.ends.failures or source_is_fresh(check, "checkpoints"):
        return None
    reading = source_reading(check.readings, "checkpoints")
    why = reading.reason or reading.state.value
    return DecisionMade(
        instance=check.instance,
        action=Action.WAIT,
        rule="R10",
        because=f"no listing of the checkpoints ({why}): nothing is relaunched on a guess",
        evidence=run.ends.failures[-1].evidence or (f"event {run.ends.failures[-1].version}",),
    )
