"""What a check can compare of a tracker with the run; see `tracker_fit`."""

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
"""Steps by which two clocks may always differ: the two ends of a bar that is rounded to +-5."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a check can compare.

    Attributes:
        was: What the newest check of this instance knew; empty for its first.
        clocks: The clocks at that check.
        tracker: Fresh.
        shown: The newest progress of the output, where the output is fresh.
        printed: Steps by which the output moved since then; none where it did not move, or was not
            seen before.
        had: The highest step of earlier instances; none for a first one.
        attempts: Failed attempts that the orchestrator tells of.
        stopping: Its end was asked for.
    """

    run: Run
    instance: Instance
    seen: Observation
    limits: Limits
    was: TrackerFit
    clocks: Liveness
    tracker: TrackerFacts
    shown: Progress | None
    printed: int | None
    had: Step | None
    attempts: int
    stopping: bool
    now: datetime

    @property
    def restarted(self) -> bool:
        """Whether an attempt failed since the check before."""
        return self.attempts > self.was.attempts


SourceResult = str | bool | None
"""What a ground says: a sentence where it does not fit, false where it fits, none where unknown."""
