"""Reasons to doubt a tracker whose data does not fit the recorded lineage."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, NonNegativeInt, PositiveInt

from watchkeeper.domain.values.basic import Step, Value

Ground = Literal["state", "time", "step_back", "step_ahead", "loss"]
"""The part of a tracker's data that does not fit: state, newest time, step or loss."""


class Doubt(Value):
    """One ground on which a tracker does not fit the run.

    Attributes:
        ground: See `Ground`.
        line: One sentence with the numbers that do not fit.
        checks: The number of consecutive checks that saw it.
        seen: Whether this check saw it. False means that this check could not compare.
    """

    ground: Ground
    line: Annotated[str, Field(max_length=300)]
    checks: PositiveInt = 1
    seen: bool = True


class TrackerFit(Value):
    """The comparison of a tracker with the instance at a check.

    Attributes:
        doubts: The doubts, at most one for each ground.
        compared: Whether this check could compare at least one ground.
        step: The newest step that the tracker showed under this instance.
        step_best: The step below which it must not fall: the highest step that it logged itself.
        step_logged: The highest step that the output showed under this instance.
        at: The newest time that the tracker showed.
        attempts: The orchestrator's failed attempts at that time.
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
