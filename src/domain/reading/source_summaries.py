"""Shortens the optional sources of an observation to what the rules read."""

import re
from datetime import UTC, datetime, timedelta

from watchkeeper.domain.reading.log_tail import LogTail
from watchkeeper.domain.values.basic import TERMINAL, JobFacts, JobState, SourceState, Step
from watchkeeper.domain.values.check import Check
from watchkeeper.domain.values.earlier import Earlier
from watchkeeper.domain.values.observation.observation import Observation
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    AttemptState,
    CapacityFacts,
    HostFacts,
    NodeFacts,
    OtherJob,
    TelemetryFacts,
)

ATTEMPTS_MAX = 8
"""How many attempts of tasks a check keeps."""

NODES_MAX = 8
"""How many dead machines a check keeps."""

HOSTS_MAX = 8
"""How many machines a check keeps: those with the least free disk or a missing mount."""

OTHERS_MAX = 4
"""How many other jobs a check keeps."""

GAUGES_MAX = 16
"""How many gauges a check keeps."""

UNMET_MAX = 8
"""How many unserved demands a check keeps."""

UNMET_LINE_MAX = 200
"""How many characters of a demand in the wait's reason are kept."""

BURST = timedelta(minutes=10)
"""Attempts that failed within this time before the newest failure belong to it. The first of them
is the cause."""

_FAILED = frozenset(
    {AttemptState.FAILED, AttemptState.KILLED, AttemptState.PREEMPTED, AttemptState.WORKER_FAILED}
)
_UNMET = re.compile(
    r"\b(?:Unsatisfied autoscaler demand|No workers match constraints)\b[^\n;]*", re.IGNORECASE
)
"""The first words by which Iris' scheduler and autoscaler report that waiting will not help."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source_summaries(
    check: Check, past: Earlier, seen: Observation, tail: LogTail
) -> dict[str, object]:
    """Return a check's summary of attempts, capacity, nodes, hosts, gauges and other jobs.

    Args:
        check: The check without them.
        past: What the run's earlier checks showed.
        seen: The observation.
        tail: What the tail of the job's output says.
    """
    fresh = {r.source for r in check.readings if r.state is SourceState.FRESH}
    asked = {reading.source for reading in check.readings}
    # A source without a reading is part of the orchestrator's answer.
    unasked = {name for name in ("attempts", "cluster", "hosts", "telemetry") if name not in asked}
    usable = fresh | unasked
    attempts = seen.attempts if "attempts" in usable else ()
    return {
        "job": _counted(check.job, attempts),
        "attempts": kept_attempts(attempts),
        "capacity": _capacity(seen.capacity if "cluster" in usable else None, attempts),
        "nodes": _nodes(seen.nodes) if "cluster" in usable else (),
        "hosts": _hosts(seen.hosts) if "hosts" in usable else (),
        "telemetry": _telemetry(seen.telemetry) if "telemetry" in usable else None,
        "others": _others(seen.others),
        "maximum_shown": _maximum(check, past, seen, tail),
    }


def _counted(job: JobFacts | None, attempts: tuple[AttemptFacts, ...]) -> JobFacts | None:
    """Return the job with its failed attempts, even if only attempt numbers show them.

    Attempts are numbered from 0, so the newest number is the count of earlier failures.
    """
    newest = max((one.attempt for one in attempts), default=0)
    if job is None or newest <= job.attempts_failed:
        return job
    return job.model_copy(update={"attempts_failed": newest})


def kept_attempts(attempts: tuple[AttemptFacts, ...]) -> tuple[AttemptFacts, ...]:
    """Return the failed attempts in time order; if there are many, those of the newest burst.

    The first task that failed is the cause; those killed after it are collateral.
    """
    failed = sorted((one for one in attempts if one.state in _FAILED), key=_ended)
    if not failed:
        return ()
    newest = _ended(failed[-1])
    burst = [one for one in failed if newest - _ended(one) <= BURST]
    chosen = burst[:ATTEMPTS_MAX]
    room = ATTEMPTS_MAX - len(chosen)
    before = failed[: len(failed) - len(burst)]
    return (*(before[-room:] if room else ()), *chosen)


def _ended(attempt: AttemptFacts) -> datetime:
    return attempt.ended_at or attempt.started_at or _EPOCH


def _capacity(
    reported: CapacityFacts | None, attempts: tuple[AttemptFacts, ...]
) -> CapacityFacts | None:
    """Return the wanted and granted capacity, from waiting tasks if no source reports it."""
    newest = {one.task: one for one in sorted(attempts, key=lambda one: one.attempt)}
    pending = [one for one in newest.values() if one.state is AttemptState.PENDING]
    if reported is None and not pending:
        return None
    facts = reported or CapacityFacts()
    named = _UNMET.search(facts.pending_reason)
    unmet = facts.unmet or ((named[0].strip()[:UNMET_LINE_MAX],) if named is not None else ())
    changes: dict[str, object] = {"unmet": unmet[:UNMET_MAX]}
    if pending and facts.wanted is None and facts.granted is None:
        changes["wanted"] = len(newest)
        changes["granted"] = len(newest) - len(pending)
    if pending and not facts.pending_reason:
        changes["pending_reason"] = next((one.message for one in pending if one.message), "")
    reason = str(changes.get("pending_reason", facts.pending_reason))
    changes["pending_reason"] = reason[:300]
    return facts.model_copy(update=changes)


def _nodes(nodes: tuple[NodeFacts, ...]) -> tuple[NodeFacts, ...]:
    gone = [one for one in nodes if one.alive is False]
    # The machines that were lost last are the important ones.
    gone.sort(key=lambda one: (one.since is None, one.since or _EPOCH), reverse=True)
    return tuple(one.model_copy(update={"reason": one.reason[:300]}) for one in gone[:NODES_MAX])


def _hosts(hosts: tuple[HostFacts, ...]) -> tuple[HostFacts, ...]:
    def order(host: HostFacts) -> tuple[bool, float]:
        mounted = all(mount.mounted is not False for mount in host.mounts)
        free = free_share(host)
        return mounted, 1.0 if free is None else free

    return tuple(sorted(hosts, key=order)[:HOSTS_MAX])


def lost_all_machines(check: Check) -> bool:
    """Return whether a job in state RUNNING has no machine at all.

    An orchestrator that retries by itself may keep a job RUNNING while all of its tasks wait.
    """
    capacity, job = check.capacity, check.job
    if capacity is None or job is None or job.state is not JobState.RUNNING:
        return False
    return bool(capacity.wanted) and capacity.granted == 0


def waits_for_machines(check: Check) -> bool:
    """Return whether a job waits for machines, for the first time or again."""
    return lost_all_machines(check) or (
        check.job is not None and check.job.state is JobState.PENDING
    )


def is_wedged(capacity: CapacityFacts | None) -> bool:
    """Return whether a job is stuck: nothing serves its demand and nothing is provisioned."""
    return capacity is not None and bool(capacity.unmet) and capacity.provisioning == 0


def describe_unmet(capacity: CapacityFacts | None) -> str:
    """Return the demands that nothing serves, for people."""
    return ", ".join(capacity.unmet) if capacity is not None else ""


def capacity_lines(capacity: CapacityFacts | None) -> tuple[str, ...]:
    """Describe the known capacity of a job, for people."""
    if capacity is None:
        return ()
    lines: list[str] = []
    if capacity.pending_reason:
        lines.append(f"the orchestrator says: {capacity.pending_reason}")
    if capacity.wanted is not None and capacity.granted is not None:
        lines.append(f"{capacity.granted} of {capacity.wanted} granted")
    if capacity.unmet:
        lines.append(f"nothing serves {describe_unmet(capacity)}")
    if capacity.provisioning is not None:
        brought = f"{capacity.provisioning} are being brought up"
        lines.append(brought if capacity.provisioning else "nothing is being brought up")
    return tuple(lines)


def free_share(host: HostFacts) -> float | None:
    """Return the free share of a machine's disk, 0 to 1; `None` if unknown."""
    if host.total_bytes is None or host.free_bytes is None or host.total_bytes <= 0:
        return None
    return min(host.free_bytes / host.total_bytes, 1.0)


def _telemetry(gauges: TelemetryFacts | None) -> TelemetryFacts | None:
    if gauges is None:
        return None
    names = sorted(gauges.values)[:GAUGES_MAX]
    return gauges.model_copy(update={"values": {name: gauges.values[name] for name in names}})


def _others(others: tuple[OtherJob, ...]) -> tuple[OtherJob, ...]:
    living = [one for one in others if one.state not in TERMINAL]
    known = [one for one in living if one.state is not JobState.NOT_FOUND]
    return tuple(known[:OTHERS_MAX])


def _maximum(check: Check, past: Earlier, seen: Observation, tail: LogTail) -> Step | None:
    """Return the largest unrounded maximum that an instance has shown.

    From 1,000 steps on bars round what they show, so that only the first lines are exact.
    """
    tracker = [r for r in check.readings if r.source == "tracker" and not r.reason]
    held = seen.tracker.final_step if seen.tracker is not None and tracker else None
    before = None
    if past.last is not None and past.last.instance == check.instance:
        before = past.last.maximum_shown
    known = [one for one in (*tail.maxima, held) if one is not None]
    return max(known) if known else before
