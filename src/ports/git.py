"""Port of a git remote.

Each docstring is the whole contract of its method.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts, WorktreeFacts


@dataclass(frozen=True, slots=True)
class BranchHead:
    """One remote branch, just fetched.

    Attributes:
        commit: Full id of the newest commit; None while the branch does not exist.
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
    """Another writer moved the branch first. Fetch and render again."""


class TagTaken(Exception):
    """The tag exists on another commit. Tags are never moved."""


class GitRemote(Protocol):
    """One branch of one git remote, written with git plumbing through a private mirror.

    It never touches a work tree or index and never force-pushes. Each call has a hard time limit.
    Every method raises `Unavailable` when git or the remote gives no usable answer, and
    `ValueError` for an invalid id, path or name. Safe for several threads.
    """

    def fetch(self) -> BranchHead:
        """Fetch the branch and return its head."""
        ...

    def read_file(self, head: BranchHead, path: str) -> bytes | None:
        """Return a file's bytes at a head, or None if it does not exist there."""
        ...

    def read_files(self, head: BranchHead, paths: Sequence[str]) -> Mapping[str, bytes | None]:
        """Return several files' bytes at a head, with None for each missing file.

        A path that is not a file is left out.
        """
        ...

    def newest_for_run(self, head: BranchHead, run: str) -> LogbookCommit | None:
        """Return the newest commit at or before a head with `Watchkeeper-Run: <run>`.

        Only first parents are followed. A commit may name several runs. The trailers of a run start
        at its `Watchkeeper-Run` and end at the next one. If a trailer repeats, its last value
        counts.
        """
        ...

    def commit_file(
        self, head: BranchHead, path: str, content: bytes, message: str, *, at: datetime
    ) -> str:
        """Write a commit on top of a head that changes one file, and return its id.

        Others see nothing before `push`. The same arguments give the same id.

        Args:
            head: The parent. Without a commit, the new commit is a root commit.
            path: A relative path with `/` separators, for example `.agents/logbooks/run.md`.
            content: The whole file.
            message: The whole message, with the trailers in its last paragraph.
            at: The commit's time, aware; whole seconds are kept, in UTC.
        """
        ...

    def commit_files(
        self, head: BranchHead, files: Mapping[str, bytes], message: str, *, at: datetime
    ) -> str:
        """Write a commit that changes several files; see `commit_file`.

        Also raises `Unavailable` if a path, or a parent of it, is not what a file needs there.
        """
        ...

    def push(self, commit: str, onto: BranchHead) -> None:
        """Move the remote branch to a commit made on top of `onto`.

        A push of a commit that the branch already holds succeeds. So after `Unavailable`, when the
        outcome is unknown, the same call can be repeated safely.

        Raises:
            PushRaced: The branch is no longer at `onto`.
        """
        ...

    def find_tag(self, name: str) -> str | None:
        """Return the commit of a tag on the remote, or None."""
        ...

    def push_tag(self, name: str, target: str, message: str, *, at: datetime) -> str:
        """Push an annotated tag on a commit and return that commit.

        Pushing the same tag on the same commit again succeeds. The remote must already hold the
        commit.

        Args:
            name: The tag without `refs/tags/`, for example `hero/run/final`.
            target: Full id of the commit.
            message: The whole message of the tag.
            at: The tag's time, aware; whole seconds are kept, in UTC.

        Raises:
            TagTaken: The tag exists on another commit.
        """
        ...

    def has_commit(self, sha: str) -> bool:
        """Say whether a branch or tag of the remote reaches a commit.

        Args:
            sha: The full id, 40 lower-case hexadecimal digits.
        """
        ...

    def look(self, sha: str) -> RepositoryFacts:
        """Return the current facts about a commit, including the remote branches that reach it."""
        ...

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits of the remote, sorted.

        A moved file counts under both names.

        Also raises `Unavailable` if the remote no longer holds one of them.
        """
        ...

    def push_refusal(self, path: str) -> str:
        """Try a dry-run push of one changed file, and return why it is refused.

        Empty if the remote would accept it. A rule that the remote checks only at a real push can
        still refuse.
        """
        ...

    def interrupt(self) -> None:
        """Stop the running git commands, from another thread. Later commands run normally.

        Callers that wait for one of them get `Unavailable`, and its outcome is unknown.
        """
        ...


class LaunchSource(Protocol):
    """Reads the sources of a launch: a local checkout and its configuration."""

    def worktree(self, path: str, ignore: Sequence[str]) -> WorktreeFacts | None:
        """Return the state of a checkout, or None if there is definitely no checkout.

        Nothing in it is written, including its index.

        Args:
            path: A folder in it.
            ignore: Globs of files that cannot affect training.

        Raises:
            Unavailable: Git gives no usable answer, or the changes are too large to identify.
        """
        ...

    def patch(self, tree: WorktreeFacts, ignore: Sequence[str]) -> str:
        """Return the changes in a checkout as a patch for `git apply`.

        Raises:
            Unavailable: The patch is too large, or the checkout changed since it was identified.
        """
        ...

    def config(
        self, files: Sequence[str], path: str, remote: GitRemote, sha: str
    ) -> dict[str, str]:
        """Return the launched configuration, flattened to dotted keys with text values.

        A missing file gives one entry with the file's name and the value `(missing)`.

        Args:
            files: Paths within the repository.
            path: The checkout to read them from; empty for the commit itself.
            remote: The remote that the commit is read from.
            sha: The commit.

        Raises:
            Unavailable: The remote gives no answer, or a file is not JSON, YAML or TOML.
        """
        ...
