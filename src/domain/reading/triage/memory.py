"""Decides whether a process ended for lack of memory.

An exit code alone is not enough. A SIGKILL may also be a preemption, and `RESOURCE_EXHAUSTED` a
lack of machines. So the orchestrator, or the error that ended the program, has to name memory.
"""

import re

from watchkeeper.domain.values.basic import JobFacts
from watchkeeper.domain.values.check import Check

OUT_OF_MEMORY = frozenset({"hbm_oom", "host_oom"})
"""The causes for `policy.oom`: lack of accelerator memory, and of host memory."""

_SIGKILL = 9

_FLAG = re.compile(r"(?:^|_)OOM(?:_|$|Killed)|OUT_OF_MEMORY", re.IGNORECASE)
"""The orchestrator's class for such an end, such as `OOMKilled`."""

_HOST = re.compile(
    r"\boom[- ]?kill|\bkilled due to (?:memory pressure|the node running low on memory)"
    r"|\bcgroup out-of-memory\b|\bexceeded (?:(?:its|the) )?memory limit\b",
    re.IGNORECASE,
)
"""How kernels, cgroups, Iris and Ray's memory monitor report a process that they killed for
memory."""

_HBM_ERROR = re.compile(
    r"CUDA (?:error: )?out of memory|memory space hbm|program hbm requirement"
    r"|RESOURCE_EXHAUSTED:.*(?:out of memory|\ballocat)",
    re.IGNORECASE,
)
_HOST_ERROR = re.compile(r"^(?:[\w.]+\.)?(?:MemoryError|OutOfMemoryError)\b")


def memory_cause(job: JobFacts, check: Check, error: str) -> str:
    """Return `hbm_oom` or `host_oom` if evidence names memory; empty otherwise.

    Args:
        job: The orchestrator's last word.
        check: The check that saw the end, with the log lines that matter.
        error: The line of the traceback that names the exception; empty without one.
    """
    if _FLAG.search(job.error_type or "") or _HOST.search(job.message):
        return "host_oom"
    if _HBM_ERROR.search(error):
        return "hbm_oom"
    if _HOST_ERROR.match(error):
        return "host_oom"
    # Alone, such a line may be about another process. Together with a SIGKILL it is evidence.
    killed = job.signal == _SIGKILL and any(_HOST.search(line) for line in check.evidence)
    return "host_oom" if killed else ""
