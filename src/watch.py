"""The watch loop: many runs, one process, bounded concurrency, nothing remembered but the ledger.

What is due is derived from events at every turn, so a `kill -9` anywhere loses nothing: the next
process takes the watch over and goes on.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event as Signal
from typing import Protocol

from watchkeeper import clock
from watchkeeper.acts import next_failure, perform
from watchkeeper.desk import SERVICE, Desk
from watchkeeper.domain.commands import ReleaseWatch, TakeWatch
from watchkeeper.domain.commands_manoeuvres import ReportStaleMonitor
from watchkeeper.domain.effects import Effects
from watchkeeper.domain.envelope import Undecodable
from watchkeeper.domain.events import Holder
from watchkeeper.domain.freshness import stale_since
from watchkeeper.domain.handover import is_held
from watchkeeper.domain.people import Actor
from watchkeeper.domain.phases import Abandoned, Cleared, Draft, Sealed, Stopped, Superseded, Unborn
from watchkeeper.domain.policy import JOB_ACTS, Act, due_acts
from watchkeeper.domain.refusals import Refused
from watchkeeper.domain.state import MONITOR_STALE, Run, Unreadable
from watchkeeper.event_store import StoreFailure, VersionConflict
from watchkeeper.tailer import Tailer

log = logging.getLogger(__name__)

WORKERS = 16
"""Runs that are looked at, and runs that are pushed, at one time; more wait their turn."""

TURN = timedelta(milliseconds=500)
"""The longest wait between two looks at what is due. New events end it early."""

LEAVING = timedelta(seconds=30)
"""How long acts under way may take to end when the watch is told to stop."""

_NOT_WATCHED = (Unborn, Draft, Cleared, Stopped, Abandoned, Superseded, Sealed)
"""Phases in which there is nothing to watch, and at most something to push."""

PAUSES = {Act.STOP: timedelta(seconds=5), Act.VERIFY: timedelta(seconds=30)}
"""Waits after an act that recorded nothing and is still due: the other side needs time."""


class StateFiles(Protocol):
    """Writes `monitoring_state.json` for scripts that read it."""

    def write_state(self, run: Run) -> None:
        """Write a run's state file, whole or not at all."""
        ...


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
        desk: Ledger, ports and evidence.
        holder: Who watches, from where.
        states: Where state files are written.
        named: Runs that are watched although their contract declines a watch, and taken by force
            where `forced_by` says so. All others of the home are watched in any case: one process
            acts for a home, and what people ask of any run is carried out by it.
        forced_by: The human who takes the watch from whoever holds it; none to wait for its lease.
    """

    def __init__(
        self,
        desk: Desk,
        holder: Holder,
        states: StateFiles,
        named: frozenset[str] = frozenset(),
        forced_by: Actor | None = None,
    ) -> None:
        """Begin with an empty board; `run` fills it from the ledger."""
        self._desk = desk
        self._holder = holder
        self._states = states
        self._named = named
        self._forced_by = forced_by
        self._forced: set[str] = set()
        self._boards: dict[str, _Board] = {}
        self._tailer = Tailer(desk.recorder, desk.ledger.store)
        self._busy: dict[tuple[str, bool], Future[tuple[Act, bool]]] = {}
        self._doing: dict[tuple[str, bool], Act] = {}

    def run(self, stop: Signal, until: Callable[[dict[str, Run]], bool] | None = None) -> None:
        """Watch until told to stop.

        Args:
            stop: Set from a signal handler, or by another thread.
            until: Asked at each turn with all runs; true ends the watch once nothing is under way.

        Raises:
            StoreFailure: The ledger failed: without it nothing may be done.
        """
        # Git has workers of its own: a remote that hangs never keeps a check waiting.
        with (
            ThreadPoolExecutor(WORKERS, thread_name_prefix="job") as jobs,
            ThreadPoolExecutor(WORKERS, thread_name_prefix="git") as pushes,
        ):
            try:
                while not stop.is_set():
                    self._turn(jobs, pushes)
                    if until is not None and self._at_rest() and until(self._runs()):
                        return
                    self._rest()
            finally:
                self._leave()

    # --- One turn ----------------------------------------------------------------------------

    def _turn(self, jobs: ThreadPoolExecutor, pushes: ThreadPoolExecutor) -> None:
        self._collect()
        self._refresh()
        for slug, board in self._boards.items():
            if board.token == 0:
                self._take(slug, board)
            if board.token != 0:
                self._start_due(jobs, pushes, slug, board)

    def _runs(self) -> dict[str, Run]:
        return {slug: board.run for slug, board in self._boards.items()}

    def _at_rest(self) -> bool:
        """Say whether nothing is under way, due, or waiting for a retry."""
        now = clock.now()
        return not self._busy and not any(
            board.effects.failing or due_acts(board.run, board.effects, now)
            for board in self._boards.values()
        )

    def _rest(self) -> None:
        if self._busy:
            # An act that ends is a reason to look again as well as a new event is.
            wait(list(self._busy.values()), timeout=0.05)
        self._tailer.wait(TURN if not self._busy else timedelta(milliseconds=20))

    def _refresh(self) -> None:
        """Bring the board up to date with what any process appended."""
        changed: set[str] = set()
        for page in self._tailer.pages():
            for notification in page:
                kind, _, slug = str(notification.originator_id).partition("/")
                if kind in ("run", "effects") and slug:
                    changed.add(slug)
        for slug in changed:
            run = self._desk.ledger.run(slug)
            try:
                effects = self._desk.ledger.effects(slug)
            except Undecodable as error:
                run = Unreadable(slug, run.version, f"its effects: {error}")
                effects = Effects()
            if isinstance(run, Unreadable):
                # It is left alone and said so; the watch over the others goes on.
                log.error("%s cannot be read after event %d: %s", slug, run.version, run.why)
                self._desk.ledger.show_unreadable(run)
                self._boards.pop(slug, None)
                continue
            declined = run.contract is not None and run.contract.watch.declined
            if declined and slug not in self._named:
                continue  # Watched only when somebody names it.
            board = self._boards.get(slug)
            if board is None:
                board = self._boards[slug] = _Board(run, Effects())
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
        over = isinstance(board.run.phase, _NOT_WATCHED)
        if over or (board.run.watch.ended and not force):
            # Nothing to watch; what is left to push needs no lease, only our place as its writer.
            board.token = board.run.watch.token or -1
            return
        if board.refused_until is not None and not board.refused_until.expired():
            return
        self._forced.add(slug)
        command = TakeWatch(
            now=clock.now(),
            actor=self._forced_by or SERVICE,
            holder=self._holder,
            same_home=True,
            force=force,
        )
        outcome = self._desk.ledger.handle(slug, command)
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)
            board.refused_until = clock.Deadline.after(timedelta(seconds=10))
            self._report_if_stale(slug, board.run)
            return
        board.run = outcome.run
        board.token = outcome.run.watch.token

    def _report_if_stale(self, slug: str, run: Run) -> None:
        """Say on record that whoever holds the watch does not check: it cannot say so itself."""
        if stale_since(run, clock.now()) is None or MONITOR_STALE in run.findings:
            return
        command = ReportStaleMonitor(now=clock.now(), actor=SERVICE, reporter=self._holder)
        outcome = self._desk.ledger.handle(slug, command)
        if isinstance(outcome, Refused):
            log.info("%s: %s", slug, outcome.sentence)

    def _start_due(
        self, jobs: ThreadPoolExecutor, pushes: ThreadPoolExecutor, slug: str, board: _Board
    ) -> None:
        """Start at most one act for the job and one for git; a slow one delays no other run."""
        acts = due_acts(board.run, board.effects, clock.now())
        for is_job in (True, False):
            lane = (slug, is_job)
            if lane in self._busy:
                continue
            for act in acts:
                paused = board.pauses.get(act)
                if (act in JOB_ACTS) is not is_job or (paused and not paused.expired()):
                    continue
                self._doing[lane] = act
                pool = jobs if is_job else pushes
                self._busy[lane] = pool.submit(self._perform, board.run, act, board.token)
                break

    def _perform(self, run: Run, act: Act, token: int) -> tuple[Act, bool]:
        return act, perform(self._desk, run, act, max(token, 0))

    def _collect(self) -> None:
        """Take in what ended; a failure of the store ends the watch, another one is recorded."""
        for lane, future in list(self._busy.items()):
            if not future.done():
                continue
            del self._busy[lane]
            act = self._doing.pop(lane)
            error = future.exception()
            if isinstance(error, StoreFailure):
                raise error
            if isinstance(error, VersionConflict):
                log.warning("%s: %s", lane[0], error)
            elif error is not None:
                self._record_fault(lane[0], act, error)
            elif not future.result()[1] and act in PAUSES:
                board = self._boards.get(lane[0])
                if board is not None:
                    board.pauses[act] = clock.Deadline.after(PAUSES[act])

    def _record_fault(self, slug: str, act: Act, error: BaseException) -> None:
        """A bug of ours in one act: loud in log and status, and no other run is touched."""
        log.error("%s: %s failed", slug, act.value, exc_info=error)
        reason = f"internal error, please report: {type(error).__name__}: {error}"
        failed = next_failure(self._desk.ledger.effects(slug), act.value, reason)
        self._desk.ledger.record_effects(slug, [failed], SERVICE)

    def _leave(self) -> None:
        """Let acts under way end, and say on record that nobody watches from here."""
        wait(list(self._busy.values()), timeout=LEAVING.total_seconds())
        for slug, board in self._boards.items():
            run = self._desk.ledger.run(slug)
            if not isinstance(run, Run) or run.watch.holder != self._holder or board.token <= 0:
                continue
            command = ReleaseWatch(
                now=clock.now(), actor=SERVICE, token=board.token, reason="the watch was stopped"
            )
            self._desk.ledger.handle(slug, command)


def settle(desk: Desk, slug: str, limit: timedelta) -> None:
    """Do what is due for one run, here and now, until nothing is or the limit.

    For commands that a person gives while no watch runs in this home; the caller holds the home's
    watch lock. Checks are left to the watch.
    """
    deadline = clock.Deadline.after(limit)
    while not deadline.expired():
        run = desk.ledger.run(slug)
        if isinstance(run, Unreadable):
            return
        acts = due_acts(run, desk.ledger.effects(slug), clock.now())
        acts = [act for act in acts if act not in (Act.CHECK, Act.VERIFY)]
        if run.watch.kept_for and is_held(run.watch, clock.now()):
            # Whom the watch was handed to acts for the job; a human's stop waits for nobody.
            acts = [act for act in acts if act not in JOB_ACTS or act is Act.STOP]
        if not acts or not perform(desk, run, acts[0], run.watch.token):
            return
