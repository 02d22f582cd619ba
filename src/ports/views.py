"""The port of kept views: rows of projections with how far each has come, all of it disposable.

A build is one version of a projection on its way over the ledger. Each name has at most one live
build, which is read, and one that is being built beside it.
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
    """It was replaced, and its rows are dropped."""


@dataclass(frozen=True, slots=True)
class Build:
    """One version of a projection, and how far it has come.

    Attributes:
        id: Its number; rows and parked events belong to it.
        begin: It counts only what came after this position; 0 for the whole ledger.
        position: The newest event that it has seen, interesting or not.
        hash: That event's chain hash, by which another ledger is recognised; empty at `begin`.
        revision: Grows with each change; whoever changes a build names the one that it read.
        target: The newest position when it began, to show progress by.
        holder: Which process moves it, as long as its lease holds.
        lease_until: Until when others leave it alone.
        moved_at: When it last changed.
        error: Why it stands still; empty when it does not.
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
        """Name and version as people write them."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Parked:
    """An event that a projection could not fold, by reference; its run's later ones wait behind it.

    Attributes:
        build: Of the build that could not fold it.
        stream: Whose events wait.
        version: The event's version; later ones wait, too.
        position: Its place in the ledger.
        error: What it failed with.
        attempts: How often it was tried.
        parked_at: When it was parked first.
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
    """What one page, or one retry, makes of a build; stored whole or not at all.

    Attributes:
        position: Where the build is after it.
        hash: The chain hash of the event there.
        rows: Rows that changed, as JSON texts by key.
        parked: Events that could not be folded, new or tried again.
        released: Streams that wait no longer.
    """

    position: int
    hash: bytes
    rows: Mapping[str, str]
    parked: Sequence[Parked] = ()
    released: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A build with all that belongs to it, as it was at one moment.

    Attributes:
        build: How far it had come.
        rows: Gives its rows, keys and JSON texts, in the order of the keys' bytes.
        parked: Its parked events.
    """

    build: Build
    rows: Callable[[], Iterator[tuple[str, str]]]
    parked: Sequence[Parked]


class Scratch(Protocol):
    """Rows of several views that are put aside for a while, beyond what memory should hold."""

    def put(self, view: str, rows: Mapping[str, str]) -> None:
        """Keep rows of a view, each in the place of an older one of its key.

        Raises:
            ViewsFailure: There is no room for them.
        """
        ...

    def get(self, view: str, key: str) -> str | None:
        """Return a row of a view, if it is here.

        Raises:
            ViewsFailure: It could not be read.
        """
        ...

    def rows(self, view: str) -> Iterator[tuple[str, str]]:
        """Give all rows of a view in the order of the keys' bytes.

        Raises:
            ViewsFailure: They could not be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life of a process's tailer.

    Attributes:
        holder: Which process.
        at: When it last was well or told why not.
        error: What keeps it from going on; empty when nothing does.
    """

    holder: str
    at: datetime
    error: str = ""


class Views(Protocol):
    """Keeps builds. Any thread may call any method; several processes may use one.

    Every method raises `ViewsFailure` when the views cannot be read or written.
    """

    def builds(self) -> list[Build]:
        """Return all builds, by name, then in the order in which they began."""
        ...

    def begin(self, name: str, version: int, *, begin: int, digest: bytes, target: int) -> Build:
        """Begin a build, or go on with the one of this name that is under way.

        One of another version or another beginning that is under way is dropped.
        """
        ...

    def take(self, build: Build, holder: str, until: datetime, now: datetime) -> bool:
        """Take or renew the lease of a build; false while another holder's has not run out.

        One that lies further ahead than twice the length of this one has run out, too: the clock
        was set back since, and whoever lives has renewed it.
        """
        ...

    def rows(self, build: Build, keys: Sequence[str] | None = None) -> dict[str, str]:
        """Return rows of a build by key; all of them when no keys are named."""
        ...

    def move(self, build: Build, move: Move) -> Build | None:
        """Store what a page made of a build, in one transaction; none when it changed meanwhile."""
        ...

    def stand(self, build: Build, error: str) -> None:
        """Keep why a build stands still, or that it does no longer."""
        ...

    def switch(self, build: Build) -> bool:
        """Make a build live in one transaction; false unless it is level with the live one."""
        ...

    def drop(self, build: Build) -> None:
        """Remove a build with its rows and parked events; fine when it is gone."""
        ...

    def parked(self, build: Build | None = None) -> list[Parked]:
        """Return parked events of one build or of all, oldest first."""
        ...

    def beat(self, beat: Beat) -> None:
        """Keep a sign of life."""
        ...

    def beats(self) -> list[Beat]:
        """Return the newest sign of life of each process, oldest first."""
        ...

    def left(self, holder: str) -> None:
        """Forget a process that ended as it should, and let go of its leases."""
        ...

    def close(self) -> None:
        """Release the views; safe to call twice."""
        ...
