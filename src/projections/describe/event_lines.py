"""One line of text per event, for `events` and for following a run."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import TypedDict

from watchkeeper.domain.run.envelope import Event
from watchkeeper.projections.describe.table import line
from watchkeeper.projections.quoting import cut, one_line

_SUMMARY_MAX = 300
"""Characters of a summary; `--json` shows the whole event."""


class EventRow(TypedDict):
    """One event for programs.

    Attributes:
        seq: Its version in its stream.
        at: When it was true outside, ISO 8601 in UTC.
        actor: Who caused it, with the kind of actor.
    """

    stream: str
    seq: int
    at: str
    recorded_at: str
    topic: str
    actor: str
    kind: str
    summary: str


def event_row(event: Event) -> EventRow:
    """Return one event's row."""
    actor = event.envelope.actor
    return EventRow(
        stream=event.stream,
        seq=event.version,
        at=event.at.astimezone(UTC).isoformat(),
        recorded_at=event.envelope.recorded_at.astimezone(UTC).isoformat(),
        topic=event.data.topic,
        actor=actor.principal,
        kind=actor.kind,
        summary=summary(event),
    )


ERROR_TYPES = (
    "run.failure_classified",
    "run.finding_opened",
    "run.finding_raised",
    "run.escalation_raised",
    "run.launch_refused",
    "run.attempt_refused",
    "run.checkpoint_rejected",
    "run.lineage_rejected",
    "run.seal_blocked",
)
"""Types of events that `events --errors` shows: what went wrong or was refused."""

_FOLDED = "run.checkpoint_validated"
_FOLDED_MIN = 3
"""Checkpoints in a row from which they are one line."""


def type_of(row: EventRow) -> str:
    """Return an event's type: its topic without the version."""
    return row["topic"].rpartition(".")[0]


def render_events(rows: Iterable[EventRow], zone: tzinfo = UTC, *, whole: bool = False) -> str:
    """Render rows as a table without borders, without a final newline.

    Several checkpoints in a row are one line. An event that happened before the one above it is
    marked, because it was recorded late.

    Args:
        rows: Oldest first.
        zone: For the times.
        whole: One line for each event.
    """
    table: list[tuple[str, str, str, str, str]] = []
    newest = ""
    for kind, group in groupby(rows, key=type_of):
        some = list(group)
        if kind == _FOLDED and len(some) >= _FOLDED_MIN and not whole:
            first, last = some[0], some[-1]
            text = f"{len(some)} checkpoints: {first['summary']} ... {last['summary']}"
            table.append(_cells(last, f"{first['seq']}-{last['seq']}", zone, text))
        else:
            for row in some:
                late = " (recorded late)" if row["at"] < newest else ""
                table.append(_cells(row, str(row["seq"]), zone, row["summary"] + late))
                newest = max(newest, row["at"])
        newest = max(newest, some[-1]["at"])
    if not table:
        return "no events"
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    return "\n".join(
        f"{seq:>{widths[0]}}  {at}  {topic:<{widths[2]}}  {actor:<{widths[3]}}  {text}".rstrip()
        for seq, at, topic, actor, text in table
    )


def _cells(row: EventRow, seq: str, zone: tzinfo, text: str) -> tuple[str, str, str, str, str]:
    at = datetime.fromisoformat(row["at"]).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S")
    return seq, at, type_of(row), row["actor"], text


def summary(event: Event) -> str:
    """Describe an event of any kind in one line."""
    return cut(one_line(line(event.data)), _SUMMARY_MAX)
