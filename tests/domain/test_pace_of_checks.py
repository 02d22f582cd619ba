"""H4 where no metric tells a throughput: by the steps from check to check."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.looking import CADENCE, cleared, look, opened
from tests.domain.samples import bar, contract, job, listing, node_lost, tracker
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.check import Severity
from watchkeeper.domain.values.instance import Instance

FAST = 100


def trained(*moves: int, shown: str = "output") -> tuple[History, list[list[str]], list[list[str]]]:
    """A run whose checks show so many steps more each; what opened and what cleared at each."""
    # Where output tells the steps the tracker stands, which is not what is looked at here.
    promised = contract(
        final_step={"value": 9_000, "source": "config"},
        lane="ordinary",
        live={"tracker_silent": timedelta(days=1)},
    )
    history, step = History().launch(promised), 200
    new: list[list[str]] = []
    over: list[list[str]] = []
    for move in moves:
        step += move
        facts: dict[str, Any] = {"lines": [bar(f"{step}it/9000")]}
        if shown == "tracker":
            at = history.now + CADENCE
            facts = {"lines": [], "shown": tracker(step, heartbeat_at=at, metrics={})}
        answer = look(history, **facts)
        new.append(opened(answer))
        over.append(cleared(answer))
    return history, new, over


@pytest.mark.parametrize("shown", ["output", "tracker"])
def test_half_the_pace_for_three_cadences_is_told_once(shown: str) -> None:
    history, new, _ = trained(*[FAST] * 8, *[FAST // 2] * 5, shown=shown)
    assert new[8:] == [[], [], ["throughput_collapse"], [], []]
    finding = history.run.health.findings["throughput_collapse"]
    assert (finding.rule, finding.severity) == ("H4", Severity.NOTIFY)
    assert "50 %" in finding.summary


@pytest.mark.parametrize(
    "moves",
    [
        [50, 50, 100],
        [0, 0, 300],
        [80, 80, 80, 80],
        [100, 50] * 3,
    ],
    ids=["two slow ones", "shown late", "a fifth slower", "every other one"],
)
def test_dips_and_steps_that_come_late_are_no_collapse(moves: list[int]) -> None:
    _, new, _ = trained(*[FAST] * 8, *moves)
    assert "throughput_collapse" not in [kind for kinds in new for kind in kinds]


def test_it_clears_once_the_pace_is_back() -> None:
    _, _, over = trained(*[FAST] * 8, *[FAST // 2] * 4, *[FAST] * 3)
    assert ["throughput_collapse"] in over[12:]


def test_a_pace_that_is_as_ever_is_not_recorded_beside_the_steps() -> None:
    history, _, _ = trained(*[FAST] * 8)
    assert history.run.watch.last_check is not None
    assert history.run.watch.last_check.event.measured.pace is None


def test_rounding_is_no_slow_cadence() -> None:
    """Steps of 60 that a bar rounds to 100 come as 0, 100, 100, 0 and so on."""
    history = History().launch(contract(final_step={"value": 99_000, "source": "config"}))
    found: list[FindingOpened] = []
    for number in range(40):
        shown = round((20_000 + 60 * number) / 100) / 10
        answer = look(history, lines=[bar(f"{shown:.1f}kit/99kit")], wait=CADENCE)
        assert answer.the(CheckRecorded).progress is not None
        found += [one for one in answer.all(FindingOpened) if one.rule == "H4"]
        history.later(timedelta(seconds=1))
    assert found == []


def rounded(moves: list[int], unit: int, start: int = 20_000) -> tuple[History, list[str]]:
    """A run that shows only bars, rounded to a unit; the numbers of the checks at which H4 opened.

    Args:
        moves: Steps from check to check.
        unit: What the bar rounds to.
        start: The first step.
    """
    history = History().launch(contract(final_step={"value": 99_000, "source": "config"}))
    step, changes = start, list[str]()
    for number, move in enumerate(moves):
        step += move
        shown = round(step / unit) * unit / 1000
        digits = {10: 2, 100: 1}[unit]
        answer = look(history, lines=[bar(f"{shown:.{digits}f}kit/99kit")])
        told = {one.rule for one in answer.all(FindingOpened)}
        changes += [f"opened {number}"] if "H4" in told else []
        changes += [f"cleared {number}"] if "throughput_collapse" in cleared(answer) else []
    return history, changes


@pytest.mark.parametrize(
    ("moves", "unit", "found"),
    [
        # A quarter of the pace, which the rounding hides in no cadence.
        ([2_000] * 10 + [500] * 4, 10, ["opened 12"]),
        ([60] * 40, 100, []),
        ([97, 53] * 20, 100, []),
        # 15 of 60 steps a cadence: a bar that rounds to 100 shows it after some hours.
        ([60] * 36 + [15] * 27, 100, ["opened 56"]),
        # A third slower lies within what is rounded away.
        ([60] * 30 + [40] * 9, 100, []),
        ([2_000] * 10 + [500] * 2 + [2_000] * 4, 10, []),
        ([2_000] * 10 + [0] * 4 + [300] + [2_000] * 4, 10, []),
        ([2_000] * 10 + [500] * 4 + [2_000] * 5, 10, ["opened 12", "cleared 15"]),
    ],
)
def test_a_slowdown_beyond_rounding_is_seen_in_rounded_bars(
    moves: list[int], unit: int, found: list[str]
) -> None:
    history, changes = rounded(moves, unit)
    assert changes == found
    if found and len(found) == 1:
        assert "% below its baseline" in history.run.health.findings["throughput_collapse"].summary


# --- After a relaunch -----------------------------------------------------------------------------

KEPT_AT = 1_000
"""The checkpoint that the second instance resumes from: the last step of the first."""


def relaunched(
    before: list[int], after: list[int], changed: str = "", back: int = 0
) -> list[list[str]]:
    """What H4 opened at each check of a second instance.

    Args:
        before: Steps of the first instance from check to check.
        after: Steps of the second one.
        changed: What else is different of the first one: `hardware`, `batch`, `command`, `config`.
        back: Steps that are trained again.
    """
    promised = contract(final_step={"value": 9_000, "source": "config"}, lane="ordinary")
    history = History().launch(promised)
    step = KEPT_AT + back - sum(before)
    for move in before:
        step += move
        at = history.now + CADENCE
        told = tracker(step, heartbeat_at=at, metrics={})
        look(history, lines=[bar(f"{step}it/9000")], shown=told)
    history.fail(node_lost(), found=listing(KEPT_AT))
    history.relaunch()
    first, second = history.run.instances
    history.run = replace(history.run, instances=(_other(first, changed), second))
    step, new = KEPT_AT, list[list[str]]()
    for move in after:
        step += move
        name = second.plan.submission_id
        alive = job(started_at=second.launched_at).model_copy(update={"submission_id": name})
        told = tracker(max(step, KEPT_AT + back), heartbeat_at=history.now + CADENCE, metrics={})
        lines = [f"Resuming training from step {KEPT_AT}", bar(f"{step}it/9000")]
        answer = look(history, alive, lines=lines, shown=told, found=listing(KEPT_AT))
        new.append([kind for kind in opened(answer) if kind in COLLAPSED])
    return new


def _other(first: Instance, changed: str) -> Instance:
    assert first.contract is not None
    match changed:
        case "hardware":
            slower = first.contract.hardware.model_copy(update={"type": "v4-8"})
            return replace(first, contract=first.contract.model_copy(update={"hardware": slower}))
        case "batch":
            smaller = first.contract.model.model_copy(update={"batch_size": 8})
            return replace(first, contract=first.contract.model_copy(update={"model": smaller}))
        case "command":
            command = (*first.plan.base_command, "--batch=8")
            return replace(first, plan=first.plan.model_copy(update={"base_command": command}))
        case _:
            return first


COLLAPSED = ["throughput_collapse"]


@pytest.mark.parametrize("slow", [50, 33])
def test_a_relaunch_onto_slow_machines_is_told_by_the_pace_before_it(slow: int) -> None:
    new = relaunched([FAST] * 8, [slow] * 10)
    assert new == [[], [], [], COLLAPSED, *[[]] * 6]


@pytest.mark.parametrize("changed", ["hardware", "batch", "command"])
def test_other_machines_or_another_batch_have_a_pace_of_their_own(changed: str) -> None:
    assert relaunched([FAST] * 8, [50] * 10, changed) == [[]] * 10


@pytest.mark.parametrize(
    ("before", "after", "back"),
    [
        ([FAST] * 8, [FAST] * 6, 0),
        ([FAST] * 8, [80] * 6, 0),
        # It compiles and restores first.
        ([FAST] * 8, [5, 10, FAST, FAST, FAST, FAST], 0),
        # Two slow ones before the end and two after it are no three in a row.
        ([*[FAST] * 8, 40, 40], [20, 20, FAST, FAST, FAST], 0),
        # Too short a run to be compared with.
        ([FAST] * 2, [50] * 6, 0),
        # What is trained again may be slow.
        ([FAST] * 8, [30] * 6, 200),
    ],
    ids=["as fast", "a fifth slower", "start-up", "slow at the end", "short", "catch-up"],
)
def test_a_relaunch_is_no_collapse(before: list[int], after: list[int], back: int) -> None:
    assert relaunched(before, after, back=back) == [[]] * len(after)


def test_a_collapse_from_before_a_relaunch_onto_other_machines_sets_no_baseline() -> None:
    """A dip has the baseline recorded: it is one of the machines that were."""
    assert relaunched([*[FAST] * 8, 40], [50] * 10, "hardware") == [[]] * 10
