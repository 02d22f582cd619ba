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
    """What a build is for."""

    LIVE = "live"
    BUILDING = "building"
    OLD = "old"
    """It was replaced, and its rows will be dropped."""


@dataclass(frozen=True, slots=True)
class Build:
    """One version of a projection, and how far it has come.

    Attributes:
        id: Its number; rows and parked events belong to it.
        begin: The build counts only later events; 0 for the whole ledger.
        position: The newest event that it has seen, relevant or not.
        hash: The chain hash of that event, which detects a different ledger; empty at `begin`.
        revision: Grows with each change. A writer passes the revision that it read.
        target: The newest position when the build began, for progress display.
        holder: The process that moves the build while its lease is valid.
        lease_until: When the lease ends.
        moved_at: When it last changed.
        error: Why the build is halted; empty if it is not.
    """

    id: int
    name: str
    version: int
    state: BuildState
    begin: int
    position: int
    hash: bytes
    revision: int
    target: int
    holder: str
    lease_until: datetime | None
    moved_at: datetime
    error: str = ""

    @property
    def title(self) -> str:
        """Name and version for display."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Parked:
    """A reference to an event that a projection could not fold.

    Later events of its stream wait until it is folded.

    Attributes:
        build: The id of the build that could not fold it.
        stream: The stream whose events wait.
        version: The event's version; later ones wait, too.
        position: Its place in the ledger.
        error: The error.
        attempts: The number of attempts.
        parked_at: When it was first parked.
    """

    build: int
    stream: str
    version: int
    position: int
    error: str
    attempts: int
    parked_at: datetime


@dataclass(frozen=True, slots=True)
class Move:
    """The changes that one page or one retry makes to a build; stored atomically.

    Attributes:
        position: The build's position afterwards.
        hash: The chain hash of the event there.
        rows: Rows that changed, as JSON texts by key.
        parked: Events that could not be folded, whether new or retried.
        released: Streams that no longer wait.
    """

    position: int
    hash: bytes
    rows: Mapping[str, str]
    parked: Sequence[Parked] = ()
    released: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent snapshot of a build with its rows and parked events.

    Attributes:
        build: The build and its progress.
        rows: Yields its rows as keys and JSON texts, in byte order of the keys.
        parked: Its parked events.
    """

    build: Build
    rows: Callable[[], Iterator[tuple[str, str]]]
    parked: Sequence[Parked]


class Scratch(Protocol):
    """Temporary storage for rows of several views that do not fit in memory."""

    def put(self, view: str, rows: Mapping[str, str]) -> None:
        """Store rows of a view. A row replaces an older row with the same key.

        Raises:
            ViewsFailure: There is no room for them.
        """
        ...

    def get(self, view: str, key: str) -> str | None:
        """Return a row of a view if it is stored here.

        Raises:
            ViewsFailure: It could not be read.
        """
        ...

    def rows(self, view: str) -> Iterator[tuple[str, str]]:
        """Yield all rows of a view in byte order of the keys.

        Raises:
            ViewsFailure: They could not be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat of a process's tailer.

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

    def begin(self, name: str, version: int, *, begin: int, digest: bytes, target: int) -> Build:
        """Begin a build, or continue the build of this name that is in progress.

        A build in progress with another version or another start is dropped.
        """
        ...

    def take(self, build: Build, holder: str, until: datetime, now: datetime) -> bool:
        """Take or renew the lease of a build; False while another holder's lease is valid.

        A lease that ends later than twice the length of this one counts as expired too. In that
        case the clock was set back, and a live holder would have renewed it.
        """
        ...

    def rows(self, build: Build, keys: Sequence[str] | None = None) -> dict[str, str]:
        """Return rows of a build by key; all rows if no keys are given."""
        ...

    def move(self, build: Build, move: Move) -> Build | None:
        """Store a build's changes in one transaction; None if it changed meanwhile."""
        ...

    def stand(self, build: Build, error: str) -> None:
        """Record why a build is halted, or that it is no longer halted."""
        ...

    def switch(self, build: Build) -> bool:
        """Make a build live in one transaction; False if it is behind the live one."""
        ...

    def drop(self, build: Build) -> None:
        """Remove a build with its rows and parked events. A missing build is no error."""
        ...

    def parked(self, build: Build | None = None) -> list[Parked]:
        """Return parked events of one build or of all, oldest first."""
        ...

    def beat(self, beat: Beat) -> None:
        """Store a heartbeat."""
        ...

    def beats(self) -> list[Beat]:
        """Return the newest heartbeat of each process, oldest first."""
        ...

    def left(self, holder: str) -> None:
        """Forget a process that ended normally, and release its leases."""
        ...

    def close(self) -> None:
        """Release the views; safe to call twice."""
        ...
