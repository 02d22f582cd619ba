"""What resumed is not called healthy or recovered before its resume is proven."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import DRI, KEPT, job, succeeded, tracker
from tests.domain.stories import story
from watchkeeper.domain.rules.health.resume import health_by_proof
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.rules.watch.handover import packet_of
from watchkeeper.domain.run.ends import ResumeProven
from watchkeeper.domain.run.open_questions import instance_fate
from watchkeeper.domain.run.phases import Interrupted, Running
from watchkeeper.domain.run.queries import health_now, health_words
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.observation.measured import Measured, Overlap
from watchkeeper.projections.status.writer import status_row

MINUTES = timedelta(minutes=1)
KEEP: dict[str, Any] = {"found": KEPT}

DUE = "running; recovering: resumed from step 1000, not proven yet"
DIFFERS = "running; not recovered: its losses differ from those before the resume at step 1000"
NOT_COMPARED = (
    "running; recovered without a comparison: past all that is kept from before the resume at step"
    " 1000, and too few losses to compare"
)


def resumed() -> History:
    """The second instance, which resumed from step 1000; the first one had come to 1100."""
    return story(Interrupted).relaunch().later(5 * MINUTES)


def losses(**changes: Any) -> Overlap:
    compared: dict[str, Any] = {"steps": 40, "first_step": 1001, "last_step": 1040}
    compared |= {"worst_step": 1010, "max_abs": 0.0004, "max_rel": 0.0002}
    return Overlap(**compared | changes)


def test_it_is_unknown_until_training_is_past_all_that_was_trained_before() -> None:
    history = resumed()
    told: list[tuple[str, str, str]] = []
    for step in (1000, 1040, 1100, 1101, 1200):
        check = history.check(step=step, **KEEP).the(CheckRecorded)
        history.later(5 * MINUTES)
        # The newest event of the append is the proof, if any; both say the same by then.
        told.append((check.because, check.health.value, health_now(history.run).value))
    assert told == [
        *[(DUE, "unknown", "unknown")] * 3,
        *[(NOT_COMPARED, "healthy", "healthy")] * 2,
    ]


@pytest.mark.parametrize(
    ("found", "health", "because"),
    [
        pytest.param(None, Health.UNKNOWN, DUE, id="no step was logged twice"),
        pytest.param(losses(steps=1), Health.UNKNOWN, DUE, id="too few were"),
        pytest.param(losses(), Health.HEALTHY, "running", id="the same"),
        pytest.param(
            losses(beyond=40, max_abs=0.5, max_rel=0.2), Health.DEGRADED, DIFFERS, id="it differs"
        ),
    ],
)
def test_a_check_that_proves_the_resume_says_so_itself(
    found: Overlap | None, health: Health, because: str
) -> None:
    history = resumed()
    check = history.check(step=1040, **KEEP).the(CheckRecorded)
    compared = check.model_copy(update={"measured": Measured(resume=found)})
    said = health_by_proof(history.run, compared, job(), Health.HEALTHY, "running")
    assert said == (health, because)


@pytest.mark.parametrize(
    ("by_all_else", "state"),
    [
        (Health.DEGRADED, JobState.RUNNING),
        (Health.UNKNOWN, JobState.RUNNING),
        (Health.UNKNOWN, JobState.PENDING),
        (Health.UNHEALTHY, JobState.FAILED),
    ],
)
def test_what_is_not_training_well_is_what_it_is(by_all_else: Health, state: JobState) -> None:
    history = resumed()
    check = history.check(step=1040, **KEEP).the(CheckRecorded)
    said = health_by_proof(history.run, check, job(state), by_all_else, "why")
    assert said == (by_all_else, "why")


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (1050, "its resume from step 1000 was never proven"),
        (1990, NOT_COMPARED.removeprefix("running; ")),
    ],
)
def test_a_success_says_what_was_not_proven(step: int, told: str) -> None:
    history = resumed()
    history.check(step=1040, **KEEP)
    check = history.later(MINUTES).check(succeeded(), step=step, **KEEP).the(CheckRecorded)
    assert (check.health, check.because) == (Health.HEALTHY, f"ended successfully; {told}")


def differing() -> tuple[History, str]:
    """Its losses differ, and a question asks about that."""
    history = resumed()
    history.check(step=1040, **KEEP)
    asked = EscalationRaised(question="q-1", rule="H9", to="dri", asks="Take it?", evidence=())
    proven = ResumeProven(
        instance="i2",
        from_step=1000,
        overlap_steps=40,
        max_abs=0.5,
        max_rel=0.2,
        verdict="differs",
        because="they differ",
        evidence=("0.5",),
    )
    history.record(proven, asked)
    return history, asked.question


def test_what_differs_is_degraded_until_a_human_takes_it() -> None:
    history, question = differing()
    check = history.later(5 * MINUTES).check(step=1300, **KEEP).the(CheckRecorded)
    assert (check.health, check.because) == (Health.DEGRADED, DIFFERS)
    assert health_words(check) == "degraded, not recovered"
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=question, note="as planned"))
    check = history.later(5 * MINUTES).check(step=1400, **KEEP).the(CheckRecorded)
    assert (check.health, check.because) == (Health.HEALTHY, "running")


def as_before(history: History) -> None:
    """Record the newest check again, in the words of before a proof was asked for."""
    check = history.run.watch.last_check
    assert check is not None
    told = {"health": Health.HEALTHY, "because": "running"}
    history.record(check.event.model_copy(update=told))


def test_a_healthy_check_of_an_older_record_does_not_make_it_recovered() -> None:
    history = resumed()
    history.check(step=1040, **KEEP)
    as_before(history)
    assert health_now(history.run) is Health.UNKNOWN
    assert status_row(history.run)["health"] == packet_of(history.run).health == "unknown"
    history, _ = differing()
    as_before(history)
    assert health_now(history.run) is Health.DEGRADED


def test_what_trains_is_said_to_train_while_it_is_recovering() -> None:
    history = story(Interrupted)
    asked = EscalationRaised(question="q-1", rule="R3", to="dri", asks="i1: what now?", evidence=())
    history.record(asked)
    history.relaunch().later(5 * MINUTES).check(step=1040, **KEEP)
    assert instance_fate(history.run, history.run.questions.open["q-1"]) == "i1 ended; i2 trains"


def test_a_first_instance_has_nothing_to_prove() -> None:
    first = story(Running)
    check = first.later(5 * MINUTES).check(step=1100, **KEEP).the(CheckRecorded)
    assert (check.health, check.because) == (Health.HEALTHY, "running")


def test_an_outage_beside_an_open_finding_degrades_what_is_recovering_too() -> None:
    history = resumed()
    history.check(step=1040, **KEEP)
    lost = tracker(1041, metrics={"loss": float("nan")}, heartbeat_at=history.now + 5 * MINUTES)
    answer = history.later(5 * MINUTES).check(shown=lost, without=("orchestrator",), **KEEP)
    check = answer.the(CheckRecorded)
    assert history.run.health.findings
    assert check.health is Health.DEGRADED
