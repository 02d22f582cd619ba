"""Reads the surroundings of a local job: its one attempt, other jobs, and disks."""

import os
import re
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
from pydantic import ValidationError

from watchkeeper import clock
from watchkeeper.domain.values.basic import JobFacts, JobSpec, JobState
from watchkeeper.domain.values.observation.sources import (
    HOSTS_MAX,
    OTHERS_MAX,
    AttemptFacts,
    AttemptState,
    CapacityFacts,
    ClusterFacts,
    HostFacts,
    MountFacts,
    NodeFacts,
    OtherJob,
)

JOBS_LOOKED_AT = 500
"""The number of newest job folders that are read."""

_ATTEMPT = {
    JobState.PENDING: AttemptState.PENDING,
    JobState.RUNNING: AttemptState.RUNNING,
    JobState.SUCCEEDED: AttemptState.SUCCEEDED,
    JobState.FAILED: AttemptState.FAILED,
    JobState.STOPPED: AttemptState.KILLED,
    JobState.UNKNOWN: AttemptState.UNKNOWN,
}
_LIVE = (JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN)


def attempts_of(job: JobFacts) -> tuple[AttemptFacts, ...]:
    """Return a job's one attempt, since nothing here restarts it; empty if there is no job."""
    if job.state not in _ATTEMPT:
        return ()
    return (
        AttemptFacts(
            task="0",
            state=_ATTEMPT[job.state],
            started_at=job.started_at,
            ended_at=job.ended_at,
            exit_code=job.exit_code,
            signal=job.signal,
            node=socket.gethostname(),
            message=job.message,
        ),
    )


def around(
    jobs: Path, find: Callable[[str], JobFacts], submission_id: str, run: str, root: str
) -> ClusterFacts:
    """Return this machine's state, and other live jobs that concern a run.

    Args:
        jobs: The folder of all jobs.
        find: Returns the state of one job.
        submission_id: The job to leave out.
        run: The run's slug.
        root: The run's output root.
    """
    own = find(submission_id)
    root_pattern = re.compile(re.escape(root.rstrip("/")) + r"(?![\w.-])")
    others: list[OtherJob] = []
    for folder in _newest(jobs):
        if folder.name == submission_id or (folder / "result.json").exists():
            continue
        try:
            spec = JobSpec.model_validate_json((folder / "spec.json").read_bytes())
        except (OSError, ValidationError):
            continue  # The folder is being created or removed, so its job is not live.
        texts = (*spec.command, *spec.env.values(), *spec.metadata.values())
        run_of_job = spec.metadata.get("run", "")
        names_root = any(root_pattern.search(text) for text in texts)
        found = find(folder.name) if names_root or run_of_job == run else None
        if found is None or found.state not in _LIVE:
            continue
        others.append(
            OtherJob(
                job=folder.name,
                state=found.state,
                root=root if names_root else "",
                run=run_of_job,
                submitted_at=found.started_at,
            )
        )
    alive = NodeFacts(node=socket.gethostname(), alive=True)
    pending = CapacityFacts(pending_reason=own.message if own.state is JobState.PENDING else "")
    capacity = pending if own.state in _ATTEMPT else None
    return ClusterFacts(capacity=capacity, nodes=(alive,), others=tuple(others[:OTHERS_MAX]))


def _newest(jobs: Path) -> list[Path]:
    with os.scandir(jobs) as entries:
        folders = [
            (one.stat().st_mtime, Path(one.path)) for one in entries if not one.name.startswith(".")
        ]
    return [path for _, path in sorted(folders, reverse=True)[:JOBS_LOOKED_AT]]


def disks(jobs: Path, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
    """Return the file systems of `/`, of the jobs folder and of the expected mounts.

    A missing folder counts as not mounted. A file system may hang, as a dead gcsfuse does; the
    caller's time limit handles it.
    """
    mount_facts = tuple(MountFacts(path=path, mounted=os.path.ismount(path)) for path in mounts)
    paths = ["/", str(jobs), *(one.path for one in mount_facts if one.mounted)]
    by_device: dict[int, str] = {}
    for path in paths:
        by_device.setdefault(os.stat(path).st_dev, path)
    host, now = socket.gethostname(), clock.now()
    found: list[HostFacts] = []
    for path in by_device.values():
        usage = psutil.disk_usage(path)
        found.append(
            HostFacts(
                host=host, path=path, total_bytes=usage.used + usage.free,
                free_bytes=usage.free, mounts=mount_facts, at=now,
            )
        )  # fmt: skip
    return tuple(found[:HOSTS_MAX])
