"""Recovery after a bad end: the first R rule that holds decides.

Rules that forbid a relaunch come before rules that allow it, so the order keeps a run safe. A human
decides on ends that no rule covers (R19). Each row of `TABLE` names its rules.
"""

from collections.abc import Callable
from dataclasses import dataclass

from watchkeeper.domain.reading.progress.startup_lines import shows_forbidden
from watchkeeper.domain.reading.triage.memory import OUT_OF_MEMORY
from watchkeeper.domain.rules.ends.case import Case, answer, place_of
from watchkeeper.domain.rules.ends.causes import (
    machines_lost_before,
    nodes_of,
    r4,
    r5,
    r6,
    r7,
    r8,
    r16,
    r19_outlook,
    supersede_command,
)
from watchkeeper.domain.rules.ends.job_retries import ask_at_end, repeats_at_end
from watchkeeper.domain.rules.ends.registry import (
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R11,
    R12,
    R13,
    R14,
    R16,
    R19,
)
from watchkeeper.domain.rules.ends.repeat_failure import charged, r2, r3, r12, r19_retried
from watchkeeper.domain.rules.ends.stopped import r14_by_its_words, r14_stopped, r19_other_writer
from watchkeeper.domain.rules.ends.store_silence import PROPOSES, silent_too_long
from watchkeeper.domain.rules.health.identity import drift_summary, identity_drift
from watchkeeper.domain.rules.health.start import resume_mismatch
from watchkeeper.domain.rules.shared.rule import Rule
from watchkeeper.domain.rules.signals.receiving import doubt_about
from watchkeeper.domain.run.bad_numbers import bad_from
from watchkeeper.domain.run.checkpoints import Checkpoint
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.health import DRIFTED
from watchkeeper.domain.run.permits import ConsentUsed
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import act_around, describe_act, source_is_fresh
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import CheckpointKind
from watchkeeper.domain.values.causes import OUTLOOK_SAYS, Outlook, cause_of
from watchkeeper.domain.values.contract.lane_policy import forbids_resuming, policy_of
from watchkeeper.domain.values.contract.plan import LaunchPlan
from watchkeeper.domain.values.durations import render_duration


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One row of the table.

    Attributes:
        rules: The ids of the rules.
        decides: Returns a decision, or `None` if the row does not apply.
    """

    rules: tuple[Rule, ...]
    decides: Callable[[Case], DecisionMade | None]


def recover(case: Case) -> DecisionMade | None:
    """Choose what to do about a bad end.

    Returns:
        The decision; `None` while a source has not answered. After the timeout the DRI is asked.
    """
    for row in TABLE:
        decision = row.decides(case)
        if decision is not None:
            return decision
    if not source_is_fresh(case.check, "checkpoints"):
        return _r19_silent(case)
    chosen = newest_resumable(case.run, case.check) or launch_source(case.run)
    if chosen is None:
        return no_checkpoint(case)
    decided = _r1(case, chosen)
    asked_first = policy_of(contract_of(case.run)).approvals == "each"
    return _r19_approval(case, decided) if asked_first else decided


def _r19_silent(case: Case) -> DecisionMade | None:
    because = silent_too_long(case.run, case.check, case.now)
    if not because:
        return None
    return answer(case, Action.ESCALATE, "R19", because, proposes=PROPOSES)


def newest_resumable(run: Run, check: CheckRecorded) -> Checkpoint | None:
    """Return the validated checkpoint with the highest step that still exists."""
    there = [
        run.checkpoints.validated[s]
        for s in check.checkpoints_complete
        if s in run.checkpoints.validated
    ]
    there = [one for one in there if is_resumable(run, one)]
    return max(there, key=lambda checkpoint: checkpoint.step, default=None)


def is_resumable(run: Run, checkpoint: Checkpoint) -> bool:
    """Say whether a relaunch may resume from a validated checkpoint."""
    return not doubt_about(run, checkpoint) and bad_from(run, checkpoint) is None


def launch_source(run: Run) -> Checkpoint | None:
    """Return the checkpoint that initialized the newest instance, if the contract names it.

    A run that dies before its first checkpoint starts from there again. The launch gate found it
    complete (L6), and checks it again before a relaunch.
    """
    newest = run.instances[-1].plan
    stated = contract_of(run).initialize_from.rstrip("/")
    if newest.resume_step is None or not stated or newest.resume_from != stated:
        return None
    if run.checkpoints.validated:
        return None  # An empty listing does not prove that the run's own checkpoints are gone.
    return Checkpoint(newest.resume_step, newest.resume_from, CheckpointKind.PERMANENT, version=0)


def _r14_planned(case: Case) -> DecisionMade | None:
    """R14: an end during an announced act belongs to that act; a human continues."""
    end = case.run.instances[-1].end
    ended = end.ended_at if end is not None and end.ended_at is not None else case.now
    act = act_around(case.run, (ended, case.now))
    if act is None:
        return None
    because = (
        f"it ended in the window of the planned act {act.act} ({act.kind.value}: {act.reason}): a "
        "planned stop to confirm, so nothing relaunches it by itself"
    )
    return answer(case, Action.ESCALATE, "R14", because, describe_act(act))


def _r13(case: Case) -> DecisionMade | None:
    end = case.run.instances[-1].end
    left = end.attempts_left if end is not None else None
    if contract_of(case.run).retries.owner != "orchestrator" or not left:
        return None
    repeats = repeats_at_end(case)
    if repeats is not None:
        return ask_at_end(case, repeats)
    because = f"the orchestrator owns retries and has {left} left"
    return answer(case, Action.WAIT, "R13", because)


def _r19_owner(case: Case) -> DecisionMade | None:
    owner = contract_of(case.run).retries.owner
    if owner == "watchkeeper":
        return None
    because = "the orchestrator owns retries and has none left; watchkeeper must not relaunch"
    if owner is None:
        because = "nobody is named as the owner of retries (retries.owner); nothing relaunches"
    return answer(case, Action.ESCALATE, "R19", because)


def _r9(case: Case) -> DecisionMade | None:
    """R9: no relaunch while the run logs under another identity than agreed."""
    drift = case.run.health.findings.get(DRIFTED)
    if drift is not None:
        return answer(case, Action.ESCALATE, "R9", drift.summary, *drift.evidence)
    # A planned act silences the finding, but a relaunch would log to the wrong place again.
    lines = identity_drift(case.run, case.check)
    if not lines:
        return None
    return answer(case, Action.ESCALATE, "R9", drift_summary(case.run, lines), *lines)


def _r11(case: Case) -> DecisionMade | None:
    """R11: a wrong start may have overwritten the lineage, or the lineage forbids resuming."""
    mismatch = resume_mismatch(case.run, case.run.instances[-1], case.check)
    if mismatch is None and "H17" in case.failure.findings:
        mismatch = "started elsewhere than was decided (H17 was open), and nobody can tell now"
    forbidden = shows_forbidden(case.check)
    fresh = supersede_command(case.run.slug)
    if mismatch or forbidden:
        what = mismatch or f"showed {forbidden}"
        because = f"{case.failure.instance} {what}, so the lineage is not known to be intact"
        proposes = (
            f"Go on as a new run with its own run id, tracker id and output root: {fresh}; or "
            "relaunch, where you know that nothing was written over"
        )
        lines = case.check.startup.forbidden
        return answer(case, Action.ESCALATE, "R11", because, *lines, proposes=proposes)
    if not forbids_resuming(contract_of(case.run)):
        return None
    because = "the resume policy is `never`: going on needs a new run id, which a human chooses"
    proposes = (
        "Draft a contract with another run id, tracker id and output root and an `initialize_from` "
        f"of this run, then {fresh}?"
    )
    return answer(case, Action.ESCALATE, "R11", because, proposes=proposes)


def _r19_approval(case: Case, decided: DecisionMade) -> DecisionMade:
    """Ask a human for the relaunch that R1 would decide, if each one needs an approval."""
    because = (
        "a human approves each relaunch of this run (policy.approvals is each); "
        f"R1 would decide: {decided.because}"
    )
    cited = decided.evidence[1 + len(case.evidence) :]
    return answer(case, Action.ESCALATE, "R19", because, *cited)


def no_checkpoint(case: Case) -> DecisionMade:
    """Return the question about an end without a checkpoint (R10)."""
    because = "there is no complete, validated checkpoint to resume from"
    rejected = [f"{path}: {why}" for path, why in case.run.checkpoints.rejected.items()]
    if rejected:
        because = f"{because}; the newest that was refused is {rejected[-1]}"
    refused = refused_checkpoints(case.check, -1)
    return answer(case, Action.ESCALATE, "R10", because, *refused)


def refused_checkpoints(check: CheckRecorded, above: int) -> tuple[str, ...]:
    """Name the incomplete checkpoints above a step, each with its reason."""
    return tuple(
        f"step-{c.step} refused: {c.reason}" for c in check.checkpoints_incomplete if c.step > above
    )


def bad_checkpoints(run: Run) -> tuple[str, ...]:
    """Name the validated checkpoints that hold numbers which are not finite."""
    found = ((one.step, bad_from(run, one)) for one in run.checkpoints.validated.values())
    return tuple(f"step-{at} refused: NaN since step {since}" for at, since in found if since)


def _r1(case: Case, chosen: Checkpoint) -> DecisionMade:
    retries = contract_of(case.run).retries
    failure = case.failure
    used = len(charged(case.run, case.now)[0])
    first = "first failure with this fingerprint"
    if any(f.fingerprint == failure.fingerprint for f in case.run.ends.failures[:-1]):
        first = "seen before, with progress past it since"
    what = f"cause {failure.cause}: {OUTLOOK_SAYS[case.outlook]}"
    recoverable = {
        Outlook.RETRY: f"{failure.cause}: the infrastructure ended it, not the run",
        Outlook.RETRY_ONCE: f"it ended without a traceback, and may pass: {first}",
    }
    once = f"out of memory ({failure.cause}) for the first time: policy.oom allows one attempt"
    if failure.cause in OUT_OF_MEMORY:
        what, recoverable = once, {case.outlook: f"{once}, with nothing changed"}
    decided = answer(
        case,
        Action.RELAUNCH,
        "R1",
        f"{what}; relaunch under the same identity "
        f"from step-{chosen.step}. {first.capitalize()}; budget {used + 1} of {retries.budget} "
        f"in {render_duration(retries.window)}{machines_lost_before(case)}",
        _witness(chosen),
    )
    return decided.model_copy(
        update={
            "resume_path": chosen.path,
            "resume_step": chosen.step,
            "recoverable": recoverable.get(case.outlook, "a human decided"),
            "refused": (*refused_checkpoints(case.check, chosen.step), *bad_checkpoints(case.run)),
            "proves": f"progress past {place_of(failure)} rules a deterministic failure there out",
            "hypotheses": cause_of(failure.cause).hypotheses,
        }
    )


def _nodes_left(case: Case) -> str:
    """Warn that a relaunch changes no machine, if no single bad node is known."""
    nodes = nodes_of(case)
    if case.failure.cause != "tpu_bad_node" or len(nodes) == 1:
        return ""
    if not nodes:
        return "; no line names the bad node, so none is excluded"
    return (
        f"; nothing excludes the bad nodes {', '.join(nodes)}: somebody who knows that they "
        "are bad must delete them"
    )


def _witness(chosen: Checkpoint) -> str:
    if chosen.version:
        return f"checkpoint: event {chosen.version}"
    return "checkpoint: the contract's initialize_from, as there is none of this run yet"


def resumable_on_record(case: Case) -> Checkpoint | None:
    """Return the checkpoint for a person's relaunch, even without a listing in the last check."""
    if source_is_fresh(case.check, "checkpoints"):
        return newest_resumable(case.run, case.check) or launch_source(case.run)
    validated = [c for c in case.run.checkpoints.validated.values() if is_resumable(case.run, c)]
    return max(validated, key=lambda checkpoint: checkpoint.step, default=None)


def relaunch_on_answer(case: Case, question: str) -> DecisionMade:
    """Relaunch because a human's answer says so; the human judges budget and outlook.

    If the last check had no listing, the newest checkpoint ever validated is chosen. The gate (L6)
    verifies that it is complete before a launch, or asks again.

    Returns:
        The decision, or an escalation when there is no checkpoint (R10).
    """
    chosen = resumable_on_record(case)
    if chosen is None:
        return no_checkpoint(case)
    decided = _r1(case, chosen)
    return decided.model_copy(
        update={
            "rule": "R19",
            "because": f"a human answered {question}: relaunch from step-{chosen.step}"
            f"{_nodes_left(case)}",
            "recoverable": f"a human judged it recoverable in answer to {question}",
        }
    )


def attributed_to_consent(decided: DecisionMade, run: Run, used: ConsentUsed) -> DecisionMade:
    """Attribute a relaunch on an answer to the rule that asked for the consent (R7, R16)."""
    before = run.phase.decision if isinstance(run.phase, Interrupted) else None
    assert before is not None, "the answer is to a decision"
    because = f"{decided.because}; {used.action} {used.target} was consented to as {used.consent}"
    return decided.model_copy(
        update={
            "rule": before.rule,
            "because": because,
            "evidence": (*decided.evidence, f"consent {used.consent}"),
        }
    )


def relaunch_what_never_ran(plan: LaunchPlan, question: str) -> DecisionMade:
    """Launch a plan again, from its original start, after the orchestrator refused it."""
    return DecisionMade(
        instance=plan.instance,
        action=Action.RELAUNCH,
        rule="R19",
        because=f"a human answered {question}: launch again what the orchestrator refused",
        evidence=(f"{plan.instance} never ran, so it wrote nothing",),
        resume_path=plan.resume_from,
        resume_step=plan.resume_step,
        recoverable=f"a human judged it recoverable in answer to {question}",
    )


TABLE: tuple[RecoveryRow, ...] = (
    RecoveryRow((R4,), r4),
    RecoveryRow((R14,), _r14_planned),
    RecoveryRow((R14,), r14_stopped),
    RecoveryRow((R14,), r14_by_its_words),
    RecoveryRow((R13, R2), _r13),
    RecoveryRow((R19,), _r19_owner),
    RecoveryRow((R9,), _r9),
    RecoveryRow((R8,), r8),
    RecoveryRow((R12,), r12),
    RecoveryRow((R5,), r5),
    RecoveryRow((R6, R12), r6),
    RecoveryRow((R16,), r16),
    RecoveryRow((R7,), r7),
    RecoveryRow((R19,), r19_outlook),
    RecoveryRow((R11,), _r11),
    RecoveryRow((R19,), r19_other_writer),
    RecoveryRow((R2,), r2),
    RecoveryRow((R19,), r19_retried),
    RecoveryRow((R3,), r3),
)
"""All rules that an end must pass before a relaunch, in this order."""
