"""The address of a ledger on PostgreSQL: URL, schema, and display without secrets.

No client is imported: `status` reads this before it knows whether it needs one.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from watchkeeper.ports.event_store import StoreFailure

SCHEMES = ("postgresql", "postgres")

SCHEMA_DEFAULT = "watchkeeper"

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
"""Lower-case names need no quotes in `psql`. PostgreSQL shortens names to 63 bytes."""

_SEARCH_PATH = re.compile(r"\s*-(?:c\s*|-)search_path=(\S+)")


@dataclass(frozen=True, slots=True)
class Address:
    """A ledger on a PostgreSQL server.

    Attributes:
        url: The URL for libpq, without the schema. It may have a password, so it is never shown.
        schema: The schema that holds all tables.
        password: The URL's password, to be removed from messages; empty if there is no password.
    """

    url: str
    schema: str
    password: str

    def __repr__(self) -> str:
        """Return the address without secrets."""
        return f"Address({self.shown})"

    @property
    def shown(self) -> str:
        """The URL with its schema and without a password."""
        return f"{without_password(self.url)}#{self.schema}"


def is_postgres(text: str) -> bool:
    """Return whether a store's name is the URL of a PostgreSQL server."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def parse_address(text: str) -> Address:
    """Read the URL of a ledger.

    The schema is named by `#name` or by `?options=-csearch_path%3Dname`, else it is
    `SCHEMA_DEFAULT`. Everything else is libpq's.

    Raises:
        StoreFailure: The text is not a valid URL; the message says what was expected.
    """
    if not is_postgres(text):
        raise StoreFailure(
            f"{shown(text)}: not a store. Expected a URL such as "
            "postgresql://watchkeeper@db.example.com/watchkeeper#myteam; without one the "
            "ledger is a file in the home."
        )
    parts = urlsplit(text)
    query = parse_qsl(parts.query, keep_blank_values=True)
    schema, kept = unquote(parts.fragment), list[tuple[str, str]]()
    for name, value in query:
        if name != "options":
            kept.append((name, value))
            continue
        found = _SEARCH_PATH.search(value)
        if found is not None:
            schema = schema or found[1]
            value = _SEARCH_PATH.sub("", value).strip()
        if value:
            kept.append((name, value))
    schema = schema or SCHEMA_DEFAULT
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise StoreFailure(
            f"{shown(text)}: the schema {schema!r} can't be used. Expected one name of up to 48 "
            "lower-case letters, digits and underscores that does not begin with pg_."
        )
    # quote_via: libpq takes %20 for a space, and a plus sign for a plus sign.
    url = urlunsplit(parts._replace(query=urlencode(kept, quote_via=quote), fragment=""))
    secrets = [unquote(_userinfo(parts.netloc)[1]), *(v for n, v in kept if n == "password")]
    return Address(url, schema, next((secret for secret in secrets if secret), ""))


def shown(text: str) -> str:
    """Return a store's given name without anything that could be a password."""
    return without_password(text) if "://" in text else text


def without_password(url: str) -> str:
    """Return a URL without its password, be it in the user part or in the query."""
    parts = urlsplit(url)
    user, _ = _userinfo(parts.netloc)
    hosts = parts.netloc.rpartition("@")[2]
    query = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if "password" not in name
    ]
    netloc = f"{user}@{hosts}" if user else hosts
    return urlunsplit(parts._replace(netloc=netloc, query=urlencode(query, quote_via=quote)))


def _userinfo(netloc: str) -> tuple[str, str]:
    """Return user and password as written before the hosts."""
    user, _, password = netloc.rpartition("@")[0].partition(":")
    return user, password
