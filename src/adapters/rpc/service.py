"""The RPC handlers over one open home. The rules live elsewhere."""

import asyncio
import hmac
import json
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from connectrpc.code import Code
from connectrpc.errors import ConnectError
from connectrpc.request import RequestContext

from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, act_if_alone, exit_of, not_refused
from watchkeeper.adapters.cli.leaving import Leave
from watchkeeper.adapters.cli.reader import known_run
from watchkeeper.adapters.cli.remote import TOKEN_VARIABLE
from watchkeeper.adapters.home import rpc_token_of
from watchkeeper.adapters.principals import actor_of, read_principals
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_connect import WatchkeeperService
from watchkeeper.adapters.rpc.gen.watchkeeper.v1.watchkeeper_pb import (
    AcknowledgeRequest,
    AcknowledgeResponse,
    Answer,
    Event,
    GetStatusRequest,
    GetStatusResponse,
    ListEventsRequest,
    ListEventsResponse,
    Need,
    Recorded,
    RunStatus,
)
from watchkeeper.domain.rules.operator.commands import AnswerQuestion
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.values.people import Actor
from watchkeeper.projections.published.event_data import whole_row
from watchkeeper.projections.status.screen import View, fleet
from watchkeeper.services.ledger.ledger_reader import run_stream

EVENTS_MAX = 500
"""Most events in one answer. Clients request more pages."""

PAGE_CHARS = 4_000_000
"""Most characters of rows in one answer, unless a single row has more."""

KEY_LENGTH_MAX = 200
TEXT_LENGTH_MAX = 20_000
"""Most characters of a note: more than anybody writes, but too few to fill a disk."""

HANDLERS_MAX = 8
"""Most requests handled at once. Others wait within their own time limit."""

CODES = {
    1: Code.DATA_LOSS,
    2: Code.UNAVAILABLE,
    3: Code.FAILED_PRECONDITION,
    4: Code.INVALID_ARGUMENT,
}
"""Connect codes by the command line's exit code. `NOT_FOUND` also means 3."""

STRANGER = "unauthenticated"
"""Principal that is recorded for a write request without the token."""

_ANSWERS = {
    Answer.UNSPECIFIED: "noted",
    Answer.NOTED: "noted",
    Answer.RELAUNCH: "relaunch",
    Answer.NEEDLESS: "needless",
}

_Request = TypeVar("_Request")
_Answered = TypeVar("_Answered")

log = logging.getLogger(__name__)


class Service(WatchkeeperService):
    """The RPCs over one home. The ledger blocks, so each request runs on a thread.

    Args:
        session: The open home.
    """

    def __init__(self, session: Session) -> None:
        """Create the thread pool. Threads start with the first request."""
        self._session = session
        self._token = rpc_token_of(session.home)
        self._threads = ThreadPoolExecutor(HANDLERS_MAX, thread_name_prefix="rpc")

    async def get_status(
        self,
        request: GetStatusRequest,
        ctx: RequestContext[GetStatusRequest, GetStatusResponse],
        /,
    ) -> GetStatusResponse:
        """Return the runs' rows with their current status."""
        del ctx
        return await self._answer(get_status, request)

    async def list_events(
        self,
        request: ListEventsRequest,
        ctx: RequestContext[ListEventsRequest, ListEventsResponse],
        /,
    ) -> ListEventsResponse:
        """Return a page of a run's events."""
        del ctx
        return await self._answer(list_events, request)

    async def acknowledge(
        self,
        request: AcknowledgeRequest,
        ctx: RequestContext[AcknowledgeRequest, AcknowledgeResponse],
        /,
    ) -> AcknowledgeResponse:
        """Answer a question for a human. The request needs the home's token."""
        given = (ctx.request_headers.get("authorization") or "").removeprefix("Bearer ").strip()
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            return await self._answer(refuse_stranger, request)
        return await self._answer(acknowledge, request)

    def close(self) -> None:
        """Stop new requests. Running requests end by the ledger's own time limits."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _answer(
        self, function: Callable[[Session, _Request], _Answered], request: _Request
    ) -> _Answered:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _handled, function, self._session, request)


def get_status(session: Session, request: GetStatusRequest) -> GetStatusResponse:
    """Return the status of all runs or of one. An unknown run gives an empty answer."""
    stored = session.ledger.store.status_rows()
    rows = [row for row in stored if request.run in ("", row.run)]
    parts = {(row.run, row.part): row.row for row in rows}
    return GetStatusResponse(
        runs=[
            _run_status(
                view, parts.get((view.run, "run"), ""), parts.get((view.run, "effects"), "")
            )
            for view in fleet(rows, clock.now()).runs
        ]
    )


def _run_status(view: View, row: str, effects: str) -> RunStatus:
    needs = [
        Need(
            kind=need.kind,
            since=need.since.isoformat() if need.since is not None else "",
            says=need.says,
            commands=list(need.do),
        )
        for need in view.needs
    ]
    return RunStatus(
        run=view.run,
        phase=view.phase,
        monitor_stale=view.monitor_stale,
        needs=needs,
        row_json=row,
        effects_json=effects,
    )


def list_events(session: Session, request: ListEventsRequest) -> ListEventsResponse:
    """Return a page of a run's events.

    Raises:
        Leave: The run does not exist, or cannot be read.
    """
    head = known_run(session.ledger, request.run).version
    after = max(request.after, head - request.last if request.last else 0)
    limit = min(request.limit or EVENTS_MAX, EVENTS_MAX)
    stream = run_stream(request.run)
    # The history may have grown since. The next request returns events after `head`.
    limit = max(0, min(limit, head - after))
    stored = session.ledger.store.read(stream, after=after, limit=limit) if limit else []
    events = [decode(r.stream, r.version, r.topic, r.state) for r in stored]
    page: list[Event] = []
    left = PAGE_CHARS
    for event in events:
        row = json.dumps(whole_row(event), ensure_ascii=False)
        left -= len(row)
        if page and left < 0:
            break
        page.append(Event(seq=event.version, topic=event.data.topic, row_json=row))
    return ListEventsResponse(events=page, more=after + len(page) < head)


def acknowledge(session: Session, request: AcknowledgeRequest) -> AcknowledgeResponse:
    """Answer a question, as `watchkeeper answer` does.

    Raises:
        Leave: A rule refuses the request, or the request is incomplete.
        BadInput: The principal's name is not valid.
    """
    answer = _ANSWERS.get(request.answer)
    if answer is None:
        hint = "expected ANSWER_NOTED, ANSWER_RELAUNCH or ANSWER_NEEDLESS"
        raise Leave(f"answer {request.answer}: {hint}", 4)
    if not request.principal:
        raise Leave("principal is empty: name the acting principal", 4)
    if len(request.key) > KEY_LENGTH_MAX or len(request.note) > TEXT_LENGTH_MAX:
        bounds = f"at most {KEY_LENGTH_MAX} characters of key and {TEXT_LENGTH_MAX} of note"
        raise Leave(f"key or note is too long: expected {bounds}", 4)
    # The server's own environment must not decide who the actor is.
    actor = actor_of(read_principals(session.home.principals), request.principal, {}, "")
    command = AnswerQuestion.model_validate(
        {
            "now": clock.now(),
            "actor": actor,
            "question": request.question,
            "note": request.note,
            "answer": answer,
        }
    )
    known_run(session.ledger, request.run)
    key = f"rpc/ack/{request.run}/{request.key}" if request.key else None
    handled = not_refused(session.ledger.handle(request.run, command, key=key))
    recorded = [Recorded(seq=one.version, topic=one.data.topic) for one in handled.events]
    return AcknowledgeResponse(recorded=recorded, says=act_if_alone(session, request.run))


def refuse_stranger(session: Session, request: AcknowledgeRequest) -> AcknowledgeResponse:
    """Refuse a write request without a token, and record the attempt.

    The attempt is recorded once a day for each question, as an agent's act, because the name is
    not proven.

    Raises:
        ConnectError: Always.
    """
    if request.run in session.ledger.slugs():
        stranger = Actor(principal=STRANGER, kind="agent")
        question = request.question[:KEY_LENGTH_MAX]
        tried = AnswerQuestion(now=clock.now(), actor=stranger, question=question)
        session.ledger.handle(request.run, tried)
    token = session.home.rpc_token
    hint = f"set {TOKEN_VARIABLE}={token} (only the owner of the home can read it)"
    raise ConnectError(Code.UNAUTHENTICATED, f"this RPC writes and needs the home's token: {hint}")


def _handled(
    function: Callable[[Session, _Request], _Answered],
    session: Session,
    request: _Request,
) -> _Answered:
    try:
        return function(session, request)
    except ConnectError:
        raise
    except Exception as error:
        known = exit_of(error)
        if known is None:
            log.exception("a request failed")
            words = f"internal error: {type(error).__name__}; the server's log has more"
            raise ConnectError(Code.INTERNAL, words) from error
        message, code = known
        missing = isinstance(error, Leave) and "RUN_UNKNOWN" in message
        raise ConnectError(Code.NOT_FOUND if missing else CODES[code], message) from error
