"""Runs all detectors: pure functions from a check to its findings."""

from datetime import datetime

from watchkeeper.domain.reading.progress.startup_lines import (
    is_past_start,
    lines_awaited,
    shows_forbidden,
)
from watchkeeper.domain.rules.health.capacity import (
    partial_allocation,
    pending,
    second_writer,
    stale_diagnostic,
    wrong_hardware,
)
from watchkeeper.domain.rules.health.checkpoints import (
    checkpoint_incomplete,
    checkpoints_stalled,
    rollback_coverage,
)
from watchkeeper.domain.rules.health.detection import Held
from watchkeeper.domain.rules.health.freshness import cleared_by_check
from watchkeeper.domain.rules.health.host import disk_low, mount_missing
from watchkeeper.domain.rules.health.identity import drift_summary, identity_drift, lineage_misfit
from watchkeeper.domain.rules.health.liveness import (
    degraded,
    monitor_blind,
    moves,
    not_training,
    tracker_silent,
)
from watchkeeper.domain.rules.health.log_signature import log_signature
from watchkeeper.domain.rules.health.metrics import metric_answers
from watchkeeper.domain.rules.health.own_retries import newest_then, own_retries, retry_mismatch
from watchkeeper.domain.rules.health.start import final_step, wrong_place
from watchkeeper.domain.run.health import (
    DRIFTED,
    UNACCOUNTED,
    FindingCleared,
    FindingOpened,
    FindingRaised,
)
from watchkeeper.domain.run.monitor_accuracy import CLEARED_ITSELF
from watchkeeper.domain.run.open_questions import cleared
from watchkeeper.domain.run.queries import earlier_of, expecting
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import UNACCOUNTABLE, JobState
from watchkeeper.domain.values.causes import NUMBERS_WRONG, is_lasting
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.instance import Instance

FORBIDDEN_LINE = "startup_forbidden"
"""The finding that a start showed a line that the contract forbids."""

LINE_MISSING = "startup_missing"
"""The finding that a start ended without a line that the contract expects."""

WRONG_STARTS = frozenset({"resume_mismatch", FORBIDDEN_LINE})
"""The findings of a wrong start, to which `policy.startup_forbidden` applies."""

FindingChange = FindingOpened | FindingRaised | FindingCleared
"""A change that a check makes to the findings of a run."""

EXPECTED_SHOWN_MAX = 8
"""Most expected texts named with a finding."""


def findings_at(run: Run, answers: tuple[Held, ...], now: datetime) -> list[FindingChange]:
    """Return which findings open and which clear at a check of a live instance.

    A finding that a planned act expects does not open; the check names it instead.

    Args:
        run: With its open findings.
        answers: The detectors' answers at the check; see `answers_at`.
        now: When the check is made.
    """
    return [*cleared_by_check(run), *changes_of(run, answers, now)]


def identity_at(run: Run, check: CheckRecorded, now: datetime) -> list[FindingChange]:
    """Return whether H2 opens or clears at a check; this also applies to an ended instance.

    Its tracker identity still matters after its end, because the next instance must not log there.
    """
    return changes_of(run, (_drifted(run, check),), now)


def changes_of(run: Run, answers: tuple[Held, ...], now: datetime | None) -> list[FindingChange]:
    """Return the changes that answers make to a run's findings.

    Args:
        run: With its open findings.
        answers: The detectors' answers.
        now: The time of the answers, for planned acts; none if no act may explain them.
    """
    changes: list[FindingChange] = []
    for answer in answers:
        known = run.findings.get(answer.kind)
        holds = answer.holds is True
        if holds and now is not None and expecting(run, answer.rule, now) is not None:
            continue
        if holds and known is None:
            changes.append(
                FindingOpened(
                    kind=answer.kind,
                    rule=answer.rule,
                    severity=answer.severity,
                    summary=answer.summary,
                    evidence=answer.evidence,
                    about=answer.about,
                )
            )
        if holds and known is not None:
            changes += _raised(known, answer)
        if answer.holds is False and known is not None:
            changes.append(cleared(run, answer.kind, answer.rule, CLEARED_ITSELF))
    return changes


def numbers_at(run: Run, answers: tuple[Held, ...]) -> list[FindingChange]:
    """Return the changes of a last check to the findings about wrong numbers (R4).

    No planned act silences them, because wrong numbers could be sealed or trained on.
    """
    return changes_of(run, tuple(one for one in answers if one.rule in NUMBERS_WRONG), None)


def lasting_at(run: Run, answers: tuple[Held, ...]) -> list[FindingChange]:
    """Return the changes of a last check to the findings that a success does not close."""
    lasting = tuple(one for one in answers if is_lasting(one.rule, one.kind))
    return changes_of(run, lasting, None)


def _raised(known: FindingOpened, answer: Held) -> list[FindingChange]:
    """Raise an open finding again if its severity rose or its subject changed."""
    louder = known.severity is Severity.NOTIFY and answer.severity is Severity.ALERT
    # A finding from an older version does not say what it is about.
    if not louder and known.about in ("", answer.about):
        return []
    return [
        FindingRaised(
            kind=answer.kind,
            rule=answer.rule,
            severity=Severity.ALERT if louder else known.severity,
            summary=answer.summary,
            evidence=answer.evidence,
            before=known.severity,
            about=answer.about,
        )
    ]


def expected_at(run: Run, answers: tuple[Held, ...], now: datetime) -> tuple[str, ...]:
    """Name the findings that hold but do not open, each with the act that expects it."""
    named: list[str] = []
    for answer in answers:
        if answer.holds is not True or answer.kind in run.findings:
            continue
        act = expecting(run, answer.rule, now)
        if act is not None:
            named.append(f"{answer.summary} ({answer.rule}, expected by {act.act})")
    return tuple(named)


def answers_at(
    run: Run, instance: Instance, check: CheckRecorded, now: datetime
) -> tuple[Held, ...]:
    """Ask every detector of a live instance once.

    Args:
        run: The run before or after the check is folded in; the answers are the same.
        instance: The instance that was looked at, as it was before the check.
        check: The check; its health and expected findings follow from the answers.
        now: When the check is made.
    """
    return (
        pending(run, instance, check, now),
        _resume_mismatch(run, instance, check),
        _unaccounted(instance, check),
        _drifted(run, check),
        lineage_misfit(run, check),
        _forbidden_line(check),
        _line_missing(run, instance, check, now),
        *_of_movement(run, instance, check, now),
        *metric_answers(run, check),
    )


def _of_movement(
    run: Run, instance: Instance, check: CheckRecorded, now: datetime
) -> tuple[Held, ...]:
    """Ask the detectors of progress and of the other sources."""
    return (
        not_training(run, check),
        monitor_blind(check),
        tracker_silent(run, check),
        degraded(run, instance, check),
        checkpoints_stalled(run, instance, check, now),
        checkpoint_incomplete(run, check, now),
        rollback_coverage(run, check, now),
        partial_allocation(run, instance, check, now),
        wrong_hardware(run, check),
        second_writer(run, instance, check),
        stale_diagnostic(run, instance, check),
        log_signature(check),
        disk_low(run, check),
        mount_missing(check),
        wrong_place(run, instance, check),
        final_step(run, check),
    )


def _resume_mismatch(run: Run, instance: Instance, check: CheckRecorded) -> Held:
    """H17: training resumed from another step than was decided."""
    said = check.startup.resumed_step
    unknown = said is None and not check.startup.scratch
    summary = resume_mismatch(run, instance, check)
    holds = None if unknown or summary is None else bool(summary)
    lines: tuple[str, ...] = (f"decided: step {instance.plan.resume_step}", f"the log says: {said}")
    if summary and (retries := own_retries(run, check)):
        known, at = newest_then(run, check, retries[-1]), f"{retries[-1].since:%Y-%m-%d %H:%M:%S}"
        lines += (f"a try failed at {at} or later; the newest checkpoint then: step {known}",)
    return Held("resume_mismatch", "H17", Severity.ALERT, holds, summary or "", lines)


def resume_mismatch(run: Run, instance: Instance, check: CheckRecorded) -> str | None:
    """Describe how training started elsewhere than decided; empty if nothing shows that.

    The orchestrator's own retry resumes from the newest checkpoint of its time, which nobody
    decided.

    Returns:
        None if a retry resumed and its correct start is unknown.
    """
    decided = instance.plan.resume_step
    said = check.startup.resumed_step
    retries = own_retries(run, check) if said not in (None, decided) else ()
    if retries:
        return retry_mismatch(run, check, retries)
    if decided is None:
        elsewhere = said is not None
        return f"resumed from step {said}, though nothing was to be resumed" if elsewhere else ""
    if said is None:
        scratch = f"started from scratch instead of step {decided}"
        return scratch if check.startup.scratch else ""
    return f"resumed from step {said} instead of step {decided}" if said != decided else ""


def _forbidden_line(check: CheckRecorded) -> Held:
    """H17: the log shows a line that a start must not show. It holds for the instance's life."""
    lines = check.startup.forbidden
    # A printed line cannot be taken back, so only the instance's end clears it.
    holds = True if lines else None
    return Held(FORBIDDEN_LINE, "H17", Severity.ALERT, holds, shows_forbidden(check), lines)


def _line_missing(run: Run, instance: Instance, check: CheckRecorded, now: datetime) -> Held:
    """H17: the start is over, and the log lacks a line that a start must show."""
    awaited = lines_awaited(earlier_of(run), instance, check)
    over = is_past_start(instance, check, now)
    # Only a completely read log proves that a line is missing.
    holds = False if not awaited else True if over and check.startup.whole else None
    named = ", ".join(f"`{text}`" for text in awaited)
    lines = tuple(f"expected and not seen: {text}" for text in awaited[:EXPECTED_SHOWN_MAX])
    summary = f"the start is over, and its log never showed {named}"
    return Held(LINE_MISSING, "H17", Severity.ALERT, holds, summary, lines)


def _unaccounted(instance: Instance, check: CheckRecorded) -> Held:
    """The orchestrator was reached but cannot account for a job that it had.

    A single such answer does not matter while steps come: the tracker or the output account for the
    job.
    """
    holds = None if check.job is None else check.job.state in UNACCOUNTABLE
    unsure = check.job is not None and check.job.state is JobState.UNKNOWN
    if unsure and not instance.unsure and moves(check.liveness):
        holds = None
    state = check.job.state.value if check.job is not None else ""
    return Held(
        UNACCOUNTED,
        "R19",
        Severity.ALERT,
        holds,
        f"the orchestrator cannot account for the job: {state}",
        ("its end is not proven, so nothing is relaunched",),
    )


def _drifted(run: Run, check: CheckRecorded) -> Held:
    """H2: id or display name differs, or a policy or another live run conflicts.

    It is an alert at first sight, because each step logged elsewhere has to be brought back.
    """
    lines = identity_drift(run, check)
    return Held(
        DRIFTED,
        "H2",
        Severity.ALERT,
        None if lines is None else bool(lines),
        drift_summary(run, lines or ()),
        lines or (),
    )
