"""The logbook: one run's events as a Markdown file that git keeps.

It is a pure function of events, byte for byte, so every pushed version can be rebuilt. Rendered
text never changes: the fold only appends to its two growing sections. Only the title, the state
below it and the Run Contract show current values.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.projections.describe.check import state_of
from watchkeeper.projections.describe.headlines import short_name
from watchkeeper.projections.describe.table import with_entry
from watchkeeper.projections.figures import count, stamp
from watchkeeper.projections.logbook.state import Logbook, Mark
from watchkeeper.projections.quoting import wrapped
from watchkeeper.projections.series import grown

RENDERER = "logbook@2"
"""The renderer version, named in each commit's trailer. A change of any rendered byte needs a new
version; a file that an older one wrote is never overwritten."""

EMPTY = Logbook()
"""The logbook before a run's first event."""


def project(book: Logbook, event: Event) -> Logbook:
    """Fold one event of a run's stream; ignore events of other streams."""
    if not isinstance(event.data, RunEvent):
        return book
    mark = Mark(event.at, short_name(event))
    book = replace(
        book,
        version=event.version,
        recorded_at=event.envelope.recorded_at,
        marks=grown(book.marks, mark),
    )
    return with_entry(book, event)


def render(book: Logbook) -> bytes:
    """Return the whole file, with a final newline."""
    parts = [book.title, _state(book), book.head, "\n## Launched Instances\n", *book.instances]
    parts += ["\n## Event Log\n", *book.entries]
    return "".join(parts).encode()


def _state(book: Logbook) -> str:
    """Return the line under the title: what holds now, and who is asked what."""
    if book.recorded_at is None:
        return ""
    facts = book.facts
    words = [facts.state or state_of(facts)]
    words += [f"Alert: {text}" for text in list(facts.alerts.values())[:1]]
    if len(facts.alerts) > 1:
        words[-1] += f" (and {count(len(facts.alerts) - 1, 'more alert')})"
    if len(facts.questions) == 1:
        words += [f"{name} is open: {reply}" for name, reply in facts.questions.items()]
    elif facts.questions:
        words.append(f"{len(facts.questions)} questions are open: {', '.join(facts.questions)}")
    line = f"**Now** ({stamp(book.recorded_at, book.zone)}): {'. '.join(words)}."
    return f"\n{wrapped(line)}\n"


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


def render_with_earlier(events: Iterable[Event], version: int) -> tuple[bytes, bytes]:
    """Return the file now and the file at an earlier version, from one fold."""
    book = earlier = EMPTY
    for event in events:
        book = project(book, event)
        if event.version == version:
            earlier = book
    return render(book), render(earlier)
