"""What each clock of a run shows since the previous check.

A clock is a source that shows training steps. A heartbeat is no clock: it proves that a process
lives, not that it trains.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from watchkeeper.domain.reading.log_tail import LogTail
from watchkeeper.domain.reading.progress.progress import Progress
from watchkeeper.domain.values.basic import Reading, SourceState, Step
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.exits import significant
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness, Moves, Witness, witness_of
from watchkeeper.domain.values.observation.observation import Observation

STEP_CLOCKS = ("logs", "tracker", "checkpoints", "telemetry")
"""The clocks that show steps. `output` only shows that the job prints something."""

TELEMETRY_GONE = timedelta(minutes=10)
"""Older gauges count as outdated. Operating practice also uses 600 s."""

NOTHING_LOGGED = "nothing logged since the launch"
"""The reason for a stale tracker that answered, but shows only what an older instance logged."""

NO_STEP = "it shows no step"
"""The reason why a tracker that answered shows no progress."""

NO_CHECKPOINT = "there is none yet"
"""The reason why a store that answered shows no progress."""

_LOSS_MARK = "loss "

LOSS_ALONE = "a loss without a step, and none after it yet"
"""The reason why an output that shows only losses shows no progress."""

CATCH_UP_SLACK = 2.0
"""How many times longer than expected a tracker may be silent below its earlier newest step."""

_SAVING = re.compile(
    r"Saving (?:temporary |permanent )?checkpoint(?:.{0,40}?\bstep[ =:-]{0,2}(?P<step>\d{1,15})\b)?"
    r"|starting commit to storage",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The value of one clock at a check. `why` is set if the clock gives no answer."""

    step: Step | None = None
    uncertainty: int = 0
    mark: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class BeforeCheck:
    """What earlier checks showed of an instance.

    Attributes:
        liveness: The result of the previous check; empty at the instance's first check.
        rate: Steps per second: measured by the watch, or else as printed by the job.
        start: The step that the instance starts from.
        had: The highest step that earlier instances showed; `None` for the first.
        best: The highest step that this instance showed so far.
        began: When it was launched.
        now: The time of the check.
        tail: The facts read from the tail of its output.
    """

    liveness: Liveness
    rate: float | None
    start: Step
    had: Step | None
    best: Step | None
    began: datetime | None
    now: datetime
    tail: LogTail


def before_check(past: Earlier, instance: Instance, tail: LogTail, now: datetime) -> BeforeCheck:
    """Return what is known of an instance before a check reads its clocks."""
    last = past.last
    same = last is not None and last.instance == instance.plan.instance
    known = Liveness()
    if last is not None:
        # An instance inherits only the pace of the previous one.
        was = last.liveness
        known = was if same else Liveness(rate=was.rate)
    earlier = [i.step_best for i in past.instances[:-1] if i.step_best is not None]
    start = instance.plan.resume_step or 0
    had = max(earlier, default=None)
    # The first check has seen no movement yet. The printed pace is needed to judge a rounded bar.
    rate = known.rate if known.rate is not None else tail.rate
    return BeforeCheck(known, rate, start, had, instance.step_best, instance.launched_at, now, tail)


def witnesses_of(before: BeforeCheck, check: Check, seen: Observation) -> tuple[Witness, ...]:
    """Return what each clock shows at a check.

    Args:
        before: What was known.
        check: The check, without its liveness.
        seen: The observation; only bounded parts of it are kept.
    """
    by_source = {reading.source: reading for reading in check.readings}
    output = _output(before.tail, by_source.get("logs"))
    quiet_output = _is_same(before, output)
    return (
        _logs(before, by_source.get("logs"), exact=quiet_output),
        _witness(before, "output", output),
        _tracker(before, seen, by_source.get("tracker")),
        _witness(before, "checkpoints", _checkpoints(check, by_source.get("checkpoints"))),
        _witness(before, "telemetry", _telemetry(check, before.now)),
    )


def tracker_lag_s(
    before: BeforeCheck, witnesses: tuple[Witness, ...], passed: timedelta, *, asked: bool
) -> float:
    """Return how many seconds the tracker lags behind; see `Liveness.unseen_s`.

    Steps that the tracker already shows do not count: a resumed run repeats them.

    Args:
        before: What was known.
        witnesses: What the clocks show.
        passed: The counted time since the previous check.
        asked: Whether the tracker was queried.
    """
    tracker = next(one for one in witnesses if one.name == "tracker")
    if tracker.moves is Moves.MOVED:
        return 0.0
    shown = max(tracker.step or 0, before.had or 0)
    beyond = any(
        one.moves is Moves.MOVED and one.step is not None and one.step - one.uncertainty > shown
        for one in witnesses
    )
    return before.liveness.unseen_s + (passed.total_seconds() if beyond and asked else 0.0)


def is_saved(before: BeforeCheck, check: Check, line: str) -> bool:
    """Return whether a line names the saving of a now complete checkpoint; see `LogTail.busy`."""
    found = _SAVING.search(line)
    if found is None:
        return False
    # A line without a step is about the newest checkpoint.
    named = int(found["step"]) if found["step"] else before.best
    newest = max(check.checkpoints_complete, default=-1)
    # During catch-up the complete checkpoint may be from an earlier instance. It is written again.
    return named is not None and named > (before.had or -1) and newest >= named


def shows_earlier_instance(
    past: Earlier, instance: Instance, step: Step, logged: Progress | None, *, ended: bool
) -> bool:
    """Return whether a tracker in catch-up still shows what an earlier instance logged.

    A tracker that accepts no step twice stays at its newest step until training passes it again.

    Args:
        past: What the run's earlier checks showed.
        instance: The checked instance.
        step: The step that the tracker shows.
        logged: The step in the instance's own output.
        ended: Whether the instance is over. The tracker's step then counts as the place of the
            failure, unless another source contradicts it. So a human sees a second failure at the
            same step.
    """
    earlier = [i.step_best for i in past.instances[:-1] if i.step_best is not None]
    had = max(earlier, default=None)
    if had is None or step > had or step <= (instance.step_best or -1):
        return False
    last = past.last
    same = last is not None and last.instance == instance.plan.instance
    was = witness_of(last.liveness, "tracker") if last is not None else None
    same_step = step == had or (was is not None and step == was.step)
    if logged is None:
        return same_step and not ended
    if same and was is not None and was.step is not None:
        # A tracker that moves among these steps logs them again.
        return same_step
    return step > logged.step + logged.uncertainty


def shows_loss_alone(witness: Witness) -> bool:
    """Return whether a clock is an output that answered and shows a loss without a step."""
    return witness.mark.startswith(_LOSS_MARK) and witness.moves is not Moves.SILENT


def steps_per_second(before: BeforeCheck, witnesses: tuple[Witness, ...]) -> float | None:
    """Return the steps per second of a clock that moved, or else the earlier pace."""
    rates: list[float] = []
    for now in witnesses:
        was = witness_of(before.liveness, now.name)
        moved = now.moves is Moves.MOVED and was is not None and was.since is not None
        if not moved or was is None or now.step is None or was.step is None or was.since is None:
            continue
        gained, seconds = now.step - was.step, (before.now - was.since).total_seconds()
        # Both ends of a rounded bar are imprecise, so only a large distance gives a pace.
        if gained > 2 * (now.uncertainty + was.uncertainty) and seconds > 0:
            rates.append(significant(gained / seconds))
    # The first clocks are more precise. Checkpoints come late and in jumps.
    return rates[0] if rates else before.liveness.rate


# --- One clock -----------------------------------------------------------------------------------


def _witness(
    before: BeforeCheck, name: str, shown: ClockReading, *, exact: bool = False
) -> Witness:
    was = witness_of(before.liveness, name)
    if shown.why:
        kept = was or Witness(name=name, moves=Moves.SILENT)
        why = shown.why[:200]
        return kept.model_copy(
            update={"moves": Moves.SILENT, "checks": kept.checks + 1, "why": why}
        )
    fresh = Witness(
        name=name,
        moves=Moves.MOVED,
        step=shown.step,
        uncertainty=shown.uncertainty,
        mark=shown.mark,
        since=before.now,
    )
    if was is None or was.since is None:
        # The first value proves movement only if it is beyond the start and all earlier steps.
        floor = max(before.start, before.had or 0, before.best or 0)
        beyond = shown.step is not None and shown.step - shown.uncertainty > floor
        if beyond and name != "output":
            return fresh
        return fresh.model_copy(update={"moves": Moves.TOO_SOON, "why": "seen for the first time"})
    if (was.step, was.mark) != (shown.step, shown.mark):
        return fresh
    stood = was.model_copy(
        update={
            "moves": Moves.STOOD,
            "uncertainty": shown.uncertainty,
            "checks": was.checks + 1,
            "why": "",
        }
    )
    wait = _rounding(before, was.since, shown)
    if wait and not exact:
        return stood.model_copy(update={"moves": Moves.TOO_SOON, "why": wait})
    return stood


def _rounding(before: BeforeCheck, since: datetime, shown: ClockReading) -> str:
    """Return why a rounded step could not show a change yet; empty if it could."""
    if not shown.uncertainty:
        return ""
    width = 2 * shown.uncertainty
    if before.rate is None:
        return f"rounded to {width} steps, and no pace is known yet"
    expected = before.rate * (before.now - since).total_seconds()
    if expected > width:
        return ""
    return f"rounded to {width} steps, of which about {expected:.0f} were to come"


def _is_same(before: BeforeCheck, output: ClockReading) -> bool:
    """Return whether the output is unchanged; its rounded step is then unchanged as well."""
    was = witness_of(before.liveness, "output")
    return was is not None and not output.why and was.mark == output.mark


def _silence(reading: Reading | None) -> str:
    """Return why a source gave no usable answer; empty if it answered."""
    if reading is None:
        return "not asked"
    return "" if reading.state is SourceState.FRESH else reading.reason or reading.state.value


def _output(tail: LogTail, reading: Reading | None) -> ClockReading:
    why = _silence(reading)
    if why:
        return ClockReading(why=why)
    return ClockReading(mark=tail.digest)


def _logs(before: BeforeCheck, reading: Reading | None, *, exact: bool) -> Witness:
    why = _silence(reading)
    if why:
        return _witness(before, "logs", ClockReading(why=why))
    shown = before.tail.progress
    if shown is not None:
        return _witness(before, "logs", ClockReading(shown.step, shown.uncertainty), exact=exact)
    loss = before.tail.loss_alone
    if not loss:
        return _witness(before, "logs", ClockReading(why="no progress line in the output's tail"))
    mark = f"{_LOSS_MARK}{hashlib.sha256(loss.encode()).hexdigest()[:16]}"
    found = _witness(before, "logs", ClockReading(mark=mark))
    was = witness_of(before.liveness, "logs")
    # Losses are printed only every few steps. So a new one proves progress, but a missing one
    # proves nothing.
    if was is not None and was.mark and found.moves is Moves.MOVED:
        return found
    return found.model_copy(update={"moves": Moves.TOO_SOON, "why": LOSS_ALONE})


def _tracker(before: BeforeCheck, seen: Observation, reading: Reading | None) -> Witness:
    why = _silence(reading)
    step = seen.tracker.step if seen.tracker is not None else None
    if not why and step is None:
        why = NO_STEP
    found = _witness(before, "tracker", ClockReading(step, why=why))
    standing = found.moves in (Moves.STOOD, Moves.TOO_SOON)
    if not standing or before.had is None or step is None or step > before.had:
        return found
    if _caught_up_by(before) <= before.now:
        return found
    why = f"nothing new is logged below step {before.had}, which it has had"
    return found.model_copy(update={"moves": Moves.CATCHING_UP, "why": why})


def _caught_up_by(before: BeforeCheck) -> datetime:
    """Return until when a tracker may be silent while training repeats known steps."""
    began = before.liveness.phase_since or before.began or before.now
    if before.rate is None or before.had is None:
        # Without a pace the duration is unknown. A day is longer than any catch-up.
        return began + timedelta(days=1)
    steps = max(before.had - before.start, 0)
    return began + timedelta(seconds=CATCH_UP_SLACK * steps / before.rate + 3600)


def _checkpoints(check: Check, reading: Reading | None) -> ClockReading:
    why = _silence(reading)
    if why:
        return ClockReading(why=why)
    half = [one.step for one in check.checkpoints_incomplete]
    steps = [*check.checkpoints_complete, *half]
    if not steps:
        return ClockReading(why=NO_CHECKPOINT)
    newest = max(steps)
    return ClockReading(newest, mark="incomplete" if newest in half else "")


def _telemetry(check: Check, now: datetime) -> ClockReading:
    gauges = check.telemetry
    if gauges is None:
        return ClockReading(why="no gauges")
    if gauges.at is None or now - gauges.at > TELEMETRY_GONE:
        return ClockReading(why="no sample for more than 10 min")
    if gauges.step is None and gauges.progress_at is None:
        return ClockReading(why="no gauge of steps or progress")
    mark = gauges.progress_at.isoformat() if gauges.progress_at is not None else ""
    return ClockReading(gauges.step, mark=mark)
