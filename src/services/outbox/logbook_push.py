"""Pushes logbooks to a git remote, which then serves as a witness.

One commit brings all outdated runs of a branch up to date. The logbook is a projection, so a lost
race is resolved by rendering again on the new head. Nothing is ever rebased, merged or forced. A
file must hold the last rendering. If somebody else changed the file, only that run is left out and
reported.
"""

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from watchkeeper import clock
from watchkeeper.domain.run.effects import EffectAttempted, LogbookPushed
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.outbox.effects import Effects
from watchkeeper.domain.run.outbox.outbox import attempted_try, logbook_key
from watchkeeper.domain.run.outbox.policy import Act
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.contract.contract import logbook_path_of, logbook_remote_of
from watchkeeper.domain.values.contract.git_names import logbook_problem, path_problem
from watchkeeper.domain.values.people import Actor
from watchkeeper.ports.git import BranchHead, GitRemote, PushRaced
from watchkeeper.ports.sources import LogbookRefused, Outside, Unavailable
from watchkeeper.projections.describe.headlines import branch_message
from watchkeeper.projections.logbook.logbook import RENDERER, render_at, render_with_earlier
from watchkeeper.services.ledger.ledger import Ledger

log = logging.getLogger(__name__)

RACES_MAX = 20
"""The number of lost races in a row after which a push fails and waits for its retry."""

_HEAD = re.compile(r"^(\d+) sha256:[0-9a-f]{64}$")


@dataclass(slots=True)
class Pushed:
    """The result of a push for the logbooks of one branch.

    Attributes:
        recorded: Runs whose logbook is now recorded as held by the remote.
        left_out: Runs left out of the commit, each with the reason: others wrote its file.
        faults: Internal errors in one run's logbook, by run.
    """

    recorded: set[str] = field(default_factory=set[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    faults: dict[str, Exception] = field(default_factory=dict[str, Exception])


class _NotOurs(Exception):
    """The file on the remote is not a rendering of this ledger."""


@dataclass(frozen=True, slots=True)
class _Book:
    """One run's current logbook, with the file on the remote.

    Attributes:
        there: The bytes on the remote; None if there is no file yet.
        since: The version that they were rendered at; 0 without a file.
    """

    run: Run
    effects: Effects
    path: str
    events: Sequence[Event]
    head: str
    content: bytes
    there: bytes | None
    since: int

    @property
    def version(self) -> int:
        """The newest event in the rendering."""
        return self.events[-1].version


def push_logbook(ledger: Ledger, outside: Outside, run: Run, actor: Actor) -> bool:
    """Bring one run's logbook on its remote up to date, immediately.

    Returns:
        Whether something was recorded. False if the remote already holds the rendered bytes.

    Raises:
        LogbookRefused: Its path is not allowed or holds a foreign file.
        Unavailable: The remote gives no answer.
        PushRaced: Too many lost races with other writers in a row.
    """
    pushed = push_logbooks(ledger, outside, [run], actor)
    for error in pushed.faults.values():
        raise error
    for why in pushed.left_out.values():
        raise LogbookRefused("git", why)
    return run.slug in pushed.recorded


def push_logbooks(
    ledger: Ledger,
    outside: Outside,
    runs: Sequence[Run],
    actor: Actor,
    is_stopping: Callable[[], bool] = lambda: False,
) -> Pushed:
    """Bring the logbooks of runs that share a remote and branch up to date, in one commit.

    The remote is read before anything is sent. An earlier push that landed before a crash or
    without an answer is found there and recorded, and not sent again.

    Args:
        ledger: The ledger that records the result.
        outside: The ports.
        runs: At least one run; all have the same remote and branch.
        actor: The actor of the push.
        is_stopping: Called before each read of the remote.

    Raises:
        Unavailable: The remote gives no answer. The attempted runs have that on record.
        PushRaced: Too many lost races with other writers in a row.
    """
    result = Pushed()
    runs = _in_allowed_places(ledger, outside, runs, result)
    if not runs:
        return result
    contract = contract_of(runs[0])
    branch = contract.logbook.branch
    remote = outside.git(logbook_remote_of(contract), branch)
    backoff = clock.ExponentialBackoff(
        initial=timedelta(milliseconds=200), maximum=timedelta(seconds=5), factor=2, jitter=1
    )
    for _ in range(RACES_MAX):
        if is_stopping():
            raise Unavailable("git", "the watch was asked to stop")
        head = remote.fetch()
        books = _books(ledger, remote, head, runs, result)
        _record_held(ledger, books, head, actor, result)
        changed = [book for book in books if book.content != book.there]
        commit = _commit(remote, head, changed, result)
        changed = [book for book in changed if book.run.slug not in result.left_out]
        if commit is None or not changed:
            return result
        _record_attempts(ledger, changed, actor)
        try:
            remote.push(commit, head)
        except PushRaced:
            log.info("another writer moved %s first", branch)
            clock.sleep(backoff.next_wait())
            continue
        events = {book.run.slug: [_pushed(book, commit)] for book in changed}
        ledger.record_effects_of(events, actor)
        result.recorded |= events.keys()
        return result
    raise PushRaced(f"other writers came first {RACES_MAX} times in a row")


def trailers(run: str, head: str) -> str:
    """Return the trailers that tie a commit or a tag to the ledger."""
    return f"Watchkeeper-Run: {run}\nWatchkeeper-Head: {head}\nWatchkeeper-Renderer: {RENDERER}\n"


def _in_allowed_places(
    ledger: Ledger, outside: Outside, runs: Sequence[Run], result: Pushed
) -> list[Run]:
    """Leave out the runs whose contract names a forbidden logbook path."""
    folders = outside.logbook_folders()
    allowed: list[Run] = []
    for run in runs:
        contract = contract_of(run)
        path, pushed = logbook_path_of(contract), ledger.effects(run.slug).pushed
        # A launched run keeps its path from before the home had a list of folders.
        keeps = bool(run.instances) and pushed is not None and pushed.path == path
        problem = logbook_problem(path, contract.logbook.branch, folders)
        if keeps:
            problem = path_problem(path)
        if problem:
            result.left_out[run.slug] = problem
        else:
            allowed.append(run)
    return allowed


def _books(
    ledger: Ledger, remote: GitRemote, head: BranchHead, runs: Sequence[Run], result: Pushed
) -> list[_Book]:
    """Render every logbook and read its file on the remote; a fault affects one run only."""
    paths = {run.slug: logbook_path_of(contract_of(run)) for run in runs}
    there = remote.read_files(head, tuple(paths.values()))
    books: list[_Book] = []
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    # A run with a logbook there keeps its path. Among new runs, the first by name gets it.
    for run in sorted(runs, key=lambda run: ledger.effects(run.slug).pushed is None):
        path, above = paths[run.slug], _above(paths[run.slug])
        if run.slug in result.faults:
            continue
        rivals = [files.get(path), folders.get(path), *(files.get(folder) for folder in above)]
        rival = next((slug for slug in rivals if slug is not None), None)
        try:
            if rival is not None:
                raise _NotOurs(f"{path} meets the logbook of {rival}: choose another logbook.path")
            if path not in there:
                raise _NotOurs(f"{path} is there and no file: choose another logbook.path")
            books.append(_book(ledger, remote, head, run, there[path]))
        except _NotOurs as error:
            result.left_out[run.slug] = str(error)
            continue
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001 - One run's bug stops no other run's logbook.
            result.faults[run.slug] = error
            continue
        files[path] = run.slug
        folders |= dict.fromkeys(above, run.slug)
    return books


def _above(path: str) -> list[str]:
    """Return the parent folders of a path."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _book(
    ledger: Ledger, remote: GitRemote, head: BranchHead, run: Run, there: bytes | None
) -> _Book:
    effects = ledger.effects(run.slug)
    events, newest = ledger.history_and_head(run.slug)
    path = logbook_path_of(contract_of(run))
    known = effects.pushed
    content, then = render_with_earlier(events, known.version if known is not None else 0)
    same_format = known is None or _digest(then) == known.content
    if known is not None and there is not None and _digest(there) == known.content:
        # The file is unchanged, so the branch's history need not be searched.
        since = known.version
        if not same_format:
            raise _NotOurs(_of_another_version(path, contract_of(run).logbook.branch))
    elif there is None and not same_format:
        since = 0  # A person removed the file in the old format.
    else:
        since = _rendered_at(ledger, remote, head, path, events, there)
    return _Book(run, effects, path, events, newest, content, there, since)


def _of_another_version(path: str, branch: str) -> str:
    """Say that pushed text would change, and how to start the file again."""
    return (
        f"{path} has the format of another version of watchkeeper, and pushed text never changes. "
        "Finish the run with that version, or remove the file, and it is written again in full: "
        f"`git switch {branch} && git rm {path} && git commit -m 'old logbook' && git push`"
    )


def _rendered_at(
    ledger: Ledger,
    remote: GitRemote,
    head: BranchHead,
    path: str,
    events: Sequence[Event],
    there: bytes | None,
) -> int:
    """Return the version that the file on the remote was rendered at; 0 without a file.

    Raises:
        _NotOurs: Its bytes are not a rendering of this ledger.
    """
    run = events[0].envelope.correlation
    newest = remote.newest_for_run(head, run)
    if newest is None:
        if there is None:
            return 0
        raise _NotOurs(f"{path} is there and not ours: choose another logbook.path")
    match = _HEAD.match(newest.trailers.get("Watchkeeper-Head", ""))
    if match is None:
        raise _NotOurs(f"commit {newest.commit[:8]} has no readable Watchkeeper-Head")
    since = int(match[1])
    held = 0 < since <= events[-1].version and ledger.head_at(run, since) == match[0]
    lost = since > events[-1].version and ledger.effects(run).pushed is not None
    if not held and not lost:
        if there is None:
            return 0  # Another home's logbook of this name is at another path.
        raise _NotOurs(_of_another_home(run, path, newest.commit, there))
    if lost:
        why = f"is at event {since}, the ledger at {events[-1].version}: was an old copy restored?"
        raise _NotOurs(f"the remote's logbook {why}")
    if there != render_at(events, version=since):
        fix = "revert it, or record it with `watchkeeper note`; nothing is overwritten"
        raise _NotOurs(f"{path} was edited after {newest.commit[:8]}: {fix}")
    return since


def _of_another_home(run: str, path: str, commit: str, there: bytes) -> str:
    """Say whose logbook is at the path, and how to proceed."""
    found = re.findall(rf"{re.escape(run)}-i\d+-([0-9a-f]{{6}})\b", there.decode(errors="replace"))
    name = "another home" + (f" ({', '.join(sorted(set(found)))})" if found else "")
    return (
        f"{path} is the logbook of {run} from {name}: commit {commit[:8]} names events "
        "that this ledger does not hold. Before the launch: set another logbook.path. To close "
        f"this: `watchkeeper run abandon {run} --reason WHY`"
    )


def _record_held(
    ledger: Ledger, books: Sequence[_Book], head: BranchHead, actor: Actor, result: Pushed
) -> None:
    """Record which logbooks the remote already holds.

    This happens if an earlier push landed without a recorded answer, or if an event changes nothing
    in the logbook.
    """
    events: dict[str, list[LogbookPushed]] = {}
    for book in books:
        known, effects = book.effects.pushed, book.effects
        tried = Act.LOGBOOK.value in effects.attempted
        behind = known is None or known.version < book.version
        if book.content == book.there and (behind or tried):
            events[book.run.slug] = [_pushed(book, head.commit or "")]
    if events:
        ledger.record_effects_of(events, actor)
        result.recorded |= events.keys()


def _commit(
    remote: GitRemote, head: BranchHead, changed: Sequence[_Book], result: Pushed
) -> str | None:
    """Write one commit for all changed logbooks; leave out a run whose path is blocked."""
    if not changed:
        return None
    try:
        return _write(remote, head, changed)
    except Unavailable as error:
        if len(changed) == 1:
            result.left_out[changed[0].run.slug] = error.reason
            return None
        fitting = [book for book in changed if _fits(remote, head, book, result)]
        if len(fitting) in (0, len(changed)):
            raise
    return _write(remote, head, fitting)


def _fits(remote: GitRemote, head: BranchHead, book: _Book, result: Pushed) -> bool:
    try:
        _write(remote, head, [book])
    except Unavailable as error:
        result.left_out[book.run.slug] = error.reason
        return False
    return True


def _write(remote: GitRemote, head: BranchHead, books: Sequence[_Book]) -> str:
    subject = branch_message({book.run.slug: book.events[book.since :] for book in books})
    signed = "".join(trailers(book.run.slug, book.head) for book in books)
    at = max(book.events[-1].envelope.recorded_at for book in books)
    files = {book.path: book.content for book in books}
    return remote.commit_files(head, files, f"{subject}\n\n{signed}", at=at)


def _record_attempts(ledger: Ledger, books: Sequence[_Book], actor: Actor) -> None:
    """Record the attempts before the push; after a lost race, only those of a new version."""
    events: dict[str, list[EffectAttempted]] = {}
    for book in books:
        key = logbook_key(contract_of(book.run), book.version)
        tried = book.effects.attempted.get(Act.LOGBOOK.value)
        if tried is None or tried.key != key:
            events[book.run.slug] = [attempted_try(book.run, book.effects, Act.LOGBOOK, key)]
    if events:
        ledger.record_effects_of(events, actor)


def _pushed(book: _Book, commit: str) -> LogbookPushed:
    return LogbookPushed(
        version=book.version,
        head=book.head,
        content=_digest(book.content),
        commit=commit,
        branch=contract_of(book.run).logbook.branch,
        path=book.path,
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
