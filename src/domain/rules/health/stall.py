"""Distinguishes a hung run from a blind monitor by independent sources.

One source alone never proves a stall. A missing answer never counts as a stall.
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
    Before,
    before_check,
    is_saved,
    pace,
    shows_loss_alone,
    unseen_s,
    witnesses_of,
)
from watchkeeper.domain.reading.source_summaries import waits, waits_again
from watchkeeper.domain.rules.health.checkpoint_pace import expected_time
from watchkeeper.domain.rules.health.stall_text import clock_of, is_worth_telling, words_of
from watchkeeper.domain.run.queries import earlier_of, expecting
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
"""Sources that must stand still before a run counts as hung."""

_ANSWERS = (NOTHING_LOGGED, NO_STEP, NO_CHECKPOINT)
"""Reason for a source that was reached but has no data of a start yet."""

UNWATCHED_CADENCES = 2
"""Cadences since the last check up to which the time counts as watched."""

DARK_CHECKS = 2
"""Checks in a row without a word of one source before its silence is worth a verdict."""


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
    waits_again: bool
    final: bool
    checkpoint_every: timedelta | None
    now: datetime

    @property
    def quiet_for(self) -> timedelta:
        """How long no progress came that was due."""
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
        instance: The instance that was looked at.
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
        waits_again=waits_again(check),
        final=_is_at_the_end(contract_of(run), instance, check),
        checkpoint_every=expected_time(run, before.rate),
        now=now,
    )
    asked = end_asked(run, instance.plan.instance)
    quiet, because = (Quiet.NOT_JUDGED, "its end was asked for") if asked else _verdict(scene)
    return Liveness(
        phase=phase,
        phase_since=phase_since if phase is not None else None,
        quiet=quiet,
        because=because,
        since=scene.since,
        checks=scene.checks,
        witnesses=tuple(one for one in witnesses if not _was_never_there(one)),
        rate=pace(before, witnesses),
        excused_at=scene.excused_at,
        unseen_s=unseen_s(before, witnesses, _passed(run, now), asked=_asks(check)),
    )


def _passed(run: Run, now: datetime) -> timedelta:
    """Return the time since the last check, capped because nobody watched a long gap."""
    last = run.watch.last_check.at if run.watch.last_check is not None else now
    # After a handover the new holder's clock may be behind.
    passed = max(now - last, timedelta(0))
    return min(passed, UNWATCHED_CADENCES * cadence_of(contract_of(run)))


def _asks(check: CheckRecorded) -> bool:
    return any(one.source == "tracker" for one in check.readings)


# --- Phase ---------------------------------------------------------------------------------------


def _phase(
    before: Before, instance: Instance, check: CheckRecorded, witnesses: tuple[Witness, ...]
) -> tuple[TrainingPhase | None, datetime]:
    """Return the phase of a start, and since when."""
    known, job = before.liveness, check.job
    started = job.started_at if job is not None else None
    begun = known.phase_since or started or before.began or before.now
    phase = _phase_now(before, instance, check, witnesses)
    if phase is known.phase and known.phase_since is not None:
        return phase, known.phase_since
    if phase is TrainingPhase.TRAINING:
        return phase, before.now  # It is seen from here on; its start is unknown.
    if known.phase is TrainingPhase.NOT_STARTED and known.since is not None:
        # Ray dates a start by its submit, but a job seen waiting had not begun.
        return phase, max(started, known.since) if started is not None else before.now
    if known.phase is None:
        return phase, started or begun
    if job is not None and job.attempts_failed > instance.attempts_failed:
        # A retry gives no more time: the start counts from the last step seen.
        return phase, known.since or begun
    return phase, before.now


def _phase_now(
    before: Before, instance: Instance, check: CheckRecorded, witnesses: tuple[Witness, ...]
) -> TrainingPhase | None:
    job = check.job
    if job is not None and job.state is JobState.PENDING:
        return TrainingPhase.NOT_STARTED
    if any(one.moves is Moves.MOVED and one.name in STEP_CLOCKS for one in witnesses):
        return TrainingPhase.TRAINING
    if waits_again(check):
        return TrainingPhase.NOT_STARTED
    gauges = check.telemetry
    said = gauges.phase if gauges is not None and _is_fresh(gauges, before.now) else None
    if said is not None:
        return said
    # The orchestrator retried it by itself, so it starts again.
    if job is not None and job.attempts_failed > instance.attempts_failed:
        return TrainingPhase.INITIALISING
    # A loss shows training. After a failed try it may be from that try, until another loss comes.
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
    before: Before,
    check: CheckRecorded,
    witnesses: tuple[Witness, ...],
    phase_since: datetime,
) -> datetime:
    """Return when a step was last seen, or when the phase began, whichever is later."""
    if waits(check):
        return before.now  # No step is due while it waits.
    if any(one.moves is Moves.MOVED and one.name in STEP_CLOCKS for one in witnesses):
        return before.now
    return max(before.liveness.since or phase_since, phase_since)


def _checks(run: Run, before: Before, check: CheckRecorded, witnesses: tuple[Witness, ...]) -> int:
    """Count the consecutive checks at which no step was seen."""
    moved = any(one.moves is Moves.MOVED and one.name in STEP_CLOCKS for one in witnesses)
    first = not before.liveness.witnesses
    if waits(check) or moved or first or expecting(run, "H3", before.now) is not None:
        return 0
    return before.liveness.checks + 1


def _excused_at(run: Run, before: Before, now: datetime) -> datetime | None:
    if expecting(run, "H3", now) is not None:
        return now
    return before.liveness.excused_at


def _is_at_the_end(contract: Contract, instance: Instance, check: CheckRecorded) -> bool:
    """Say whether the last step is done: only evaluations and exports follow."""
    best = max(instance.step_best or 0, check.progress.step if check.progress is not None else 0)
    final = contract.final_step.known
    return final is not None and best >= final - 1


# --- Verdict -------------------------------------------------------------------------------------


def _verdict(scene: Scene) -> tuple[Quiet, str]:
    moved = [one for one in scene.witnesses if one.moves is Moves.MOVED and one.name in STEP_CLOCKS]
    if scene.state is JobState.PENDING:
        return Quiet.WAITING_FOR_CAPACITY, "the orchestrator has not begun it"
    if moved:
        return _moving(scene, moved)
    if scene.waits_again:
        return Quiet.WAITING_FOR_CAPACITY, "RUNNING, and none of its tasks has a machine"
    if scene.state in (JobState.UNKNOWN, JobState.NOT_FOUND):
        return Quiet.NOT_JUDGED, "the orchestrator cannot account for the job"
    if scene.state in (JobState.RUNNING, None) and _is_witnessed(scene):
        starting = _starting(scene)
        if starting:
            return Quiet.COMPILING_OR_RESTORING, starting
    return standing_verdict(scene)


def _moving(scene: Scene, moved: list[Witness]) -> tuple[Quiet, str]:
    names = {one.name for one in moved}
    by = ", ".join(f"{one.name} at step {one.step}" for one in moved if one.step is not None)
    by = by or ", ".join(one.name for one in moved)
    output, tracker = scene.of("output"), scene.of("tracker")
    if output.moves is not Moves.MOVED and output.checks >= DARK_CHECKS and "logs" not in names:
        why = output.why or f"the output stopped at {clock_of(output.since)}"
        return Quiet.LOG_PIPE_DARK, f"it moves ({by}), and its output is dark: {why}"
    silent = "tracker" not in names and tracker.checks >= DARK_CHECKS
    if silent or tracker.moves is Moves.CATCHING_UP:
        why = tracker.why or f"step {tracker.step} since {clock_of(tracker.since)}"
        return Quiet.TRACKER_SILENT, f"it moves ({by}), and the tracker shows nothing new: {why}"
    return Quiet.MOVING, f"steps move: {by}"


def _is_witnessed(scene: Scene) -> bool:
    """Say whether a source shows that the job is at work.

    RUNNING alone proves nothing about a start. Without the orchestrator an old answer may be from a
    job that is gone. Only progress, or a line about work, shows that a job runs.
    """
    if scene.state is None:
        return bool(scene.busy) or any(one.moves is Moves.MOVED for one in scene.witnesses)
    return not is_dark(scene.witnesses)


def is_unheard(check: CheckRecorded) -> bool:
    """Say whether a start is RUNNING, but no source that could show training ever answered."""
    live, job = check.liveness, check.job
    running = job is not None and job.state is JobState.RUNNING
    if not running or live.quiet is not Quiet.NOT_JUDGED or check.progress is not None:
        return False
    return is_dark(live.witnesses) and all(one.since is None for one in live.witnesses)


def is_dark(witnesses: tuple[Witness, ...]) -> bool:
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
        return f"it starts since {clock_of(scene.phase_since)}, allowed are {words_of(limit)}{said}"
    if scene.busy and scene.quiet_for <= scene.limits.compiling:
        allowed = words_of(scene.limits.compiling)
        return f"no step since {clock_of(scene.since)}, allowed are {allowed}: {scene.busy}"
    if scene.final and scene.quiet_for <= scene.limits.startup_watchdog:
        return f"the last step is done since {clock_of(scene.since)}: it evaluates or exports"
    return ""


def standing_verdict(scene: Scene) -> tuple[Quiet, str]:
    """Return the verdict if due progress is missing: hung if enough clocks say so, else blind."""
    # An expected stall gets its true verdict; the findings decide that it opens nothing.
    stood = scene.now - scene.since if scene.is_excused else scene.quiet_for
    few = not scene.is_excused and scene.checks < scene.limits.stall_cadences
    wait, blind = words_of(stood), Quiet.NOT_JUDGED if scene.is_excused else Quiet.MONITOR_BLIND
    if stood < _limit(scene) or few:
        return Quiet.NOT_JUDGED, f"no step seen for {wait}: too soon to tell"
    if scene.state is None:
        return blind, f"no step seen for {wait}, and no word on the job"
    standing = standing_sources(scene)
    if len(standing) >= WITNESSES_MIN:
        return Quiet.RUN_HUNG, f"no step for {wait} by {', '.join(standing)}"
    # Output without a recognised step may print steps in an unknown format.
    if _start_is_overdue(scene) and len({*standing, "logs"}) >= WITNESSES_MIN:
        limit = words_of(scene.limits.startup_watchdog)
        return Quiet.RUN_HUNG, f"it starts for {wait} without a step, more than the {limit} allowed"
    named = f"only {standing[0]} tells" if standing else "no source tells"
    return blind, f"no step seen for {wait}, and {named}: too few to tell why"


def _limit(scene: Scene) -> timedelta:
    """Return the stall limit, doubled if the output continues without steps."""
    starting = scene.now - scene.phase_since
    if scene.phase is not TrainingPhase.TRAINING and starting > scene.limits.initialising:
        return timedelta(0)  # The time allowed for a start has already passed.
    going_on = scene.of("output").moves is Moves.MOVED
    return 2 * scene.stall if going_on else scene.stall


def standing_sources(scene: Scene) -> list[str]:
    """Name the sources that answered and show no newer step."""
    sources: list[str] = []
    # Output that continues without lines about steps proves nothing about steps.
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
    """Say whether a tracker was reached and shows nothing of a start, which is an answer too."""
    starting = scene.phase is not TrainingPhase.TRAINING
    return starting and scene.of("tracker").why in (NOTHING_LOGGED, NO_STEP)


def _start_is_overdue(scene: Scene) -> bool:
    """Say whether readable output shows no step for longer than the start watchdog."""
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
    return witness.name == "telemetry" and not is_worth_telling(witness)
