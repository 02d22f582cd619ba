"""What to do after a bad end: the R rules, in one order, the first that holds decides.

The order is the safety argument: what forbids a relaunch is asked before what allows one, and
whatever no rule covers goes to a human (R19).
"""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.check import source_is_fresh
from watchkeeper.domain.detectors import resume_mismatch
from watchkeeper.domain.durations import render_duration
from watchkeeper.domain.events import Action, CheckRecorded, DecisionMade, Outlook
from watchkeeper.domain.lane_policy import forbids_resuming, policy_of
from watchkeeper.domain.memory import OUT_OF_MEMORY
from watchkeeper.domain.plan import LaunchPlan
from watchkeeper.domain.planned import describe_act, holding
from watchkeeper.domain.receiving import doubted
from watchkeeper.domain.repeated import in_same_window, is_past
from watchkeeper.domain.startup_lines import shows_forbidden
from watchkeeper.domain.state import DRIFTED, Checkpoint, Failure, Run, contract_of
from watchkeeper.domain.values import CheckpointKind


@dataclass(frozen=True, slots=True)
class Case:
    """What the rules look at.

    Attributes:
        run: The run, with the failure folded in as its newest.
        failure: The end to answer.
        evidence: The failure's own evidence.
        check: The newest check of the instance that ended.
        now: The time of the decision.
    """

    run: Run
    failure: Failure
    evidence: tuple[str, ...]
    check: CheckRecorded
    now: datetime


def recover(case: Case) -> DecisionMade | None:
    """Choose what to do about a bad end.

    Returns:
        The decision, or none while a source that it needs gives no answer: an empty or failed
        answer is not proof of anything.
    """
    rules = (
        _r14_planned,
        _r13,
        _r19_owner,
        _r9,
        _r6_memory,
        _r19_outlook,
        _r19_lineage,
        _r2,
        _r19_retried,
        _r3,
        _r19_resume_policy,
    )
    for rule in rules:
        decision = rule(case)
        if decision is not None:
            return decision
    if not source_is_fresh(case.check, "checkpoints"):
        return None
    chosen = newest_resumable(case.run, case.check) or launch_source(case.run)
    if chosen is None:
        return _r10(case)
    decided = _r1(case, chosen)
    asked_first = policy_of(contract_of(case.run)).approvals == "each"
    return _r19_approval(case, decided) if asked_first else decided


def newest_resumable(run: Run, check: CheckRecorded) -> Checkpoint | None:
    """Return the newest validated checkpoint that is still there, by numeric step."""
    there = [run.checkpoints[s] for s in check.checkpoints_complete if s in run.checkpoints]
    there = [one for one in there if not doubted(run, one)]
    return max(there, key=lambda checkpoint: checkpoint.step, default=None)


def launch_source(run: Run) -> Checkpoint | None:
    """Return what the newest instance was initialized from, when that is the contract's own.

    A run that dies before its first checkpoint goes on from there again: the launch gate found
    it complete (L6), and looks again before anything is relaunched.
    """
    newest = run.instances[-1].plan
    stated = contract_of(run).initialize_from.rstrip("/")
    if newest.resume_step is None or not stated or newest.resume_from != stated:
        return None
    if run.checkpoints:
        return None  # It wrote some of its own: an empty listing is no proof that they are gone.
    return Checkpoint(newest.resume_step, newest.resume_from, CheckpointKind.PERMANENT, version=0)


def _decision(case: Case, action: Action, rule: str, because: str, *more: str) -> DecisionMade:
    cited = (f"event {case.failure.version}", *case.evidence, *more)
    return DecisionMade(
        instance=case.failure.instance,
        action=action,
        rule=rule,
        because=because,
        evidence=cited,
    )


def _r14_planned(case: Case) -> DecisionMade | None:
    """An end in the window of an announced act is that act's own: a human goes on from there."""
    end = case.run.instances[-1].end
    ended = end.ended_at if end is not None and end.ended_at is not None else case.now
    act = holding(case.run, (ended, case.now))
    if act is None:
        return None
    because = (
        f"it ended in the window of the planned act {act.act} ({act.kind.value}: {act.reason}), "
        "so nothing relaunches it by itself"
    )
    return _decision(case, Action.ESCALATE, "R14", because, describe_act(act))


def _r13(case: Case) -> DecisionMade | None:
    end = case.run.instances[-1].end
    left = end.attempts_left if end is not None else None
    if contract_of(case.run).retries.owner != "orchestrator" or not left:
        return None
    because = f"the orchestrator owns retries and has {left} left"
    return _decision(case, Action.WAIT, "R13", because)


def _r19_owner(case: Case) -> DecisionMade | None:
    owner = contract_of(case.run).retries.owner
    if owner == "watchkeeper":
        return None
    because = "the orchestrator owns retries and has none left; watchkeeper must not relaunch"
    if owner is None:
        because = "nobody is named as the owner of retries (retries.owner); nothing relaunches"
    return _decision(case, Action.ESCALATE, "R19", because)


def _r9(case: Case) -> DecisionMade | None:
    """While it logs elsewhere than agreed, no relaunch: it would write on in the wrong place."""
    drift = case.run.findings.get(DRIFTED)
    if drift is None:
        return None
    return _decision(case, Action.ESCALATE, "R9", drift.summary, *drift.evidence)


def _r6_memory(case: Case) -> DecisionMade | None:
    """Out of memory: the DRI is asked, at once or after the one attempt that `policy.oom` allows.

    The attempt changes nothing: another batch size or mesh is another trajectory.
    """
    cause = case.failure.cause
    if cause not in OUT_OF_MEMORY:
        return None
    if policy_of(contract_of(case.run)).oom == "ask":
        because = f"out of memory ({cause}), which is never retried unasked (policy.oom is ask)"
        return _decision(case, Action.ESCALATE, "R6", because)
    earlier = [f for f in case.run.failures[:-1] if f.cause in OUT_OF_MEMORY]
    if not earlier:
        return None
    because = (
        f"out of memory again ({cause}): the one attempt that policy.oom allows was made after "
        f"{earlier[-1].instance}"
    )
    return _decision(case, Action.ESCALATE, "R12", because, f"event {earlier[-1].version}")


def _r19_outlook(case: Case) -> DecisionMade | None:
    failure = case.failure
    may_pass = failure.outlook in (Outlook.RETRY, Outlook.RETRY_ONCE)
    if may_pass or failure.cause in OUT_OF_MEMORY:
        return None
    because = (
        f"cause {failure.cause}, outlook {failure.outlook.value}: the next step needs judgement"
    )
    return _decision(case, Action.ESCALATE, "R19", because)


def _r19_lineage(case: Case) -> DecisionMade | None:
    """R1 asks for an intact lineage; what trained on from elsewhere may have written over it."""
    mismatch = resume_mismatch(case.run.instances[-1], case.check)
    forbidden = shows_forbidden(case.check)
    if not mismatch and not forbidden:
        return None
    what = mismatch or f"showed {forbidden}"
    because = f"{case.failure.instance} {what}, so the lineage is not known to be intact"
    return _decision(case, Action.ESCALATE, "R19", because, *case.check.startup.forbidden)


def _r2(case: Case) -> DecisionMade | None:
    for earlier in reversed(case.run.failures[:-1]):
        same = earlier.fingerprint == case.failure.fingerprint
        if same and not is_past(case.failure, earlier):
            because = f"the same failure came back without progress past {_place(earlier)}"
            return _again(case, earlier, because)
        if in_same_window(case.failure, earlier):
            because = f"a second failure in the same window as {earlier.instance}'s"
            return _again(case, earlier, because)
    return None


def _r19_retried(case: Case) -> DecisionMade | None:
    """R1 retries such an end once: what comes back, though later on, needs judgement."""
    failure = case.failure
    seen = [f for f in case.run.failures[:-1] if f.fingerprint == failure.fingerprint]
    if failure.outlook is not Outlook.RETRY_ONCE or not seen:
        return None
    because = (
        f"the same failure as {seen[-1].instance}'s came back, though with progress past "
        f"{_place(seen[-1])}: it was to be retried once"
    )
    return _again(case, seen[-1], because).model_copy(update={"rule": "R19"})


def _again(case: Case, earlier: Failure, because: str) -> DecisionMade:
    compared = (
        f"{earlier.instance} and {case.failure.instance} ended at {_place(earlier)} and "
        f"{_place(case.failure)} with fingerprints {earlier.fingerprint} and "
        f"{case.failure.fingerprint} (events {earlier.version} and {case.failure.version})"
    )
    return _decision(case, Action.ESCALATE, "R2", because, compared)


def _place(failure: Failure) -> str:
    return "an unknown step" if failure.step is None else f"~{failure.step}"


def _r3(case: Case) -> DecisionMade | None:
    retries = contract_of(case.run).retries
    # What a human asked for, or answered with, is no restart by rule.
    recent = [at for at in case.run.restarts if at > case.now - retries.window]
    if len(recent) < retries.budget:
        return None
    because = (
        f"the restart budget is used up: {len(recent)} of {retries.budget} "
        f"in {render_duration(retries.window)}"
    )
    return _decision(case, Action.ESCALATE, "R3", because)


def _r19_resume_policy(case: Case) -> DecisionMade | None:
    if not forbids_resuming(contract_of(case.run)):
        return None
    because = "the resume policy is `never`: going on needs a new run id, which a human chooses"
    return _decision(case, Action.ESCALATE, "R19", because)


def _r19_approval(case: Case, decided: DecisionMade) -> DecisionMade:
    """Ask a human for the relaunch that R1 would decide, where each needs an approval."""
    because = (
        "a human approves each relaunch of this run (policy.approvals is each); "
        f"R1 would decide: {decided.because}"
    )
    cited = decided.evidence[1 + len(case.evidence) :]
    return _decision(case, Action.ESCALATE, "R19", because, *cited)


def _r10(case: Case) -> DecisionMade:
    because = "there is no complete, validated checkpoint to resume from"
    return _decision(case, Action.ESCALATE, "R10", because, *refused_checkpoints(case.check, -1))


def refused_checkpoints(check: CheckRecorded, above: int) -> tuple[str, ...]:
    """Name the incomplete checkpoints above a step, each with its reason."""
    return tuple(
        f"step-{c.step} refused: {c.reason}" for c in check.checkpoints_incomplete if c.step > above
    )


def _r1(case: Case, chosen: Checkpoint) -> DecisionMade:
    retries = contract_of(case.run).retries
    failure = case.failure
    used = len([at for at in case.run.restarts if at > case.now - retries.window])
    first = "first failure with this fingerprint"
    if any(f.fingerprint == failure.fingerprint for f in case.run.failures[:-1]):
        first = "seen before, with progress past it since"
    what = f"{failure.cause}, outlook {failure.outlook.value}"
    recoverable = {
        Outlook.RETRY: f"{failure.cause}: the infrastructure ended it, not the run",
        Outlook.RETRY_ONCE: f"it ended without a traceback, and may pass: {first}",
    }
    once = f"out of memory ({failure.cause}) for the first time: policy.oom allows one attempt"
    if failure.cause in OUT_OF_MEMORY:
        what, recoverable = once, {failure.outlook: f"{once}, with nothing changed"}
    return DecisionMade(
        instance=failure.instance,
        action=Action.RELAUNCH,
        rule="R1",
        because=(
            f"{what}; relaunch under the same identity "
            f"from step-{chosen.step}. {first.capitalize()}; budget {used + 1} of {retries.budget} "
            f"in {render_duration(retries.window)}"
        ),
        evidence=(
            f"event {failure.version}",
            *case.evidence,
            _witness(chosen),
        ),
        resume_path=chosen.path,
        resume_step=chosen.step,
        recoverable=recoverable.get(failure.outlook, "a human decided"),
        refused=refused_checkpoints(case.check, chosen.step),
        proves=f"progress past {_place(failure)} rules a deterministic failure there out",
    )


def _witness(chosen: Checkpoint) -> str:
    if chosen.version:
        return f"checkpoint: event {chosen.version}"
    return "checkpoint: the contract's initialize_from, as there is none of this run yet"


def relaunch_on_answer(case: Case, question: str) -> DecisionMade:
    """Relaunch because a human answered a question so; budget and outlook are theirs to judge.

    Where the last check had no listing, the newest checkpoint ever validated is chosen: the gate
    (L6) finds it there and complete before anything is launched, or asks again.

    Returns:
        The decision, or an escalation when there is no checkpoint (R10).
    """
    if source_is_fresh(case.check, "checkpoints"):
        chosen = newest_resumable(case.run, case.check) or launch_source(case.run)
    else:
        validated = [c for c in case.run.checkpoints.values() if not doubted(case.run, c)]
        chosen = max(validated, key=lambda checkpoint: checkpoint.step, default=None)
    if chosen is None:
        return _r10(case)
    decided = _r1(case, chosen)
    return decided.model_copy(
        update={
            "rule": "R19",
            "because": f"a human answered {question}: relaunch from step-{chosen.step}",
            "recoverable": f"a human judged it recoverable in answer to {question}",
        }
    )


def relaunch_what_never_ran(plan: LaunchPlan, question: str) -> DecisionMade:
    """Launch again, from where it was to start, what the orchestrator had refused to take."""
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
