"""Is it really training? H3, H16, the blind monitor, and why it is quiet."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

from tests.domain.given import Answer, History
from tests.domain.looking import (
    CADENCE,
    MINUTE,
    announce,
    cleared,
    live,
    look,
    opened,
    raised,
    steps,
)
from tests.domain.samples import (
    SOURCES,
    bar,
    check_of,
    contract,
    job,
    listing,
    node_lost,
    tracker,
)
from tests.domain.stories import story
from watchkeeper.domain.rules.health.liveness import degraded
from watchkeeper.domain.rules.health.log_signature import log_signature
from watchkeeper.domain.rules.operator.commands import Stop
from watchkeeper.domain.rules.shared.rule import DetectorInput
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.phases import Running, Stabilizing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import JobState
from watchkeeper.domain.values.causes import CauseClaim, Outlook
from watchkeeper.domain.values.check import Health, Severity
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.liveness import Liveness, Moves, Quiet, Witness
from watchkeeper.domain.values.observation.sources import (
    CapacityFacts,
    NodeFacts,
    TelemetryFacts,
    TrainingPhase,
)

KEPT = listing(900, 1000)
STANDS: dict[str, Any] = {"step": 1100, "lines": steps(1100), "found": KEPT}
"""A run of which every clock shows what it showed before."""


SELDOM = contract(checkpoints={"temporary_every": "", "permanent_every_steps": 100_000})
"""A contract by which no checkpoint is due for days."""


def trains(promised: Contract = SELDOM) -> History:
    """A run that is seen to train, at step 1100."""
    history = story(Running, promised)
    look(history, step=1050, lines=steps(1050), found=KEPT)
    answer = look(history, **STANDS)
    assert live(answer).quiet is Quiet.MOVING
    return history


def quiet(answer: Answer) -> str:
    return live(answer).quiet.value


# --- H3 opens ------------------------------------------------------------------------------------


def test_h3_opens_after_several_cadences_without_a_step_and_not_before() -> None:
    history = trains()
    once = look(history, **STANDS)
    assert (opened(once), quiet(once)) == ([], "")
    assert opened(look(history, **STANDS)) == ["not_training"]


def test_h3_alerts_asks_and_decides_nothing() -> None:
    history = trains()
    look(history, **STANDS)
    answer = look(history, **STANDS)
    found = answer.the(FindingOpened)
    assert (found.rule, found.severity) == ("H3", Severity.ALERT)
    assert "no step for 19 min by logs, tracker" in found.summary
    question = answer.the(EscalationRaised)
    assert (question.rule, question.to) == ("H3", "dri")
    assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}
    assert isinstance(history.run.phase, Running)
    assert answer.the(CheckRecorded).health is Health.DEGRADED


def test_h3_says_what_each_clock_shows_and_what_to_capture_first() -> None:
    history = trains()
    look(history, **STANDS)
    lines = look(history, **STANDS).the(FindingOpened).evidence
    assert "the tracker: step 1100 since 17:51 UTC, the same at 2 checks in a row" in lines
    assert any("py-spy dump" in line and "rack" in line for line in lines)


@pytest.mark.parametrize(
    "moves",
    [
        {"step": 1101},
        {"lines": steps(1101)},
        {"lines": [*steps(1100), *steps(1101)]},
        {"found": listing(900, 1000, 1100)},
    ],
)
def test_one_clock_that_moves_is_enough(moves: dict[str, Any]) -> None:
    history = trains()
    look(history, **STANDS)
    look(history, **STANDS, wait=MINUTE)
    answer = look(history, **{**STANDS, **moves})
    assert opened(answer) == []
    assert quiet(answer) in ("moving", "tracker_silent", "log_pipe_dark")


@pytest.mark.parametrize("without", [("tracker",), ("logs",), SOURCES[1:], ("orchestrator",)])
def test_one_source_alone_never_proves_a_stall(without: tuple[str, ...]) -> None:
    history = trains()
    for _ in range(6):
        assert "not_training" not in opened(look(history, **STANDS, without=without))


def test_checkpoints_that_are_due_are_the_second_witness_of_a_dark_log_pipe() -> None:
    history = trains(contract())
    for _ in range(3):
        answer = look(history, **STANDS, without=("logs",))
    # Temporary ones come every 15 min: after 30 min without one they have stood as well.
    answer = look(history, **STANDS, without=("logs",))
    assert quiet(answer) == "run_hung"
    assert "by tracker, checkpoints" in live(answer).because


def test_a_heartbeat_that_goes_on_is_no_step() -> None:
    history = trains()
    found: list[str] = []
    for _ in range(2):
        beats = tracker(1100, heartbeat_at=history.now + CADENCE)
        found += opened(look(history, shown=beats, lines=steps(1100), found=KEPT))
    assert found == ["not_training"]


def test_telemetry_that_stands_is_a_witness_and_one_that_moves_clears() -> None:
    history = trains()

    def gauges(step: int, wait: timedelta = CADENCE) -> Answer:
        told = TelemetryFacts(at=history.now + wait, step=step, phase=TrainingPhase.TRAINING)
        return look(history, lines=steps(1100), found=KEPT, telemetry=told, without=("tracker",))

    assert quiet(gauges(1101)) == "moving"
    gauges(1101)
    assert quiet(gauges(1101)) == "run_hung"
    assert cleared(gauges(1102)) == ["not_training"]


def test_gauges_of_long_ago_say_nothing() -> None:
    history = trains()
    old = TelemetryFacts(at=history.now, step=1100)
    stands = {**STANDS, "without": ("tracker",)}
    verdicts = [quiet(look(history, **stands, telemetry=old)) for _ in range(3)]
    assert verdicts == ["", "monitor_blind", "monitor_blind"]


@pytest.mark.parametrize(("gained", "kinds"), [(2, []), (40, ["not_training"])])
def test_a_rounded_bar_stands_only_once_more_steps_were_to_come_than_it_rounds_away(
    gained: int, kinds: list[str]
) -> None:
    history = story(Running, SELDOM)
    look(history, step=1860 - gained, lines=[bar("1.85kit/5.16kit")], found=KEPT)
    look(history, step=1860, lines=[bar("1.86kit/5.16kit")], found=KEPT)
    found: list[str] = []
    for number in range(2):
        # The output goes on, so its tail alone shows no standstill; the bar must.
        lines = [bar("1.86kit/5.16kit"), f"heartbeat {number}"]
        found += opened(look(history, step=1860, lines=lines, wait=2 * CADENCE, found=KEPT))
    # With the tracker alone nobody can tell.
    assert found == (kinds or ["monitor_blind"])


def test_output_that_goes_on_without_steps_doubles_the_time() -> None:
    history = trains()
    found = [
        opened(look(history, **{**STANDS, "lines": [*steps(1100), f"still waiting {n}"]}))
        for n in range(4)
    ]
    assert found == [[], [], [], ["not_training"]]


@pytest.mark.parametrize(
    "line",
    [
        "Compiling train_step...",
        "Progress on:eval 12.0it/40.0it rate:1.2it/s remaining:00:23 elapsed:00:10 postfix:-",
        "Saving temporary checkpoint at step 1100",
        "Restoring from gs://b/x",
    ],
)
def test_work_without_steps_has_an_allowance(line: str) -> None:
    history = trains()
    busy = {**STANDS, "lines": [*steps(1100), line]}
    for _ in range(4):
        answer = look(history, **busy)
        assert (opened(answer), quiet(answer)) == ([], "compiling_or_restoring")
    assert opened(look(history, **busy)) == ["not_training"]


@pytest.mark.parametrize(
    "line",
    ["Saving temporary checkpoint at step 1100", "starting commit to storage layer by process 0"],
)
def test_a_checkpoint_that_is_complete_is_not_being_saved_any_more(line: str) -> None:
    history = trains()
    saved = {**STANDS, "lines": [*steps(1100), line], "found": listing(900, 1000, 1100)}
    # It came at this check: that is a step, and the standstill counts from here.
    assert quiet(look(history, **saved)) == "moving"
    assert opened(look(history, **saved)) == []
    assert opened(look(history, **saved)) == ["not_training"]


def test_a_checkpoint_that_is_saved_again_in_catch_up_is_being_saved() -> None:
    history = resumed()
    found = listing(900, 1000, 1900)
    look(history, shown=tracker(2000), lines=steps(1850), found=found)
    saving = [*steps(1900), "Saving temporary checkpoint at step 1900"]
    look(history, shown=tracker(2000), lines=saving, found=found)
    answer = look(history, shown=tracker(2000), lines=saving, found=found)
    assert quiet(answer) == "compiling_or_restoring"


def test_an_error_about_work_is_no_work() -> None:
    history = trains()
    stuck = {**STANDS, "lines": [*steps(1100), "ERROR: compilation failed, retrying"]}
    look(history, **stuck)
    assert opened(look(history, **stuck)) == ["not_training"]


def test_the_last_step_is_followed_by_evaluations_and_exports() -> None:
    history = story(Running, SELDOM)
    look(history, step=5154, found=KEPT, lines=steps(5154))
    for _ in range(8):
        answer = look(history, step=5154, found=KEPT, lines=steps(5154))
        assert opened(answer) == []
    assert opened(look(history, step=5154, found=KEPT, lines=steps(5154))) == ["not_training"]


# --- H3 stays and clears -------------------------------------------------------------------------


def hung() -> History:
    history = trains()
    look(history, **STANDS)
    assert opened(look(history, **STANDS)) == ["not_training"]
    return history


def test_h3_stays_open_while_it_holds_and_while_nobody_can_tell() -> None:
    history = hung()
    for without in ((), ("tracker",), SOURCES, ()):
        answer = look(history, **STANDS, without=without)
        assert "not_training" not in opened(answer) + raised(answer) + cleared(answer)
        assert "not_training" in history.run.health.findings


def test_h3_clears_when_a_step_is_seen() -> None:
    assert cleared(look(hung(), **{**STANDS, "step": 1101})) == ["not_training"]


def test_h3_clears_when_the_orchestrator_begins_the_job_anew() -> None:
    answer = look(hung(), **STANDS, attempts_failed=1)
    assert (cleared(answer), quiet(answer)) == (["not_training"], "compiling_or_restoring")
    assert live(answer).phase is TrainingPhase.INITIALISING


def test_a_planned_pause_opens_nothing_and_its_end_gives_time_to_move_again() -> None:
    history = trains()
    history.tell(announce(history, "H3", lasts=timedelta(hours=1)))
    for _ in range(6):
        assert opened(look(history, **STANDS)) == []
    assert opened(look(history, **STANDS)) == []
    assert opened(look(history, **STANDS)) == ["not_training"]


def test_a_standstill_that_a_planned_act_expects_is_named_and_called_by_its_name() -> None:
    history = trains()
    history.tell(announce(history, "H3", lasts=timedelta(hours=1)))
    seen = [look(history, **STANDS) for _ in range(6)]
    assert [quiet(one) for one in seen] == ["", *["run_hung"] * 5]
    named = [one.the(CheckRecorded).expected for one in seen]
    assert named[0] == ()
    assert named[1] == (
        "RUNNING and not training: no step for 19 min by logs, tracker (H3, expected by act-1)",
    )
    # The window is over: what is told now is counted from its end.
    after = look(history, **STANDS)
    assert (quiet(after), after.the(CheckRecorded).expected, opened(after)) == ("", (), [])


def test_in_the_window_of_an_act_nobody_is_told_that_the_monitor_is_blind() -> None:
    history = trains()
    history.tell(announce(history, "H3", lasts=timedelta(hours=1)))
    for _ in range(5):
        seen = look(history, **STANDS, without=SOURCES)
        assert (opened(seen), quiet(seen), seen.the(CheckRecorded).expected) == ([], "", ())


def test_a_check_names_what_a_planned_act_expects() -> None:
    history = trains()
    look(history, **STANDS, nodes=(DEAD,), further=("cluster",))
    history.tell(announce(history, "H16"))
    answer = look(history, **STANDS, nodes=(DEAD,), further=("cluster",))
    assert "degraded" not in opened(answer)
    [named] = answer.the(CheckRecorded).expected
    assert named.endswith("is dead: missed 3 heartbeats (H16, expected by act-1)")


def test_a_job_whose_end_was_asked_for_is_not_hung() -> None:
    history = trains()
    stop = Stop.model_validate(
        {"now": history.now, "actor": {"principal": "dri", "kind": "human"}, "reason": "enough"}
    )
    history.tell(stop)
    for _ in range(4):
        assert opened(look(history, **STANDS)) == []


def test_a_gap_of_the_watch_is_no_standstill() -> None:
    history = trains()
    assert opened(look(history, **STANDS, wait=timedelta(hours=9))) == []


# --- Start ---------------------------------------------------------------------------------------

UP: dict[str, Any] = {"shown": tracker(None), "lines": ["up"]}


def test_a_start_is_left_alone_within_its_allowance() -> None:
    history = story(Stabilizing)
    for _ in range(4):
        answer = look(history, **UP)
        assert (opened(answer), quiet(answer)) == ([], "compiling_or_restoring")
        assert live(answer).phase is TrainingPhase.INITIALISING


DARK: dict[str, Any] = {"without": tuple(one for one in SOURCES if one != "orchestrator")}
AWAY: dict[str, Any] = {"without": ("orchestrator",)}


def test_a_start_that_nobody_but_the_orchestrator_tells_of_is_blind_and_not_compiling() -> None:
    history = story(Stabilizing)
    found = [look(history, wait=timedelta(minutes=8), **DARK) for _ in range(5)]
    assert [quiet(one) for one in found] == ["", "", *["monitor_blind"] * 3]
    assert [opened(one) for one in found] == [[], [], ["monitor_blind"], [], []]
    # Once the output answers it is within its allowance again.
    answer = look(history, wait=timedelta(minutes=1), **UP)
    assert (quiet(answer), cleared(answer)) == ("compiling_or_restoring", ["monitor_blind"])


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (DARK, ""),
        ({"without": SOURCES}, ""),
        ({**AWAY, "shown": tracker(None), "lines": ["up"]}, ""),
        ({**AWAY, "shown": tracker(None), "lines": ["Compiling"]}, "compiling_or_restoring"),
        ({"lines": ["up"], "without": ("tracker", "checkpoints")}, "compiling_or_restoring"),
        ({"shown": tracker(None), "without": ("logs", "checkpoints")}, "compiling_or_restoring"),
        ({"found": listing(), "without": ("logs", "tracker")}, "compiling_or_restoring"),
    ],
)
def test_a_start_needs_a_witness_that_it_is_at_work(told: dict[str, Any], expected: str) -> None:
    answer = look(story(Stabilizing), wait=timedelta(minutes=10), **told)
    assert (quiet(answer), opened(answer)) == (expected, [])


def test_a_start_without_a_word_or_a_step_is_told_after_45_min() -> None:
    history = story(Stabilizing)
    found = [opened(look(history, **UP)) for _ in range(5)]
    assert found == [[], [], [], [], ["not_training"]]


@pytest.mark.parametrize("line", ["compiling step {}", "restored shard {} of 512", "words {}"])
def test_a_start_whose_output_goes_on_has_80_min(line: str) -> None:
    history = story(Stabilizing)
    found = [
        opened(look(history, shown=tracker(None), lines=[line.format(number)]))
        for number in range(9)
    ]
    assert found == [[]] * 8 + [["not_training"]]


def hf_bar(step: int, maximum: int = 5155) -> str:
    return f" {100 * step // maximum}%|███▌      | {step}/{maximum} [04:48<02:46,  4.15it/s]"


def hf_loss(number: int) -> str:
    return f"{{'loss': 2.{number:03}, 'grad_norm': 1.25, 'learning_rate': 4.9e-05, 'epoch': 0.36}}"


ALONE = ("tracker", "checkpoints")


@pytest.mark.parametrize("final", [5155, 9000])
def test_bare_bars_that_move_beside_losses_or_to_the_final_step_are_training(final: int) -> None:
    history = History().launch(contract(final_step={"value": final, "source": "config"}))
    for number in range(1, 13):
        said = [hf_bar(100 * number), *([hf_loss(1)] if final != 5155 else [])]
        answer = look(history, lines=said, without=ALONE)
        assert not {"not_training", "monitor_blind"} & set(opened(answer))
        progress = answer.the(CheckRecorded).progress
        assert progress is not None
        assert progress.step == 100 * number
        assert quiet(answer) == ("tracker_silent" if number > 1 else "moving")


def test_fast_bare_bars_go_on_telling_steps_once_their_losses_left_the_tail() -> None:
    history = History().launch(contract(final_step={"value": 9000, "source": "config"}))
    look(history, lines=[hf_bar(100), hf_loss(1)], without=ALONE)
    for number in range(2, 13):
        answer = look(history, lines=[hf_bar(100 * number), hf_bar(number, 63)], without=ALONE)
        progress = answer.the(CheckRecorded).progress
        assert progress is not None
        assert progress.step == 100 * number


def test_bare_bars_of_which_nobody_can_tell_what_they_are_give_no_step() -> None:
    history = History().launch(SELDOM)
    for number in range(1, 13):
        answer = look(history, lines=[hf_bar(number, 63)], without=ALONE)
        assert answer.the(CheckRecorded).progress is None


def test_a_start_over_its_allowance_that_one_source_tells_of_is_blind_not_hung() -> None:
    history = History().launch(SELDOM)
    found = [
        opened(look(history, lines=[f"words {number}"], without=ALONE)) for number in range(12)
    ]
    assert found == [[]] * 8 + [["monitor_blind"]] + [[]] * 3
    assert "not_training" not in history.run.health.findings
    answer = look(history, lines=["words"], without=ALONE)
    assert answer.the(CheckRecorded).health is Health.UNKNOWN


def test_a_loss_without_a_step_ends_the_start_and_a_further_one_moves() -> None:
    history = History().launch(SELDOM)
    first = look(history, lines=[hf_loss(1)], without=ALONE)
    assert live(first).phase is TrainingPhase.TRAINING
    for number in range(2, 13):
        answer = look(history, lines=[hf_loss(1), hf_loss(number)], without=ALONE)
        assert live(answer).phase is TrainingPhase.TRAINING
        assert quiet(answer) in ("moving", "tracker_silent")


def test_a_loss_that_no_other_follows_proves_neither_movement_nor_a_standstill() -> None:
    history = History().launch(SELDOM)
    for number in range(12):
        said = [hf_loss(1), f"words {number}"]
        answer = look(history, step=100, lines=said, without=("checkpoints",))
        # The tracker moves once, and stands from then on.
        assert quiet(answer) in (("", "monitor_blind") if number else ("moving",))
        assert "not_training" not in opened(answer)


def test_a_loss_of_a_try_that_failed_does_not_end_the_start_of_the_next() -> None:
    history = History().launch(SELDOM)
    look(history, lines=[hf_loss(1)], without=ALONE)
    for number in range(3):
        answer = look(
            history, lines=[hf_loss(1), f"words {number}"], without=ALONE, attempts_failed=1
        )
        assert live(answer).phase is TrainingPhase.INITIALISING
    answer = look(history, lines=[hf_loss(1), hf_loss(2)], without=ALONE, attempts_failed=1)
    assert live(answer).phase is TrainingPhase.TRAINING


def test_a_start_that_the_contract_allows_more_is_left_alone() -> None:
    history = History().launch(contract(live={"initialising": "3h"}))
    for _ in range(12):
        assert opened(look(history, **UP)) == []


def test_the_time_of_a_start_counts_from_the_last_time_that_it_was_seen_waiting() -> None:
    history = story(Stabilizing)
    for _ in range(12):
        look(history, job(JobState.PENDING))
    for _ in range(4):
        # Ray dates the start by the submit, two hours ago.
        assert opened(look(history, **UP)) == []


def test_the_job_s_own_gauge_of_its_phase_counts() -> None:
    history = trains()
    for _ in range(4):
        gauge = TelemetryFacts(at=history.now + CADENCE, phase=TrainingPhase.INITIALISING)
        answer = look(history, **STANDS, telemetry=gauge)
        assert (opened(answer), live(answer).phase) == ([], TrainingPhase.INITIALISING)


# --- First look ----------------------------------------------------------------------------------


def complaining(number: int, line: str) -> dict[str, Any]:
    """A hung run whose watchdog goes on complaining; its bar is rounded to 100 steps."""
    lines = [line, f"watchdog: still waiting, {number} min"]
    return {"step": 18_600, "lines": lines, "found": KEPT}


FAR = contract(
    checkpoints={"temporary_every": "", "permanent_every_steps": 100_000},
    final_step={"value": 119_000, "source": "config"},
)


def test_a_hang_at_the_first_look_is_told_by_the_pace_that_the_bar_prints() -> None:
    history = History().launch(FAR)
    line = bar("18.6kit/119kit")
    assert "s/it" in line
    found = [opened(look(history, **complaining(number, line))) for number in range(5)]
    assert found == [[], [], [], [], ["not_training"]]
    lines = history.run.health.findings["not_training"].evidence
    assert any("steps in the output: step ~18600" in one and "in a row" in one for one in lines)


def test_a_rounded_bar_without_any_pace_proves_no_standstill() -> None:
    history = History().launch(FAR)
    line = bar("18.6kit/119kit").replace("rate:4.3s/it", "rate:?s/it")
    found = [opened(look(history, **complaining(number, line))) for number in range(5)]
    assert found == [[], [], [], [], ["monitor_blind"]]


# --- Catch-up ------------------------------------------------------------------------------------


def resumed() -> History:
    """A run that resumed from step 1000 after it had reached step 2000."""
    history = story(Running, SELDOM)
    for step in (1500, 2000):
        look(history, step=step, lines=steps(step), found=KEPT)
    history.fail(node_lost(), step=2000, found=KEPT)
    return history.relaunch()


def test_a_tracker_that_is_silent_in_catch_up_is_no_standstill() -> None:
    history = resumed()
    for step in (1000, 1100, 1300, 1500, 1700, 1900):
        again = tracker(2000, heartbeat_at=history.now + CADENCE)
        answer = look(history, shown=again, lines=steps(step), found=KEPT)
        # The kit's loss is no curve: how it goes on after a resume is another detector's.
        assert set(opened(answer)) <= {"resume_loss"}
    assert quiet(answer) == "tracker_silent"
    assert "below step 2000" in live(answer).because


def test_a_hang_in_catch_up_is_no_proof_by_the_log_alone_and_is_told_as_blind() -> None:
    history = resumed()
    for step in (1000, 1100, 1100, 1100, 1100):
        again = tracker(2000, heartbeat_at=history.now + CADENCE)
        answer = look(history, shown=again, lines=steps(step), found=KEPT)
        assert "not_training" not in opened(answer)
    assert set(history.run.health.findings) - {"resume_loss"} == {"monitor_blind"}
    assert "confirmed only by logs" in live(answer).because


# --- Why is it quiet -----------------------------------------------------------------------------


def test_a_dark_log_pipe_is_no_trouble_of_the_run() -> None:
    history = trains()
    answers = [look(history, **{**STANDS, "step": step}) for step in (1150, 1200, 1250)]
    assert [opened(answer) for answer in answers] == [[], [], []]
    assert quiet(answers[-1]) == "log_pipe_dark"
    assert "its output is dark" in live(answers[-1]).because


def test_a_silent_tracker_is_no_trouble_of_the_run() -> None:
    history = trains()
    answers = [look(history, **{**STANDS, "lines": steps(step)}) for step in (1150, 1200, 1250)]
    assert [opened(answer) for answer in answers] == [[], [], []]
    assert quiet(answers[-1]) == "tracker_silent"


def test_a_job_that_waits_is_waiting_for_capacity() -> None:
    answer = look(story(Stabilizing), job(JobState.PENDING))
    assert quiet(answer) == "waiting_for_capacity"
    assert live(answer).phase is TrainingPhase.NOT_STARTED


def test_a_blind_monitor_is_told_once_and_never_makes_a_run_worse() -> None:
    history = trains()
    dark = ("tracker", "logs", "checkpoints")
    assert opened(look(history, without=dark)) == []
    answer = look(history, without=dark)
    found = answer.the(FindingOpened)
    assert (found.kind, found.rule, found.severity) == ("monitor_blind", "H1", Severity.NOTIFY)
    answer.without(EscalationRaised)
    assert answer.the(CheckRecorded).health is Health.UNKNOWN
    assert opened(look(history, without=dark)) == []
    seen = look(history, step=1200, lines=steps(1200), found=KEPT)
    assert cleared(seen) == ["monitor_blind"]
    assert seen.the(CheckRecorded).health is Health.HEALTHY


def test_no_word_on_the_job_is_blind_only_where_nothing_else_moves() -> None:
    history, kept = trains(), KEPT
    for step in (1150, 1200, 1250):
        assert opened(look(history, step=step, without=("orchestrator",), found=kept)) == []
    stands: dict[str, Any] = {"step": 1250, "without": ("orchestrator",), "found": kept}
    look(history, **stands)
    assert opened(look(history, **stands)) == ["monitor_blind"]


FACTS = st.fixed_dictionaries(
    {
        "step": st.one_of(st.none(), st.integers(0, 3000)),
        "lines": st.lists(
            st.sampled_from([*steps(1100), *steps(1200), "OwnerDiedError", "node died", "up"]),
            max_size=3,
        ),
        "wait": st.integers(1, 600).map(lambda minutes: minutes * MINUTE),
    }
)


@settings(deadline=None, max_examples=60)
@drawn(st.lists(FACTS, min_size=1, max_size=8), st.booleans())
def test_with_no_fresh_source_nothing_is_ever_hung_or_degraded(
    looks: list[dict[str, Any]], reached: bool
) -> None:
    history = story(Running)
    without = SOURCES[1:] if reached else SOURCES
    nodes = (NodeFacts(node="10.0.3.7", alive=False),)
    for facts in looks:
        answer = look(history, **facts, without=without, nodes=nodes, silent=("cluster",))
        assert not {"not_training", "degraded"} & set(opened(answer))
        assert not {"not_training", "degraded"} & set(history.run.health.findings)


@settings(deadline=None, max_examples=60)
@drawn(st.lists(st.tuples(st.integers(1, 60), st.booleans()), min_size=1, max_size=12))
def test_a_run_of_which_any_clock_moves_at_each_check_is_never_hung(
    looks: list[tuple[int, bool]],
) -> None:
    history = story(Running)
    shown, step = 1000, 1000
    for minutes, by_tracker in looks:
        step += 30
        shown = step if by_tracker else shown
        lines = steps(shown) if by_tracker else steps(step)
        answer = look(history, step=shown, lines=lines, wait=minutes * MINUTE, found=KEPT)
        assert "not_training" not in opened(answer)


# --- H16 -----------------------------------------------------------------------------------------

DEAD = NodeFacts(node="10.0.3.7", alive=False, reason="missed 3 heartbeats")
OWNER = "ray.exceptions.OwnerDiedError: Failed to retrieve object 00ff"


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"nodes": (DEAD,)}, "node 10.0.3.7 is dead: missed 3 heartbeats"),
        ({"capacity": CapacityFacts(unmet=('{"TPU": 4}',))}, "nothing serves"),
        ({"lines": [*steps(1100), OWNER]}, "OwnerDiedError"),
    ],
)
def test_h16_opens_when_no_step_comes_and_the_cluster_shows_why(
    facts: dict[str, Any], says: str
) -> None:
    history = trains()
    stands = {**STANDS, **facts, "without": ("tracker",)}
    for _ in range(3):
        answer = look(history, **stands, further=("cluster",))
        assert {one.rule for one in answer.all(DecisionMade)} <= {"R17"}
    found = history.run.health.findings["degraded"]
    assert (found.rule, found.severity) == ("H16", Severity.ALERT)
    assert says in found.summary
    again = look(history, step=1200, lines=steps(1200), found=KEPT)
    assert "degraded" in cleared(again)


def test_h16_needs_both_a_standstill_and_a_sign() -> None:
    history = trains()
    for step in (1150, 1200, 1250):
        answer = look(
            history, step=step, lines=steps(step), nodes=(DEAD,), further=("cluster",), found=KEPT
        )
        assert opened(answer) == []


def test_h16_does_not_count_a_node_that_died_before_the_launch() -> None:
    history = trains()
    old = DEAD.model_copy(update={"since": history.events[0].at - timedelta(days=3)})
    for _ in range(3):
        look(history, **STANDS, nodes=(old,), further=("cluster",))
    assert "degraded" not in history.run.health.findings


def test_h16_is_expected_by_a_planned_act() -> None:
    history = trains()
    history.tell(announce(history, "H16", "H3"))
    for _ in range(4):
        assert opened(look(history, **STANDS, nodes=(DEAD,), further=("cluster",))) == []


def test_h16_cannot_tell_without_an_answer_and_stays_open() -> None:
    history = trains()
    for _ in range(3):
        look(history, **STANDS, nodes=(DEAD,), further=("cluster",))
    assert "degraded" in history.run.health.findings
    assert cleared(look(history, without=SOURCES)) == []
    assert "degraded" in history.run.health.findings


# --- H13 -----------------------------------------------------------------------------------------

STOOD = Liveness(
    phase=TrainingPhase.TRAINING,
    quiet=Quiet.NOT_JUDGED,
    witnesses=(Witness(name="logs", moves=Moves.STOOD, step=9, checks=1),),
)
MOVING = Liveness(phase=TrainingPhase.TRAINING, quiet=Quiet.MOVING)


def looked(check: CheckRecorded, history: History | None = None) -> DetectorInput:
    known = history or story(Running)
    return DetectorInput(known.run, known.run.instances[-1], check, known.now)


def claim(label: str, confidence: float = 0.9, line: str = "the line") -> CauseClaim:
    return CauseClaim(
        label=label, signature="s", outlook=Outlook.ASK, confidence=confidence, line=line
    )


@pytest.mark.parametrize(
    ("claims", "liveness", "holds", "severity"),
    [
        (("hbm_oom",), STOOD, True, Severity.ALERT),
        (("hbm_oom",), MOVING, True, Severity.NOTIFY),
        (("network_storage_transient",), STOOD, True, Severity.NOTIFY),
        # Retried, and it went on.
        (("network_storage_transient",), MOVING, False, Severity.NOTIFY),
        (("benign",), STOOD, None, Severity.NOTIFY),
        (("unknown",), STOOD, None, Severity.NOTIFY),
        (("user_stopped",), STOOD, None, Severity.NOTIFY),
        ((), STOOD, None, Severity.NOTIFY),
        ((), MOVING, False, Severity.NOTIFY),
    ],
)
def test_h13_by_class_and_by_whether_steps_went_on(
    claims: tuple[str, ...], liveness: Liveness, holds: bool | None, severity: Severity
) -> None:
    check = check_of(claims=tuple(claim(label) for label in claims), liveness=liveness)
    answer = log_signature(looked(check))
    assert (answer.rule, answer.holds, answer.severity) == ("H13", holds, severity)


def test_h13_is_about_live_jobs_and_not_about_hints() -> None:
    ended = check_of(claims=(claim("hbm_oom"),), liveness=STOOD, job=job(JobState.FAILED))
    assert log_signature(looked(ended)).holds is None
    hint = check_of(claims=(claim("hbm_oom", 0.3),), liveness=STOOD)
    assert log_signature(looked(hint)).holds is None


@pytest.mark.parametrize(
    ("line", "loss", "holds"),
    [
        ("ppl: inf", 93.1, False),
        ("ppl: inf", math.inf, True),
        ("ppl: inf", None, True),
        ("ppl: nan", 2.4, True),
        ("ppl: inf grad_norm: inf", 2.4, True),
        ("grad_norm: inf", 2.4, True),
    ],
)
def test_h13_takes_an_infinite_perplexity_of_a_finite_loss_for_no_failure(
    line: str, loss: float | None, holds: bool
) -> None:
    said = claim("numerical_instability", line=line)
    metrics = {} if loss is None else {"train/loss": loss}
    check = check_of(claims=(said,), liveness=MOVING, metrics=metrics)
    assert log_signature(looked(check)).holds is holds


def test_h16_reads_claims_of_the_cluster() -> None:
    history = trains()
    stood = STOOD.model_copy(
        update={"witnesses": (Witness(name="logs", moves=Moves.STOOD, step=9, checks=2),)}
    )
    check = check_of(claims=(claim("node_failure", line="node lost"),), liveness=stood)
    answer = degraded(looked(check, history))
    assert (answer.holds, "node lost" in answer.summary) == (True, True)


# --- What is recorded ----------------------------------------------------------------------------


def test_a_check_keeps_what_the_verdict_rests_on_and_no_more() -> None:
    answer = look(trains(), **STANDS)
    told = live(answer)
    assert [one.name for one in told.witnesses] == [
        "logs",
        "output",
        "tracker",
        "checkpoints",
    ]
    assert len(told.model_dump_json()) < 2_000


def test_gauges_are_a_clock_from_when_a_run_first_has_them() -> None:
    history = trains()
    without = live(look(history, step=1200, lines=steps(1200)))
    assert "telemetry" not in [one.name for one in without.witnesses]
    shown = TelemetryFacts(step=1400, at=history.now + CADENCE)
    seen = live(look(history, step=1400, lines=steps(1400), telemetry=shown))
    gone = live(look(history, step=1600, lines=steps(1600)))
    assert [one.step for one in seen.witnesses if one.name == "telemetry"] == [1400]
    [kept] = [one for one in gone.witnesses if one.name == "telemetry"]
    assert (kept.moves, kept.step, kept.checks) == (Moves.SILENT, 1400, 1)


def test_a_new_instance_inherits_the_pace_and_nothing_else() -> None:
    history = trains()
    pace = live(look(history, step=1200, lines=steps(1200), found=KEPT)).rate
    assert pace is not None
    history.fail(node_lost(), step=1200, found=KEPT)
    first = live(look(history.relaunch(), shown=tracker(None), lines=["up"], found=KEPT))
    assert (first.rate, first.checks, first.phase) == (pace, 0, TrainingPhase.INITIALISING)


def test_readings_that_are_stale_are_no_witnesses() -> None:
    history = trains()
    old = tracker(1100, heartbeat_at=history.events[0].at - timedelta(days=1))
    for _ in range(3):
        answer = look(history, shown=old, lines=[], found=KEPT, without=("logs",))
        assert "not_training" not in opened(answer)
