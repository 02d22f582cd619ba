"""Events that Ray POSTs are durable before they are answered, and bounded."""

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from watchkeeper.adapters.ray import events_http
from watchkeeper.adapters.ray.events_http import received
from watchkeeper.adapters.ray.messages import EVENT, Writer
from watchkeeper.adapters.ray.spool import Spool, open_spool
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

FIXTURES = Path(__file__).parents[1] / "fixtures" / "ray"
WRITER = Writer("c", Scrubber(b"key"))
BATCH: list[dict[str, Any]] = json.loads((FIXTURES / "http_aggregator_events.json").read_text())[
    "body"
]


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with open_spool(tmp_path / "spool") as opened:
        yield opened


@pytest.fixture
def url(spool: Spool) -> Iterator[str]:
    with received("127.0.0.1", 0, spool, WRITER, lambda _: None) as listening:
        yield listening


def post(url: str, body: object, **headers: str) -> tuple[int, dict[str, Any]]:
    parts = urlsplit(url)
    assert parts.hostname is not None
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("POST", parts.path, data, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    found: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return answer.status, found


def test_a_real_batch_is_kept_and_its_repetition_is_not(spool: Spool, url: str) -> None:
    assert post(url, BATCH) == (200, {"events": len(BATCH), "new": len(BATCH)})
    waiting = spool.oldest(1_000, 10**9)
    assert {each.attributes["ce-type"] for each in waiting} == {EVENT}
    assert [json.loads(each.data) for each in waiting] == BATCH
    assert post(url, BATCH) == (200, {"events": len(BATCH), "new": 0})


@pytest.mark.parametrize("body", [b"no json", b"[1, 2]", b'"text"', b"[" * 100_000])
def test_what_is_no_array_of_objects_is_refused(spool: Spool, url: str, body: bytes) -> None:
    status, said = post(url, body)
    assert status == 400
    assert said["error"]
    assert spool.waiting() == (0, 0)


def test_a_body_is_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_http, "BODY_BYTES_MAX", 100)
    assert post(url, BATCH)[0] == 413
    assert post(url, [])[0] == 200


def test_a_client_that_leaves_or_stalls_keeps_nobody_from_sending(spool: Spool, url: str) -> None:
    parts = urlsplit(url)
    stalled = [socket.create_connection((parts.hostname, parts.port)) for _ in range(8)]
    for each in stalled[:4]:
        each.sendall(b"POST /events HTTP/1.1\r\nContent-Length: 100\r\n\r\n[{")
    stalled[0].close()
    assert post(url, BATCH)[0] == 200
    for each in stalled[1:]:
        each.close()
    # Half of a body is nothing.
    assert spool.waiting()[0] == len(BATCH)


def test_a_full_spool_is_later_for_ends_and_counted_for_details(spool: Spool, url: str) -> None:
    task = {"eventType": "TASK_LIFECYCLE_EVENT", "eventId": "AAAA"}
    node = {"eventType": "NODE_LIFECYCLE_EVENT", "eventId": "BBBB"}
    spool.messages_max = 1
    assert post(url, [task])[1]["new"] == 1
    assert post(url, [{**task, "eventId": "AAAB"}]) == (200, {"events": 1, "new": 0})
    assert post(url, [node])[1]["new"] == 1
    assert spool.lost() == {EVENT: 2}
    status, said = post(url, [{**node, "eventId": "BBBC"}, {**task, "eventId": "AAAC"}])
    assert status == 503
    assert "the spool is full" in said["error"]
    # Ray sends the whole batch again, so none of it is lost yet.
    assert spool.lost() == {EVENT: 2}
