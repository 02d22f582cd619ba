"""How long a run may be quiet, and how much disk space must be free.

The lane's default applies to each setting that is left out.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator

from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.durations import Duration

Share = Annotated[float, Field(gt=0, lt=1)]


class LivePart(Value):
    """Limits of the detectors that judge whether a run moves: H3, H5, H13, H15 and H16.

    Attributes:
        initialising: How long a job that runs may start without a word and without a step.
        startup_watchdog: How long it may start while its output goes on (H3). It only alerts.
        compiling: How long no step may come while the newest output speaks of compiling,
            restoring, saving or an evaluation.
        stall: How long steps may stand still in training (H3).
        stall_cadences: Cadences in a row over which they must stand still as well.
        tracker_silent: How long steps may come beyond all that the tracker shows, with nothing new
            in it, before that is told (H1). Time without steps, or without checks, does not count.
        checkpoint_slack: How many intervals may pass without a new complete checkpoint (H5).
        checkpoint_write: How long a checkpoint may be written before its metadata is missing (H5).
        disk_warn: Share of a disk below which free space is told (H15).
        disk_alert: Share of a disk below which it is an alert (H15).
    """

    initialising: Duration | None = None
    startup_watchdog: Duration | None = None
    compiling: Duration | None = None
    stall: Duration | None = None
    stall_cadences: Annotated[int, Field(ge=1, le=48)] | None = None
    tracker_silent: Duration | None = None
    checkpoint_slack: Annotated[float, Field(ge=1, le=100)] | None = None
    checkpoint_write: Duration | None = None
    disk_warn: Share | None = None
    disk_alert: Share | None = None

    @field_validator(
        "initialising",
        "startup_watchdog",
        "compiling",
        "stall",
        "tracker_silent",
        "checkpoint_write",
    )
    @classmethod
    def _positive(cls, value: timedelta | None) -> timedelta | None:
        if value is not None and not timedelta(milliseconds=100) <= value <= timedelta(days=7):
            raise ValueError("expected a duration between 0.1s and 7d")
        return value
