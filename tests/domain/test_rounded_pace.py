"""A pace from bars that round: only what is slow whatever was rounded away."""

import pytest

from watchkeeper.domain.reading.metrics.rounded_pace import (
    RoundedProgress,
    newest_stretch,
    rough_paces,
    slow_paces,
)

CADENCE_S = 600.0
SLACK = 50


def bars(*paces: int) -> RoundedProgress:
    """What a bar that rounds to 100 steps shows at each cadence, for steps done in each."""
    done, points = 0, [(0.0, 0)]
    for number, pace in enumerate(paces, 1):
        done += pace
        points.append((number * CADENCE_S, round(done, -2)))
    return newest_stretch(points, SLACK)


@pytest.mark.parametrize(
    ("paces", "slow"),
    [
        ((600,) * 12, False),
        ((60,) * 20, False),  # 0, 100, 100, 0 and so on: steady, and rounded away.
        ((600,) * 8 + (100,) * 6, True),
        ((600,) * 8 + (500,) * 6, False),  # Within what may have been rounded away.
        ((600,) * 8 + (0,) * 6, False),  # A standstill is H3's.
    ],
)
def test_slow_is_what_no_rounding_explains(paces: tuple[int, ...], slow: bool) -> None:
    assert bool(slow_paces(bars(*paces), CADENCE_S, 3, 0.25)) is slow


def test_a_step_that_falls_begins_a_stretch_of_its_own() -> None:
    shown = newest_stretch([(0.0, 900), (1.0, 1_000), (2.0, 500), (3.0, 600)], SLACK)
    assert (shown.times, shown.steps) == ((2.0, 3.0), (500, 600))


def test_two_checks_at_one_time_tell_no_pace() -> None:
    [(at, pace)] = rough_paces(RoundedProgress((0.0, 0.0, 600.0), (0, 1_000, 2_000), SLACK))
    assert at == 600
    assert pace == pytest.approx(1_000 / 600)
