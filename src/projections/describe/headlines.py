"""Commit messages of the logbook, and short names of events."""

from collections.abc import Iterable, Mapping

from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.queries import health_words, is_unproven
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health
from watchkeeper.projections.describe.description import Headline
from watchkeeper.projections.describe.table import headline

_ORDER = {headline: place for place, headline in enumerate(Headline)}


def commit_message(run: str, events: Iterable[Event]) -> str:
    """Return the subject of the commit that adds events to the logbook.

    Args:
        run: The run's slug.
        events: The events since the last push; the most important one gives the headline.
    """
    found = [words for words in map(headline, events) if words is not None]
    return f"{run}: {min(found, key=_ORDER.__getitem__, default=Headline.CHECK)}"


def branch_message(changes: Mapping[str, Iterable[Event]]) -> str:
    """Return the message of one commit for several runs, with a line for each run.

    Args:
        changes: Events since each run's last push, by slug; the most important run comes first.
    """
    if len(changes) == 1:
        return next(commit_message(run, events) for run, events in changes.items())
    words: dict[str, Headline] = {}
    for run, events in changes.items():
        found = [said for said in map(headline, events) if said is not None]
        words[run] = min(found, key=_ORDER.__getitem__, default=Headline.CHECK)
    runs = sorted(words, key=lambda run: (_ORDER[words[run]], run))
    first, others = runs[0], len(runs) - 1
    subject = f"{first}: {words[first]}, and {others} more run{'s' if others > 1 else ''}"
    return "\n".join([subject, "", *(f"- {run}: {words[run]}" for run in runs)])


def short_name(event: Event) -> str:
    """Return an event's short name, which corrections refer to."""
    data = event.data
    if isinstance(data, CheckRecorded):
        unknown = data.health is Health.UNKNOWN and not is_unproven(data)
        return "check" if unknown else health_words(data)
    topic = data.topic.rpartition(".")[0].partition(".")[2]
    return topic.replace("_", " ")
