"""Standing waivers: a human's word ahead of the launches that a schedule asks for."""

from datetime import timedelta
from typing import Any

import pytest

from tests.domain.given import History, enveloped
from tests.domain.samples import AGENT, DRI, LOOP, START, clear, contract, listing, node_lost
from watchkeeper.domain.commands.commands import (
    GrantStandingWaiver,
    PeopleCommand,
    RequestLaunch,
    RevokeStandingWaiver,
)
from watchkeeper.domain.commands.refusals import Refusal
from watchkeeper.domain.contracts.contract import Lane
from watchkeeper.domain.events import (
    LaunchRequested,
    PeopleEvent,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
)
from watchkeeper.domain.launches.standing import (
    STANDING_LIFE_MAX,
    People,
    decide_people,
    evolve_people,
    standing_waivers,
)
from watchkeeper.domain.observed.observation import GateFacts


def grant(now: Any = START, actor: Any = DRI, **said: Any) -> GrantStandingWaiver:
    fields: dict[str, Any] = {"lane": Lane.CANARY, "rule": "L11", "reason": "daily canary", **said}
    return GrantStandingWaiver(now=now, actor=actor, **fields)


def taken(people: People, command: PeopleCommand) -> People:
    answer = decide_people(people, command)
    facts: list[PeopleEvent] = answer[1] if isinstance(answer, tuple) else answer
    for fact in facts:
        event = enveloped(fact, people.version + 1, command.now, command.actor, stream="people")
        people = evolve_people(people, event)
    return people


def refused(people: People, command: PeopleCommand) -> Refusal:
    answer = decide_people(people, command)
    assert isinstance(answer, tuple), answer
    return answer[0].refusal


def facts_of(people: People, now: Any = START) -> GateFacts:
    return clear(standing=standing_waivers(people, now))


def scheduled(history: History, facts: GateFacts, requester: str = "dri") -> RequestLaunch:
    return history.launch_command(facts).model_copy(update={"actor": LOOP, "requester": requester})


def test_a_scheduled_canary_launch_rests_on_its_requester_s_standing_waiver() -> None:
    people = taken(People(), grant())
    history = History().draft(contract(lane="canary"))
    requested = history.tell(scheduled(history, facts_of(people))).the(LaunchRequested)
    assert (requested.approval, requested.waiver, requested.requester) == ("", "sw-1", "dri")
    # So do its relaunches, while the waiver holds.
    history.take_watch().confirm().train(1000, found=listing(900, 1000))
    history.fail(node_lost(), step=1100, found=listing(900, 1000))
    again = history.relaunch_command()
    with_waiver = again.model_copy(
        update={"facts": again.facts.model_copy(update={"standing": facts_of(people).standing})}
    )
    assert history.when(with_waiver).the(LaunchRequested).waiver == "sw-1"
    history.when(again).without(LaunchRequested)


@pytest.mark.parametrize(
    ("lane", "requester", "when"),
    [
        ("ordinary", "dri", timedelta(0)),
        ("canary", "someone-else", timedelta(0)),
        ("canary", "dri", STANDING_LIFE_MAX),
    ],
)
def test_it_covers_one_lane_one_requester_and_ends(
    lane: str, requester: str, when: timedelta
) -> None:
    people = taken(People(), grant())
    history = History().draft(contract(lane=lane)).later(when)
    command = scheduled(history, facts_of(people, history.now), requester)
    history.when(command).without(LaunchRequested)


def test_a_revoked_one_covers_nothing() -> None:
    people = taken(People(), grant())
    back = RevokeStandingWaiver(now=START, actor=DRI, name="sw-1", reason="enough")
    assert decide_people(people, back) == [StandingWaiverRevoked(waiver="sw-1", reason="enough")]
    people = taken(people, back)
    assert not standing_waivers(people, START)
    assert refused(people, back) is Refusal.NAME_UNKNOWN
    # Its name is not used again.
    answer = decide_people(people, grant())
    assert isinstance(answer, list)
    assert [one.waiver for one in answer if isinstance(one, StandingWaiverGranted)] == ["sw-2"]


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"lane": Lane.HERO}, Refusal.WAIVER_FORBIDDEN),
        ({"lane": Lane.DAILY}, Refusal.WAIVER_FORBIDDEN),
        ({"rule": "L1"}, Refusal.WAIVER_FORBIDDEN),
        ({"rule": "L13"}, Refusal.WAIVER_FORBIDDEN),
        ({"reason": " "}, Refusal.TEXT_EMPTY),
        ({"until": START}, Refusal.TIME_WRONG),
        ({"until": START + STANDING_LIFE_MAX + timedelta(1)}, Refusal.TIME_WRONG),
    ],
)
def test_only_the_approval_of_cheap_lanes_is_waived_ahead(
    said: dict[str, Any], refusal: Refusal
) -> None:
    assert refused(People(), grant(**said)) is refusal


@pytest.mark.parametrize("actor", [AGENT, LOOP])
def test_whoever_is_no_human_is_refused_and_the_attempt_recorded_once_a_day(actor: Any) -> None:
    command = grant(actor=actor)
    answer = decide_people(People(), command)
    assert isinstance(answer, tuple)
    tried = StandingAttemptRefused(
        principal=actor.principal, command="waive", target="L11", rule="NOT_A_HUMAN"
    )
    assert (answer[0].refusal, answer[1]) == (Refusal.NOT_A_HUMAN, [tried])
    people = taken(People(), command)
    assert not people.waivers
    again = decide_people(people, command)
    assert isinstance(again, tuple)
    assert not again[1]
