"""A job that is called RUNNING while none of its tasks has a machine waits; it does not hang."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.decision_scenes import KEEP, trained
from tests.domain.given import Answer, History
from tests.domain.looking import CADENCE, live, look, opened, steps
from tests.domain.samples import job
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Health, Severity
from watchkeeper.domain.values.observation.liveness import Quiet
from watchkeeper.domain.values.observation.sources import AttemptFacts, AttemptState, CapacityFacts

MINUTE = timedelta(minutes=1)
GONE = AttemptFacts(task="/u/j/0", attempt=0, state=AttemptState.PREEMPTED)
AGAIN = AttemptFacts(task="/u/j/0", attempt=1, state=AttemptState.PENDING)
BACK = AttemptFacts(task="/u/j/0", attempt=1, state=AttemptState.RUNNING)


def standing(history: History, *tries: AttemptFacts, **facts: Any) -> Answer:
    """One more check of a job that is called RUNNING and shows no further step."""
    fields = {**KEEP, "lines": steps(1100), "further": ("attempts",), "wait": 10 * MINUTE, **facts}
    return look(history, attempts=tries, **fields)


def stood(times: int, *tries: AttemptFacts) -> tuple[History, list[str]]:
    history = trained()()
    standing(history)
    found = [kind for _ in range(times) for kind in opened(standing(history, *tries))]
    return history, found


def test_tasks_that_all_wait_again_are_no_hang_and_are_told_after_30_minutes() -> None:
    assert stood(6)[1] == ["not_training"]
    history, found = stood(3, GONE, AGAIN)
    assert found == []
    waiting = standing(history, GONE, AGAIN)
    assert live(waiting).quiet is Quiet.WAITING_FOR_CAPACITY
    # A job that is pending is called that, too.
    assert waiting.the(CheckRecorded).health is Health.UNKNOWN
    answer = standing(history, GONE, AGAIN)
    [finding] = answer.all(FindingOpened)
    assert (finding.kind, finding.rule, finding.severity) == (
        "partial_allocation",
        "H6",
        Severity.NOTIFY,
    )
    assert "nothing of what it asked for" in finding.summary


def test_one_task_that_runs_is_no_wait_of_the_job() -> None:
    other = AttemptFacts(task="/u/j/1", state=AttemptState.RUNNING)
    assert stood(6, GONE, AGAIN, other)[1] == ["not_training", "partial_allocation"]


def test_what_comes_back_has_the_allowance_of_a_start_and_clears_the_wait() -> None:
    history, found = stood(6, GONE, AGAIN)
    assert found == ["partial_allocation"]
    answer = standing(history, GONE, BACK)
    assert answer.the(CheckRecorded).health is Health.HEALTHY
    assert "partial_allocation" not in history.run.health.findings
    assert live(answer).quiet is Quiet.COMPILING_OR_RESTORING
    for _ in range(3):
        assert opened(standing(history, GONE, BACK)) == []


@pytest.mark.parametrize(
    ("reason", "provisioning", "severity"),
    [
        ("Autoscaler: Unsatisfied autoscaler demand: tier_blocked: 1", 0, Severity.ALERT),
        ("Scheduler: No workers match constraints: [region=us-east5]", 0, Severity.ALERT),
        ("Autoscaler: Unsatisfied autoscaler demand: tier_blocked: 1", None, Severity.NOTIFY),
        ("Autoscaler: Unsatisfied autoscaler demand: tier_blocked: 1", 1, Severity.NOTIFY),
        ("Scheduler: Insufficient TPUs (need 8, available 0)", 0, Severity.NOTIFY),
    ],
)
def test_a_demand_that_only_the_reason_names_proves_a_wedge_too(
    reason: str, provisioning: int | None, severity: Severity
) -> None:
    history = History().launch()
    told = CapacityFacts(pending_reason=reason, provisioning=provisioning)
    answer = look(
        history,
        job(JobState.PENDING),
        wait=4 * CADENCE,
        capacity=told,
        further=("cluster",),
    )
    assert answer.the(FindingOpened).severity is severity
