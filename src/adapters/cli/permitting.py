"""Commands of `permit`: what only a human may allow."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    Session,
    act_if_alone,
    handle,
    open_session,
    refusal,
    who,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.domain.rules.permits.commands import (
    GiveConsent,
    GrantStandingWaiver,
    PeopleCommand,
    Propose,
    Revoke,
    RevokeStandingWaiver,
    Waive,
)
from watchkeeper.domain.rules.permits.guarded import GuardedAction
from watchkeeper.domain.rules.permits.standing_waivers import standing_waivers
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.permits import ActProposed, ConsentGiven, StandingWaiverGranted
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.domain.values.people import Actor
from watchkeeper.services.ledger.ledger import Handled

_ACTIONS = [action.value for action in GuardedAction]
_HOW_TO_USE = {
    GuardedAction.STOP: "watchkeeper stop {run} --consent {consent}",
    GuardedAction.SEAL_WAIVER: "watchkeeper run seal {run}",
    GuardedAction.DIRTY_LAUNCH: "watchkeeper launch CONTRACT",
    GuardedAction.DECLARE_LOST: "watchkeeper relaunch {run} --reason '...'",
}


@click.command()
@click.argument("run")
@click.argument("action", type=click.Choice(_ACTIONS))
@click.argument("target")
@click.option("--reason", required=True, help="Reason that a human reads.")
@click.option("--agree", is_flag=True, help="Consent to it immediately. Only a human can.")
@home_option
@actor_option
@json_errors
def propose(
    run: str,
    action: str,
    target: str,
    reason: str,
    agree: bool,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Propose a guarded ACTION on TARGET for RUN. Anyone may propose; a human consents."""
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        command = Propose(
            now=clock.now(),
            actor=actor,
            action=GuardedAction(action),
            target=target,
            reason=reason,
            agree=agree,
        )
        handled = handle(session, run, command)
        asked = next(e.data for e in handled.events if isinstance(e.data, ActProposed))
        given = _given(handled)
        document: dict[str, Any] = {
            "run": run,
            "proposal": asked.proposal,
            "digest": asked.digest,
            "consent": given.consent if given is not None else None,
        }
        text = (
            f"proposed as {asked.proposal}; a human consents with: watchkeeper permit consent "
            f"{run} {asked.proposal}"
        )
        if given is not None:
            text = f"proposed as {asked.proposal}; {_permitted(run, given)}"
        document["says"] = act_if_alone(session, run)
        say(as_json, document, text)


@click.command()
@click.argument("run")
@click.argument("proposal")
@click.option(
    "--digest",
    default="",
    help="First digits of the proposal's digest, to confirm what you read.",
)
@click.option("--for", "life", default="", metavar="DURATION", help="Validity, such as 30m.")
@click.option("--reason", "note", default="", help="Reason or limits.")
@home_option
@actor_option
@json_errors
def consent(
    run: str,
    proposal: str,
    digest: str,
    life: str,
    note: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Consent to PROPOSAL of RUN, such as p-1, once. Only a human can."""
    duration = _duration(life) if life else None
    with open_session(home) as session:
        known_run(session.ledger, run)
        command = GiveConsent(
            now=clock.now(),
            actor=who(session.home, principal),
            proposal=proposal,
            digest=digest,
            note=note,
            life=duration,
        )
        given = _given(handle(session, run, command))
        assert given is not None, "an accepted consent is always recorded"
        document = {
            "run": run,
            "consent": given.consent,
            "action": given.action,
            "target": given.target,
            "expires_at": given.expires_at.isoformat(),
            "says": act_if_alone(session, run),
        }
        say(as_json, document, _permitted(run, given))


@click.command()
@click.argument("run", required=False)
@click.argument("subject", required=False)
@click.option("--reason", default="", help="Reason, which is recorded.")
@click.option(
    "--until",
    default="",
    help="End of validity: a time such as 2026-11-21T18:00Z, or 2h from now.",
)
@click.option("--standing", is_flag=True, help="Waive in advance, for scheduled launches.")
@click.option("--lane", type=click.Choice([lane.value for lane in Lane]), help="With --standing.")
@click.option("--rule", default="L11", show_default=True, help="With --standing.")
@click.option(
    "--by-requester", default="", help="Principal whose launches are covered.  [default: you]"
)
@click.option("--list", "listing", is_flag=True, help="List the standing waivers.")
@home_option
@actor_option
@json_errors
def waive(
    run: str | None,
    subject: str | None,
    reason: str,
    until: str,
    standing: bool,
    lane: str | None,
    rule: str,
    by_requester: str,
    listing: bool,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Waive SUBJECT for RUN: a blocking launch rule or a missing seal item. Only a human can.

    SUBJECT is a rule such as L13, or an item such as 'tracker state'. A waiver with --standing
    names no RUN. It covers the launches of one lane that one principal requests.
    """
    end = _moment(until) if until else None
    with open_session(home) as session:
        if listing:
            _list_standing(session, as_json)
            return
        actor = who(session.home, principal)
        if standing:
            if run or not lane:
                raise Leave("--standing: expected --lane and no RUN, for example --lane canary", 4)
            _grant_standing(session, actor, Lane(lane), rule, reason, by_requester, end, as_json)
            return
        if not run or not subject:
            raise Leave("expected RUN and SUBJECT, for example my-run L13 --reason '...'", 4)
        known_run(session.ledger, run)
        command = Waive(now=clock.now(), actor=actor, subject=subject, reason=reason, until=end)
        handled = handle(session, run, command)
        given = _given(handled)
        if given is not None:
            name, text = given.consent, _permitted(run, given)
        else:
            name = handled.run.permits.waivers[-1].name
            text = f"{subject} waived as {name}; next: watchkeeper launch CONTRACT"
        says = act_if_alone(session, run)
        say(as_json, {"run": run, "waiver": name, "subject": subject, "says": says}, text)


@click.command()
@click.argument("run", required=False)
@click.argument("name", required=False)
@click.option("--reason", default="", help="Reason, which is recorded.")
@click.option("--standing", default="", metavar="NAME", help="A standing waiver, such as sw-1.")
@home_option
@actor_option
@json_errors
def revoke(
    run: str | None,
    name: str | None,
    reason: str,
    standing: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Revoke NAME of RUN: approval a-1, consent c-1, waiver w-1; or decline proposal p-1.

    Only a human can. A job that already runs continues: `watchkeeper stop RUN` stops it.
    """
    with open_session(home) as session:
        actor = who(session.home, principal)
        if standing:
            if run or name:
                raise Leave("--standing: expected no RUN and no NAME", 4)
            revocation = RevokeStandingWaiver(
                now=clock.now(), actor=actor, name=standing, reason=reason
            )
            _handle_people(session, revocation)
            say(as_json, {"revoked": standing}, f"{standing} revoked")
            return
        if not run or not name:
            raise Leave("expected RUN and NAME, for example my-run a-1", 4)
        known_run(session.ledger, run)
        command = Revoke(now=clock.now(), actor=actor, name=name, reason=reason)
        handle(session, run, command)
        says = act_if_alone(session, run)
        did = "declined" if name.startswith("p-") else "revoked"
        say(as_json, {"run": run, "revoked": name, "says": says}, f"{run}: {name} {did}; {says}")


def _grant_standing(
    session: Session,
    actor: Actor,
    lane: Lane,
    rule: str,
    reason: str,
    requester: str,
    until: datetime | None,
    as_json: bool,
) -> None:
    command = GrantStandingWaiver(
        now=clock.now(),
        actor=actor,
        lane=lane,
        rule=rule,
        reason=reason,
        requester=requester,
        until=until,
    )
    granted = _handle_people(session, command)
    assert isinstance(granted, StandingWaiverGranted), "an accepted waiver is always recorded"
    document = granted.model_dump(mode="json")
    whose = f"{granted.lane.value} launches requested by {granted.requester}"
    text = f"{granted.rule} waived as {granted.waiver} for {whose}, until {_minute(granted.until)}"
    revoke_command = f"watchkeeper permit revoke --standing {granted.waiver}"
    say(as_json, document, f"{text}; to revoke it: {revoke_command}")


def _handle_people(session: Session, command: PeopleCommand) -> object:
    outcome = session.ledger.handle_people(command)
    if isinstance(outcome, Refused):
        raise refusal(outcome)
    return outcome[0].data


def _list_standing(session: Session, as_json: bool) -> None:
    held = standing_waivers(session.ledger.people(), clock.now())
    lines = [
        f"  {one.name}  {one.rule}  {one.lane.value}  launches of {one.requester}, by {one.by}, "
        f"until {_minute(one.until)}: {one.reason}"
        for one in held
    ]
    document = {"standing": [one.model_dump(mode="json") for one in held]}
    say(as_json, document, "\n".join(lines) or "no standing waivers")


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M %Z}"


def _given(handled: Handled) -> ConsentGiven | None:
    return next((e.data for e in handled.events if isinstance(e.data, ConsentGiven)), None)


def _permitted(run: str, given: ConsentGiven) -> str:
    """Return what is permitted now, until when, and how to use the permission."""
    until = _minute(given.expires_at)
    text = f"consent {given.consent}: {given.action} of {given.target}, once, until {until}"
    known = given.action in _ACTIONS
    use = _HOW_TO_USE.get(GuardedAction(given.action)) if known else None
    return f"{text}\n  -> {use.format(run=run, consent=given.consent)}" if use else text


def _duration(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Leave(f"--for {text}: {error}", 4) from error


def _moment(text: str) -> datetime:
    """Parse a time with its zone, or a duration from now."""
    try:
        return clock.now() + parse_duration(text)
    except (ValueError, OverflowError):
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "expected a time such as 2026-11-21T18:00Z, or a duration such as 2h"
        raise Leave(f"--until {text}: {hint}", 4) from error
    if at.tzinfo is None:
        raise Leave(f"--until {text}: expected a zone, for example {text}Z", 4)
    return at
