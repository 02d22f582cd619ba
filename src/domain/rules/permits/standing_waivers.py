"""Standing waivers, which a human grants in advance of scheduled launches.

One stream holds the standing waivers of all runs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from watchkeeper.domain.rules.permits.commands import (
    GrantStandingWaiver,
    PeopleCommand,
    RevokeStandingWaiver,
)
from watchkeeper.domain.rules.permits.permissions import ATTEMPTS_MAX
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.permits import (
    ATTEMPT_AGAIN,
    PeopleEvent,
    StandingAttemptRefused,
    StandingWaiverGranted,
    StandingWaiverRevoked,
    Waiver,
    attempt_key,
)
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.observation.observation import StandingWaiver

PEOPLE = "people"
"""Name of the stream with the standing waivers of all runs."""

STANDING_RULES: Mapping[str, frozenset[Lane]] = MappingProxyType(
    # Each plan of a costly or published run needs its own approval.
    {"L11": frozenset({Lane.CANARY, Lane.ORDINARY})}
)
"""Launch rules that may be waived in advance, with their lanes. A person reviews other blocks."""

STANDING_LIFE_MAX = timedelta(days=180)
"""Longest and default life of a standing waiver; then somebody reviews it."""


@dataclass(frozen=True, slots=True)
class PeopleState:
    """The state that belongs to no single run, folded from the stream.

    Attributes:
        waivers: All waivers granted and not revoked, by name.
        granted: Number of waivers ever granted. It gives the next waiver's number.
        attempts: When each refused attempt was recorded last, by actor, command and target.
    """

    version: int = 0
    waivers: Mapping[str, StandingWaiver] = field(default_factory=lambda: MappingProxyType({}))
    granted: int = 0
    attempts: Mapping[str, datetime] = field(default_factory=lambda: MappingProxyType({}))


def evolve_people(people: PeopleState, event: Event) -> PeopleState:
    """Apply one event of the stream."""
    updated = replace(people, version=event.version)
    match event.data:
        case StandingWaiverGranted() as data:
            made = StandingWaiver(
                name=data.waiver,
                lane=data.lane,
                rule=data.rule,
                requester=data.requester,
                reason=data.reason,
                by=event.envelope.actor.principal,
                until=data.until,
            )
            waivers = {**people.waivers, data.waiver: made}
            return replace(updated, waivers=waivers, granted=people.granted + 1)
        case StandingWaiverRevoked(waiver=name):
            remaining = {known: one for known, one in people.waivers.items() if known != name}
            return replace(updated, waivers=remaining)
        case StandingAttemptRefused() as data:
            key = attempt_key(data.principal, data.command, data.target)
            since = event.at - ATTEMPT_AGAIN
            kept = {known: at for known, at in people.attempts.items() if at > since}
            return replace(updated, attempts={**kept, key: event.at})
        case _:
            return updated


def decide_people(
    people: PeopleState, command: PeopleCommand
) -> list[PeopleEvent] | tuple[Refused, list[PeopleEvent]]:
    """Handle a command on the stream.

    Returns:
        The events; or the refusal, with the record of the attempt.
    """
    if command.actor.kind != "human":
        return _not_a_human(people, command)
    match command:
        case GrantStandingWaiver():
            answer = _grant(people, command)
        case RevokeStandingWaiver():
            answer = _revoke(people, command)
    return (answer, []) if isinstance(answer, Refused) else [answer]


def _grant(people: PeopleState, command: GrantStandingWaiver) -> PeopleEvent | Refused:
    if not command.reason.strip():
        return Refused(Refusal.TEXT_EMPTY)
    rule = command.rule.upper()
    lanes = STANDING_RULES.get(rule, frozenset())
    if command.lane not in lanes:
        may = ", ".join(f"{r} for {', '.join(sorted(ls))}" for r, ls in STANDING_RULES.items())
        about = f"{rule} of the {command.lane.value} lane (only {may}, may be waived ahead)"
        return Refused(Refusal.WAIVER_FORBIDDEN, about)
    latest = command.now + STANDING_LIFE_MAX
    until = command.until or latest
    if not command.now < until <= latest:
        return Refused(Refusal.TIME_WRONG, f"at most {STANDING_LIFE_MAX.days} days")
    return StandingWaiverGranted(
        waiver=f"sw-{people.granted + 1}",
        lane=command.lane,
        rule=rule,
        requester=command.requester or command.actor.principal,
        reason=command.reason.strip(),
        until=until,
    )


def _revoke(people: PeopleState, command: RevokeStandingWaiver) -> PeopleEvent | Refused:
    if command.name not in people.waivers:
        return Refused(Refusal.NAME_UNKNOWN, command.name)
    return StandingWaiverRevoked(waiver=command.name, reason=command.reason.strip())


def _not_a_human(people: PeopleState, command: PeopleCommand) -> tuple[Refused, list[PeopleEvent]]:
    who = command.actor.principal
    match command:
        case GrantStandingWaiver():
            name, target = "waive", command.rule
        case RevokeStandingWaiver():
            name, target = "revoke", command.name
    recent = {key for key, at in people.attempts.items() if command.now - at < ATTEMPT_AGAIN}
    refused = Refused(Refusal.NOT_A_HUMAN, who)
    if attempt_key(who, name, target) in recent or len(recent) >= ATTEMPTS_MAX:
        return refused, []
    tried = StandingAttemptRefused(
        principal=who, command=name, target=target, rule=Refusal.NOT_A_HUMAN.name
    )
    return refused, [tried]


def standing_waivers(people: PeopleState, now: datetime) -> tuple[StandingWaiver, ...]:
    """Return the standing waivers in force now, by name."""
    return tuple(one for one in people.waivers.values() if now < one.until)


def waivers_for(
    standing: Iterable[StandingWaiver], lane: Lane, requester: str, now: datetime
) -> tuple[Waiver, ...]:
    """Return the standing waivers that cover a principal's launch in a lane."""
    return tuple(
        Waiver(one.name, one.rule, "", one.reason, one.by, one.until)
        for one in standing
        if one.lane is lane and one.requester == requester and now < one.until
    )
