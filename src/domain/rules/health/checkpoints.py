"""Detectors of late, incomplete or too few checkpoints (H5)."""

from datetime import datetime, timedelta

from watchkeeper.domain.rules.health.checkpoint_pace import (
    Interval,
    assumed_interval,
    describe_interval,
    expected_interval,
)
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.health.liveness import moves
from watchkeeper.domain.rules.health.seen_checkpoints import complete_by_step
from watchkeeper.domain.rules.shared.rule import (
    NEVER,
    WRONG,
    DetectorInput,
    Limit,
    Rule,
    with_facts,
)
from watchkeeper.domain.run.check_history import checkpoints_left, checks_before, is_listed
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.unverified_checkpoints import NOBODY_NAMES_IT
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import CheckpointFacts, JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import cadence_of, checkpoint_root_of
from watchkeeper.domain.values.contract.live_limits import live_limits_of
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.sources import TrainingPhase
from watchkeeper.domain.values.places import time_to_live

STALLED = "checkpoint_stalled"
"""The finding that steps advance and no complete checkpoint comes."""

INCOMPLETE = "checkpoint_incomplete"
"""The finding that a checkpoint lacks its metadata for longer than a write takes."""

COVERAGE = "rollback_coverage"
"""The finding that fewer checkpoints remain than the contract keeps, or soon will."""

LISTED_MAX = 32
"""How many complete checkpoints a check names. A deeper rollback window cannot be counted."""

EXPIRY_SOON = timedelta(days=1)
"""If the newest checkpoint expires within this time, the finding opens."""


def checkpoints_stalled(given: DetectorInput) -> DetectorAnswer:
    """H5: steps advance, and no complete checkpoint has come for longer than its interval."""
    run, instance, check, now = given.run, given.instance, given.check, given.now
    interval = expected_interval(run) or assumed_interval(run)
    late = None if interval is None else _late(run, instance, check, interval, now)
    if late is None or interval is None:
        return DetectorAnswer(STALLED, "H5", Severity.ALERT, None, "")
    wait, newest = late
    due = f"one is due every {describe_interval(interval)}"
    if interval.assumed:
        due = "nobody says how often one is due"
    has = _newest_line(run, check, newest)
    half = [f"step-{one.step} is incomplete: {one.reason}" for one in check.checkpoints_incomplete]
    return DetectorAnswer(
        STALLED,
        "H5",
        Severity.ALERT,
        bool(wait),
        f"steps move and no complete checkpoint comes: {due}",
        (*filter(None, (wait,)), has, interval.source, *half)[:8],
    )


def _late(
    run: Run, instance: Instance, check: CheckRecorded, interval: Interval, now: datetime
) -> tuple[str, int | None] | None:
    """Describe how late the next checkpoint is; empty if it is on time, `None` if unknown."""
    if not is_listed(check) or check.job is None or check.job.state is not JobState.RUNNING:
        return None
    newest = _newest_came(run, check)
    if newest is not None and _is_new(run, check, newest):
        return "", newest
    if check.liveness.phase is not TrainingPhase.TRAINING or not moves(check.liveness):
        return None
    slack = live_limits_of(contract_of(run)).checkpoint_slack
    start, length = instance.plan.resume_step or 0, interval.time
    if interval.steps is not None:
        if check.progress is None:
            return None
        step = check.progress.step - check.progress.uncertainty
        gained = step - max(newest or 0, start)
        late = gained > slack * interval.steps
        rate = check.liveness.rate
        if late or not _is_retried(instance, check) or not rate:
            return (f"{gained} steps since the last one" if late else ""), newest
        # Each retry repeats these steps, so only the elapsed time shows that nothing is saved.
        length = timedelta(seconds=interval.steps / rate)
    since = _waits_since(run, instance, check, newest)
    if length is None or since is None:
        return None
    # Checks run once each cadence, so times are no more precise than that.
    limit = max(slack * length, length + 2 * cadence_of(contract_of(run)))
    if _is_retried(instance, check):
        limit += length + live_limits_of(contract_of(run)).initialising
    waited = now - since
    began = "the last one" if newest is not None else "steps were first seen"
    overdue = f"{_rounded(waited)} since {began}"
    return (overdue if waited > limit else ""), newest


def _is_retried(instance: Instance, check: CheckRecorded) -> bool:
    """Say whether the orchestrator has retried the job by itself."""
    return max(instance.attempts_failed, check.job.attempts_failed if check.job else 0) > 0


def _newest_came(run: Run, check: CheckRecorded) -> int | None:
    """Return the step of the newest complete checkpoint, regardless of its metadata."""
    # Later checks omit unusable checkpoints, so the run's state is read.
    unnamed = set(complete_by_step(run)) - set(run.checkpoints.validated)
    return max((*check.checkpoints_complete, *unnamed), default=None)


def _newest_line(run: Run, check: CheckRecorded, newest: int | None) -> str:
    if newest is None:
        refused = list(run.checkpoints.rejected.items())
        if not refused:
            return "none is complete"
        path, why = refused[-1]
        return f"none is complete that a rule resumes from; the newest refused is {path}: {why}"
    has = f"the newest complete one is step-{newest}"
    if newest in check.checkpoints_complete:
        return has
    return f"{has}; {NOBODY_NAMES_IT}"


def _is_new(run: Run, check: CheckRecorded, newest: int) -> bool:
    return newest not in complete_by_step(run) and any(
        c.step == newest for c in check.new_checkpoints
    )


def _waits_since(
    run: Run, instance: Instance, check: CheckRecorded, newest: int | None
) -> datetime | None:
    """Return the time from which the next checkpoint is awaited."""
    began = check.liveness.phase_since or instance.launched_at
    if _is_retried(instance, check):
        began = instance.trained_since or began
    known = complete_by_step(run).get(newest) if newest is not None else None
    came = known.came_at if known is not None else None
    times = [at for at in (began, came) if at is not None]
    return max(times, default=None)


def checkpoint_incomplete(given: DetectorInput) -> DetectorAnswer:
    """H5: a folder newer than any complete one lacks metadata for longer than a write takes."""
    run, check, now = given.run, given.check, given.now
    if not is_listed(check):
        return DetectorAnswer(INCOMPLETE, "H5", Severity.ALERT, None, "")
    allowed = live_limits_of(contract_of(run)).checkpoint_write
    newest = _newest_came(run, check)
    stuck = [
        (one, since)
        for one in check.checkpoints_incomplete
        if (newest is None or one.step > newest)
        and (since := first_seen(run, check, one)) is not None
        and now - since > allowed
    ]
    lines = tuple(
        f"step-{one.step} without metadata since {since:%Y-%m-%d %H:%M} UTC: {one.reason}"
        for one, since in stuck
    )
    named = ", ".join(f"step-{one.step}" for one, _ in stuck[-3:])
    summary = f"not complete after more than {render_duration(allowed)} of writing: {named}"
    about = named
    return DetectorAnswer(INCOMPLETE, "H5", Severity.ALERT, bool(stuck), summary, lines[-8:], about)


def first_seen(run: Run, check: CheckRecorded, found: CheckpointFacts) -> datetime | None:
    """Return since when an incomplete checkpoint has been seen; none at first sight."""
    since: datetime | None = None
    for last in reversed(checks_before(run, check)):
        if last.instance != check.instance or not last.listed:
            continue
        if found.path not in last.incomplete:
            break
        since = last.at
    return since


def rollback_coverage(given: DetectorInput) -> DetectorAnswer:
    """H5: fewer complete checkpoints remain than must be kept, after there were enough."""
    run, check, now = given.run, given.check, given.now
    if not is_listed(check) or check.job is None or check.job.state is not JobState.RUNNING:
        return DetectorAnswer(COVERAGE, "H5", Severity.ALERT, None, "")
    keep, known = contract_of(run).checkpoints.keep_last, set(run.checkpoints.validated)
    earlier = checks_before(run, check)
    # If the contract states no number, a rotation must leave as many as before.
    were = 0 if keep else max((one.left for one in earlier if one.listed), default=0)
    wanted = min(keep, len(known), LISTED_MAX) if keep else were
    left = len(check.checkpoints_complete)
    gone = sorted(known - set(check.checkpoints_complete))[-8:]
    few = _is_few(checkpoints_left(check), known, keep, were)
    # Two listings in a row must agree: a folder may be moved while it is listed.
    last = earlier[-1] if earlier else None
    known_then = known - set(last.new_steps) if last is not None else known
    again = last is not None and last.listed and _is_few(last.left, known_then, keep, were)
    soon = _expiring(run, check, now)
    holds = True if soon or (few and again) else None if few else False
    complete = f"{left} complete checkpoint{'' if left == 1 else 's'} left"
    promised = f"keep_last is {keep}" if keep else f"there were {were}"
    lines = [f"{promised}, {complete}"] if few else []
    lines += [f"gone: {', '.join(f'step-{step}' for step in gone)}"] if few and gone else []
    lines += [soon] if soon else []
    summary = f"rollback coverage: {complete}, {wanted} are to be kept"
    if soon and not few:
        summary = f"rollback coverage: {soon}"
    return DetectorAnswer(COVERAGE, "H5", Severity.ALERT, holds, summary, tuple(lines))


def _is_few(left: int, known: set[int], keep: int | None, were: int) -> bool:
    """Say whether too few remain, compared with the number to keep or the number before.

    While fewer exist than must be kept, the loss of one checkpoint is normal rotation. The loss of
    two, or of half of them, is a collapse.
    """
    depth = min(keep or 1, LISTED_MAX)
    if len(known) >= depth:
        return left < depth or left <= were - 2
    return bool(known) and left <= max(len(known) // 2, len(known) - 2)


def _expiring(run: Run, check: CheckRecorded, now: datetime) -> str:
    """Say that the newest complete checkpoint is about to expire; empty if it is not."""
    newest = max(check.checkpoints_complete, default=None)
    known = run.checkpoints.validated.get(newest) if newest is not None else None
    lasts = time_to_live(checkpoint_root_of(contract_of(run)))
    if lasts is None or known is None or known.written_at is None:
        return ""
    ends = known.written_at + lasts
    if ends - now > min(EXPIRY_SOON, lasts / 4):
        return ""
    return f"the newest complete one, step-{newest}, expires at {ends:%Y-%m-%d %H:%M} UTC"


def _rounded(length: timedelta) -> str:
    unit = 60 if length > timedelta(minutes=10) else 1
    return render_duration(timedelta(seconds=unit * round(length.total_seconds() / unit)))


def _written(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    words = "each checkpoint's folder had had its metadata"
    return words, with_facts(given.check, checkpoints_incomplete=())


def _newer_checkpoint(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    step = given.run.instances[-1].step_best
    if (
        step is None
        or not given.check.checkpoints_complete
        or step in given.check.checkpoints_complete
    ):
        return None
    complete = (*given.check.checkpoints_complete, step)
    return f"a complete checkpoint of step {step} had been there", with_facts(
        given.check, checkpoints_complete=complete
    )


H5 = Rule(
    id="H5",
    title="checkpoints",
    when=(
        "Steps advance, and no complete checkpoint came for `live.checkpoint_slack` intervals. The "
        "interval comes from the contract, from the checkpoints so far, or from the lane: 30 min "
        "for hero and daily, else 1 h. Or a newer folder lacks its metadata for longer than "
        "`live.checkpoint_write`. Or, at two checks in a row, fewer complete checkpoints remain "
        "than `checkpoints.keep_last`, or than rotation explains. Or the newest checkpoint expires "
        "within a day (`ttl=`). A checkpoint without a readable metadata step counts here, but "
        "nothing resumes from it. A store without an answer changes nothing."
    ),
    then=(
        "Alert and ask the DRI before the rollback window is lost. A new complete checkpoint "
        "clears the finding."
    ),
    where=__name__,
    source=f"{WRONG}: Checkpoint not advancing",
    severity=Severity.ALERT,
    limits=(Limit("live", "checkpoint_slack", NEVER),),
    alterations=(_written, _newer_checkpoint),
)
