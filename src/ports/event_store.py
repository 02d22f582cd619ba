"""Port of the event store: append-only event streams, each with a hash chain."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple, Protocol


class VersionConflict(Exception):
    """Another writer appended to the stream first. Read and decide again."""


class KeyReused(Exception):
    """An idempotency key was used again with different content."""


class StoreFailure(Exception):
    """The event store failed: it is full, locked, corrupted or newer than this code.

    A failed append stores nothing, unless the message says that the outcome is unknown. In that
    case, repeat the same append with the same key. The message says what to do.
    """


class StoreUnavailable(StoreFailure):
    """The event store is unavailable now, and there is no sign of damage.

    For example, a server is restarting or another process holds a lock on the file. Callers that
    can wait retry until it is back.
    """


class NoFreeConnection(StoreUnavailable):
    """The server has no free connection. Open connections keep working."""


@dataclass(frozen=True, slots=True)
class Write:
    """New events for one stream.

    Attributes:
        stream: For example `run/<slug>`, `roots` or `effects/<slug>`.
        expected: The stream version that the decision was based on; 0 for a new stream.
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
        part: `run` or `effects`. The append that changes a part writes its row.
        row: JSON text; empty removes the row.
    """

    run: str
    part: str
    row: str


class Recorded(NamedTuple):
    """One stored event, with its bytes exactly as stored.

    A tuple, so that a database row becomes one without conversion.

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


class EventHeader(NamedTuple):
    """One stored event, for readers that may not need its bytes.

    Attributes:
        position: Place in the whole ledger.
        stream: Its stream.
        version: Its place in the stream.
        topic: Its registered name with a version suffix.
        size: How many bytes are stored.
        hash: Chain hash, 32 bytes.
        state: The stored bytes; None if its topic was not requested.
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
    """The result of an append, or of an earlier append with the same key.

    Attributes:
        versions: The first and last version written, by stream.
        repeated: The key was known, so this is the first answer and nothing new was stored.
    """

    versions: Mapping[str, tuple[int, int]]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    """One append of a batch; see `EventStore.append` for the fields."""

    writes: Sequence[Write]
    key: str | None = None
    digest: bytes = b""
    status: Sequence[StatusRow] = ()


@dataclass(frozen=True, slots=True)
class KeyRow:
    """An idempotency key with the first answer.

    Attributes:
        key: The caller's name for the act.
        digest: Digest of the request; empty if it is not compared.
        versions: The first and last version that the append wrote, by stream.
        position: Position of the last event that it wrote; 0 if it wrote no event.
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
        """The backend, `sqlite` or `postgresql`; for display only."""
        ...

    def append(
        self,
        writes: Sequence[Write],
        *,
        key: str | None = None,
        digest: bytes = b"",
        status: Sequence[StatusRow] = (),
    ) -> Appended:
        """Store events on one or more streams in one transaction, or store nothing.

        A repeated key returns the first answer, whatever the current versions are.

        Args:
            writes: At most one per stream. A write without events only checks the version.
            key: The caller's name for this act, for example the id of a command or signal.
            digest: Digest of the content that must match when the key is used again. Only the
                caller can compute it, since event bytes hold fresh ids and times. Empty means no
                comparison.
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

        Each append sees the heads and key answers that earlier ones in the batch stored.

        Returns:
            For each append, the value that `append` would return or the error that it would raise.
            A failed append stores nothing.

        Raises:
            StoreFailure: No append is stored, or the outcome of all is unknown.
        """
        ...

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep out all other writers, in any thread or process, for the length of a block.

        The block's thread reads the newest data, and its first append cannot conflict. That append
        is stored at once and ends the exclusion. Keep the block short.
        """
        ...

    def answer(self, key: str, *, digest: bytes = b"") -> Appended | None:
        """Return the result of the append with a key, marked as repeated; None if unknown.

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

        All events stored at the time of the call are yielded. Later events may follow, without a
        gap. A caller that stops early closes or drops the iterator.

        Args:
            stream: Its name; None for the whole ledger in commit order.
            after: Start after this stream version or ledger position.

        Raises:
            StoreFailure: The store could not be read. The iterator raises it.
        """
        ...

    def skim(
        self, topics: Collection[str], *, after: int = 0, limit: int = 500
    ) -> list[EventHeader]:
        """Return the same page as `read_all`, but load bytes only for these topics."""
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
        """Wait until any process appends an event after a position, or until the limit."""
        ...

    def close(self) -> None:
        """Release the store; safe to call twice."""
        ...


READ_PAGE = 500
"""Events per page, about a megabyte. Larger pages are not faster, since their memory is not
reused."""


def pages_of(
    store: EventStore, stream: str | None = None, *, after: int = 0
) -> Iterator[list[Recorded]]:
    """Yield the same pages as `EventStore.pages`, one read at a time."""
    read = store.read_all if stream is None else partial(store.read, stream)
    while page := read(after=after, limit=READ_PAGE):
        yield page
        if len(page) < READ_PAGE:
            return
        after = end_of(page, stream)


def end_of(page: Sequence[Recorded], stream: str | None) -> int:
    """Return the version or position after which the next page starts."""
    return page[-1].position if stream is None else page[-1].version
