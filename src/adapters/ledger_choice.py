"""Which ledger a home has: the file in it, or a schema of a PostgreSQL server that is named.

Imports no store and no client, since `status` asks it first.
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
"""In a URL: the home's own name there, so that each home has a schema of its own."""

_DIGITS = 8


def chosen_store(
    given: str | None, environ: Mapping[str, str], kept: str, deployment: str, key: bytes
) -> str:
    """Return which store to use: as given now, else by WATCHKEEPER_STORE, else as the home keeps.

    Args:
        given: `--store`; none when it was not given.
        environ: The environment.
        kept: What `init --store` left in the home; empty for the file.
        deployment: The home's digits, which begin what stands for `HOME_MARK`.
        key: The home's key; some digits of its hash tell homes with the same six digits apart.

    Returns:
        A URL, or nothing for the file in the home.
    """
    named = given or environ.get(VARIABLE, "") or kept
    if named == IN_THE_HOME:
        return ""
    return named.replace(HOME_MARK, f"{deployment}_{hashlib.sha256(key).hexdigest()[:_DIGITS]}")


def store_to_keep(given: str | None, environ: Mapping[str, str]) -> str | None:
    """Return what a home that is made keeps of its ledger's place, without a password.

    Args:
        given: `--store`; none when it was not given.
        environ: The environment, whose WATCHKEEPER_STORE is kept as well: the next shell lacks it.

    Returns:
        A URL, nothing for the file in the home, or none where neither names any.
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
    """Say whether the store's name holds the home's, so that no other home can mean it."""
    return HOME_MARK in (given or environ.get(VARIABLE, "") or kept)


def store_of_home(home: Path, given: str | None, environ: Mapping[str, str]) -> str:
    """Return the store of a home that is not opened; empty for the file, or where there is none."""
    try:
        found = json.loads((home / "deployment.json").read_text(encoding="utf-8"))
        kept, deployment = str(found.get("store", "")), str(found["deployment"])
        key = bytes.fromhex(found["key"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Whoever opens the home says what is wrong with it.
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
            "Install watchkeeper with it: pip install 'watchkeeper[postgres]'."
        )
    return load(f"store.{module}", name)
