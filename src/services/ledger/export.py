"""Exports the ledger as JSON lines, byte for byte, in commit order.

The file starts with a header. Each event follows with its recorded bytes as text and its chain
hash. An idempotency key comes before the first event of its append. The last line holds the counts
and a digest of all lines before it.

The lines follow the order of the ledger, so positions are not written. An import restores the same
positions, and a new export gives the same bytes. Views and status rows can be rebuilt, so they are
not exported.
"""

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper.domain.run.chain import Head, follow
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.ports.event_store import EventStore, KeyRow
from watchkeeper.services.ledger.ledger_feed import LedgerNotification, Tailer

FORMAT = "watchkeeper/export/v1"


def export_lines(
    store: EventStore,
    recorder: ApplicationRecorder,
    runs: Collection[str] = (),
    broken: list[str] | None = None,
) -> Iterator[bytes]:
    """Yield the lines of an export, each with its line feed.

    The export ends where the ledger ended at the call; later appends are left out.

    Args:
        store: The ledger, for its idempotency keys.
        recorder: The ledger as a recorder of the `eventsourcing` library, for its events.
        runs: Only these runs, each with its effects; empty for the whole ledger.
        broken: Receives a sentence for the first event of a stream that breaks its hash chain,
            while the lines are yielded. An import refuses such an export.
    """
    newest = store.newest()
    streams = {name for slug in runs for name in (f"run/{slug}", effects_stream(slug))}
    digest = hashlib.sha256()
    counted = {"events": 0, "keys": 0}
    events = chain.from_iterable(Tailer(recorder, store).pages())
    for line in _lines(store, events, newest, streams, counted, [] if broken is None else broken):
        digest.update(line)
        yield line
    yield _line({**counted, "sha256": digest.hexdigest()})


def _lines(
    store: EventStore,
    events: Iterable[LedgerNotification],
    newest: int,
    streams: set[str],
    counted: dict[str, int],
    broken: list[str],
) -> Iterator[bytes]:
    yield _line({"format": FORMAT})
    heads: dict[str, Head] = {}
    keys = _begun(store, newest, streams)
    waiting = next(keys, None)
    for one in events:
        if one.id > newest:
            break
        if streams and one.stream not in streams:
            continue
        while waiting is not None and waiting[0] <= one.id:
            counted["keys"] += 1
            yield _line(waiting[1])
            waiting = next(keys, None)
        counted["events"] += 1
        if not broken:
            broken += _breaks(heads, one)
        yield _line(event_line(one))
    # Only keys of appends without events can be left, in a ledger without events.
    while waiting is not None:
        counted["keys"] += 1
        yield _line(waiting[1])
        waiting = next(keys, None)


def _breaks(heads: dict[str, Head], one: LedgerNotification) -> list[str]:
    """Extend a stream's chain by an event, and report a break."""
    version = one.originator_version
    if follow(heads, [(one.stream, one.stream, version, one.topic, one.state, one.hash)]):
        return []
    return [f"event {version} of {one.stream} does not follow from the one before it"]


def _begun(
    store: EventStore, newest: int, streams: set[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the keys to write, each with the position of its append's first event."""
    for row in store.key_rows():
        if row.position > newest:
            return
        kept = {name: span for name, span in row.versions.items() if not streams or name in streams}
        if streams and not kept:
            continue
        number = sum(last - first + 1 for first, last in row.versions.values())
        yield row.position - number + 1 if number else 0, key_line(row, kept)


def event_line(one: LedgerNotification) -> dict[str, Any]:
    """Return an event's line; bytes that are not text, from a foreign writer, become base 64."""
    line: dict[str, Any] = {
        "stream": one.stream,
        "version": one.originator_version,
        "topic": one.topic,
        "hash": one.hash.hex(),
    }
    try:
        line["state"] = one.state.decode()
    except UnicodeDecodeError:
        line["state_base64"] = base64.b64encode(one.state).decode()
    return line


def key_line(row: KeyRow, versions: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
    """Return an idempotency key's line."""
    return {
        "key": row.key,
        "digest": row.digest.hex(),
        "versions": {name: list(span) for name, span in versions.items()},
    }


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
