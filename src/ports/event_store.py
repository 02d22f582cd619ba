"""The port of the event store: append-only streams of events, with a hash chain for each."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple, Protocol


class VersionConflict(Exception):
    """Another writer appended to a stream first: read again and decide again."""


class KeyReused(Exception):
    """An idempotency key came again with other content."""


class StoreFailure(Exception):
    """The event store could not do what was asked: full, locked, corrupted or newer.

    Nothing of a failed append is stored, unless the message says that this is unknown: then the
    same append under the same key settles it. The message says what to do.
    """


class StoreAway(StoreFailure):
    """The event store cannot be used now, and nothing says that anything is wrong with it.

    Whoever can wait tries again until it is back, such as a server that is restarted, or a file
    that another process keeps locked.
    """


class StoreCrowded(StoreAway):
    """The server has no connection left for one more; those that are open go on."""


@dataclass(frozen=True, slots=True)
class Write:
    """New events for one stream.

    Attributes:
        stream: Such as `run/<slug>`, `roots`, `effects/<slug>`.
        expected: The version of the stream that the events were decided on; 0 when new.
        events: Topic and final bytes of each event, in order.
    """

    stream: str
    expected: int
    events: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One run's disposable row for `status`, written in the append's transaction.

    Attributes:
        run: The run's slug.
        part: `run` or `effects`: each is written by the append that changes it.
        row: JSON text; empty removes the row.
    """

    run: str
    part: str
    row: str


class Recorded(NamedTuple):
    """One stored event, as its bytes lie in the store.

    A tuple, which a row of the database becomes as it is: a page of events is mostly their bytes.

    Attributes:
        position: Place in the whole ledger; grows by one, never re-used.
        stream: Its stream.
        version: Its place in the stream, from 1.
        topic: Its registered name with a version suffix.
        state: The stored bytes.
        hash: Chain hash, 32 bytes.
    """

    position: int
    stream: str
    version: int
    topic: str
    state: bytes
    hash: bytes


class Skimmed(NamedTuple):
    """One stored event as it is passed by whoever may not need its bytes.

    Attributes:
        position: Place in the whole ledger.
        stream: Its stream.
        version: Its place in the stream.
        topic: Its registered name with a version suffix.
        size: How many bytes are stored.
        hash: Chain hash, 32 bytes.
        state: The stored bytes; none where its topic was not asked for.
    """

    position: int
    stream: str
    version: int
    topic: str
    size: int
    hash: bytes
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Appended:
    """What an append stored, or stored earlier under the same key.

    Attributes:
        versions: The first and last version written, by stream.
        repeated: The key was known: this is the first answer, and nothing new was stored.
    """

    versions: Mapping[str, tuple[int, int]]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """One append of several that are stored together; see `EventStore.append` for the fields."""

    writes: Sequence[Write]
    key: str | None = None
    digest: bytes = b""
    status: Sequence[StatusRow] = ()


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An idempotency key with the first answer.

    Attributes:
        key: The caller's name for the act.
        digest: Of what was asked; empty where it is not compared.
        versions: The first and last version that the append wrote, by stream.
        position: Of the last event that it wrote; 0 when it wrote none.
    """

    key: str
    digest: bytes
    versions: Mapping[str, tuple[int, int]]
    position: int


class EventStore(Protocol):
    """Append-only streams of events with a hash chain for each.

    Durable once `append` returns. Several threads and processes may use one store.
    Every method raises `StoreFailure` when the store itself fails.
    """

    @property
    def kind(self) -> str:
        """What it stands on, `sqlite` or `postgresql`: for people to read, not to decide by."""
        ...

    def append(
        self,
        writes: Sequence[Write],
        *,
        key: str | None = None,
        digest: bytes = b"",
        status: Sequence[StatusRow] = (),
    ) -> Appended:
        """Store events on one or more streams in one transaction, all or none.

        The same key again gets the first answer, whatever the versions are by now.

        Args:
            writes: At most one for each stream. One without events only checks the version.
            key: The caller's name for this act, such as a command's or a signal's.
            digest: Of what must be the same when the key comes again. Event bytes hold fresh
                ids and times, so only the caller knows; empty means that it is not compared.
            status: Rows that replace those of the same run and part.

        Raises:
            VersionConflict: A stream is not at its expected version.
            KeyReused: The key was used with another digest.
        """
        ...

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        """Store several appends in one transaction, in order; each succeeds or fails alone.

        Each sees what those before it stored: heads, and answers of keys.

        Returns:
            For each append what `append` would return, or the error that it would raise; nothing
            of such an append is stored.

        Raises:
            StoreFailure: None of them is stored, or it is unknown whether all are.
        """
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep all other writers out, of any thread and process, for the length of a block.

        So what the block's thread reads in it is the newest, and its first append can lose to
        nobody. That append is stored at once, and lets the others in again. Keep it short.
        """
        ...

    def answer(self, key: str, *, digest: bytes = b"") -> Appended | None:
        """Return what the append with a key stored, marked as repeated; none when unknown.

        Raises:
            KeyReused: The key was used with another digest.
        """
        ...

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """Return a stream's events with versions above `after`, in order."""
        ...

    def read_all(self, *, after: int = 0, limit: int = 500) -> list[Recorded]:
        """Return a page of the whole ledger with positions above `after`, in commit order."""
        ...

    def pages(self, stream: str | None = None, *, after: int = 0) -> Iterator[list[Recorded]]:
        """Yield the events of a stream, or of the whole ledger, in pages of at most `READ_PAGE`.

        All that was stored at the call is given; what is appended meanwhile may be, without a gap.
        Who stops earlier closes the iterator, or lets go of it.

        Args:
            stream: Its name; the whole ledger, in commit order, when none.
            after: The version in the stream, or the position in the ledger, to begin after.

        Raises:
            StoreFailure: The store could not be read; from the iterator.
        """
        ...

    def skim(self, topics: Collection[str], *, after: int = 0, limit: int = 500) -> list[Skimmed]:
        """Return what `read_all` returns, with the bytes of events of these topics only."""
        ...

    def head(self, stream: str) -> tuple[int, bytes]:
        """Return a stream's version and chain hash; 0 and 32 zero bytes when it is empty."""
        ...

    def streams(self, prefix: str) -> list[str]:
        """Return the names of all streams that start with a prefix, sorted."""
        ...

    def status_rows(self) -> list[StatusRow]:
        """Return all status rows."""
        ...

    def key_rows(self) -> Iterator[KeyRow]:
        """Yield all idempotency keys as they are at the call, by position, then by key."""
        ...

    def newest(self) -> int:
        """Return the newest position in the ledger; 0 when it is empty."""
        ...

    def wait(self, *, after: int, limit: timedelta) -> bool:
        """Wait until the ledger holds an event after a position, by any process, or the limit."""
        ...

    def close(self) -> None:
        """Release the store; safe to call twice."""
        ...


READ_PAGE = 500
"""Events read at once: a megabyte. More are not read faster, as their memory is not used again."""


def pages_of(
    store: EventStore, stream: str | None = None, *, after: int = 0
) -> Iterator[list[Recorded]]:
    """Yield what `EventStore.pages` does, one page read after the other."""
    read = store.read_all if stream is None else partial(store.read, stream)
    while page := read(after=after, limit=READ_PAGE):
        yield page
        if len(page) < READ_PAGE:
            return
        after = end_of(page, stream)


def end_of(page: Sequence[Recorded], stream: str | None) -> int:
    """Return what the page after one begins after."""
    return page[-1].position if stream is None else page[-1].version
