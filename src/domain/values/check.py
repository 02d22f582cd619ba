"""What a check judged: health, progress, the first lines."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from watchkeeper.domain.values.basic import Step, Value


class Health(StrEnum):
    """A check's verdict on the run; a silent watch never changes it."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class Progress(Value):
    """How far training is, as far as known.

    Attributes:
        step: The newest step by any source.
        uncertainty: Steps either way; rounded progress bars carry some.
        source: `tracker` or `logs`.
        doubt: What another source shows that was not believed; empty for nothing.
    """

    step: Step
    uncertainty: int = 0
    source: Literal["tracker", "logs"]
    doubt: Annotated[str, Field(max_length=300)] = ""


class Startup(Value):
    """What the job's first lines said.

    Attributes:
        resumed_step: The step it says it resumed from.
        scratch: It says that it started from scratch.
        forbidden: Lines seen that show a text of `policy.lines_forbidden`: at most 4.
        expected: Texts of `policy.lines_expected` that were seen so far.
        whole: All that the job printed was read at this check, so what was not seen is not there.
            Only said where the contract names texts.
        checkpoint: The checkpoint that it says it loads; empty while it named none.
        output_path: Where it says that it writes; empty while it named no place.
    """

    resumed_step: Step | None = None
    scratch: bool = False
    forbidden: tuple[str, ...] = ()
    expected: tuple[str, ...] = ()
    whole: bool = False
    checkpoint: Annotated[str, Field(max_length=1_000)] = ""
    output_path: Annotated[str, Field(max_length=1_000)] = ""


class Severity(StrEnum):
    """How loudly a finding asks for someone."""

    NOTIFY = "notify"
    ALERT = "alert"
