"""H4 where no metric tells a throughput: by the steps from check to check."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.looking import CADENCE, cleared, look, opened
from tests.domain.samples import bar, contract, tracker
from watchkeeper.domain.events import CheckRecorded, FindingOpened, Severity

FAST = 100


def trained(*moves: int, shown: str = "output") -> tuple[History, list[list[str]], list[list[str]]]:
    """A run whose checks show so many steps more each; what opened and what cleared at each."""
    promised = contract(final_step={"value": 9_000, "source": "config"}, lane="ordinary")
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
    finding = history.run.findings["throughput_collapse"]
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
    assert history.run.last_check is not None
    assert history.run.last_check.event.measured.pace is None


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
        assert "% below its baseline" in history.run.findings["throughput_collapse"].summary
