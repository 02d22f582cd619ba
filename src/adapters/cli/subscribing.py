"""`tools subscribe`: the ledger as a stream of JSON lines."""

import os
import select
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import click

from watchkeeper.adapters.cli.leaving import Leave, json_errors
from watchkeeper.adapters.cli.options import home_option
from watchkeeper.adapters.cli.storing import given_store
from watchkeeper.adapters.cli.watching import stop_signals
from watchkeeper.adapters.subscriptions import (
    Position,
    SubscriptionMistake,
    UnknownRun,
)
from watchkeeper.adapters.subscriptions import (
    subscribe as subscribed,
)
from watchkeeper.projections.published.cloud_event import structured

_LOOK_EVERY_MS = 500


@click.command()
@click.option(
    "--from",
    "from_position",
    default="beginning",
    show_default=True,
    metavar="POSITION|beginning|now",
    help="Start after this position, such as the last event handled.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="GLOB",
    help="Print only these event types, such as 'run.finding_*'; repeatable; see"
    " `tools schema events`.",
)
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="RUN",
    help="Print only this run's events, even if it is launched later; repeatable.",
)
@click.option(
    "--follow/--no-follow",
    default=True,
    show_default=True,
    help="Wait for new events until Ctrl-C.",
)
@home_option
@json_errors
def subscribe(
    from_position: str,
    types: tuple[str, ...],
    runs: tuple[str, ...],
    follow: bool,
    home: Path,
    as_json: bool,
) -> None:
    """Print each event when it is recorded: one CloudEvent as JSON per line.

    To resume, give --from the `position` of the last event that you handled.
    """
    del as_json  # The output is always JSON. The option only changes the form of errors.
    begin = _position(from_position)
    with stop_signals() as stop, _ended_by_reader(stop):
        try:
            events = subscribed(
                home,
                from_position=begin,
                types=types,
                runs=runs,
                follow=follow,
                stop=stop,
                store=given_store(),
                warn=partial(click.echo, err=True),
            )
            with closing(events):
                for event in events:
                    sys.stdout.buffer.write(structured(event) + b"\n")
                    sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The reader closed the pipe within a line. That is no error, and nothing is left to
            # write, not even by the interpreter's flush at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except UnknownRun as error:
            raise Leave(str(error), 3) from error
        except SubscriptionMistake as error:
            raise Leave(str(error), 4) from error


def _position(text: str) -> Position:
    if text == "beginning":
        return "beginning"
    if text == "now":
        return "now"
    if text.isascii() and text.isdigit():
        return int(text)
    raise Leave(f"--from {text}: expected a position such as 120, `beginning` or `now`", 4)


@contextmanager
def _ended_by_reader(stop: threading.Event) -> Generator[None, None, None]:
    """Set an event when the reader closes our output, even while there is nothing to print."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        # Not a real file, so no reader can close it.
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(
        target=_watch_reader, args=(poll, over, stop), name="reader", daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        over.set()


def _watch_reader(poll: select.poll, over: threading.Event, stop: threading.Event) -> None:
    while not over.is_set():
        if any(found & select.POLLERR for _, found in poll.poll(_LOOK_EVERY_MS)):
            stop.set()
            return
