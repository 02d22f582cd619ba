"""The part of a contract that ends the watch before the run ends."""

from typing import Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.values.basic import Value


class StoppingPart(Value):
    """The agreed end of the watch. The job itself is not stopped.

    Attributes:
        step: The watch ends at the first check that surely shows this step or a later one.
        at: The watch ends at the first check from this time on.
        event: `first_checkpoint`: the watch ends at the first complete checkpoint.
    """

    step: PositiveInt | None = None
    at: AwareDatetime | None = None
    event: Literal["", "first_checkpoint"] = ""
