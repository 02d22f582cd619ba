"""What commands that take signals share: subscriptions and the inbox."""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import click

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.viewing import views_of
from watchkeeper.adapters.listening import Board
from watchkeeper.adapters.load import load
from watchkeeper.adapters.pubsub.names import BadName, subscription_names
from watchkeeper.services.signals.binding_snapshot import Known, load_bindings
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
        help=f"Read projects/P/subscriptions/S of Pub/Sub; repeatable (or {VARIABLE}, "
        "separated by commas).",
    )(command)


def asked_for(given: Sequence[str]) -> tuple[str, ...]:
    """Return the subscriptions named by options or the environment.

    Raises:
        Leave: One of them is not the name of a subscription.
    """
    try:
        return subscription_names(given, os.environ.get(VARIABLE, ""))
    except BadName as error:
        where = "--signals" if given else VARIABLE
        raise Leave(f"{where}: {error}", 4) from error


def parser() -> Parse:
    """Return the message parser. It is imported only when messages are taken."""
    made: Parse = load("signals", "parse_message")
    return made


def inbox_of(session: Session) -> Inbox:
    """Return the inbox for signals of an open home."""

    def known() -> Known:
        return load_bindings(lambda: views_of(session), session.ledger.store)

    return Inbox(session.ledger, session.recorder, session.home, parser(), known)


@contextmanager
def listening(session: Session, subscriptions: Sequence[str]) -> Generator[None, None, None]:
    """Read subscriptions during a block. Messages in progress are finished at its end."""
    if not subscriptions:
        yield
        return
    inbox = inbox_of(session)
    board = Board(session.home.write_signals, _LOG.warning)
    make = load("pubsub.consumer", "Consumer")
    consumers: list[Any] = [
        make(name, inbox.take, board, idle=inbox.record_due) for name in subscriptions
    ]
    deadline = load("pubsub.consumer", "DRAIN_LIMIT")
    for consumer in consumers:
        consumer.start()
    try:
        yield
    finally:
        left = clock.Deadline.after(deadline)
        for consumer in consumers:
            consumer.request_stop()
        for consumer in consumers:
            consumer.stop(left.remaining())
        inbox.flush()
