"""What the commands share: options, the open home, and output."""

import getpass
import json
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click
from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.adapters.bad_input import BadInput, render_problems
from watchkeeper.adapters.cli import leaving
from watchkeeper.adapters.cli.remote import ServerSaid
from watchkeeper.adapters.cli.storing import given_store
from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.home import (
    Home,
    HomeInUse,
    HomeProblem,
    open_home,
    private_files,
    watch_lock,
)
from watchkeeper.adapters.ledger_choice import chosen_store, own_to_home
from watchkeeper.adapters.near import did_you_mean
from watchkeeper.adapters.principals import actor_of, read_principals
from watchkeeper.adapters.store.choosing import open_ledger, read_at_rest
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.domain.rules.shared.refusals import MISTAKES, Refusal, Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.handover import held_elsewhere, is_held
from watchkeeper.domain.run.envelope import Undecodable
from watchkeeper.domain.run.permits import ActProposed
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, known_secrets
from watchkeeper.ports.event_store import KeyReused, StoreFailure, VersionConflict
from watchkeeper.ports.sources import Unavailable
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.services.ledger.group_commit import Committer
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.services import Services
from watchkeeper.services.views.rebuild import BuildHeld
from watchkeeper.services.watch.loop import settle

HOME_DEFAULT = "~/.watchkeeper"
SETTLE_LIMIT = timedelta(seconds=60)
"""How long a command acts itself if no watch runs. The next watch does the rest."""

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


Leave = leaving.Leave
json_errors = leaving.json_errors
leave_quietly = leaving.leave_quietly


def home_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--home` and `--json`."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(
        command
    )
    return click.option(
        "--home",
        envvar="WATCHKEEPER_HOME",
        default=HOME_DEFAULT,
        show_default=True,
        type=click.Path(path_type=Path, file_okay=False),
        is_eager=True,  # `--server` checks whether `--home` was given.
        help="Folder of the ledger (or WATCHKEEPER_HOME).",
    )(command)


def actor_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--as`."""
    return click.option(
        "--as",
        "principal",
        default=None,
        metavar="PRINCIPAL",
        help="Who acts, as listed in principals.toml (or WATCHKEEPER_PRINCIPAL, or the OS user).",
    )(command)


@dataclass(frozen=True, slots=True)
class Session:
    """An open home with everything that a command needs.

    Attributes:
        home: The home.
        ledger: Its ledger.
        recorder: The ledger as the event sourcing library sees it.
        adapters: The adapters that query and act outside.
        at_rest: The home is not writable, so its ledger is read without changes.
    """

    home: Home
    ledger: Ledger
    recorder: ApplicationRecorder
    adapters: Adapters
    at_rest: bool

    @property
    def services(self) -> Services:
        """The services that commands use to act."""
        return Services(self.ledger, self.recorder, self.adapters, self.home, self.home.deployment)


@contextmanager
def open_session(
    path: Path, *, create: bool = False, reading: bool = False
) -> Generator[Session, None, None]:
    """Open a home for the length of a command.

    Args:
        path: Its folder.
        create: Also create a missing ledger on a server.
        reading: The command records nothing. A ledger on a read-only mount is read, with a
            message.
    """
    home = open_home(path)
    scrubber = Scrubber(home.key, known_secrets(os.environ))
    # A missing schema that only this home uses is created, like the file, but only once.
    own = own_to_home(given_store(), os.environ, home.store) and not home.ledger_made.exists()
    with (
        private_files(),
        open_ledger(store_of(home), home.ledger, create=create or own, reading=reading) as opened,
        Committer(opened.store) as committer,
    ):
        if opened.at_rest:
            click.echo(read_at_rest(home.ledger), err=True)
        if own:
            home.ledger_made.write_text(f"{name_of_ledger(home)}\n", encoding="utf-8")
        made = Ledger(committer, scrubber)
        yield Session(home, made, opened.recorder, Adapters(home), opened.at_rest)


def store_of(home: Home) -> str:
    """Return the URL of the server that holds a home's ledger, or "" for the home's file."""
    return chosen_store(given_store(), os.environ, home.store, home.deployment, home.key)


def name_of_ledger(home: Home) -> str:
    """Return the place of a home's ledger in words, without a password."""
    chosen = store_of(home)
    return parse_address(chosen).shown if chosen else str(home.ledger)


def who(home: Home, principal: str | None) -> Actor:
    """Return who acts, and as what kind."""
    return actor_of(read_principals(home.principals), principal, os.environ, getpass.getuser())


def holder_of(home: Home, principal: str) -> Holder:
    """Return the watch holder for a watch on this host and home."""
    return Holder(principal=principal, host=socket.gethostname(), home=str(home.path))


def known_run(ledger: Ledger, slug: str) -> Run:
    """Return a run that has a history.

    Raises:
        Leave: The run does not exist, or its history cannot be read.
    """
    run = ledger.run(slug)
    if isinstance(run, Unreadable):
        raise Leave(f"{slug} after event {run.version}: {run.why}", 1)
    if run.version == 0:
        raise _unknown(ledger, Refused(Refusal.RUN_UNKNOWN, slug), slug)
    return run


def _unknown(ledger: Ledger, refused: Refused, slug: str) -> Leave:
    """Return the error for an unknown run, with similar names."""
    near = did_you_mean(slug, ledger.slugs())
    return Leave(f"refused ({refused.refusal.name}): {refused.sentence}{near}", 3)


def handle(session: Session, slug: str, command: RunCommand) -> Handled:
    """Handle a command and return its outcome.

    Raises:
        Leave: A rule refuses the command.
    """
    outcome = session.ledger.handle(slug, command)
    if isinstance(outcome, Refused) and outcome.refusal is Refusal.RUN_UNKNOWN:
        raise _unknown(session.ledger, outcome, slug)
    return not_refused(outcome)


def not_refused(outcome: Handled | Refused) -> Handled:
    """Return what a command recorded.

    Raises:
        Leave: A rule refused the command.
    """
    if isinstance(outcome, Refused):
        raise refusal(outcome)
    return outcome


def refusal(refused: Refused) -> Leave:
    """Return the error for a refused command. Its JSON form also lists proposals."""
    more: dict[str, Any] = {"refusal": refused.refusal.name}
    asked = [fact.proposal for fact in refused.records if isinstance(fact, ActProposed)]
    if asked:
        more["proposals"] = asked
    code = 4 if refused.refusal in MISTAKES else 3
    return Leave(f"refused ({refused.refusal.name}): {refused.sentence}", code, more)


def act_if_alone(session: Session, slug: str) -> str:
    """Act for a run now unless a watch of this home does, and say which.

    If another command acts for the home, wait for it, up to `SETTLE_LIMIT`.

    Returns:
        A sentence for the person who waits.
    """
    run = session.ledger.run(slug)
    here = holder_of(session.home, "")
    if isinstance(run, Run) and held_elsewhere(run.watch, here, clock.now()):
        # Only the holder acts outside. Two homes that act for one run would race each other.
        return f"the watch of {held_elsewhere(run.watch, here, clock.now())} takes it from here"
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
    deadline = clock.Deadline.after(SETTLE_LIMIT)
    while True:
        try:
            with watch_lock(session.home):
                settle(session.services, slug, SETTLE_LIMIT)
            break
        except HomeInUse as error:
            if error.is_watch:
                return "the watch that runs in this home takes it from here"
            if deadline.expired():
                return (
                    f"recorded and not carried out: {error.holder} still acts for this home; "
                    "the next `watchkeeper watch` does it"
                )
        clock.sleep(min(backoff.next_wait(), deadline.remaining()))
    failing = session.ledger.effects(slug).failing
    if failing:
        first = next(iter(failing.values()))
        return f"recorded; {first.effect} did not get through yet: {first.reason}"
    run = session.ledger.run(slug)
    if isinstance(run, Run) and run.watch.kept_for and is_held(run.watch, clock.now()):
        return f"recorded; the watch is kept for {run.watch.kept_for}, who acts for its job"
    return "recorded and carried out; no watch runs: `watchkeeper watch`"


def say(as_json: bool, document: dict[str, Any], text: str) -> None:
    """Print a result for a program or for a person."""
    click.echo(json.dumps(document, ensure_ascii=False) if as_json else text)


def exit_of(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code for an error, or `None` for a bug of ours."""
    match error:
        case Leave() | ServerSaid():
            return str(error), error.code
        case BadInput():
            return render_problems(error.problems), 4
        case HomeInUse():
            return str(error), 3
        case HomeProblem():
            return str(error), 4
        case ViewsFailure() | BuildHeld():
            return str(error), 2
        case StoreFailure() | Undecodable():
            return f"the ledger: {error}", 2
        case VersionConflict():
            return f"{error}; nothing was recorded, try again", 2
        case KeyReused():
            return str(error), 3
        case Unavailable():
            return f"no answer from {error}", 2
        case _:
            return None
