"""Which of a run's clocks moved at a check, or why no clock moved."""

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, Field

from watchkeeper.domain.values.basic import Step, Value
from watchkeeper.domain.values.observation.sources import TrainingPhase


class Moves(StrEnum):
    """The change of one clock since the previous check."""

    MOVED = "moved"
    STOOD = "stood"
    TOO_SOON = "too_soon"
    CATCHING_UP = "catching_up"
    SILENT = "silent"


class Witness(Value):
    """One clock of a run.

    Attributes:
        name: `logs` (steps in the output), `output` (any output), `tracker`, `checkpoints` or
            `telemetry`.
        moves: `moved`; `stood` if the clock answered without a change; `too_soon` if no change was
            possible yet; `catching_up` if a tracker shows nothing below its highest earlier step;
            `silent` without an answer.
        step: The newest step that it showed; kept while it is silent.
        uncertainty: Largest error of the step, in both directions.
        mark: Another value that changes when the clock moves, such as a digest of the output's
            tail.
        since: When it first showed this value.
        checks: The number of consecutive checks without a change.
        why: Why it is silent or shows nothing yet; else empty.
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
    """Why all or some clocks of a run do not move."""

    MOVING = "moving"
    TRACKER_SILENT = "tracker_silent"
    LOG_PIPE_DARK = "log_pipe_dark"
    WAITING_FOR_CAPACITY = "waiting_for_capacity"
    COMPILING_OR_RESTORING = "compiling_or_restoring"
    RUN_HUNG = "run_hung"
    MONITOR_BLIND = "monitor_blind"
    NOT_JUDGED = ""


class Liveness(Value):
    """The verdict of independent clocks on whether a run advances.

    Attributes:
        phase: The phase of training; `None` while it is unknown.
        phase_since: When the phase began.
        quiet: The verdict; empty if it is too early, or if nothing runs.
        because: The reason for the verdict, in one sentence.
        since: When a new step was last seen; before the first one, the start of the phase.
        checks: Number of checks in a row without a new step, although one was possible.
        witnesses: The clocks, at most 5; without `telemetry` if the run has never had gauges.
        rate: Steps per second, from the newest two different steps of one clock.
        excused_at: When a planned act last expected the stall. The stall is counted from this time.
        unseen_s: Seconds since the tracker last moved in which other clocks showed newer steps.
            Each check adds at most two cadences, and nothing without a new step.
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
