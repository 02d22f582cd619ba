"""H2: the tracker's state, time, step and loss fit the recorded lineage, or it is told."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import Answer, History, decided
from tests.domain.looking import CADENCE, announce, cleared, look, opened, steps
from tests.domain.samples import bar, contract, listing, node_lost, tracker
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.operator.commands import Stop
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Health, Progress
from watchkeeper.domain.values.observation.sources import MetricHistory

INVALID = "tracker_lineage"
KEPT = listing(900, 1000)
SELDOM = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})


def running(promised: Any = SELDOM) -> History:
    """A run that trained to step 1100, by its tracker and its output."""
    history = story(Running, promised)
    for step in (1050, 1100):
        see(history, step, step).without(FindingOpened)
    return history


def see(run: History, /, logged: int | None, tracked: int | None, **changes: Any) -> Answer:
    """Look at a run whose output and tracker show steps; `changes` are the tracker's."""
    asked = ("without", "history", "silent", "attempts_failed")
    facts = {name: changes.pop(name) for name in asked if name in changes}
    at = changes.pop("heartbeat_at", run.now + CADENCE)
    lines = changes.pop("lines", steps(logged) if logged is not None else ["up"])
    shown = tracker(tracked, heartbeat_at=at, **changes)
    return look(run, shown=shown, lines=lines, found=KEPT, **facts)


Wrong = dict[str, Any]
"""What is wrong at a check."""

GROUNDS: dict[str, Callable[[int], Wrong]] = {
    "finished": lambda step: {"tracked": step, "state": "finished"},
    "crashed": lambda step: {"tracked": step, "state": "crashed"},
    "step back": lambda step: {"tracked": 200 + step // 100},
    "step ahead": lambda step: {"tracked": 3700 + step},
    "loss": lambda step: {"tracked": step, "metrics": {"loss": 7.9}},
    "loss of the history": lambda step: {
        "tracked": step,
        "history": MetricHistory(
            steps=(step - 1, step), times=(1.8e9, 1.8e9 + 4), columns={"train/loss": (7.9, 8.0)}
        ),
    },
    "time to come": lambda step: {"tracked": step, "later": timedelta(hours=3)},
    "time before": lambda step: {"tracked": step, "later": -timedelta(minutes=40)},
}
SAYS = {
    "finished": "the tracker says finished while the job runs and its output went on to step 1200",
    "crashed": "the tracker says crashed while the job runs and its output went on to step 1200",
    "step back": "fell back from step 1100 to 212 without a restart, and the output",
    "step ahead": "the tracker shows step 4900, the output 1200: progress goes by the output",
    "loss": "at step 1200 the tracker holds a loss of 7.9, the output printed 2.5",
    "loss of the history": "at step 1200 the tracker holds a loss of 8, the output printed 2.5",
    "time to come": "which is yet to come",
    "time before": "the tracker's newest time went back from",
}


def wrong(history: History, ground: str, step: int, **more: Any) -> Answer:
    facts = {**GROUNDS[ground](step), **more}
    if "later" in facts:
        # A launch long ago, so that an old time is not the instance before's.
        facts["heartbeat_at"] = history.now + CADENCE + facts.pop("later")
    return see(history, step, facts.pop("tracked"), **facts)


def long(ground: str) -> History:
    history = running()
    if ground == "time before":
        history = story(Running, SELDOM)
        for step in (900, 950, 1000, 1050, 1100):
            see(history, step, step).without(FindingOpened)
    return history


# --- Opens, stays, clears ------------------------------------------------------------------------


@pytest.mark.parametrize("ground", GROUNDS)
def test_h2_opens_at_the_second_check_in_a_row_stays_and_clears(ground: str) -> None:
    history = long(ground)
    once = wrong(history, ground, 1150)
    assert INVALID not in opened(once)
    assert once.the(CheckRecorded).health is Health.HEALTHY
    twice = wrong(history, ground, 1200)
    [finding] = [one for one in twice.all(FindingOpened) if one.kind == INVALID]
    assert finding.rule == "H2"
    assert SAYS[ground] in finding.summary
    assert "2 checks in a row" in finding.evidence[0]
    assert twice.the(CheckRecorded).health is Health.DEGRADED
    assert INVALID not in opened(wrong(history, ground, 1250))
    assert INVALID in history.run.health.findings
    assert INVALID in cleared(see(history, 1300, 1300))


@pytest.mark.parametrize("ground", GROUNDS)
def test_h2_does_not_open_for_what_fits_again_in_between(ground: str) -> None:
    history = long(ground)
    for step in (1150, 1250, 1350):
        assert INVALID not in opened(wrong(history, ground, step))
        assert INVALID not in opened(see(history, step + 50, step + 50))


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_planned_act_excuses_it_for_as_long_as_it_lasts(ground: str) -> None:
    history = long(ground)
    history.tell(announce(history, "H2"))
    wrong(history, ground, 1150)
    answer = wrong(history, ground, 1200)
    assert INVALID not in opened(answer)
    [said] = answer.the(CheckRecorded).expected
    assert "expected by act-1" in said
    late = timedelta(hours=3)
    history.later(late)
    if ground not in ("time before", "time to come"):
        assert INVALID in opened(wrong(history, ground, 1250))


def test_what_an_act_excused_opens_only_when_it_is_seen_again() -> None:
    history = running()
    history.tell(announce(history, "H2", lasts=timedelta(minutes=25)))
    for step in (1150, 1200):
        assert INVALID not in opened(wrong(history, "step ahead", step))
    # The act is over, and nobody can tell.
    for step in (1250, 1300):
        assert INVALID not in opened(wrong(history, "step ahead", step, without=("tracker",)))
    assert INVALID in opened(wrong(history, "step ahead", 1350))


@every_row("gone", ["tracker", "orchestrator"])
@every_row("ground", GROUNDS)
def test_a_source_without_an_answer_neither_opens_nor_clears(ground: str, gone: str) -> None:
    history = long(ground)
    wrong(history, ground, 1150)
    assert INVALID not in opened(wrong(history, ground, 1200, without=(gone,)))
    assert INVALID in opened(wrong(history, ground, 1250))
    assert INVALID not in cleared(see(history, 1300, 1300, without=(gone,)))
    assert INVALID in history.run.health.findings


@pytest.mark.parametrize("ground", ["finished", "crashed", "step ahead", "loss"])
def test_without_the_output_nothing_is_compared_with_it(ground: str) -> None:
    history = running()
    wrong(history, ground, 1150)
    for step in (1200, 1250):
        assert INVALID not in opened(wrong(history, ground, step, without=("logs",)))


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_stale_tracker_says_nothing(ground: str) -> None:
    history = running()
    for step in (1150, 1200, 1250):
        facts = {**GROUNDS[ground](step), "heartbeat_at": None}
        facts.pop("later", None)
        assert INVALID not in opened(see(history, step, facts.pop("tracked"), **facts))


# --- Who is told ---------------------------------------------------------------------------------


def test_the_dri_is_asked_and_the_job_is_left_alone() -> None:
    history = running()
    wrong(history, "step ahead", 1150)
    answer = wrong(history, "step ahead", 1200)
    assert decided(answer) == (Action.ALERT, "R17")
    assert answer.the(EscalationRaised).rule == "H2"


def test_it_ends_with_its_instance_and_holds_no_relaunch() -> None:
    history = running()
    for step in (1150, 1200):
        wrong(history, "crashed", step)
    answer = history.fail(node_lost(), step=1200, found=KEPT)
    assert INVALID in cleared(answer)
    assert decided(answer) == (Action.RELAUNCH, "R1")


# --- Progress ------------------------------------------------------------------------------------


def test_progress_goes_by_the_output_while_the_tracker_is_ahead() -> None:
    history = running()
    for step in (1150, 1200):
        found = wrong(history, "step ahead", step).the(CheckRecorded).progress
        assert found is not None
        assert (found.step, found.source) == (step, "logs")
        assert f"the tracker shows step {3700 + step}, the output {step}" in found.doubt
    assert history.run.instances[-1].step_best == 1200
    silent = wrong(history, "step ahead", 1250, without=("logs",))
    assert silent.the(CheckRecorded).progress is None
    found = see(history, 1300, 1310).the(CheckRecorded).progress
    assert found == Progress(step=1310, source="tracker")


# --- What is normal ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown",
    [
        # Uploads lag, and come in bursts.
        [(1150, 1100), (1200, 1100), (1250, 1100), (1300, 1290), (1350, 1290)],
        # The output is printed in turns of 100 steps.
        [(1200, 1260), (1300, 1399), (1400, 1499), (1500, 1580)],
        # The output is dark and the tracker goes on.
        [(1100, 1200), (1100, 1600), (1100, 2400)],
        # Nobody prints steps.
        [(None, 1200), (None, 1600), (None, 2400)],
        # It counts calls, four for each step, or began to when the watch looked.
        [(1200, 4800), (1300, 5200), (1400, 5600), (1500, 6000)],
    ],
)
def test_h2_stays_closed_while_a_tracker_lags_or_the_output_does(
    shown: list[tuple[int | None, int]],
) -> None:
    history = running()
    for logged, tracked in shown:
        assert INVALID not in opened(see(history, logged, tracked))


def test_a_rounded_bar_is_no_witness_against_the_steps_it_rounds_away() -> None:
    history = running()
    for text, tracked in (("1.20kit", 1230), ("1.30kit", 1335), ("1.40kit", 1404)):
        line = [bar(f"{text}/5.16kit")]
        assert INVALID not in opened(see(history, None, tracked, lines=line))


def test_after_a_resume_the_tracker_shows_what_the_instance_before_logged() -> None:
    history = running()
    history.fail(node_lost(), step=1100, found=KEPT)
    history.relaunch()
    # It had gone on for 30 steps after the last check; the tracker takes no step twice.
    for logged, tracked in ((1020, 1130), (1060, 1130), (1100, 1130), (1140, 1140)):
        assert INVALID not in opened(see(history, logged, tracked))


def test_after_a_resume_a_tracker_that_logs_again_falls_back_and_fits() -> None:
    history = running()
    history.fail(node_lost(), step=1100, found=KEPT)
    history.relaunch()
    for tracked in (1100, 1010, 1030, 1060):
        assert INVALID not in opened(see(history, None, tracked))


def test_steps_that_the_orchestrators_own_retry_does_again_are_no_fall() -> None:
    history = running()
    for tracked in (1000, 1030, 1060):
        assert INVALID not in opened(see(history, None, tracked, attempts_failed=1))
    for logged in (1010, 1040):
        assert INVALID not in opened(see(history, logged, logged, attempts_failed=1))


def test_a_retry_that_the_tracker_shows_later_is_no_fall() -> None:
    history = running(contract(checkpoints=SELDOM.checkpoints))
    # The new attempt compiles for two checks; then it does its steps again.
    for tracked in (1100, 1100, 700, 750, 800):
        answer = see(history, None, tracked, attempts_failed=1)
        assert INVALID not in opened(answer)
        assert answer.the(CheckRecorded).tracker_fit.doubts == ()
    see(history, None, 300, attempts_failed=1)
    assert INVALID in opened(see(history, None, 310, attempts_failed=1))


def test_a_restart_that_only_the_output_shows_is_no_fall() -> None:
    history = running()
    for step in (900, 950, 1000):
        assert INVALID not in opened(see(history, step, step))


def test_the_steps_a_retry_does_again_may_stand_at_the_tracker() -> None:
    history = running()
    for logged in (800, 850, 900, 950):
        assert INVALID not in opened(see(history, logged, 1100, attempts_failed=1))


def test_a_tracker_that_closed_at_the_last_step_is_no_drift() -> None:
    history = running()
    for step in (4900, 5150, 5153, 5154):
        see(history, step, step)
    for step in (5154, 5155):
        assert INVALID not in opened(see(history, step, 5154, state="finished"))


def test_a_stop_that_was_asked_for_explains_a_closed_tracker() -> None:
    history = running()
    history.tell(Stop(now=history.now, actor=announce(history).actor, reason="enough"))
    for step in (1150, 1200, 1250):
        assert INVALID not in opened(wrong(history, "finished", step))


def test_an_offline_client_counts_as_over_after_each_sync() -> None:
    offline = {"kind": "wandb", "url": "", "mode": "offline", "dir": "/srv/wandb"}
    checkpoints = {"temporary_every": "", "permanent_every_steps": 100_000}
    history = running(contract(tracker=offline, checkpoints=checkpoints))
    for step in (1150, 1200, 1250):
        assert INVALID not in opened(wrong(history, "finished", step))


def test_a_job_that_stands_still_is_no_proof_against_the_trackers_state() -> None:
    history = running()
    for _ in range(3):
        assert INVALID not in opened(see(history, 1100, 1100, state="crashed"))


@pytest.mark.parametrize("loss", [2.4, 3.6, 2.5 / 1.45, float("nan")])
def test_losses_that_differ_by_rounding_noise_or_units_of_bits_fit(loss: float) -> None:
    history = running()
    for step in (1150, 1200, 1250):
        assert INVALID not in opened(see(history, step, step, metrics={"loss": loss}))


def test_losses_of_warm_up_are_not_compared() -> None:
    history = story(
        Running, contract(detect={"warmup_steps": 2000}, checkpoints=SELDOM.checkpoints)
    )
    for step in (1150, 1200, 1250):
        assert INVALID not in opened(wrong(history, "loss", step))


# --- The contract's limits -----------------------------------------------------------------------


def test_the_contract_says_how_many_checks_and_how_much() -> None:
    checkpoints = {"temporary_every": "", "permanent_every_steps": 100_000}
    quick = running(contract(detect={"tracker_checks": 1}, checkpoints=checkpoints))
    assert INVALID in opened(wrong(quick, "loss", 1150))
    wide = running(contract(detect={"tracker_loss": 10.0}, checkpoints=checkpoints))
    far = running(contract(detect={"tracker_ahead": 100.0}, checkpoints=checkpoints))
    for step in (1150, 1200, 1250):
        assert INVALID not in opened(wrong(wide, "loss", step))
        assert INVALID not in opened(wrong(far, "step ahead", step))


def test_a_history_that_was_not_read_is_not_compared() -> None:
    history = running()
    for step in (1150, 1200, 1250):
        answer = wrong(history, "loss of the history", step, silent=("history",))
        assert INVALID not in opened(answer)
