"""Asks a Ray cluster for its jobs and nodes, and keeps what changed.

No answer, an answer too late and an answer that cannot be read say nothing about any job: they are
told as themselves. Only a cluster that answers can have forgotten a job, and then the job's state
is unknown: a restarted head forgets those that ran, and those that ended well.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from ray.job_submission import JobSubmissionClient
from ray.util.state import list_nodes

from watchkeeper import clock, outside
from watchkeeper.adapters.ray.messages import ENDED, Message, Told, Worth, Writer, job_subject
from watchkeeper.adapters.ray.spool import Spool
from watchkeeper.ports import Unavailable

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
    _missing: dict[Told, int] = field(default_factory=dict[Told, int], init=False)

    def poll(self) -> tuple[int, tuple[str, ...]]:
        """Ask for everything once, and keep what changed.

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
                kept += self._reach(part, error.reason)
            else:
                kept += self._reach(part, "")
        return kept, tuple(silent)

    def _jobs(self) -> int:
        address = self.address
        rows = self._ask("jobs", lambda: _jobs(address))
        at = clock.now()
        ids = {self.writer.job_id(row): row for row in rows}
        kept = self._changes("job", ids, lambda row: self.writer.job(row, at, "poll"))
        return kept + self._forgotten("job", {job_subject(row) for row in rows}, at)

    def _nodes(self) -> int:
        address, limit = self.address, self.limit
        rows = self._ask("nodes", lambda: _nodes(address, limit))
        at = clock.now()
        ids = {self.writer.node_id(row): row for row in rows}
        kept = self._changes("node", ids, lambda row: self.writer.node(row, at))
        return kept + self._forgotten("node", {str(row.get("node_id")) for row in rows}, at)

    def _changes(
        self,
        part: str,
        rows: Mapping[str, Mapping[str, Any]],
        write: Callable[[Mapping[str, Any]], Message],
    ) -> int:
        known = {identity for ids, _ in self.spool.told(part).values() for identity in ids}
        # Written only where new: to scrub a thousand logs at each poll would cost seconds.
        messages = [write(row) for identity, row in rows.items() if identity not in known]
        # What finds no room is not told, so the next poll offers it again.
        return self.spool.offer(messages).taken if messages else 0

    def _forgotten(self, part: str, listed: set[str], at: datetime) -> int:
        """Keep that things are not listed any more which were neither ended nor dead."""
        before = self.spool.told(part)
        absent = {
            Told(part, subject, state): ids
            for subject, (ids, state) in before.items()
            if subject not in listed
        }
        for known in [told for told in self._missing if told.part == part and told not in absent]:
            del self._missing[known]
        messages: list[Message] = []
        subjects: list[str] = []
        for told, ids in absent.items():
            self._missing[told] = self._missing.get(told, 0) + 1
            if self._missing[told] < MISSING_MIN:
                continue
            subjects.append(told.subject)
            if told.state not in _DONE[part]:
                messages.append(self.writer.unknown(told, at, ids))
        return self.spool.forget(part, subjects, messages).taken if subjects else 0

    def _reach(self, part: str, reason: str) -> int:
        """Keep that a part went silent, or answers again; nothing where that is known."""
        name = f"silent/{part}"
        since = self.spool.note(name)
        if bool(since) == bool(reason):
            return 0
        now = clock.now()
        began = datetime.fromisoformat(since) if since else now
        message = self.writer.reach(part, began, now, reason)
        notes = {name: now.isoformat() if reason else None}
        # Without room it stays unsaid, and the next poll says it.
        return self.spool.offer((message,), notes, all_of=Worth.DETAIL).taken

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

        return outside.call(source, self.limit, attempt)


def _refuse_redirects(source: str, address: str) -> None:
    for name in _REDIRECTS:
        if os.environ.get(name, address) != address:
            raise Unavailable(
                source,
                f"{name} is set where the bridge runs and would send every call to another cluster;"
                " unset it and start again",
            )


def _jobs(address: str) -> Sequence[Mapping[str, Any]]:
    client: Any = JobSubmissionClient(address)
    return [job.model_dump(mode="json") for job in client.list_jobs()]


def _nodes(address: str, limit: timedelta) -> Sequence[Mapping[str, Any]]:
    seconds = max(1, int(limit.total_seconds()))
    nodes: Any = list_nodes(address=address, limit=NODES_MAX, timeout=seconds, detail=True)
    return [dataclasses.asdict(node) for node in nodes]
