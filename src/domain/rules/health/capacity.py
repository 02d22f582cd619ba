"""H6: partial, wrong or unserved capacity; H12: jobs mistaken for this one."""

import re
from datetime import datetime

from watchkeeper.domain.reading.source_summaries import waits_again
from watchkeeper.domain.rules.health.detection import Held
from watchkeeper.domain.run.check_history import checks_before
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL, JobState, SourceState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import HardwarePart
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.sources import CapacityFacts, OtherJob
from watchkeeper.domain.values.places import lies_below

PENDING = "pending"
PARTIAL = "partial_allocation"
WRONG_HARDWARE = "wrong_hardware"
SECOND_WRITER = "second_writer"
DIAGNOSTIC = "stale_diagnostic"

_NAME = re.compile(r"[^a-z0-9]+")


def pending(run: Run, instance: Instance, check: CheckRecorded, now: datetime) -> Held:
    """H6, its first half: the job waits longer than the contract allows.

    An alert once the wedge is proven: something is asked for, and nobody brings it up.
    """
    limit = contract_of(run).watch.pending_notify
    waited = now - instance.launched_at if instance.launched_at is not None else None
    waiting = None if check.job is None else check.job.state is JobState.PENDING
    long = waited is not None and waited > limit
    wedged = is_wedged(check.capacity)
    proven = f"; nothing serves {_unmet(check.capacity)}, and nothing is provisioned"
    return Held(
        PENDING,
        "H6",
        Severity.ALERT if wedged else Severity.NOTIFY,
        None if waiting is None else waiting and long,
        f"waiting to start for more than {render_duration(limit)}{proven if wedged else ''}",
        ("the orchestrator says PENDING", *capacity_lines(check.capacity)),
    )


def partial_allocation(run: Run, instance: Instance, check: CheckRecorded, now: datetime) -> Held:
    """H6: some of what it asked for is there, and the rest does not come."""
    limit = contract_of(run).watch.pending_notify
    told = check.capacity
    alive = check.job is not None and check.job.state in (JobState.RUNNING, JobState.PENDING)
    if told is None or told.wanted is None or told.granted is None or not alive:
        # Without numbers nobody can tell; a cluster that answers without them tells of no want.
        answered = alive and (_is_told(check) or _tries_are_told(check))
        return Held(PARTIAL, "H6", Severity.NOTIFY, False if answered else None, "")
    short = told.granted < told.wanted
    since = _short_since(run, instance, check)
    long = since is not None and now - since > limit
    wedged = is_wedged(told)
    proven = f"; nothing serves {_unmet(told)}, and nothing is provisioned" if wedged else ""
    # None at all is a job that waits: `pending` tells that, where the job says so itself.
    again = waits_again(check)
    holds = short and long and (told.granted > 0 or again)
    part = "nothing" if again else "only part"
    return Held(
        PARTIAL,
        "H6",
        Severity.ALERT if wedged else Severity.NOTIFY,
        holds,
        f"{part} of what it asked for has been granted for more than {render_duration(limit)}"
        f"{proven}",
        capacity_lines(told),
    )


def _tries_are_told(check: CheckRecorded) -> bool:
    """Say whether the tries of its tasks are known: any that waited would tell what is wanted."""
    told = [r for r in check.readings if r.source == "attempts"]
    return bool(told) and all(r.state is SourceState.FRESH for r in told)


def _short_since(run: Run, instance: Instance, check: CheckRecorded) -> datetime | None:
    """Return since when less than asked for is granted, without a break."""
    since: datetime | None = None
    for last in reversed(checks_before(run, check)):
        told = last.capacity
        if last.instance != check.instance:
            break
        if told is None or told.wanted is None or told.granted is None:
            continue
        if told.granted >= told.wanted:
            break
        since = last.at
    # What has trained had its machines, whether somebody told of them or not.
    waited = since is not None and not _was_whole(run, check) and instance.step_best is None
    return instance.launched_at if waited and instance.launched_at is not None else since


def _was_whole(run: Run, check: CheckRecorded) -> bool:
    """Say whether an instance was ever seen with all that it asked for."""
    mine = [last.capacity for last in checks_before(run, check) if last.instance == check.instance]
    return any(
        c is not None and c.wanted is not None and c.granted is not None and c.granted >= c.wanted
        for c in mine
    )


def wrong_hardware(run: Run, check: CheckRecorded) -> Held:
    """H6: it has, or asked for, another type or number of machines than the contract says."""
    promised, told = contract_of(run).hardware, check.capacity
    if told is None or not (told.hardware or told.wanted is not None):
        return Held(WRONG_HARDWARE, "H6", Severity.NOTIFY, None, "")
    wrong = tuple(filter(None, (_wrong_type(promised, told), _wrong_count(promised, told))))
    known = bool(promised.type and told.hardware) or bool(promised.count and told.wanted)
    summary = wrong[0] if wrong else ""
    holds = True if wrong else False if known else None
    return Held(WRONG_HARDWARE, "H6", Severity.NOTIFY, holds, summary, wrong, summary)


def _wrong_type(promised: HardwarePart, told: CapacityFacts) -> str:
    if not promised.type or not told.hardware:
        return ""
    wanted, has = _NAME.sub("", promised.type.lower()), _NAME.sub("", told.hardware.lower())
    # A longer name of the same, such as `TPU-v5p-1024-head`, is no other type.
    if wanted in has or has in wanted:
        return ""
    return f"it was given {told.hardware}, the contract says {promised.type}"


def _wrong_count(promised: HardwarePart, told: CapacityFacts) -> str:
    # Orchestrators count hosts of a slice, contracts slices: only what cannot be both is wrong.
    if not promised.count or told.wanted is None or told.wanted % promised.count == 0:
        return "it asked for nothing" if promised.count and told.wanted == 0 else ""
    return f"it asked for {told.wanted} machines, the contract says {promised.count}"


def is_wedged(told: CapacityFacts | None) -> bool:
    """Say whether a wedge is proven: a demand that nothing serves, and nothing is brought up."""
    return told is not None and bool(told.unmet) and told.provisioning == 0


def _unmet(told: CapacityFacts | None) -> str:
    return ", ".join(told.unmet) if told is not None else ""


def capacity_lines(told: CapacityFacts | None) -> tuple[str, ...]:
    """Say what is known of a job's capacity, for people."""
    if told is None:
        return ()
    lines: list[str] = []
    if told.pending_reason:
        lines.append(f"the orchestrator says: {told.pending_reason}")
    if told.wanted is not None and told.granted is not None:
        lines.append(f"{told.granted} of {told.wanted} granted")
    if told.unmet:
        lines.append(f"nothing serves {_unmet(told)}")
    if told.provisioning is not None:
        brought = f"{told.provisioning} are being brought up"
        lines.append(brought if told.provisioning else "nothing is being brought up")
    return tuple(lines)


# --- H12 -----------------------------------------------------------------------------------------


def second_writer(run: Run, instance: Instance, check: CheckRecorded) -> Held:
    """H12: another live job writes to this run's root, or says that it is this run."""
    writers = writers_beside(run, instance, check)
    lines = tuple(job_line(one) for one in writers)
    named = ", ".join(one.job for one in writers)
    summary = f"more than one live writer: {named} beside {instance.plan.submission_id}"
    holds = True if writers else None if not _is_told(check) else False
    return Held(SECOND_WRITER, "H12", Severity.NOTIFY, holds, summary, lines, named)


def writers_beside(run: Run, instance: Instance, check: CheckRecorded) -> list[OtherJob]:
    """Return the other live jobs that write to this run's root, or say that they are this run.

    Args:
        run: For its root and its slug.
        instance: Whose own job is none of them, whether it lives or has ended.
        check: What was seen of other jobs.
    """
    return [one for one in _others(instance, check) if _writes_here(run, one)]


def stale_diagnostic(run: Run, instance: Instance, check: CheckRecorded) -> Held:
    """H12: a trial or diagnosis under this run's name still lives, and is no production job."""
    trials = [
        one
        for one in _others(instance, check)
        if one.diagnostic and not _writes_here(run, one) and one.run == run.slug
    ]
    lines = tuple(job_line(one) for one in trials)
    named = ", ".join(one.job for one in trials)
    summary = f"a diagnostic job is alive and not the production one: {named}"
    holds = True if trials else None if not _is_told(check) else False
    evidence = (*lines, f"the production job is {instance.plan.submission_id}") if lines else ()
    return Held(DIAGNOSTIC, "H12", Severity.NOTIFY, holds, summary, evidence, named)


def _others(instance: Instance, check: CheckRecorded) -> list[OtherJob]:
    own = instance.plan.submission_id
    return [one for one in check.others if one.job != own and one.state not in TERMINAL]


def _writes_here(run: Run, other: OtherJob) -> bool:
    root = contract_of(run).output_root
    if other.root:
        return lies_below(other.root, root) or lies_below(root, other.root)
    # Where nobody tells its root, a production job of this name writes where this run does.
    return other.run == run.slug and other.diagnostic is not True


def job_line(other: OtherJob) -> str:
    """Describe another job in one line of evidence."""
    parts = [f"{other.job} is {other.state.value.upper()}"]
    parts += [f"writes to {other.root}"] if other.root else []
    parts += [f"carries the run {other.run}"] if other.run else []
    parts += ["is a trial or diagnosis"] if other.diagnostic else []
    if other.submitted_at is not None:
        parts.append(f"submitted {other.submitted_at:%Y-%m-%d %H:%M} UTC")
    return ", ".join(parts)


def _is_told(check: CheckRecorded) -> bool:
    """Say whether somebody tells of the cluster: then no other job means that there is none."""
    cluster = [r for r in check.readings if r.source == "cluster"]
    return bool(cluster) and all(r.state is SourceState.FRESH for r in cluster)
