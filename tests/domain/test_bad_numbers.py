"""After a NaN no rule and no command resumes from a checkpoint that holds it."""

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.domain.given import History, decided
from tests.domain.samples import DRI, bar, checkpoint, killed, listing, sealable, succeeded, tracker
from tests.domain.test_manoeuvres import approval, relaunch, rollback
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.seal.commands import VerifySeal
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.bad_numbers import bad_from, last_good
from watchkeeper.domain.run.ends import Action, DecisionMade, ResumeProven
from watchkeeper.domain.run.operator import RollbackPlanned
from watchkeeper.domain.run.queries import health_now
from watchkeeper.domain.run.seal import SealVerified
from watchkeeper.domain.values.basic import CheckpointListing, TrackerFacts

MINUTES = timedelta(minutes=10)


def shown(history: History, step: int) -> TrackerFacts:
    return tracker(step, heartbeat_at=history.now + MINUTES, metrics={"loss": math.nan})


def nan(history: History, step: int, found: CheckpointListing) -> None:
    fact = shown(history, step)
    history.later(MINUTES).check(shown=fact, found=found)


def lost_its_numbers() -> History:
    """A run that shows NaN from step 610 on, writes on to step-900, and is killed."""
    history = History().launch()
    history.train(500, wait=MINUTES, found=listing(500))
    history.train(600, wait=MINUTES, found=listing(500, 600))
    nan(history, 610, listing(500, 600))
    for step in (700, 800, 900):
        found = listing(*range(500, step + 1, 100))
        nan(history, step + 5, found)
    return history


def ended() -> History:
    history = lost_its_numbers()
    history.fail(killed(9), shown=shown(history, 910), found=listing(500, 600, 700, 800, 900))
    return history


def test_checkpoints_after_the_first_bad_step_are_marked() -> None:
    run = lost_its_numbers().run
    marked = {step: bad_from(run, one) for step, one in run.checkpoints.validated.items()}
    assert marked == {500: None, 600: None, 700: 610, 800: 610, 900: 610}
    good = last_good(run)
    assert good is not None
    assert good.step == 600


def test_a_relaunch_by_a_human_resumes_from_the_last_good_one() -> None:
    history = ended()
    decision = history.when(relaunch(history)).the(DecisionMade)
    assert (decision.action, decision.resume_step) == (Action.RELAUNCH, 600)
    assert "step-900 refused: NaN since step 610" in decision.refused


def test_an_answer_to_relaunch_resumes_from_the_last_good_one() -> None:
    history = ended()
    assert history.run.questions.open
    asked = next(one for one in history.run.questions.open.values() if "--to step-600" in one.asks)
    answer = AnswerQuestion(
        now=history.now, actor=DRI, question=asked.name, answer="relaunch", note="go"
    )
    assert history.when(answer).the(DecisionMade).resume_step == 600


def test_a_rollback_to_a_bad_one_is_refused_and_names_the_last_good_one() -> None:
    history = lost_its_numbers()
    history.when(rollback(history, 700)).refused(Refusal.CHECKPOINT_BAD, "step-600")
    history.when(rollback(history, 600)).the(RollbackPlanned)
    planned = history.when(rollback(history, 700, accept_bad=True)).the(RollbackPlanned)
    assert "step-700 holds NaN since step 610, the last good one is step-600" in planned.reason


def test_what_the_next_instance_writes_is_good_again() -> None:
    history = rolled_back()
    history.train(650, wait=MINUTES, found=listing(500, 600))
    written = checkpoint(700, written_at=history.now + MINUTES)
    history.train(705, wait=MINUTES, found=listing(500, 600, written))
    assert bad_from(history.run, history.run.checkpoints.validated[700]) is None
    answer = history.fail(killed(9), step=710, found=listing(500, 600, written))
    assert decided(answer) == (Action.RELAUNCH, "R1")
    assert answer.the(DecisionMade).resume_step == 700


def rolled_back() -> History:
    """The same run, which a human took back to step-600; the second instance is launched."""
    history = lost_its_numbers()
    history.tell(rollback(history, 600))
    history.tell(approval(history))
    history.fail(killed(15), shown=shown(history, 915), found=listing(500, 600))
    return history.relaunch()


def test_after_a_rollback_it_is_healthy_once_resumed_steps_move() -> None:
    history = rolled_back()
    told: list[tuple[int, str]] = []
    for step in (600, 700, 800):
        history.train(step, wait=MINUTES, found=listing(500, 600))
        told.append((step, health_now(history.run).value))
    assert told == [(600, "unknown"), (700, "healthy"), (800, "healthy")]
    proven = next(one.data for one in history.events if isinstance(one.data, ResumeProven))
    assert proven.because.endswith("training is past the step 600 of the rollback")
    # An end after it counts from where the new lineage came to, not from the old one.
    history.fail(killed(9), step=800, found=listing(500, 600))
    history.relaunch()
    assert history.run.ends.judgement.high_water == 800


def test_a_tracker_that_still_shows_the_old_end_opens_nothing_after_a_rollback() -> None:
    history = rolled_back()
    for step in (650, 700, 750):
        fact = shown(history, 915)
        history.later(MINUTES).check(
            lines=[bar(f"{step}/5.16kit")], shown=fact, found=listing(500, 600)
        )
        assert history.run.health.findings == {}
        assert health_now(history.run).value == "healthy"


def test_the_range_that_a_rollback_left_behind_is_a_caveat_of_the_seal() -> None:
    history = rolled_back()
    history.train(700, wait=MINUTES, found=listing(500, 600))
    history.fail(succeeded(), step=5154, found=listing(checkpoint(5155, written_at=history.now)))
    facts = sealable(history.now, instance="i2")
    written = listing(checkpoint(5155, written_at=history.now))
    observed = facts.observation.model_copy(update={"checkpoints": written})
    whole = facts.model_copy(update={"observation": observed})
    sealing = VerifySeal(now=history.now, actor=DRI, facts=whole)
    assert history.when(sealing).the(SealVerified).caveats == (
        "1 interruption, all recorded here",
        "i1 logged NaN or infinite numbers from step 610 to 915, left behind by a rollback to "
        "step-600",
    )


@pytest.mark.parametrize("finite", [2, 3])
def test_a_nan_that_passed_marks_nothing(finite: int) -> None:
    history = lost_its_numbers()
    check = history.run.watch.last_check
    assert check is not None
    for step in range(950, 950 + finite):
        history.train(step, wait=MINUTES, found=listing(500, 600, 700, 800, 900))
    marked = bad_from(history.run, replace(history.run.checkpoints.validated[900]))
    assert (marked is None) == (finite == 3)
