"""Which of a run's clocks moved at a check, and why none did."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from watchkeeper.domain.values.basic import Step, Value
from watchkeeper.domain.values.observation.sources import TrainingPhase


class Moves(StrEnum):
    """What one clock shows since the check before."""

    MOVED = "moved"
    STOOD = "stood"
    TOO_SOON = "too_soon"
    CATCHING_UP = "catching_up"
    SILENT = "silent"


class Witness(Value):
    """One clock of a run.

    Attributes:
        name: `logs` for the steps in the output, `output` for the output itself, `tracker`,
            `checkpoints` or `telemetry`.
        moves: `moved`, or `stood` where it answered and shows the same; `too_soon` where it could
            not show a change yet; `catching_up` where a tracker shows nothing below the step that
            it has had; `silent` where it gave no answer.
        step: The newest step that it showed; kept while it is silent.
        uncertainty: Steps either way.
        mark: What else must change when it moves, such as a digest of the output's tail.
        since: When it was first seen to show this.
        checks: Checks in a row at which it did not move.
        why: Why it is silent or cannot tell; empty where its steps say it all.
    """

    name: str
    moves: Moves
    step: Step | None = None
    uncertainty: int = 0
    mark: Annotated[str, Field(max_length=100)] = ""
    since: AwareDatetime | None = None
    checks: int = 0
    why: Annotated[str, Field(max_length=200)] = ""


class Quiet(StrEnum):
    """Why nothing is heard of a run, or not everything."""

    MOVING = "moving"
    TRACKER_SILENT = "tracker_silent"
    LOG_PIPE_DARK = "log_pipe_dark"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    COMPILING_OR_RESTORING = "compiling_or_restoring"
    RUN_HUNG = "run_hung"
    MONITOR_BLIND = "monitor_blind"
    NOT_JUDGED = ""


class Liveness(Value):
    """What independent witnesses say about whether a run moves.

    Attributes:
        phase: Where training is; none while nobody can tell.
        phase_since: When that began.
        quiet: The verdict; empty where it is too soon for one, or nothing runs.
        because: Why, in one sentence.
        since: When a step was last seen to come; the start of the phase while none came.
        checks: Checks in a row at which no step was seen to come, though one might have.
        witnesses: The clocks, at most 5; without `telemetry` where the run has never had gauges.
        rate: Steps in a second, by the newest two different steps of one clock.
        excused_at: When a planned act last expected the standstill: it is counted from there.
        unseen_s: Seconds in which steps came beyond all that the tracker showed, since it last
            moved; at most two cadences for each check, and nothing while no step came.
    """

    phase: TrainingPhase | None = None
    phase_since: AwareDatetime | None = None
    quiet: Quiet = Quiet.NOT_JUDGED
    because: str = ""
    since: AwareDatetime | None = None
    checks: int = 0
    witnesses: tuple[Witness, ...] = ()
    rate: float | None = None
    excused_at: AwareDatetime | None = None
    unseen_s: float = 0.0


def witness_of(liveness: Liveness, name: str) -> Witness | None:
    """Return a clock by its name; `None` if it was never read."""
    return next((one for one in liveness.witnesses if one.name == name), None)
