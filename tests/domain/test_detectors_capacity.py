"""H6, its second half: partial, wrong and unserved capacity; H12: jobs taken for this one."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History
from tests.domain.looking import MINUTE, announce, cleared, look, opened, raised, steps
from tests.domain.samples import ROOT, SLUG, contract, job, listing
from tests.domain.stories import story
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.health import FindingOpened, FindingRaised
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.sources import (
    AttemptFacts,
    AttemptState,
    CapacityFacts,
    OtherJob,
)

SEEN = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})
PENDING = job(JobState.PENDING)
LONG = timedelta(minutes=31)
WEDGE = CapacityFacts(
    pending_reason="no node has TPU-v5p-8-head", unmet=('{"TPU-v5p-8-head": 1}',), provisioning=0
)
HALF_HOUR = 30 * MINUTE


def trains(history: History, step: int, **facts: Any) -> Answer:
    return look(history, step=step, lines=steps(step), found=listing(900, 1000), **facts)


# --- H6: a wedge ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "severity"),
    [
        (None, Severity.NOTIFY),
        (WEDGE, Severity.ALERT),
        # Something comes up, or nobody tells: the wedge is not proven.
        (WEDGE.model_copy(update={"provisioning": 2}), Severity.NOTIFY),
        (WEDGE.model_copy(update={"provisioning": None}), Severity.NOTIFY),
        (WEDGE.model_copy(update={"unmet": ()}), Severity.NOTIFY),
    ],
)
def test_a_wait_is_an_alert_once_the_wedge_is_proven(
    capacity: CapacityFacts | None, severity: Severity
) -> None:
    answer = look(story(Stabilizing), PENDING, wait=LONG, capacity=capacity, further=("cluster",))
    found = answer.the(FindingOpened)
    assert (found.kind, found.rule, found.severity) == ("pending", "H6", severity)
    assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}


def test_an_open_finding_that_gets_louder_is_told_again_once_and_asked_about() -> None:
    history = story(Stabilizing)
    assert opened(look(history, PENDING, wait=LONG)) == ["pending"]
    answer = look(history, PENDING, capacity=WEDGE, further=("cluster",))
    told = answer.the(FindingRaised)
    assert (told.kind, told.before, told.severity) == ("pending", Severity.NOTIFY, Severity.ALERT)
    assert "nothing is provisioned" in told.summary
    assert "no node has TPU-v5p-8-head" in " ".join(told.evidence)
    assert answer.the(EscalationRaised).rule == "H6"
    assert history.run.health.findings["pending"].severity is Severity.ALERT
    again = look(history, PENDING, capacity=WEDGE, further=("cluster",))
    assert (opened(again), raised(again)) == ([], [])
    # It never gets quieter while it holds.
    assert raised(look(history, PENDING)) == []
    assert history.run.health.findings["pending"].severity is Severity.ALERT
    assert cleared(look(history, step=10, lines=steps(10))) == ["pending"]


def test_nothing_is_raised_while_a_planned_act_expects_it() -> None:
    history = story(Stabilizing)
    look(history, PENDING, wait=LONG)
    history.tell(announce(history, "H6"))
    assert raised(look(history, PENDING, capacity=WEDGE, further=("cluster",))) == []


def test_a_cluster_that_gives_no_answer_proves_nothing() -> None:
    history = story(Stabilizing)
    answer = look(history, PENDING, wait=LONG, capacity=WEDGE, silent=("cluster",))
    assert answer.the(FindingOpened).severity is Severity.NOTIFY


# --- H6: part of it ------------------------------------------------------------------------------

PART = CapacityFacts(wanted=4, granted=3)
WHOLE = CapacityFacts(wanted=4, granted=4)


def test_a_partial_allocation_is_told_after_half_an_hour_and_clears() -> None:
    history = story(Running, SEEN)
    whole = trains(history, 1100, capacity=WHOLE, further=("cluster",))
    assert opened(whole) == []
    found = [
        opened(trains(history, 1100 + 50 * n, capacity=PART, further=("cluster",)))
        for n in range(1, 6)
    ]
    assert found == [[], [], [], [], ["partial_allocation"]]
    told = history.run.health.findings["partial_allocation"]
    assert (told.rule, told.severity, told.evidence) == ("H6", Severity.NOTIFY, ("3 of 4 granted",))
    assert cleared(trains(history, 1400, silent=("cluster",))) == []
    cleared_now = trains(history, 1450, capacity=WHOLE, further=("cluster",))
    assert cleared(cleared_now) == ["partial_allocation"]


def test_tasks_that_still_wait_tell_of_workers_that_never_co_schedule() -> None:
    history = story(Stabilizing)
    tries = (
        AttemptFacts(task="/dlwh/run/0", state=AttemptState.RUNNING),
        AttemptFacts(task="/dlwh/run/1", state=AttemptState.PENDING, message="no v5p-8 free"),
    )
    found: list[str] = []
    for _ in range(5):
        found += opened(look(history, lines=["up"], attempts=tries, further=("attempts",)))
    assert "partial_allocation" in found
    told = history.run.health.findings["partial_allocation"].evidence
    assert told == ("the orchestrator says: no v5p-8 free", "1 of 2 granted")


@pytest.mark.parametrize(
    ("hardware", "capacity", "says"),
    [
        ({"type": "v5p-1024"}, {"hardware": "v5p-512"}, "given v5p-512, the contract says v5p"),
        ({"type": "v5p-1024"}, {"hardware": "TPU-v5p-1024-head"}, ""),
        ({"type": "v5p-1024"}, {"hardware": ""}, ""),
        ({"count": 4}, {"wanted": 6}, "asked for 6 machines, the contract says 4"),
        # Hosts of slices: 128 machines may well be one slice.
        ({"count": 1}, {"wanted": 128}, ""),
        ({"count": 4}, {"wanted": 4}, ""),
    ],
)
def test_wrong_type_or_count_is_told_at_once(
    hardware: dict[str, Any], capacity: dict[str, Any], says: str
) -> None:
    history = story(Running, contract(hardware=hardware))
    answer = trains(history, 1100, capacity=CapacityFacts(**capacity), further=("cluster",))
    assert opened(answer) == (["wrong_hardware"] if says else [])
    if says:
        assert says in answer.the(FindingOpened).summary
        assert answer.the(FindingOpened).severity is Severity.NOTIFY


# --- H12 -----------------------------------------------------------------------------------------

TWIN = OtherJob(job="ray-run-b", state=JobState.RUNNING, root=f"{ROOT}/", run="another")


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        (TWIN, ["second_writer"]),
        (TWIN.model_copy(update={"root": f"{ROOT}/checkpoints"}), ["second_writer"]),
        (TWIN.model_copy(update={"state": JobState.PENDING}), ["second_writer"]),
        (TWIN.model_copy(update={"state": JobState.SUCCEEDED}), []),
        (TWIN.model_copy(update={"root": f"{ROOT}-b"}), []),
        (TWIN.model_copy(update={"root": ""}), []),
        # Its root is not known, and it says that it is this run.
        (TWIN.model_copy(update={"root": "", "run": SLUG}), ["second_writer"]),
        (
            TWIN.model_copy(update={"root": "", "run": SLUG, "diagnostic": True}),
            ["stale_diagnostic"],
        ),
        (
            TWIN.model_copy(update={"root": f"{ROOT}-try", "run": SLUG, "diagnostic": True}),
            ["stale_diagnostic"],
        ),
        # A trial that writes here is a writer, whatever it is called.
        (TWIN.model_copy(update={"run": SLUG, "diagnostic": True}), ["second_writer"]),
        (TWIN.model_copy(update={"job": f"{SLUG}-i1-home"}), []),
    ],
)
def test_h12_tells_writers_from_diagnostics(other: OtherJob, kinds: list[str]) -> None:
    answer = trains(story(Running), 1100, others=(other,), further=("cluster",))
    assert opened(answer) == kinds
    answer.without(EscalationRaised)


def test_h12_stays_open_without_an_answer_clears_with_one_and_is_told_again_for_another() -> None:
    history = story(Running, SEEN)
    trains(history, 1100, others=(TWIN,), further=("cluster",))
    unheard = trains(history, 1150, silent=("cluster",))
    assert cleared(unheard) == []
    third = TWIN.model_copy(update={"job": "ray-run-c"})
    both = trains(history, 1200, others=(TWIN, third), further=("cluster",))
    assert raised(both) == ["second_writer"]
    assert "ray-run-c" in both.the(FindingRaised).summary
    assert raised(trains(history, 1250, others=(TWIN, third), further=("cluster",))) == []
    assert cleared(trains(history, 1300, further=("cluster",))) == ["second_writer"]


def test_h12_in_a_planned_act() -> None:
    history = story(Running)
    history.tell(announce(history, "H12"))
    assert opened(trains(history, 1100, others=(TWIN,), further=("cluster",))) == []
