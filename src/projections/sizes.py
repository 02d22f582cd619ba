"""How much the ledger holds: events and bytes of each stream and each topic."""

from collections.abc import Sequence

from watchkeeper.projections.kept import Projection, Row, Seen

STREAM = "stream "
TOPIC = "topic "
"""What keys begin with; names of streams and topics hold no blanks at their beginning."""


def _keys(seen: Seen) -> Sequence[str]:
    return (STREAM + seen.stream, TOPIC + seen.topic)


def _fold(key: str, row: Row | None, seen: Seen) -> Row:
    del key
    before = row or {"events": 0, "bytes": 0}
    return {"events": before["events"] + 1, "bytes": before["bytes"] + len(seen.state)}


SIZES = Projection(
    name="sizes",
    version=1,
    keys=_keys,
    fold=_fold,
    shows="events and bytes of each run and topic: `ledger stats`, and limits",
)
