"""Failures in a log after which training went on.

A storage that did not answer, or a peer that was reset, is retried where it happens. Where further
steps came after it, and an error of the program's own was raised after those, it is not the cause.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from watchkeeper.domain.reading.progress.lines import read_line
from watchkeeper.domain.reading.signatures.model import Label
from watchkeeper.domain.reading.signatures.prefixes import bare
from watchkeeper.domain.reading.tracebacks import TRACEBACK
from watchkeeper.domain.reading.triage.frames import is_of_a_child

STEPS_MIN = 3
"""Further steps by which a failure counts as got over: one or two may have been under way."""

_PASSES = frozenset(
    {Label.NETWORK, Label.NODE_FAILURE, Label.COLLECTIVE_HANG, Label.CONTROLLER_FAILURE}
)
"""What training may get over. What announces an end, such as a preemption, is none of these."""

_OWN = frozenset({Label.CODE_BUG, Label.CONFIG_ERROR, Label.NUMERICAL, Label.HBM_OOM})
"""By which a program ends itself. A queue that was filled ahead, or a checkpoint that is written
beside the steps, fails some steps after its storage did: data and checkpoints are none of these."""

_OF_A_BROKEN_GPU = re.compile(r"\bCUDA (?:error|driver)|\bCUDA GPUs?\b|cudaError|CUBLAS|CUDNN")

_NOT_ITS_OWN = re.compile(
    r"(?:[\w.]+\.)?(?:RuntimeError|OSError|IOError|EOFError|XlaRuntimeError|SystemExit"
    r"|\w*(?:Died|Lost|Crashed|Timeout|Cancel|Abort|Interrupt|Signal|Connection|Pipe|Rpc|RPC"
    r"|Network|Unavailable|Dist|Worker|Actor|Process|Child|SIGTERM)\w*)(?::|\s*$)"
)
"""Names under which a lost peer, a lost storage or a signal is raised, too."""


def may_pass(label: Label) -> bool:
    """Say whether training may get over what a line tells of."""
    return label in _PASSES


def is_own_error(label: Label, rule: str, line: str, early: Label) -> bool:
    """Say whether an error that ended a program does not come of what was told before.

    Args:
        label: Its class.
        rule: The signature that names it.
        line: Its line.
        early: The class of what was told before.
    """
    if is_of_a_child(line):
        return False
    if early is Label.NODE_FAILURE and _OF_A_BROKEN_GPU.search(line):
        return False
    if rule == "mark.exception" and label is Label.UNKNOWN:
        return early is Label.NETWORK and _NOT_ITS_OWN.match(bare(line)) is None
    return label in _OWN


@dataclass(frozen=True, slots=True)
class Ending:
    """How a log's tail ends.

    Attributes:
        steps: The numbers of the lines that show a step beyond those before them, from 1.
        traced: The number of the first line behind the last step that begins a traceback; 0
            without one.
    """

    steps: tuple[int, ...] = ()
    traced: int = 0

    def is_end(self, number: int) -> bool:
        """Say whether a line stands in what was raised after the last step."""
        return 0 < self.traced < number

    def is_transient(self, number: int) -> bool:
        """Say whether training went on after a line."""
        return sum(step > number for step in self.steps) >= STEPS_MIN


def ending_of(tail: Sequence[str], lines: int) -> Ending:
    """Return how a log ends.

    Args:
        tail: Its last lines, oldest first.
        lines: How many it has in all.
    """
    before = lines - len(tail) + 1
    steps: list[int] = []
    best, traced = None, 0
    for at, line in enumerate(tail, before):
        if TRACEBACK in line:
            traced = traced or at
            continue
        read = read_line(line)
        if read is None or read.step is None or read.phase != "training":
            continue
        traced = 0
        if best is None or read.step > best:
            best = read.step
            steps.append(at)
    return Ending(tuple(steps), traced)
