"""A checkpoint that was refused only since nobody could read its metadata, once somebody can."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.domain.auditor import audit
from tests.domain.given import History, decided
from tests.domain.samples import START, checkpoint, killed, listing, node_lost
from watchkeeper.domain.events import (
    Action,
    CheckpointRejected,
    CheckpointValidated,
    DecisionMade,
    LaunchRequested,
)
from watchkeeper.domain.facts.manoeuvres import LineageRejected

UNREAD = "nothing says which step its metadata names (metadata_step)"


def refused_for(reason: str, **facts: Any) -> tuple[History, str]:
    """A run that has step 900, and 1000 that was refused since nobody could read its metadata.

    Args:
        reason: Of a further rejection, as a person's is; none where it is empty.
        facts: Of step 1000, as it was seen then.
    """
    found = checkpoint(1000, **{"metadata_step": None, **facts})
    history = History().launch().train(1000, found=listing(900, found))
    assert history.run.rejected == {found.path: UNREAD}
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
    assert (dict(history.run.rejected), dict(history.run.unnamed)) == ({}, {})
    history.check(step=1010, found=read).without(CheckpointValidated)
    assert history.fail(node_lost(), step=1020, found=read).the(DecisionMade).resume_step == 1000
    history.tell(history.relaunch_command()).the(LaunchRequested)
    assert audit(history.events) == []


def test_it_is_taken_back_though_it_was_recorded_in_older_words() -> None:
    history, path = refused_for("its metadata says step None")
    history.check(step=1005, found=listing(900, 1000)).the(CheckpointValidated)
    assert path not in history.run.rejected


def test_after_the_question_it_is_taken_back_and_a_person_may_go_on_from_it() -> None:
    unread = listing(checkpoint(1000, metadata_step=None))
    history = History().launch().train(1000, found=unread)
    assert decided(history.fail(node_lost(), step=1020, found=unread)) == (Action.ESCALATE, "R10")
    history.check(said=None, found=listing(1000)).the(CheckpointValidated)
    assert set(history.run.checkpoints) == {1000}


@pytest.mark.parametrize(
    "reason", ["its shards are short", "its metadata says step 990", "rolled back to step-900"]
)
def test_what_was_refused_for_another_reason_too_stays_refused(reason: str) -> None:
    history, path = refused_for(reason)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900
    assert history.run.rejected == {path: reason}


def test_what_names_another_step_once_it_is_read_is_refused_for_that_and_stays_so() -> None:
    history, path = refused_for("")
    wrong = listing(900, checkpoint(1000, metadata_step=990))
    rejected = history.check(step=1005, found=wrong).the(CheckpointRejected)
    assert (rejected.step, rejected.reason) == (1000, "its metadata says step 990")
    history.check(step=1010, found=wrong).without(CheckpointRejected)
    answer = history.fail(killed(), step=1100, found=listing(900, 1000))
    assert answer.the(DecisionMade).resume_step == 900
    assert path in history.run.rejected


@pytest.mark.parametrize("written", [START - timedelta(days=3), None], ids=["a time", "none"])
def test_what_is_older_than_the_run_stays_refused_whatever_its_metadata_names(
    written: datetime | None,
) -> None:
    history, path = refused_for("", written_at=START - timedelta(days=3))
    found = listing(900, checkpoint(1000, written_at=written))
    assert history.fail(killed(), step=1100, found=found).the(DecisionMade).resume_step == 900
    assert path in history.run.rejected


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
    assert set(history.run.checkpoints) == {900, 1000}
    assert history.run.restarts[-1].gained is None
    # It came when it was first seen: H5 waits from there.
    came = history.run.checkpoints[1000].came_at
    assert came is not None
    assert history.run.instances[-1].launched_at is not None
    assert came < history.run.instances[-1].launched_at
