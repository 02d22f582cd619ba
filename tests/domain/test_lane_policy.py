"""The switches on which practice differs: the lane's default, the contract's word, the rule."""

from typing import Any

import pytest

from tests.domain.given import History
from tests.domain.samples import ROOT, contract, listing
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.contract.lane_policy import LANE_POLICIES, policy_of


def test_every_lane_has_its_switches_and_a_contract_overrules_each() -> None:
    assert set(LANE_POLICIES) == set(Lane)
    stated: dict[str, Any] = {
        "tracker_id": "per_attempt",
        "oom": "one_bounded_fix",
        "distributed": "retry_once",
        "temporary_retention": "up_to_five",
        "stopped": "needs_waiver",
        "startup_forbidden": "end_with_consent",
    }
    for lane in Lane:
        assert policy_of(contract(lane=lane)) == LANE_POLICIES[lane]
        overruled = policy_of(contract(lane=lane, policy=stated))
        assert {name: getattr(overruled, name) for name in stated} == stated


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"lane": "hero"}, "end it with `watchkeeper stop"),
        ({"lane": "ordinary"}, "what now?"),
        ({"policy": {"startup_forbidden": "end_with_consent"}}, "end it with `watchkeeper stop"),
        ({"lane": "hero", "policy": {"startup_forbidden": "alert"}}, "what now?"),
    ],
)
def test_a_forbidden_start_asks_what_the_policy_says(changes: dict[str, Any], asked: str) -> None:
    history = History().launch(contract(**changes))
    lines = (f"Resuming training from step 7 of {ROOT}",)
    answer = history.check(step=8, lines=lines, found=listing())
    assert asked in answer.the(EscalationRaised).asks
