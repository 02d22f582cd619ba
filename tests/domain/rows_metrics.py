"""Rows of what the metrics show: H4, H7, H8 and H9."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.domain.given import Answer, History
from tests.domain.rule_tables import (
    CLEARS,
    OPENS,
    PLANNED,
    STAYS,
    UNAVAILABLE,
    Facts,
    Row,
)
from tests.domain.training import Training, training, wobble
from watchkeeper.domain.run.ends import Action

GOOD: dict[str, Any] = {"z_loss": 0.001, "entropy": 2.0, "skipped": 0.0}
"""What is logged beside the usual where a fault needs it."""


@dataclass(frozen=True)
class Logged:
    """A run whose metrics are logged step by step; a look is one cadence of 100 steps."""

    run: Training

    @property
    def history(self) -> History:
        """What is recorded."""
        return self.run.history

    def look(self, **values: Any) -> Answer:
        """Let one cadence of training pass, and check."""
        return self.run.cadence(**values)


def again(run: Training) -> Logged:
    """The same run once more, so that each cell goes on from it by itself."""
    told = run.history
    history = History(told.run, list(told.events), told.now)
    return Logged(Training(history, run.step, list(run.rows)))


@cache
def _healthy() -> Training:
    run = training(0)
    run.cadences(8, **GOOD)
    return run


def healthy() -> Logged:
    """Eight cadences of healthy training, past warm-up: step 800."""
    return again(_healthy())


@cache
def _hero() -> Training:
    run = training(0, lane="hero", watch={"holder": "watchkeeper", "cadence": "570s"})
    run.cadences(10)
    return run


def hero() -> Logged:
    """A hero run's first hour and a half."""
    return again(_hero())


@cache
def _resumed() -> Training:
    run = training(10)
    return run.resume(run.step - 600)


def resumed() -> Logged:
    """A second instance that trains the last 600 of 1,000 steps again."""
    return again(_resumed())


def for_steps(count: int, bad: float, well: float) -> Callable[[int], float]:
    """A value that is bad for so many steps from step 840 on."""
    return lambda step: bad if 840 <= step < 840 + count else well * wobble(step)


def at_840(step: int) -> float:
    """One NaN."""
    return math.nan if step == 840 else 2.5 * wobble(step)


def nowhere(step: int) -> float:
    """No number at all."""
    del step
    return math.nan


def twice(step: int) -> float:
    """Two steps are skipped."""
    return float(step in (820, 821))


def often(step: int) -> float:
    """Every twentieth step is skipped."""
    return float(step % 20 == 0)


def off_by(apart: float) -> Callable[[int], float]:
    """The usual loss of each step, and so much more."""
    return lambda step: 2.5 * wobble(step) + apart


def metric(
    kind: str,
    rule: str,
    *,
    nearly: tuple[dict[str, Any], ...] = (),
    bad: dict[str, Any],
    words: tuple[str, str, str],
    action: Action = Action.ALERT,
    **changes: Any,
) -> Row:
    """A row of a metric: it stays while it is bad, and clears in four good cadences."""
    fields: dict[str, Any] = {
        "given": healthy,
        "clears": (GOOD,) * 4,
        "stays": {**GOOD, **bad},
        **changes,
    }
    told = dict(zip((OPENS, STAYS, CLEARS), words, strict=True))
    silent: Facts = {"gone": ("history", "tracker")}
    return Row(
        rule=rule,
        kind=kind,
        nearly=tuple({**GOOD, **one} for one in nearly),
        opens={**GOOD, **bad},
        silent=silent,
        action=action,
        words={
            **told,
            PLANNED: "expected by the act",
            UNAVAILABLE: "neither history nor tracker gives an answer",
        },
        **fields,
    )


AGAIN = "it goes on"

METRIC_ROWS = (
    metric(
        "throughput_collapse",
        "H4",
        nearly=({"pace": 600_000.0}, {"pace": 600_000.0}),
        bad={"pace": 600_000.0},
        action=Action.NOTIFY,
        words=("the third cadence in a row at 40 % less; at two none", AGAIN, "the usual pace"),
    ),
    metric(
        "not_finite",
        "H7",
        bad={"loss": at_840},
        stays={**GOOD, "loss": nowhere},
        words=("a NaN at one step, over at the check", "NaN at each step", "30 numbers again"),
    ),
    metric(
        "gradient_explosion",
        "H7",
        nearly=({"gradient": for_steps(9, 9.0, 0.3)},),
        bad={"gradient": 9.0},
        words=("30 times its median, 10 steps in a row; 9 none", AGAIN, "the usual norm"),
    ),
    metric(
        "z_loss_jump",
        "H7",
        nearly=({"z_loss": for_steps(9, 0.05, 0.001)},),
        bad={"z_loss": 0.05},
        words=("50 times its median, 10 steps in a row; 9 none", AGAIN, "the usual z-loss"),
    ),
    metric(
        "router_collapse",
        "H7",
        nearly=({"entropy": for_steps(9, 0.4, 2.0)},),
        bad={"entropy": 0.4},
        words=("a fifth of its entropy, 10 steps in a row; 9 none", AGAIN, "the usual entropy"),
    ),
    metric(
        "optimizer_instability",
        "H7",
        nearly=({"skipped": twice},),
        bad={"skipped": often},
        words=("5 steps skipped in a quarter of an hour; 2 none", AGAIN, "none is skipped"),
    ),
    metric(
        "loss_raised",
        "H8",
        nearly=({"loss": for_steps(9, 25.0, 2.5)},),
        bad={"loss": 4.4},
        words=("76 % above its trend; 9 steps at ten times as much none", AGAIN, "the trend again"),
    ),
    metric(
        "loss_shift",
        "H8",
        given=hero,
        bad={"loss": 2.8},
        words=(
            "a hero run's lowest loss of 5 min is 12 % above the 55 min before",
            AGAIN,
            "the level before",
        ),
    ),
    metric(
        "resume_loss",
        "H9",
        given=resumed,
        nearly=({"loss": off_by(0.0019)},),
        bad={"loss": off_by(0.01)},
        words=(
            "losses of like steps differ by 0.01 after the resume; by 0.0019 none",
            AGAIN,
            "like steps agree",
        ),
    ),
)
"""In the order of their rules."""
