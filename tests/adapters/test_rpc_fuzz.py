"""Hostile requests to a server in a process of its own, which must live and still answer."""

import gzip
import json
import random
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from tests.test_serve import Place, start
from watchkeeper.adapters.rpc.gen.watchkeeper.v1 import watchkeeper_connect

JSON, PROTO = "application/json", "application/proto"
SERVICE = "/watchkeeper.v1.WatchkeeperService"
METHODS = sorted(
    set(re.findall(r'name="(\w+)"', Path(watchkeeper_connect.__file__).read_text("utf-8")))
)
DEEP = 40_000
JSON_BODIES = {
    "arrays": b"[" * DEEP,
    "objects": b'{"a":' * 18_000,
    "in a field": b'{"run":' + b"[" * DEEP,
    "in an unknown field": b'{"nobody":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "closed": b"[" * DEEP + b"]" * DEEP,
    "behind a string": b'{"run": "\\"", "x": ' + b"[" * DEEP,
    "a string without an end": b'{"run": "' + b"[" * DEEP,
    "wrong types": b'{"run": [1], "after": "x", "last": {}, "note": true}',
    "large numbers": b'{"after": 1e400, "last": -9223372036854775809, "limit": '
    + b"9" * 5000
    + b"}",
    "negative numbers": b'{"run": "x", "after": -1, "last": -1, "limit": -1}',
    "half a surrogate": b'{"run": "\\ud800"}',
    "no UTF-8": b'{"run": "\xff\xfe"}',
    "NUL": b'{"run": "\\u0000"}',
    "not JSON": b"{",
    "nothing": b"",
    "null": b"null",
    "too large": b'{"run": "' + b"x" * 200_000 + b'"}',
}
BINARY_BODIES = {
    "groups": b"\x0b" * DEEP,
    "nested messages": b"\x0a\xff\xff\xff\x7f" * 9_000,
    "endless varint": b"\xff" * DEEP,
    "cut": b"\x0a\x7fabc",
    "wrong type": b"\x08\x01\x15\x00\x00\x00\x00\x19" + b"\x00" * 8,
    **{f"noise {seed}": random.Random(seed).randbytes(4_000) for seed in range(20)},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("fuzz") / "home")
    assert place.local("init", "--human", "dri").code == 0
    place.url, place.process = start(place.home)
    yield place
    place.process.kill()
    place.process.communicate()


def status_of(place: Place, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
    """Send one request; return its status, or 0 where the connection ended without one."""
    with closing(HTTPConnection(place.url.removeprefix("http://"), timeout=20)) as connection:
        try:
            connection.request(method, path, body, headers)
            return connection.getresponse().status
        except (ConnectionError, HTTPException):
            return 0


def assert_lives(place: Place) -> None:
    assert place.process is not None
    assert place.process.poll() is None
    assert status_of(place, "POST", f"{SERVICE}/GetStatus", b"{}", {"Content-Type": JSON}) == 200


@pytest.mark.parametrize("method", METHODS)
def test_no_body_of_a_request_ends_the_server(server: Place, method: str) -> None:
    assert {"GetStatus", "ListEvents", "Acknowledge"} <= set(METHODS)
    path = f"{SERVICE}/{method}"
    for kind, bodies in ((JSON, JSON_BODIES), (PROTO, BINARY_BODIES)):
        for name, body in bodies.items():
            assert status_of(server, "POST", path, body, {"Content-Type": kind}) != 500, name
    packed = {"Content-Type": JSON, "Content-Encoding": "gzip"}
    assert status_of(server, "POST", path, gzip.compress(b"[" * 10_000_000), packed) == 415
    packed["Content-Type"] = PROTO
    assert status_of(server, "POST", path, gzip.compress(b"\x0b" * 10_000_000), packed) != 500
    for other in ("application/connect+json", "application/grpc-web+json", "text/plain", ""):
        assert status_of(server, "POST", path, b"[" * DEEP, {"Content-Type": other}) == 415
    query = f"{path}?connect=v1&encoding=json&message=" + "[" * 8_000
    assert status_of(server, "GET", query, b"", {}) == 405
    assert_lives(server)


def test_a_second_content_type_hides_no_body_from_the_limits(server: Place) -> None:
    address = server.url.removeprefix("http://")
    for first, second in ((JSON, PROTO), (PROTO, JSON)):
        with closing(HTTPConnection(address, timeout=20)) as connection, suppress(ConnectionError):
            connection.putrequest("POST", f"{SERVICE}/GetStatus")
            for name, value in (("Content-Type", first), ("Content-Type", second)):
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(DEEP))
            connection.endheaders(b"[" * DEEP)
            assert connection.getresponse().status == 400
    assert_lives(server)


def test_brackets_in_a_string_are_no_depth(server: Place) -> None:
    body = json.dumps({"run": '[{"' * 10_000}).encode()
    path = f"{SERVICE}/GetStatus"
    assert status_of(server, "POST", path, body, {"Content-Type": JSON}) == 200
