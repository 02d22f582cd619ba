"""Which failures of a log training got over: it went on after them, and broke by itself later.

A storage that did not answer, or a peer that was reset, is retried where it happens. Where further
steps came after it, and an error of the program's own was raised after those, it is not the cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from watchkeeper.domain.observed.raised import TRACEBACK
from watchkeeper.domain.progress.lines import read_line

STEPS_MIN = 3
"""Further steps by which a failure counts as got over: one or two may have been under way."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a log's tail ends.

    Attributes:
        steps: The numbers of the lines that show a step beyond those before them, from 1.
        traced: The number of the last line that begins a traceback; 0 without one.
    """

    steps: tuple[int, ...] = ()
    traced: int = 0

    def is_end(self, number: int) -> bool:
        """Say whether a line stands in what was raised after the last step."""
        return bool(self.steps) and self.steps[-1] < self.traced < number

    def is_got_over(self, number: int) -> bool:
        """Say whether training went on after a line."""
        return sum(step > number for step in self.steps) >= STEPS_MIN


def ending_of(tail: Sequence[str], lines: int) -> Ending:
    """Return how a log ends.

    Args:
        tail: Its last lines, oldest first.
        lines: How many it has in all.
    """
    traced = max((at for at, line in enumerate(tail) if TRACEBACK in line), default=None)
    if traced is None:
        return Ending()
    steps: list[int] = []
    best: int | None = None
    before = lines - len(tail) + 1
    for at, line in enumerate(tail):
        read = read_line(line)
        if read is not None and read.step is not None and (best is None or read.step > best):
            best = read.step
            steps.append(before + at)
    return Ending(tuple(steps), before + traced)
