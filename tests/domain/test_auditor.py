"""The auditor goes red on each breach, so that its silence means something."""

from typing import Any

from tests.domain.auditor import audit
from tests.domain.given import History, enveloped
from tests.domain.samples import (
    AGENT,
    DRI,
    LOOP,
    check_of,
    checkpoint,
    clear_for,
    contract,
    job,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import ReportRefusedLaunch
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, Stop
from watchkeeper.domain.run.ends import Action, DecisionMade, RunStopped
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.launch import InstanceEnded, LaunchRequested
from watchkeeper.domain.run.operator import NoteAdded, RelaunchRequested, StopRequested
from watchkeeper.domain.run.phases import (
    PHASES,
    Interrupted,
    Phase,
    Running,
    Sealed,
    Stopped,
    Superseded,
)
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.basic import JobState


def with_fact(fact: Fact, actor: Any = LOOP, *, after: type = Running) -> list[Event]:
    history = story(after)
    return [*history.events, enveloped(fact, history.run.version + 1, history.now, actor)]


def last(kind: type[Fact]) -> Any:
    events = story(Interrupted).relaunch().events
    return [event.data for event in events if isinstance(event.data, kind)][-1]


BREACHES: list[tuple[str, list[Event]]] = [
    ("3", with_fact(RelaunchRequested(instance="i1", reason="no", consent="c-9"), DRI)),
    (
        "3",
        with_fact(
            StopRequested(instance="i1", reason="no", consent="c-1"),
            DRI,
        ),
    ),
    ("7", with_fact(last(LaunchRequested), after=Superseded)),
    ("11", with_fact(check_of(token=9))),
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


@every_row(("number", "events"), BREACHES)
def test_the_auditor_sees_each_breach(number: str, events: list[Event]) -> None:
    assert any(breach.startswith(f"{number}:") for breach in audit(events)), audit(events)


def test_a_lost_job_that_a_human_gave_up_is_no_breach() -> None:
    history = story(Running)
    history.check(job(JobState.NOT_FOUND))
    history.tell(Stop(now=history.now, actor=DRI, reason="the cluster was rebuilt"))
    history.check(job(JobState.NOT_FOUND))
    assert history.events[-1].data.topic == "run.stopped.1"
    assert audit(history.events) == []


def test_what_was_refused_may_start_again_from_where_it_was_to_start() -> None:
    path = "gs://example-us-central2/grug/earlier/checkpoints/step-2900"
    facts = clear_for(2900, source=checkpoint(2900, path=path))
    history = History().draft(contract(initialize_from=path)).approve(facts).request(facts)
    report = ReportRefusedLaunch(now=history.now, actor=LOOP, instance="i1", reason="no")
    history.take_watch().tell(report)
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", answer="relaunch"))
    plan = history.tell(history.relaunch_command(facts)).the(LaunchRequested).plan
    assert (plan.instance, plan.resume_from, plan.resume_step) == ("i2", path, 2900)
    assert audit(history.events) == []


def test_an_end_that_the_orchestrator_did_not_call_is_a_breach() -> None:
    ended = InstanceEnded(instance="i1", job=job(JobState.UNKNOWN), step=None)
    assert "1: i1 ends on unknown at event 11" in audit(with_fact(ended))


@every_row("phase", PHASES)
def test_the_auditor_is_silent_about_every_story(phase: type[Phase]) -> None:
    assert audit(story(phase).events) == []
