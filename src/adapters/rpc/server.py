"""HTTP server of the RPCs, on its own thread: the only event loop."""

import asyncio
import ipaddress
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import uvicorn

from watchkeeper import clock
from watchkeeper.adapters.rpc.bounded import REQUEST_BYTES_MAX, Receive, Refusal, checked_body
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_connect import (
    WatchkeeperServiceASGIApplication,
)
from watchkeeper.adapters.rpc.service import Service

LISTEN_DEFAULT = "127.0.0.1:8765"

START_LIMIT = timedelta(seconds=20)
"""Time limit for the server's start, until it accepts connections."""

REQUEST_LIMIT = timedelta(seconds=30)
"""Time limit for one request, from its first byte to the answer's last byte."""

LEAVING = timedelta(seconds=5)
"""Time limit for open requests after a stop of the server."""

CONNECTIONS_MAX = 64
RPC_PATHS = "/watchkeeper.v1."
HEAD_BYTES_MAX = 16_384

Scope = Mapping[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    >>> is_loopback("localhost"), is_loopback("ops-1")
    (True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def application(
    service: Service, problems: Callable[[], list[str]], *, remote: bool
) -> Application:
    """Return the ASGI application: the RPCs, `/healthz`, and a refusal of all other paths.

    Args:
        service: Answers the RPCs.
        problems: Returns why the service is not healthy. It is called on a thread, because it
            reads the ledger.
        remote: Whether other hosts may send requests. If so, the host name is not checked.
    """
    rpc: Any = WatchkeeperServiceASGIApplication(service, read_max_bytes=REQUEST_BYTES_MAX)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {name.lower(): value for name, value in scope["headers"]}
        host = headers.get(b"host", b"").decode("latin-1")
        if b"origin" in headers:
            # A web page in a browser, never our own. The browser hides the answer from the page,
            # but by then the acknowledgement would be recorded.
            await _say(send, 403, {"error": "requests of web pages are refused"})
        elif not remote and not is_loopback(_name(host)):
            # DNS rebinding: a stranger's name that resolves to 127.0.0.1.
            await _say(send, 421, {"error": f"host {host}: expected 127.0.0.1 or localhost"})
        elif scope["path"] == "/healthz":
            found = await asyncio.to_thread(problems)
            document = {"well": not found, "problems": found}
            await _say(send, 503 if found else 200, document)
        elif not scope["path"].startswith(RPC_PATHS):
            await _say(send, 404, {"error": "no such route: only RPCs and /healthz are served"})
        else:
            body = await checked_body(scope["method"], headers, receive)
            if isinstance(body, Refusal):
                await _say(send, body.status, {"code": body.code, "message": body.says})
            else:
                # The parser must see the checked headers. Of duplicates it would take another one.
                await rpc({**scope, "headers": [*headers.items()]}, body, send)

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: dict[str, Any]) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            # Without a limit, an endless body would hold its connection for ever.
            async with asyncio.timeout(REQUEST_LIMIT.total_seconds()):
                await answer(scope, receive, sent)
        except TimeoutError:
            if not begun:
                says = f"no end of the request within {REQUEST_LIMIT.total_seconds():g} s"
                await _say(send, 408, {"code": "deadline_exceeded", "message": says})

    return limited


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


async def _say(send: Send, status: int, document: Mapping[str, object]) -> None:
    body = json.dumps(document, ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(
    answer: Application, listener: socket.socket, stop: threading.Event
) -> Generator[None, None, None]:
    """Serve on a socket during a block.

    Args:
        answer: The ASGI application.
        listener: A bound, listening socket. It is closed at the end.
        stop: Set if the server ends by itself, so that the code in the block can end too.

    Raises:
        TimeoutError: The server did not start.
    """
    config = uvicorn.Config(
        answer,  # pyright: ignore[reportArgumentType] - asgiref's types are not there.
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=CONNECTIONS_MAX,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=round(LEAVING.total_seconds()),
    )
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run(sockets=[listener])
        finally:
            stop.set()

    thread = threading.Thread(target=run, name="rpc-server", daemon=True)
    thread.start()
    try:
        backoff = clock.ExponentialBackoff(initial=timedelta(milliseconds=5))
        backoff.wait_until_or_raise(
            lambda: server.started or not thread.is_alive(), START_LIMIT, "starting the server"
        )
        yield
    finally:
        server.should_exit = True
        thread.join((LEAVING + LEAVING).total_seconds())
        if thread.is_alive():
            log.warning("the server did not end within %s", LEAVING + LEAVING)
        listener.close()
