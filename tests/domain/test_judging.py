"""What of a judged observation is told to somebody, and what asks the DRI."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import exited, job, killed, listing, seen, tracker
from watchkeeper.domain.rules.whatif.judging import Judged, escalates, judge, notifies
from watchkeeper.domain.run.ends import DecisionMade
from watchkeeper.domain.run.fact import Fact
from watchkeeper.domain.run.health import FindingOpened
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.basic import JobFacts

OTHER = {"tracker_id": "somebody-else"}
LONGER: dict[str, Any] = {"final_step": 9999}
TRAINED = History().launch().train(1000, found=listing(900, 1000))


def judged(run: Run, checks: int, said: JobFacts | None = None, **shown: Any) -> Judged:
    at = TRAINED.now + checks * timedelta(minutes=10)
    there = tracker(1000 + 500 * checks, heartbeat_at=at, **shown)
    found = listing(900, 1000)
    return judge(run, seen(at=at, said=said or job(), shown=there, found=found))


@pytest.mark.parametrize(
    ("said", "shown", "told", "asked"),
    [
        (None, {}, False, False),
        (None, LONGER, True, False),
        (None, OTHER, True, True),
        (killed(), {}, True, False),
        (exited(1), {}, True, True),
    ],
)
def test_what_is_new_is_told_and_what_no_rule_may_decide_is_asked(
    said: JobFacts | None, shown: dict[str, Any], told: bool, asked: bool
) -> None:
    found = judged(TRAINED.run, 1, said, **shown)
    assert (notifies(found), escalates(found)) == (told, asked)


@pytest.mark.parametrize(("shown", "open_"), [(OTHER, True), (LONGER, False)])
def test_an_open_question_is_told_each_time_and_a_finding_once(
    shown: dict[str, Any], open_: bool
) -> None:
    again = judged(judged(TRAINED.run, 1, **shown).run, 2, **shown)
    assert again.run.health.findings
    assert again.opened == ()
    assert (notifies(again), escalates(again)) == (open_, open_)


@pytest.mark.parametrize("kinds", [(), (FindingOpened,), (DecisionMade,)])
def test_a_new_finding_is_told_without_a_decision_and_a_decision_without_one(
    kinds: tuple[type[Fact], ...],
) -> None:
    found = judged(TRAINED.run, 1, **LONGER)
    kept = tuple(event for event in found.events if isinstance(event, kinds))
    assert len(kept) == len(kinds)
    assert notifies(replace(found, events=(found.check, *kept))) is bool(kinds)
