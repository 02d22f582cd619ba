"""A checkpoint that was refused only since nobody could read its metadata, once somebody can."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.given import History, decided
from tests.domain.samples import DRI, START, checkpoint, contract, job, killed, listing, node_lost
from watchkeeper.domain.rules.operator.commands import AnswerQuestion, RequestRelaunch
from watchkeeper.domain.rules.watch.handover import packet_of
from watchkeeper.domain.run.checkpoints import CheckpointRejected, CheckpointValidated
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.launch import LaunchRequested
from watchkeeper.domain.run.open_questions import instance_fate, is_answered
from watchkeeper.domain.run.operator import LineageRejected
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.policy import Act, due_acts
from watchkeeper.domain.values.basic import JobFacts, JobState
from watchkeeper.domain.values.contract.contract import Contract, cadence_of
from watchkeeper.projections.status.writer import status_row

UNREAD = "nothing says which step its metadata names (metadata_step)"


def refused_for(reason: str, **facts: Any) -> tuple[History, str]:
    """A run that has step 900, and 1000 that was refused since nobody could read its metadata.

    Args:
        reason: Of a further rejection, as a person's is; none where it is empty.
        facts: Of step 1000, as it was seen then.
    """
    found = checkpoint(1000, **{"metadata_step": None, **facts})
    history = History().launch().train(1000, found=listing(900, found))
    assert history.run.checkpoints.rejected == {found.path: UNREAD}
    if reason:
        history.record(CheckpointRejected(step=1000, path=found.path, reason=reason))
    return history, found.path


@pytest.mark.parametrize(
    "written",
    [START, START + timedelta(minutes=2), START - timedelta(minutes=2), None],
    ids=["the same time", "a later one", "an earlier one", "none"],
)
@pytest.mark.parametrize("before", [START, None], ids=["with a time", "without"])
def test_what_was_refused_for_metadata_that_nobody_could_read_is_taken_back_once_it_is_read(
    written: datetime | None, before: datetime | None
) -> None:
    history, path = refused_for("", written_at=before)
    read = listing(900, checkpoint(1000, written_at=written))
    first = history.check(step=1005, found=read)
    assert [(one.step, one.path) for one in first.all(CheckpointValidated)] == [(1000, path)]
    assert (dict(history.run.checkpoints.rejected), dict(history.run.checkpoints.unverified)) == (
        {},
        {},
    )
    history.check(step=1010, found=read).without(CheckpointValidated)
    assert history.fail(node_lost(), step=1020, found=read).the(DecisionMade).resume_step == 1000
    history.tell(history.relaunch_command()).the(LaunchRequested)
    assert audit(history.events) == []


def test_it_is_taken_back_though_it_was_recorded_in_older_words() -> None:
    history, path = refused_for("its metadata says step None")
    history.check(step=1005, found=listing(900, 1000)).the(CheckpointValidated)
    assert path not in history.run.checkpoints.rejected


def test_after_the_question_it_is_taken_back_and_a_person_may_go_on_from_it() -> None:
    unread = listing(checkpoint(1000, metadata_step=None))
    history = History().launch().train(1000, found=unread)
    assert decided(history.fail(node_lost(), step=1020, found=unread)) == (Action.ESCALATE, "R10")
    history.check(said=None, found=listing(1000)).the(CheckpointValidated)
    assert set(history.run.checkpoints.validated) == {1000}


@pytest.mark.parametrize(
    "reason", ["its shards are short", "its metadata says step 990", "rolled back to step-900"]
)
def test_what_was_refused_for_another_reason_too_stays_refused(reason: str) -> None:
    history, path = refused_for(reason)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900
    assert history.run.checkpoints.rejected == {path: reason}


def test_what_names_another_step_once_it_is_read_is_refused_for_that_and_stays_so() -> None:
    history, path = refused_for("")
    wrong = listing(900, checkpoint(1000, metadata_step=990))
    rejected = history.check(step=1005, found=wrong).the(CheckpointRejected)
    assert (rejected.step, rejected.reason) == (1000, "its metadata says step 990")
    history.check(step=1010, found=wrong).without(CheckpointRejected)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900
    assert path in history.run.checkpoints.rejected


@pytest.mark.parametrize("written", [START - timedelta(days=3), None], ids=["a time", "none"])
def test_what_is_older_than_the_run_stays_refused_whatever_its_metadata_names(
    written: datetime | None,
) -> None:
    history, path = refused_for("", written_at=START - timedelta(days=3))
    found = listing(900, checkpoint(1000, written_at=written))
    assert history.fail(killed(), step=1100, found=found).the(DecisionMade).resume_step == 900
    assert path in history.run.checkpoints.rejected


def test_what_lies_above_a_rejected_lineage_stays_refused_whatever_its_metadata_names() -> None:
    history, _ = refused_for("")
    history.record(LineageRejected(through="i1", above_step=900, reason="rolled back to step-900"))
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900


def test_what_its_predecessor_wrote_is_no_progress_of_a_restart_once_it_is_read() -> None:
    history, _ = refused_for("", written_at=None)
    unread = listing(900, checkpoint(1000, metadata_step=None, written_at=None))
    history.fail(node_lost(), step=1020, found=unread)
    assert history.decision is not None
    assert history.decision.resume_step == 900
    history.relaunch().check(step=910, found=listing(900, checkpoint(1000, written_at=None)))
    assert set(history.run.checkpoints.validated) == {900, 1000}
    assert history.run.ends.restarts[-1].gained is None
    # It came when it was first seen: H5 waits from there.
    came = history.run.checkpoints.validated[1000].came_at
    assert came is not None
    assert history.run.instances[-1].launched_at is not None
    assert came < history.run.instances[-1].launched_at


# --- A question that was asked before it was read -------------------------------------------------

UNREADABLE = listing(checkpoint(1000, metadata_step=None))
READ = listing(1000)
GONE_ON = (Action.RELAUNCH, "R1")


def asked(promised: Contract | None = None) -> History:
    """R10 asked, since nobody could read the metadata of the only checkpoint."""
    history = History().launch(promised).train(1000, found=UNREADABLE)
    assert decided(history.fail(node_lost(), step=1020, found=UNREADABLE)) == ASKED
    assert looks(history)
    return history


ASKED = (Action.ESCALATE, "R10")


def looks(history: History) -> bool:
    """Say whether the watch continues to look at the run."""
    due = history.run.watch.next_due
    assert due is not None
    looked = Act.CHECK in due_acts(history.run, Effects(), due)
    assert (packet_of(history.run).next_due is not None) is looked
    made = history.decision
    relaunches = made is not None and made.action is Action.RELAUNCH
    assert (status_row(history.run)["due"] is not None) is (looked or relaunches)
    return looked


Step = Callable[[History], object]


def sees(said: JobFacts | None = None, **facts: Any) -> Step:
    """The watch looks at the instance that was lost."""
    return lambda history: history.fail(said or node_lost(), step=1020, **facts)


def taken(history: History) -> None:
    """A human takes the question, and does not say what to do."""
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question="q-1", note="I look at it"))


def rejected(history: History) -> None:
    """A human rejects the checkpoint for a reason of its own."""
    path = checkpoint(1000).path
    history.record(CheckpointRejected(step=1000, path=path, reason="its shards are short"))


@pytest.mark.parametrize(
    ("steps", "then", "looked"),
    [
        pytest.param([sees(found=READ)], GONE_ON, False, id="it is read"),
        pytest.param([sees(found=UNREADABLE)], ASKED, True, id="not read yet"),
        pytest.param(
            [sees(found=UNREADABLE)] * 3 + [sees(found=READ)], GONE_ON, False, id="read late"
        ),
        pytest.param(
            [sees(found=listing(checkpoint(1000, metadata_step=990)))],
            ASKED,
            False,
            id="it names another step",
        ),
        pytest.param([sees(without=("checkpoints",))], ASKED, True, id="the store is silent"),
        pytest.param(
            [sees(found=READ, without=("orchestrator",))],
            ASKED,
            True,
            id="read, and the orchestrator is silent",
        ),
        pytest.param(
            [sees(found=READ, without=("orchestrator",)), sees(found=READ)],
            GONE_ON,
            False,
            id="the orchestrator repeats the end after it was read",
        ),
        pytest.param(
            [sees(job(), found=READ)], ASKED, True, id="the orchestrator calls it running"
        ),
        pytest.param(
            [sees(job(JobState.NOT_FOUND), found=READ)], ASKED, True, id="or does not find it"
        ),
        pytest.param([sees(found=READ), sees(found=READ)], GONE_ON, False, id="decided once"),
        pytest.param([taken, sees(found=READ)], ASKED, False, id="a human took the question"),
        pytest.param([rejected, sees(found=READ)], ASKED, False, id="a human rejected it"),
        pytest.param(
            [sees(found=listing(checkpoint(1000, written_at=START + timedelta(hours=1))))],
            GONE_ON,
            False,
            id="its metadata was written late",
        ),
    ],
)
def test_a_question_is_decided_again_once_the_metadata_is_read(
    steps: list[Step], then: tuple[Action, str], looked: bool
) -> None:
    history = asked()
    for step in steps:
        step(history)
    made = [event.data for event in history.events if isinstance(event.data, DecisionMade)]
    assert (made[-1].action, made[-1].rule) == then
    assert len(made) == (2 if then == GONE_ON else 1)
    assert looks(history) is looked
    if then == GONE_ON:
        assert made[-1].resume_step == 1000
        read = "decided again: step-1000 was validated since event"
        assert any(line.startswith(read) for line in made[-1].evidence)
        assert [instance_fate(history.run, q) for q in history.run.questions.open.values()] == [
            "i1 is to be relaunched"
        ]
        history.relaunch()
        assert [is_answered(history.run, q) for q in history.run.questions.open.values()] == [True]
    assert audit(history.events) == []


def test_it_is_decided_again_by_all_rules() -> None:
    history = asked(contract(policy={"approvals": "each"}))
    answer = history.fail(node_lost(), step=1020, found=READ)
    assert decided(answer) == (Action.ESCALATE, "R19")
    assert not looks(history)


def test_what_a_human_asked_for_goes_on_once_it_is_read() -> None:
    history = asked()
    history.tell(RequestRelaunch(now=history.now, actor=DRI, reason="go on"))
    assert history.decision is not None
    assert (history.decision.action, history.decision.rule) == ASKED
    history.fail(node_lost(), step=1020, found=READ)
    assert (history.decision.action, history.decision.rule) == (Action.RELAUNCH, "R18")
    assert history.decision.resume_step == 1000


def test_after_the_question_it_is_looked_at_as_often_as_a_live_run() -> None:
    history = asked()
    history.fail(node_lost(), step=1020, found=UNREADABLE)
    assert history.run.watch.next_due == history.now + cadence_of(history.promised)
