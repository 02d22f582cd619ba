"""Finds logged failures that training survived before it failed later.

Programs retry a failed storage request or a reset connection. Such a failure is not the cause if
training continued, and an error of the program itself ended it later.
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
"""How many further steps show that training survived. One or two may have been running already."""

_PASSES = frozenset(
    {Label.NETWORK, Label.NODE_FAILURE, Label.COLLECTIVE_HANG, Label.CONTROLLER_FAILURE}
)
"""Failures that training may survive. An announced end, such as a preemption, is not one."""

_OWN = frozenset({Label.CODE_BUG, Label.CONFIG_ERROR, Label.NUMERICAL, Label.HBM_OOM})
"""Failures by which a program ends itself. Data and checkpoints are excluded: their errors come
some steps after the storage failed."""

_OF_A_BROKEN_GPU = re.compile(r"\bCUDA (?:error|driver)|\bCUDA GPUs?\b|cudaError|CUBLAS|CUDNN")

_NOT_ITS_OWN = re.compile(
    r"(?:[\w.]+\.)?(?:RuntimeError|OSError|IOError|EOFError|XlaRuntimeError|SystemExit"
    r"|\w*(?:Died|Lost|Crashed|Timeout|Cancel|Abort|Interrupt|Signal|Connection|Pipe|Rpc|RPC"
    r"|Network|Unavailable|Dist|Worker|Actor|Process|Child|SIGTERM)\w*)(?::|\s*$)"
)
"""Exception names that a lost peer, a lost storage or a signal also raises."""


def is_survivable(label: Label) -> bool:
    """Return whether training may survive the failure in a line."""
    return label in _PASSES


def is_own_error(label: Label, rule: str, line: str, early: Label) -> bool:
    """Return whether an error that ended a program is independent of the earlier one.

    Args:
        label: Its class.
        rule: The signature that names it.
        line: Its line.
        early: The class of the earlier failure.
    """
    if is_of_a_child(line):
        return False
    if early is Label.NODE_FAILURE and _OF_A_BROKEN_GPU.search(line):
        return False
    if rule == "mark.exception" and label is Label.UNKNOWN:
        return early is Label.NETWORK and _NOT_ITS_OWN.match(bare(line)) is None
    return label in _OWN


@dataclass(frozen=True, slots=True)
class LogEnding:
    """How a log's tail ends.

    Attributes:
        steps: The numbers of the lines that show a step beyond those before them, from 1.
        traced: The number of the first line after the last step that begins a traceback; 0 without
            one.
    """

    steps: tuple[int, ...] = ()
    traced: int = 0

    def is_end(self, number: int) -> bool:
        """Return whether a line is in a traceback after the last step."""
        return 0 < self.traced < number

    def is_transient(self, number: int) -> bool:
        """Return whether training went on after a line."""
        return sum(step > number for step in self.steps) >= STEPS_MIN


def ending_of(tail: Sequence[str], lines: int) -> LogEnding:
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
    return LogEnding(tuple(steps), traced)
