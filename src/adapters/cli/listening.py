"""What the commands share that take signals in: subscriptions to read, and the one way in."""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Leave, Session
from watchkeeper.adapters.cli.viewing import views_of
from watchkeeper.adapters.listening import Board
from watchkeeper.adapters.load import load
from watchkeeper.adapters.pubsub.names import BadName, subscription_names
from watchkeeper.services.signals.binding_snapshot import Known, known_by
from watchkeeper.services.signals.inbound import Inbox, Parse

VARIABLE = "WATCHKEEPER_SIGNALS"

_LOG = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def signals_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--signals`."""
    return click.option(
        "--signals",
        "subscriptions",
        multiple=True,
        metavar="SUBSCRIPTION",
        help="Read projects/P/subscriptions/S of Pub/Sub; may be given again "
        f"(or {VARIABLE}, several separated by commas).",
    )(command)


def asked_for(given: Sequence[str]) -> tuple[str, ...]:
    """Return the subscriptions that options or the environment name.

    Raises:
        Leave: One of them is no name of a subscription.
    """
    try:
        return subscription_names(given, os.environ.get(VARIABLE, ""))
    except BadName as error:
        where = "--signals" if given else VARIABLE
        raise Leave(f"{where}: {error}", 4) from error


def parser() -> Parse:
    """Return what reads messages; loaded here only, when somebody takes messages."""
    made: Parse = load("signals", "parse_message")
    return made


def inbox_of(session: Session) -> Inbox:
    """Return the way in for signals of an open home."""

    def known() -> Known:
        return known_by(lambda: views_of(session), session.ledger.store)

    return Inbox(session.ledger, session.recorder, session.home, parser(), known)


@contextmanager
def listening(session: Session, subscriptions: Sequence[str]) -> Generator[None, None, None]:
    """Read subscriptions for the length of a block; what is in hand at its end is finished."""
    if not subscriptions:
        yield
        return
    inbox = inbox_of(session)
    board = Board(session.home.write_signals, _LOG.warning)
    make = load("pubsub.consumer", "Consumer")
    consumers: list[Any] = [make(name, inbox.take, board) for name in subscriptions]
    deadline = load("pubsub.consumer", "DRAIN_LIMIT")
    for consumer in consumers:
        consumer.start()
    try:
        yield
    finally:
        left = clock.Deadline.after(deadline)
        for consumer in consumers:
            consumer.tell_to_stop()
        for consumer in consumers:
            consumer.stop(left.remaining())
        inbox.flush()
