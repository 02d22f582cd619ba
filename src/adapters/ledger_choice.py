"""Where a home keeps its ledger: in a local file or on a PostgreSQL server.

Imports no store and no client, because `status` reads it first.
"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watchkeeper.adapters.load import load
from watchkeeper.ports.event_store import StoreFailure

VARIABLE = "WATCHKEEPER_STORE"
IN_THE_HOME = "sqlite"
"""Names the file in the home, where a variable or the home names a server."""

HOME_MARK = "{home}"
"""Placeholder in a URL for the home's own name, so that each home has its own schema."""

_DIGITS = 8


def chosen_store(
    given: str | None, environ: Mapping[str, str], kept: str, deployment: str, key: bytes
) -> str:
    """Return the store to use: the given one, else WATCHKEEPER_STORE, else the home's.

    Args:
        given: `--store`; None if it was not given.
        environ: The environment.
        kept: The store that `init --store` recorded in the home; empty for the file.
        deployment: The home's digits, which begin the replacement of `HOME_MARK`.
        key: The home's key; digits of its hash distinguish homes with the same six digits.

    Returns:
        A URL, or an empty string for the file in the home.
    """
    named = given or environ.get(VARIABLE, "") or kept
    if named == IN_THE_HOME:
        return ""
    return named.replace(HOME_MARK, f"{deployment}_{hashlib.sha256(key).hexdigest()[:_DIGITS]}")


def store_to_keep(given: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the store to record in a new home, without a password.

    Args:
        given: `--store`; None if it was not given.
        environ: The environment. Its WATCHKEEPER_STORE is recorded, too: the next shell lacks it.

    Returns:
        A URL, an empty string for the file in the home, or None if neither names a store.
    """
    named = given or environ.get(VARIABLE, "")
    if not named:
        return None
    if named == IN_THE_HOME:
        return ""
    if not load("store.postgres_address", "parse_address")(sample_of(named)).password:
        return named
    bare: str = load("store.postgres_address", "without_password")(named)
    return bare


def sample_of(store: str) -> str:
    """Return a store's name as some home would read it, to see whether it can be one."""
    return store.replace(HOME_MARK, "0" * 6 + "_" + "0" * _DIGITS)


def own_to_home(given: str | None, environ: Mapping[str, str], kept: str) -> bool:
    """Return whether the store's name holds the home's, so that no other home can mean it."""
    return HOME_MARK in (given or environ.get(VARIABLE, "") or kept)


def store_of_home(home: Path, given: str | None, environ: Mapping[str, str]) -> str:
    """Return the store of a home without opening it; empty for the file or a missing home."""
    try:
        found = json.loads((home / "deployment.json").read_text(encoding="utf-8"))
        kept, deployment = str(found.get("store", "")), str(found["deployment"])
        key = bytes.fromhex(found["key"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # The code that opens the home reports what is wrong with it.
        return ""
    return chosen_store(given, environ, kept, deployment, key)


def postgres_part(module: str, name: str, url: str) -> Any:
    """Return a member of a module of the store that needs the client of PostgreSQL.

    Args:
        module: Such as `postgres_rows`.
        name: Its member.
        url: What the client is needed for.

    Raises:
        StoreFailure: The client is not installed.
    """
    if importlib.util.find_spec("psycopg") is None:
        where = load("store.postgres_address", "without_password")(url)
        raise StoreFailure(
            f"PostgreSQL {where}: its client is not installed. Nothing was stored. "
            f"Install watchkeeper with it: {load('extras', 'install_line')('psycopg')}."
        )
    return load(f"store.{module}", name)
