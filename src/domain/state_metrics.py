"""What a run's state remembers of its losses: the reference that a resume is compared with."""

from bisect import bisect_left
from dataclasses import dataclass

from watchkeeper.domain.events_watch import CheckRecorded

LOSSES_KEPT = 256
"""Pairs remembered of the newest stretch of training, and as many of those before it."""


@dataclass(frozen=True, slots=True)
class LossAt:
    """A loss that was logged at a step.

    Attributes:
        stretch: Which stretch of training logged it: the instance, and how often it stepped back.
        slack: What rounding may have taken from it.
    """

    step: int
    loss: float
    stretch: tuple[str, int]
    slack: float = 0.0


def with_losses(known: tuple[LossAt, ...], check: CheckRecorded) -> tuple[LossAt, ...]:
    """Add what a check sampled; of the newest stretch and of all others the newest are kept."""
    measured = check.measured
    if not measured.losses:
        return known
    stretch = (check.instance, measured.segment)
    added = tuple(
        [LossAt(at, loss, stretch, measured.losses_slack) for at, loss in measured.losses]
    )
    if known and known[-1].stretch == stretch:
        # The newest stretch stands whole at the end, as this function left it. Looking at each loss
        # at every check would be half of what folding a long history costs.
        begin = bisect_left(known, True, key=lambda one: one.stretch == stretch)
        others, own = known[:begin], known[begin:]
    else:
        others = tuple(one for one in known if one.stretch != stretch)
        own = tuple(one for one in known if one.stretch == stretch)
    return others[-LOSSES_KEPT:] + (own + added)[-LOSSES_KEPT:]


def without_lineage(known: tuple[LossAt, ...], above_step: int) -> tuple[LossAt, ...]:
    """Forget the losses of a lineage that was left: what is trained anew may well differ."""
    return tuple(one for one in known if one.step <= above_step)
