"""The context of a Ray job: demands, nodes, other jobs and disks.

All of it is read from the dashboard.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from ray.job_submission import JobDetails, JobStatus, JobSubmissionClient, JobType

from watchkeeper.adapters.ray.attempts import ROWS_MAX, node_name
from watchkeeper.adapters.ray.dashboard import get, listed
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.observation.sources import (
    HOSTS_MAX,
    NODES_MAX,
    OTHERS_MAX,
    CapacityFacts,
    ClusterFacts,
    HostFacts,
    MountFacts,
    NodeFacts,
    OtherJob,
)

STATUS = "/api/cluster_status"
"""Demands and the autoscaler's report; both are there without an autoscaler too."""

DISKS = "/nodes?view=summary"
"""What each node's agent measured last, every few seconds."""

_REASON_MAX = 2_000
_UNMET_MAX = 16
_LIVE = {JobStatus.PENDING: JobState.PENDING, JobStatus.RUNNING: JobState.RUNNING}
_WANTED = frozenset({"ALIVE", "PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"})
_DIAGNOSTIC = re.compile(
    r"(?:^|[^a-z])(?:diag\w*|debug|trial|smoke|profil\w*|dry-?run|probe)(?:$|[^a-z])"
)


def read_cluster(
    client: JobSubmissionClient, submission_id: str, run: str, root: str
) -> ClusterFacts:
    """Return the context of a job; see the port."""
    jobs = [job for job in client.list_jobs() if job.type is JobType.SUBMISSION]
    own = next((job for job in jobs if job.submission_id == submission_id), None)
    return ClusterFacts(
        capacity=capacity_of(client, own) if own is not None else None,
        nodes=nodes_of(listed(client, "nodes", 10_000, {})),
        others=others_of(jobs, submission_id, run, root),
    )


def capacity_of(client: JobSubmissionClient, job: JobDetails) -> CapacityFacts:
    """Return what a job waits for: its pending actors, if it has any."""
    actors = listed(client, "actors", ROWS_MAX, {"job_id": job.job_id}) if job.job_id else []
    wanted = [row["state"] for row in actors if row["state"] in _WANTED]
    unmet, provisioning = demands_of(get(client, STATUS))
    waits = job.status is JobStatus.PENDING
    return CapacityFacts(
        pending_reason=(job.message or "")[:_REASON_MAX] if waits else "",
        wanted=len(wanted) if wanted else None,
        granted=wanted.count("ALIVE") if wanted else None,
        unmet=unmet,
        provisioning=provisioning,
    )


def demands_of(answer: Mapping[str, Any]) -> tuple[tuple[str, ...], int | None]:
    """Return the waiting demands, and how many nodes are being started, from `STATUS`.

    The dashboard changes the case of some resource names, but not of accelerators.

    >>> demands_of({"data": {"clusterStatus": {"loadMetricsReport": {
    ...     "resourceDemand": [[{"TPU-v5p-8-head": 1.0, "CPU": 1.0}, 2]]}}}})
    (('{"CPU": 1, "TPU-v5p-8-head": 1} x2',), None)
    """
    status: dict[str, Any] = answer["data"].get("clusterStatus") or {}
    load: dict[str, Any] = status.get("loadMetricsReport") or {}
    demands = cast(
        "list[tuple[dict[str, Any], int]]",
        [*(load.get("resourceDemand") or []), *(load.get("pgDemand") or [])],
    )
    unmet = tuple(_demand(bundle, int(count)) for bundle, count in demands[:_UNMET_MAX])
    report: dict[str, Any] | None = status.get("autoscalerReport")
    if report is None:
        return unmet, None
    launches: dict[str, Any] = report.get("pendingLaunches") or {}
    return unmet, len(report.get("pendingNodes") or []) + sum(int(n) for n in launches.values())


def _demand(bundle: Mapping[str, Any], count: int) -> str:
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in bundle.items()
    }
    return json.dumps(whole, sort_keys=True) + (f" x{count}" if count > 1 else "")


def nodes_of(rows: Iterable[Mapping[str, Any]]) -> tuple[NodeFacts, ...]:
    """Return the nodes of a cluster; dead nodes first, the newest of them first."""
    found = [
        NodeFacts(
            node=node_name(row),
            alive=row["state"] == "ALIVE",
            since=_time(row["start_time_ms"] if row["state"] == "ALIVE" else row["end_time_ms"]),
            reason=str(row.get("state_message") or "")[:_REASON_MAX],
        )
        for row in rows
    ]
    first = datetime.min.replace(tzinfo=UTC)
    found.sort(key=lambda node: node.since or first, reverse=True)
    found.sort(key=lambda node: node.alive is True)
    return tuple(found[:NODES_MAX])


def others_of(
    jobs: Iterable[JobDetails], submission_id: str, run: str, root: str
) -> tuple[OtherJob, ...]:
    """Return the other live jobs that carry the run's slug, or name its output root."""
    found: list[OtherJob] = []
    for job in jobs:
        if job.submission_id == submission_id or job.status not in _LIVE:
            continue
        metadata = job.metadata or {}
        carried = metadata.get("run", "")
        here = _names(root, [job.entrypoint, *metadata.values()])
        if carried != run and not here:
            continue
        words = f"{job.submission_id} {metadata.get('purpose', '')}".lower()
        found.append(
            OtherJob(
                job=job.submission_id or job.job_id or "",
                state=_LIVE[job.status],
                root=root if here else "",
                diagnostic=True if _DIAGNOSTIC.search(words) else None,
                run=carried,
                submitted_at=_time(job.start_time),
            )
        )
    return tuple(found[:OTHERS_MAX])


def _names(root: str, texts: Sequence[str]) -> bool:
    """Return whether a text names a folder as a whole: `/r/ab` does not name `/r/a`."""
    whole = re.compile(re.escape(root.rstrip("/")) + r"(?![\w.-])")
    return bool(root) and any(whole.search(text) for text in texts)


def read_hosts(client: JobSubmissionClient, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
    """Return the disks of all nodes; see the port. Whether a folder is a mount, Ray cannot say."""
    unknown = tuple(MountFacts(path=path, mounted=None) for path in mounts)
    return hosts_of(get(client, DISKS), unknown)


def hosts_of(answer: Mapping[str, Any], mounts: tuple[MountFacts, ...]) -> tuple[HostFacts, ...]:
    """Return the disks of an answer of `DISKS`: of each node `/` and Ray's own folder."""
    found: list[HostFacts] = []
    for row in cast("list[dict[str, Any]]", answer["data"]["summary"]):
        raylet: dict[str, Any] = row.get("raylet") or {}
        if raylet.get("state") != "ALIVE" or "nodeId" not in raylet:
            continue
        name = node_name({"node_id": raylet["nodeId"], "node_name": row.get("hostname")})
        disks: dict[str, dict[str, Any]] = row.get("disk") or {}
        seen: set[tuple[int, int]] = set()
        for path, disk in sorted(disks.items()):
            sizes = int(disk["used"]) + int(disk["free"]), int(disk["free"])
            if sizes in seen:
                continue  # The same disk under another path.
            seen.add(sizes)
            found.append(
                HostFacts(
                    host=name, path=path, total_bytes=sizes[0], free_bytes=sizes[1], mounts=mounts,
                    at=_time(float(row["now"]) * 1000),
                )
            )  # fmt: skip
    return fullest(found)


def fullest(found: Iterable[HostFacts]) -> tuple[HostFacts, ...]:
    """Return hosts by how little of their disk is free, at most `HOSTS_MAX`."""

    def free(host: HostFacts) -> float:
        if not host.total_bytes or host.free_bytes is None:
            return 1.0
        return host.free_bytes / host.total_bytes

    return tuple(sorted(found, key=free)[:HOSTS_MAX])


def _time(milliseconds: object) -> datetime | None:
    if not isinstance(milliseconds, int | float) or milliseconds <= 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
