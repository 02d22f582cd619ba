"""What a run remembers of its losses, as the reference for a resume."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.earlier import LossAt
from watchkeeper.domain.values.observation.measured import Measured

LOSSES_KEPT = 256
"""Pairs remembered of the newest stretch of training, and as many of those before it."""


def with_losses(known: tuple[LossAt, ...], checks: Iterable[CheckRecorded]) -> tuple[LossAt, ...]:
    """Add what checks sampled; of the newest stretch and of all others the newest are kept.

    Args:
        known: What is remembered.
        checks: Those that follow, oldest first.
    """
    stretch: tuple[str, int] | None = None
    sampled: list[Measured] = []
    for check in checks:
        measured = check.measured
        if not measured.losses:
            continue
        its_own = (check.instance, measured.segment)
        if stretch != its_own:
            if stretch is not None:
                known = _with_stretch(known, stretch, sampled)
            stretch, sampled = its_own, []
        sampled.append(measured)
    return known if stretch is None else _with_stretch(known, stretch, sampled)


def _with_stretch(
    known: tuple[LossAt, ...], stretch: tuple[str, int], sampled: Sequence[Measured]
) -> tuple[LossAt, ...]:
    """Add what was sampled in one stretch, at one check after another."""
    added = [
        LossAt(at, loss, stretch, measured.losses_slack)
        for measured in sampled[-LOSSES_KEPT:]  # Each holds one at least.
        for at, loss in measured.losses
    ]
    if known and known[-1].stretch == stretch:
        # The newest stretch stands whole at the end, as this function left it. Looking at each loss
        # at every check would be half of what folding a long history costs.
        begin = bisect_left(known, True, key=lambda one: one.stretch == stretch)
        others, own = known[:begin], known[begin:]
    else:
        others = tuple(one for one in known if one.stretch != stretch)
        own = tuple(one for one in known if one.stretch == stretch)
    return (*others[-LOSSES_KEPT:], *(*own, *added)[-LOSSES_KEPT:])


def without_lineage(known: tuple[LossAt, ...], above_step: int) -> tuple[LossAt, ...]:
    """Forget the losses of a lineage that was left: what is trained anew may well differ."""
    return tuple(one for one in known if one.step <= above_step)
