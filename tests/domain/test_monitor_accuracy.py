"""The keeper's own errors, told by events: what counts, and what does not."""

from datetime import timedelta

import pytest

from tests.domain.given import History
from tests.domain.samples import DRI, contract, job, killed, listing
from tests.every_row import every_row
from watchkeeper.domain.rules.ends.commands import Revise
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.ends import FailureClassified
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.monitor_accuracy import counted, revised
from watchkeeper.domain.run.health import UNACCOUNTED, FindingCleared, FindingOpened, FindingRaised
from watchkeeper.domain.run.launch import InstanceLaunched, LaunchRequested
from watchkeeper.domain.run.monitor_accuracy import (
    ALERTING,
    CLEARED_ITSELF,
    DUE_BEFORE,
    MonitorAccuracy,
)
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.check import Severity

NOTABLE = frozenset({"not_finite", "not_training"})
QUARTER = timedelta(minutes=15)


def failed_twice(step: int) -> MonitorAccuracy:
    """A run that is relaunched by R1 and killed again at a step."""
    history = History().launch().train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    history.relaunch()
    history.train(1050, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=step, found=listing(900, 1000))
    return history.run.watch.monitor_accuracy


def failure(cause: str) -> FailureClassified:
    return FailureClassified(
        instance="i1",
        cause=cause,
        outlook=Outlook.ASK,
        fingerprint="5f0a",
        evidence=(),
        step=10,
    )


def test_a_restart_that_fails_again_at_its_place_was_false() -> None:
    keeper = failed_twice(1101)
    assert (keeper.restarts, keeper.restarts_false) == (1, 1)


def test_a_restart_that_made_progress_was_not() -> None:
    keeper = failed_twice(4000)
    assert (keeper.restarts, keeper.restarts_false) == (1, 0)


def test_an_unknown_cause_is_an_answer_and_no_error() -> None:
    keeper = counted(MonitorAccuracy(), failure("unknown"), 7, again=False)
    assert (keeper.causes, revised(keeper, 7, "preemption").causes_wrong) == (0, 0)


def test_a_named_cause_that_is_revised_was_wrong_once() -> None:
    keeper = counted(MonitorAccuracy(), failure("node_failure"), 7, again=False)
    assert keeper.causes == 1
    once = revised(keeper, 7, "preemption")
    assert once.causes_wrong == 1
    assert revised(once, 7, "preemption").causes_wrong == 1
    assert revised(keeper, 7, "node_failure").causes_wrong == 0


def test_an_end_by_numbers_without_an_alert_before_it_was_missed() -> None:
    missed = counted(MonitorAccuracy(), failure("numerical_instability"), 7, again=False)
    assert (missed.alarms, missed.alarms_missed) == (1, 1)
    told = counted(
        MonitorAccuracy(alarmed=NOTABLE), failure("numerical_instability"), 7, again=False
    )
    assert (told.alarms, told.alarms_missed) == (1, 0)
    other = counted(MonitorAccuracy(), failure("preemption"), 7, again=False)
    assert (other.alarms, other.alarms_missed) == (0, 0)


@pytest.mark.parametrize("cause", DUE_BEFORE)
def test_an_alarm_counts_only_for_a_cause_that_it_tells_of(cause: str) -> None:
    for kind in ALERTING | {"rollback_coverage", "tracker_identity"}:
        opened = FindingOpened(
            kind=kind, rule="H5", severity=Severity.ALERT, summary="s", evidence=()
        )
        keeper = counted(MonitorAccuracy(), opened, 6, again=False)
        keeper = counted(keeper, failure(cause), 7, again=False)
        assert (keeper.alarms, keeper.alarms_missed) == (1, int(kind not in DUE_BEFORE[cause]))


def signature(about: str, kind: str = "log_signature") -> FindingOpened:
    return FindingOpened(
        kind=kind, rule="H13", severity=Severity.ALERT, summary="s", evidence=(), about=about
    )


def cleared_signature(reason: str) -> FindingCleared:
    return FindingCleared(kind="log_signature", rule="H13", reason=reason)


@every_row(
    ("before", "cause", "counts"),
    [
        # What the log showed was this, or something else.
        ([signature("data_error")], "data_error", (1, 0)),
        ([signature("hbm_oom, host_oom")], "hbm_oom", (1, 0)),
        ([signature("wandb_error")], "data_error", (1, 1)),
        # It ended with the instance, or with the steps that went on after it.
        ([signature("data_error"), cleared_signature("i1 ended")], "data_error", (1, 0)),
        ([signature("wandb_error"), cleared_signature(CLEARED_ITSELF)], "data_error", (0, 0)),
        # Nothing showed beforehand, so nothing could be told.
        ([], "data_error", (0, 0)),
        ([signature("", kind="not_training")], "code_bug", (0, 0)),
        # What comes from outside has no sign, whatever the log showed.
        ([signature("wandb_error")], "preemption", (0, 0)),
        ([signature("wandb_error")], "host_oom", (0, 0)),
        ([signature("wandb_error")], "unknown", (0, 0)),
        # H13 tells of a cause that other findings tell of as well.
        ([signature("numerical_instability")], "numerical_instability", (1, 0)),
        ([signature("wandb_error")], "numerical_instability", (1, 1)),
    ],
)  # fmt: skip
def test_what_a_live_log_showed_was_named_or_missed(
    before: list[RunEvent], cause: str, counts: tuple[int, int]
) -> None:
    keeper = MonitorAccuracy()
    for number, fact in enumerate(before):
        keeper = counted(keeper, fact, 3 + number, again=False)
    keeper = counted(keeper, failure("unknown"), 7, again=False)
    assert (keeper.alarms, keeper.alarms_missed) == (0, 0)
    keeper = revised(keeper, 7, cause)
    assert (keeper.alarms, keeper.alarms_missed) == counts


def test_what_a_log_shows_later_is_named_as_well_and_a_new_instance_begins_anew() -> None:
    louder = FindingRaised(
        kind="log_signature", rule="H13", severity=Severity.ALERT, before=Severity.ALERT,
        summary="s", evidence=(), about="data_error, wandb_error",
    )  # fmt: skip
    keeper = counted(MonitorAccuracy(), signature("wandb_error"), 3, again=False)
    keeper = counted(keeper, louder, 4, again=False)
    assert keeper.named == {"data_error", "wandb_error"}
    launched = next(
        one.data for one in History().launch().events if isinstance(one.data, InstanceLaunched)
    )
    assert counted(keeper, launched, 9, again=False).named == frozenset()


def test_a_late_checkpoint_is_no_alarm_for_an_end_by_numbers() -> None:
    late = FindingOpened(
        kind="checkpoint_stalled",
        rule="H5",
        severity=Severity.ALERT,
        summary="none since 500",
        evidence=(),
    )
    keeper = counted(MonitorAccuracy(), late, 6, again=False)
    keeper = counted(keeper, failure("numerical_instability"), 7, again=False)
    assert (keeper.alarms, keeper.alarms_missed) == (1, 1)


def test_a_question_that_a_human_calls_needless_counts() -> None:
    history = History().launch(contract(retries={"owner": "watchkeeper", "budget": 0}))
    history.train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    assert (
        history.run.watch.monitor_accuracy.pages,
        history.run.watch.monitor_accuracy.pages_needless,
    ) == (1, 0)
    [question] = history.run.questions.open
    ack = AnswerQuestion(now=history.now, actor=DRI, question=question, answer="needless")
    history.tell(ack)
    assert (
        history.run.watch.monitor_accuracy.pages,
        history.run.watch.monitor_accuracy.pages_needless,
    ) == (1, 1)


def test_an_alert_that_an_older_release_cleared_unanswered_stays_counted_as_needless() -> None:
    history = History().launch().train(1000, wait=QUARTER)
    history.later(QUARTER).check(job(JobState.UNKNOWN))
    assert (
        history.run.watch.monitor_accuracy.pages,
        history.run.watch.monitor_accuracy.pages_needless,
    ) == (1, 0)
    # Its events did not name the questions that they closed.
    history.record(FindingCleared(kind=UNACCOUNTED, rule="R19", reason=CLEARED_ITSELF))
    assert (
        history.run.watch.monitor_accuracy.pages,
        history.run.watch.monitor_accuracy.pages_needless,
    ) == (1, 1)


# --- What a revision says of the restart and of the alarm -----------------------------------------


def restarted(cause: str, rule: str = "R1", *, alarmed: bool = False) -> MonitorAccuracy:
    """A run that failed at event 7 and was relaunched by a rule."""
    keeper = counted(
        MonitorAccuracy(alarmed=NOTABLE if alarmed else frozenset()), failure(cause), 7, again=False
    )
    plan = History().launch().run.instances[-1].plan
    asked = LaunchRequested(plan=plan, digest="d", approval="a-1", preflight=1, reason=rule)
    return counted(keeper, asked, 9, again=False)


@pytest.mark.parametrize(
    ("before", "rule", "after", "false"),
    [
        ("preemption", "R1", "code_bug", 1),
        ("tpu_bad_node", "R7", "data_error", 1),
        ("unknown", "R1", "numerical_instability", 1),
        ("unknown", "R1", "user_stopped", 1),
        ("unknown", "R1", "preemption", 0),
        ("preemption", "R1", "node_failure", 0),
        ("preemption", "R1", "collective_hang", 0),
        ("preemption", "R1", "unknown", 0),
        # What a person asked for, and a fix that was pushed, are no tries of the keeper's.
        ("preemption", "R19", "code_bug", 0),
        ("config_error", "R5", "code_bug", 0),
    ],
)
def test_a_restart_that_the_revised_cause_would_not_have_allowed_was_false(
    before: str, rule: str, after: str, false: int
) -> None:
    keeper = restarted(before, rule)
    assert keeper.restarts_false == 0
    assert revised(keeper, 7, after).restarts_false == false


def test_a_false_restart_counts_once_and_is_taken_back_with_the_cause() -> None:
    keeper = revised(restarted("preemption"), 7, "code_bug")
    assert revised(keeper, 7, "data_error").restarts_false == 1
    assert revised(keeper, 7, "node_failure").restarts_false == 0
    failed_again = counted(restarted("preemption"), failure("preemption"), 11, again=True)
    assert failed_again.restarts_false == 1
    assert revised(failed_again, 7, "code_bug").restarts_false == 1


def test_an_end_that_was_not_relaunched_has_no_false_restart() -> None:
    keeper = counted(MonitorAccuracy(), failure("preemption"), 7, again=False)
    assert revised(keeper, 7, "code_bug").restarts_false == 0


@pytest.mark.parametrize("cause", ["numerical_instability", "collective_hang"])
@pytest.mark.parametrize("alarmed", [False, True])
@pytest.mark.parametrize("before", ["unknown", "preemption"])
def test_an_end_revised_to_what_shows_beforehand_was_missed_unless_alarmed(
    before: str, cause: str, alarmed: bool
) -> None:
    keeper = counted(
        MonitorAccuracy(alarmed=NOTABLE if alarmed else frozenset()),
        failure(before),
        7,
        again=False,
    )
    assert (keeper.alarms, keeper.alarms_missed) == (0, 0)
    known = revised(keeper, 7, cause)
    assert (known.alarms, known.alarms_missed) == (1, int(not alarmed))
    assert revised(known, 7, cause) == known
    back = revised(known, 7, "preemption")
    assert (back.alarms, back.alarms_missed) == (0, 0)


def test_a_person_s_word_on_an_end_is_counted_in_the_run() -> None:
    history = History().launch().train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    history.relaunch()
    history.train(1200, wait=QUARTER, found=listing(900, 1000))
    failed = history.run.ends.failures[-1].version
    said = Revise(
        now=history.now, actor=DRI, failure=failed, cause="numerical_instability", reason="loss"
    )
    history.tell(said)
    keeper = history.run.watch.monitor_accuracy
    assert (keeper.restarts, keeper.restarts_false) == (1, 1)
    assert (keeper.alarms, keeper.alarms_missed) == (1, 1)
