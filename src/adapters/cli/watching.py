"""`watch`: the loop that stands watch."""

import logging
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from watchkeeper.adapters.cli.common import (
    Leave,
    Office,
    actor_option,
    holder_of,
    home_option,
    json_errors,
    open_office,
    say,
    who,
)
from watchkeeper.adapters.home import watch_lock
from watchkeeper.domain.contract import seals_itself
from watchkeeper.domain.events import Action
from watchkeeper.domain.refusals import Refusal, Refused
from watchkeeper.domain.state import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Run,
    Sealed,
    Stopped,
)
from watchkeeper.watch import Watcher


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--until-idle", is_flag=True, help="End when nothing is left to watch or to push.")
@click.option("--force", is_flag=True, help="Take RUNS from whoever holds them. Only a human can.")
@home_option
@actor_option
@json_errors
def watch(
    runs: tuple[str, ...],
    until_idle: bool,
    force: bool,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Watch all runs of the home, or only RUNS, until Ctrl-C; relaunch, push and seal them."""
    if force and not runs:
        raise Leave("--force names the runs that are taken: watchkeeper watch RUN --force", 4)
    with open_office(home) as office, watch_lock(office.home), told_to_stop() as stop:
        log_to(office)
        if not as_json:
            click.echo(
                f"watching {', '.join(runs) or 'all runs'} of {office.home.path}; Ctrl-C ends"
            )
        holder = holder_of(office.home, "watchkeeper")
        forced_by = who(office.home, principal) if force else None
        if forced_by is not None and forced_by.kind != "human":
            refused = Refused(Refusal.NOT_A_HUMAN, forced_by.principal)
            raise Leave(f"refused ({refused.refusal.name}): {refused.sentence}", 3)
        watcher = Watcher(office.desk, holder, office.home, frozenset(runs), forced_by)
        watcher.run(stop, idle if until_idle else None)
        slugs = office.ledger.slugs()
        say(as_json, {"watched": slugs}, f"the watch over {len(slugs)} runs has ended")


def idle(runs: dict[str, Run]) -> bool:
    """Say whether nothing moves any more without a person."""
    return all(_rests(run) for run in runs.values())


def _rests(run: Run) -> bool:
    match run.phase:
        case Draft() | Cleared() | Sealed() | Stopped() | Abandoned():
            return True
        case Interrupted(decision=decision):
            return decision is not None and decision.action is not Action.RELAUNCH
        case Finished(verified=None):
            return run.contract is not None and not seals_itself(run.contract)
        case _:
            return False


@contextmanager
def told_to_stop() -> Generator[threading.Event, None, None]:
    """Yield an event that SIGINT and SIGTERM set; a second signal ends the process at once."""
    stop = threading.Event()

    def on_signal(number: int, frame: object) -> None:
        del frame
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to(office: Office) -> None:
    """Write what the watch has to say to its operators beside the ledger."""
    handler = logging.FileHandler(office.home.watch_log)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    root = logging.getLogger("watchkeeper")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False
