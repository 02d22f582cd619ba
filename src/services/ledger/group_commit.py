"""Group commit: appends that wait at the same time share one transaction.

There is no background thread. A thread that finds no commit in progress becomes the leader. It
commits all waiting appends, its own first, then hands the lead to the first newcomer. So only one
thread at a time uses the store, and a lone append goes straight through. Nothing must be started or
stopped, and no append is lost when a process ends, since its caller still waits for it.
"""

from collections import deque
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from threading import Condition, Lock, get_ident
from typing import Self

from watchkeeper.ports.event_store import (
    Append,
    Appended,
    EventHeader,
    EventStore,
    KeyReused,
    KeyRow,
    Recorded,
    StatusRow,
    StoreFailure,
    VersionConflict,
    Write,
)

QUEUE_MAX = 1_000
"""Waiting appends. Further ones wait for a place, so memory is bounded when the disk is slow."""

BATCH_MAX = 100
"""Appends in one transaction. Larger groups save little, since the commit is then a small part of
the cost, and they make the first append wait for the last."""

QUEUE_LIMIT = timedelta(seconds=30)
"""How long an append waits for a place in the queue."""

CLOSE_LIMIT = timedelta(seconds=30)
"""How long closing waits for waiting appends."""

_NO_APPEND = (ValueError, TypeError, OverflowError, AssertionError)
"""Errors of a store for values that it can never store. Nothing is stored then."""


class _Waiting:
    """One waiting append and its outcome.

    Attributes:
        turn: A lock that is held until the append has an outcome or the lead.
        leads: Whether it is the leader. Changed only under the committer's lock.
        outcome: The store's answer, or the error to raise.
    """

    __slots__ = ("append", "leads", "outcome", "turn")

    def __init__(self, append: Append) -> None:
        self.append = append
        self.turn = Lock()
        self.turn.acquire()
        self.leads = False
        self.outcome: Appended | Exception | None = None


class Committer:
    """An event store whose appends are committed in groups. Any thread may call any method.

    Appends are stored in order of arrival. Each succeeds or fails alone.

    Args:
        store: The event store; closed together with the committer.
        queue_max: The most appends that may wait.
        queue_limit: How long an append waits for a place among them.
    """

    def __init__(
        self,
        store: EventStore,
        *,
        queue_max: int = QUEUE_MAX,
        queue_limit: timedelta = QUEUE_LIMIT,
    ) -> None:
        """Begin with an empty queue."""
        self._store = store
        self._queue_max = queue_max
        self._queue_limit = queue_limit
        self._changed = Condition(Lock())
        self._queue: deque[_Waiting] = deque()
        self._leading = False
        self._crowded = 0
        self._exclusive: int | None = None
        self._closed = False

    @property
    def kind(self) -> str:
        """The backend of the store; see the port."""
        return self._store.kind

    @property
    def waiting(self) -> int:
        """How many appends wait for their transaction or for a place in the queue."""
        with self._changed:
            return len(self._queue) + self._crowded

    def __enter__(self) -> Self:
        """Use the store for the length of a block."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()

    # --- Appending ---------------------------------------------------------------------------

    def append(
        self,
        writes: Sequence[Write],
        *,
        key: str | None = None,
        digest: bytes = b"",
        status: Sequence[StatusRow] = (),
    ) -> Appended:
        """Store events in one transaction, maybe together with other appends; see the port.

        Raises:
            StoreFailure: As in the port. Also if too many appends waited for too long, or if an
                append in the same transaction was interrupted.
        """
        if self._exclusive == get_ident():
            return self._store.append(writes, key=key, digest=digest, status=status)
        mine = _Waiting(Append(writes, key, digest, status))
        try:
            self._enter(mine)
            if not mine.leads:
                mine.turn.acquire()
            if mine.leads:
                self._lead(mine)
        finally:
            if mine.leads or mine.outcome is None:
                self._leave(mine)
        assert mine.outcome is not None, "a woken appender leads, or has an outcome"
        if isinstance(mine.outcome, Exception):
            raise mine.outcome
        return mine.outcome

    def append_batch(
        self, appends: Sequence[Append]
    ) -> list[Appended | VersionConflict | KeyReused]:
        """Store several appends in one transaction, as a group of their own; see the port."""
        return self._store.append_batch(appends)

    @contextmanager
    def exclusive(self) -> Generator[None, None, None]:
        """Keep all other writers out until the first append of a block; see the port."""
        with self._store.exclusive():
            # Another group waits for the store meanwhile, so this thread commits by itself.
            self._exclusive = get_ident()
            try:
                yield
            finally:
                self._exclusive = None

    def _enter(self, mine: _Waiting) -> None:
        """Take a place in the queue, and the lead if it is free."""
        with self._changed:
            if len(self._queue) >= self._queue_max:
                self._wait_for_place()
            if self._closed:
                raise StoreFailure("the store is closed. Nothing was stored. Open it again.")
            self._queue.append(mine)
            if not self._leading:
                self._leading = mine.leads = True

    def _wait_for_place(self) -> None:
        self._crowded += 1
        try:
            place = self._changed.wait_for(
                lambda: len(self._queue) < self._queue_max or self._closed,
                self._queue_limit.total_seconds(),
            )
        finally:
            self._crowded -= 1
        if not place:
            raise StoreFailure(
                f"{self._queue_max} appends wait for the store, and none was finished for "
                f"{self._queue_limit.total_seconds():.0f} s. Nothing of this one was stored. Check "
                "the disk or the database, and what else writes to it, then try again."
            )

    def _lead(self, mine: _Waiting) -> None:
        """Commit all waiting appends, hand out the outcomes, and pass on the lead."""
        with self._changed:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
            if self._crowded:
                self._changed.notify_all()
        try:
            self._commit(batch)
        except BaseException as error:
            for one in batch:
                one.outcome = one.outcome or _interrupted(error)
            raise
        finally:
            # Wake the next leader first: while its commit waits for the disk, the others continue.
            self._leave(mine)
            for one in batch:
                if one is not mine:
                    one.turn.release()

    def _commit(self, batch: Sequence[_Waiting]) -> None:
        try:
            outcomes = self._store.append_batch([one.append for one in batch])
        except StoreFailure as error:
            for one in batch:
                # One copy per append: a traceback belongs to one thread.
                one.outcome = type(error)(str(error))
                one.outcome.__cause__ = error
        except _NO_APPEND as error:
            # For example text that is not UTF-8. Retry each append alone, so that only the faulty
            # one fails.
            if len(batch) == 1:
                batch[0].outcome = error
                return
            for one in batch:
                self._commit([one])
        else:
            for one, outcome in zip(batch, outcomes, strict=True):
                one.outcome = outcome

    def _leave(self, mine: _Waiting) -> None:
        """Pass on the lead, and leave the queue if the wait was interrupted."""
        with self._changed:
            if mine.outcome is None and mine in self._queue:
                self._queue.remove(mine)
            if not mine.leads:
                return
            mine.leads = False
            self._leading = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].turn.release()
            elif self._closed:
                self._changed.notify_all()

    def close(self) -> None:
        """Finish waiting appends, refuse new ones, and close the store; safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._leading, CLOSE_LIMIT.total_seconds())
        self._store.close()

    # --- Reading -----------------------------------------------------------------------------

    def answer(self, key: str, *, digest: bytes = b"") -> Appended | None:
        """Return the result of the append with a key; see the port."""
        return self._store.answer(key, digest=digest)

    def read(self, stream: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
        """Return a stream's events with versions above `after`, in order."""
        return self._store.read(stream, after=after, limit=limit)

    def read_all(self, *, after: int = 0, limit: int = 500) -> list[Recorded]:
        """Return a page of the whole ledger with positions above `after`, in commit order."""
        return self._store.read_all(after=after, limit=limit)

    def pages(self, stream: str | None = None, *, after: int = 0) -> Iterator[list[Recorded]]:
        """Yield what is stored page by page; see the port."""
        return self._store.pages(stream, after=after)

    def skim(
        self, topics: Collection[str], *, after: int = 0, limit: int = 500
    ) -> list[EventHeader]:
        """Return the same page as `read_all`, but load bytes only for these topics."""
        return self._store.skim(topics, after=after, limit=limit)

    def head(self, stream: str) -> tuple[int, bytes]:
        """Return a stream's version and chain hash; 0 and 32 zero bytes when it is empty."""
        return self._store.head(stream)

    def streams(self, prefix: str) -> list[str]:
        """Return the names of all streams that start with a prefix, sorted."""
        return self._store.streams(prefix)

    def status_rows(self) -> list[StatusRow]:
        """Return all status rows."""
        return self._store.status_rows()

    def key_rows(self) -> Iterator[KeyRow]:
        """Yield all idempotency keys as they are at the call; see the port."""
        return self._store.key_rows()

    def newest(self) -> int:
        """Return the newest position in the ledger; 0 when it is empty."""
        return self._store.newest()

    def wait(self, *, after: int, limit: timedelta) -> bool:
        """Wait until any process appends an event after a position, or until the limit."""
        return self._store.wait(after=after, limit=limit)


def _interrupted(error: BaseException) -> StoreFailure:
    return StoreFailure(
        f"another append of the same transaction was interrupted ({type(error).__name__}): it is "
        "unknown whether this one was stored. Repeat it with the same key."
    )
