"""Commands of `run` about who watches, and about planned acts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    Session,
    act_if_alone,
    handle,
    holder_of,
    not_refused,
    open_session,
    refusal,
    who,
)
from watchkeeper.adapters.cli.explaining import needs_of
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say, screen_width
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.expected_rules import not_expectable
from watchkeeper.adapters.home import is_watched
from watchkeeper.adapters.near import did_you_mean
from watchkeeper.adapters.principals import read_principals
from watchkeeper.domain.rules.operator.commands import AnnounceAct, EndAct
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.watch.commands import DeclineWatch, HandOver
from watchkeeper.domain.run.operator import ActKind, PlannedActAnnounced
from watchkeeper.domain.run.queries import describe_act
from watchkeeper.domain.run.run import contract_of
from watchkeeper.domain.run.watch import WatchHandedOver
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.projections.describe.event_lines import event_row
from watchkeeper.projections.handover_screen import Surroundings, render_handover
from watchkeeper.projections.status.writer import status_row
from watchkeeper.services.services import SERVICE

_EVENTS_SHOWN = 5


@click.command()
@click.argument("run")
@click.option("--to", required=True, metavar="PRINCIPAL", help="Who takes the watch next.")
@click.option("--reason", "note", default="", help="Why, and what the next holder should know.")
@click.option(
    "--force", is_flag=True, help="Take the watch without the current holder. Agents cannot."
)
@home_option
@actor_option
@json_errors
def handover(
    run: str, to: str, note: str, force: bool, home: Path, as_json: bool, principal: str | None
) -> None:
    """Hand the watch over RUN to PRINCIPAL, with a packet of what they need to know.

    The former holder stops acting at once. The watch is reserved for PRINCIPAL for two cadences and
    60 s. Then anyone may take it, so no run stays unwatched.
    """
    if not to.strip() or any(c.isspace() for c in to):
        raise Leave("--to: expected a principal's name without spaces, such as alice", 4)
    with open_session(home) as session:
        known_run(session.ledger, run)
        listed = read_principals(session.home.principals)
        if to not in (*listed, SERVICE.principal):
            near = did_you_mean(to, listed)
            says = f"no such principal in {session.home.principals}.{near}"
            loop = f"`watchkeeper run handover {run} --to {SERVICE.principal}`"
            raise Leave(f"--to {to}: {says} The built-in loop takes it with {loop}", 3)
        actor = who(session.home, principal)
        command = HandOver(
            now=clock.now(),
            actor=actor,
            to=to,
            here=holder_of(session.home, actor.principal),
            force=force,
            note=note,
        )
        handled = handle(session, run, command)
        given = handled.events[-1].data
        assert isinstance(given, WatchHandedOver), "a handover records itself"
        act_if_alone(session, run)
        document = {"run": run, **given.model_dump(mode="json")}
        known = _surroundings(session, run)
        say(as_json, document, render_handover(run, given, known, width=screen_width()))


def _surroundings(session: Session, run: str) -> Surroundings:
    after = known_run(session.ledger, run)
    history = session.ledger.history(run, after=max(after.version - _EVENTS_SHOWN, 0))
    return Surroundings(
        contract=contract_of(after),
        links=status_row(after).get("links", {}),
        needs=needs_of(session, run),
        newest=[event_row(event) for event in history],
        is_watched=is_watched(session.home),
        now=clock.now(),
    )


@click.command()
@click.argument("run")
@click.option("--reason", required=True, help="Why nobody should watch the run.")
@home_option
@actor_option
@json_errors
def decline(run: str, reason: str, home: Path, as_json: bool, principal: str | None) -> None:
    """End the watch over RUN for good; its job continues. Only a human can."""
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        handle(session, run, DeclineWatch(now=clock.now(), actor=actor, reason=reason))
        says = act_if_alone(session, run)
        text = f"{run}: the watch has ended; to watch again: watchkeeper watch {run} --force"
        say(as_json, {"run": run, "declined": reason, "says": says}, text)


@click.command()
@click.argument("run")
@click.option(
    "--kind", type=click.Choice([kind.value for kind in ActKind]), help="Kind of planned work."
)
@click.option(
    "--from",
    "starts",
    default="now",
    show_default=True,
    help="Start: now, 2h (from now), or a time such as 2026-11-21T14:00Z.",
)
@click.option("--for", "length", default="", help="Length of the window, such as 2h.")
@click.option("--expect", default="", help="Rules whose findings are expected, such as H1,H3,H6.")
@click.option("--reason", default="", help="What the work is, and why.")
@click.option(
    "--end", "act", default="", metavar="ACT", help="End the announced ACT, such as act-1."
)
@home_option
@actor_option
@json_errors
def announce(
    run: str,
    kind: str | None,
    starts: str,
    length: str,
    expect: str,
    reason: str,
    act: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Announce planned work on RUN, so that its effects raise no alert.

    Nothing relaunches by itself in the window of a pause, swap or maintenance. Only a human can
    announce. Anyone can report with --end that the work is over.
    """
    with open_session(home) as session:
        known_run(session.ledger, run)
        actor = who(session.home, principal)
        now = clock.now()
        if act:
            handle(session, run, EndAct(now=now, actor=actor, act=act, reason=reason))
            says = act_if_alone(session, run)
            document = {"run": run, "act": act, "over": True, "says": says}
            say(as_json, document, f"{run}: {act} is over; every finding alerts again; {says}")
            return
        if kind is None or not length:
            raise Leave("--kind and --for: expected both, such as --kind pause --for 2h", 4)
        begins = _time(starts, now)
        expects = tuple(rule.strip() for rule in expect.split(",") if rule.strip())
        command = AnnounceAct(
            now=now,
            actor=actor,
            kind=ActKind(kind),
            starts_at=begins,
            ends_at=begins + _duration("--for", length),
            expects=tuple(rule.upper() for rule in expects),
            reason=reason,
        )
        outcome = session.ledger.handle(run, command)
        if isinstance(outcome, Refused) and outcome.refusal is Refusal.RULE_NOT_EXPECTABLE:
            raise _not_expectable(outcome, expects)
        handled = not_refused(outcome)
        announced = handled.events[-1].data
        assert isinstance(announced, PlannedActAnnounced), "an announcement records itself"
        says = act_if_alone(session, run)
        document = {"run": run, **announced.model_dump(mode="json"), "says": says}
        say(as_json, document, f"{run}: announced {describe_act(announced)}; {says}")


def _not_expectable(refused: Refused, expects: Sequence[str]) -> Leave:
    """Return the error, with the rules that the user may have meant."""
    said = refusal(refused)
    hints = [
        f"--expect: got {expects[place]}, expected {expected}"
        for place, expected in not_expectable(rule.upper() for rule in expects)
    ]
    return Leave("; ".join((str(said), *hints)), said.code, said.more)


def _time(text: str, now: datetime) -> datetime:
    """Parse the time at which something begins.

    Raises:
        Leave: The text is not a time, or it has no zone.
    """
    if text == "now":
        return now
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return now + _duration("--from", text)
    if at.tzinfo is None:
        raise Leave(f"--from {text}: expected a time with its zone, such as {text}Z", 4)
    return at


def _duration(option: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise Leave(f"{option} {text}: {error}", 4) from error
