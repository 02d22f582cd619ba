"""One line of text per event, for `events` and for following a run."""

from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
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


def render_events(rows: Iterable[EventRow], zone: tzinfo = UTC) -> str:
    """Render rows as a table without borders, one line each, without a final newline."""
    table = [
        (
            str(row["seq"]),
            datetime.fromisoformat(row["at"]).astimezone(zone).strftime("%Y-%m-%d %H:%M:%S"),
            row["topic"].rpartition(".")[0],
            row["actor"],
            row["summary"],
        )
        for row in rows
    ]
    if not table:
        return "no events"
    widths = [max(len(line[column]) for line in table) for column in range(4)]
    return "\n".join(
        f"{seq:>{widths[0]}}  {at}  {topic:<{widths[2]}}  {actor:<{widths[3]}}  {text}".rstrip()
        for seq, at, topic, actor, text in table
    )


def summary(event: Event) -> str:
    """Describe an event of any kind in one line."""
    return cut(one_line(line(event.data)), _SUMMARY_MAX)
