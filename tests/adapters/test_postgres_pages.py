"""Pages that are read from PostgreSQL while connections are lost, silent, closed or scarce."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from time import monotonic

import pytest

from tests.adapters.cut_proxy import CutProxy, cut_proxy
from tests.postgres import PostgresServer
from watchkeeper.adapters.store.postgres import PostgresStore, open_postgres
from watchkeeper.adapters.store.postgres_address import parse_address
from watchkeeper.adapters.store.postgres_link import LIMITS, Limits
from watchkeeper.ports.event_store import READ_PAGE, Recorded, StoreFailure, Write

pytestmark = pytest.mark.postgres

PAGES = 4
EVENTS = PAGES * READ_PAGE + 7
HASTY = replace(LIMITS, answer=timedelta(seconds=5))


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[CutProxy]:
    with cut_proxy(postgres_server.port) as running:
        yield running


@pytest.fixture
def url(proxy: CutProxy, postgres_server: PostgresServer, postgres_url: str) -> str:
    """A ledger behind the proxy, with a stream of some pages."""
    found = postgres_url.replace(str(postgres_server.port), str(proxy.port), 1)
    with open_postgres(parse_address(found), create=True) as store:
        fill(store)
    return found


def fill(store: PostgresStore, topic: str = "run.noted.1") -> None:
    version, _ = store.head("run/a")
    for begin in range(version, version + EVENTS, READ_PAGE):
        number = min(READ_PAGE, version + EVENTS - begin)
        store.append([Write("run/a", begin, ((topic, b"{}"),) * number)])


def opened(url: str, limits: Limits = LIMITS) -> PostgresStore:
    return open_postgres(parse_address(url), limits=limits)


def versions(pages: Iterator[list[Recorded]]) -> list[int]:
    return [one.version for one in chain.from_iterable(pages)]


@pytest.fixture(params=["run/a", None], ids=["a stream", "the ledger"])
def stream(request: pytest.FixtureRequest) -> str | None:
    found: str | None = request.param
    return found


@pytest.mark.parametrize("page", range(PAGES))
def test_a_connection_that_is_lost_costs_nothing_but_time(
    url: str,
    stream: str | None,
    page: int,
    postgres_server: PostgresServer,
) -> None:
    with opened(url) as store:
        pages = store.pages(stream)
        found = [next(pages) for _ in range(page + 1)]
        postgres_server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
            "WHERE application_name = 'watchkeeper'"
        )
        assert versions(chain(found, pages)) == [*range(1, EVENTS + 1)]
        assert store.append([Write("run/b", 0, (("run.noted.1", b""),))])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_question_or_an_answer_that_is_cut_is_asked_again(
    url: str, proxy: CutProxy, moment: str
) -> None:
    with opened(url) as store:
        pages = store.pages("run/a")
        found = [next(pages), next(pages)]
        (proxy.cut_before if moment == "before" else proxy.cut_after)(b"run/a")
        assert versions(chain(found, pages)) == [*range(1, EVENTS + 1)]
    assert proxy.cuts == 1


def test_a_server_that_says_nothing_any_more_fails_within_the_limit(
    url: str, stream: str | None, proxy: CutProxy
) -> None:
    second = timedelta(seconds=1)
    with opened(url, replace(LIMITS, answer=second, reconnect=second)) as store:
        pages = store.pages(stream)
        next(pages)
        proxy.silence()
        started = monotonic()
        with pytest.raises(StoreFailure, match=r"read failed: .* then try again"):
            versions(pages)
        assert monotonic() - started < 10
        proxy.recover()
        assert versions(store.pages(stream)) == [*range(1, EVENTS + 1)]


def test_an_event_without_a_name_is_never_left_out(
    url: str, stream: str | None, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with opened(url) as store:
        fill(store, "run.other.1")
    schema = parse_address(postgres_url).schema
    postgres_server.execute(
        f"SET session_replication_role = replica; ALTER TABLE {schema}.topics DISABLE TRIGGER "
        f"USER; DELETE FROM {schema}.topics WHERE id = 2"
    )
    with opened(url) as store:
        pages = store.pages(stream)
        next(pages)
        with pytest.raises(StoreFailure, match="has the number 2, which has no name"):
            versions(pages)


def test_a_closed_store_gives_no_more_pages(url: str, stream: str | None) -> None:
    store = opened(url)
    pages = store.pages(stream)
    next(pages)
    store.close()
    with pytest.raises(StoreFailure, match="it is closed"):
        next(pages)


def test_pages_are_read_by_whoever_keeps_all_writers_out(url: str, stream: str | None) -> None:
    with opened(url) as store, store.exclusive():
        assert versions(store.pages(stream)) == [*range(1, EVENTS + 1)]
        assert store.append([Write("run/b", 0, (("run.noted.1", b""),))])


def test_those_who_read_pages_leave_connections_to_the_others(url: str) -> None:
    with opened(url, HASTY) as store, ThreadPoolExecutor(8) as pool:
        begun = [store.pages("run/a") for _ in range(2 * LIMITS.connections)]
        [first] = {len(next(pages)) for pages in begun}

        def append(number: int) -> int:
            for version in range(20):
                store.append([Write(f"run/{number}", version, (("run.noted.1", b""),))])
            return len(store.read(f"run/{number}"))

        assert list(pool.map(append, range(8))) == [20] * 8
        read = pool.map(versions, begun)
        assert list(read) == [[*range(first + 1, EVENTS + 1)]] * len(begun)
