from typing import get_args

import pytest

from tests.domain.given import History
from tests.domain.samples import contract
from tests.every_row import every_row
from tests.projections.tales import TALES, events_of, recorded
from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.observation.signals import NOTABLE
from watchkeeper.projections.describe.description import Headline
from watchkeeper.projections.describe.headlines import commit_message
from watchkeeper.projections.describe.table import headline

RUN = "grug-moe-1e23-ep8"


def newest(name: str, topic: str) -> list[Event]:
    """The events of a tale from the newest of a topic on."""
    events = recorded(TALES[name]())
    last = max(n for n, event in enumerate(events) if event.data.topic == topic)
    return events[last:]


def test_the_tales_hold_an_event_of_every_kind() -> None:
    told = {type(event.data) for event in events_of()}
    assert {kind.__name__ for kind in set(get_args(RunEvent)) - told} == set()


def test_every_event_that_the_logbook_shows_has_a_headline() -> None:
    silent = [event.data for event in events_of() if headline(event) is None]
    quiet = [fact.signal.kind for fact in silent if isinstance(fact, SignalReceived)]
    assert {type(fact) for fact in silent} == {CheckpointValidated, SignalReceived}
    assert set(quiet).isdisjoint(NOTABLE)


@pytest.mark.parametrize(
    ("lane", "subject"),
    [("hero", f"{RUN}: start hero-run logbook"), ("daily", f"{RUN}: start run logbook")],
)
def test_the_first_commit_starts_the_logbook(lane: str, subject: str) -> None:
    events = recorded(History().draft(contract(lane=lane)).approve())
    assert commit_message(RUN, events) == subject


@every_row(
    ("name", "topic", "words"),
    [
        ("sealed", "run.sealed.1", Headline.SEALED),
        ("sealed", "run.seal_verified.1", Headline.SEALED),
        ("sealed", "run.seal_blocked.1", Headline.SEALED),
        ("crash_loop", "run.instance_ended.1", Headline.FAILURE),
        ("crash_loop", "run.escalation_acknowledged.1", Headline.STOP),
        ("held", "run.preflight_recorded.1", Headline.ESCALATION),
        ("held", "run.instance_ended.1", Headline.FAILURE),
        ("refused", "run.launch_refused.1", Headline.REFUSED),
        ("alarmed", "run.instance_ended.1", Headline.FAILURE),
        ("alarmed", "run.launch_requested.1", Headline.RELAUNCH),
        ("alarmed", "run.instance_launched.1", Headline.RELAUNCH),
        ("spoken", "run.launch_requested.1", Headline.LAUNCH),
        ("spoken", "run.instance_ended.1", Headline.STOP),
    ],
)
def test_the_most_important_event_gives_the_commit_its_words(
    name: str, topic: str, words: Headline
) -> None:
    assert commit_message(RUN, newest(name, topic)) == f"{RUN}: {words.value}"


def test_checks_alone_log_a_check() -> None:
    events = [event for event in events_of(["sealed"]) if isinstance(event.data, CheckRecorded)]
    assert commit_message(RUN, events) == f"{RUN}: log check"
    assert commit_message(RUN, []) == f"{RUN}: log check"
