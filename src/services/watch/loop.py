"""The watch loop: many runs, one process, bounded concurrency, nothing remembered but the ledger.

What is due is derived from events at every turn, so a `kill -9` anywhere loses nothing: the next
process takes the watch over and goes on.
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
from watchkeeper.domain.run.outbox.outbox import no_longer_asked, target_of
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
from watchkeeper.ports.event_store import StoreAway, StoreFailure, VersionConflict
from watchkeeper.ports.sources import StateFiles
from watchkeeper.services.ledger.run_feed import Changes
from watchkeeper.services.ledger.store_outage import wait_until_back
from watchkeeper.services.services import SERVICE, Services
from watchkeeper.services.watch.actions import next_failure, perform
from watchkeeper.services.watch.reactor import EVERY, Due, Reactor

log = logging.getLogger(__name__)

WORKERS = 16
"""Runs that are looked at at one time; more wait their turn."""

TURN = timedelta(milliseconds=500)
"""The longest wait between two looks at what is due. New events end it early."""

LEAVING = timedelta(seconds=30)
"""How long acts under way may take to end when the watch is told to stop."""

PAUSES = {Act.STOP: timedelta(seconds=5), Act.VERIFY: timedelta(seconds=30)}
"""Waits after an act that recorded nothing and is still due: the other side needs time."""


@dataclass(slots=True)
class _Board:
    """What the loop knows of one run; all of it can be had again from the ledger."""

    run: Run
    effects: Effects
    token: int = 0
    refused_until: clock.Deadline | None = None
    pauses: dict[Act, clock.Deadline] = field(default_factory=dict[Act, clock.Deadline])


class Watcher:
    """Holds the watch over all runs of a home and does what falls due.

    Args:
        services: Ledger, ports and evidence.
        holder: Who watches, from where.
        states: Where state files are written.
        named: Runs that are watched although their contract declines a watch, and taken by force
            where `forced_by` says so. All others of the home are watched in any case: one process
            acts for a home, and what people ask of any run is carried out by it.
        forced_by: The human who takes the watch from whoever holds it; none to wait for its lease.
        every: The least time between two commits of a branch for which nobody waits.
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
        """Watch until told to stop.

        Args:
            stop: Set from a signal handler, or by another thread.
            until: Asked at each turn, once all runs were read, with all of them; true ends the
                watch once nothing is under way.

        Raises:
            StoreFailure: The ledger failed: without it nothing may be done. One that is away is
                waited for.
        """
        jobs = ThreadPoolExecutor(WORKERS, thread_name_prefix="job")
        try:
            while not stop.is_set():
                try:
                    ending = self._turn(jobs, until)
                    if ending and self._at_rest():
                        return
                    self._rest()
                except StoreAway as error:
                    if wait_until_back(self._services.ledger.store, stop, error):
                        self._begin_again()
        finally:
            # What waits for its turn is found due again by the next watch.
            jobs.shutdown(wait=False, cancel_futures=True)
            # Git has workers of its own: a remote that hangs never keeps a check waiting.
            self._reactor.leave()
            try:
                self._leave()
            except StoreAway as error:
                log.warning("the watch was not released, and its leases lapse: %s", error)
            jobs.shutdown()

    def _begin_again(self) -> None:
        """Look at every run anew, as what came meanwhile was missed; act for none before that."""
        with suppress(StoreAway):
            self._collect()  # Acts that met it, too.
        self._before |= self._boards
        self._boards = {}
        self._changes = Changes(self._services.recorder, self._services.ledger.store)

    # --- One turn ----------------------------------------------------------------------------

    def _turn(
        self, jobs: ThreadPoolExecutor, until: Callable[[dict[str, Run]], bool] | None
    ) -> bool:
        """Take in what ended, and begin what is due; say whether the watch ends after it."""
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
                # Handed over and not taken yet; what a human wants stopped waits for nobody.
                acts = [a for a in wanted_acts(board.run, board.effects, now) if a is Act.STOP]
                due.append(Due(board.run, board.effects, board.run.watch.token, acts))
        # What changes something at an orchestrator is done there one after another; of those who
        # wait for it, whom a human wants stopped comes first.
        targets = {target for _, target in self._doing.values()}
        for one in sorted(due, key=lambda one: Act.STOP not in one.acts):
            self._start_due(jobs, one, now, targets)
        self._reactor.start(due, now, whole=whole, ending=ending)
        return ending

    def _runs(self) -> dict[str, Run]:
        return {slug: board.run for slug, board in self._boards.items()}

    def _at_rest(self) -> bool:
        """Say whether nothing is under way, due, or waiting for a retry."""
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
            # An act that ends is a reason to look again as well as a new event is.
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
            # It is left alone and said so; the watch over the others goes on.
            log.error("%s cannot be read after event %d: %s", slug, run.version, run.why)
            self._services.ledger.show_unreadable(run)
            self._boards.pop(slug, None)
            return
        declined = run.contract is not None and run.contract.watch.declined
        if declined and slug not in self._named:
            return  # Watched only when somebody names it.
        board = self._boards.get(slug)
        if board is None:
            board = self._before.pop(slug, None) or _Board(run, Effects())
            self._boards[slug] = board
        board.run, board.effects = run, effects
        if board.token != board.run.watch.token:
            board.token = 0  # Somebody took it over; it is asked for again, or left.
        try:
            self._states.write_state(run)
        except OSError as error:
            # A courtesy to scripts: it is tried again at the next event.
            log.warning("%s: monitoring_state.json was not written: %s", slug, error)

    def _take(self, slug: str, board: _Board) -> None:
        # Force is used once for each run: who takes it back later is not driven out again.
        force = self._forced_by is not None and slug in self._named - self._forced
        over = isinstance(board.run.phase, NOT_WATCHED)
        if over or (board.run.watch.ended and not force):
            # Nothing to watch; what is left to push needs no lease, only our place as its writer.
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
        self._forced.add(slug)  # Not before: where the ledger is away it was not used.
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)
            board.refused_until = clock.Deadline.after(timedelta(seconds=10))
            self._report_if_stale(slug, board.run)
            return
        board.run = outcome.run
        board.token = outcome.run.watch.token

    def _works_for(self, run: Run) -> bool:
        """Say whether somebody else of this home took the run beside this watch: it goes on."""
        holder = run.watch.holder
        theirs = holder is not None and holder.principal != self._holder.principal
        return theirs and self._is_ours(run) and is_held(run.watch, clock.now())

    def _is_ours(self, run: Run) -> bool:
        """Say whether the watch is held in this home, where one process acts for all holders."""
        holder = run.watch.holder
        here = (self._holder.host, self._holder.home)
        return holder is not None and (holder.host, holder.home) == here

    def _report_if_stale(self, slug: str, run: Run) -> None:
        """Say on record that whoever holds the watch does not check: it cannot say so itself."""
        if stale_since(run, clock.now()) is None or MONITOR_STALE in run.findings:
            return
        command = ReportStaleMonitor(now=clock.now(), actor=SERVICE, reporter=self._holder)
        outcome = self._services.ledger.handle(slug, command)
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)

    def _start_due(
        self, jobs: ThreadPoolExecutor, one: Due, now: datetime, targets: set[str]
    ) -> None:
        """Start at most one act for the run's job; a slow one delays no other run's check."""
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
        """Record what the run's own history has settled, such as a stop of what ended by itself."""
        if over := no_longer_asked(board.run, board.effects):
            board.effects = self._services.ledger.record_effects(slug, over, SERVICE)

    def _collect(self) -> None:
        """Take in what ended; a failure of the store ends the watch, another one is recorded.

        Raises:
            StoreAway: An act met that the ledger is away; one that is locked can still be read.
        """
        away: StoreAway | None = None
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

    def _failed(self, slugs: tuple[str, ...], act: Act, error: BaseException) -> StoreAway | None:
        if isinstance(error, StoreFailure) and not isinstance(error, StoreAway):
            raise error
        for slug in slugs:
            # What is due is found due again.
            if isinstance(error, VersionConflict | StoreAway):
                log.warning("%s: %s", slug, error)
            else:
                self._record_fault(slug, act, error)
        return error if isinstance(error, StoreAway) else None

    def _record_fault(self, slug: str, act: Act, error: BaseException) -> None:
        """A bug of ours in one act: loud in log and status, and no other run is touched."""
        log.error("%s: %s failed", slug, act.value, exc_info=error)
        reason = f"internal error, please report: {type(error).__name__}: {error}"
        draw = self._services.draw()
        failed = next_failure(self._services.ledger.effects(slug), act.value, reason, draw)
        self._services.ledger.record_effects(slug, [failed], SERVICE)

    def _leave(self) -> None:
        """Let acts under way end, and say on record that nobody watches from here."""
        # What was cancelled never becomes done for `wait`, only for itself.
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
    """Do what is due for one run, here and now, until nothing is or the limit.

    For commands that a person gives while no watch runs in this home; the caller holds the home's
    watch lock. Checks are left to the watch.
    """
    deadline = clock.Deadline.after(limit)
    while not deadline.expired():
        run = services.ledger.run(slug)
        if isinstance(run, Unreadable):
            return
        if over := no_longer_asked(run, services.ledger.effects(slug)):
            services.ledger.record_effects(slug, over, SERVICE)
        acts = due_acts(run, services.ledger.effects(slug), clock.now())
        acts = [act for act in acts if act not in (Act.CHECK, Act.VERIFY)]
        if run.watch.kept_for and is_held(run.watch, clock.now()):
            # Whom the watch was handed to acts for the job; a human's stop waits for nobody.
            acts = [act for act in acts if act not in JOB_ACTS or act is Act.STOP]
        if not acts or not perform(services, run, acts[0], run.watch.token):
            return
