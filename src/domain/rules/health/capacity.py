"""Capacity detectors (H6), and jobs mistaken for this run (H12).

H6 finds pending, partial, wrong or unserved capacity.
"""

from datetime import datetime, timedelta

from watchkeeper.domain.reading.source_summaries import (
    capacity_lines,
    describe_unmet,
    is_wedged,
    lost_all_machines,
)
from watchkeeper.domain.rules.health.detection import DetectorAnswer
from watchkeeper.domain.rules.shared.rule import HERO, WRONG, DetectorInput, Limit, Rule, with_facts
from watchkeeper.domain.run.check_history import checks_before
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import TERMINAL, JobState, SourceState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.contract.contract import HardwarePart
from watchkeeper.domain.values.contract.machine_names import is_same_type
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.domain.values.instance import Instance
from watchkeeper.domain.values.observation.sources import CapacityFacts, OtherJob
from watchkeeper.domain.values.places import lies_below

PENDING = "pending"
PARTIAL = "partial_allocation"
WRONG_HARDWARE = "wrong_hardware"
SECOND_WRITER = "second_writer"
DIAGNOSTIC = "stale_diagnostic"


def long_pending(given: DetectorInput) -> DetectorAnswer:
    """H6: the job waits longer than the contract allows.

    It is an alert if the job asks for machines that nobody provisions.
    """
    run, instance, check, now = given.run, given.instance, given.check, given.now
    limit = contract_of(run).watch.pending_notify
    waited = now - instance.launched_at if instance.launched_at is not None else None
    waiting = None if check.job is None else check.job.state is JobState.PENDING
    long = waited is not None and waited > limit
    wedged = is_wedged(check.capacity)
    proven = f"; nothing serves {describe_unmet(check.capacity)}, and nothing is provisioned"
    return DetectorAnswer(
        PENDING,
        "H6",
        Severity.ALERT if wedged else Severity.NOTIFY,
        None if waiting is None else waiting and long,
        f"waiting to start for more than {render_duration(limit)}{proven if wedged else ''}",
        ("the orchestrator says PENDING", *capacity_lines(check.capacity)),
    )


def partial_allocation(given: DetectorInput) -> DetectorAnswer:
    """H6: the job got only some of its machines for too long."""
    run, instance, check, now = given.run, given.instance, given.check, given.now
    limit = contract_of(run).watch.pending_notify
    capacity = check.capacity
    alive = check.job is not None and check.job.state in (JobState.RUNNING, JobState.PENDING)
    if capacity is None or capacity.wanted is None or capacity.granted is None or not alive:
        # Without numbers the answer is unknown. A cluster that gives no numbers reports no lack.
        answered = alive and (_is_reported(check) or _tries_are_known(check))
        return DetectorAnswer(PARTIAL, "H6", Severity.NOTIFY, False if answered else None, "")
    short = capacity.granted < capacity.wanted
    since = _short_since(run, instance, check)
    long = since is not None and now - since > limit
    wedged = is_wedged(capacity)
    proven = (
        f"; nothing serves {describe_unmet(capacity)}, and nothing is provisioned" if wedged else ""
    )
    # A job with no machines at all waits: `long_pending` reports that if the job says so itself.
    again = lost_all_machines(check)
    holds = short and long and (capacity.granted > 0 or again)
    part = "nothing" if again else "only part"
    return DetectorAnswer(
        PARTIAL,
        "H6",
        Severity.ALERT if wedged else Severity.NOTIFY,
        holds,
        f"{part} of what it asked for has been granted for more than {render_duration(limit)}"
        f"{proven}",
        capacity_lines(capacity),
    )


def _tries_are_known(check: CheckRecorded) -> bool:
    """Return whether the attempts of the job's tasks are known. They show the wanted machines."""
    attempts = [r for r in check.readings if r.source == "attempts"]
    return bool(attempts) and all(r.state is SourceState.FRESH for r in attempts)


def _short_since(run: Run, instance: Instance, check: CheckRecorded) -> datetime | None:
    """Return since when the job has had fewer machines than requested."""
    since: datetime | None = None
    for last in reversed(checks_before(run, check)):
        capacity = last.capacity
        if last.instance != check.instance:
            break
        if capacity is None or capacity.wanted is None or capacity.granted is None:
            continue
        if capacity.granted >= capacity.wanted:
            break
        since = last.at
    # An instance that trained had its machines, reported or not.
    waited = since is not None and not _was_whole(run, check) and instance.step_best is None
    return instance.launched_at if waited and instance.launched_at is not None else since


def _was_whole(run: Run, check: CheckRecorded) -> bool:
    """Say whether an instance was ever seen with all machines that it asked for."""
    mine = [last.capacity for last in checks_before(run, check) if last.instance == check.instance]
    return any(
        c is not None and c.wanted is not None and c.granted is not None and c.granted >= c.wanted
        for c in mine
    )


def wrong_hardware(given: DetectorInput) -> DetectorAnswer:
    """H6: the job has or asked for machines of another type or number than the contract says."""
    run, check = given.run, given.check
    promised, capacity = contract_of(run).hardware, check.capacity
    if capacity is None or not (capacity.hardware or capacity.wanted is not None):
        return DetectorAnswer(WRONG_HARDWARE, "H6", Severity.NOTIFY, None, "")
    wrong = tuple(filter(None, (_wrong_type(promised, capacity), _wrong_count(promised, capacity))))
    known = bool(promised.type and capacity.hardware) or bool(promised.count and capacity.wanted)
    summary = wrong[0] if wrong else ""
    holds = True if wrong else False if known else None
    return DetectorAnswer(WRONG_HARDWARE, "H6", Severity.NOTIFY, holds, summary, wrong, summary)


def _wrong_type(promised: HardwarePart, capacity: CapacityFacts) -> str:
    if not promised.type or not capacity.hardware:
        return ""
    if is_same_type(promised.type, capacity.hardware):
        return ""
    return f"it was given {capacity.hardware}, the contract says {promised.type}"


def _wrong_count(promised: HardwarePart, capacity: CapacityFacts) -> str:
    # Orchestrators count hosts of a slice, contracts count slices: multiples are accepted.
    if not promised.count or capacity.wanted is None or capacity.wanted % promised.count == 0:
        return "it asked for nothing" if promised.count and capacity.wanted == 0 else ""
    return f"it asked for {capacity.wanted} machines, the contract says {promised.count}"


# --- H12 -----------------------------------------------------------------------------------------


def second_writer(given: DetectorInput) -> DetectorAnswer:
    """H12: another live job writes to this run's root, or claims to be this run."""
    run, instance, check = given.run, given.instance, given.check
    writers = other_writers(run, instance, check)
    lines = tuple(job_line(one) for one in writers)
    named = ", ".join(one.job for one in writers)
    summary = f"more than one live writer: {named} besides {instance.plan.submission_id}"
    holds = True if writers else None if not _is_reported(check) else False
    return DetectorAnswer(SECOND_WRITER, "H12", Severity.NOTIFY, holds, summary, lines, named)


def other_writers(run: Run, instance: Instance, check: CheckRecorded) -> list[OtherJob]:
    """Return the other live jobs that write to this run's root, or claim to be this run.

    Args:
        run: The run with its output root and slug.
        instance: The instance whose own job is excluded.
        check: The check with the other jobs.
    """
    return [one for one in _others(instance, check) if _writes_here(run, one)]


def stale_diagnostic(given: DetectorInput) -> DetectorAnswer:
    """H12: a trial or diagnostic job under this run's name is still live."""
    run, instance, check = given.run, given.instance, given.check
    trials = [
        one
        for one in _others(instance, check)
        if one.diagnostic and not _writes_here(run, one) and one.run == run.slug
    ]
    lines = tuple(job_line(one) for one in trials)
    named = ", ".join(one.job for one in trials)
    summary = f"a diagnostic job is alive and not the production one: {named}"
    holds = True if trials else None if not _is_reported(check) else False
    evidence = (*lines, f"the production job is {instance.plan.submission_id}") if lines else ()
    return DetectorAnswer(DIAGNOSTIC, "H12", Severity.NOTIFY, holds, summary, evidence, named)


def _others(instance: Instance, check: CheckRecorded) -> list[OtherJob]:
    own = instance.plan.submission_id
    return [one for one in check.others if one.job != own and one.state not in TERMINAL]


def _writes_here(run: Run, other: OtherJob) -> bool:
    root = contract_of(run).output_root
    if other.root:
        return lies_below(other.root, root) or lies_below(root, other.root)
    # If its root is unknown, a production job of this name is assumed to write to the same root.
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


def _is_reported(check: CheckRecorded) -> bool:
    """Return whether the cluster was reported. Only then does an empty list mean no other job."""
    cluster = [r for r in check.readings if r.source == "cluster"]
    return bool(cluster) and all(r.state is SourceState.FRESH for r in cluster)


def _begun(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    job = given.check.job
    if job is None or job.state is not JobState.PENDING:
        return None
    running = job.model_copy(update={"state": JobState.RUNNING})
    return "the orchestrator had begun it", with_facts(given.check, job=running)


def _brought_up(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    capacity = given.check.capacity
    if capacity is None or capacity.provisioning != 0:
        return None
    coming = capacity.model_copy(update={"provisioning": 1})
    return "a machine was being brought up", with_facts(given.check, capacity=coming)


def _no_shortage(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    if given.check.capacity is None:
        return None
    return "the cluster had shown nothing of its capacity", with_facts(given.check, capacity=None)


def _all_granted(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    capacity = given.check.capacity
    if capacity is None or capacity.wanted is None:
        return None
    granted = capacity.model_copy(update={"granted": capacity.wanted})
    return f"it had been given all {capacity.wanted} that it asked for", with_facts(
        given.check, capacity=granted
    )


def _agreed_hardware(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    capacity, promised = given.check.capacity, contract_of(given.run).hardware
    if capacity is None:
        return None
    agreed = {
        "hardware": promised.type or capacity.hardware,
        "wanted": promised.count or capacity.wanted,
    }
    words = "it had asked for, and been given, the machines that the contract says"
    return words, with_facts(given.check, capacity=capacity.model_copy(update=agreed))


def _alone(given: DetectorInput) -> tuple[str, CheckRecorded] | None:
    return "no other live job had been seen", with_facts(given.check, others=())


H6 = Rule(
    id="H6",
    title="capacity",
    when=(
        "The job waits longer than `watch.pending_notify` (default 30 min). Or it has only part of "
        "the requested machines for that long. Or it has another type of machines than the "
        "contract, or requested another number."
    ),
    then=(
        "Notify; nothing is changed. It is an alert if nothing serves the demand and nothing is "
        "being provisioned."
    ),
    where=__name__,
    source=f"{WRONG}: Capacity or scheduling wedge",
    severity=Severity.NOTIFY,
    limits=(Limit("watch", "pending_notify", timedelta.max),),
    alterations=(_begun, _brought_up, _no_shortage, _all_granted, _agreed_hardware),
)


H12 = Rule(
    id="H12",
    title="other jobs",
    when=(
        "Another live job writes to this run's root, or has this run's name and an unknown root. "
        "Or a diagnostic job with this run's name is still live."
    ),
    then="Notify, with the other jobs and the watched job. No job is ended.",
    where=__name__,
    source=f"{HERO}, Babysitting: stale diagnostic jobs; two writers on one output root",
    severity=Severity.NOTIFY,
    alterations=(_alone,),
)
