"""`--store`: a ledger on PostgreSQL in place of the home's file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import click

from watchkeeper.adapters.ledger_choice import IN_THE_HOME, sample_of, store_of_home
from watchkeeper.adapters.load import load

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def store_option(command: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Add `--store`."""
    return click.option(
        "--store",
        default=None,
        metavar="URL",
        callback=_without_password,
        help="Ledger on PostgreSQL, such as postgresql://user@host/database#schema (or "
        "WATCHKEEPER_STORE, or the URL given to `init`).  [default: a file in the home]",
    )(command)


def given_store() -> str | None:
    """Return the value of `--store` in the running command, or `None`."""
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        return None
    given: str | None = ctx.find_root().params.get("store")
    return given


def store_named(home: Path) -> str:
    """Return the store URL of a home that is not open, or "" for the home's file."""
    return store_of_home(home.expanduser(), given_store(), os.environ)


def _without_password(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Refuse a password on the command line, where every process list shows it."""
    del ctx, parameter
    if not value or value == IN_THE_HOME:
        return value
    try:
        address = load("store.postgres_address", "parse_address")(sample_of(value))
    except load("store.postgres_address", "StoreFailure") as error:
        raise click.UsageError(f"--store: {error}") from error
    if address.password:
        raise click.UsageError(
            "--store: everybody who lists processes can read a password in the URL. Leave "
            "it out, and set PGPASSWORD or a line in ~/.pgpass."
        )
    return value
