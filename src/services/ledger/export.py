"""The ledger as JSON lines: everything of record, byte for byte, in the order of the commits.

A header; then each event with its recorded bytes as text and its chain hash; before the first event
of an append that had an idempotency key, the key; last a line that counts and digests all before
it. The order of the lines is the order of the ledger, so positions are not written: what is read
back has the same ones, and exporting it again gives the same bytes. Views and status rows are not
of record, and are not in it.
"""

import base64
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from watchkeeper.domain.run.chain import Head, follow
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.ports.event_store import EventStore, KeyRow, Recorded

FORMAT = "watchkeeper/export/v1"


def export_lines(
    store: EventStore, runs: Collection[str] = (), broken: list[str] | None = None
) -> Iterator[bytes]:
    """Yield the lines of an export, each with its line feed.

    What is appended meanwhile is left out: the export ends where the ledger ended at the call.

    Args:
        store: The ledger.
        runs: Only these runs, each with its effects; the whole ledger when empty.
        broken: Gets a sentence for the first event that does not follow from the one before it in
            its stream, as the lines are yielded. An import refuses such an export.
    """
    newest = store.newest()
    streams = {name for slug in runs for name in (f"run/{slug}", effects_stream(slug))}
    digest = hashlib.sha256()
    counted = {"events": 0, "keys": 0}
    for line in _lines(store, newest, streams, counted, [] if broken is None else broken):
        digest.update(line)
        yield line
    yield _line({**counted, "sha256": digest.hexdigest()})


def _lines(
    store: EventStore,
    newest: int,
    streams: set[str],
    counted: dict[str, int],
    broken: list[str],
) -> Iterator[bytes]:
    yield _line({"format": FORMAT})
    heads: dict[str, Head] = {}
    keys = _begun(store, newest, streams)
    waiting = next(keys, None)
    for one in chain.from_iterable(store.pages()):
        if one.position > newest:
            break
        if streams and one.stream not in streams:
            continue
        while waiting is not None and waiting[0] <= one.position:
            counted["keys"] += 1
            yield _line(waiting[1])
            waiting = next(keys, None)
        counted["events"] += 1
        if not broken:
            broken += _breaks(heads, one)
        yield _line(event_line(one))
    # Only keys of appends that stored nothing can be left, in a ledger without events.
    while waiting is not None:
        counted["keys"] += 1
        yield _line(waiting[1])
        waiting = next(keys, None)


def _breaks(heads: dict[str, Head], one: Recorded) -> list[str]:
    """Follow a stream's chain over an event; say where it breaks."""
    if follow(heads, [(one.stream, one.stream, one.version, one.topic, one.state, one.hash)]):
        return []
    return [f"event {one.version} of {one.stream} does not follow from the one before it"]


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


def event_line(one: Recorded) -> dict[str, Any]:
    """Return an event's line; bytes that are no text, as of another program, are in base 64."""
    line: dict[str, Any] = {
        "stream": one.stream,
        "version": one.version,
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
