"""Decisions replay from recorded events alone: nothing of the observations is needed."""

from datetime import timedelta

import pytest

from tests.domain.given import History
from tests.domain.samples import killed, listing
from tests.projections.tales import TALES, recorded
from watchkeeper.domain.contracts.contract import Contract
from watchkeeper.domain.events import Action, CheckRecorded, DecisionMade, FailureClassified
from watchkeeper.domain.judging.rejudging import Rejudged, rejudge

QUARTER = timedelta(minutes=15)


def judged(tale: str) -> list[Rejudged]:
    events = recorded(TALES[tale]())
    return rejudge(events[0].stream.removeprefix("run/"), events)


def decisions(one: Rejudged) -> tuple[list[DecisionMade], list[DecisionMade]]:
    was, now = one.recorded, one.now
    return (
        [event for event in was if isinstance(event, DecisionMade)],
        [event for event in now if isinstance(event, DecisionMade)],
    )


@pytest.mark.parametrize("tale", TALES)
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


def test_every_check_is_judged_once_and_in_order() -> None:
    events = recorded(TALES["sealed"]())
    checks = [event.version for event in events if isinstance(event.data, CheckRecorded)]
    assert [one.version for one in judged("sealed")] == checks
