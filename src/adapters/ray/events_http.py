"""Receives events that Ray's aggregator agents POST, and stores them first.

Ray sends arrays of JSON objects, a few per second from each node, without authentication. It
sends a batch again until it gets a 200. Therefore:

- The answer is 200 only after the batch is on disk.
- The answer is 503 when the spool is full; Ray retries later.
- Only details, such as the life of each task, are dropped with a 200 and counted. Otherwise a
  node's death would wait behind them, and Ray's own buffer drops events silently.

Any client that reaches the port is trusted, so it is bound to this machine by default.
"""

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from watchkeeper import clock
from watchkeeper.adapters.ray.messages import Message, Worth, Writer, is_array, is_object
from watchkeeper.adapters.ray.spool import Spool, SpoolProblem
from watchkeeper.domain.values.json_text import parse_json

BODY_BYTES_MAX = 64_000_000
"""Maximum bytes of a request: Ray's largest batch, 10,000 events, has some 10 MB."""

REQUEST_LIMIT = timedelta(seconds=15)
"""One request, from its head to its last byte. Ray gives up after 3 s."""

CONNECTIONS_MAX = 64
"""Requests at one time; more are closed at once, and Ray sends them again."""

_CHUNK_BYTES = 65_536

logger = logging.getLogger(__name__)


@contextmanager
def received(
    host: str, port: int, spool: Spool, writer: Writer, on_kept: Callable[[int], None]
) -> Generator[str, None, None]:
    """Receive events while the block runs; yield the URL to give to Ray.

    Args:
        host: Where to listen.
        port: 0 takes any free one.
        spool: Where the events go.
        writer: Writes them.
        on_kept: Called with the number of new events, on a server thread.

    Raises:
        OSError: The address cannot be used.
    """
    handler = _handler(spool, writer, on_kept)
    with _Server((host, port), handler) as server:
        thread = threading.Thread(
            target=server.serve_forever, args=(0.1,), name="bridge-events", daemon=True
        )
        thread.start()
        try:
            yield f"http://{host}:{server.server_address[1]}/events"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    """Bounds the requests that are under way."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *args: Any) -> None:
        """Begin with all places free."""
        super().__init__(*args)
        self.places = threading.BoundedSemaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a separate thread, if one is free."""
        if not self.places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self.places.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, then give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log instead of printing a traceback: mostly a client that left."""
        del request
        logger.warning("a request of %s ended early", client_address, exc_info=True)


class _Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _handler(
    spool: Spool, writer: Writer, on_kept: Callable[[int], None]
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # One request for each connection: one that idles would keep one of the places.
        timeout = REQUEST_LIMIT.total_seconds()

        def do_POST(self) -> None:
            try:
                events = _events(self._body())
                kept = _keep(events, spool, writer)
            except _Refused as refused:
                logger.warning("a request of %s: %s", self.client_address, refused)
                self._say(refused.status, {"error": str(refused)})
                return
            on_kept(kept)
            self._say(HTTPStatus.OK, {"events": len(events), "new": kept})

        def _body(self) -> bytes:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit():
                raise _Refused(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
            if int(length) > BODY_BYTES_MAX:
                raise _Refused(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    (
                        f"{length} bytes, expected at most {BODY_BYTES_MAX}: configure Ray to "
                        "send less"
                    ),
                )
            deadline = clock.Deadline.after(REQUEST_LIMIT)
            parts: list[bytes] = []
            left = int(length)
            while left:
                part = self.rfile.read1(min(left, _CHUNK_BYTES))
                if not part or deadline.expired():
                    raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the body is incomplete")
                parts.append(part)
                left -= len(part)
            return b"".join(parts)

        def _say(self, status: HTTPStatus, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            # A client that left before the answer sends again; the events are known then.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - Its own name.
            logger.debug(format, *args)

    return Handler


def _events(body: bytes) -> Sequence[dict[str, Any]]:
    try:
        found = parse_json(body)
    except ValueError as error:
        raise _Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from error
    events = found if is_array(found) else [found]
    if not all(is_object(event) for event in events):
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected an array of JSON objects")
    return events


def _keep(events: Sequence[dict[str, Any]], spool: Spool, writer: Writer) -> int:
    now = clock.now()
    try:
        messages: list[Message] = [writer.exported(event, now) for event in events]
        offered = spool.offer(messages, all_of=Worth.STATE)
    except (SpoolProblem, ValueError, RecursionError) as error:
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, f"not kept: {error}") from error
    if any(message.worth <= Worth.STATE for message in offered.refused):
        raise _Refused(
            HTTPStatus.SERVICE_UNAVAILABLE,
            f"the spool is full: {len(offered.refused)} of {len(events)} events do not fit",
        )
    return offered.taken
