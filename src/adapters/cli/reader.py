"""A home that is open for reading. Imports no decisions and no client."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.storing import given_store
from watchkeeper.adapters.home import Home, open_home, private_files
from watchkeeper.adapters.ledger_choice import chosen_store, own_to_home
from watchkeeper.adapters.near import did_you_mean
from watchkeeper.adapters.store.choosing import OpenLedger, open_ledger, read_at_rest
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.domain.rules.shared.refusals import Refusal, Refused
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.services.ledger.ledger_reader import LedgerReader


@dataclass(frozen=True, slots=True)
class ReadSession:
    """An open home, as a command that only reads needs it.

    Attributes:
        home: The home.
        at_rest: The home is not writable, so its ledger is read without changes.
        ledger: Its ledger.
    """

    home: Home
    at_rest: bool
    ledger: LedgerReader


@contextmanager
def open_reader(path: Path) -> Generator[ReadSession, None, None]:
    """Open a home for the length of a command that records nothing.

    A ledger on a read-only mount is read, with a message.
    """
    home = open_home(path)
    with opened(home, reading=True) as found:
        yield ReadSession(home, found.at_rest, LedgerReader(found.store))


@contextmanager
def opened(
    home: Home, *, create: bool = False, reading: bool = False
) -> Generator[OpenLedger, None, None]:
    """Open the ledger of a home.

    Args:
        home: The home.
        create: Also create a missing ledger on a server.
        reading: Nothing will be recorded.
    """
    # A missing schema that only this home uses is created, like the file, but only once.
    own = own_to_home(given_store(), os.environ, home.store) and not home.ledger_made.exists()
    with (
        private_files(),
        open_ledger(store_of(home), home.ledger, create=create or own, reading=reading) as found,
    ):
        if found.at_rest:
            click.echo(read_at_rest(home.ledger), err=True)
        if own:
            home.ledger_made.write_text(f"{name_of_ledger(home)}\n", encoding="utf-8")
        yield found


def store_of(home: Home) -> str:
    """Return the URL of the server that holds a home's ledger, or "" for the home's file."""
    return chosen_store(given_store(), os.environ, home.store, home.deployment, home.key)


def name_of_ledger(home: Home) -> str:
    """Return the place of a home's ledger in words, without a password."""
    chosen = store_of(home)
    return parse_address(chosen).shown if chosen else str(home.ledger)


def known_run(ledger: LedgerReader, slug: str) -> Run:
    """Return a run that has a history.

    Raises:
        Leave: The run does not exist, or its history cannot be read.
    """
    run = ledger.run(slug)
    if isinstance(run, Unreadable):
        raise Leave(f"{slug} after event {run.version}: {run.why}", 1)
    if run.version == 0:
        raise unknown_run(ledger, slug)
    return run


def unknown_run(ledger: LedgerReader, slug: str) -> Leave:
    """Return the error for an unknown run, with similar names."""
    refused = Refused(Refusal.RUN_UNKNOWN, slug)
    near = did_you_mean(slug, ledger.slugs())
    return Leave(
        f"refused ({refused.refusal.name}): {refused.sentence}{near}",
        3,
        {"refusal": refused.refusal.name},
    )
