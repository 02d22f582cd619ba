"""Port of the kept views: rows of projections and the progress of each build.

All views are disposable. A build is one version of a projection that moves along the ledger. Each
name has at most one live build, which is read, and one build in progress.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class ViewsFailure(Exception):
    """The views could not be read or written. They are disposable; the message says what to do."""


class BuildState(StrEnum):
    """The purpose of a build."""

    LIVE = "live"
    BUILDING = "building"


@dataclass(frozen=True, slots=True)
class Build:
    """One version of a projection, and how far it has come.

    Attributes:
        id: Its number; its rows belong to it.
        position: The newest event that it has seen, relevant or not.
        hash: The chain hash of that event, which detects a different ledger; empty at 0.
        revision: Grows with each change. A writer passes the revision that it read.
        moved_at: When it last changed.
        error: Why the build is halted; empty if it is not.
    """

    id: int
    name: str
    version: int
    state: BuildState
    position: int
    hash: bytes
    revision: int
    moved_at: datetime
    error: str = ""

    @property
    def title(self) -> str:
        """Name and version for display."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Move:
    """The changes that one page makes to a build; stored atomically.

    Attributes:
        position: The build's position afterwards.
        hash: The chain hash of the event there.
        rows: Rows that changed, as JSON texts by key.
    """

    position: int
    hash: bytes
    rows: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent snapshot of a build with its rows.

    Attributes:
        build: The build and its progress.
        rows: Yields its rows as keys and JSON texts, in byte order of the keys.
    """

    build: Build
    rows: Callable[[], Iterator[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of a process's view worker.

    Attributes:
        holder: The process.
        at: When it last reported success or an error.
        error: What blocks it; empty if nothing does.
    """

    holder: str
    at: datetime
    error: str = ""


class Views(Protocol):
    """Stores builds. Any thread may call any method, and several processes may share a store.

    Every method raises `ViewsFailure` when the views cannot be read or written.
    """

    def builds(self) -> list[Build]:
        """Return all builds, ordered by name, then by start."""
        ...

    def begin(self, name: str, version: int) -> Build:
        """Begin a build, or continue the build of this name that is in progress.

        A build in progress with another version is dropped.
        """
        ...

    def rows(self, build: Build, keys: Sequence[str] | None = None) -> dict[str, str]:
        """Return rows of a build by key; all rows if no keys are given."""
        ...

    def move(self, build: Build, move: Move) -> Build | None:
        """Store a build's changes in one transaction; None if it changed meanwhile."""
        ...

    def halt(self, build: Build, error: str) -> None:
        """Record why a build cannot continue; an empty text lets it continue."""
        ...

    def switch(self, build: Build) -> bool:
        """Replace the live build by this one in one transaction; False if this one is behind."""
        ...

    def drop(self, build: Build) -> None:
        """Remove a build with its rows. A missing build is no error."""
        ...

    def beat(self, beat: Beat) -> None:
        """Store a heartbeat."""
        ...

    def beats(self) -> list[Beat]:
        """Return the newest heartbeat of each process, oldest first."""
        ...

    def left(self, holder: str) -> None:
        """Forget a process that ended normally."""
        ...

    def close(self) -> None:
        """Release the views; safe to call twice."""
        ...
