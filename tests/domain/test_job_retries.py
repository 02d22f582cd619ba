"""Failures that the orchestrator retries inside one job: R2, R3, R13, the clocks of H3 and H5."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.looking import MINUTE, look, opened, steps
from tests.domain.samples import DRI, KEPT, checkpoint, contract, job, listing, node_lost
from watchkeeper.adapters.ray.attempts import actors_of
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.ends import Action, DecisionMade
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState

CADENCE = 10 * MINUTE
SEGV: dict[str, Any] = {"signal": 11, "message": "Fatal Python error: Segmentation fault"}
WATCHDOG: dict[str, Any] = {"state": AttemptState.KILLED, "signal": 9, "message": "watchdog"}
MEMORY: dict[str, Any] = {"exit_code": 137, "oom": True, "message": "OOMKilled"}
PREEMPTED: dict[str, Any] = {"state": AttemptState.PREEMPTED}


def trained(**changes: Any) -> History:
    """A run at step 1000, with checkpoints of 900 and 1000."""
    return History().launch(contract(**changes)).train(1000, found=KEPT)


def tried(history: History, number: int, **facts: Any) -> AttemptFacts:
    """A try of the gang's task that failed just before the present check."""
    fields: dict[str, Any] = {"state": AttemptState.FAILED, "node": f"w-{number}", **facts}
    return AttemptFacts(task="/run/0", attempt=number, ended_at=history.now - MINUTE, **fields)


def see(history: History, tries: list[AttemptFacts], step: int, **facts: Any) -> Answer:
    """A check of the job, which runs, with the tries so far and the one that runs now."""
    alive = AttemptFacts(task="/run/0", attempt=len(tries), state=AttemptState.RUNNING)
    fields = {"found": KEPT, "lines": steps(step), "wait": timedelta(0), **facts}
    return look(history, attempts=(*tries, alive), further=("attempts",), step=step, **fields)


def fails(history: History, tries: list[AttemptFacts], step: int = 1000, **told: Any) -> Answer:
    """Time passes, and a further try has failed."""
    facts = {key: told.pop(key) for key in ("found", "wait") if key in told}
    history.later(facts.pop("wait", 30 * MINUTE))
    tries.append(tried(history, len(tries), **told))
    return see(history, tries, step, **facts)


def asked(answer: Answer) -> list[str]:
    """Name the rules of R by which people are asked."""
    return [one.rule for one in answer.all(EscalationRaised) if one.rule.startswith("R")]


@pytest.mark.parametrize("every", ["3h", "200 steps"])
def test_six_segfaults_two_hours_apart_inside_one_job_are_asked_about(every: str) -> None:
    history = trained(checkpoints={"temporary_every": every})
    tries, checks = list[AttemptFacts](), list[Answer]()
    for minutes in range(10, 12 * 60 + 1, 10):
        history.later(CADENCE)
        if minutes % 120 == 0:
            tries.append(tried(history, len(tries), **SEGV))
        # Each try goes on from step-1000 and trains for two hours, and saves nothing.
        checks.append(see(history, tries, 1000 + minutes % 120))
    rules = [rule for one in checks for rule in asked(one)]
    assert rules == ["R2"]
    assert asked(checks[23]) == ["R2"], "the second one, four hours in"
    assert "without a newer complete checkpoint" in checks[23].the(DecisionMade).because
    assert "checkpoint_stalled" in history.run.health.findings
    assert history.run.health.verdict is not Health.HEALTHY


@pytest.mark.parametrize("told", [WATCHDOG, MEMORY])
def test_twelve_kills_without_one_step_are_asked_about_and_are_not_training(
    told: dict[str, Any],
) -> None:
    history, tries = trained(), list[AttemptFacts]()
    checks: list[Answer] = []
    for number in range(12):
        for _ in range((20, 30, 40)[number % 3] // 10 - 1):
            history.later(CADENCE)
            checks.append(see(history, tries, 1000))
        checks.append(fails(history, tries, wait=CADENCE, **told))
    rules = [rule for one in checks for rule in asked(one)]
    assert rules == ["R2"]
    by = next(place for place, one in enumerate(checks) if asked(one))
    assert by <= 5, "within the first hour"
    stands = next(place for place, one in enumerate(checks) if "not_training" in opened(one))
    assert stands <= 10, "within two hours"
    assert "not_training" in history.run.health.findings


def test_twenty_preemptions_with_progress_between_them_ask_nobody() -> None:
    history, tries, kept = trained(), list[AttemptFacts](), [checkpoint(900), checkpoint(1000)]
    for number in range(20):
        step = 1100 + 100 * number
        kept.append(checkpoint(step, written_at=history.now + 20 * MINUTE))
        answer = fails(history, tries, step, found=listing(*kept), **PREEMPTED)
        assert answer.all(EscalationRaised) == []
        assert [one.rule for one in answer.all(DecisionMade)] == ["R13"]
    assert history.run.health.verdict is Health.HEALTHY


def test_r3_counts_the_attempts_that_ended_without_a_newer_checkpoint() -> None:
    history, tries = trained(retries={"budget": 3}), list[AttemptFacts]()
    said: list[list[str]] = []
    for number in range(4):
        found = KEPT
        if number >= 1:
            found = listing(900, 1000, checkpoint(1001, written_at=history.now + 20 * MINUTE))
        said.append(asked(fails(history, tries, 1100 + 300 * number, found=found, **PREEMPTED)))
    # The second one brought a checkpoint and is no charge.
    assert said == [[], [], [], ["R3"]]


def test_r3_counts_attempts_that_nobody_tells_of_but_by_their_number() -> None:
    history, said = trained(retries={"budget": 2}), list[list[str]]()
    for number in range(3):
        step = 1100 + 300 * number
        answer = look(
            history, step=step, lines=steps(step), found=KEPT, wait=CADENCE, attempts_failed=number
        )
        said.append(asked(answer))
    assert said == [[], [], ["R3"]]


@pytest.mark.parametrize(
    ("first", "second", "steps_seen", "rule"),
    [
        (SEGV, SEGV, (1100, 1400), ["R2"]),
        (SEGV, WATCHDOG, (1100, 1400), []),
        (SEGV, WATCHDOG, (1100, 1105), ["R2"]),
        ({**SEGV, "node": "w-9"}, {**WATCHDOG, "node": "w-9"}, (1100, 1400), ["R2"]),
        # What a lost machine leaves is the same each time: only the same machine is a repeat.
        (PREEMPTED, PREEMPTED, (1100, 1400), []),
    ],
)
def test_r2_takes_the_same_fingerprint_node_or_step_for_the_same_failure(
    first: dict[str, Any], second: dict[str, Any], steps_seen: tuple[int, int], rule: list[str]
) -> None:
    history, tries = trained(), list[AttemptFacts]()
    for number, told in enumerate((first, second)):
        history.later(CADENCE)
        see(history, tries, steps_seen[number])
        answer = fails(history, tries, steps_seen[number], wait=CADENCE, **told)
        assert asked(answer) == (rule if number else [])


def test_a_gang_whose_tasks_fail_together_is_one_attempt() -> None:
    history = trained()
    history.later(CADENCE)
    gang = [
        tried(history, 0, **WATCHDOG).model_copy(update={"task": f"/run/{rank}"})
        for rank in range(8)
    ]
    alive = AttemptFacts(task="/run/0", attempt=1, state=AttemptState.RUNNING)
    for _ in range(3):
        answer = look(
            history, attempts=(*gang, alive), further=("attempts",), step=1100, found=KEPT,
            lines=steps(1100), wait=MINUTE,
        )  # fmt: skip
        assert asked(answer) == []


def test_it_is_asked_again_after_an_answer_only_once_a_further_try_failed() -> None:
    history, tries = trained(), list[AttemptFacts]()
    said = [asked(fails(history, tries, **SEGV)) for _ in range(3)]
    assert said == [[], ["R2"], []]
    [question] = [q.name for q in history.run.questions.open.values() if q.rule == "R2"]
    history.tell(AnswerQuestion(now=history.now, actor=DRI, question=question, answer="noted"))
    history.later(CADENCE)
    assert asked(see(history, tries, 1000)) == []
    assert asked(fails(history, tries, **SEGV)) == ["R2"]


def test_an_end_after_repeats_inside_the_job_is_asked_about() -> None:
    history, tries = trained(), list[AttemptFacts]()
    for number in range(2):
        fails(history, tries, 1100 + 300 * number, **PREEMPTED)
    history.later(30 * MINUTE)
    last = tried(history, 2, node="w-0", state=AttemptState.PREEMPTED)
    named = history.run.instances[-1].plan.submission_id
    answer = look(
        history, node_lost(submission_id=named, attempts_failed=3), attempts=(*tries, last),
        further=("attempts",), step=2000, lines=steps(2000), found=KEPT, wait=timedelta(0),
    )  # fmt: skip
    decision = answer.the(DecisionMade)
    # The same machine as the first try's.
    assert (decision.action, decision.rule) == (Action.ESCALATE, "R2")


def test_a_retry_does_not_give_a_job_that_stands_still_more_time() -> None:
    history, kinds = trained(), list[str]()
    for failed in range(9):
        facts = {"step": 1000, "lines": steps(1000), "found": KEPT, "wait": CADENCE}
        kinds += opened(look(history, attempts_failed=failed, **facts))
    assert "not_training" in kinds


def test_a_try_seen_before_the_end_of_its_job_is_no_repeat_of_itself() -> None:
    history, tries = trained(), list[AttemptFacts]()
    fails(history, tries, **SEGV)
    named = history.run.instances[-1].plan.submission_id
    answer = look(
        history, node_lost(submission_id=named, attempts_failed=1), attempts=tuple(tries),
        further=("attempts",), step=1000, lines=steps(1000), found=KEPT, wait=MINUTE,
    )  # fmt: skip
    assert answer.the(DecisionMade).rule != "R2"


def test_a_restarted_actor_of_ray_is_a_failed_attempt_inside_the_job() -> None:
    row = {"actor_id": "a" * 8, "class_name": "Trainer", "name": "gang", "state": "ALIVE"}
    history = trained()
    made: list[list[tuple[Action, str]]] = []
    for number, restarts in enumerate((0, 2, 2)):
        history.later(CADENCE)
        step = 1100 + 300 * number
        answer = look(
            history, job(), attempts=tuple(actors_of([{**row, "num_restarts": restarts}], {})),
            further=("attempts",), step=step, lines=steps(step), found=KEPT, wait=timedelta(0),
        )  # fmt: skip
        made.append([(one.action, one.rule) for one in answer.all(DecisionMade)])
        seen = answer.the(CheckRecorded).job
        assert seen is not None
        assert seen.attempts_failed == restarts
    assert made == [[], [(Action.WAIT, "R13")], []]
