"""Client of another process's server, for commands with `--server`."""

import json
import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from connectrpc.code import Code
from connectrpc.errors import ConnectError

from watchkeeper.adapters.cli.remote import TOKEN_VARIABLE, ServerSaid
from watchkeeper.adapters.cli.status import HOME_DEFAULT
from watchkeeper.adapters.home import RPC_TOKEN
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_connect import (
    WatchkeeperServiceClientSync,
)
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_pb import (
    AcknowledgeRequest,
    Answer,
    GetStatusRequest,
    ListEventsRequest,
    ListEventsResponse,
)

CALL_LIMIT = timedelta(seconds=30)
"""Time limit for one answer of a server."""

ANSWER_BYTES_MAX = 256_000_000
"""Most bytes of one answer: 10,000 runs with rows of 10 kB fit."""

EXIT_CODES = {
    Code.DATA_LOSS: 1,
    Code.FAILED_PRECONDITION: 3,
    Code.NOT_FOUND: 3,
    Code.INVALID_ARGUMENT: 4,
    Code.UNAUTHENTICATED: 3,
}
"""Exit codes by the server's error code. Any other code gives 2, unknown."""

_ANSWERS = {
    "noted": Answer.NOTED,
    "relaunch": Answer.RELAUNCH,
    "needless": Answer.NEEDLESS,
}

_Result = TypeVar("_Result")


class Row(NamedTuple):
    """One stored row of status."""

    run: str
    part: str
    row: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The events that a server recorded.

    Attributes:
        recorded: Sequence number and topic of each event.
        says: What happens next.
    """

    recorded: tuple[tuple[int, str], ...]
    says: str


def status_rows(server: str, run: str | None) -> list[Row]:
    """Return the rows of all runs, or of one.

    Raises:
        ServerSaid: No answer, or a refusal.
    """
    answer = _ask(server, lambda client: client.get_status(GetStatusRequest(run=run or "")))
    rows = [Row(one.run, "run", one.row_json) for one in answer.runs if one.row_json]
    return rows + [
        Row(one.run, "effects", one.effects_json) for one in answer.runs if one.effects_json
    ]


def event_rows(server: str, run: str, after: int, last: int | None) -> list[dict[str, Any]]:
    """Return a run's events as rows, page by page.

    Raises:
        ServerSaid: No answer, or a refusal.
    """
    rows: list[dict[str, Any]] = []
    request = ListEventsRequest(run=run, after=after, last=last or 0)
    while True:
        page = _page(server, request)
        rows += [json.loads(event.row_json) for event in page.events]
        if not page.more or not page.events:
            return rows
        request = ListEventsRequest(run=run, after=page.events[-1].seq)


def _page(server: str, request: ListEventsRequest) -> ListEventsResponse:
    return _ask(server, lambda client: client.list_events(request))


def acknowledge(
    server: str, run: str, question: str, note: str, answer: str, principal: str
) -> Acknowledged:
    """Acknowledge a question for a principal.

    Raises:
        ServerSaid: No answer, or a refusal.
    """
    request = AcknowledgeRequest(
        run=run,
        question=question,
        note=note,
        answer=_ANSWERS[answer],
        principal=principal,
        key=uuid4().hex,
    )
    headers = {"authorization": f"Bearer {_token()}"}
    try:
        done = _ask(server, lambda client: client.acknowledge(request, headers=headers))
    except ServerSaid as error:
        if error.code != 2 or _NOT_REACHED in str(error):
            raise
        says = f"{error}; whether it was recorded is unknown: see `watchkeeper status {run}`"
        raise ServerSaid(says, 2) from error
    return Acknowledged(tuple((one.seq, one.topic) for one in done.recorded), done.says)


def _token() -> str:
    """Return the token of the server's home, or "" if this user cannot read one."""
    named = os.environ.get(TOKEN_VARIABLE, "")
    home = os.environ.get("WATCHKEEPER_HOME") or HOME_DEFAULT
    path = Path(named) if named else Path(home, RPC_TOKEN).expanduser()
    try:
        return path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        if named:
            raise ServerSaid(f"{TOKEN_VARIABLE}={named} cannot be read ({error})", 4) from error
        return ""


def _ask(server: str, function: Callable[[WatchkeeperServiceClientSync], _Result]) -> _Result:
    if not _is_address(server):
        expected = "expected a URL such as http://127.0.0.1:8765"
        raise ServerSaid(f"--server {server}: {expected}", 4)
    client = WatchkeeperServiceClientSync(
        server.rstrip("/"),
        timeout_ms=CALL_LIMIT // timedelta(milliseconds=1),
        read_max_bytes=ANSWER_BYTES_MAX,
        # On loopback, compression costs more time than it saves.
        accept_compression=(),
        send_compression=None,
    )
    with closing(client):
        try:
            return function(client)
        except ConnectError as error:
            code = EXIT_CODES.get(error.code, 2)
            if code != 2:
                raise ServerSaid(error.message, code) from error
            raise ServerSaid(f"no answer from {server}: {_in_words(error)}", 2) from error


def _is_address(server: str) -> bool:
    try:
        found = urlsplit(server)
    except ValueError:
        return False  # For example an IPv6 address without its closing bracket.
    return found.scheme in ("http", "https") and bool(found.hostname) and not found.path.strip("/")


_NOT_REACHED = "not reached"
_CONNECT = "client error (Connect): "
"""Messages of the HTTP library which mean that nothing was sent yet."""


def _in_words(error: ConnectError) -> str:
    if _CONNECT in error.message:
        return f"{_NOT_REACHED}: {error.message.partition(_CONNECT)[2]}"
    if error.code is Code.UNIMPLEMENTED:
        return f"{error.message} (is it a watchkeeper server of this version?)"
    if error.code is Code.DEADLINE_EXCEEDED:
        return f"no answer within {CALL_LIMIT.total_seconds():g} s"
    return error.message
