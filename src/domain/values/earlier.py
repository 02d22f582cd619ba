"""The facts of a run's earlier checks for readers of logs and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from watchkeeper.domain.values.basic import Step
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.measured import Level, Measured, Pace
from watchkeeper.domain.values.observation.sources import CapacityFacts


class PastCheck(NamedTuple):
    """The remembered part of a check. It is a tuple for speed.

    Attributes:
        at: When it was made.
        version: Its place in the run's events.
        instance: The checked instance.
        listed: Whether the checkpoint store answered.
        incomplete: Paths of the checkpoints without their metadata.
        left: Complete checkpoints, and the one that was being written.
        new_steps: Steps of complete checkpoints that were seen for the first time.
        capacity: The capacity that the job waited for or had.
        step: The step at the check.
        metrics: The newest values by name.
        source: See `Measured`; empty if nothing was measured.
        segment: See `Measured`.
        losses: See `Measured`.
        measured: All measurements, kept only for the newest check and the newest with measurements.
        levels: Levels that no later check measured again, by their field in `Measured`.
        pace: The pace with a baseline, unless a later check measured it again.
        lost: Whether the orchestrator answered but did not know the job.
        tracked: Whether the tracker answered.
        clocks: The newest times that the tracker and the checkpoints' store gave.
    """

    at: datetime
    version: int
    instance: str
    listed: bool
    incomplete: tuple[str, ...]
    left: int
    new_steps: tuple[Step, ...]
    capacity: CapacityFacts | None
    step: Step | None
    metrics: Mapping[str, float]
    source: str
    segment: int
    losses: tuple[tuple[Step, float], ...]
    measured: Measured | None
    levels: Mapping[str, Level]
    pace: Pace | None
    lost: bool
    tracked: bool
    clocks: tuple[datetime | None, ...]


class LossAt(NamedTuple):
    """A loss that was logged at a step. It is a tuple for speed.

    Attributes:
        stretch: The stretch of training that logged it: the instance, and how often it stepped
            back.
        slack: The rounding error of the loss.
    """

    step: int
    loss: float
    stretch: tuple[str, int]
    slack: float = 0.0


@dataclass(frozen=True, slots=True)
class RejectedLineage:
    """Steps that were trained beyond a point, up to an instance, and then abandoned.

    Attributes:
        through: The last instance that wrote it.
        at: When it was rejected. Later checkpoints belong to another lineage.
    """

    above_step: int
    through: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Earlier:
    """The contract and the earlier checks of a run.

    Attributes:
        contract: The run's current contract.
        instances: All instances, oldest first.
        checks: The remembered checks, oldest first.
        last: The newest check; `None` before the first.
        last_at: When that check was made.
        open_rules: Rules of the findings that are open, such as `H4`.
        losses: The losses at sampled steps.
        lineages: Stretches of steps that a rollback left behind.
    """

    contract: Contract
    instances: tuple[Instance, ...]
    checks: tuple[PastCheck, ...] = ()
    last: Check | None = None
    last_at: datetime | None = None
    open_rules: frozenset[str] = frozenset()
    losses: tuple[LossAt, ...] = ()
    lineages: tuple[RejectedLineage, ...] = ()
