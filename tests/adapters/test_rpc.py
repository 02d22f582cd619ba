"""Server and service in this process, for what a server with its own limits shows too slowly."""

import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from bench.commands import fill
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.cli.remote import ServerSaid
from watchkeeper.adapters.rpc import client, server, service
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_pb import (
    GetStatusRequest,
    ListEventsRequest,
)
from watchkeeper.adapters.rpc.service import Service
from watchkeeper.ports.event_store import Write
from watchkeeper.projections.published.event_data import whole_row

RUN = "run-00000"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path / "home", 8)
    return tmp_path / "home"


@pytest.fixture
def session(home: Path) -> Iterator[Session]:
    with open_session(home) as session:
        yield session


@pytest.fixture
def url(session: Session) -> Iterator[str]:
    """The address of a server in this process, without a watch."""
    listener = socket.create_server(("127.0.0.1", 0))
    answering = Service(session)
    answer = server.application(answering, list, remote=False)
    with server.served(answer, listener, threading.Event()):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    answering.close()


def seqs(request: ListEventsRequest, session: Session) -> tuple[list[int], bool]:
    page = service.list_events(session, request)
    return [event.seq for event in page.events], page.more


def test_events_come_in_pages_that_leave_out_none(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "EVENTS_MAX", 4)
    head = len(session.ledger.history(RUN))
    assert head > 8
    assert seqs(ListEventsRequest(run=RUN), session) == ([1, 2, 3, 4], True)
    assert seqs(ListEventsRequest(run=RUN, limit=100), session) == ([1, 2, 3, 4], True)
    assert seqs(ListEventsRequest(run=RUN, limit=2, after=4), session) == ([5, 6], True)
    assert seqs(ListEventsRequest(run=RUN, last=1), session) == ([head], False)
    assert seqs(ListEventsRequest(run=RUN, last=head + 9, limit=1), session) == ([1], True)
    assert seqs(ListEventsRequest(run=RUN, after=head - 2, last=5), session)[0] == [head - 1, head]
    assert seqs(ListEventsRequest(run=RUN, after=head), session) == ([], False)
    assert seqs(ListEventsRequest(run=RUN, after=2**63), session) == ([], False)


@pytest.mark.parametrize(("limit", "most"), [("EVENTS_MAX", 4), ("PAGE_CHARS", 9_000)])
def test_a_client_puts_the_pages_together(
    session: Session, url: str, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(service, limit, most)
    assert 0 < len(service.list_events(session, ListEventsRequest(run=RUN)).events) < 9
    rows = [json.loads(json.dumps(whole_row(one))) for one in session.ledger.history(RUN)]
    assert client.event_rows(url, RUN, 0, None) == rows
    assert client.event_rows(url, RUN, 3, 6) == rows[3:][-6:]


def test_a_status_has_what_programs_need_without_reading_the_row(session: Session) -> None:
    runs = service.get_status(session, GetStatusRequest()).runs
    assert len(runs) == 8
    needing = [one for one in runs if one.needs]
    assert runs[: len(needing)] == needing
    question = next(need for one in needing for need in one.needs if need.kind == "question")
    assert question.commands[0].startswith("watchkeeper ack run-")
    assert [one.run for one in service.get_status(session, GetStatusRequest(run=RUN)).runs] == [RUN]


def test_a_run_that_can_not_be_read_is_told_with_its_own_exit_code(
    session: Session, url: str
) -> None:
    head = len(session.ledger.history(RUN))
    newer = ("run.invented_later.1", b"{}")
    session.ledger.store.append([Write(f"run/{RUN}", head, (newer,))])
    with pytest.raises(ServerSaid, match=f"{RUN} after event {head}") as told:
        client.event_rows(url, RUN, 0, None)
    assert told.value.code == 1


def test_a_request_that_does_not_end_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "REQUEST_LIMIT", timedelta(seconds=0.3))
    host, _, port = url.removeprefix("http://").partition(":")
    head = "POST /watchkeeper.v1.WatchkeeperService/GetStatus HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    timer = clock.Timer()
    with socket.create_connection((host, int(port)), timeout=20) as slow:
        slow.sendall(head.encode())
        # Whatever the RPC library makes of being cancelled, it is no success.
        assert slow.recv(1000).startswith((b"HTTP/1.1 408", b"HTTP/1.1 499"))
    assert timer.elapsed() < timedelta(seconds=10)


def test_a_server_that_ends_by_itself_says_so(session: Session) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    answer = server.application(Service(session), list, remote=False)
    with server.served(answer, listener, ended):
        assert not ended.is_set()
    assert ended.wait(60)


def test_a_bug_of_ours_is_told_without_its_traceback(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug with a secret")

    monkeypatch.setattr(service, "fleet", fail)
    with pytest.raises(ServerSaid, match="internal error: RuntimeError") as told:
        client.status_rows(url, None)
    assert told.value.code == 2
    assert "secret" not in str(told.value)
