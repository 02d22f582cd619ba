"""The events that follow from a check: findings, ends, causes and decisions.

These functions read the recorded check and the run, never the observation. So decisions can be
replayed from events alone.
"""

from typing import TypeGuard

from watchkeeper.domain.reading.named_places import bad_nodes, nodes_of_end
from watchkeeper.domain.reading.triage.attempt_evidence import attempt_claims, cause_by_demand
from watchkeeper.domain.reading.triage.classify import cause_from_other_sources, classify
from watchkeeper.domain.rules.ends.advised import proposal_for
from watchkeeper.domain.rules.ends.case import Case
from watchkeeper.domain.rules.ends.hypotheses import judged_by_end, judged_by_progress
from watchkeeper.domain.rules.ends.job_retries import retried
from watchkeeper.domain.rules.ends.live import answer_to
from watchkeeper.domain.rules.ends.recovery import newest_resumable, recover
from watchkeeper.domain.rules.ends.repeat_failure import charged
from watchkeeper.domain.rules.ends.resume_proof import resume_events
from watchkeeper.domain.rules.ends.revision import revised_by_attempts
from watchkeeper.domain.rules.ends.success import (
    alerts_at_success,
    has_reached_the_end,
    question_about_record,
    question_about_short_success,
    verify_end,
    verify_success,
)
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.freshness import cleared_by_check
from watchkeeper.domain.rules.health.identity import announcements
from watchkeeper.domain.rules.health.registry import (
    FindingChange,
    detector_answers,
    finding_changes_at,
    identity_changes_at,
    lasting_changes_at,
    number_changes_at,
)
from watchkeeper.domain.rules.health.start import WRONG_STARTS
from watchkeeper.domain.rules.operator.lost import lost_command
from watchkeeper.domain.rules.operator.planned import acts_over
from watchkeeper.domain.rules.operator.relaunching import decide_answered, decide_asked
from watchkeeper.domain.rules.shared.apply_pending import apply_pending
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.signals.receiving import cause_by_witnesses, witnesses
from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import (
    Action,
    DecisionMade,
    FailureClassified,
    RunFinished,
    RunStopped,
)
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.health import (
    DRIFTED,
    UNACCOUNTED,
    FindingOpened,
    FindingRaised,
    OpenFinding,
)
from watchkeeper.domain.run.launch import InstanceEnded
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.operator import RelaunchRequested
from watchkeeper.domain.run.phases import Interrupted
from watchkeeper.domain.run.queries import (
    end_at,
    escalation_of,
    requested_end,
    source_is_fresh,
    stopping_point,
)
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, contract_of, dri_of
from watchkeeper.domain.run.unverified_checkpoints import (
    NOBODY_NAMES_IT,
    is_older_than_the_run,
    validated_since_asked,
)
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL, UNACCOUNTABLE, JobFacts, JobState
from watchkeeper.domain.values.causes import NUMBERS_WRONG, is_lasting, is_record_wrong
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.lane_policy import policy_of
from watchkeeper.domain.values.exits import describe_end
from watchkeeper.domain.values.instance import Instance


def events_after_check(
    run: Run,
    instance: Instance,
    check: CheckRecorded,
    command: Command,
    answers: tuple[DetectorAnswer, ...] | None = None,
) -> list[RunEvent]:
    """Return the events that follow from a check.

    Args:
        run: The run with the check folded in.
        instance: The checked instance, in its state before the check.
        check: The check.
        command: For the time and the actor.
        answers: The detectors' answers if they already ran at this check; `None` if a recorded
            check is judged again.
    """
    # A planned act ends after the events that it explains. So an end in its window still belongs to
    # it.
    return [*_verdict(run, instance, check, command, answers), *acts_over(run, command.now)]


def _verdict(
    run: Run,
    instance: Instance,
    check: CheckRecorded,
    command: Command,
    answers: tuple[DetectorAnswer, ...] | None,
) -> list[RunEvent]:
    events: list[RunEvent] = [*_checkpoints(run, check), *announcements(run, check)]
    if isinstance(run.phase, Interrupted):
        events += cleared_by_check(run)
        decides = _decide_again if run.phase.decision is None else _decide_on_validated
        events += decides(apply_pending(run, events, command), check, command)
        return events
    job = check.job
    if job is not None and (job.state in TERMINAL or _given_up(run, check, job)):
        return events + _end(apply_pending(run, events, command), check, job, command)
    if answers is None:
        answers = detector_answers(run, instance, check, command.now)
    for change in finding_changes_at(run, answers, command.now):
        # The decision on a finding follows it directly, in history and logbook.
        events.append(change)
        if _needs_notice(change):
            events += _notify(apply_pending(run, events, command), change, check)
    events += judged_by_progress(run, check)
    events += resume_events(apply_pending(run, events, command), check)
    after = apply_pending(run, events, command)
    spent = len(charged(after, command.now)[0])
    events += retried(after, instance, check, spent, command.now)
    after = apply_pending(run, events, command)
    point = stopping_point(after, check, command.now)
    return events + end_at(after, point, check) if point else events


def _needs_notice(change: FindingChange) -> TypeGuard[OpenFinding]:
    """Say whether to notify of a change: once for a finding, and once when it becomes an alert."""
    if isinstance(change, FindingRaised):
        return change.severity is Severity.ALERT and change.before is not Severity.ALERT
    return isinstance(change, FindingOpened)


def _given_up(run: Run, check: CheckRecorded, job: JobFacts) -> bool:
    """Say whether a human asked to end a job that the orchestrator cannot account for.

    Without a human such a job never counts as ended: a missing answer does not prove that nothing
    runs.
    """
    lost = job.state in UNACCOUNTABLE
    # The human knew that the job was lost. A stop of a running job is a weaker consent.
    return lost and run.operator.given_up == check.instance


def _checkpoints(run: Run, check: CheckRecorded) -> list[CheckpointValidated | CheckpointRejected]:
    made: list[CheckpointValidated | CheckpointRejected] = []
    for found in check.new_checkpoints:
        if found.metadata_step != found.step:
            said = found.metadata_step
            reason = f"its metadata says step {said}"
            if said is None:
                reason = NOBODY_NAMES_IT
        elif is_older_than_the_run(run, found.written_at):
            reason = "written before this run's first launch, so by another run"
        else:
            reason = ""
        if reason:
            # The time is kept so that a later write under this path is judged again.
            made.append(
                CheckpointRejected(
                    step=found.step, path=found.path, reason=reason, written_at=found.written_at
                )
            )
            continue
        made.append(
            CheckpointValidated(
                instance=check.instance,
                step=found.step,
                path=found.path,
                kind=found.kind,
                written_at=found.written_at,
            )
        )
    return made


def _end(run: Run, check: CheckRecorded, job: JobFacts, command: Command) -> list[RunEvent]:
    # The check is folded in, so this is the highest step that any source ever showed.
    step, uncertainty = run.instances[-1].step_best, run.instances[-1].step_uncertainty
    ended = InstanceEnded(instance=check.instance, job=job, step=step, step_uncertainty=uncertainty)
    succeeded = job.state is JobState.SUCCEEDED
    if succeeded:
        return _success(run, check, ended, command)
    events: list[RunEvent] = [ended]
    over = run.operator.stop_requested == check.instance
    # Findings are about a live instance; the next one is judged from scratch. A drifted identity
    # stays open, because the next instance would continue under it. Findings about the record stay
    # open if a person stopped the run, because it may be sealed.
    events += [
        cleared(run, found.kind, found.rule, f"{check.instance} ended")
        for found in run.health.findings.values()
        if found.kind != DRIFTED and not (over and is_record_wrong(found.rule, found.kind))
    ]
    if over:
        decision = DecisionMade(
            instance=check.instance,
            action=Action.LEAVE,
            rule="R14",
            because=f"not relaunched: stopped by {run.operator.stop_reason}",
            evidence=(describe_end(job),),
        )
        return [*events, decision, RunStopped(reason=f"stopped by {run.operator.stop_reason}")]
    planned = _as_asked(apply_pending(run, events, command), check)
    if planned is not None:
        return events + planned
    ended_at = job.ended_at or command.now
    wrong = _wrong_numbers(run, check, command)
    found = attempt_claims(classify(job, check), check, job)
    if run.instances[-1].step_best is None:  # An instance that trained had its machines.
        found = cause_by_demand(found, check, job)
    found = cause_from_other_sources(found, check, cause_by_witnesses(run, ended_at))
    # A short instance may have ended before its first check.
    events += identity_changes_at(run, check, command.now)
    evidence = (*found.evidence, *(text for rule, text in wrong if rule in NUMBERS_WRONG))
    bad = found.cause == "tpu_bad_node"
    events.append(
        FailureClassified(
            instance=check.instance,
            cause=found.cause,
            outlook=found.outlook,
            fingerprint=found.fingerprint,
            evidence=(*evidence, *witnesses(run, ended_at)),
            step=step,
            step_uncertainty=uncertainty,
            confidence=found.confidence,
            rules=found.rules,
            secondary=found.secondary,
            task=found.task,
            nodes=bad_nodes(check, found.evidence) if bad else nodes_of_end(check),
            findings=tuple(sorted({rule for rule, _ in wrong})),
        )
    )
    after = apply_pending(run, events, command)
    return [*events, *_decide(after, check, evidence, command), *judged_by_end(after)]


def _success(
    run: Run, check: CheckRecorded, ended: InstanceEnded, command: Command
) -> list[RunEvent]:
    """Verify a success (R15), and ask about a wrong record or wrong numbers that it leaves open."""
    answers = detector_answers(run, run.instances[-1], check, command.now)
    events: list[RunEvent] = [*lasting_changes_at(run, answers)]
    run = apply_pending(run, events, command)
    events += alerts_at_success(run, check, ended.job)
    events += question_about_record(apply_pending(run, events, command), check)
    asked = apply_pending(run, events, command)
    return [
        *events,
        ended,
        *(
            cleared(run, found.kind, found.rule, f"{check.instance} ended")
            for found in run.health.findings.values()
            if not is_lasting(found.rule, found.kind)
        ),
        verify_success(check.instance, ended.job),
        RunFinished(instance=check.instance, step=ended.step),
        *question_about_short_success(asked, check, ended.job),
    ]


def _wrong_numbers(run: Run, check: CheckRecorded, command: Command) -> list[tuple[str, str]]:
    """Return rules and texts of wrong numbers, open at the end or opening at the last check."""
    answers = detector_answers(run, run.instances[-1], check, command.now)
    opened = [one for one in number_changes_at(run, answers) if isinstance(one, FindingOpened)]
    return [
        (found.rule, f"{found.rule} open: {found.summary}")
        for found in (*run.health.findings.values(), *opened)
    ]


def _decide_again(run: Run, check: CheckRecorded, command: Command) -> list[RunEvent]:
    """Decide on an end whose decision waited for a source."""
    planned = _as_asked(run, check)
    if planned is not None:
        return planned
    if not run.ends.failures or run.ends.failures[-1].instance != check.instance:
        return []
    revised: list[RunEvent] = [*revised_by_attempts(run, check)]
    if revised:
        run = apply_pending(run, revised, command)
    evidence = (
        f"decided late: a source was unavailable since event {run.ends.failures[-1].version}",
    )
    return revised + _decide(run, check, evidence, command)


def ended_badly(check: CheckRecorded) -> bool:
    """Say whether the orchestrator says at a check that the instance ended badly."""
    ended = check.job is not None and check.job.state in (JobState.FAILED, JobState.STOPPED)
    return ended and source_is_fresh(check, "orchestrator")


def _decide_on_validated(run: Run, check: CheckRecorded, command: Command) -> list[RunEvent]:
    """Decide again on an end that R10 asked about, because a checkpoint appeared.

    For example, its metadata was read late. A human's request resumes from the checkpoint;
    otherwise all rules run again. Nothing is decided until the orchestrator reports the end again.
    """
    chosen = newest_resumable(run, check) if source_is_fresh(check, "checkpoints") else None
    if chosen is None or chosen not in validated_since_asked(run) or not ended_badly(check):
        return []
    asked = decide_answered(run)
    if asked is not None:
        return [] if isinstance(asked, Refused) else asked
    if not run.ends.failures or run.ends.failures[-1].instance != check.instance:
        return []
    since = (
        f"decided again: step-{chosen.step} was validated since event {run.ends.judgement.decided}"
    )
    return _decide(run, check, (since,), command)


def _decide(
    run: Run, check: CheckRecorded, evidence: tuple[str, ...], command: Command
) -> list[RunEvent]:
    verified = _verified_at_the_end(run, check)
    if verified:
        return verified
    decision = recover(Case(run, run.ends.failures[-1], evidence, check, command.now))
    if decision is None:
        return []
    return [decision, *escalation_of(run, decision), *proposal_for(run, decision)]


def _as_asked(run: Run, check: CheckRecorded) -> list[RunEvent] | None:
    """Return the events that a person's request causes at an end; `None` without a request.

    A relaunch at the final step could only train beyond it, so the end is verified instead.
    """
    if isinstance(requested_end(run), RelaunchRequested):
        verified = _verified_at_the_end(run, check)
        if verified:
            return verified
    return decide_asked(run, check)


def _verified_at_the_end(run: Run, check: CheckRecorded) -> list[RunEvent]:
    """Return the verification of an end at the final step, whatever the orchestrator calls it."""
    instance = run.instances[-1]
    if instance.end is None or not has_reached_the_end(run, check):
        return []
    verified = verify_end(run, check.instance, instance.end)
    return [verified, RunFinished(instance=check.instance, step=instance.step_best)]


def _notify(run: Run, found: OpenFinding, check: CheckRecorded) -> list[RunEvent]:
    """Decide whom to notify of a finding on a live instance, and ask if it is an alert (R17)."""
    decision = answer_to(found, check)
    if decision.action is not Action.ALERT:
        return [decision]
    return [decision, *_ask(run, found.rule, found.summary, found, decision.proposes)]


def _ask(
    run: Run, rule: str, summary: str, finding: OpenFinding, first: str
) -> list[EscalationRaised]:
    wrong = finding.kind in WRONG_STARTS
    ends = wrong and policy_of(contract_of(run)).startup_forbidden == "end_with_consent"
    asks = _what_now(run, summary, first)
    if ends:
        asks = f"{summary}. Nothing was done; {_end_it(run)}?"
    if finding.kind == UNACCOUNTED:
        asks = f"{summary}. Nothing was done; {lost_command(run)}; or {_end_it(run)} for good"
    question = EscalationRaised(
        question=f"q-{run.questions.raised + 1}",
        rule=rule,
        to=dri_of(run),
        asks=asks,
        evidence=finding.evidence,
    )
    return [question]


def _what_now(run: Run, summary: str, first: str) -> str:
    if not first:
        return f"{summary}. Nothing was done; what now?"
    return f"{summary}. {first}; nothing was done: {_end_it(run)}?"


def _end_it(run: Run) -> str:
    return f"end it with `watchkeeper stop {run.slug} --reason ...`"
