"""The auditor goes red on each breach, so that its silence means something."""

from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.given import enveloped
from tests.domain.samples import (
    AGENT,
    LOOP,
    job,
)
from tests.domain.stories import story
from watchkeeper.domain.envelope import Event
from watchkeeper.domain.events import (
    Action,
    DecisionMade,
    EscalationRaised,
    Fact,
    InstanceEnded,
    LaunchRequested,
    NoteAdded,
    RunStopped,
)
from watchkeeper.domain.state import (
    PHASES,
    Interrupted,
    Phase,
    Running,
    Sealed,
    Stopped,
)
from watchkeeper.domain.values import JobState


def with_fact(fact: Fact, actor: Any = LOOP, *, after: type = Running) -> list[Event]:
    history = story(after)
    return [*history.events, enveloped(fact, history.run.version + 1, history.now, actor)]


def last(kind: type[Fact]) -> Any:
    events = story(Interrupted).relaunch().events
    return [event.data for event in events if isinstance(event.data, kind)][-1]


BREACHES: list[tuple[str, list[Event]]] = [
    ("1", with_fact(last(LaunchRequested))),
    ("2", with_fact(last(LaunchRequested).model_copy(update={"approval": "a-9"}))),
    ("2", with_fact(last(LaunchRequested).model_copy(update={"preflight": 1}))),
    (
        "2",
        [
            enveloped(story(Running).events[1].data, 1),
            enveloped(last(LaunchRequested).model_copy(update={"preflight": 1}), 2),
        ],
    ),
    ("3", with_fact(story(Running).events[2].data, AGENT)),
    (
        "4",
        [
            event
            for event in story(Interrupted).relaunch().events
            if event.data.topic != "run.checkpoint_validated.1"
        ],
    ),
    ("5", story(Running).events[1:]),
    ("7", with_fact(NoteAdded(text="late"), after=Sealed)),
    ("7", with_fact(RunStopped(reason="again"), after=Stopped)),
    ("7", with_fact(story(Interrupted).events[-3].data, after=Interrupted)),
    (
        "8",
        with_fact(
            DecisionMade(instance="i1", action=Action.RELAUNCH, rule="R1", because="x", evidence=())
        ),
    ),
    ("0", with_fact(EscalationRaised(question="q-7", rule="R2", to="dri", asks="?", evidence=()))),
]


@pytest.mark.parametrize(("number", "events"), BREACHES)
def test_the_auditor_sees_each_breach(number: str, events: list[Event]) -> None:
    assert any(breach.startswith(f"{number}:") for breach in audit(events)), audit(events)


def test_an_end_that_the_orchestrator_did_not_call_is_a_breach() -> None:
    ended = InstanceEnded(instance="i1", job=job(JobState.UNKNOWN), step=None)
    assert "1: i1 ends on unknown at event 11" in audit(with_fact(ended))


@pytest.mark.parametrize("phase", PHASES)
def test_the_auditor_is_silent_about_every_story(phase: type[Phase]) -> None:
    assert audit(story(phase).events) == []
