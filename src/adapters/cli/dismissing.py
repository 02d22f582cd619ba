"""`signals dismiss`: a person says that waiting signals need no action."""

from pathlib import Path

import click

from watchkeeper.adapters.bad_input import visible
from watchkeeper.adapters.cli.common import Session, open_session, refusal, who
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.signals import SignalsDismissed
from watchkeeper.domain.values.people import Actor
from watchkeeper.projections.figures import count
from watchkeeper.projections.status.signal_rows import meant
from watchkeeper.services.signals.inbound import TEXT_MAX

_WHERE = "list them with `watchkeeper signals unbound` and `watchkeeper signals quarantine`"


def human(session: Session, principal: str | None) -> Actor:
    """Return the actor, who must be a human.

    Raises:
        Leave: The actor is not a human.
    """
    actor = who(session.home, principal)
    if actor.kind != "human":
        raise refusal(Refused(Refusal.NOT_A_HUMAN, actor.principal))
    return actor


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--source", default="", help="Dismiss every unbound signal of this source.")
@click.option("--reason", required=True, help="Why nobody needs them. The reason is recorded.")
@home_option
@actor_option
@json_errors
def dismiss(
    names: tuple[str, ...],
    source: str,
    reason: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Dismiss kept signals or quarantined messages, such as forged ones. Only a human can."""
    if bool(names) is bool(source) or not reason.strip():
        raise Leave("expected names or --source, and a --reason", 4)
    with open_session(home) as session:
        actor = human(session, principal)
        box = session.ledger.box()
        chosen = [n for n, one in box.kept.items() if one.signal.source == source]
        for name in names:
            found = [name] if name in box.quarantined else meant(box, name)
            if len(found) != 1:
                raise Leave(f"{visible(name)}: no such entry waits; {_WHERE}", 4)
            chosen += found
        fact = SignalsDismissed(
            names=() if source else tuple(chosen), source=source, reason=reason.strip()[:TEXT_MAX]
        )
        if chosen:
            session.ledger.record_box(lambda _: [fact], actor)
    document = {"dismissed": chosen, "source": source}
    say(as_json, document, f"{count(len(chosen), 'entry', 'entries')} dismissed")
