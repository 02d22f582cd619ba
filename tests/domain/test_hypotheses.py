"""What a relaunch rules out of what was put to the test, and what it leaves: every outcome."""

from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from tests.domain.samples import START, check_of
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.ends.hypotheses import judged_by_end, judged_by_progress
from watchkeeper.domain.run.ends import Failure, HypothesesJudged, Judgement, RelaunchTest
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.causes import CAUSES, Hypothesis, Outlook
from watchkeeper.domain.values.check import Progress

H = Hypothesis
STAKES = [*chain.from_iterable(combinations(Hypothesis, size) for size in range(6))]


def failure(instance: str, step: int | None, **changes: Any) -> Failure:
    number = int(instance[1:])
    first = Failure(instance, "collective_hang", Outlook.ASK, "aa", step, 0, START, number)
    return replace(first, **changes)


def at_stake(stake: tuple[Hypothesis, ...], *failures: Failure) -> Run:
    judgement = Judgement(decided=5, stake=RelaunchTest(5, "i1", stake))
    run = story(Running).run
    return replace(run, ends=replace(run.ends, judgement=judgement, failures=failures))


def ended(stake: tuple[Hypothesis, ...], before: Failure, newest: Failure) -> HypothesesJudged:
    [judged] = judged_by_end(at_stake(stake, before, newest))
    return judged


Facts = dict[str, Any]
A: Facts = {"nodes": ("w-3",)}
B: Facts = {"nodes": ("w-4",)}
SAME: Facts = {"nodes": ("w-4", "w-3")}
OTHER: Facts = {"fingerprint": "bb"}
ANY = set(Hypothesis)
End = tuple[int | None, Facts]
TABLE: dict[str, tuple[End, End, set[Hypothesis], set[Hypothesis]]] = {
    "well past it": ((1100, {}), (1200, OTHER), {H.CODE, H.DATA}, set[Hypothesis]()),
    "the same, well past it": ((1100, {}), (1200, {}), {H.CODE, H.DATA}, set[Hypothesis]()),
    "again on other machines": ((1100, A), (1100, B), {H.NODE, H.ALLOCATION}, ANY),
    "again on other machines, earlier": ((1100, A), (900, B), {H.NODE, H.ALLOCATION}, ANY),
    "again on a machine of before": ((1100, A), (1100, SAME), set[Hypothesis](), ANY),
    "again, on machines nobody told": (
        (1100, {}),
        (1100, B),
        set[Hypothesis](),
        {H.FABRIC, H.CODE, H.DATA},
    ),
    "again, the step unknown": ((None, A), (None, B), {H.NODE, H.ALLOCATION}, ANY),
    "at the place, by a cause nobody knows": (
        (1100, A),
        (1105, {**B, **OTHER, "cause": "unknown"}),
        {H.NODE, H.ALLOCATION},
        ANY,
    ),
    "at the place, by another cause": (
        (1100, A),
        (1105, {**B, **OTHER, "cause": "preemption"}),
        set[Hypothesis](),
        set[Hypothesis](),
    ),
    "otherwise, before it": (
        (1100, A),
        (1000, {**B, **OTHER}),
        set[Hypothesis](),
        set[Hypothesis](),
    ),
    "otherwise, nobody knows where": (
        (1100, A),
        (None, {**B, **OTHER}),
        set[Hypothesis](),
        set[Hypothesis](),
    ),
}
"""By outcome: the end before, the end of the relaunch, what is out, what would be seen again."""


@every_row("stake", STAKES, ids=lambda stake: "-".join(stake) or "nothing")
@every_row("outcome", TABLE)
def test_an_end_rules_out_what_the_outcome_tells_and_in_what_alone_is_left(
    stake: tuple[Hypothesis, ...], outcome: str
) -> None:
    (step, was), (again, then), out, seen = TABLE[outcome]
    judged = ended(stake, failure("i1", step, **was), failure("i2", again, **then))
    assert set(judged.ruled_out) == out & {*stake}
    left = {*stake} - out
    alone = len(left) == 1 and (bool(judged.ruled_out) or left <= seen)
    assert set(judged.ruled_in) == (left if alone else set())
    assert judged.evidence[0] == "event 1"


@every_row("stake", STAKES, ids=lambda stake: "-".join(stake) or "nothing")
def test_training_past_the_place_rules_out_what_is_deterministic(
    stake: tuple[Hypothesis, ...],
) -> None:
    run = at_stake(stake, failure("i1", 1100))
    shown = Progress(step=1111, source="tracker")
    [judged] = judged_by_progress(run, check_of(instance="i2", progress=shown))
    assert set(judged.ruled_out) == {H.CODE, H.DATA} & {*stake}
    left = {*stake} - {H.CODE, H.DATA}
    assert set(judged.ruled_in) == (left if len(left) == 1 and judged.ruled_out else set())
    near = shown.model_copy(update={"step": 1110})
    assert not judged_by_progress(run, check_of(instance="i2", progress=near))


@every_row("cause", CAUSES)
@every_row("outcome", TABLE)
def test_the_fabric_is_never_ruled_out_and_only_alone_ruled_in(cause: str, outcome: str) -> None:
    (step, was), (again, then), *_ = TABLE[outcome]
    stake = CAUSES[cause].hypotheses
    judged = ended(stake, failure("i1", step, **was), failure("i2", again, **then))
    assert H.FABRIC not in judged.ruled_out
    if H.FABRIC in judged.ruled_in:
        assert {*stake} - {*judged.ruled_out} == {H.FABRIC}
