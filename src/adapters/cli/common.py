"""What the commands that act share: the open home, refusals and errors."""

import getpass
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from eventsourcing.persistence import ApplicationRecorder

from watchkeeper import clock
from watchkeeper.adapters.bad_input import BadInput, render_problems
from watchkeeper.adapters.cli.leaving import Leave, filled_in
from watchkeeper.adapters.cli.reader import ReadSession, opened, unknown_run
from watchkeeper.adapters.compose import Adapters
from watchkeeper.adapters.extras import ExtraMissing
from watchkeeper.adapters.home import Home, HomeInUse, HomeProblem, open_home, watch_lock
from watchkeeper.adapters.principals import actor_of, read_principals
from watchkeeper.adapters.store.recorder import recorder_of
from watchkeeper.domain.rules.shared.refusals import MISTAKES, Refusal, Refused
from watchkeeper.domain.rules.table import RunCommand
from watchkeeper.domain.rules.watch.handover import held_elsewhere, is_held
from watchkeeper.domain.run.envelope import Undecodable
from watchkeeper.domain.run.permits import ActProposed
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, known_secrets
from watchkeeper.ports.event_store import KeyReused, StoreFailure, VersionConflict
from watchkeeper.ports.sources import Unavailable
from watchkeeper.ports.views import ViewsFailure
from watchkeeper.services.ledger.group_commit import Committer
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.services import Services
from watchkeeper.services.views.catch_up import ViewHalted
from watchkeeper.services.watch.loop import settle

SETTLE_LIMIT = timedelta(seconds=60)
"""How long a command acts itself if no watch runs. The next watch does the rest."""


@dataclass(frozen=True, slots=True)
class Session(ReadSession):
    """An open home with everything that a command needs.

    Attributes:
        ledger: Its ledger.
        recorder: The ledger as the event sourcing library sees it.
        adapters: The adapters that query and act outside.
    """

    ledger: Ledger
    recorder: ApplicationRecorder
    adapters: Adapters

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
    with (
        opened(home, create=create, reading=reading) as found,
        Committer(found.store) as committer,
    ):
        made = Ledger(committer, scrubber)
        yield Session(home, found.at_rest, made, recorder_of(found.store), Adapters(home))


def who(home: Home, principal: str | None) -> Actor:
    """Return who acts, and as what kind."""
    return actor_of(read_principals(home.principals), principal, os.environ, getpass.getuser())


def holder_of(home: Home, principal: str) -> Holder:
    """Return the watch holder for a watch on this host and home."""
    return Holder(principal=principal, host=socket.gethostname(), home=str(home.path))


def handle(session: Session, slug: str, command: RunCommand) -> Handled:
    """Handle a command and return its outcome.

    Raises:
        Leave: A rule refuses the command.
    """
    outcome = session.ledger.handle(slug, command)
    if isinstance(outcome, Refused) and outcome.refusal is Refusal.RUN_UNKNOWN:
        raise unknown_run(session.ledger, slug)
    return not_refused(outcome, slug)


def not_refused(outcome: Handled | Refused, slug: str = "") -> Handled:
    """Return what a command recorded.

    Args:
        outcome: What came of it.
        slug: The run, where the command line does not name it.

    Raises:
        Leave: A rule refused the command.
    """
    if isinstance(outcome, Refused):
        raise refusal(outcome, slug)
    return outcome


def refusal(refused: Refused, slug: str = "") -> Leave:
    """Return the error for a refused command. Its JSON form also lists proposals."""
    more: dict[str, Any] = {"refusal": refused.refusal.name}
    asked = [fact.proposal for fact in refused.records if isinstance(fact, ActProposed)]
    if asked:
        more["proposals"] = asked
    code = 4 if refused.refusal in MISTAKES else 3
    return Leave(
        f"refused ({refused.refusal.name}): {filled_in(refused.sentence, slug)}", code, more
    )


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
        return f"the watch of {held_elsewhere(run.watch, here, clock.now())} carries it out"
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=500))
    deadline = clock.Deadline.after(SETTLE_LIMIT)
    while True:
        try:
            with watch_lock(session.home):
                settle(session.services, slug, SETTLE_LIMIT)
            break
        except HomeInUse as error:
            if error.is_watch:
                return "the watch that runs in this home carries it out"
            if deadline.expired():
                return (
                    f"recorded, not carried out: {error.holder} still acts for this home; "
                    "the next `watchkeeper watch` carries it out"
                )
        clock.sleep(min(backoff.next_wait(), deadline.remaining()))
    failing = session.ledger.effects(slug).failing
    if failing:
        first = next(iter(failing.values()))
        return f"recorded; {first.effect} has not succeeded yet: {first.reason}"
    run = session.ledger.run(slug)
    if isinstance(run, Run) and run.watch.kept_for and is_held(run.watch, clock.now()):
        return f"recorded; the watch is reserved for {run.watch.kept_for}, who acts on its job"
    return "recorded and carried out; no watch runs, start one: `watchkeeper watch`"


def exit_of(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit code for an error, or `None` for a bug of ours."""
    match error:
        case Leave():
            return str(error), error.code
        case BadInput():
            return render_problems(error.problems), 4
        case HomeInUse():
            return str(error), 3
        case HomeProblem():
            return str(error), 4
        case ViewsFailure() | ViewHalted():
            return str(error), 2
        case StoreFailure() | Undecodable():
            return f"the ledger: {error}", 2
        case VersionConflict():
            return f"{error}; nothing was recorded, try again", 2
        case KeyReused():
            return str(error), 3
        case ExtraMissing():
            return str(error), 2
        case Unavailable():
            return f"no answer from {error}", 2
        case _:
            return None
