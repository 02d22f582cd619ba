"""The watch loop: many runs, one process, bounded concurrency, no own state.

Every turn derives the due acts from events, so a `kill -9` loses nothing. The next process takes
the watch over and continues.
"""

import logging
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event as Signal
from typing import Any

from watchkeeper import clock
from watchkeeper.domain.rules.health.commands import ReportStaleMonitor
from watchkeeper.domain.rules.health.freshness import stale_since
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.rules.watch.commands import ReleaseWatch, TakeWatch
from watchkeeper.domain.rules.watch.handover import is_held
from watchkeeper.domain.run.envelope import Undecodable
from watchkeeper.domain.run.health import MONITOR_STALE
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.outbox import dropped_effects, target_of
from watchkeeper.domain.run.outbox.policy import (
    JOB_ACTS,
    OUTBOUND,
    Act,
    due_acts,
    waits,
    wanted_acts,
)
from watchkeeper.domain.run.phases import NOT_WATCHED
from watchkeeper.domain.run.run import Run, Unreadable, contract_of
from watchkeeper.domain.run.watch import Holder
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.event_store import StoreFailure, StoreUnavailable, VersionConflict
from watchkeeper.ports.sources import StateFiles
from watchkeeper.services.ledger.run_feed import Changes
from watchkeeper.services.ledger.store_outage import wait_until_back
from watchkeeper.services.services import SERVICE, Services
from watchkeeper.services.watch.actions import internal_failure, perform
from watchkeeper.services.watch.reactor import EVERY, Due, Reactor

log = logging.getLogger(__name__)

WORKERS = 16
"""The number of runs handled at the same time. Further runs wait."""

TURN = timedelta(milliseconds=500)
"""The longest wait between two turns. New events end it early."""

LEAVING = timedelta(seconds=30)
"""How long running acts may take to end when the watch stops."""

PAUSES = {Act.STOP: timedelta(seconds=5), Act.VERIFY: timedelta(seconds=30)}
"""Waits after an act that recorded nothing and is still due."""


@dataclass(slots=True)
class _Board:
    """The loop's state of one run, derived from the ledger."""

    run: Run
    effects: Effects
    token: int = 0
    refused_until: clock.Deadline | None = None
    pauses: dict[Act, clock.Deadline] = field(default_factory=dict[Act, clock.Deadline])


class Watcher:
    """Holds the watch over all runs of a home and does the due acts.

    Args:
        services: Ledger, ports and evidence.
        holder: The holder of the watch: who watches, and from where.
        states: Where state files are written.
        named: Runs that are watched although their contract declines a watch, and taken by force if
            `forced_by` is set. All other runs of the home are always watched, since one process
            acts for a home and carries out all requests of people.
        forced_by: The human who takes the watch by force; None to wait for the lease.
        every: The shortest time between two commits of a branch that nobody waits for.
    """

    def __init__(
        self,
        services: Services,
        holder: Holder,
        states: StateFiles,
        named: frozenset[str] = frozenset(),
        forced_by: Actor | None = None,
        every: timedelta = EVERY,
    ) -> None:
        """Begin with an empty board; `run` fills it from the ledger."""
        self._services = services
        self._holder = holder
        self._states = states
        self._named = named
        self._forced_by = forced_by
        self._forced: set[str] = set()
        self._boards: dict[str, _Board] = {}
        self._before: dict[str, _Board] = {}
        self._changes = Changes(services.recorder, services.ledger.store)
        self._reactor = Reactor(services, every)
        self._busy: dict[str, Future[bool]] = {}
        self._doing: dict[str, tuple[Act, str]] = {}

    def run(self, stop: Signal, until: Callable[[dict[str, Run]], bool] | None = None) -> None:
        """Watch until stopped.

        Args:
            stop: Set from a signal handler, or by another thread.
            until: Called at each turn with all runs, once all were read. True ends the watch when
                no act is running.

        Raises:
            StoreFailure: The ledger failed, and nothing may be done without it. An unavailable
                ledger is waited for.
        """
        jobs = ThreadPoolExecutor(WORKERS, thread_name_prefix="job")
        try:
            while not stop.is_set():
                try:
                    ending = self._turn(jobs, until)
                    if ending and self._at_rest():
                        return
                    self._rest()
                except StoreUnavailable as error:
                    if wait_until_back(self._services.ledger.store, stop, error):
                        self._begin_again()
        finally:
            # The next watch repeats waiting acts.
            jobs.shutdown(wait=False, cancel_futures=True)
            # Git has its own workers, so a hanging remote never delays a check.
            self._reactor.leave()
            try:
                self._leave()
            except StoreUnavailable as error:
                log.warning("the watch was not released, and its leases lapse: %s", error)
            jobs.shutdown()

    def _begin_again(self) -> None:
        """Read every run again, since events were missed; act for no run before that."""
        with suppress(StoreUnavailable):
            self._collect()  # This includes acts that failed in the outage.
        self._before |= self._boards
        self._boards = {}
        self._changes = Changes(self._services.recorder, self._services.ledger.store)

    # --- One turn ----------------------------------------------------------------------------

    def _turn(
        self, jobs: ThreadPoolExecutor, until: Callable[[dict[str, Run]], bool] | None
    ) -> bool:
        """Collect finished acts and start due ones; say whether the watch ends after this turn."""
        self._collect()
        self._refresh()
        whole = self._changes.whole
        ending = whole and until is not None and until(self._runs())
        now = clock.now()
        due: list[Due] = []
        for slug, board in self._boards.items():
            if board.token == 0:
                self._take(slug, board)
            if board.token != 0:
                acts = wanted_acts(board.run, board.effects, now)
                due.append(Due(board.run, board.effects, board.token, acts))
            elif board.run.watch.kept_for and board.run.watch.holder is None:
                # Handed over and not taken yet. A stop by a human never waits.
                acts = [a for a in wanted_acts(board.run, board.effects, now) if a is Act.STOP]
                due.append(Due(board.run, board.effects, board.run.watch.token, acts))
        # Acts that change something at one orchestrator run one after another. Among waiting runs,
        # one that a human wants stopped comes first.
        targets = {target for _, target in self._doing.values()}
        for one in sorted(due, key=lambda one: Act.STOP not in one.acts):
            self._start_due(jobs, one, now, targets)
        self._reactor.start(due, now, whole=whole, ending=ending)
        return ending

    def _runs(self) -> dict[str, Run]:
        return {slug: board.run for slug, board in self._boards.items()}

    def _at_rest(self) -> bool:
        """Say whether nothing is running, due, or waiting for a retry."""
        now = clock.now()
        return not self._under_way() and not any(
            board.effects.failing or due_acts(board.run, board.effects, now)
            for board in self._boards.values()
        )

    def _under_way(self) -> list[Future[Any]]:
        return [*self._busy.values(), *self._reactor.under_way]

    def _rest(self) -> None:
        under_way = self._under_way()
        if under_way and self._changes.whole:
            # A finished act triggers a turn, as a new event does.
            wait(under_way, timeout=0.05, return_when=FIRST_COMPLETED)
        self._changes.wait(TURN if not under_way else timedelta(milliseconds=20))

    def _refresh(self) -> None:
        """Bring the board up to date with what any process appended."""
        for slug in self._changes.turn():
            self._look_at(slug)

    def _look_at(self, slug: str) -> None:
        run = self._services.ledger.run(slug)
        try:
            effects = self._services.ledger.effects(slug)
        except Undecodable as error:
            run = Unreadable(slug, run.version, f"its effects: {error}")
            effects = Effects()
        if isinstance(run, Unreadable):
            # The run is left alone and reported; the watch over other runs continues.
            log.error("%s cannot be read after event %d: %s", slug, run.version, run.why)
            self._services.ledger.show_unreadable(run)
            self._boards.pop(slug, None)
            return
        declined = run.contract is not None and run.contract.watch.declined
        if declined and slug not in self._named:
            return  # Watched only if it is named.
        board = self._boards.get(slug)
        if board is None:
            board = self._before.pop(slug, None) or _Board(run, Effects())
            self._boards[slug] = board
        board.run, board.effects = run, effects
        if board.token != board.run.watch.token:
            board.token = 0  # Another holder took it over; the watch is requested again or left.
        try:
            self._states.write_state(run)
        except OSError as error:
            # State files are a convenience for scripts. The write is retried at the next event.
            log.warning("%s: monitoring_state.json was not written: %s", slug, error)

    def _take(self, slug: str, board: _Board) -> None:
        # Force is used once per run: a holder who takes the watch back later keeps it.
        force = self._forced_by is not None and slug in self._named - self._forced
        over = isinstance(board.run.phase, NOT_WATCHED)
        if over or (board.run.watch.ended and not force):
            # Nothing to watch. The remaining pushes need no lease, only that we are the writer.
            board.token = board.run.watch.token or -1
            return
        if self._works_for(board.run):
            board.token = board.run.watch.token
            return
        if board.refused_until is not None and not board.refused_until.expired():
            return
        command = TakeWatch(
            now=clock.now(),
            actor=self._forced_by or SERVICE,
            holder=self._holder,
            same_home=True,
            force=force,
        )
        outcome = self._services.ledger.handle(slug, command)
        self._forced.add(slug)  # An unavailable ledger means that force was not used.
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)
            board.refused_until = clock.Deadline.after(timedelta(seconds=10))
            self._report_if_stale(slug, board.run)
            return
        board.run = outcome.run
        board.token = outcome.run.watch.token

    def _works_for(self, run: Run) -> bool:
        """Say whether another holder in this home took the run, so that this watch continues."""
        holder = run.watch.holder
        theirs = holder is not None and holder.principal != self._holder.principal
        return theirs and self._is_ours(run) and is_held(run.watch, clock.now())

    def _is_ours(self, run: Run) -> bool:
        """Say whether a holder in this home has the watch; one process acts for all of them."""
        holder = run.watch.holder
        here = (self._holder.host, self._holder.home)
        return holder is not None and (holder.host, holder.home) == here

    def _report_if_stale(self, slug: str, run: Run) -> None:
        """Record that the holder of the watch does not check, since it cannot report so itself."""
        if stale_since(run, clock.now()) is None or MONITOR_STALE in run.health.findings:
            return
        command = ReportStaleMonitor(now=clock.now(), actor=SERVICE, reporter=self._holder)
        outcome = self._services.ledger.handle(slug, command)
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)

    def _start_due(
        self, jobs: ThreadPoolExecutor, one: Due, now: datetime, targets: set[str]
    ) -> None:
        """Start at most one act for the run's job; a slow act delays no other run's check."""
        slug, board = one.run.slug, self._boards[one.run.slug]
        if slug in self._busy:
            return
        self._close_leftovers(slug, board)
        for act in one.acts:
            paused = board.pauses.get(act)
            if act not in JOB_ACTS or waits(one.effects, act, now):
                continue
            if paused and not paused.expired():
                continue
            target = target_of(contract_of(one.run), act) if act in OUTBOUND else ""
            if target and target in targets:
                continue
            self._doing[slug] = act, target
            targets.add(target)
            token = max(one.token, 0)
            self._busy[slug] = jobs.submit(perform, self._services, one.run, act, token)
            return

    def _close_leftovers(self, slug: str, board: _Board) -> None:
        """Record acts that the run's history has settled, such as a stop of an ended instance."""
        if over := dropped_effects(board.run, board.effects):
            board.effects = self._services.ledger.record_effects(slug, over, SERVICE)

    def _collect(self) -> None:
        """Collect finished acts; a store failure ends the watch, any other failure is recorded.

        Raises:
            StoreUnavailable: An act found no ledger. A locked ledger can still be read.
        """
        away: StoreUnavailable | None = None
        for slug, future in list(self._busy.items()):
            if not future.done():
                continue
            del self._busy[slug]
            act, _ = self._doing.pop(slug)
            error = future.exception()
            if error is not None:
                away = self._failed((slug,), act, error) or away
            elif not future.result() and act in PAUSES:
                board = self._boards.get(slug)
                if board is not None:
                    board.pauses[act] = clock.Deadline.after(PAUSES[act])
        for ended in self._reactor.collect():
            if ended.error is not None:
                away = self._failed(ended.slugs, ended.act, ended.error) or away
        if away is not None:
            raise away

    def _failed(
        self, slugs: tuple[str, ...], act: Act, error: BaseException
    ) -> StoreUnavailable | None:
        if isinstance(error, StoreFailure) and not isinstance(error, StoreUnavailable):
            raise error
        for slug in slugs:
            # The next turn finds the acts due again.
            if isinstance(error, VersionConflict | StoreUnavailable):
                log.warning("%s: %s", slug, error)
            else:
                self._record_fault(slug, act, error)
        return error if isinstance(error, StoreUnavailable) else None

    def _record_fault(self, slug: str, act: Act, error: BaseException) -> None:
        """Report our own bug in one act, in log and status; no other run is affected."""
        log.error("%s: %s failed", slug, act.value, exc_info=error)
        reason = f"internal error, please report: {type(error).__name__}: {error}"
        draw = self._services.draw()
        failed = internal_failure(self._services.ledger.effects(slug), act.value, reason, draw)
        self._services.ledger.record_effects(slug, [failed], SERVICE)

    def _leave(self) -> None:
        """Let running acts end, and record that this holder no longer watches."""
        # `wait` never sees a cancelled future as done.
        begun = [future for future in self._busy.values() if not future.done()]
        wait(begun, timeout=LEAVING.total_seconds())
        for slug, board in (self._before | self._boards).items():
            run = self._services.ledger.run(slug)
            if not isinstance(run, Run) or not self._is_ours(run) or board.token <= 0:
                continue
            command = ReleaseWatch(
                now=clock.now(), actor=SERVICE, token=board.token, reason="the watch was stopped"
            )
            self._services.ledger.handle(slug, command)


def settle(services: Services, slug: str, limit: timedelta) -> None:
    """Do the due acts of one run now, until nothing is due or the limit is reached.

    For a person's commands while no watch runs in this home. The caller holds the home's watch
    lock. Checks are left to the watch.
    """
    deadline = clock.Deadline.after(limit)
    while not deadline.expired():
        run = services.ledger.run(slug)
        if isinstance(run, Unreadable):
            return
        if over := dropped_effects(run, services.ledger.effects(slug)):
            services.ledger.record_effects(slug, over, SERVICE)
        acts = due_acts(run, services.ledger.effects(slug), clock.now())
        acts = [act for act in acts if act not in (Act.CHECK, Act.VERIFY)]
        if run.watch.kept_for and is_held(run.watch, clock.now()):
            # The holder that the watch was handed to acts for the job. A human's stop never waits.
            acts = [act for act in acts if act not in JOB_ACTS or act is Act.STOP]
        if not acts or not perform(services, run, acts[0], run.watch.token):
            return
