"""The logbook: one run's events as a Markdown file that git keeps.

It is a pure function of events, byte for byte, so every pushed version can be rebuilt. Rendered
text never changes: the fold only appends to its two growing sections. Only the Run Contract at the
head shows current values.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.projections.describe.headlines import short_name
from watchkeeper.projections.describe.table import with_entry
from watchkeeper.projections.logbook.state import Logbook, Mark
from watchkeeper.projections.series import grown

RENDERER = "logbook@1"
"""The renderer version, named in each commit's trailer. A change of any rendered byte needs a new
renderer. The old one is kept too, so that old commits can still be rebuilt."""

EMPTY = Logbook()
"""The logbook before a run's first event."""


def project(book: Logbook, event: Event) -> Logbook:
    """Fold one event of a run's stream; ignore events of other streams."""
    if not isinstance(event.data, RunEvent):
        return book
    mark = Mark(event.at, short_name(event))
    book = replace(book, version=event.version, marks=grown(book.marks, mark))
    return with_entry(book, event)


def render(book: Logbook) -> bytes:
    """Return the whole file, with a final newline."""
    parts = [book.head, "\n## Launched Instances\n", *book.instances]
    parts += ["\n## Event Log\n", *book.entries]
    return "".join(parts).encode()


def render_at(
    events: Iterable[Event], version: int | None = None, at: datetime | None = None
) -> bytes:
    """Return the file at an earlier point.

    Args:
        events: The run's history, oldest first.
        version: The last event to include; None for all.
        at: Include only events recorded by then; None for all.
    """
    book = EMPTY
    for event in events:
        if version is not None and event.version > version:
            break
        if at is not None and event.envelope.recorded_at > at:
            break
        book = project(book, event)
    return render(book)
