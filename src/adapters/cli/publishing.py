"""Implements `--publish` of `watch` and `serve`: sends events while they run."""

import logging
import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ParamSpec, TypeVar

import click

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.targets.address import TargetMistake, targets
from watchkeeper.ports.sources import EventTarget, Unavailable
from watchkeeper.services.outbox.subscriptions import publishing

log = logging.getLogger(__name__)

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def publish_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--publish`."""
    return click.option(
        "--publish",
        multiple=True,
        envvar="WATCHKEEPER_PUBLISH",
        metavar="TARGET",
        help="Publish every event to pubsub://projects/P/topics/T, https://HOST/PATH or "
        "file:///PATH; repeatable (or WATCHKEEPER_PUBLISH, separated by spaces).",
    )(command)


def chosen(addresses: Sequence[str]) -> list[EventTarget]:
    """Return the targets of `--publish`.

    Raises:
        Leave: A target cannot be used.
    """
    try:
        return targets(addresses, os.environ)
    except TargetMistake as error:
        raise Leave(str(error), 4) from error


@contextmanager
def published(session: Session, found: Sequence[EventTarget]) -> Generator[None, None, None]:
    """Publish every event of a home during a block."""
    _retire(session, {one.key for one in found})
    home = session.home
    with publishing(session.recorder, session.ledger.store, home, home.deployment, found):
        yield


def _retire(session: Session, used: set[str]) -> None:
    """Mark the targets that are no longer named, so that their lag is not reported."""
    for path in session.home.deliveries.glob("*.json"):
        if path.stem in used:
            continue
        try:
            delivery = session.home.read_delivery(path.stem)
            if delivery is not None and delivery.active:
                session.home.write_delivery(path.stem, replace(delivery, active=False))
        except (Unavailable, OSError) as error:
            # `status` reports it as a failing target, and the watch goes on.
            log.warning("%s: %s", path, error)
