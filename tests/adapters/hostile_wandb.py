"""A W&B server that answers badly: a fake, for faults that neither W&B nor the stub can be told.

It listens on a real port, and the real client asks it. Only the question for the run is answered
badly, unless the mode says otherwise: the client's own sign-in works.
"""

import contextlib
import http.server
import json
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from watchkeeper import clock

RUN: dict[str, Any] = {
    "id": "x", "projectId": "1", "name": "r1", "displayName": "Run 1", "state": "running",
    "config": "{}", "tags": [], "group": None, "jobType": None, "notes": None, "sweepName": None,
    "commit": None, "readOnly": False, "description": None, "createdAt": "2026-11-21T04:00:00Z",
    "heartbeatAt": "2026-11-21T04:00:00", "systemMetrics": "{}", "historyLineCount": 6,
    "summaryMetrics": json.dumps({"_step": 9, "global_step": 5, "loss": 1.5, "z": "NaN"}),
    "historyKeys": {"lastStep": 9, "sets": [], "keys": {}},
    "user": {"name": "t", "username": "t"},
}  # fmt: skip
VIEWER: dict[str, Any] = {
    "viewer": {
        "id": "V", "entity": "ent", "username": "t", "email": "e", "flags": "{}",
        "teams": {"edges": []},
    }
}  # fmt: skip


@dataclass
class Hostile:
    """How it answers, and what it was asked.

    Attributes:
        mode: An HTTP status, or a word of `_body`; `well` for a server that works.
        run: What it holds of the run.
        others: Further runs of the project.
        asked: The operations asked for, in order.
    """

    url: str = ""
    mode: str = "well"
    run: dict[str, Any] = field(default_factory=lambda: dict(RUN))
    others: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    asked: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def hostile_server() -> Generator[Hostile, None, None]:
    """Serve until the block ends."""
    hostile = Hostile()
    released = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = str(json.loads(raw)["query"])
            hostile.asked.append(query)
            _answer(self, hostile, query, released)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - As its base has it.
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    hostile.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hostile
    finally:
        released.set()
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


def _answer(
    handler: http.server.BaseHTTPRequestHandler,
    hostile: Hostile,
    query: str,
    released: threading.Event,
) -> None:
    about_the_run = "run(name" in query
    mode = hostile.mode if about_the_run or hostile.mode == "sign-in" else "well"
    code, headers = 200, {}
    content = json.dumps({"data": _data(hostile, query)}).encode()
    if mode.isdigit():
        code = int(mode)
        content = b'{"errors": [{"message": "injected"}]}'
        headers = {"Retry-After": "120"} if code == 429 else {}
    elif mode == "sign-in":
        code, content = 401, b'{"errors": [{"message": "no such key"}]}'
    elif mode == "slow":
        clock.ExponentialBackoff().wait_until(released.is_set, timedelta(seconds=60))
    elif mode == "nonsense":
        content = b"<html>a proxy's page</html>"
    elif mode == "refusal":
        content = b'{"errors": [{"message": "permission denied"}], "data": null}'
    handler.send_response(code)
    handler.send_header("Content-Type", "application/json")
    for name, value in headers.items():
        handler.send_header(name, value)
    half = len(content) // 2 if mode == "cut off" else len(content)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content[:half])
    handler.close_connection = mode == "cut off"


def _data(hostile: Hostile, query: str) -> dict[str, Any]:
    if hostile.mode == "no project":
        return {"project": None} if "project" in query else VIEWER
    if "run(name" in query:
        run = None if hostile.mode == "no run" else hostile.run
        return {"project": {"internalId": "1", "run": run}}
    if "runs(" in query:
        edges = [{"cursor": one["name"], "node": one} for one in hostile.others]
        runs = {"edges": edges, "pageInfo": {"endCursor": None, "hasNextPage": False}}
        count = len(edges)
        return {"project": {"internalId": "1", "runCount": count, "readOnly": False, "runs": runs}}
    return VIEWER
