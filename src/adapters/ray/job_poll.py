"""Polls a Ray cluster for its jobs and nodes, and records changes.

A missing, late or unreadable answer says nothing about any job; it is reported as such. Only a
cluster that answers can have forgotten a job, and then the job's state is unknown: a restarted head
forgets the jobs that ran and those that succeeded.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ray.job_submission import JobSubmissionClient
from ray.util.state import list_nodes

from watchkeeper import clock
from watchkeeper.adapters.ray.messages import (
    ENDED,
    Message,
    Reported,
    Worth,
    Writer,
    job_life,
    job_subject,
)
from watchkeeper.adapters.ray.spool import Spool
from watchkeeper.ports.sources import Unavailable
from watchkeeper.services import time_limit

CALL_LIMIT = timedelta(seconds=20)
"""One answer; 1,000 jobs take half a second."""

NODES_MAX = 10_000
"""Nodes in one answer, dead ones included; Ray's own limit. A longer list is no answer."""

MISSING_MIN = 2
"""Answers in a row without a job or node, until it counts as forgotten."""

_REASON_CHARS = 300
_REDIRECTS = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS")
"""Where one of these is set, Ray's client goes there, whatever address it is given."""

_DONE = {"job": ENDED, "node": frozenset({"DEAD"})}
"""States after which nothing is missed."""

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Poller:
    """Asks one cluster; used by one thread.

    Args:
        address: Of the dashboard, `http://host:8265`.
        spool: Where changes go.
        writer: Writes them.
        limit: The most that one answer may take.
    """

    address: str
    spool: Spool
    writer: Writer
    limit: timedelta = CALL_LIMIT
    _missing: dict[tuple[str, str, str], int] = field(
        default_factory=dict[tuple[str, str, str], int], init=False
    )

    def poll(self) -> tuple[int, tuple[str, ...]]:
        """Poll everything once, and record the changes.

        Returns:
            How many messages were kept, and the parts that gave no answer.

        Raises:
            SpoolProblem: The spool cannot be written.
        """
        kept = 0
        silent: list[str] = []
        asks: tuple[tuple[str, Callable[[], int]], ...] = (
            ("jobs", self._jobs),
            ("nodes", self._nodes),
        )
        for part, ask in asks:
            try:
                kept += ask()
            except Unavailable as error:
                silent.append(part)
                kept += report_reach(self.spool, self.writer, part, error.reason)
            else:
                kept += report_reach(self.spool, self.writer, part, "")
        return kept, tuple(silent)

    def _jobs(self) -> int:
        address = self.address
        rows = self._ask("jobs", lambda: _jobs(address))
        at = clock.now()
        ids = {self.writer.job_id(row): row for row in rows}
        kept = self._changes("job", ids, lambda row: self.writer.job(row, at, "poll"))
        listed = {(job_subject(row), job_life(row)) for row in rows}
        return kept + self._forgotten("job", listed, at)

    def _nodes(self) -> int:
        address, limit = self.address, self.limit
        rows = self._ask("nodes", lambda: _nodes(address, limit))
        at = clock.now()
        ids = {self.writer.node_id(row): row for row in rows}
        kept = self._changes("node", ids, lambda row: self.writer.node(row, at))
        return kept + self._forgotten("node", {(str(row.get("node_id")), "") for row in rows}, at)

    def _changes(
        self,
        part: str,
        rows: Mapping[str, Mapping[str, Any]],
        write: Callable[[Mapping[str, Any]], Message],
    ) -> int:
        known = {identity for states in self.spool.reported(part).values() for identity in states}
        # Written only where new: to scrub a thousand logs at each poll would cost seconds.
        messages = [write(row) for identity, row in rows.items() if identity not in known]
        # A message without room is not recorded, so the next poll offers it again.
        return self.spool.offer(messages).taken if messages else 0

    def _forgotten(self, part: str, listed: set[tuple[str, str]], at: datetime) -> int:
        """Record that objects are no longer listed that were neither ended nor dead."""
        absent = {
            (part, *thing): states
            for thing, states in self.spool.reported(part).items()
            if thing not in listed
        }
        self._missing = {
            known: count
            for known, count in self._missing.items()
            if known[0] != part or known in absent
        }
        messages: list[Message] = []
        gone: list[tuple[str, str]] = []
        for known, states in absent.items():
            self._missing[known] = self._missing.get(known, 0) + 1
            if self._missing[known] < MISSING_MIN:
                continue
            _, subject, life = known
            gone.append((subject, life))
            if not _DONE[part] & set(states.values()):
                last = Reported(part, subject, list(states.values())[-1], life)
                messages.append(self.writer.unknown(last, at, list(states)))
        return self.spool.forget(part, gone, messages).taken if gone else 0

    def _ask(self, part: str, ask: Callable[[], _Answer]) -> _Answer:
        source = f"ray {self.address} {part}"

        def attempt() -> _Answer:
            _refuse_redirects(source, self.address)
            try:
                return ask()
            except Exception as error:
                # Whatever Ray's client makes of a server that is not well, or not Ray's.
                text = " ".join(str(error).split())[:_REASON_CHARS]
                raise Unavailable(source, f"{type(error).__name__}: {text}") from error

        return time_limit.call(source, self.limit, attempt)


def report_reach(spool: Spool, writer: Writer, part: str, reason: str) -> int:
    """Record that a part went silent, or answers again; nothing if that is known.

    Args:
        spool: Stores since when a part is silent.
        writer: Writes the message.
        part: `jobs`, `nodes` or `files`.
        reason: Why there is no answer; empty when there is one.

    Returns:
        The number of messages kept.
    """
    name = f"silent/{part}"
    since = spool.note(name)
    if bool(since) == bool(reason):
        return 0
    now = clock.now()
    began = datetime.fromisoformat(since) if since else now
    message = writer.reach(part, began, now, reason)
    # Without room it stays unsaid, and the next look says it.
    notes = {name: now.isoformat() if reason else None}
    return spool.offer((message,), notes, all_of=Worth.DETAIL).taken


def _refuse_redirects(source: str, address: str) -> None:
    for name in _REDIRECTS:
        if os.environ.get(name, address) != address:
            raise Unavailable(
                source,
                f"{name} is set in the bridge's environment and would send every call to "
                "another cluster; unset it and restart",
            )


def _jobs(address: str) -> Sequence[Mapping[str, Any]]:
    client: Any = JobSubmissionClient(address)
    return [job.model_dump(mode="json") for job in client.list_jobs()]


def _nodes(address: str, limit: timedelta) -> Sequence[Mapping[str, Any]]:
    seconds = max(1, int(limit.total_seconds()))
    nodes: Any = list_nodes(address=address, limit=NODES_MAX, timeout=seconds, detail=True)
    return [dataclasses.asdict(node) for node in nodes]
