"""The detectors: pure functions from a check to the findings that hold at it."""

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
"""The finding that a start is over and did not show a line that the contract expects."""

WRONG_STARTS = frozenset({"resume_mismatch", FORBIDDEN_LINE})
"""The findings of a start that must not be, which `policy.startup_forbidden` is about."""

FindingChange = FindingOpened | FindingRaised | FindingCleared
"""What a check changes in the findings of a run."""

EXPECTED_SHOWN_MAX = 8
"""Expected texts named with a finding."""


def findings_at(run: Run, answers: tuple[Held, ...], now: datetime) -> list[FindingChange]:
    """Return which findings open and which clear at a check of a live instance.

    What a planned act expects does not open: the check names it instead.

    Args:
        run: With its open findings.
        answers: What the detectors say of the check; see `answers_at`.
        now: When the check is made.
    """
    return [*cleared_by_check(run), *changes_of(run, answers, now)]


def identity_at(run: Run, check: CheckRecorded, now: datetime) -> list[FindingChange]:
    """Return whether H2 opens or clears at a check; an ended instance is asked this as well.

    What it logged to is as true after its end, and the next one is not to go on there.
    """
    return changes_of(run, (_drifted(run, check),), now)


def changes_of(run: Run, answers: tuple[Held, ...], now: datetime | None) -> list[FindingChange]:
    """Return what answers change in a run's findings.

    Args:
        run: With its open findings.
        answers: What detectors said.
        now: When they said it, for planned acts; none for what no act explains.
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
    """Return what a last check changes in the findings about wrong numbers (R4).

    No planned act silences them: wrong numbers could be sealed, or trained on.
    """
    return changes_of(run, tuple(one for one in answers if one.rule in NUMBERS_WRONG), None)


def lasting_at(run: Run, answers: tuple[Held, ...]) -> list[FindingChange]:
    """Return what a last check changes in the findings that a success does not close."""
    lasting = tuple(one for one in answers if is_lasting(one.rule, one.kind))
    return changes_of(run, lasting, None)


def _raised(known: FindingOpened, answer: Held) -> list[FindingChange]:
    """Tell an open finding again where it got louder, or is about something else by now."""
    louder = known.severity is Severity.NOTIFY and answer.severity is Severity.ALERT
    # What an older version opened does not say what it is about.
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
    """Name the findings that hold at a check and open none, each with the act that expects it."""
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
        run: Before or after the check is folded in: the answers are the same.
        instance: The instance that was looked at, as it was before the check.
        check: The check; its health and what it names as expected follow from the answers.
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
    """Ask whether it trains, and what else the further sources show."""
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
    """H17: the step that training says it resumed from is not the one decided on."""
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
    """Say how training started elsewhere than was decided; empty where nothing shows that.

    The orchestrator's own retry goes on from the newest checkpoint of its time, which nobody
    decided on.

    Returns:
        None where a retry resumed, and nobody can tell from where it had to.
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
    """H17: the log shows what a start must not show. It stays shown for as long as it lives."""
    lines = check.startup.forbidden
    # Nothing takes back what was printed, so only the instance's end clears it.
    holds = True if lines else None
    return Held(FORBIDDEN_LINE, "H17", Severity.ALERT, holds, shows_forbidden(check), lines)


def _line_missing(run: Run, instance: Instance, check: CheckRecorded, now: datetime) -> Held:
    """H17: the start is over, and the log has not shown what a start must show."""
    awaited = lines_awaited(earlier_of(run), instance, check)
    over = is_past_start(instance, check, now)
    # Only a log that was read whole shows that a line is not there.
    holds = False if not awaited else True if over and check.startup.whole else None
    named = ", ".join(f"`{text}`" for text in awaited)
    lines = tuple(f"expected and not seen: {text}" for text in awaited[:EXPECTED_SHOWN_MAX])
    summary = f"the start is over, and its log never showed {named}"
    return Held(LINE_MISSING, "H17", Severity.ALERT, holds, summary, lines)


def _unaccounted(instance: Instance, check: CheckRecorded) -> Held:
    """The orchestrator was reached and cannot say what became of a job that it had.

    That it cannot tell once is nothing while steps come: the tracker or the output account for it.
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
    """H2: id or display name is not the agreed one, or a policy or another live run is in the way.

    An alert from the first sight on: each step that is logged elsewhere has to be brought back.
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
