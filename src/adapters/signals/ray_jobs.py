"""Ray jobs and demands as a poller saw them: the Jobs API's state at one time."""

import re
from typing import Annotated

from watchkeeper.adapters.signals.fields import (
    PART,
    PARTS,
    Moment,
    Names,
    Outside,
    Text,
    Whole,
    after_epoch,
    read_as,
)
from watchkeeper.adapters.signals.making import Clue, Said, signal_of
from watchkeeper.adapters.signals.message import CloudEvent, Message
from watchkeeper.domain.values.observation.signals import Ignored, Parsed, Poison, SignalKind

JOB = "ray_job"
CLUSTER = "ray_cluster"

_HEAD = re.compile(r"TPU-([A-Za-z0-9-]{1,40})-head")


class _Job(Outside):
    job_id: Text = None
    submission_id: Text = None
    status: Text = None
    message: Text = None
    error_type: Text = None
    start_time: Whole = None
    end_time: Whole = None
    driver_exit_code: Whole = None
    metadata: Names = {}


class _JobSeen(Outside):
    observed_at: Moment = None
    job: Annotated[_Job, PART] = _Job()


class _Demand(Outside):
    bundle: Names = {}
    count: Whole = None


class _ClusterSeen(Outside):
    observed_at: Moment = None
    demands: Annotated[tuple[_Demand, ...], PARTS] = ()


def cluster_of(event: CloudEvent | None) -> str:
    """Return the cluster that a CloudEvent's source names, as `//ray/<cluster>[/<session>]`."""
    parts = (event.source if event else "").strip("/").split("/")
    return parts[1] if len(parts) > 1 and parts[0] == "ray" else ""


def parse_job(message: Message, event: CloudEvent) -> Parsed:
    """Read a job's state. The driver's node is no clue: drivers of all jobs share the head."""
    seen = read_as(_JobSeen, message.body)
    job, cluster = seen.job, cluster_of(event)
    name = job.submission_id or job.job_id
    if not cluster or not name or not job.status:
        return Poison("a Ray job without cluster, submission id or status")
    # Rows of drivers show 0 while they run.
    ended = after_epoch(job.end_time, milliseconds=True)
    clues: list[Clue] = [
        ("submission", job.submission_id),
        ("run", job.metadata.get("run")),
        ("job", f"{cluster}/{job.job_id}" if job.job_id else None),
    ]
    said = Said(
        source=JOB,
        key=(cluster, name, job.status, job.end_time or None, job.driver_exit_code),
        kind=SignalKind.JOB_STATE,
        subject=name,
        summary=f"{name} is {job.status}: {job.message or job.error_type or ''}",
        at=ended or after_epoch(job.start_time, milliseconds=True) or seen.observed_at,
        clues=clues,
        facts={
            "status": job.status,
            "error_type": job.error_type,
            "exit_code": job.driver_exit_code,
            "instance": job.metadata.get("instance"),
            "cluster": cluster,
        },
    )
    return (signal_of(message, said),)


def parse_cluster(message: Message, event: CloudEvent) -> Parsed:
    """Read the autoscaler's unmet demands: they concern the jobs that need such machines."""
    seen = read_as(_ClusterSeen, message.body)
    cluster, at = cluster_of(event), seen.observed_at or event.time
    if not cluster or not at:
        return Poison("a Ray cluster's status without cluster or time")
    wanted = {
        found[1].lower(): demand.count
        for demand in seen.demands
        for bundle in demand.bundle
        if (found := _HEAD.fullmatch(bundle))
    }
    if not wanted:
        return Ignored("a Ray cluster without unmet demand for TPUs")
    return tuple(
        signal_of(
            message,
            Said(
                source=CLUSTER,
                key=(cluster, topology, count, at),
                kind=SignalKind.CAPACITY_WAITING,
                subject=f"{cluster}/{topology}",
                summary=f"{cluster} cannot serve {count or 1} x {topology} yet",
                at=at,
                clues=[("cluster", f"{cluster}/{topology}")],
                facts={"count": count},
            ),
        )
        for topology, count in sorted(wanted.items())
    )
