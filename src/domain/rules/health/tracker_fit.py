"""Compares the tracker's state, time, step and loss with the run (H2).

A tracker that lags is normal. Uploads are buffered, and an offline client sends nothing. After a
resume nothing new appears until training passes the old high-water step.

A tracker shows another run if it is ahead of the printed output, falls back, or shows other losses.
Only fresh answers are compared. A doubt counts once several checks in a row saw it.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from watchkeeper.domain.reading.log_tail import LogTail
from watchkeeper.domain.rules.health.tracker_losses import loss_difference
from watchkeeper.domain.rules.health.tracker_scene import STEPS_MIN, Scene, SourceResult
from watchkeeper.domain.run.run import Run, contract_of, end_asked
from watchkeeper.domain.values.basic import JobState, Reading, SourceState, Step, TrackerFacts
from watchkeeper.domain.values.contract.contract import cadence_of
from watchkeeper.domain.values.contract.detect_limits import limits_of
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness, Witness, witness_of
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.tracker_doubts import Doubt, Ground, TrackerFit, doubt_of

ENDED_STATES = frozenset({"finished", "failed", "killed", "crashed"})
"""A tracker's states for a run that is over. All other states say nothing."""

CLOCKS_APART = timedelta(minutes=10)
"""How far a tracker's newest time may be ahead or behind: twice the allowed clock skew."""

MISSED_CADENCES = 2.0
"""Cadences of steps that an earlier instance may have logged after its last check."""

OFTEN_MAX = 5.0
"""How much more frequent the checks of a start are: every 120 s instead of 570 s."""

SAME_COUNT = 0.1
"""Share by which two ratios of steps may differ to count as the same."""

OTHER_COUNT_MIN = 1.5
"""Least ratio of counts to steps for a tracker that counts calls or micro-batches."""


def fit_of(
    run: Run,
    instance: Instance,
    seen: Observation,
    tail: LogTail,
    tracker: TrackerFacts | None,
    readings: tuple[Reading, ...],
    now: datetime,
) -> TrackerFit:
    """Compare a tracker with the run's other sources.

    Args:
        run: The run before the check.
        instance: The checked instance.
        seen: The observation.
        tail: What the tail of its output says.
        tracker: The tracker's facts, if fresh.
        readings: The state of each source; a tracker without new data is stale.
        now: When the check is made.
    """
    last = run.watch.last_check.event if run.watch.last_check is not None else None
    same = last is not None and last.instance == instance.plan.instance
    was = last.tracker_fit if same and last is not None else TrackerFit()
    shown = tail.labelled if _is_fresh(readings, "logs") else None
    logged = _highest(was.step_logged, shown.step if shown is not None else None)
    job = seen.job
    if tracker is None or job is None or job.state is not JobState.RUNNING:
        kept = {"compared": False, "step_logged": logged, "doubts": _kept(was)}
        return was.model_copy(update=kept)
    clocks = last.liveness if same and last is not None else Liveness()
    earlier = [one.step_best for one in run.instances[:-1] if one.step_best is not None]
    whole = _is_fresh(readings, "history", unasked=True)
    scene = Scene(
        run=run,
        instance=instance,
        seen=seen if whole else seen.model_copy(update={"history": None}),
        limits=limits_of(contract_of(run)),
        was=was,
        clocks=clocks,
        tracker=tracker,
        shown=shown,
        losses=tail.losses,
        printed=_moved(witness_of(clocks, "logs"), shown.step if shown is not None else None),
        had=max(earlier, default=None),
        attempts=job.attempts_failed,
        stopping=end_asked(run, instance.plan.instance),
        now=now,
    )
    doubts: list[Doubt] = []
    compared = False
    for ground, ask in GROUNDS.items():
        said = ask(scene)
        before = doubt_of(was, ground)
        if said is None and before is not None:
            doubts.append(before.model_copy(update={"seen": False}))
        if isinstance(said, str):
            checks = before.checks + 1 if before is not None else 1
            doubts.append(Doubt(ground=ground, line=said[:300], checks=checks))
        compared = compared or said is not None
    newest = tracker.heartbeat_at
    return TrackerFit(
        doubts=tuple(doubts),
        compared=compared,
        step=tracker.step if tracker.step is not None else was.step,
        step_best=_floor(scene),
        step_logged=logged,
        # A time in the future would make every later true time look old.
        at=max((min(at, now) for at in (was.at, newest) if at is not None), default=None),
        attempts=job.attempts_failed,
    )


def step_doubt(run: Run, fit: TrackerFit) -> str:
    """Say why the tracker's step must not count as the run's; empty if it may."""
    ahead = doubt_of(fit, "step_ahead")
    if ahead is None:
        return ""
    # A single old doubt is no reason to ignore the only known step.
    kept = ahead.seen or ahead.checks >= limits_of(contract_of(run)).tracker_checks
    return ahead.line if kept else ""


def _highest(*steps: Step | None) -> Step | None:
    return max((step for step in steps if step is not None), default=None)


def _kept(was: TrackerFit) -> tuple[Doubt, ...]:
    return tuple(one.model_copy(update={"seen": False}) for one in was.doubts)


def _is_fresh(readings: tuple[Reading, ...], source: str, *, unasked: bool = False) -> bool:
    found = next((one for one in readings if one.source == source), None)
    return unasked if found is None else found.state is SourceState.FRESH


def _moved(was: Witness | None, step: Step | None) -> int | None:
    if was is None or was.step is None or step is None or step == was.step:
        return None
    return abs(step - was.step)


# --- State and time ------------------------------------------------------------------------------


def _state(scene: Scene) -> SourceResult:
    """Return a doubt if the tracker says that the run is over while steps continue."""
    state = scene.tracker.state
    if state == "running":
        return False
    # A synced offline run is shown as over, and a stopped run is over soon.
    offline = contract_of(scene.run).tracker.mode == "offline"
    if state not in ENDED_STATES or offline or scene.stopping:
        return None
    gauges = scene.seen.telemetry
    gauged = _moved(witness_of(scene.clocks, "telemetry"), gauges.step if gauges else None)
    # Steps that are seen for the first time also need a second check.
    fresh = scene.shown is not None and _step_logged(scene) is None
    if scene.printed is None and gauged is None and not fresh:
        return None
    begun = scene.instance.plan.resume_step or 0
    if scene.shown is not None and scene.shown.step - scene.shown.uncertainty <= begun:
        return None
    final = contract_of(scene.run).final_step.known
    newest = max(scene.shown.step if scene.shown else 0, scene.tracker.step or 0)
    if state == "finished" and final is not None and newest >= final - 1 - STEPS_MIN:
        return None
    if scene.shown is not None:
        how = f"its output went on to step {scene.shown.step}"
    else:
        how = "the job's gauge of steps went on"
    return f"the tracker says {state} while the job runs and {how}"


def _time(scene: Scene) -> SourceResult:
    """Return a doubt if the tracker's newest time is in the future or went back."""
    newest = scene.tracker.heartbeat_at
    if newest is None:
        return None
    if newest > max(scene.now, scene.seen.at) + CLOCKS_APART:
        return f"the tracker's newest time is {newest:%Y-%m-%d %H:%M:%S} UTC, which is yet to come"
    if scene.was.at is not None and newest < scene.was.at - CLOCKS_APART:
        before = f"{scene.was.at:%Y-%m-%d %H:%M:%S}"
        return f"the tracker's newest time went back from {before} to {newest:%Y-%m-%d %H:%M:%S}"
    return False


# --- Steps ---------------------------------------------------------------------------------------


def _floor(scene: Scene) -> Step | None:
    """Return the step below which the tracker may not fall from here on."""
    step, was = scene.tracker.step, scene.was
    # Steps of a failed attempt may be repeated and logged again later.
    floor = None if scene.restarted else was.step_best
    if step is None:
        return floor
    if floor is not None and step < floor:
        return step if _is_restart(scene, step) else floor
    if floor is not None:
        return step if doubt_of(was, "step_ahead") is None else floor
    # After a resume it may show the log of an earlier instance or attempt for a while.
    first = scene.had is None and not scene.attempts
    moved = was.step is not None and step > max(was.step, scene.had or 0)
    return step if first or moved else None


def _is_restart(scene: Scene, step: Step) -> bool:
    """Return whether training repeats steps, so that a tracker may show lower steps."""
    if scene.restarted:
        return True
    if scene.shown is not None:
        # The output decides: it shows the lower step or the restart.
        return scene.shown.step - scene.shown.uncertainty <= step + STEPS_MIN
    listing = scene.seen.checkpoints
    done = [one.step for one in listing.checkpoints if one.complete] if listing is not None else []
    # A job that prints no steps may have resumed from the newest checkpoint.
    return bool(done) and step >= max(done)


def _step_back(scene: Scene) -> SourceResult:
    """Return a doubt if the tracker shows a lower step although no step was repeated."""
    step, floor = scene.tracker.step, scene.was.step_best
    if step is None or floor is None:
        return None
    if step >= floor - STEPS_MIN or _is_restart(scene, step):
        return False
    logged = f", and the output is at step {scene.shown.step}" if scene.shown is not None else ""
    return f"the tracker fell back from step {floor} to {step} without a restart{logged}"


def _step_ahead(scene: Scene) -> SourceResult:
    """Return a doubt if the tracker shows a step that the output cannot have reached yet."""
    step, shown = scene.tracker.step, scene.shown
    if step is None or shown is None:
        return None
    begun = scene.instance.plan.resume_step or 0
    if scene.printed is None and _step_logged(scene) is not None:
        # An output that has stopped may be a broken pipe: it is not evidence.
        return False if step <= shown.step + shown.uncertainty + STEPS_MIN else None
    moved = max(shown.step - begun, 0) if scene.printed is None else _in_a_cadence(scene)
    unprinted = scene.limits.tracker_ahead * moved + shown.uncertainty + STEPS_MIN
    # Steps of an earlier instance or attempt may be logged, and are repeated.
    reached = max(scene.had or 0, scene.was.step_logged or 0, shown.step)
    if scene.had is not None and scene.clocks.rate is not None:
        cadence = cadence_of(contract_of(scene.run)).total_seconds()
        missed = MISSED_CADENCES * scene.clocks.rate * cadence
        reached = max(reached, scene.had + int(missed))
    if step <= reached + unprinted or _counts_otherwise(scene, step, shown.step):
        return False
    if scene.had is not None and scene.was.step is None:
        return None
    return f"the tracker shows step {step}, the output {shown.step}: progress goes by the output"


def _step_logged(scene: Scene) -> Step | None:
    """Return the step that the output showed at the previous check; none at first sight."""
    before = witness_of(scene.clocks, "logs")
    return before.step if before is not None else None


def _in_a_cadence(scene: Scene) -> float:
    """Return how many steps the output prints per cadence, measured since the previous check.

    A start is checked often, but its output may still be some minutes late.
    """
    before = witness_of(scene.clocks, "logs")
    printed = float(scene.printed or 0)
    if before is None or before.since is None:
        return printed
    cadence = cadence_of(contract_of(scene.run)).total_seconds()
    seconds = (scene.now - before.since).total_seconds()
    return printed * min(max(cadence / seconds, 1.0), OFTEN_MAX) if seconds > 0 else printed


def _counts_otherwise(scene: Scene, step: Step, logged: Step) -> bool:
    """Return whether a tracker counts something other than steps, such as micro-batches."""
    before = witness_of(scene.clocks, "logs")
    if before is None or before.step is None or scene.was.step is None or not scene.printed:
        return False
    if logged <= before.step or not before.step:
        return False
    ratio = step / logged
    pace = (step - scene.was.step) / (logged - before.step)
    return ratio >= OTHER_COUNT_MIN and abs(pace - ratio) <= SAME_COUNT * ratio


GROUNDS: dict[Ground, Callable[[Scene], SourceResult]] = {
    "state": _state,
    "time": _time,
    "step_back": _step_back,
    "step_ahead": _step_ahead,
    "loss": loss_difference,
}
"""The comparisons by ground, in the order of the report."""
