"""Parts of a contract that name further sources: job gauges and disks."""

import re
from typing import Annotated

from pydantic import Field, field_validator

from watchkeeper.domain.values.basic import Value

_URL = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#@]*)?(?:\?[^\s#@]*)?")

Gauge = Annotated[str, Field(pattern=r"^[a-zA-Z_:][a-zA-Z0-9_:]*$", max_length=200)]
"""A metric's name as Prometheus takes it."""


class TelemetryPart(Value):
    """The Prometheus endpoint of a job's own gauges.

    A gauge that is not named is recognised by its usual names.

    Attributes:
        url: URL of the text exposition, such as `http://head:9090/metrics`; empty without one.
        step: The gauge of the training's step.
        phase: The gauge of the phase: 0 not started, 1 initialising or compiling, 2 training.
        progress_at: The gauge of the last step's time, in seconds since 1970.
        keep: Further gauges to read by name; recognised ones need not be named.
    """

    url: str = ""
    step: Gauge | None = None
    phase: Gauge | None = None
    progress_at: Gauge | None = None
    keep: tuple[Gauge, ...] = ()

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        if value and not _URL.fullmatch(value):
            raise ValueError(
                "expected the URL of a metrics page without user or key, for example "
                "http://10.0.0.5:9090/metrics"
            )
        return value


class HostsPart(Value):
    """Requirements for the machines of a run.

    Attributes:
        mounts: Folders that must be mounts on each machine, such as gcsfuse mounts.
    """

    mounts: tuple[Annotated[str, Field(pattern=r"^/[^\x00]*$", max_length=300)], ...] = ()
