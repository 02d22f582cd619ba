"""Carries out recorded requests outside, one at a time for each target.

At every turn the watch passes all due acts, and one act for each target is started. The other acts
are due again at the next turn. So a slow target delays no other target, and a `kill -9` loses
nothing.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from threading import Event as Signal

from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.outbox import Waiting, commit_now, requested, target_of
from watchkeeper.domain.run.outbox.policy import JOB_ACTS, Act, waits
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.contract.contract import logbook_remote_of
from watchkeeper.services.services import Services
from watchkeeper.services.watch.actions import perform, push_together

log = logging.getLogger(__name__)

WORKERS = 16
"""The number of targets handled at the same time. Further targets wait."""

EVERY = timedelta(minutes=1)
"""A branch gets at most one commit in this time, for all its runs, unless somebody waits for a
push.

Reason: one commit per branch and minute keeps a remote's history readable. It also stays far below
the write limits of its host, however many runs a home watches.
"""

GRACE = timedelta(seconds=2)
"""How long running pushes may take to end by themselves when the watch stops."""

INTERRUPTS = timedelta(milliseconds=100)
"""The time between two interrupts of work that does not end."""


@dataclass(frozen=True, slots=True)
class Due:
    """One run with its due acts.

    Attributes:
        token: The watch's fencing token.
        acts: The recorded requests in order, including waiting retries.
    """

    run: Run
    effects: Effects
    token: int
    acts: Sequence[Act]


@dataclass(frozen=True, slots=True)
class Ended:
    """A finished piece of work.

    Attributes:
        slugs: Its runs.
        error: The unexpected error; None if there was none.
    """

    act: Act
    slugs: tuple[str, ...]
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _Work:
    """A running piece of work, and the call that interrupts its wait, if any."""

    future: Future[object]
    act: Act
    slugs: tuple[str, ...]
    interrupt: Callable[[], None] | None


class Reactor:
    """Works on many targets in parallel, and on each target serially.

    Args:
        services: The dependencies.
        every: The shortest time between two commits of a branch that nobody waits for.
    """

    def __init__(self, services: Services, every: timedelta = EVERY) -> None:
        """Start with no work."""
        self._services = services
        self._every = every
        self._busy: dict[str, _Work] = {}
        self._leaving = Signal()
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="git")

    @property
    def under_way(self) -> list[Future[object]]:
        """The running work."""
        return [work.future for work in self._busy.values()]

    def start(
        self, due: Sequence[Due], now: datetime, *, whole: bool = True, ending: bool = False
    ) -> None:
        """Start the due git acts, at most one for each target.

        Args:
            due: All runs that this process acts for, including those without due acts.
            now: The time.
            whole: Whether all runs were read, so that each branch's newest commit is known. Until
                then only pushes that somebody waits for are started.
            ending: Whether the watch ends after this, so that no push waits for others.
        """
        for one in due:
            self._start_alone(one, now)
        self._start_logbooks(due, now, timedelta(0) if ending else self._every, whole=whole)

    def collect(self) -> list[Ended]:
        """Collect the finished work."""
        ended: list[Ended] = []
        for target, work in list(self._busy.items()):
            if work.future.done():
                del self._busy[target]
                ended.append(Ended(work.act, work.slugs, work.future.exception()))
        return ended

    def leave(self) -> None:
        """Let running work end, and interrupt the rest; the next watch queries its outcome."""
        self._leaving.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        # `wait` never sees a cancelled future as done.
        begun = [future for future in self.under_way if not future.done()]
        wait(begun, timeout=GRACE.total_seconds())
        while waiting := [work for work in self._busy.values() if not work.future.done()]:
            for work in waiting:
                if work.interrupt is not None:
                    work.interrupt()
            wait([work.future for work in waiting], timeout=INTERRUPTS.total_seconds())

    def _start_alone(self, one: Due, now: datetime) -> None:
        """Start a run's tag or closing before its branch's next commit, since somebody waits."""
        for act in one.acts:
            if act in JOB_ACTS or act is Act.LOGBOOK or waits(one.effects, act, now):
                continue
            code = contract_of(one.run).code
            target = target_of(contract_of(one.run), act) or f"ledger {one.run.slug}"
            interrupt = None if act is Act.CLOSE else self._interrupt(code.remote, code.branch)
            token = max(one.token, 0)
            begun = self._begin(
                target,
                act,
                (one.run.slug,),
                partial(perform, self._services, one.run, act, token),
                interrupt,
            )
            if begun:
                return

    def _start_logbooks(
        self, due: Sequence[Due], now: datetime, every: timedelta, *, whole: bool
    ) -> None:
        """Start one commit for each branch that may have one now."""
        behind: dict[str, list[Due]] = {}
        for one in due:
            if Act.LOGBOOK in one.acts:
                behind.setdefault(target_of(contract_of(one.run), Act.LOGBOOK), []).append(one)
        free = {target: runs for target, runs in behind.items() if target not in self._busy}
        if not free:
            return
        last = _last_commits(due, free.keys()) if whole else dict.fromkeys(free, now)
        for target, runs in free.items():
            into = set(commit_now(_waiting(runs), last.get(target), now, every))
            tokens = {o.run.slug: max(o.token, 0) for o in runs if o.run.slug in into}
            if not tokens:
                continue
            contract = contract_of(runs[0].run)
            self._begin(
                target,
                Act.LOGBOOK,
                tuple(tokens),
                partial(push_together, self._services, tokens, self._leaving.is_set),
                self._interrupt(logbook_remote_of(contract), contract.logbook.branch),
            )

    def _begin(
        self,
        target: str,
        act: Act,
        slugs: tuple[str, ...],
        work: Callable[[], object],
        interrupt: Callable[[], None] | None,
    ) -> bool:
        if target in self._busy or len(self._busy) >= WORKERS:
            return False
        self._busy[target] = _Work(self._pool.submit(work), act, slugs, interrupt)
        return True

    def _interrupt(self, remote: str, branch: str) -> Callable[[], None]:
        return lambda: self._services.outside.git(remote, branch).interrupt()


def _waiting(due: Iterable[Due]) -> list[Waiting]:
    return [
        Waiting(effect, one.effects)
        for one in due
        for effect in requested(one.run, one.effects)
        if effect.act is Act.LOGBOOK
    ]


def _last_commits(due: Iterable[Due], targets: Iterable[str]) -> dict[str, datetime]:
    """Return the time of each branch's last recorded commit, over all its runs."""
    wanted = set(targets)
    last: dict[str, datetime] = {}
    for one in due:
        at = one.effects.pushed_at
        if at is None:
            continue
        target = target_of(contract_of(one.run), Act.LOGBOOK)
        if target in wanted:
            last[target] = max(at, last.get(target, at))
    return last
