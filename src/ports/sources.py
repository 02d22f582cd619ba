"""What the service asks of the outside. Each docstring is the whole contract of its port."""

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
    """A source did not give a usable answer: down, slow, refused or nonsense.

    It never says anything about the run. Whether an act that ended so took effect is unknown.

    Args:
        source: Which one, such as `ray http://127.0.0.1:8265`.
        reason: What happened, in words, without secrets.
        retry_after: How long the source asked to be left alone; none when it did not say.
    """

    def __init__(self, source: str, reason: str, retry_after: timedelta | None = None) -> None:
        """Keep source and reason apart, for status."""
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason
        self.retry_after = retry_after


class LogbookRefused(Unavailable):
    """A logbook's place is not allowed, or holds what is not ours: a definite no."""


class SubmitRefused(Exception):
    """The orchestrator definitely did not accept the job, and would not a second time."""


class Orchestrator(Protocol):
    """Runs jobs under submission ids that we choose. Safe to call from several threads."""

    def submit(self, spec: JobSpec) -> None:
        """Submit one job under its id.

        The orchestrator itself refuses a second job under one id, so that repeating is safe.
        A duplicate of the same id returns without a second job.

        Raises:
            SubmitRefused: Definitely not accepted: bad command, missing variable of `env_from`.
            Unavailable: Not reached, or no answer: it may or may not have landed.
        """
        ...

    def find(self, submission_id: str) -> JobFacts:
        """Return what is known of one job; its state is `not_found` only as a definite answer.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...

    def describe(self, submission_id: str) -> JobDescription:
        """Return what a job is, by whomever launched; its state only where it is not there.

        Raises `Unavailable` as `find` does.
        """
        ...

    def log_tail(self, submission_id: str, *, lines_max: int) -> tuple[str, ...]:
        """Return the newest lines of the job's output, oldest first, each at most 2,000 long.

        A job that has written nothing yet gives an empty tuple.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...

    def stop(self, submission_id: str) -> None:
        """Ask for the end of a job; returns before it has ended. Repeating is safe.

        Raises:
            Unavailable: Not reached, or no answer: the stop may or may not have been taken.
        """
        ...


@runtime_checkable
class HardwareOrchestrator(Protocol):
    """An orchestrator that can say which machines it has; not every orchestrator can."""

    def hardware(self) -> HardwareFacts:
        """Return the machines that are alive now.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class BundleOrchestrator(Protocol):
    """An orchestrator that keeps source bundles under names of their content."""

    def has_bundle(self, name: str) -> bool | None:
        """Say whether a bundle is there; none where the name is not one of this orchestrator's.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class AttemptsOrchestrator(Protocol):
    """An orchestrator that can say how each try of a job's tasks went."""

    def attempts(self, submission_id: str) -> tuple[AttemptFacts, ...]:
        """Return the tries in time order, at most `ATTEMPTS_MAX`; empty while there is none.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class ClusterOrchestrator(Protocol):
    """An orchestrator that can say what goes on around a job."""

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
    """An orchestrator that can say how much disk its machines have."""

    def hosts(self, mounts: Sequence[str]) -> tuple[HostFacts, ...]:
        """Return disk and mounts of the machines, at most `HOSTS_MAX`, the fullest first.

        Args:
            mounts: Folders that are to be mounts on each of them.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


class Tracker(Protocol):
    """Reads what the experiment tracker knows of one run."""

    def read(self) -> TrackerFacts | None:
        """Return the newest facts, or none where the tracker was read and has no such run yet.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class HistoryTracker(Protocol):
    """A tracker that can say what was logged step by step; not every tracker can."""

    def history(self) -> MetricHistory | None:
        """Return the newest points, or none where the tracker was read and has no such run yet.

        What an earlier call had read is kept, and only what is newer is read where that is enough.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class NamesTracker(Protocol):
    """A tracker that can say to whom a display name belongs; not every tracker can."""

    def names(self, display_name: str) -> TrackerNames:
        """Return which other runs bear a name, and which name this run's id bears already.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class RegionStore(Protocol):
    """A store that can say in which region a place lies; not every store can."""

    def region_of(self, url: str) -> str:
        """Return the region in the store's own words; empty where it says none.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@runtime_checkable
class WrittenStore(Protocol):
    """A store that can say what was written last below a folder; not every store can."""

    def newest_write(self, root: str) -> tuple[str, datetime] | None:
        """Return the newest file in the first folders below a root, those of new steps first."""
        ...


class CheckpointStore(Protocol):
    """Lists checkpoints in an object store or file system."""

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
        """Return what the gauges say now; `Unavailable` also while the job has not started."""
        ...


@runtime_checkable
class TelemetryOutside(Protocol):
    """Finds a run's telemetry, where its contract names some."""

    def telemetry(self, contract: Contract) -> Telemetry | None:
        """Return what reads it; none where the contract names none."""
        ...


class Outside(Protocol):
    """Finds the port that a contract names; what it returns is kept and used again."""

    def orchestrator(self, contract: Contract) -> Orchestrator:
        """Return where the run's jobs run."""
        ...

    def tracker(self, contract: Contract) -> Tracker:
        """Return what reads the run's tracker."""
        ...

    def checkpoints(self, contract: Contract) -> CheckpointStore:
        """Return what lists the run's checkpoints."""
        ...

    def git(self, remote: str, branch: str) -> GitRemote:
        """Return one branch of a git remote."""
        ...

    def launch_source(self) -> LaunchSource:
        """Return what reads local checkouts and configurations."""
        ...

    def missing_variables(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return those variables of `env_from` that are not set where the submit happens."""
        ...

    def logbook_folders(self) -> tuple[str, ...]:
        """Return the folders of a repository that the home allows for logbooks, as a setting."""
        ...

    def root_facts(self, contract: Contract) -> tuple[str, str]:
        """Return what a local job's output root resolves to, and which other use the place has."""
        ...

    def home_facts(self, principals: Sequence[str]) -> HomeFacts:
        """Return what the home knows of principals and of its watch, or raise `Unavailable`."""
        ...


class Evidence(Protocol):
    """Keeps full observations by digest; erasable, since no decision reads them."""

    def keep(self, digest: str, content: bytes, kind: str = "json") -> None:
        """Keep a scrubbed observation or patch durably under the SHA-256 of its bytes, in hex."""
        ...


class EventTarget(Protocol):
    """Takes the ledger's events, in order; used by one thread."""

    @property
    def name(self) -> str:
        """What people call it: its address without secrets."""
        ...

    @property
    def key(self) -> str:
        """What its position is kept under: the same for the same address, fit for a file name."""
        ...

    @property
    def batch_max(self) -> int:
        """Events in one `send`: as many as it can confirm at once."""
        ...

    def send(self, events: Sequence[CloudEvent]) -> None:
        """Hand events over, oldest first, and return once all of them are confirmed.

        Events of one partition key arrive in the order given. After a failure the same events
        come again, perhaps followed by more; those that had arrived may then arrive twice, under
        the same ids.

        Raises:
            Unavailable: Not all were confirmed; which of them arrived is unknown.
        """
        ...

    def close(self) -> None:
        """Let go of connections; safe to call twice."""
        ...


class StateFiles(Protocol):
    """Writes `monitoring_state.json` for scripts that read it."""

    def write_state(self, run: Run) -> None:
        """Write a run's state file, whole or not at all."""
        ...
