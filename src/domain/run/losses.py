"""The sampled losses in a run's state, which a resume is compared with."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.earlier import LossAt
from watchkeeper.domain.values.observation.measured import Measured

LOSSES_KEPT = 256
"""How many losses are remembered of the newest stretch, and how many of earlier ones."""


def with_losses(known: tuple[LossAt, ...], checks: Iterable[CheckRecorded]) -> tuple[LossAt, ...]:
    """Add the losses that checks sampled; the newest are kept.

    Args:
        known: The remembered losses.
        checks: The following checks, oldest first.
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
    """Add the losses that consecutive checks sampled in one stretch."""
    added = [
        LossAt(at, loss, stretch, measured.losses_slack)
        for measured in sampled[-LOSSES_KEPT:]  # Each check has at least one loss.
        for at, loss in measured.losses
    ]
    if known and known[-1].stretch == stretch:
        # The newest stretch is complete at the end of the list, as this function left it. Reading
        # each loss at every check would be half of the cost of folding a long history.
        begin = bisect_left(known, True, key=lambda one: one.stretch == stretch)
        others, own = known[:begin], known[begin:]
    else:
        others = tuple(one for one in known if one.stretch != stretch)
        own = tuple(one for one in known if one.stretch == stretch)
    return (*others[-LOSSES_KEPT:], *(*own, *added)[-LOSSES_KEPT:])


def without_lineage(known: tuple[LossAt, ...], above_step: int) -> tuple[LossAt, ...]:
    """Drop the losses of an abandoned lineage. Retrained steps may have other losses."""
    return tuple(one for one in known if one.step <= above_step)
