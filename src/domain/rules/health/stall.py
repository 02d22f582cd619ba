"""Distinguishes a hung run from a blind monitor by independent sources.

One source alone never proves a stall, and neither does a missing answer.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.domain.reading.log_tail import LogTail
from watchkeeper.domain.reading.metrics.clocks import (
    NO_CHECKPOINT,
    NO_STEP,
    NOTHING_LOGGED,
    STEP_CLOCKS,
    TELEMETRY_GONE,
    BeforeCheck,
    before_check,
    is_saved,
    shows_loss_alone,
    steps_per_second,
    tracker_lag_s,
    witnesses_of,
)
from watchkeeper.domain.reading.source_summaries import lost_all_machines, waits_for_machines
from watchkeeper.domain.rules.health.checkpoint_pace import expected_time
from watchkeeper.domain.rules.health.stall_text import describe_since, describe_wait, has_clock
from watchkeeper.domain.run.queries import act_expecting, earlier_of
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL, JobState
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.domain.values.contract.live_limits import LiveLimits, live_limits_of, stall_limit
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness, Moves, Quiet, Witness
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import TelemetryFacts, TrainingPhase

WITNESSES_MIN = 2
"""How many sources must show no progress before a run counts as hung."""

_ANSWERS = (NOTHING_LOGGED, NO_STEP, NO_CHECKPOINT)
"""Reasons of sources that answered but have no data about a start yet."""

UNWATCHED_CADENCES = 2
"""How many cadences since the last check count as watched time."""

DARK_CHECKS = 2
"""After this many silent checks in a row, a source gets a verdict of its own."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of the verdict."""

    contract: Contract
    limits: LiveLimits
    stall: timedelta
    state: JobState | None
    phase: TrainingPhase | None
    phase_since: datetime
    since: datetime
    excused_at: datetime | None
    checks: int
    witnesses: tuple[Witness, ...]
    busy: str
    lost_all_machines: bool
    final: bool
    checkpoint_every: timedelta | None
    now: datetime

    @property
    def quiet_for(self) -> timedelta:
        """How long progress has been overdue."""
        return self.now - max(self.since, self.excused_at or self.since)

    @property
    def is_excused(self) -> bool:
        """Whether a planned act expects a stall now."""
        return self.excused_at == self.now

    def of(self, name: str) -> Witness:
        """Return a clock by its name."""
        return next(one for one in self.witnesses if one.name == name)


def liveness_of(
    run: Run,
    instance: Instance,
    check: CheckRecorded,
    seen: Observation,
    tail: LogTail,
    now: datetime,
) -> Liveness:
    """Judge whether a run advances, and why it does not.

    Args:
        run: The run before the check.
        instance: The checked instance.
        check: The check, without its liveness.
        seen: The observation.
        tail: What the tail of its output says.
        now: When the check is made.
    """
    state = check.job.state if check.job is not None else None
    before = before_check(earlier_of(run), instance, tail, now)
    if state is not None and state in TERMINAL:
        said = f"the orchestrator says {state.value.upper()}"
        return Liveness(because=said, rate=before.liveness.rate)
    witnesses = witnesses_of(before, check, seen)
    phase, phase_since = _phase(before, instance, check, witnesses)
    scene = Scene(
        contract=contract_of(run),
        limits=live_limits_of(contract_of(run)),
        stall=stall_limit(contract_of(run)),
        state=state,
        phase=phase,
        phase_since=phase_since,
        since=_since(before, check, witnesses, phase_since),
        excused_at=_excused_at(run, before, now),
        checks=_checks(run, before, check, witnesses),
        witnesses=witnesses,
        busy="" if is_saved(before, check, tail.busy) else tail.busy,
        lost_all_machines=lost_all_machines(check),
        final=_is_at_the_end(contract_of(run), instance, check),
        checkpoint_every=expected_time(run, before.rate),
        now=now,
    )
    asked = end_asked(run, instance.plan.instance)
    quiet, because = (Quiet.NOT_JUDGED, "its end was asked for") if asked else _verdict(scene)
    asked_tracker = any(one.source == "tracker" for one in check.readings)
    return Liveness(
        phase=phase,
        phase_since=phase_since if phase is not None else None,
        quiet=quiet,
        because=because,
        since=scene.since,
        checks=scene.checks,
        witnesses=tuple(one for one in witnesses if not _was_never_there(one)),
        rate=steps_per_second(before, witnesses),
        excused_at=scene.excused_at,
        unseen_s=tracker_lag_s(before, witnesses, _passed(run, now), asked=asked_tracker),
    )


def _passed(run: Run, now: datetime) -> timedelta:
    """Return the time since the last check, without time that nobody watched."""
    last = run.watch.last_check.at if run.watch.last_check is not None else now
    # After a handover the new holder's clock may be behind.
    passed = max(now - last, timedelta(0))
    return min(passed, UNWATCHED_CADENCES * cadence_of(contract_of(run)))


def _moved_clocks(witnesses: tuple[Witness, ...]) -> list[Witness]:
    return [one for one in witnesses if one.moves is Moves.MOVED and one.name in STEP_CLOCKS]


# --- Phase ---------------------------------------------------------------------------------------


def _phase(
    before: BeforeCheck, instance: Instance, check: CheckRecorded, witnesses: tuple[Witness, ...]
) -> tuple[TrainingPhase | None, datetime]:
    """Return the phase of a start, and since when."""
    known, job = before.liveness, check.job
    started = job.started_at if job is not None else None
    begun = known.phase_since or started or before.began or before.now
    phase = _phase_now(before, instance, check, witnesses)
    if phase is known.phase and known.phase_since is not None:
        return phase, known.phase_since
    if phase is TrainingPhase.TRAINING:
        return phase, before.now  # The start of the phase is unknown; it is seen from now on.
    if known.phase is TrainingPhase.NOT_STARTED and known.since is not None:
        # Ray dates a start by its submit, but a job seen waiting had not begun.
        return phase, max(started, known.since) if started is not None else before.now
    if known.phase is None:
        return phase, started or begun
    if job is not None and job.attempts_failed > instance.attempts_failed:
        # A retry does not extend the time: it counts from the last seen step.
        return phase, known.since or begun
    return phase, before.now


def _phase_now(
    before: BeforeCheck, instance: Instance, check: CheckRecorded, witnesses: tuple[Witness, ...]
) -> TrainingPhase | None:
    job = check.job
    if job is not None and job.state is JobState.PENDING:
        return TrainingPhase.NOT_STARTED
    if _moved_clocks(witnesses):
        return TrainingPhase.TRAINING
    if lost_all_machines(check):
        return TrainingPhase.NOT_STARTED
    gauges = check.telemetry
    said = gauges.phase if gauges is not None and _is_fresh(gauges, before.now) else None
    if said is not None:
        return said
    # The orchestrator retried it by itself, so it starts again.
    if job is not None and job.attempts_failed > instance.attempts_failed:
        return TrainingPhase.INITIALISING
    # A loss shows training. After a failed try, an old loss may belong to that try.
    if instance.attempts_failed == 0 and any(map(shows_loss_alone, witnesses)):
        return TrainingPhase.TRAINING
    if before.liveness.phase in (TrainingPhase.TRAINING, TrainingPhase.INITIALISING):
        return before.liveness.phase
    if job is None or job.state is not JobState.RUNNING:
        return before.liveness.phase
    return TrainingPhase.INITIALISING


def _is_fresh(gauges: TelemetryFacts, now: datetime) -> bool:
    return gauges.at is not None and now - gauges.at <= TELEMETRY_GONE


def _since(
    before: BeforeCheck, check: CheckRecorded, witnesses: tuple[Witness, ...], phase_since: datetime
) -> datetime:
    """Return when a step was last seen, or when the phase began, whichever is later."""
    # No step is due while it waits.
    if waits_for_machines(check) or _moved_clocks(witnesses):
        return before.now
    return max(before.liveness.since or phase_since, phase_since)


def _checks(
    run: Run, before: BeforeCheck, check: CheckRecorded, witnesses: tuple[Witness, ...]
) -> int:
    """Count the consecutive checks at which no step was seen."""
    first, excused = not before.liveness.witnesses, act_expecting(run, "H3", before.now) is not None
    if first or excused or _moved_clocks(witnesses) or waits_for_machines(check):
        return 0
    return before.liveness.checks + 1


def _excused_at(run: Run, before: BeforeCheck, now: datetime) -> datetime | None:
    if act_expecting(run, "H3", now) is not None:
        return now
    return before.liveness.excused_at


def _is_at_the_end(contract: Contract, instance: Instance, check: CheckRecorded) -> bool:
    """Return whether the last step is done, so that only evaluations and exports follow."""
    best = max(instance.step_best or 0, check.progress.step if check.progress is not None else 0)
    final = contract.final_step.known
    return final is not None and best >= final - 1


# --- Verdict -------------------------------------------------------------------------------------


def _verdict(scene: Scene) -> tuple[Quiet, str]:
    if scene.state is JobState.PENDING:
        return Quiet.WAITING_FOR_CAPACITY, "the orchestrator has not begun it"
    if moved := _moved_clocks(scene.witnesses):
        return _moving(scene, moved)
    if scene.lost_all_machines:
        return Quiet.WAITING_FOR_CAPACITY, "RUNNING, and none of its tasks has a machine"
    if scene.state in (JobState.UNKNOWN, JobState.NOT_FOUND):
        return Quiet.NOT_JUDGED, "the orchestrator cannot account for the job"
    if scene.state in (JobState.RUNNING, None) and _is_witnessed(scene):
        starting = _starting(scene)
        if starting:
            return Quiet.COMPILING_OR_RESTORING, starting
    return overdue_verdict(scene)


def _moving(scene: Scene, moved: list[Witness]) -> tuple[Quiet, str]:
    names = {one.name for one in moved}
    by = ", ".join(f"{one.name} at step {one.step}" for one in moved if one.step is not None)
    by = by or ", ".join(one.name for one in moved)
    output, tracker = scene.of("output"), scene.of("tracker")
    if output.moves is not Moves.MOVED and output.checks >= DARK_CHECKS and "logs" not in names:
        why = output.why or f"the output stopped at {describe_since(output.since)}"
        return Quiet.LOG_PIPE_DARK, f"it moves ({by}), and its output is dark: {why}"
    silent = "tracker" not in names and tracker.checks >= DARK_CHECKS
    if silent or tracker.moves is Moves.CATCHING_UP:
        why = tracker.why or f"step {tracker.step} since {describe_since(tracker.since)}"
        return Quiet.TRACKER_SILENT, f"it moves ({by}), and the tracker shows nothing new: {why}"
    return Quiet.MOVING, f"steps move: {by}"


def _is_witnessed(scene: Scene) -> bool:
    """Say whether a source shows that the job is at work.

    RUNNING alone proves nothing about a start. Without the orchestrator's state, only progress or a
    line about work shows that the job runs.
    """
    if scene.state is None:
        return bool(scene.busy) or any(one.moves is Moves.MOVED for one in scene.witnesses)
    return not no_clock_answers(scene.witnesses)


def is_start_unobserved(check: CheckRecorded) -> bool:
    """Say whether a start is RUNNING, but no source that could show training ever answered."""
    live, job = check.liveness, check.job
    running = job is not None and job.state is JobState.RUNNING
    if not running or live.quiet is not Quiet.NOT_JUDGED or check.progress is not None:
        return False
    return no_clock_answers(live.witnesses) and all(one.since is None for one in live.witnesses)


def no_clock_answers(witnesses: tuple[Witness, ...]) -> bool:
    """Say whether no clock answers; "nothing logged or saved yet" counts as an answer."""
    return all(one.moves is Moves.SILENT and one.why not in _ANSWERS for one in witnesses)


def _starting(scene: Scene) -> str:
    """Say why no step is due yet; empty if one is due."""
    if scene.phase is not TrainingPhase.TRAINING:
        running = scene.now - scene.phase_since
        at_work = scene.busy or scene.of("output").moves is Moves.MOVED
        limit = scene.limits.startup_watchdog if at_work else scene.limits.initialising
        if running > max(limit, scene.limits.initialising):
            return ""
        said = f": {scene.busy}" if scene.busy else ""
        since = describe_since(scene.phase_since)
        return f"starting since {since}; {describe_wait(limit)} are allowed{said}"
    if scene.busy and scene.quiet_for <= scene.limits.compiling:
        allowed = describe_wait(scene.limits.compiling)
        return f"no step since {describe_since(scene.since)}; {allowed} are allowed: {scene.busy}"
    if scene.final and scene.quiet_for <= scene.limits.startup_watchdog:
        return f"the last step was done at {describe_since(scene.since)}; it may evaluate or export"
    return ""


def overdue_verdict(scene: Scene) -> tuple[Quiet, str]:
    """Return the verdict if due progress is missing: hung if enough clocks say so, else blind."""
    # An expected stall gets its true verdict. The findings code keeps it closed.
    stood = scene.now - scene.since if scene.is_excused else scene.quiet_for
    few = not scene.is_excused and scene.checks < scene.limits.stall_cadences
    wait = describe_wait(stood)
    blind = Quiet.NOT_JUDGED if scene.is_excused else Quiet.MONITOR_BLIND
    if stood < _limit(scene) or few:
        return Quiet.NOT_JUDGED, f"no step seen for {wait}: too early to judge"
    if scene.state is None:
        return blind, f"no step seen for {wait}, and the orchestrator gave no state"
    standing = sources_without_progress(scene)
    if len(standing) >= WITNESSES_MIN:
        return Quiet.RUN_HUNG, f"no step for {wait} by {', '.join(standing)}"
    # Output without a recognised step may print steps in an unknown format.
    if _start_is_overdue(scene) and len({*standing, "logs"}) >= WITNESSES_MIN:
        limit = describe_wait(scene.limits.startup_watchdog)
        return Quiet.RUN_HUNG, f"no step for {wait} since the start; {limit} are allowed"
    named = f"confirmed only by {standing[0]}" if standing else "confirmed by no source"
    return blind, f"no step seen for {wait}, {named}: too few sources to judge"


def _limit(scene: Scene) -> timedelta:
    """Return the stall limit, doubled if the output continues without steps."""
    starting = scene.now - scene.phase_since
    if scene.phase is not TrainingPhase.TRAINING and starting > scene.limits.initialising:
        return timedelta(0)  # The time allowed for a start has already passed.
    going_on = scene.of("output").moves is Moves.MOVED
    return 2 * scene.stall if going_on else scene.stall


def sources_without_progress(scene: Scene) -> list[str]:
    """Name the sources that answered and show no newer step."""
    sources: list[str] = []
    # Output without lines about steps proves nothing about steps.
    if _stood(scene, "logs") or _stood(scene, "output"):
        sources.append("logs")
    if _stood(scene, "tracker") or _never_logged(scene):
        sources.append("tracker")
    if _stood(scene, "telemetry"):
        sources.append("telemetry")
    if _stood(scene, "checkpoints") and _is_checkpoint_due(scene):
        sources.append("checkpoints")
    return sources


def _stood(scene: Scene, name: str) -> bool:
    clock = scene.of(name)
    return clock.moves is Moves.STOOD and clock.checks >= scene.limits.stall_cadences


def _never_logged(scene: Scene) -> bool:
    """Return whether a tracker answered and has no data about a start."""
    starting = scene.phase is not TrainingPhase.TRAINING
    return starting and scene.of("tracker").why in (NOTHING_LOGGED, NO_STEP)


def _start_is_overdue(scene: Scene) -> bool:
    """Return whether readable output has shown no step for longer than the start watchdog."""
    overdue = scene.now - scene.phase_since > scene.limits.startup_watchdog
    starting = scene.phase is not TrainingPhase.TRAINING
    return starting and overdue and scene.of("output").moves is not Moves.SILENT


def _is_checkpoint_due(scene: Scene) -> bool:
    """Say whether a checkpoint would be due by now if training had continued."""
    since = scene.of("checkpoints").since
    if since is None or scene.checkpoint_every is None:
        return False
    return scene.now - since > scene.limits.checkpoint_slack * scene.checkpoint_every


def _was_never_there(witness: Witness) -> bool:
    """Say whether the run has never had a clock: most runs have no gauges."""
    return witness.name == "telemetry" and not has_clock(witness)
