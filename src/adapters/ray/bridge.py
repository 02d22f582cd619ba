"""The bridge: sends events of a Ray cluster to Pub/Sub through a spool.

It runs next to the cluster, needs no ledger and no home, and judges nothing. It publishes what it
saw, and the watch that receives it draws the conclusions.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from watchkeeper import clock
from watchkeeper.adapters.ray.events_http import received
from watchkeeper.adapters.ray.export_log import follow, unreadable
from watchkeeper.adapters.ray.job_poll import Poller, report_reach
from watchkeeper.adapters.ray.messages import ALIVE, Writer, stamp
from watchkeeper.adapters.ray.publishing import BATCH_BYTES, BATCH_MESSAGES, TopicPublisher
from watchkeeper.adapters.ray.spool import Spool

FOLLOW_EVERY = timedelta(milliseconds=500)
"""Between two looks at the files of a head."""

IDLE = timedelta(milliseconds=100)
"""Between two looks at an empty spool."""

REPORT_EVERY = timedelta(seconds=60)
"""Between two lines of progress where nothing changed but the counts."""

ALIVE_EVERY = timedelta(minutes=5)
"""Between two messages that say that the bridge lives: no source reports its own death."""

LEAVING = timedelta(seconds=10)
"""Time limit for work in progress after a request to stop; waiting messages stay in the spool."""

BACKOFF_FIRST = timedelta(milliseconds=500)
BACKOFF_LONGEST = timedelta(seconds=30)
"""Between two attempts to publish, while Pub/Sub does not confirm."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts since a bridge began, and its current state.

    Attributes:
        kept: Messages put into the spool.
        published: Messages that Pub/Sub confirmed.
        waiting: Messages in the spool.
        lost: Messages dropped for lack of room, by type, not reported yet.
        silent: The parts of the cluster that did not answer the last query.
        unread: Why a file of the head could not be read; empty when all is well.
        unpublished: Why Pub/Sub did not confirm; empty when all is well.
        full: The spool has no room for what is in the head's files.
    """

    kept: int = 0
    published: int = 0
    waiting: int = 0
    lost: int = 0
    silent: tuple[str, ...] = ()
    unread: str = ""
    unpublished: str = ""
    full: bool = False


@dataclass(slots=True)
class Bridge:
    """One bridge of one cluster.

    Args:
        spool: Where messages wait.
        writer: Writes them.
        poller: Asks the cluster.
        publisher: Publishes.
        session: The folder of Ray's session; None if the bridge is on another machine.
        poll_every: Time between two polls.
    """

    spool: Spool
    writer: Writer
    poller: Poller
    publisher: TopicPublisher
    session: Path | None = None
    poll_every: timedelta = timedelta(seconds=10)
    lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _counts: Counts = field(default_factory=Counts, init=False)

    def counts(self) -> Counts:
        """Return the bridge's counts and state."""
        waiting, _ = self.spool.waiting()
        lost = sum(self.spool.lost().values())
        with self.lock:
            return replace(self._counts, waiting=waiting, lost=lost)

    def poll(self) -> None:
        """Poll the cluster once."""
        kept, silent = self.poller.poll()
        with self.lock:
            self._counts = replace(self._counts, kept=self._counts.kept + kept, silent=silent)

    def follow(self) -> None:
        """Read on in the head's files once."""
        if self.session is None:
            return
        kept, full = 0, False
        try:
            read = follow(self.session, self.spool, self.writer)
            kept, full, unread = read.kept, read.full, unreadable(self.session)
        except OSError as error:
            unread = str(error)
        kept += report_reach(self.spool, self.writer, "files", unread)
        with self.lock:
            counts = self._counts
            self._counts = replace(counts, kept=counts.kept + kept, full=full, unread=unread)

    def publish(self) -> bool:
        """Publish what waits the longest; say whether something waited and was confirmed."""
        batch = self.spool.oldest(BATCH_MESSAGES, BATCH_BYTES)
        if not batch:
            return False
        confirmed, reason = self.publisher.publish(batch)
        if confirmed:
            # A crash before this line publishes them again, under the same ids.
            self.spool.remove(confirmed)
            self.spool.report_losses(self.writer, clock.now())
        with self.lock:
            counts = self._counts
            published = counts.published + len(confirmed)
            self._counts = replace(counts, published=published, unpublished=reason)
        return not reason

    def kept(self, count: int) -> None:
        """Count messages that other code put into the spool."""
        with self.lock:
            self._counts = replace(self._counts, kept=self._counts.kept + count)

    def live(self) -> None:
        """Put a heartbeat message into the spool."""
        counts, now = self.counts(), clock.now()
        data = {"silent": list(counts.silent), "waiting": counts.waiting, "lost": counts.lost}
        self.kept(self.spool.offer([self.writer.note(ALIVE, now, data, stamp(now))]).taken)


def run_once(bridge: Bridge) -> Counts:
    """Read all sources once, publish all waiting messages, and return."""
    bridge.follow()
    bridge.poll()
    while bridge.publish():
        pass
    return bridge.counts()


def run(
    bridge: Bridge,
    stop: threading.Event,
    say: Callable[[Counts], None],
    events: tuple[str, int] | None = None,
    on_listening: Callable[[str], None] = lambda _: None,
) -> Counts:
    """Run until asked to stop, then publish what can still be published.

    Args:
        bridge: What to run.
        stop: Set by signals.
        say: Called with the counts when the state changed, and every minute.
        events: Where to listen for Ray's events: host, and port or 0; None: nowhere.
        on_listening: Called with the URL of the listener.

    Raises:
        SpoolProblem: The spool cannot be written; nothing of it is lost.
        OSError: It cannot be listened there.
    """
    failures: list[BaseException] = []
    with ExitStack() as running:
        if events is not None:
            url = running.enter_context(received(*events, bridge.spool, bridge.writer, bridge.kept))
            on_listening(url)
        running.enter_context(_repeated("poll", bridge.poll, bridge.poll_every, stop, failures))
        running.enter_context(_repeated("publish", _publishing(bridge, stop), IDLE, stop, failures))
        # However the watch over them ends, its threads end, too.
        running.callback(stop.set)
        _watch_over(bridge, stop, say)
    if not failures:
        deadline = clock.Deadline.after(LEAVING)
        while not deadline.expired() and bridge.publish():
            pass
    bridge.publisher.close()
    if failures:
        raise failures[0]
    return bridge.counts()


def _watch_over(bridge: Bridge, stop: threading.Event, say: Callable[[Counts], None]) -> None:
    reported = Counts()
    since_report, living = clock.Timer(), clock.Timer()
    bridge.live()
    while not stop.is_set():
        bridge.follow()
        counts = bridge.counts()
        quiet = replace(
            counts, kept=reported.kept, published=reported.published, waiting=reported.waiting
        )
        if quiet != reported or since_report.elapsed() > REPORT_EVERY:
            say(counts)
            reported = counts
            since_report.reset()
        if living.elapsed() > ALIVE_EVERY:
            bridge.live()
            living.reset()
        stop.wait(FOLLOW_EVERY.total_seconds())


def _publishing(bridge: Bridge, stop: threading.Event) -> Callable[[], None]:
    """Return the task that empties the spool, with growing waits while it fails."""
    backoff = clock.ExponentialBackoff(initial=BACKOFF_FIRST, maximum=BACKOFF_LONGEST)

    def publish() -> None:
        while not stop.is_set() and bridge.publish():
            backoff.reset()
        if bridge.counts().unpublished:
            stop.wait(backoff.next_wait().total_seconds())

    return publish


@contextmanager
def _repeated(
    name: str,
    work: Callable[[], None],
    every: timedelta,
    stop: threading.Event,
    failures: list[BaseException],
) -> Generator[None, None, None]:
    """Repeat a task on its own thread; its failure stops the bridge."""

    def repeat() -> None:
        try:
            while not stop.is_set():
                work()
                stop.wait(every.total_seconds())
        except BaseException as error:  # noqa: BLE001 - Raised again by `run`.
            failures.append(error)
            stop.set()

    thread = threading.Thread(target=repeat, name=f"bridge-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # A poll that hangs is abandoned: it does not block the end.
        thread.join(LEAVING.total_seconds())
