"""The facts that `tracker_fit` compares between a tracker and the run."""

from dataclasses import dataclass
from datetime import datetime

from watchkeeper.domain.reading.progress.progress import Progress
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.basic import Step, TrackerFacts
from watchkeeper.domain.values.contract.detect_limits import Limits
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.liveness import Liveness
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.tracker_doubts import TrackerFit

STEPS_MIN = 10
"""Steps by which two clocks may always differ: a progress bar is rounded to +-5."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The facts that a check can compare.

    Attributes:
        was: The tracker's fit at the previous check of this instance; empty at its first check.
        clocks: The clocks at that check.
        tracker: The fresh facts of the tracker.
        shown: The newest progress of the output, if the output is fresh.
        losses: The newest progress lines of the output with a finite loss, newest first.
        printed: Steps by which the output advanced since the previous check; `None` if it did not.
        had: The highest step of earlier instances; `None` for the first instance.
        attempts: Failed attempts that the orchestrator reports.
        stopping: Whether a stop was requested.
    """

    run: Run
    instance: Instance
    seen: Observation
    limits: Limits
    was: TrackerFit
    clocks: Liveness
    tracker: TrackerFacts
    shown: Progress | None
    losses: tuple[Progress, ...]
    printed: int | None
    had: Step | None
    attempts: int
    stopping: bool
    now: datetime

    @property
    def restarted(self) -> bool:
        """Whether an attempt failed since the previous check."""
        return self.attempts > self.was.attempts


SourceResult = str | bool | None
"""The result of a comparison: a sentence if it fails, `False` if it fits, `None` if unknown."""
