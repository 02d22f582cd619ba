"""`watch`: the watch loop."""

import logging
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import (
    Session,
    holder_of,
    not_refused,
    open_session,
    refusal,
    who,
)
from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.listening import asked_for, listening, signals_option
from watchkeeper.adapters.cli.narrator import narrated
from watchkeeper.adapters.cli.options import actor_option, home_option, say
from watchkeeper.adapters.cli.publishing import chosen, publish_option, published
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.cli.second_reading import reader_of, second_reader_options
from watchkeeper.adapters.cli.verifying import verified_daily
from watchkeeper.adapters.cli.viewing import viewed
from watchkeeper.adapters.home import HomeInUse, watch_lock
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.health.freshness import stale_since
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.rules.watch.commands import TakeWatch
from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.ends import Action
from watchkeeper.domain.run.phases import (
    Abandoned,
    Cleared,
    Draft,
    Finished,
    Interrupted,
    Sealed,
    Stopped,
    Superseded,
)
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.basic import CheckpointKind
from watchkeeper.domain.values.contract.contract import seals_itself
from watchkeeper.domain.values.people import Actor
from watchkeeper.domain.values.secrets.scrubbing import Scrubber, scrub
from watchkeeper.ports.event_store import StoreUnavailable
from watchkeeper.projections.figures import count
from watchkeeper.services.watch.loop import Watcher

BUILT_IN = "watchkeeper"
"""Default name under which the loop holds a watch."""


@click.command()
@click.argument("runs", nargs=-1)
@click.option("--until-idle", is_flag=True, help="Exit when nothing is left to watch or push.")
@click.option(
    "--holder",
    default=BUILT_IN,
    show_default=True,
    metavar="PRINCIPAL",
    help="Principal that holds the watch, such as the one it was handed over to.",
)
@click.option(
    "--force", is_flag=True, help="Take RUNS from their current holder. Only a human can."
)
@publish_option
@signals_option
@second_reader_options
@home_option
@actor_option
@json_errors
def watch(
    runs: tuple[str, ...],
    until_idle: bool,
    force: bool,
    holder: str,
    publish: tuple[str, ...],
    subscriptions: tuple[str, ...],
    second_reader: str,
    second_reader_limit: str,
    home: Path,
    as_json: bool,
    principal: str | None,
) -> None:
    """Watch all runs of the home until Ctrl-C; relaunch, push and seal them.

    RUNS names runs to watch although their contract declines a watch. With --force it names runs to
    take from their current holder. If a watch already runs here, --holder takes RUNS at once in
    that name, and the running watch continues with them.
    """
    if not holder.strip() or any(c.isspace() for c in holder):
        raise Leave("--holder: expected a principal's name without spaces, such as alice", 4)
    if force and not runs:
        raise Leave("--force needs the names of the runs to take: watchkeeper watch RUN --force", 4)
    targets = chosen(publish)
    sources = asked_for(subscriptions)
    reader = reader_of(second_reader, second_reader_limit)
    with open_session(home) as session, stop_signals() as stop, ExitStack() as stack:
        for slug in runs:
            known_run(session.ledger, slug)
        try:
            stack.enter_context(watch_lock(session.home, "watch"))
        except HomeInUse as error:
            if not (error.is_watch and runs and holder != BUILT_IN):
                raise
            say(as_json, *_take_over(session, runs, holder, force, who(session.home, principal)))
            return
        log_to(session)
        if not as_json:
            click.echo(f"watching all runs of {session.home.path}; Ctrl-C stops it")
        held_by = holder_of(session.home, holder)
        forced_by = who(session.home, principal) if force else None
        if forced_by is not None and forced_by.kind != "human":
            refused = Refused(Refusal.NOT_A_HUMAN, forced_by.principal)
            raise refusal(refused, runs[0])
        services = replace(session.services, reader=reader)
        watcher = Watcher(services, held_by, session.home, frozenset(runs), forced_by)
        if not as_json:
            stack.enter_context(narrated(session, _print_event))
        stack.enter_context(viewed(session))
        stack.enter_context(published(session, targets))
        stack.enter_context(listening(session, sources))
        stack.enter_context(verified_daily(session))
        watcher.run(stop, idle if until_idle else None)
        say(as_json, *_ended(session, runs))


def _ended(session: Session, runs: tuple[str, ...]) -> tuple[dict[str, Any], str]:
    try:
        slugs = [slug for slug in session.ledger.slugs() if _is_watched(session, slug, runs)]
    except StoreUnavailable:
        # Already reported: the watch ended while it waited for the ledger.
        return {"watched": None}, "the watch has ended: the ledger is unreachable"
    return {"watched": slugs}, f"the watch over {count(len(slugs), 'run')} has ended"


def _take_over(
    session: Session, runs: tuple[str, ...], holder: str, force: bool, actor: Actor
) -> tuple[dict[str, Any], str]:
    """Transfer runs to a holder while a watch runs here, which continues to check them."""
    here = holder_of(session.home, holder)
    for slug in runs:
        command = TakeWatch(now=clock.now(), actor=actor, holder=here, same_home=False, force=force)
        not_refused(session.ledger.handle(slug, command), slug)
    names = ", ".join(runs)
    text = f"{names}: {holder} now holds the watch; the watch process on this machine continues it"
    return {"taken": list(runs), "holder": holder}, text


def _print_event(slug: str, line: str, data: object) -> None:
    if isinstance(data, CheckpointValidated) and data.kind is CheckpointKind.TEMPORARY:
        # The line of each check names the newest one, and `checkpoints` lists them all.
        return
    click.echo(f"{clock.now():%H:%M:%S} UTC  {slug}  {line}")


def _is_watched(session: Session, slug: str, named: tuple[str, ...]) -> bool:
    """Return whether the watch checks a run: it is readable, and was named or did not decline."""
    run = session.ledger.run(slug)
    if not isinstance(run, Run):
        return False
    return slug in named or run.contract is None or not run.contract.watch.declined


def idle(runs: dict[str, Run]) -> bool:
    """Return whether nothing more happens without a person."""
    return all(_rests(run) for run in runs.values())


def _rests(run: Run) -> bool:
    match run.phase:
        case Draft() | Cleared() | Sealed() | Stopped() | Abandoned() | Superseded():
            return True
        case _ if run.watch.ended:
            return True
        case Interrupted(decision=decision):
            return decision is not None and decision.action is not Action.RELAUNCH
        case Finished(verified=None):
            return run.contract is not None and not seals_itself(run.contract)
        case _:
            return False


@contextmanager
def stop_signals() -> Generator[threading.Event, None, None]:
    """Yield an event that SIGINT and SIGTERM set; a second one raises KeyboardInterrupt."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            # The process must not end at once: it still has to end the processes that it started.
            signal.default_int_handler(number, frame)
        stop.set()

    before = {
        number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _WatchLog(logging.FileHandler):
    """A log file whose own failure, such as a full disk, is reported once and ends nothing."""

    _warned = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - Logging's name.
        """Report that the log cannot be written, instead of the library's traceback."""
        del record
        if self._warned:
            return
        self._warned = True
        says = f"{self.baseFilename} cannot be written ({sys.exception()}): the watch continues"
        click.echo(f"{says} without it; check the free disk space", err=True)


class _TerminalHandler(logging.Handler):
    """Also prints at the terminal why a watch is silent."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        click.echo(self.format(record), err=True)


class _CleanFormatter(logging.Formatter):
    """Removes secrets, which outside messages or tracebacks may contain."""

    def __init__(self, scrubber: Scrubber) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")
        self._scrubber = scrubber

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record without secrets."""
        return scrub(self._scrubber, super().format(record)).text


def log_to(session: Session) -> None:
    """Write the watch's messages for operators to a file next to the ledger."""
    handler = _WatchLog(session.home.watch_log)
    handler.setFormatter(_CleanFormatter(session.ledger.scrubber))
    terminal = _TerminalHandler()
    terminal.setFormatter(_CleanFormatter(session.ledger.scrubber))
    logging.getLogger("watchkeeper.services.ledger.store_outage").addHandler(terminal)
    root = logging.getLogger("watchkeeper")
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    root.propagate = False


def record_stale(home: Path, principal: str | None) -> str:
    """Record every stale monitor with `doctor` as the reporter, and name the runs."""
    with open_session(home) as session:
        return _recorded_stale(session, principal)


def _recorded_stale(session: Session, principal: str | None) -> str:
    actor = who(session.home, principal)
    reporter = holder_of(session.home, f"doctor:{actor.principal}")
    reported: list[str] = []
    for slug in session.ledger.slugs():
        run = session.ledger.run(slug)
        if not isinstance(run, Run) or stale_since(run, clock.now()) is None:
            continue
        command = ReportStaleMonitor(now=clock.now(), actor=actor, reporter=reporter)
        outcome = session.ledger.handle(slug, command)
        if not isinstance(outcome, Refused) and outcome.events:
            reported.append(slug)
    return f"monitor stale: {', '.join(reported)}" if reported else "nothing new to record"
