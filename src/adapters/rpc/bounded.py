"""Reads a request's body within limits before any parser sees it.

The JSON reader below the RPCs is native and has no limit of its own: 40,000 opening brackets end
the process by SIGSEGV (protobuf-py 0.7.0).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from watchkeeper.domain.values.json_text import DEPTH_MAX, depth_of

REQUEST_BYTES_MAX = 100_000
"""Of one request: a note of 20,000 characters fits."""

Receive = Callable[[], Awaitable[dict[str, Any]]]

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not parsed.

    Attributes:
        status: Of HTTP.
        code: Of Connect.
        says: A sentence.
    """

    status: int
    code: str
    says: str


async def checked_body(
    method: str, headers: Mapping[bytes, bytes], receive: Receive
) -> Receive | Refusal:
    """Read a request's body and check it; return what hands it on, or why it is refused.

    Args:
        method: Of HTTP.
        headers: By name in small letters.
        receive: Gives the body, as ASGI says.
    """
    if method != "POST":
        return Refusal(405, "unimplemented", "an RPC is a POST request")
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()
    is_json = kind == _JSON
    if not is_json and kind != "application/proto":
        says = f"content type {kind[:80]!r}: expected {_JSON} or application/proto"
        return Refusal(415, "unimplemented", says)
    if is_json and headers.get(b"content-encoding", b"identity") != b"identity":
        return Refusal(415, "unimplemented", "compressed JSON: send it as it is")
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
