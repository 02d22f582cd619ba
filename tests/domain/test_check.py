"""One observation becomes one check: what it says about progress, health and what is due."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History, given
from tests.domain.samples import (
    LOOP,
    OTHER_ROOT,
    ROOT,
    bar,
    checkpoint,
    contract,
    half_written,
    job,
    killed,
    listing,
    node_lost,
    succeeded,
    tracker,
)
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.reading.log_tail import EVIDENCE_MAX, LINE_MAX
from watchkeeper.domain.reading.metrics.latest_metrics import METRICS_MAX
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.rules.watch.check import (
    CHECKPOINTS_MAX,
    INCOMPLETE_MAX,
)
from watchkeeper.domain.run.checkpoints import CHECKPOINTS_KEPT, CheckpointValidated
from watchkeeper.domain.run.phases import Interrupted, Phase, Running, Stabilizing
from watchkeeper.domain.run.queries import source_is_fresh
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState, Reading, SourceState
from watchkeeper.domain.values.check import Health, Progress

SECONDS = timedelta(seconds=1)


def checked(history: History, *args: Any, **facts: Any) -> CheckRecorded:
    return history.when(history.check_command(*args, **facts)).the(CheckRecorded)


# --- Progress ------------------------------------------------------------------------------------


@every_row(
    ("facts", "progress"),
    [
        ({"step": 1200}, Progress(step=1200, source="tracker")),
        ({"step": None}, None),
        ({"step": None, "lines": [bar("86.0it/4.77kit")]}, Progress(step=86, source="logs")),
        (
            {"step": None, "lines": [bar("1.86kit/2.38kit")]},
            Progress(step=1860, uncertainty=5, source="logs"),
        ),
        # The tracker agrees with the bar, and is exact.
        ({"step": 1858, "lines": [bar("1.86kit/2.38kit")]}, Progress(step=1858, source="tracker")),
        ({"step": 1855, "lines": [bar("1.86kit/2.38kit")]}, Progress(step=1855, source="tracker")),
        # The tracker is behind, as in catch-up after a resume: live lines suffice.
        (
            {"step": 1854, "lines": [bar("1.86kit/2.38kit")]},
            Progress(step=1860, uncertainty=5, source="logs"),
        ),
        ({"step": 1900, "lines": [bar("1.86kit/2.38kit")]}, Progress(step=1900, source="tracker")),
        (
            {"step": None, "lines": [bar("12.0it/99.0it"), bar("13.0it/99.0it"), "saved"]},
            Progress(step=13, source="logs"),
        ),
        ({"step": None, "lines": [bar("-/2384")]}, None),
        ({"step": 1200, "without": ("tracker",)}, None),
        (
            {"step": 1200, "without": ("logs",), "lines": [bar("1.86kit/2.38kit")]},
            Progress(step=1200, source="tracker"),
        ),
    ],
)
def test_progress_is_the_newest_step_with_its_uncertainty(
    facts: dict[str, Any], progress: Progress | None
) -> None:
    assert checked(story(Stabilizing), **facts).progress == progress


def test_a_tracker_that_shows_nothing_since_the_launch_is_an_older_instance_s() -> None:
    history = story(Interrupted).relaunch().later(SECONDS * 120)
    launched = history.run.instances[-1].launched_at
    assert launched is not None
    old = tracker(1100, heartbeat_at=launched - SECONDS)
    check = checked(history, shown=old)
    reading = next(r for r in check.readings if r.source == "tracker")
    assert (reading.state, reading.reason) == (SourceState.STALE, "nothing logged since the launch")
    assert (check.progress, check.metrics, check.tracker_id) == (None, {}, "")

    new = tracker(1001, heartbeat_at=launched)
    check = checked(history, shown=new)
    assert check.progress == Progress(step=1001, source="tracker")
    assert check.tracker_id == new.tracker_id


def test_a_tracker_without_any_time_is_not_fresh() -> None:
    check = checked(story(Stabilizing), shown=tracker(5, heartbeat_at=None))
    assert not source_is_fresh(check, "tracker")
    assert check.progress is None


def test_a_source_that_was_not_asked_is_not_fresh() -> None:
    history = story(Running)
    command = history.check_command(step=1100)
    bare = command.observation.model_copy(update={"readings": ()})
    check = history.when(command.model_copy(update={"observation": bare})).the(CheckRecorded)
    assert not source_is_fresh(check, "checkpoints")


@pytest.mark.parametrize(
    ("shown", "phase"),
    [
        ("1.00kit/5.16kit", Stabilizing),  # Between 995 and 1005: no step may be behind it.
        ("1.01kit/5.16kit", Running),  # 1005 at least.
    ],
)
def test_training_is_seen_only_surely_beyond_the_step_resumed_from(
    shown: str, phase: type[Phase]
) -> None:
    history = History().launch()
    history.fail(killed(), step=1100, found=listing(998))
    history.relaunch().later(SECONDS * 120)
    history.check(lines=[bar(shown)], without=("tracker",))
    assert type(history.run.phase) is phase


# --- Health --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "health"),
    [
        (job(JobState.RUNNING), Health.HEALTHY),
        (job(JobState.PENDING), Health.UNKNOWN),
        (succeeded(), Health.HEALTHY),
        (killed(), Health.UNHEALTHY),
        (job(JobState.STOPPED), Health.UNHEALTHY),
    ],
)
def test_health_follows_the_orchestrator(said: Any, health: Health) -> None:
    assert checked(story(Running), said).health is health


@pytest.mark.parametrize("before", [Health.HEALTHY, Health.DEGRADED, Health.UNKNOWN])
@pytest.mark.parametrize("silence", ["down", "unknown", "not_found"])
def test_health_is_untouched_while_the_orchestrator_cannot_tell(
    before: Health, silence: str
) -> None:
    history = story(Running)
    history.record(checked(history).model_copy(update={"health": before}))
    if silence == "down":
        check = checked(history, without=("orchestrator",))
        assert "no answer in 10 s" in check.because
    else:
        check = checked(history, job(JobState(silence)))
    assert check.health is before


def test_other_sources_that_are_silent_do_not_make_a_run_unhealthy() -> None:
    check = checked(story(Running), without=("logs", "tracker", "checkpoints"))
    assert check.health is Health.HEALTHY


def test_a_finding_degrades_from_the_check_that_opens_it_to_the_one_that_clears_it() -> None:
    history = story(Stabilizing).later(SECONDS * 120)
    wrong = history.check(lines=["Resuming training from step 7"], step=8)
    assert wrong.the(CheckRecorded).health is Health.DEGRADED
    assert "resume_mismatch" in wrong.the(CheckRecorded).because
    history.later(SECONDS * 570)
    assert checked(history, step=9).health is Health.DEGRADED


def test_a_finding_that_clears_no_longer_degrades() -> None:
    history = story(Stabilizing).later(timedelta(minutes=31))
    history.check(job(JobState.PENDING))
    assert "pending" in history.run.health.findings
    assert checked(history, job(JobState.RUNNING)).health is Health.HEALTHY


# --- When the next check falls due ---------------------------------------------------------------


def test_the_first_check_falls_due_120_s_after_the_launch() -> None:
    history = story(Stabilizing)
    assert history.run.watch.next_due == history.now + SECONDS * 120


@pytest.mark.parametrize(
    ("changes", "first_s", "steady_s"),
    [
        ({}, 570, 570),
        ({"lane": "daily"}, 570, 570),
        ({"lane": "canary"}, 570, 570),
        ({"lane": "hero"}, 570, 900),
        ({"lane": "hero", "watch": {"cadence": "5m"}}, 300, 300),
        ({"watch": {"cadence": "20s"}}, 20, 20),
        ({"watch": {"cadence": "30m"}}, 570, 1800),
        ({"watch": {"stabilizing": "60s"}}, 60, 570),
    ],
)
def test_checks_follow_the_lane_s_cadence_or_the_contract_s(
    changes: dict[str, Any], first_s: int, steady_s: int
) -> None:
    history = History().launch(contract(**changes)).later(SECONDS * 120)
    assert checked(history, step=0).next_due == history.now + SECONDS * first_s
    assert checked(history, step=1).next_due == history.now + SECONDS * steady_s
    history.check(step=1)
    assert isinstance(history.run.phase, Running)
    history.later(SECONDS * steady_s)
    assert checked(history, step=None).next_due == history.now + SECONDS * steady_s


def test_a_contract_may_change_the_first_wait() -> None:
    history = History().launch(contract(watch={"after_submit": "10s"}))
    assert history.run.watch.next_due == history.now + SECONDS * 10


def test_a_decision_that_waits_for_a_source_is_tried_again_soon() -> None:
    history = story(Running)
    answer = history.fail(killed(), step=1100, without=("checkpoints",))
    assert answer.the(CheckRecorded).next_due == history.now + SECONDS * 120


def test_nothing_falls_due_once_a_launch_is_asked_for() -> None:
    history = story(Interrupted)
    history.tell(history.relaunch_command())
    assert history.run.watch.next_due is None
    history.confirm()
    assert history.run.watch.next_due == history.now + SECONDS * 120


@pytest.mark.parametrize("lane", ["hero", "ordinary"])
def test_each_check_renews_the_lease_to_two_cadences_and_60_s(lane: str) -> None:
    history = History().launch(contract(lane=lane)).later(SECONDS * 120)
    cadence = SECONDS * (900 if lane == "hero" else 570)
    for step in (0, 10):
        check = checked(history, step=step)
        assert check.lease_until == history.now + 2 * cadence + SECONDS * 60
        history.check(step=step)
    assert history.run.watch.lease_until == history.now + 2 * cadence + SECONDS * 60


# --- Checkpoints ---------------------------------------------------------------------------------


def test_a_check_names_complete_and_incomplete_checkpoints_in_numeric_order() -> None:
    found = listing(1000, 900, half_written(1100), 90)
    check = checked(story(Stabilizing), found=found)
    assert check.checkpoints_complete == (90, 900, 1000)
    assert [c.step for c in check.checkpoints_incomplete] == [1100]
    assert [c.step for c in check.new_checkpoints] == [90, 900, 1000]


def test_a_checkpoint_is_new_once() -> None:
    history = story(Running)
    check = checked(history, found=listing(900, 1000, 1100))
    assert [c.step for c in check.new_checkpoints] == [1100]


def test_checkpoints_below_another_root_are_not_of_this_lineage() -> None:
    strange = checkpoint(1000, path=f"{OTHER_ROOT}/checkpoints/step-1000")
    deeper = checkpoint(1100, path=f"{ROOT}/checkpoints/old/step-1100")
    check = checked(story(Stabilizing), found=listing(900, strange, deeper))
    assert check.checkpoints_complete == (900,)


@pytest.mark.parametrize("root", [f"{ROOT}/", ROOT.replace("/grug/", "//grug/./")])
def test_a_root_that_is_written_another_way_is_the_same_root(root: str) -> None:
    history = History().launch(contract(output_root=root)).later(SECONDS * 120)
    assert checked(history, found=listing(900)).checkpoints_complete == (900,)


def test_an_unavailable_store_is_no_empty_store() -> None:
    check = checked(story(Running), without=("checkpoints",))
    assert check.checkpoints_complete == ()
    assert not source_is_fresh(check, "checkpoints")
    assert source_is_fresh(checked(story(Running), found=listing()), "checkpoints")


# --- What is kept is bounded ---------------------------------------------------------------------


def test_a_check_is_bounded_and_keeps_the_newest() -> None:
    history = story(Stabilizing)
    shown = tracker(
        5, heartbeat_at=history.now, metrics={f"m{n:02}": 1.0 for n in range(40)} | {"loss": 2.0}
    )
    lines = [f"ValueError: number {n} " + "x" * 500 for n in range(20)]
    found = listing(*range(1, 60), *(half_written(n) for n in range(60, 80)))
    check = checked(
        history, killed(message="a\nb" + "x" * 9000), shown=shown, lines=lines, found=found
    )
    assert len(check.metrics) == METRICS_MAX
    assert check.metrics["loss"] == 2.0
    assert len(check.evidence) == EVIDENCE_MAX
    assert check.evidence[-1].startswith("ValueError: number 19")
    assert max(map(len, check.evidence)) <= LINE_MAX
    assert check.checkpoints_complete == tuple(range(60 - CHECKPOINTS_MAX, 60))
    assert [c.step for c in check.checkpoints_incomplete] == list(range(80 - INCOMPLETE_MAX, 80))
    assert [c.step for c in check.new_checkpoints] == list(range(60 - CHECKPOINTS_MAX, 60))
    assert check.job is not None
    assert check.job.message == "a"


def test_checkpoints_that_did_not_fit_are_validated_at_the_next_check() -> None:
    history = story(Stabilizing)
    found = listing(*range(1, 41))
    history.check(found=found)
    assert set(history.run.checkpoints.validated) == set(range(9, 41))
    history.check(found=found)
    assert set(history.run.checkpoints.validated) == set(range(1, 41))


def test_a_healthy_check_keeps_no_lines_and_an_end_without_a_word_keeps_the_last() -> None:
    lines = [f"line {n}" for n in range(20)]
    assert checked(story(Running), lines=lines).evidence == ()
    assert checked(story(Running), killed(), lines=lines).evidence == tuple(lines[-EVIDENCE_MAX:])


@pytest.mark.parametrize("word", ["eval/bpb=0.87", "terror", "mirrors", "errors=0"])
def test_a_harmless_word_is_no_evidence(word: str) -> None:
    assert checked(story(Running), lines=[word]).evidence == ()


def test_what_the_first_lines_said_stays_true_once_they_left_the_tail() -> None:
    history = story(Stabilizing).later(SECONDS * 120)
    history.check(lines=["Starting from scratch", "Resuming training from step 40"])
    later = checked(history, lines=["nothing of this"])
    assert (later.startup.scratch, later.startup.resumed_step) == (True, 40)


def test_the_first_lines_of_an_older_instance_say_nothing_about_a_new_one() -> None:
    history = story(Stabilizing).later(SECONDS * 120)
    history.check(lines=["Starting from scratch"], found=listing(900), step=41)
    history.fail(node_lost(), step=1100, found=listing(900))
    history.relaunch().later(SECONDS * 120)
    check = checked(history, lines=["nothing of this"])
    assert not check.startup.scratch


def test_readings_keep_their_clocks() -> None:
    history = story(Running)
    command = history.check_command(step=1100)
    clock = Reading(source="tracker", state=SourceState.FRESH, clock=history.now)
    observation = command.observation.model_copy(update={"readings": (clock,)})
    check = history.when(command.model_copy(update={"observation": observation})).the(CheckRecorded)
    assert check.readings == (clock,)


# --- Who may check what --------------------------------------------------------------------------


def test_a_check_of_another_instance_is_refused() -> None:
    history = story(Interrupted).relaunch()
    history.when(history.check_command(instance="i1")).refused(Refusal.WRONG_INSTANCE, "i1")


def test_a_check_names_the_full_observation_by_its_digest() -> None:
    history = story(Running)
    command = history.check_command().model_copy(update={"digest": "e" * 64, "actor": LOOP})
    assert history.when(command).the(CheckRecorded).observation == "e" * 64
    assert given().events == []


def test_more_checkpoints_than_state_remembers_are_each_validated_once() -> None:
    history = History().launch()
    many = listing(*range(100, 100 * (CHECKPOINTS_KEPT + 100), 100))
    for _ in range(2 + CHECKPOINTS_KEPT // CHECKPOINTS_MAX):
        history.train(40_000, found=many)
    assert not history.check(step=40_100, found=many).all(CheckpointValidated)
    newer = listing(*(100 * n for n in range(1, CHECKPOINTS_KEPT + 101)))
    validated = history.check(step=40_200, found=newer).the(CheckpointValidated)
    assert validated.step == 100 * (CHECKPOINTS_KEPT + 100)
