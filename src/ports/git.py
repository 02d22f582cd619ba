"""What is asked of a git remote; each docstring is the whole contract."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts, WorktreeFacts


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

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits of the remote, sorted.

        What was moved counts under both names.

        Raises `Unavailable` also where the remote holds one of them no longer.
        """
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

    def patch(self, tree: WorktreeFacts, ignore: Sequence[str]) -> str:
        """Return what changed in a checkout, as `git apply` takes it.

        Raises:
            Unavailable: It is too large, or no longer what was identified.
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
