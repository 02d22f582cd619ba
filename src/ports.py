"""What the service asks of the outside. Each docstring is the whole contract of its port."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from watchkeeper.domain.contract import Contract
from watchkeeper.domain.gate_facts import (
    HardwareFacts,
    HomeFacts,
    RepositoryFacts,
    TrackerNames,
    WorktreeFacts,
)
from watchkeeper.domain.observation import JobDescription
from watchkeeper.domain.values import (
    CheckpointListing,
    JobFacts,
    JobSpec,
    TrackerFacts,
)


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


class Tracker(Protocol):
    """Reads what the experiment tracker knows of one run."""

    def read(self) -> TrackerFacts | None:
        """Return the newest facts, or none where the tracker was read and has no such run yet.

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


class CheckpointStore(Protocol):
    """Lists checkpoints in an object store or file system."""

    def list_checkpoints(self, root: str) -> CheckpointListing:
        """Return the `step-N` folders directly below a root, in numeric order.

        A root that does not exist yet gives an empty listing.

        Raises:
            Unavailable: Not reached, or no usable answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class BranchHead:
    """One remote branch as it was just fetched.

    Attributes:
        commit: Full id of the newest commit; none while the branch does not exist.
    """

    commit: str | None


@dataclass(frozen=True, slots=True)
class LogbookCommit:
    """The newest commit on a branch that carries a run's trailer.

    Attributes:
        commit: Its full id.
        trailers: Its trailers, by name.
    """

    commit: str
    trailers: Mapping[str, str]


class PushRaced(Exception):
    """Another writer moved the branch first; fetch and render again."""


class TagTaken(Exception):
    """The tag exists and points elsewhere; it is never moved."""


class GitRemote(Protocol):
    """One branch of one git remote, written by plumbing through a private mirror.

    Never touches anyone's work tree or index, never forces. Each call has a hard time limit.
    Every method raises `Unavailable` when git or the remote gives no usable answer, and
    `ValueError` for an id, path or name that git could not take. Safe for several threads.
    """

    def fetch(self) -> BranchHead:
        """Fetch the branch and return its head."""
        ...

    def read_file(self, head: BranchHead, path: str) -> bytes | None:
        """Return a file's bytes at a head, or none where it does not exist there."""
        ...

    def read_files(self, head: BranchHead, paths: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return several files' bytes at a head, or none where one does not exist there.

        A path that holds something else than a file is left out.
        """
        ...

    def newest_for_run(self, head: BranchHead, run: str) -> LogbookCommit | None:
        """Return the newest commit at or before a head with `Watchkeeper-Run: <run>`.

        Only first parents are followed. A commit may speak of several runs: the trailers of one
        are its `Watchkeeper-Run` and what follows, up to the next. Where one of them repeats, its
        last value counts.
        """
        ...

    def commit_file(
        self, head: BranchHead, path: str, content: bytes, message: str, *, at: datetime
    ) -> str:
        """Write a commit on top of a head that changes one file only; return its id.

        Nothing is visible to others before `push`. The same arguments give the same id.

        Args:
            head: What to build on; without a commit the new one is a root commit.
            path: Relative, with `/` between its parts, such as `.agents/logbooks/run.md`.
            content: The whole file.
            message: The whole message, with the trailers in its last paragraph.
            at: The commit's time, aware; whole seconds are kept, in UTC.
        """
        ...

    def commit_files(
        self, head: BranchHead, files: Mapping[str, bytes], message: str, *, at: datetime
    ) -> str:
        """Write a commit as `commit_file` does that changes several files, by their paths.

        Raises `Unavailable` also where something else stands at one of the paths or above it.
        """
        ...

    def push(self, commit: str, onto: BranchHead) -> None:
        """Move the remote branch to a commit made on top of `onto`.

        Pushing what the branch already holds returns quietly, so that after `Unavailable`,
        which leaves open whether the push landed, the same call settles it.

        Raises:
            PushRaced: The branch is no longer at `onto`.
        """
        ...

    def find_tag(self, name: str) -> str | None:
        """Return the commit that a tag on the remote points at, or none."""
        ...

    def push_tag(self, name: str, target: str, message: str, *, at: datetime) -> str:
        """Push an annotated tag on a commit and return the commit it points at.

        The same tag on the same commit returns quietly. A commit that the remote does not
        hold is not tagged: it must be pushed first.

        Args:
            name: Without `refs/tags/`, such as `hero/run/final`.
            target: Full id of the commit.
            message: The whole message of the tag.
            at: The tag's time, aware; whole seconds are kept, in UTC.

        Raises:
            TagTaken: The tag exists on another commit.
        """
        ...

    def has_commit(self, sha: str) -> bool:
        """Say whether the remote holds a commit that one of its branches or tags reaches.

        Args:
            sha: The full id, 40 lower-case hexadecimal digits.
        """
        ...

    def look(self, sha: str) -> RepositoryFacts:
        """Return what the remote says of a commit, as of now: which of its branches reach it."""
        ...

    def push_refusal(self, path: str) -> str:
        """Try a push that changes one file, and move nothing; return why it is refused.

        Empty when the remote would take it, as far as it can say without moving anything: a rule
        that it asks only at a real push can still refuse.
        """
        ...

    def interrupt(self) -> None:
        """End the git commands that are under way, from another thread; later ones begin as ever.

        Whoever waits for one of them gets `Unavailable`: whether it took effect is unknown.
        """
        ...


class LaunchSource(Protocol):
    """Reads what a launch is made from: a local checkout, and the configuration in it."""

    def worktree(self, path: str, ignore: Sequence[str]) -> WorktreeFacts | None:
        """Return the state of a checkout; none where there is no checkout, as a definite answer.

        Nothing in it is written, its index included.

        Args:
            path: A folder in it.
            ignore: Globs of files that cannot affect training.

        Raises:
            Unavailable: Git gives no usable answer, or what changed is too large to identify.
        """
        ...

    def config(
        self, files: Sequence[str], path: str, remote: GitRemote, sha: str
    ) -> dict[str, str]:
        """Return the launched configuration, flattened: dotted key to value as text.

        A file that is not there gives one entry of its own name, with the value `(missing)`.

        Args:
            files: Paths within the repository.
            path: The checkout to read them from; empty for the commit itself.
            remote: Where the commit is read.
            sha: The commit.

        Raises:
            Unavailable: The remote gives no answer, or a file is no JSON, YAML or TOML.
        """
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
        """Return those variables of `env_from` that are not set here."""
        ...

    def home_facts(self, principals: Sequence[str]) -> HomeFacts:
        """Return what the home knows of some principals, and whether a watch runs in it.

        Raises:
            Unavailable: The list of principals or the watch's lock cannot be read.
        """
        ...


class Evidence(Protocol):
    """Keeps full observations by digest; erasable, since no decision reads them."""

    def keep(self, digest: str, content: bytes) -> None:
        """Keep a scrubbed observation durably under the SHA-256 of its bytes, in hex."""
        ...
