"""Streams the ledger's events to a Python program: `tools subscribe`.

from watchkeeper.adapters.subscriptions import subscribe

for event in subscribe("~/.watchkeeper", types=["run.escalation_raised"]):
    print(event.run, event.envelope["data"]["question"])
"""

import logging
import os
import threading
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal

from watchkeeper.adapters.home import open_home
from watchkeeper.adapters.ledger_choice import chosen_store
from watchkeeper.adapters.near import did_you_mean
from watchkeeper.adapters.store.choosing import open_ledger, read_at_rest
from watchkeeper.adapters.store.recorder import recorder_of
from watchkeeper.domain.run.registry import UPCASTS, type_of
from watchkeeper.domain.values.cloud_event import CloudEvent
from watchkeeper.ports.event_store import EventStore
from watchkeeper.projections.published.cloud_event import cloud_event, is_wanted, matches
from watchkeeper.services.ledger.ledger_feed import Tailer

log = logging.getLogger(__name__)

LOOK_EVERY = timedelta(milliseconds=500)
"""Longest delay until `stop` takes effect. A new event is yielded at once."""

Position = int | Literal["beginning", "now"]
"""Where to begin: after a position of the ledger, at its beginning, or with new events."""


class SubscriptionMistake(ValueError):
    """The request can never be met. The message says what to do."""


class UnknownRun(SubscriptionMistake):
    """A run has no event, and the caller does not wait for one. The message names it."""


def subscribe(
    home: str | Path,
    *,
    from_position: Position = "beginning",
    types: Sequence[str] = (),
    runs: Sequence[str] = (),
    follow: bool = True,
    stop: threading.Event | None = None,
    store: str | None = None,
    warn: Callable[[str], None] = log.warning,
) -> Generator[CloudEvent, None, None]:
    """Yield the events of a home, in the order of their recording, each once.

    Keep `event.position` after each handled event, and begin after it the next time. Then no event
    is missed. At most the last event comes twice, with the same `event.id`. The home's ledger is
    open until the iterator ends or is closed. Reading never delays a watch.

    Args:
        home: Folder of the ledger, on this machine.
        from_position: Begin after this position. 0 is the beginning.
        types: Globs for event types, such as `run.finding_*`. Empty means all types.
        runs: Slugs of the runs whose events and effects are wanted. Empty means everything.
        follow: Wait for later events; otherwise end after the recorded events.
        stop: Ends the iterator when set, by a signal handler or another thread.
        store: URL of the server that keeps the ledger. The defaults are, in this order,
            WATCHKEEPER_STORE, the home's setting, and the file in the home.
        warn: With `follow`, called at once for each of `runs` that has no event yet. Such a run may
            be launched later, or its name is misspelt. Without `follow`, called for a ledger on a
            read-only mount.

    Raises:
        SubscriptionMistake: No event has such a type, or the position lies beyond the ledger.
        UnknownRun: Without `follow`, after the last event: one of `runs` has no event.
        HomeProblem: There is no such home.
        StoreFailure: The ledger cannot be read.
    """
    for glob in types:
        if not any(matches(topic, glob) for topic in (*type_of, *UPCASTS)):
            raise SubscriptionMistake(
                f"no event type matches {glob}: `watchkeeper tools schema events` lists them"
            )
    if isinstance(from_position, int) and from_position < 0:
        raise SubscriptionMistake(f"position {from_position}: expected 0 or more")
    ended = stop or threading.Event()
    return _stream(Path(home), from_position, types, runs, follow, ended, store, warn)


def _stream(
    path: Path,
    from_position: Position,
    types: Sequence[str],
    runs: Sequence[str],
    follow: bool,
    stop: threading.Event,
    store: str | None,
    warn: Callable[[str], None],
) -> Generator[CloudEvent, None, None]:
    home = open_home(path)
    chosen = chosen_store(store, os.environ, home.store, home.deployment, home.key)
    with open_ledger(chosen, home.ledger, reading=not follow) as ledger:
        if ledger.at_rest:
            warn(read_at_rest(home.ledger))
        first = _first(ledger.store, from_position)
        unknown = _unknown(ledger.store, runs, follow)
        for sentence in unknown if follow else ():
            warn(sentence)
        tailer = Tailer(recorder_of(ledger.store), ledger.store, after=first)
        while not stop.is_set():
            for page in tailer.pages():
                for row in page:
                    event = cloud_event(
                        home.deployment,
                        position=row.id,
                        stream=str(row.originator_id),
                        version=row.originator_version,
                        topic=row.topic,
                        state=row.state,
                    )
                    if is_wanted(event, types, runs):
                        yield event
                    if stop.is_set():
                        return
            if not follow and unknown:
                raise UnknownRun("\n".join(unknown))
            if not follow:
                return
            while not stop.is_set() and not tailer.wait(LOOK_EVERY):
                pass


def _unknown(store: EventStore, runs: Sequence[str], follow: bool) -> list[str]:
    """Return a sentence for each run that the ledger does not have."""
    if not runs:
        return []
    known = [name.removeprefix("run/") for name in store.streams("run/")]
    hint = (
        "Waiting for its first event, in case it is launched later."
        if follow
        else "`watchkeeper status --all` lists them."
    )
    return [
        f"--run {run}: the ledger has no such run.{did_you_mean(run, known)} {hint}"
        for run in dict.fromkeys(runs)
        if run not in known
    ]


def _first(store: EventStore, from_position: Position) -> int:
    newest = store.newest()
    if from_position == "beginning":
        return 0
    if from_position == "now":
        return newest
    if from_position > newest:
        # The position is from another ledger. All events here up to it would be missed.
        raise SubscriptionMistake(
            f"position {from_position} is beyond the ledger's newest event, {newest}: it "
            "belongs to another home, or this home was restored from a backup; start at a "
            "lower one"
        )
    return from_position
