"""Decisions replay from recorded events alone: nothing of the observations is needed."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest

from tests.domain.given import History
from tests.domain.looking import look, steps
from tests.domain.samples import contract, killed, listing
from tests.domain.stories import story
from tests.every_row import every_row
from tests.projections.tales import TALES, recorded
from watchkeeper.domain.rules.health.stall_again import liveness_again
from watchkeeper.domain.rules.whatif.rejudging import Change, Rejudged, rejudge
from watchkeeper.domain.run.ends import Action, DecisionMade, FailureClassified
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.phases import Running
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.projections.whatif import Changed, compared

QUARTER = timedelta(minutes=15)
SELDOM = {"temporary_every": "", "permanent_every_steps": 100_000}


def judged(tale: str) -> list[Rejudged]:
    events = recorded(TALES[tale]())
    return rejudge(events[0].stream.removeprefix("run/"), events)


def decisions(one: Rejudged) -> tuple[list[DecisionMade], list[DecisionMade]]:
    was, now = one.recorded, one.now
    return (
        [event for event in was if isinstance(event, DecisionMade)],
        [event for event in now if isinstance(event, DecisionMade)],
    )


@every_row("tale", TALES)
def test_today_s_rules_say_of_every_recorded_check_what_was_recorded(tale: str) -> None:
    assert [one for one in judged(tale) if one.differs] == []


def test_the_tales_hold_decisions_of_several_rules_to_judge_again() -> None:
    rules = {
        event.rule
        for tale in TALES
        for one in judged(tale)
        for event in one.recorded
        if isinstance(event, DecisionMade)
    }
    assert {"R1", "R2", "R9", "R15"} <= rules


def test_a_changed_record_is_told_from_what_the_rules_say() -> None:
    events = recorded(TALES["crash_loop"]())
    place = next(n for n, e in enumerate(events) if isinstance(e.data, FailureClassified))
    data = events[place].data.model_copy(update={"cause": "preemption"})
    envelope = events[place].envelope.model_copy(update={"data": data})
    forged = [*events]
    forged[place] = type(events[place])(events[place].stream, events[place].version, envelope)
    assert any(one.differs for one in rejudge("x", forged))


def _without_budget(contract: Contract) -> Contract:
    retries = contract.retries.model_copy(update={"budget": 0})
    return contract.model_copy(update={"retries": retries})


def test_another_policy_changes_the_decisions_that_it_is_about_and_no_others() -> None:
    history = History().launch().train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    changed = [one for one in rejudge("x", history.events, _without_budget) if one.differs]
    assert len(changed) == 1
    [was], [now] = decisions(changed[0])
    assert (was.action, was.rule) == (Action.RELAUNCH, "R1")
    assert (now.action, now.rule) == (Action.ESCALATE, "R3")


def _same(contract: Contract) -> Contract:
    return contract


@pytest.mark.parametrize(
    ("change", "by_policy"),
    [
        (_same, []),
        (_without_budget, [(["relaunch (R1)"], ["escalate (R3)"])]),
    ],
)
def test_what_today_s_rules_decide_otherwise_anyway_is_no_change_of_the_policy(
    change: Change, by_policy: list[tuple[list[str], list[str]]]
) -> None:
    history = History().launch().train(1000, wait=QUARTER, found=listing(900, 1000))
    history.fail(killed(), step=1100, found=listing(900, 1000))
    events = [
        _forged(event, action=Action.WAIT, rule="R13")
        if isinstance(event.data, DecisionMade)
        else event
        for event in history.events
    ]
    found = compared(rejudge("x", events), rejudge("x", events, change))
    assert [_named(one) for one in found.by_policy] == by_policy
    assert [_named(one) for one in found.by_rules] == [(["wait (R13)"], ["relaunch (R1)"])]


def _forged(event: Event, **changes: object) -> Event:
    data = event.data.model_copy(update=changes)
    envelope = event.envelope.model_copy(update={"data": data})
    return Event(event.stream, event.version, envelope)


def _named(one: Changed) -> tuple[list[str], list[str]]:
    was, would = ([words.partition(":")[0] for words in some] for some in (one.was, one.would))
    return was, would


# --- Another limit of a standstill ----------------------------------------------------------------


@every_row("tale", TALES)
def test_a_record_holds_all_that_the_verdict_on_a_standstill_rests_on(tale: str) -> None:
    events = recorded(TALES[tale]())
    run = Run(events[0].stream.removeprefix("run/"))
    for event in events:
        if isinstance(event.data, CheckRecorded):
            now = event.envelope.occurred_at
            again = liveness_again(run, run.instances[-1], event.data, now)
            assert again == event.data.liveness
        after = evolve(run, event)
        assert isinstance(after, Run)
        run = after


def stands(stall: str) -> History:
    history = story(Running, contract(live={"stall": stall}, checkpoints=SELDOM))
    for _ in range(8):
        look(history, step=1100, lines=steps(1100), found=listing(900, 1000))
    return history


def first_opened(events: Iterable[tuple[int, Sequence[RunEvent]]]) -> int | None:
    return next(
        (
            place
            for place, told in events
            if any(isinstance(one, FindingOpened) and one.rule == "H3" for one in told)
        ),
        None,
    )


@pytest.mark.parametrize(
    ("was", "other"), [("1h", "25m"), ("25m", "1h"), ("25m", "5h"), ("5h", "25m"), ("25m", "1m")]
)
def test_another_stall_opens_h3_at_the_check_at_which_it_would_have(was: str, other: str) -> None:
    def change(promised: Contract) -> Contract:
        live = promised.live.model_copy(update={"stall": parse_duration(other)})
        return promised.model_copy(update={"live": live})

    judged_again = rejudge("x", stands(was).events, change)
    with_other = rejudge("x", stands(other).events)
    real = first_opened((one.version, one.recorded) for one in with_other)
    # What was recorded in between shifts versions, so checks are counted.
    at = [one.version for one in with_other].index(real) if real is not None else None
    told = first_opened(enumerate([one.now for one in judged_again]))
    # A finding that is open on record opens no second time.
    known = first_opened(enumerate([one.recorded for one in judged_again]))
    assert told == (at if known is None or at is None or at <= known else None)


def test_every_check_is_judged_once_and_in_order() -> None:
    events = recorded(TALES["sealed"]())
    checks = [event.version for event in events if isinstance(event.data, CheckRecorded)]
    assert [one.version for one in judged("sealed")] == checks
