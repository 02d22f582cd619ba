"""The part of a contract that ends the watch before the run ends."""

from typing import Literal

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.values.basic import Value


class StoppingPart(Value):
    """Where the watch ends by agreement; the job itself is never stopped for it.

    Attributes:
        step: The watch ends at the first check that surely shows this step or a later one.
        at: It ends at the first check from this time on.
        event: It ends at the first complete checkpoint: `first_checkpoint`.
    """

    step: PositiveInt | None = None
    at: AwareDatetime | None = None
    event: Literal["", "first_checkpoint"] = ""
