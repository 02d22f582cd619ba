"""Limits on a request's body, checked before any parser sees it.

The JSON parser of the RPCs is native and has no depth limit: 40,000 opening brackets end the
process by SIGSEGV (protobuf-py 0.7.0).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchkeeper.domain.values.json_text import DEPTH_MAX, depth_of

REQUEST_BYTES_MAX = 100_000
"""Most bytes of one request. A note of 20,000 characters fits."""

Receive = Callable[[], Awaitable[dict[str, Any]]]

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a request is not parsed.

    Attributes:
        status: HTTP status.
        code: Connect error code.
        says: The reason in a sentence.
    """

    status: int
    code: str
    says: str


async def checked_body(
    method: str, headers: Mapping[bytes, bytes], receive: Receive
) -> Receive | Refusal:
    """Read and check a request's body. Return a replay of the body, or the refusal.

    Args:
        method: HTTP method.
        headers: Headers by lower-case name.
        receive: Returns the body, as specified by ASGI.
    """
    if method != "POST":
        return Refusal(405, "unimplemented", "an RPC is a POST request")
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    is_json = kind == _JSON
    if not is_json and kind != "application/proto":
        says = f"content type {kind[:80]!r}: expected {_JSON} or application/proto"
        return Refusal(415, "unimplemented", says)
    if is_json and headers.get(b"content-encoding", b"identity") != b"identity":
        return Refusal(415, "unimplemented", "compressed JSON: send it uncompressed")
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return Refusal(400, "invalid_argument", "the request ended before its body")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > REQUEST_BYTES_MAX:
            says = f"a request has at most {REQUEST_BYTES_MAX:,} bytes"
            return Refusal(429, "resource_exhausted", says)
    if is_json and depth_of(body.decode("utf-8", "replace")) > DEPTH_MAX:
        says = f"JSON that is nested deeper than {DEPTH_MAX} levels"
        return Refusal(400, "invalid_argument", says)
    return _handed_on(body, receive)


def _handed_on(body: bytes, receive: Receive) -> Receive:
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def hand_on() -> dict[str, Any]:
        return waiting.pop() if waiting else await receive()

    return hand_on
