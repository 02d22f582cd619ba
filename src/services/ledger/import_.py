"""Imports an export into an empty store and verifies each append first.

The file is read twice. The first pass checks the whole file, so that nothing of a truncated or
changed file is stored. The second pass stores it. Each batch is one transaction. An interrupted
import compares everything that the store holds and continues after it.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from watchkeeper.domain.run.chain import GENESIS, chain_hash
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.ports.event_store import Append, Appended, EventStore, Write
from watchkeeper.services.ledger.export import FORMAT

BATCH = 200
"""Appends in one transaction."""

_KEY = b'{"key":'
"""The start of an idempotency key's line."""

LINE_BYTES_MAX = 64_000_000
"""The longest line that can be an event of ours."""


class BadExport(Exception):
    """The file is not an export, or was truncated or changed. The message says where."""


class OtherLedger(Exception):
    """The store does not match the start of the file. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The content of an export's last line."""

    events: int
    keys: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    Attributes:
        events: The number of events that it stored.
        known: The number of events that the store already held, from an interrupted import.
    """

    events: int
    known: int


@dataclass(frozen=True, slots=True)
class Line:
    """One event of an export, with its place in the hash chain verified."""

    stream: str
    version: int
    topic: str
    state: bytes
    hash: bytes


@dataclass(slots=True)
class _Group:
    """One append, as far as it was read.

    Attributes:
        wanted: How many events it has; known from its key.
    """

    key: str | None = None
    digest: bytes = b""
    wanted: int = 1
    events: list[Line] = field(default_factory=list[Line])


def check_export(lines: Iterable[bytes]) -> Summary:
    """Read a whole export without storing anything.

    Raises:
        BadExport: The file is not a complete export.
    """
    digest = hashlib.sha256()
    held: bytes | None = None
    number = keys = 0
    for number, line in enumerate(lines, 1):
        if held is not None:
            digest.update(held)
            keys += held.startswith(_KEY)
        if number == 1:
            _header(line)
        held = line
    if held is None:
        raise BadExport("the file is empty: expected an export of watchkeeper")
    last = _parsed(held, number)
    if set(last) != {"events", "keys", "sha256"}:
        raise BadExport(f"line {number}: the file was cut short: its last line is missing")
    read = Summary(max(0, number - 2 - keys), keys, digest.hexdigest())
    _counted(last, read, number)
    return read


def _counted(last: Mapping[str, Any], read: Summary, number: int) -> None:
    """Compare the last line with the lines before it.

    Raises:
        BadExport: It does not match. A wrong digest is reported first, since it explains all other
            differences.
    """
    for name, meant, what in (
        ("sha256", read.sha256, "the digest of all bytes before it"),
        ("events", read.events, "the number of events before it"),
        ("keys", read.keys, "the number of idempotency keys before it"),
    ):
        said = last[name]
        if type(said) is type(meant) and said == meant:
            continue
        raise BadExport(
            f"line {number}: {name}: expected {meant!r}, {what}, got {said!r}: the file was "
            "changed: take another copy of it, or write it again with `watchkeeper ledger export`"
        )


def import_lines(
    store: EventStore,
    lines: Iterable[bytes],
    progress: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Store an export in a store that is empty or holds the start of the export.

    Args:
        store: The target.
        lines: The lines of a file that `check_export` accepted.
        progress: Called with the number of events read so far, after each transaction.

    Raises:
        BadExport: An event breaks its chain. Nothing from there on was stored.
        OtherLedger: The store holds other events.
        StoreFailure: The store failed. Import again to continue.
    """
    heads: dict[str, tuple[int, bytes]] = {}
    groups = _groups(lines, heads)
    known = _compare(store, groups)
    stored = 0
    batch: list[_Group] = []
    for group in groups:
        batch.append(group)
        if len(batch) >= BATCH:
            stored += _store(store, batch)
            batch = []
            progress(known + stored)
    stored += _store(store, batch)
    progress(known + stored)
    return Imported(stored, known)


def events_of(lines: Iterable[bytes]) -> Iterator[Line]:
    """Yield the events of an export in order, each checked against the one before it.

    Raises:
        BadExport: An event breaks its chain.
    """
    for group in _groups(lines, {}):
        yield from group.events


def _compare(store: EventStore, groups: Iterator[_Group]) -> int:
    """Compare the store's events with the start of the file; return their number."""
    newest, after = store.newest(), 0
    there = _held(store)
    while after < newest:
        group = next(groups, None)
        if group is None or any(
            next(there, None) != (one.stream, one.version, one.hash) for one in group.events
        ):
            raise OtherLedger(
                f"the store holds {newest} events, and an event after {after} is not from "
                "this file: an import needs an empty store, or continues an interrupted "
                "import. Choose another home or database"
            )
        after += len(group.events)
    return after


def _held(store: EventStore) -> Iterator[tuple[str, int, bytes]]:
    for page in store.pages():
        yield from ((one.stream, one.version, one.hash) for one in page)


def _groups(lines: Iterable[bytes], heads: dict[str, tuple[int, bytes]]) -> Iterator[_Group]:
    """Yield the appends of an export; each event is checked against the one before it."""
    group = _Group()
    for number, line in enumerate(lines, 1):
        if number == 1:
            _header(line)
            continue
        found = _parsed(line, number)
        if "sha256" in found:
            break
        if "key" in found:
            group = _begun(found, number)
            if not group.wanted:
                yield group
                group = _Group()
            continue
        group.events.append(_event(found, number, heads))
        if len(group.events) == group.wanted:
            yield group
            group = _Group()
    if group.events:
        raise BadExport("the last append is not whole")


def _begun(found: dict[str, Any], number: int) -> _Group:
    try:
        spans: list[list[int]] = list(found["versions"].values())
        wanted = sum(last - first + 1 for first, last in spans)
        return _Group(str(found["key"]), bytes.fromhex(found["digest"]), wanted)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadExport(f"line {number}: not an idempotency key: {error}") from error


def _event(found: dict[str, Any], number: int, heads: dict[str, tuple[int, bytes]]) -> Line:
    try:
        text = found.get("state_base64")
        state = found["state"].encode() if text is None else base64.b64decode(text, validate=True)
        line = Line(
            str(found["stream"]),
            int(found["version"]),
            str(found["topic"]),
            state,
            bytes.fromhex(found["hash"]),
        )
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise BadExport(f"line {number}: not an event: {error}") from error
    version, previous = heads.get(line.stream, (0, GENESIS))
    if line.version != version + 1:
        raise BadExport(
            f"line {number}: event {line.version} of {line.stream} follows event {version}"
        )
    if chain_hash(previous, line.stream, line.version, line.topic, state) != line.hash:
        raise BadExport(
            f"line {number}: event {line.version} of {line.stream} does not have its chain hash"
        )
    heads[line.stream] = line.version, line.hash
    return line


def _store(store: EventStore, groups: Sequence[_Group]) -> int:
    """Store some appends in one transaction; return how many events they have."""
    if not groups:
        return 0
    outcomes = store.append_batch([_append(group) for group in groups])
    for group, outcome in zip(groups, outcomes, strict=True):
        if not isinstance(outcome, Appended):
            where = group.events[0].stream if group.events else f"key {group.key}"
            raise OtherLedger(f"{where}: somebody else wrote to the store: {outcome}")
    return sum(len(group.events) for group in groups)


def _append(group: _Group) -> Append:
    writes: dict[str, list[Line]] = {}
    for line in group.events:
        writes.setdefault(line.stream, []).append(line)
    return Append(
        [
            Write(stream, some[0].version - 1, tuple((one.topic, one.state) for one in some))
            for stream, some in writes.items()
        ],
        group.key,
        group.digest,
    )


def _header(line: bytes) -> None:
    found = _parsed(line, 1)
    if found.get("format") != FORMAT:
        raise BadExport(f"line 1: expected the format {FORMAT}, got {found.get('format')!r}")


def _parsed(line: bytes, number: int) -> dict[str, Any]:
    if len(line) > LINE_BYTES_MAX:
        raise BadExport(f"line {number}: longer than {LINE_BYTES_MAX:,} bytes")
    if not line.endswith(b"\n"):
        raise BadExport(f"line {number}: the file was cut short within it")
    try:
        found = parse_json(line)
    except ValueError as error:
        raise BadExport(f"line {number}: not JSON: {error}") from error
    if not isinstance(found, dict):
        raise BadExport(f"line {number}: expected an object")
    return cast(dict[str, Any], found)
