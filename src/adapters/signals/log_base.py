"""Reads the fields and the owner that all log entries have."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from watchkeeper.adapters.signals.making import Clue, last_part

SOURCE = "logging"

_DRIVER = re.compile(r"job-driver-([^/]{1,200})\.log(?:\.[0-9]{1,3})?")
_WORKER = re.compile(r"worker-[0-9a-f]{56}-([0-9a-f]{8})-[0-9]{1,10}\.(?:out|err|log)")
_NO_JOB = "ffffffff"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log entry of any kind.

    Attributes:
        key: `logName`, `timestamp` and `insertId`, by which Cloud Logging identifies an entry.
        log: Its `logName`.
        resource: The labels of the resource that wrote it.
        labels: Its own labels.
    """

    key: tuple[object, ...]
    log: str
    at: datetime
    severity: str
    text: str
    resource: Mapping[str, str]
    labels: Mapping[str, str]

    @property
    def path(self) -> str:
        """The log file that the logging agent read the entry from."""
        return self.labels.get("agent.googleapis.com/log_file_path", "")

    @property
    def cluster(self) -> str:
        """The Ray cluster that it comes from; empty when no label says so."""
        return self.labels.get("ray-cluster-name", "")

    @property
    def submission(self) -> str:
        """The submission whose driver wrote it; empty for other files."""
        found = _DRIVER.fullmatch(last_part(self.path))
        return found[1] if found else ""


def clues_of(line: LogLine) -> list[Clue]:
    """Return the clues to a line's owner: its file, its labels, its pod, its machine.

    Files of the head, such as `monitor.log`, describe the whole cluster. So their machine is no
    clue to the owner, and the jobs that they name may run on other machines.
    """
    clues: list[Clue] = [("submission", line.submission), ("job", _job(line))]
    clues += [("run", line.labels.get("k8s-pod/run") or line.labels.get("run"))]
    clues += [("pod", pod_of(line.resource.get("namespace_name"), line.resource.get("pod_name")))]
    has_owner = any(name for _, name in clues)
    if has_owner or "/session_" not in line.path:
        clues += [
            ("instance", line.resource.get("instance_id")),
            ("host", line.labels.get("compute.googleapis.com/resource_name")),
        ]
    return clues


def pod_of(namespace: str | None, name: str | None) -> str:
    """Return a pod's name with its namespace; empty without a name."""
    return f"{namespace or 'default'}/{name}" if name else ""


def _job(line: LogLine) -> str:
    found = _WORKER.fullmatch(last_part(line.path))
    if found is None or found[1] == _NO_JOB or not line.cluster:
        return ""
    return f"{line.cluster}/{found[1]}"
