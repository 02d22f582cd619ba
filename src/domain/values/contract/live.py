"""The contract's limits for progress and disk space (`live`).

The lane's default applies to each setting that is left out.
"""

from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator

from watchkeeper.domain.values.basic import Value
from watchkeeper.domain.values.durations import Duration

Share = Annotated[float, Field(gt=0, lt=1)]


class LivePart(Value):
    """Limits for progress and hosts: H3, H5, H13, H15 and H16.

    Attributes:
        initialising: How long a running job may start without output and without a step.
        startup_watchdog: How long it may start while its output continues (H3). It only alerts.
        compiling: How long steps may be missing while the newest output is about compiling,
            restoring, saving or an evaluation.
        stall: How long steps may be missing in training (H3).
        stall_cadences: How many consecutive cadences steps must also be missing.
        tracker_silent: How long the tracker may show nothing new while steps come (H1). Time
            without steps or checks does not count.
        checkpoint_slack: How many intervals may pass without a new complete checkpoint (H5).
        checkpoint_write: How long writing a checkpoint may take (H5).
        disk_warn: Free share of a disk below which H15 notifies.
        disk_alert: Free share of a disk below which H15 alerts.
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
