"""Recognises ends for lack of machines, from report and log.

Iris has a special state for a job that could not be placed in time. It maps to `failed` here, so
only its name in `error_type`, or its message, shows it. Other orchestrators say so in a message.
"""

import re
from collections.abc import Iterable

from watchkeeper.domain.reading.source_summaries import capacity_lines, is_wedged
from watchkeeper.domain.values.basic import ForeignText, JobFacts, JobState
from watchkeeper.domain.values.causes import CauseClaim
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.observation.sources import AttemptState

_STATE = re.compile(r"(?:(?:JOB|TASK)_STATE_)?UNSCHEDULABLE", re.IGNORECASE)
"""Names of Iris' state 8. Kubernetes uses the same word as a reason."""

_OWN_SENTENCE = re.compile(r"(?:error: )?job could not be scheduled\.?", re.IGNORECASE)
"""Text that Iris writes with that state, and with no other."""

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
"""Wait reasons of Iris for which waiting changes nothing."""


_CLUSTER = re.compile(
    r"OwnerDiedError|node (?:died|is dead|death)|dead node|[Nn]ode.{0,40}marked (?:as )?dead"
    r"|(?:cannot be|could not be|not) scheduled|[Ii]nsufficient resources|[Uu]nsatisfied resource"
    r"|pending resource (?:demand|request)"
)
_CLUSTER_LABELS = frozenset(
    {"node_failure", "capacity_wedge", "controller_failure", "tpu_bad_node", "preemption"}
)
"""Causes in the cluster."""


def is_unscheduled(job: JobFacts) -> bool:
    """Say whether the orchestrator calls an end unschedulable.

    >>> is_unscheduled(JobFacts(submission_id="a", state="failed", error_type="UNSCHEDULABLE"))
    True
    """
    if job.state is not JobState.FAILED:
        return False
    lines = (line.strip() for line in job.message.splitlines())
    return bool(_STATE.fullmatch(job.error_type or "")) or any(map(_OWN_SENTENCE.fullmatch, lines))


def unscheduled_line(lines: Iterable[ForeignText]) -> ForeignText:
    """Return the first sentence that says that work cannot be scheduled; empty if none."""
    return next(filter(_SENTENCE.search, lines), "")


def demand_lines(job: JobFacts, check: Check) -> tuple[str, ...]:
    """Return the orchestrator's message and the unmet demand of such an end, as evidence."""
    said = next((line.strip() for line in job.message.splitlines() if line.strip()), "")
    sentence = (f"the orchestrator says: {said}",) if said else ()
    return tuple(dict.fromkeys((*sentence, *capacity_lines(check.capacity))))


def never_served(job: JobFacts, check: Check) -> bool:
    """Say whether a job failed without a reason, and only its demand explains why.

    Applies only to a job that never began: after a machine loss, the unmet demand is a result of
    the loss.
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


def cluster_claims(check: Check) -> tuple[CauseClaim, ...]:
    """Return the claims of a log that something is wrong in the cluster."""
    return tuple(
        claim
        for claim in check.claims
        if claim.label in _CLUSTER_LABELS or _CLUSTER.search(claim.line)
    )


def cluster_lines(check: Check) -> tuple[ForeignText, ...]:
    """Return the other kept log lines about problems in the cluster."""
    known = {claim.line for claim in check.claims}
    return tuple(line for line in check.evidence if _CLUSTER.search(line) and line not in known)
