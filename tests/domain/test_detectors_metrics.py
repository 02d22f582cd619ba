"""H4, H7, H8 and H9: what opens them, keeps them open and clears them, and what does not.

The tables say which metrics a cadence logs; everything goes through `decide`, check by check.
"""

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import SLUG, bar, fresh, node_lost, tracker
from tests.domain.test_handover import announcement
from tests.domain.training import (
    CADENCE,
    ROWS,
    Training,
    cleared,
    finding,
    kinds,
    measured,
    opened,
    training,
    wobble,
)
from tests.every_row import every_row
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.observation.sources import (
    MetricHistory,
    TelemetryFacts,
    TrainingPhase,
)

NAN = math.nan


def nowhere(step: int) -> float:
    """No number at all."""
    del step
    return NAN


def skips_often(step: int) -> float:
    """Every twentieth step."""
    return float(step % 20 == 0)


BAD: dict[str, tuple[str, dict[str, Any], int]] = {
    "throughput_collapse": ("H4", {"pace": 600_000.0}, 3),
    "not_finite": ("H7", {"loss": nowhere}, 1),
    "gradient_explosion": ("H7", {"gradient": 9.0}, 1),
    "z_loss_jump": ("H7", {"z_loss": 0.05}, 1),
    "router_collapse": ("H7", {"entropy": 0.4}, 1),
    "optimizer_instability": ("H7", {"skipped": skips_often}, 1),
    "loss_raised": ("H8", {"loss": 4.4}, 1),
}
"""By kind: its rule, what is logged when it is bad, and the cadences until it opens."""

GOOD: dict[str, Any] = {"z_loss": 0.001, "entropy": 2.0, "skipped": 0.0}
"""What is logged beside the usual where a fault needs it."""


def beside(values: dict[str, Any]) -> dict[str, Any]:
    """What is logged in a healthy cadence, except for what a test names."""
    return {**GOOD, **values}


def healthy(**changes: Any) -> Training:
    made = training(0, **changes)
    made.cadences(8, **GOOD)
    assert made.open == set()
    return made


def bad(kind: str) -> dict[str, Any]:
    return {**GOOD, **BAD[kind][1]}


# --- One table for all of them -------------------------------------------------------------------


@pytest.mark.parametrize("kind", BAD)
def test_it_opens_once_stays_while_it_holds_and_clears_when_it_is_over(kind: str) -> None:
    rule, _, wait = BAD[kind]
    run = healthy()
    answers = run.cadences(wait, **bad(kind))
    assert [opened(answer) for answer in answers] == [[]] * (wait - 1) + [[kind]]
    found = finding(answers[-1])
    assert found.rule == rule
    assert found.severity is (Severity.NOTIFY if rule == "H4" else Severity.ALERT)
    assert len(answers[-1].all(EscalationRaised)) == (0 if rule == "H4" else 1)
    assert found.summary
    assert found.evidence
    for answer in run.cadences(3, **bad(kind)):
        assert (opened(answer), cleared(answer)) == ([], [])
    ends = [cleared(answer) for answer in run.cadences(4, **GOOD)]
    assert [one for end in ends for one in end] == [kind]
    # It does not come back by itself.
    assert all(opened(answer) == [] for answer in run.cadences(3, **GOOD))


@pytest.mark.parametrize("kind", BAD)
def test_a_planned_act_that_expects_it_is_named_and_opens_nothing(kind: str) -> None:
    rule, _, wait = BAD[kind]
    run = healthy()
    run.history.tell(
        announcement(run.history, expects=(rule,), ends_at=run.history.now + 20 * CADENCE)
    )
    answers = run.cadences(wait, **bad(kind))
    assert opened(answers[-1]) == []
    assert any(rule in one for one in answers[-1].the(CheckRecorded).expected)


@pytest.mark.parametrize("kind", BAD)
def test_without_the_source_nothing_opens_and_nothing_clears(kind: str) -> None:
    wait = BAD[kind][2]
    run = healthy()
    for _ in range(wait):
        assert opened(run.cadence(gone=("history", "tracker"), **bad(kind))) == []
    run = healthy()
    run.cadences(wait, **bad(kind))
    assert run.open == {kind}
    for _ in range(3):
        answer = run.cadence(gone=("history", "tracker"), **GOOD)
        assert cleared(answer) == []
    assert run.open == {kind}


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind not in ("not_finite",)])
def test_nothing_but_a_nan_is_found_in_warm_up(kind: str) -> None:
    run = training(0, detect={"warmup_steps": 5_000})
    run.cadences(4, **GOOD)
    found = [opened(answer) for answer in run.cadences(2, **bad(kind))]
    assert found == [[], []]


def test_a_nan_is_found_in_warm_up() -> None:
    run = training(0, detect={"warmup_steps": 5_000})
    run.cadence(**GOOD)
    assert opened(run.cadence(loss=lambda _: NAN)) == ["not_finite"]


@pytest.mark.parametrize(
    "kind", ["gradient_explosion", "z_loss_jump", "router_collapse", "loss_raised"]
)
def test_steps_that_are_trained_again_raise_no_alarm(kind: str) -> None:
    run = healthy()
    run.resume(run.step - 300)
    for answer in run.cadences(2, **bad(kind)):
        assert measured(answer).catching_up
        assert kind not in opened(answer)
    # Past the high-water mark it is judged again.
    answers = run.cadences(2, **bad(kind))
    assert kind in opened(answers[0]) + opened(answers[1])


@pytest.mark.parametrize("kind", BAD)
def test_the_verdict_can_be_repeated_from_events_alone(kind: str) -> None:
    run = healthy()
    answer = run.cadences(BAD[kind][2], **bad(kind))[-1]
    again = Run(SLUG)
    for event in run.history.events:
        folded = evolve(again, event)
        assert isinstance(folded, Run)
        again = folded
    # The evidence is nowhere in these events, and the state that judges is the same.
    assert again == run.history.run
    assert opened(answer) == [kind]


# --- H4: throughput ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "found"),
    [
        ([600_000.0] * 3, True),
        ([740_000.0] * 3, True),
        ([760_000.0] * 3, False),
        ([600_000.0] * 2, False),
        ([600_000.0, 600_000.0, 1_000_000.0, 600_000.0], False),
        ([600_000.0, 1_000_000.0] * 4, False),
    ],
)
def test_h4_asks_for_a_quarter_less_in_three_cadences_in_a_row(
    levels: list[float], found: bool
) -> None:
    run = healthy()
    seen = [opened(run.cadence(pace=level)) for level in levels]
    assert (["throughput_collapse"] in seen) is found


def test_h4_passes_over_slow_steps_evaluations_and_checkpoints() -> None:
    run = healthy()

    def dips(step: int) -> float:
        return 2e5 if step % 10 < 4 else 1e6 * wobble(step)

    assert kinds(run.cadences(8, pace=dips)) == []


def test_h4_of_a_time_for_each_step_is_turned_round() -> None:
    run = training(0)
    slow: dict[str, Any] = {"pace": None, "step_time": 2.0}
    run.cadences(8, pace=None, step_time=1.0)
    answers = run.cadences(3, **slow)
    assert opened(answers[-1]) == ["throughput_collapse"]
    lines = " ".join(finding(answers[-1]).evidence)
    assert "step_time: baseline 1" in lines


def test_h4_without_a_throughput_takes_the_pace_of_the_steps() -> None:
    run = training(0)
    run.cadences(8, pace=None)
    found = [opened(run.log(ROWS // 2, pace=None).check()) for _ in range(3)]
    assert found == [[], [], ["throughput_collapse"]]


def test_h4_says_nothing_while_the_job_says_that_it_initialises() -> None:
    run = healthy()
    run.telemetry = TelemetryFacts(phase=TrainingPhase.INITIALISING)
    assert all(opened(answer) == [] for answer in run.cadences(4, pace=600_000.0))


def test_h4_after_a_resume_is_told_from_the_pace_before() -> None:
    run = healthy().resume(700)
    seen = kinds(run.cadences(5, pace=600_000.0))
    assert "throughput_collapse" in seen


def test_h4_follows_the_contract() -> None:
    run = training(8, detect={"throughput_drop": 0.5, "throughput_cadences": 1})
    assert opened(run.cadence(pace=600_000.0)) == []
    assert opened(run.cadence(pace=400_000.0)) == ["throughput_collapse"]


# --- H7: instability -----------------------------------------------------------------------------


def test_h7_tells_at_once_of_one_nan_that_is_over_already() -> None:
    run = healthy()

    def once(step: int) -> float:
        return NAN if step == 840 else 2.5 * wobble(step)

    answer = run.cadence(**beside({"loss": once}))
    assert opened(answer) == ["not_finite"]
    assert "step 840" in finding(answer).summary
    assert cleared(run.cadence(**GOOD)) == ["not_finite"]


def test_h7_reads_a_nan_from_the_output_before_the_tracker_shows_it() -> None:
    run = healthy()
    answer = run.log().check(lines=["step=900 loss=2.5", "step=901 loss=nan"])
    assert opened(answer) == ["not_finite"]
    assert "in the output" in finding(answer).evidence[0]


@pytest.mark.parametrize(
    "block",
    [
        ["[batch=901/4800]:", "\t Train time/batch: 901", "\t Train loss/train/total: nan"],
        ["INFO [step=901/4800,epoch=0]", "    train/CrossEntropyLoss=nan"],
    ],
    ids=["Composer", "OLMo"],
)
def test_h7_reads_a_nan_whose_step_stands_above_it(block: list[str]) -> None:
    run = healthy()
    answer = run.log().check(lines=block)
    assert opened(answer) == ["not_finite"]
    assert "901" in finding(answer).summary


MEGATRON = " iteration {}/ 5000 | lm loss: {} | loss scale: {} | grad norm: {} |{}"


@every_row(
    ("lines", "metric"),
    [
        (["{'loss': nan, 'grad_norm': 1.2, 'epoch': 0.1}"], "loss"),
        (["{'loss': 0.0, 'grad_norm': nan, 'epoch': 0.1}"], "grad_norm"),
        (["{'loss': 2.3, 'grad_norm': 1.2, 'epoch': 0.1}"], ""),
        (["{'eval_loss': nan, 'epoch': 0.1}"], ""),
        ([MEGATRON.format(901, 2.5, 1.0, "nan", "")], "grad_norm"),
        ([MEGATRON.format(901, 2.5, "1.0E+00", "inf", "")], "grad_norm"),
        ([MEGATRON.format(901, 2.5, 65536.0, "inf", "")], ""),
        ([MEGATRON.format(901, "nan", 65536.0, "inf", "")], "loss"),
        ([MEGATRON.format(901, 2.5, 1.0, "inf", " number of skipped iterations: 1 |")], ""),
        ([MEGATRON.format(901, 2.5, 1.0, 1.2, " number of nan iterations: 0 |")], ""),
        (["OVERFLOW! Skipping step", "step=901 loss=2.5 grad_norm=inf"], ""),
        (["loss=nan"], "loss"),
        (["2026-11-21 12:00:00 WARNING train_loss: NaN"], "loss"),
        (["[1300] loss=NaN"], "loss"),
        (["Loss: -nan"], "loss"),
        (["best loss: inf"], ""),
        (["best_loss=nan"], ""),
        (["validation loss: nan"], ""),
        (["eval/loss=nan"], ""),
        (["loss: nanometre"], ""),
        (["loss=nanmean"], ""),
    ],
)
def test_h7_reads_what_frameworks_print_as_no_number(lines: list[str], metric: str) -> None:
    run = healthy()
    answer = run.log().check(lines=lines)
    numbers = [found for found in opened(answer) if found == "not_finite"]
    assert numbers == (["not_finite"] if metric else [])
    measured = answer.the(CheckRecorded).measured.not_finite
    assert [one.metric for one in measured][:1] == ([metric] if metric else [])


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("Loss is nan, stopping", 900),
        ("loss is NaN at step 901", 901),
        ("loss is NaN at step 3", 900),
        ("step 902: loss is nan", 902),
        ("Non-finite loss, exiting", 900),
    ],
)
def test_h7_reads_a_sentence_that_says_that_the_loss_is_none(line: str, step: int) -> None:
    run = healthy()
    answer = run.log().check(lines=["step=900 loss=2.5", line])
    assert opened(answer) == ["not_finite"]
    (found,) = answer.the(CheckRecorded).measured.not_finite
    assert (found.metric, found.last_step, found.line) == ("loss", step, True)
    assert f"the output says: {line}" in finding(answer).evidence
    # It is told once; the numbers after it are counted.
    assert opened(run.log().check(lines=["step=900 loss=2.5", line])) == []
    again = [line, *(f"step={step} loss=2.5" for step in range(903, 933))]
    assert cleared(run.log().check(lines=again)) == ["not_finite"]


@pytest.mark.parametrize(
    "line",
    [
        "0 nan iterations",
        "skipping step, loss is inf, reducing loss scale",
        "checking for NaN",
        "nan_guard enabled",
        "loss is not nan",
        "validation loss is nan",
        "step 901 eval: loss is nan",
        "will stop if the loss is nan",
    ],
)
def test_h7_reads_no_sentence_that_only_speaks_of_it(line: str) -> None:
    run = healthy()
    answer = run.log().check(lines=["step=900 loss=2.5", line, "step=901 loss=2.5"])
    assert opened(answer) == []
    assert answer.the(CheckRecorded).measured.not_finite == ()


@pytest.mark.parametrize("level", ["INFO ", "I ", ""])
def test_h7_counts_the_numbers_after_a_nan_whatever_the_level_of_their_lines(level: str) -> None:
    run = healthy()
    bad = f"{level}step=901 loss=nan"
    assert opened(run.log().check(lines=[bad])) == ["not_finite"]
    later = [f"{level}step={step} loss=2.5" for step in range(902, 980)]
    assert cleared(run.log().check(lines=[bad, *later])) == ["not_finite"]


def printed(begin: int, end: int) -> list[str]:
    return [f"step={step} loss=2.5" for step in range(begin, end)]


def losses(check: int, count: int) -> list[str]:
    return [
        f"{{'loss': 2.{check}{at}, 'grad_norm': 1.0, 'epoch': 0.{check}}}" for at in range(count)
    ]


def bare(count: int) -> list[str]:
    return [f"loss=2.{at:02}" for at in range(count)]


NO_TRACKER = ("history", "tracker")


@every_row("gone", [NO_TRACKER, ("history",), ()], ids=["no tracker", "values", "all"])
@every_row(
    ("tails", "last"),
    [
        ([["step=901 loss=nan", *printed(902, 902 + count)] for count in (5, 29, 30)], 3),
        ([printed(902, 902 + count) for count in (5, 29, 30)], 3),
        ([printed(902 + 10 * at, 912 + 10 * at) for at in range(3)], 3),
        ([printed(1500, 1530)], 1),
    ],
    ids=["it is still shown", "it left the tail", "ten at each check", "many"],
)
def test_h7_holds_a_printed_nan_until_30_lines_are_numbers(
    tails: list[list[str]], last: int, gone: tuple[str, ...]
) -> None:
    run = Training(History().launch())
    run.log().check(gone=gone, lines=printed(890, 901))
    told = [run.log().check(gone=gone, lines=["step=901 loss=nan"])]
    assert opened(told[0]) == ["not_finite"]
    assert "in the output" in finding(told[0]).evidence[0]
    seen = [cleared(run.log().check(gone=gone, lines=tail)) for tail in tails]
    assert seen == [[]] * (last - 1) + [["not_finite"]]


def test_h7_holds_a_printed_nan_while_the_output_says_nothing() -> None:
    run = Training(History().launch())
    run.log().check(gone=NO_TRACKER, lines=["step=901 loss=nan"])
    for tail in ([], ["a line"], [], ["a line"]):
        assert cleared(run.log().check(gone=NO_TRACKER, lines=tail)) == []
    assert cleared(run.log().check(gone=NO_TRACKER, lines=printed(902, 932))) == ["not_finite"]


def test_h7_counts_losses_without_a_step_once_they_pushed_the_nan_out_of_the_tail() -> None:
    run = Training(History().launch())
    gone = {"gone": NO_TRACKER}
    assert opened(run.log().check(lines=["{'loss': nan, 'epoch': 0.1}"], **gone)) == ["not_finite"]
    assert cleared(run.log().check(lines=losses(1, 9), **gone)) == []
    assert cleared(run.log().check(lines=[], **gone)) == []
    assert cleared(run.log().check(lines=losses(2, 29), **gone)) == []
    assert cleared(run.log().check(lines=losses(3, 30), **gone)) == ["not_finite"]


def test_h7_forgets_a_printed_nan_that_is_trained_again() -> None:
    run = Training(History().launch())
    run.log().check(gone=NO_TRACKER, lines=["step=901 loss=nan"])
    assert cleared(run.log().check(gone=NO_TRACKER, lines=printed(700, 710))) == ["not_finite"]


@pytest.mark.parametrize("step", [None, 901], ids=["no step", "a step"])
def test_h7_clears_a_printed_nan_beside_a_tracker_that_shows_no_metric(step: int | None) -> None:
    run = Training(History().launch())
    seen: list[list[str]] = []
    for at, tail in enumerate((["loss=2.41"], ["loss=2.41", "loss=nan"], *[bare(40)] * 2, [])):
        run.log()
        shown = tracker(step and step + at, heartbeat_at=run.history.now, metrics={})
        answer = run.check(gone=("history",), lines=tail, shown=shown)
        seen.append([f"opened {kind}" for kind in opened(answer)] + cleared(answer))
    assert seen == [[], ["opened not_finite"], ["not_finite"], [], []]


def test_h7_holds_a_nan_of_the_tracker_while_it_shows_no_metric() -> None:
    run = Training(History().launch())
    quiet = {"gone": ("history",)}
    bad = tracker(run.log().step, heartbeat_at=run.history.now, metrics={"train/loss": NAN})
    assert opened(run.check(shown=bad, **quiet)) == ["not_finite"]
    for _ in range(4):
        shown = tracker(run.log().step, heartbeat_at=run.history.now, metrics={})
        assert cleared(run.check(shown=shown, lines=bare(40), **quiet)) == []


AHEAD = ["step=900 loss=2.5", "Loss is NaN at iteration 5000"]


@pytest.mark.parametrize(
    "gone", [NO_TRACKER, ("history",), ()], ids=["no tracker", "values", "all"]
)
def test_h7_holds_a_nan_whose_sentence_names_a_step_ahead_of_the_run(gone: tuple[str, ...]) -> None:
    run = Training(History().launch())
    run.log().check(gone=gone, lines=printed(890, 901))
    assert opened(run.log().check(gone=gone, lines=AHEAD)) == ["not_finite"]
    tails = [printed(901 + 10 * at, 911 + 10 * at) for at in range(3)]
    seen = [cleared(run.log().check(gone=gone, lines=tail)) for tail in tails]
    assert seen == [[], [], ["not_finite"]]


def test_h7_holds_such_a_nan_where_the_output_is_behind_the_tracker() -> None:
    run = healthy()
    behind = {"gone": ("history",)}
    told = run.log().check(lines=[f"step={run.step - 50} loss=2.5", AHEAD[1]], **behind)
    assert opened(told) == ["not_finite"]
    later = printed(run.step - 40, run.step - 30)
    assert cleared(run.log().check(lines=later, **behind)) == []


def test_h7_forgets_such_a_nan_that_is_trained_again() -> None:
    run = Training(History().launch())
    run.log().check(gone=NO_TRACKER, lines=AHEAD)
    assert cleared(run.log().check(gone=NO_TRACKER, lines=printed(700, 710))) == ["not_finite"]


def test_h7_reads_a_nan_from_the_tracker_s_newest_values_alone() -> None:
    run = healthy()
    run.log()
    shown = tracker(run.step, heartbeat_at=run.history.now, metrics={"loss": NAN})
    assert opened(run.check(gone=("history",), shown=shown)) == ["not_finite"]


def test_h7_reads_a_nan_from_a_tracker_that_shows_no_step() -> None:
    run = Training(History().launch())
    quiet = {"gone": ("history", "logs")}
    bare = [tracker(None, heartbeat_at=run.log().history.now, metrics={"train/loss": NAN})]
    answer = run.check(shown=bare[0], **quiet)
    assert opened(answer) == ["not_finite"]
    assert finding(answer).summary == "train/loss is not a finite number"
    assert finding(answer).evidence == (
        "train/loss is NaN or infinite at the tracker: nothing shows its step; still so at its "
        "newest point",
    )
    # No answer is not a number again.
    gone = run.log().check(gone=("history", "logs", "tracker"))
    assert cleared(gone) == []
    well = [
        run.check(
            shown=tracker(None, heartbeat_at=run.log().history.now, metrics={"train/loss": 2.5}),
            **quiet,
        )
        for _ in range(3)
    ]
    assert [cleared(one) for one in well] == [[], [], ["not_finite"]]


def test_h7_places_values_without_a_step_at_the_one_that_the_output_shows() -> None:
    run = Training(History().launch())
    shown = tracker(None, heartbeat_at=run.log().history.now, metrics={"grad_norm": math.inf})
    answer = run.check(gone=("history",), shown=shown, lines=["step=901 loss=2.5"])
    assert opened(answer) == ["not_finite"]
    assert finding(answer).summary == "grad_norm is not a finite number since step 901"


def test_h7_reads_a_nan_that_the_history_does_not_hold_yet() -> None:
    run = healthy()
    shown = tracker(run.step + 5, heartbeat_at=run.history.now, metrics={"loss": NAN})
    assert opened(run.check(shown=shown)) == ["not_finite"]


@pytest.mark.parametrize(
    ("gauges", "kinds"),
    [
        ({"train_loss": NAN}, ["not_finite"]),
        ({"grad_norm": math.inf}, ["not_finite"]),
        ({"eval_loss": NAN}, []),
        ({"learning_rate": NAN}, []),
        ({"grad_norm": math.inf, "loss_scale": 65536.0}, []),
    ],
)
def test_h7_reads_the_job_s_own_gauges(gauges: dict[str, float], kinds: list[str]) -> None:
    run = Training(History().launch())
    run.log()
    run.telemetry = TelemetryFacts(at=run.history.now, values=gauges)
    answer = run.check(gone=("history", "tracker"))
    assert opened(answer) == kinds
    if kinds:
        assert "by the job's own gauge" in finding(answer).evidence[0]


@pytest.mark.parametrize(
    "told",
    [
        {"phase": TrainingPhase.INITIALISING, "values": {"train_loss": NAN}},
        {"at": None, "phase": TrainingPhase.NOT_STARTED, "values": {"train_loss": NAN}},
    ],
)
def test_h7_believes_no_gauge_before_training(told: dict[str, Any]) -> None:
    run = Training(History().launch())
    run.log()
    run.telemetry = TelemetryFacts.model_validate({"at": run.history.now, **told})
    assert opened(run.check(gone=("history", "tracker", "logs"))) == []


def test_h7_believes_no_gauge_whose_sample_is_old() -> None:
    run = Training(History().launch())
    run.telemetry = TelemetryFacts(at=run.history.now, values={"train_loss": NAN})
    run.log(over=timedelta(minutes=11))
    assert opened(run.check(gone=("history", "tracker"))) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tokens_per_second", ["throughput_collapse"]),
        ("train_step_time_seconds", ["throughput_collapse"]),
        ("disk_read_throughput_bytes_per_second", []),
        ("learning_rate", []),
    ],
)
def test_h4_goes_by_a_gauge_that_is_named_as_a_throughput(name: str, found: list[str]) -> None:
    run = Training(History().launch())
    kinds = list[str]()
    for number in range(16):
        run.log()
        slow = number > 9
        pace = (2.0 if slow else 1.0) if "time" in name else (5e5 if slow else 1e6)
        run.telemetry = TelemetryFacts(
            at=run.history.now, phase=TrainingPhase.TRAINING, values={name: pace}
        )
        kinds += opened(run.check(gone=("history", "tracker", "logs")))
    assert kinds == found


def test_h7_does_not_blame_a_new_instance_for_the_nan_of_the_one_before() -> None:
    run = healthy()
    run.cadence(loss=lambda _: NAN)
    run.history.later(timedelta(seconds=60))
    # Numbers that went wrong are never relaunched by a rule: a human answers so.
    run.resume(700, answered=True)
    assert all("not_finite" not in opened(answer) for answer in run.cadences(4))


def test_h7_passes_over_an_evaluation_that_is_no_number() -> None:
    run = healthy()
    assert opened(run.cadence(**beside({"eval/loss": nowhere}))) == []


@pytest.mark.parametrize(("count", "found"), [(1, False), (2, False), (9, False), (10, True)])
def test_h7_asks_for_ten_steps_in_a_row(count: int, found: bool) -> None:
    run = healthy()

    def exploded(step: int) -> float:
        return 9.0 if 840 <= step < 840 + count else 0.3

    answer = run.cadence(**beside({"gradient": exploded}))
    assert (opened(answer) == ["gradient_explosion"]) is found


def test_h7_takes_a_limit_of_the_contract_for_gradient_norms() -> None:
    run = training(8, detect={"warmup_steps": 100, "grad_norm_max": 2.0})
    assert opened(run.cadence(gradient=1.9)) == []
    assert opened(run.cadence(gradient=2.2)) == ["gradient_explosion"]


@pytest.mark.parametrize(("count", "found"), [(1, False), (2, False), (3, True)])
def test_h7_counts_skipped_steps_over_a_quarter_of_an_hour(count: int, found: bool) -> None:
    run = healthy()

    def skip(step: int) -> float:
        return float(820 <= step < 820 + count)

    answer = run.cadence(**beside({"skipped": skip}))
    assert (opened(answer) == ["optimizer_instability"]) is found


def test_h7_counts_a_running_total_of_skipped_steps_by_its_rise() -> None:
    run = training(0)
    run.cadences(4, skipped=lambda _: 7.0)
    assert opened(run.cadence(skipped=lambda step: 7.0 + (step > 450))) == []
    assert opened(run.cadence(skipped=lambda step: 8.0 + 4 * (step > 550))) == [
        "optimizer_instability"
    ]


def test_h7_takes_one_overflow_of_float16_for_a_skipped_step() -> None:
    run = training(0)
    run.cadences(6, scale=65_536.0)

    def once(step: int) -> float:
        return math.inf if step == 650 else 0.3

    assert opened(run.cadence(scale=65_536.0, gradient=once)) == []

    def often(step: int) -> float:
        return math.inf if step % 30 == 0 else 0.3

    assert opened(run.cadence(scale=65_536.0, gradient=often)) == ["optimizer_instability"]


# --- H8: the loss --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "count", "found"),
    [
        (3.7, 100, False),
        (3.85, 10, True),
        (3.85, 9, False),
        (25.0, 1, False),
        (25.0, 9, False),
        (4.4, 100, True),
    ],
)
def test_h8_asks_for_half_more_in_ten_steps_in_a_row(level: float, count: int, found: bool) -> None:
    run = healthy()

    def raised(step: int) -> float:
        return level if 850 <= step < 850 + count else 2.5 * wobble(step)

    assert (opened(run.cadence(**beside({"loss": raised}))) == ["loss_raised"]) is found


def test_h8_says_where_how_long_and_how_far() -> None:
    run = healthy()
    found = finding(run.cadence(**beside({"loss": 4.4})))
    assert "about 100 steps" in found.summary
    assert "expected 2.5" in found.summary
    lines = "\n".join(found.evidence)
    assert "from step 801 to 900" in lines
    assert "limit 3.75" in lines
    assert "from the tracker's history, a point a step" in lines


CALM: dict[str, Callable[[int], float]] = {
    "plateau": lambda step: 2.5 * wobble(step, 0.001),
    "restarts": lambda step: 2.5 * (1 + 0.2 * math.exp(-(step % 300) / 60)),
    "steep": lambda step: 2.5 + 8 * math.exp(-step / 400),
    "near zero": lambda step: 1e-4 * wobble(step, 0.9),
    "negative": lambda step: -1.5 * wobble(step, 0.05),
    "about zero": lambda step: 0.02 * wobble(step, 1.0),
}


@pytest.mark.parametrize("curve", CALM)
def test_h8_leaves_what_is_usual_alone(curve: str) -> None:
    run = training(0)
    assert kinds(run.cadences(14, loss=CALM[curve])) == []


@pytest.mark.parametrize("before", [-1.5, 0.01])
def test_h8_finds_a_rise_of_a_loss_that_is_negative_or_small(before: float) -> None:
    run = training(0)
    run.cadences(6, loss=before)
    assert opened(run.cadence(loss=before + 2 * abs(before))) == ["loss_raised"]


def test_h8_sees_a_slow_divergence() -> None:
    run = training(0)

    def slow(step: int) -> float:
        return 2.5 * (1 + max(0, step - 500) / 1_200)

    found = kinds(run.cadences(14, loss=slow))
    assert found == ["loss_raised"]


def test_h8_asks_for_fewer_points_where_not_every_step_is_logged() -> None:
    run = training(0)

    def tenth(level: float) -> None:
        run.log(10, loss=level)
        run.rows[-10:] = [(step * 10, at, row) for step, at, row in run.rows[-10:]]

    for _ in range(8):
        tenth(2.5)
        run.check()
    tenth(4.4)
    found = finding(run.check())
    assert found.kind == "loss_raised"
    assert "3 are asked for" in "\n".join(found.evidence)


def test_h8_reads_the_checks_own_values_where_nobody_has_a_history() -> None:
    run = training(0)
    for _ in range(24):
        assert opened(run.log().check(gone=("history",))) == []
    seen = [opened(run.log(loss=4.4).check(gone=("history",))) for _ in range(3)]
    assert seen == [[], [], ["loss_raised"]]


def test_h8_of_hero_runs_reports_a_shift_of_the_floor() -> None:
    run = training(0, lane="hero", watch={"holder": "watchkeeper", "cadence": "570s"})
    run.cadences(10)
    answer = run.cadence(loss=2.8)
    assert opened(answer) == ["loss_shift"]
    assert "the 55 min before was 2.5" in finding(answer).summary
    assert all(cleared(answer) == [] for answer in run.cadences(2, loss=2.8))
    assert ["loss_shift"] in [cleared(answer) for answer in run.cadences(2)]
    assert all(opened(one) == [] for one in training(10).cadences(2, loss=2.8))


# --- H9: resumes ---------------------------------------------------------------------------------


def resumed(after: float | Callable[[int], float], cadences: int = 2, **changes: Any) -> Training:
    """A second instance trains the last 300 steps again, and 100 more with each cadence."""
    run = training(10, **changes)
    run.resume(run.step - 300)
    return run if cadences == 0 else _go_on(run, after, cadences)


def _go_on(run: Training, after: float | Callable[[int], float], cadences: int) -> Training:
    run.cadences(cadences, loss=after)
    return run


@pytest.mark.parametrize(
    ("apart", "found"),
    [(0.0, False), (0.001, False), (0.0019, False), (0.0025, True), (0.3, True), (-0.01, True)],
)
def test_h9_compares_the_losses_of_the_same_steps(apart: float, found: bool) -> None:
    run = resumed(lambda step: 2.5 * wobble(step) + apart)
    assert ("resume_loss" in run.open) is found


def test_h9_says_which_step_differs_and_by_how_much() -> None:
    run = resumed(0, 0)
    answer = run.cadence(loss=lambda step: 2.5 * wobble(step) + (0.01 if step == 750 else 0))
    found = finding(answer)
    assert (found.rule, found.kind) == ("H9", "resume_loss")
    assert "step 750" in found.summary
    assert "0.01" in found.summary
    assert "100 steps logged before and after" in found.evidence[0]


def test_h9_clears_when_like_steps_agree_again() -> None:
    run = resumed(0, 0)
    run.cadence(loss=lambda step: 2.5 * wobble(step) + (0.01 if step < 720 else 0))
    assert "resume_loss" in run.open
    assert cleared(run.cadence()) == ["resume_loss"]


def test_h9_finds_an_offset_that_persists_after_the_resume() -> None:
    run = training(10)
    # Nothing is trained again: the checkpoint was the newest step.
    run.resume(run.step)
    found = kinds(run.cadences(4, loss=2.5 * 1.03))
    assert found == ["resume_loss"]
    assert "3 % above" in run.history.run.health.findings["resume_loss"].summary


def test_h9_leaves_an_offset_within_a_hundredth_alone() -> None:
    run = training(10)
    run.resume(run.step)
    assert kinds(run.cadences(6, loss=2.5 * 1.005)) == []


@pytest.mark.parametrize(
    "detect",
    [{"resume_differs": "expected"}, {"resume_overlap": 0.02}, {"resume_planned": 0.01}],
)
def test_h9_follows_what_was_agreed(detect: dict[str, Any]) -> None:
    run = resumed(lambda step: 2.5 * wobble(step) + 0.01, detect={"warmup_steps": 100, **detect})
    assert "resume_loss" not in run.open


def test_h9_respects_a_planned_act() -> None:
    run = resumed(0, 0)
    run.history.tell(
        announcement(run.history, expects=("H9",), ends_at=run.history.now + 20 * CADENCE)
    )
    answers = run.cadences(2, loss=2.6)
    assert all(opened(answer) == [] for answer in answers)
    assert any("H9" in one for one in answers[0].the(CheckRecorded).expected)


def test_h9_reads_the_output_where_the_tracker_takes_no_step_twice() -> None:
    run = resumed(0, 0)
    high, kept = run.step + 300, list(run.rows)
    run.log(loss=lambda step: 2.5 * wobble(step) + 0.01)
    lines = [f"step={step} loss={row['train/loss']:.4f}" for step, _, row in run.rows[-50:]]
    run.rows = kept
    shown = tracker(high, heartbeat_at=run.history.now, metrics={"loss": 2.5})
    answer = run.check(lines=lines, shown=shown)
    assert measured(answer).catching_up
    assert opened(answer) == ["resume_loss"]


def test_h9_allows_for_what_rounding_took_from_a_printed_loss() -> None:
    run = resumed(0, 0)
    kept = list(run.rows)
    run.log(loss=lambda step: 2.5 * wobble(step) + 0.001)
    lines = [f"step={step} loss={row['train/loss']:.2f}" for step, _, row in run.rows[-50:]]
    run.rows = kept
    assert opened(run.check(lines=lines)) == []


def test_h9_has_a_reference_where_the_tracker_begins_anew() -> None:
    run = resumed(0, 0)
    run.rows.clear()
    answer = run.cadence(loss=lambda step: 2.5 * wobble(step) + 0.01)
    assert opened(answer) == ["resume_loss"]


def test_h9_without_an_answer_says_nothing() -> None:
    run = resumed(0, 0)
    assert opened(run.cadence(gone=("history", "tracker"), loss=2.6)) == []


# --- What a check keeps --------------------------------------------------------------------------


def test_a_check_s_measures_are_bounded() -> None:
    run = healthy()
    check = run.cadence(**GOOD).the(CheckRecorded)
    assert len(check.measured.model_dump_json()) < 2_500
    assert len(check.measured.losses) <= 32
    assert len(run.history.run.watch.losses) <= 512


def test_a_tracker_s_history_that_is_unavailable_is_not_used() -> None:
    run = healthy()
    command = run.log(loss=4.4).history.check_command(step=run.step)
    seen = command.observation.model_copy(
        update={
            "history": run.told(),
            "readings": (
                *command.observation.readings,
                fresh("history").model_copy(update={"state": SourceState.UNAVAILABLE}),
            ),
        }
    )
    told = run.history.when(command.model_copy(update={"observation": seen}))
    assert measured(told).source != "history"


@pytest.mark.parametrize(
    "told",
    [
        MetricHistory(),
        MetricHistory(steps=(5,), columns={"loss": (2.0,)}),
        MetricHistory(steps=(5, 6), columns={}),
        MetricHistory(steps=(5, 5, 5), columns={"loss": (NAN, NAN, NAN)}),
        MetricHistory(steps=(9, 3), times=(5.0, 1.0), columns={"loss": (2.0, math.inf)}),
        MetricHistory(steps=(1,), columns={"loss": (NAN,)}, not_finite={"loss": (1,), "x": (2,)}),
        MetricHistory(steps=(1, 2), times=(0.0, 0.0), columns={"tokens_per_sec": (0.0, 0.0)}),
        MetricHistory(steps=(1, 2), times=(0.0, 1.0), columns={"step_time": (0.0, -1.0)}),
    ],
)
def test_odd_histories_are_read_without_trouble(told: MetricHistory) -> None:
    run = training(0)
    run.history.later(CADENCE)
    command = run.history.check_command(lines=[bar("1.86kit/2.38kit")])
    seen = command.observation.model_copy(update={"history": told})
    for _ in range(2):
        run.history.tell(command.model_copy(update={"observation": seen})).the(CheckRecorded)
        run.history.later(CADENCE)


def test_a_lost_node_keeps_the_reference_for_the_next_instance() -> None:
    run = training(4)
    run.history.fail(node_lost(), wait=timedelta(seconds=30))
    before = run.history.run.watch.losses
    assert before
    assert all(one.stretch == ("i1", 0) for one in before)


def test_a_loss_that_stays_raised_never_becomes_the_usual_one() -> None:
    run = healthy()
    run.cadences(80, **bad("loss_raised"))
    assert run.open == {"loss_raised"}


def test_a_throughput_that_stays_low_is_no_new_baseline_within_hours() -> None:
    run = healthy()
    run.cadences(30, **bad("throughput_collapse"))
    assert run.open == {"throughput_collapse"}
