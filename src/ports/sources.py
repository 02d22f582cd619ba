"""Ports of the outside sources that the service reads and acts on.

Each docstring is the whole contract of its port.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.basic import CheckpointListing, JobFacts, JobSpec, TrackerFacts
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.gate_facts import HardwareFacts, HomeFacts, TrackerNames
from watchkeeper.domain.values.observation.observation import JobDescription
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    ClusterFacts,
    HostFacts,
    MetricHistory,
    TelemetryFacts,
)
from watchkeeper.ports.git import GitRemote, LaunchSource


class Unavailable(Exception):
    """A source gave no usable answer: it is down, slow, refuses or answers nonsense.

    It says nothing about the run. Whether the failed act took effect is unknown.

    Args:
        source: The source, for example `ray http://127.0.0.1:8265`.
        reason: What happened, in words, without secrets.
        retry_after: The wait that the source asked for; None if it gave none.
    """

    def __init__(self, source: str, reason: str, retry_after: timedelta | None = None) -> None:
        """Keep source and reason separate, for status."""
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason
        self.retry_after = retry_after


class LogbookRefused(Unavailable):
    """A logbook's path is not allowed or holds a foreign file. This is definite."""


class SubmitRefused(Exception):
    """The orchestrator definitely refused the job. A retry would fail too."""


class Orchestrator(Protocol):
    """Runs jobs under submission ids that we choose. Safe for several threads."""

    def submit(self, spec: JobSpec) -> None:
        """Submit one job under its id.

        The orchestrator refuses a second job under the same id, so a retry is safe. A repeated call
        returns without starting a second job.

        Raises:
            SubmitRefused: The job was definitely not accepted, for example because of a bad command
                or a missing variable of `env_from`.
            Unavailable: Not reached, or no answer. The job may or may not have been accepted.
        """
        ...

    def find(self, submission_id: str) -> JobFacts:
        """Return the facts of one job. The state `not_found` is a definite answer.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...

    def describe(self, submission_id: str) -> JobDescription:
        """Return a job's description, by any launcher; only its state if it does not exist.

        Raises `Unavailable` as `find` does.
        """
        ...

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        """Return the newest lines of a job's output, oldest first, each cut to 2,000 characters.

        A job without output gives an empty tuple.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...

    def stop(self, submission_id: str) -> None:
        """Request a stop of a job and return before it has ended. A retry is safe.

        Raises:
            Unavailable: Not reached, or no answer. The stop may or may not have been accepted.
        """
        ...


@runtime_checkable
class HardwareOrchestrator(Protocol):
    """An orchestrator that can list its machines; not every orchestrator can."""

    def hardware(self) -> HardwareFacts:
        """Return the machines that are alive now.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class FileOrchestrator(Protocol):
    """An orchestrator that writes each job's output to a file of this machine."""

    def output_file(self, submission_id: str) -> str:
        """Return the path of a job's output; empty if the job does not exist.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class BundleOrchestrator(Protocol):
    """An orchestrator that stores source bundles under content-based names."""

    def has_bundle(self, name: str) -> bool | None:
        """Say whether a bundle exists; None if the name is not one of this orchestrator's.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class AttemptsOrchestrator(Protocol):
    """An orchestrator that can report each attempt of a job's tasks."""

    def attempts(self, submission_id: str) -> tuple[AttemptFacts, ...]:
        """Return the attempts in time order, at most `ATTEMPTS_MAX`; maybe empty.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class ClusterOrchestrator(Protocol):
    """An orchestrator that can report the surroundings of a job."""

    def cluster(self, submission_id: str, run: str, root: str) -> ClusterFacts:
        """Return what the job waits for, the machines, and other live jobs of the run.

        Args:
            submission_id: The job.
            run: The run's slug, which its jobs carry.
            root: The run's output root.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class HostsOrchestrator(Protocol):
    """An orchestrator that can report the disk space of its machines."""

    def hosts(self, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
        """Return disk and mounts of the machines, at most `HOSTS_MAX`, the fullest first.

        Args:
            mounts: Folders that must be mount points on each machine.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


class Tracker(Protocol):
    """Reads the experiment tracker's facts about one run."""

    def read(self) -> TrackerFacts | None:
        """Return the newest facts, or None if the tracker has no such run yet.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class HistoryTracker(Protocol):
    """A tracker that can return the metric history; not every tracker can."""

    def history(self) -> MetricHistory | None:
        """Return the newest points, or None if the tracker has no such run yet.

        Points from earlier calls are kept, so only newer points are read where that is enough.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class NamesTracker(Protocol):
    """A tracker that can find the owner of a display name; not every tracker can."""

    def names(self, display_name: str) -> TrackerNames:
        """Return the other runs with this name, and the current name of this run's id.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class RegionStore(Protocol):
    """A store that can report the region of a URL; not every store can."""

    def region_of(self, url: str) -> str:
        """Return the region as the store names it; empty if it names no region.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class WrittenStore(Protocol):
    """A store that can report the last write below a folder; not every store can."""

    def newest_write(self, root: str) -> tuple[str, datetime] | None:
        """Return the newest file in the first folders below a root; new steps come first."""
        ...


class CheckpointStore(Protocol):
    """Lists the checkpoints in an object store or file system."""

    def list_checkpoints(self, root: str) -> CheckpointListing:
        """Return the `step-N` folders directly below a root, in numeric order.

        A root that does not exist yet gives an empty listing.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


class Telemetry(Protocol):
    """Reads a job's own gauges."""

    def read(self) -> TelemetryFacts:
        """Return the current gauges; raise `Unavailable` also while the job has not started."""
        ...


@runtime_checkable
class TelemetryOutside(Protocol):
    """Finds a run's telemetry if its contract names any."""

    def telemetry(self, contract: Contract) -> Telemetry | None:
        """Return its reader, or None if the contract names no telemetry."""
        ...


class Outside(Protocol):
    """Finds the ports that a contract names. Returned ports are kept and reused."""

    def orchestrator(self, contract: Contract) -> Orchestrator:
        """Return the orchestrator of the run's jobs."""
        ...

    def tracker(self, contract: Contract) -> Tracker:
        """Return the reader of the run's tracker."""
        ...

    def checkpoints(self, contract: Contract) -> CheckpointStore:
        """Return the store of the run's checkpoints."""
        ...

    def git(self, remote: str, branch: str) -> GitRemote:
        """Return one branch of a git remote."""
        ...

    def launch_source(self) -> LaunchSource:
        """Return the reader of local checkouts and configurations."""
        ...

    def missing_variables(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the variables of `env_from` that are not set where the job is submitted."""
        ...

    def logbook_folders(self) -> tuple[str, ...]:
        """Return the folders of a repository that the home allows for logbooks, as a setting."""
        ...

    def root_facts(self, contract: Contract) -> tuple[str, str]:
        """Return the resolved output root of a local job, and other uses of that place."""
        ...

    def home_facts(self, principals: Sequence[str]) -> HomeFacts:
        """Return the home's facts about principals and its watch, or raise `Unavailable`."""
        ...


class Evidence(Protocol):
    """Keeps full observations by digest. No decision reads them, so they may be erased."""

    def keep(self, digest: str, content: bytes, kind: str = "json") -> None:
        """Keep a scrubbed observation or patch durably under the SHA-256 of its bytes, in hex."""
        ...


class EventTarget(Protocol):
    """Receives the ledger's events in order. Only one thread uses it."""

    @property
    def name(self) -> str:
        """The display name: its address without secrets."""
        ...

    @property
    def key(self) -> str:
        """The key of its saved position: fixed for an address and valid as a file name."""
        ...

    @property
    def batch_max(self) -> int:
        """The most events that one `send` may hold."""
        ...

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Send events, oldest first, and return once all of them are confirmed.

        Events of one partition key arrive in the order given. After a failure the same events are
        sent again, perhaps with more after them. Events that had arrived may then arrive twice,
        with the same ids.

        Raises:
            Unavailable: Not all events were confirmed. Which ones arrived is unknown.
        """
        ...

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        ...


class StateFiles(Protocol):
    """Writes `monitoring_state.json` for scripts that read it."""

    def write_state(self, run: Run) -> None:
        """Write a run's state file atomically."""
        ...
