"""Pages that are read ahead from PostgreSQL, and all that may become of the question meanwhile."""

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from time import monotonic, sleep

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
AGAIN = "a page that was read ahead is requested again"


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


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_all_but_the_first_page_are_read_ahead(
    url: str,
    stream: str | None,
    monkeypatch: pytest.MonkeyPatch,
    log: pytest.LogCaptureFixture,
) -> None:
    with opened(url) as store:
        plain: list[int] = []
        read, read_all = store.read, store.read_all

        def noted(name: str, *, after: int = 0, limit: int | None = None) -> list[Recorded]:
            plain.append(after)
            return read(name, after=after, limit=limit)

        def noted_all(*, after: int = 0, limit: int = READ_PAGE) -> list[Recorded]:
            plain.append(after)
            return read_all(after=after, limit=limit)

        monkeypatch.setattr(store, "read", noted)
        monkeypatch.setattr(store, "read_all", noted_all)
        assert versions(store.pages(stream)) == [*range(1, EVENTS + 1)]
        assert plain == [0]
        assert AGAIN not in log.text


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
    url: str, proxy: CutProxy, moment: str, log: pytest.LogCaptureFixture
) -> None:
    with opened(url) as store:
        pages = store.pages("run/a")
        found = [next(pages), next(pages)]
        # The fourth page is the first that is asked for from now on.
        (proxy.cut_before if moment == "before" else proxy.cut_after)(b"run/a")
        assert versions(chain(found, pages)) == [*range(1, EVENTS + 1)]
    assert proxy.cuts == 1
    assert AGAIN in log.text


def test_a_reader_slower_than_the_server_s_patience_reads_on(
    postgres_url: str, log: pytest.LogCaptureFixture
) -> None:
    """What does not fit into the socket is held by the server, until its statement's limit."""
    small, large = ("run.noted.1", b""), ("run.noted.1", bytes(40_000))
    with open_postgres(parse_address(postgres_url), create=True) as store:
        store.append([Write("run/slow", 0, (small,) * 100)])
        for begin, state in ((100, large), (600, small)):
            store.append([Write("run/slow", begin, (state,) * READ_PAGE)])
    with opened(postgres_url, replace(LIMITS, statement=timedelta(seconds=2))) as store:
        pages = store.pages("run/slow")
        found = [next(pages)]
        sleep(3)
        assert versions(chain(found, pages)) == [*range(1, 1101)]
    assert AGAIN in log.text
    assert "statement timeout" in log.text


def test_a_server_that_says_nothing_any_more_fails_within_the_limit(
    url: str, stream: str | None, proxy: CutProxy
) -> None:
    second = timedelta(seconds=1)
    with opened(url, replace(LIMITS, answer=second, reconnect=second)) as store:
        pages = store.pages(stream)
        next(pages)
        proxy.silence()
        started = monotonic()
        with pytest.raises(StoreFailure, match=r"read failed: no answer within 1 s\. .*try again"):
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
