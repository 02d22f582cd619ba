"""Ledger sizes: events and bytes of each stream and each topic."""

from collections.abc import Mapping, Sequence

from watchkeeper.projections.views.view import Passed, Projection, Row, Seen, Sums

STREAM = "stream "
TOPIC = "topic "
"""Key prefixes; names of streams and topics do not start with blanks."""


def _keys(seen: Seen) -> Sequence[str]:
    return (STREAM + seen.stream, TOPIC + seen.topic)


def _fold(key: str, row: Row | None, seen: Seen) -> Row:
    del key
    before = row or {"events": 0, "bytes": 0}
    return {"events": before["events"] + 1, "bytes": before["bytes"] + len(seen.state)}


def _sums(page: Sequence[Passed]) -> Mapping[str, Row]:
    # Both rows of an event grow by the same amount, so each pair of stream and topic is counted
    # once.
    sizes: dict[tuple[str, str], list[int]] = {}
    for _, stream, _, topic, size, _, _ in page:
        pair = stream, topic
        if pair in sizes:
            sizes[pair].append(size)
        else:
            sizes[pair] = [size]
    rows: dict[str, Row] = {}
    for (stream, topic), found in sizes.items():
        more = {"events": len(found), "bytes": sum(found)}
        for key in (STREAM + stream, TOPIC + topic):
            rows[key] = _plus(rows[key], more) if key in rows else more
    return rows


def _plus(one: Row, other: Row) -> Row:
    return {"events": one["events"] + other["events"], "bytes": one["bytes"] + other["bytes"]}


SIZES = Projection(
    name="sizes",
    version=1,
    keys=_keys,
    fold=_fold,
    shows="events and bytes of each run and topic: `ledger stats`, and limits",
    sums=Sums(_sums, _plus),
)
