"""Reasons to doubt a tracker: its data does not fit the recorded lineage."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, NonNegativeInt, PositiveInt

from watchkeeper.domain.values.basic import Step, Value

Ground = Literal["state", "time", "step_back", "step_ahead", "loss"]
"""The part of a tracker's data that does not fit: state, newest time, step or loss."""


class Doubt(Value):
    """One ground on which a tracker does not fit the run.

    Attributes:
        ground: See `Ground`.
        line: What was seen, in one sentence with its numbers.
        checks: Checks in a row that could tell and saw it.
        seen: This check saw it; false where it is only kept, since nobody could tell now.
    """

    ground: Ground
    line: Annotated[str, Field(max_length=300)]
    checks: PositiveInt = 1
    seen: bool = True


class TrackerFit(Value):
    """How what a tracker shows fits the instance, as far as a check could tell.

    Attributes:
        doubts: What does not fit, at most one for each ground.
        compared: This check could tell on at least one ground.
        step: The newest step that the tracker showed under this instance.
        step_best: The step that it may not fall behind: the highest it was seen to log itself.
        step_logged: The highest step that the output showed under this instance.
        at: The newest time that the tracker showed.
        attempts: Failed attempts of the orchestrator's at that time.
    """

    doubts: tuple[Doubt, ...] = ()
    compared: bool = False
    step: Step | None = None
    step_best: Step | None = None
    step_logged: Step | None = None
    at: AwareDatetime | None = None
    attempts: NonNegativeInt = 0


def doubt_of(fit: TrackerFit, ground: Ground) -> Doubt | None:
    """Return the doubt on one ground, or `None`."""
    return next((one for one in fit.doubts if one.ground == ground), None)
