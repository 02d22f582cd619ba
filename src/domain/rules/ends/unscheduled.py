"""Whether an end was for want of machines, by the orchestrator's own word on it.

Iris ends what could not be placed in time with a state of its own, which is `failed` here; its name
in `error_type`, or its sentence, is what is left of it. Others say the same in sentences.
"""

import re
from collections.abc import Iterable

from watchkeeper.domain.rules.health.capacity import capacity_lines, is_wedged
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.observation.sources import AttemptState

_STATE = re.compile(r"(?:(?:JOB|TASK)_STATE_)?UNSCHEDULABLE", re.IGNORECASE)
"""Iris' state 8 by its names; as a reason of Kubernetes it is the same word."""

_OWN_SENTENCE = re.compile(r"(?:error: )?job could not be scheduled\.?", re.IGNORECASE)
"""What Iris writes beside that state, and nothing else."""

_SENTENCE = re.compile(
    r"\b(?:jobs?|tasks?|actors?|pods?|workloads?|placement groups?|(?:resource )?requests?)\b"
    r"(?: \S+){0,4}? (?:(?:cannot|could not|can't|couldn't|can never) be (?:scheduled|placed)\b"
    r"|(?:is|are) (?:not schedulable|unschedulable|infeasible)\b)"
    r"|\b(?:Task|Actor)Unschedulable(?:Error)?\b|\b(?:TASK|ACTOR)_UNSCHEDULABLE_ERROR\b"
    r"|\bunsatisfied autoscaler demand\b|\bno workers match constraints\b"
    r"|\bscheduling[ _]timeout (?:\(.{1,20}\) )?(?:(?:was |is )?exceeded|expired|ran out|elapsed)",
    re.IGNORECASE,
)
_BLOCKED = re.compile(
    r"\bunsatisfied autoscaler demand\b|\btier_blocked\b|\bno workers match constraints\b",
    re.IGNORECASE,
)
"""Reasons to wait that Iris gives where waiting changes nothing."""


def is_unscheduled(job: JobFacts) -> bool:
    """Say whether the orchestrator itself calls an end unschedulable.

    >>> is_unscheduled(JobFacts(submission_id="a", state="failed", error_type="UNSCHEDULABLE"))
    True
    """
    if job.state is not JobState.FAILED:
        return False
    lines = (line.strip() for line in job.message.splitlines())
    return bool(_STATE.fullmatch(job.error_type or "")) or any(map(_OWN_SENTENCE.fullmatch, lines))


def unscheduled_line(lines: Iterable[str]) -> str:
    """Return the first sentence that says that work cannot be scheduled; empty without one."""
    return next(filter(_SENTENCE.search, lines), "")


def demand_lines(job: JobFacts, check: CheckRecorded) -> tuple[str, ...]:
    """Return what is cited of such an end: the orchestrator's sentence, and the demand."""
    said = next((line.strip() for line in job.message.splitlines() if line.strip()), "")
    sentence = (f"the orchestrator says: {said}",) if said else ()
    return tuple(dict.fromkeys((*sentence, *capacity_lines(check.capacity))))


def never_served(job: JobFacts, check: CheckRecorded) -> bool:
    """Say whether a job failed without a word, and its demand alone tells why.

    Only of one that never began: a demand that is unmet after a machine went is what the loss left.
    """
    silent = job.state is JobState.FAILED and not (job.message.strip() or job.error_type)
    ended_itself = job.exit_code is not None or job.signal is not None
    began = job.started_at is not None or check.progress is not None or check.traceback
    tried = any(one.state is not AttemptState.PENDING for one in check.attempts)
    if not silent or ended_itself or began or tried or check.claims or check.capacity is None:
        return False
    blocked = _BLOCKED.search(check.capacity.pending_reason) is not None
    coming = bool(check.capacity.provisioning)
    return not coming and (blocked or is_wedged(check.capacity))
