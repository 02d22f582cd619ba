"""What people say and ask for: acknowledgements, notes, corrections, stops."""

from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.samples import (
    AGENT,
    DRI,
    KEPT,
    LOOP,
    SLUG,
    clear,
    contract,
    exited,
    fresh,
    killed,
    listing,
    node_lost,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.operator.commands import (
    Abandon,
    AddNote,
    AnswerQuestion,
    Correct,
    Stop,
)
from watchkeeper.domain.rules.permits.guarded import CONSENT_LIFE, proposal_digest
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.ends import Action, DecisionMade, RunAbandoned, RunStopped
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.operator import CorrectionRecorded, NoteAdded, StopRequested
from watchkeeper.domain.run.permits import ActProposed, ConsentGiven, ConsentUsed
from watchkeeper.domain.run.phases import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Launching,
    Phase,
    Running,
    Stabilizing,
    Stopped,
)
from watchkeeper.domain.run.questions import EscalationAcknowledged, EscalationRaised


def asked(promised: Any = None) -> History:
    """A run whose end was put to the DRI as q-1."""
    history = story(Running, promised)
    history.fail(exited(1), step=1100, found=KEPT)
    assert set(history.run.questions.open) == {"q-1"}
    return history


def ack(history: History, question: str = "q-1", **changes: Any) -> AnswerQuestion:
    fields: dict[str, Any] = {"now": history.now, "actor": DRI, "question": question, **changes}
    return AnswerQuestion(**fields)


# --- Questions -----------------------------------------------------------------------------------


def test_an_acknowledged_question_is_closed_and_its_name_is_not_used_again() -> None:
    history = asked()
    expected = EscalationAcknowledged(question="q-1", answer="noted", note="on it")
    history.tell(ack(history, note="on it")).then(expected)
    assert not history.run.questions.open
    history.tell(ack_relaunch(history, "q-1", refused=Refusal.QUESTION_NOT_OPEN))
    assert history.run.questions.raised == 1


def ack_relaunch(history: History, question: str, refused: Refusal) -> AddNote:
    """Asking about a closed question is refused; a note is still possible."""
    history.when(ack(history, question, answer="relaunch")).refused(refused)
    return AddNote(now=history.now, actor=DRI, text="still here")


@pytest.mark.parametrize("actor", [AGENT, LOOP])
@pytest.mark.parametrize("answer", ["noted", "relaunch"])
def test_only_a_human_acknowledges(actor: Any, answer: str) -> None:
    history = asked()
    history.when(ack(history, actor=actor, answer=answer)).refused(Refusal.NOT_A_HUMAN)


@pytest.mark.parametrize("question", ["q-2", "q-0", ""])
def test_only_an_open_question_is_acknowledged(question: str) -> None:
    history = asked()
    history.when(ack(history, question)).refused(Refusal.QUESTION_NOT_OPEN, question)


def test_questions_are_numbered_in_the_order_in_which_they_are_raised() -> None:
    history = asked()
    history.tell(ack(history, answer="relaunch"))
    history.relaunch()
    answer = history.fail(exited(1), step=1100, found=KEPT)
    assert answer.the(EscalationRaised).question == "q-2"


# --- A relaunch as an answer ---------------------------------------------------------------------


def test_a_human_may_answer_relaunch_where_the_rules_would_not() -> None:
    history = asked()
    answer = history.tell(ack(history, answer="relaunch", note="fixed by hand"))
    answer.then_kinds(EscalationAcknowledged, DecisionMade)
    decision = answer.the(DecisionMade)
    assert (decision.action, decision.rule, decision.resume_step) == (Action.RELAUNCH, "R19", 1000)
    assert "a human answered q-1" in decision.because
    assert "a human judged it recoverable" in decision.recoverable
    history.tell(history.relaunch_command()).the(LaunchRequested)


def test_a_relaunch_beyond_the_budget_is_the_human_s_to_choose() -> None:
    history = asked(contract(retries={"budget": 0}))
    history.tell(ack(history, answer="relaunch")).then_kinds(EscalationAcknowledged, DecisionMade)


def answered(history: History) -> Answer:
    return history.when(ack(history, answer="relaunch"))


def test_a_relaunch_cannot_be_the_answer_while_the_instance_lives() -> None:
    history = story(Interrupted).relaunch()
    history.check(lines=["Starting from scratch"])
    answered(history).refused(Refusal.ANSWER_NOT_POSSIBLE, "q-1")


def test_a_relaunch_under_the_same_identity_cannot_be_the_answer_to_a_policy_of_never() -> None:
    history = story(Running, contract(tracker={"resume": "never"}))
    history.fail(node_lost(), step=1100, found=KEPT)
    answered(history).refused(Refusal.ANSWER_NOT_POSSIBLE)
    history.tell(ack(history)).then_kinds(EscalationAcknowledged)


def test_a_relaunch_as_answer_still_needs_a_checkpoint() -> None:
    history = story(Running)
    history.fail(exited(1), step=1100, found=listing())
    answer = answered(history)
    answer.then_kinds(EscalationAcknowledged, DecisionMade, EscalationRaised)
    assert answer.the(DecisionMade).rule == "R10"
    assert answer.the(EscalationRaised).question == "q-2"


def test_a_relaunch_as_answer_does_not_wait_for_a_store_that_was_down_at_the_last_check() -> None:
    history = story(Running)
    newest = max(history.run.checkpoints.validated)
    history.fail(exited(1), step=1100, without=("checkpoints",))
    answer = history.tell(
        AnswerQuestion(now=history.now, actor=DRI, question="q-1", answer="relaunch")
    )
    assert answer.the(DecisionMade).resume_step == newest
    # The gate looks again before anything is launched: what is gone by then is asked about.
    gone = history.when(history.relaunch_command(clear(source_reading=fresh("checkpoints"))))
    gone.without(LaunchRequested)
    assert gone.the(DecisionMade).rule == "R10"


# --- Notes and corrections -----------------------------------------------------------------------


@pytest.mark.parametrize("actor", [DRI, AGENT, LOOP])
def test_anyone_adds_a_note(actor: Any) -> None:
    history = story(Running)
    note = AddNote(now=history.now, actor=actor, text="  moved to another rack  ")
    history.when(note).then(NoteAdded(text="moved to another rack"))


def test_a_correction_names_the_entry_that_it_corrects() -> None:
    history = story(Running)
    correction = Correct(now=history.now, actor=DRI, corrects=3, text="it was step 900")
    history.when(correction).then(CorrectionRecorded(corrects=3, text="it was step 900"))


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_says_nothing(text: str) -> None:
    history = story(Running)
    history.when(AddNote(now=history.now, actor=DRI, text=text)).refused(Refusal.TEXT_EMPTY)
    correction = Correct(now=history.now, actor=DRI, corrects=1, text=text)
    history.when(correction).refused(Refusal.TEXT_EMPTY)


@pytest.mark.parametrize(("beyond", "taken"), [(0, True), (1, False)])
def test_a_correction_is_of_an_event_that_exists(beyond: int, taken: bool) -> None:
    history = story(Running)
    corrects = history.run.version + beyond
    answer = history.when(Correct(now=history.now, actor=DRI, corrects=corrects, text="no"))
    if taken:
        answer.then_kinds(CorrectionRecorded)
    else:
        answer.refused(Refusal.EVENT_UNKNOWN, f"event {corrects}")


def test_a_note_changes_nothing_but_the_version() -> None:
    history = story(Running)
    before = history.run
    history.tell(AddNote(now=history.now, actor=DRI, text="hello"))
    assert history.run.phase is before.phase
    assert history.run.version == before.version + 1


# --- Stop and abandon ----------------------------------------------------------------------------


def stop(history: History, actor: Any = DRI) -> Stop:
    return Stop(now=history.now, actor=actor, reason="the loss diverges")


@pytest.mark.parametrize("phase", [Launching, Stabilizing, Running])
def test_a_stop_of_a_live_instance_is_a_consent_used_once(phase: type[Phase]) -> None:
    history = story(phase)
    digest = proposal_digest(SLUG, "stop", "i1", "the loss diverges")
    proposed = ActProposed(
        proposal="p-1",
        action="stop",
        target="i1",
        reason="the loss diverges",
        digest=digest,
        direct=True,
    )
    consent = ConsentGiven(
        consent="c-1",
        action="stop",
        target="i1",
        expires_at=history.now + CONSENT_LIFE,
        note="the loss diverges",
        proposal="p-1",
        digest=digest,
        direct=True,
    )
    used = ConsentUsed(consent="c-1", action="stop", target="i1", digest=digest)
    requested = StopRequested(instance="i1", reason="the loss diverges", consent="c-1")
    history.tell(stop(history)).then(proposed, consent, used, requested)
    assert [c.used for c in history.run.permits.consents] == [True]
    assert history.run.operator.stop_requested == "i1"
    assert isinstance(history.run.phase, phase)


def test_a_stop_is_looked_for_at_once_and_then_every_few_seconds() -> None:
    history = story(Running)
    history.tell(stop(history))
    assert history.run.watch.next_due == history.now
    history.check(step=1100)
    assert history.run.watch.next_due is not None
    assert (history.run.watch.next_due - history.now).total_seconds() == 5


def test_a_stop_is_asked_for_once() -> None:
    history = story(Running)
    history.tell(stop(history))
    history.when(stop(history)).refused(Refusal.STOP_ASKED, "i1")


def test_a_stop_names_the_newest_instance() -> None:
    history = story(Interrupted).relaunch()
    assert history.tell(stop(history)).the(StopRequested).instance == "i2"


@pytest.mark.parametrize("phase", [Draft, Cleared, Interrupted])
def test_a_stop_with_nothing_alive_ends_the_run(phase: type[Phase]) -> None:
    history = story(phase)
    history.tell(stop(history)).then(RunStopped(reason="the loss diverges"))
    assert isinstance(history.run.phase, Stopped)


@pytest.mark.parametrize("phase", [Draft, Interrupted])
@pytest.mark.parametrize("actor", [AGENT, LOOP])
def test_only_a_human_stops_a_run_of_which_nothing_lives(phase: type[Phase], actor: Any) -> None:
    history = story(phase)
    history.when(stop(history, actor)).refused(Refusal.NOT_A_HUMAN, actor.principal)


@pytest.mark.parametrize("phase", [Launching, Running])
@pytest.mark.parametrize("actor", [AGENT, LOOP])
def test_whoever_is_no_human_can_only_propose_the_stop_of_a_live_instance(
    phase: type[Phase], actor: Any
) -> None:
    history = story(phase)
    history.attempt(stop(history, actor)).refused(Refusal.CONSENT_NEEDED, "p-1")
    assert not history.run.operator.stop_requested
    assert [(p.action, p.target, p.by) for p in history.run.permits.proposals] == [
        ("stop", "i1", actor.principal)
    ]


@pytest.mark.parametrize("phase", [Draft, Cleared, Interrupted, Finished])
def test_a_run_without_a_live_instance_may_be_abandoned(phase: type[Phase]) -> None:
    history = story(phase)
    abandon = Abandon(now=history.now, actor=DRI, reason="superseded")
    history.tell(abandon).then(RunAbandoned(reason="superseded"))
    assert isinstance(history.run.phase, Abandoned)


@pytest.mark.parametrize("actor", [AGENT, LOOP])
def test_only_a_human_abandons(actor: Any) -> None:
    history = story(Interrupted)
    abandon = Abandon(now=history.now, actor=actor, reason="bored")
    history.when(abandon).refused(Refusal.NOT_A_HUMAN, actor.principal)


@pytest.mark.parametrize("phase", [Stopped, Abandoned])
def test_what_a_human_ended_is_never_relaunched(phase: type[Phase]) -> None:
    history = story(phase)
    command = story(Interrupted).relaunch_command()
    history.when(command).refused(Refusal.RUN_OVER)
    history.when(history.check_command(killed())).refused(Refusal.RUN_OVER)
