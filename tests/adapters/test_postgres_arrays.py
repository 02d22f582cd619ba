"""Packed arrays against the server: it reads what was packed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.postgres import PostgresServer
from watchkeeper.adapters.store.postgres_arrays import (
    Packed,
    bigints,
    byteas,
    integers,
    take_packed,
    texts,
)

pytestmark = pytest.mark.postgres

# No zero and no half of a pair: PostgreSQL has no place for them in a text.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
KINDS: list[tuple[str, Callable[[Any], Packed], st.SearchStrategy[Any]]] = [
    ("text", texts, st.none() | TEXT),
    ("bytea", byteas, st.none() | st.binary()),
    ("integer", integers, st.integers(-(2**31), 2**31 - 1)),
    ("bigint", bigints, st.none() | st.integers(-(2**63), 2**63 - 1)),
]


@pytest.fixture(scope="module")
def connection(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(postgres_server.url, autocommit=True) as opened:
        take_packed(opened)
        yield opened


@pytest.mark.parametrize(("kind", "pack", "items"), KINDS, ids=[kind for kind, _, _ in KINDS])
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_the_server_reads_what_was_packed(
    kind: str,
    pack: Callable[[Sequence[Any]], Packed],
    items: st.SearchStrategy[Any],
    data: st.DataObject,
    connection: psycopg.Connection[tuple[Any, ...]],
) -> None:
    given_items = data.draw(st.lists(items, max_size=40))
    query = f"SELECT %b::{kind}[], cardinality(%b::{kind}[])".encode()
    packed = pack(given_items)
    row = connection.cursor(binary=True).execute(query, (packed, packed)).fetchone()
    assert row == (given_items, len(given_items))


def test_a_text_that_has_no_utf8_is_an_error_before_it_is_sent() -> None:
    with pytest.raises(UnicodeEncodeError):
        texts(["\ud800"])
