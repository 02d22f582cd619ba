"""What goes out to git: together, one thing at a time for each target, asked before repeated."""

import contextlib
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from freezegun import freeze_time

from tests.session import DRI, LIMIT, end_processes, taken, watch_until
from tests.training import Site, git, make_site, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, holder_of, open_session
from watchkeeper.adapters.home import create_home, keep_logbook_folders
from watchkeeper.domain.rules.launch.commands import DraftRun, RequestLaunch
from watchkeeper.domain.rules.operator.commands import AddNote
from watchkeeper.domain.rules.permits.commands import Waive
from watchkeeper.domain.run.effects import (
    EffectAttempted,
    EffectFailed,
    EffectRejected,
    EffectUnknown,
    LogbookPushed,
)
from watchkeeper.domain.run.envelope import decode
from watchkeeper.domain.run.outbox.effects import effects_stream
from watchkeeper.domain.run.outbox.outbox import requested
from watchkeeper.domain.run.outbox.policy import due_acts
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import Contract, LogbookPart, logbook_path_of
from watchkeeper.domain.values.observation.observation import GateFacts
from watchkeeper.ports.git import BranchHead, GitRemote
from watchkeeper.ports.sources import Unavailable
from watchkeeper.projections.logbook import logbook
from watchkeeper.projections.logbook.logbook import render_at
from watchkeeper.projections.logbook.state import Logbook
from watchkeeper.services.ledger import run_feed
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.ledger.verify import Report, audit
from watchkeeper.services.outbox.logbook_push import push_logbook
from watchkeeper.services.watch.actions import push_together
from watchkeeper.services.watch.loop import Watcher

pytestmark = pytest.mark.git

HOUR = timedelta(hours=1)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    keep_logbook_folders(create_home(tmp_path / "home"), ["logs"])
    with open_session(tmp_path / "home", create=True) as opened:
        yield opened
    end_processes(tmp_path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return make_site(tmp_path)


def draft(session: Session, contract: Contract) -> None:
    """Draft a run and waive its approval: before that no logbook is pushed."""
    now, slug = clock.now(), contract.run
    taken(session.ledger.handle(slug, DraftRun(now=now, actor=DRI, contract=contract)))
    asked = RequestLaunch(now=now, actor=DRI, submission_id=f"{slug}-i1", facts=GateFacts())
    taken(session.ledger.handle(slug, asked))
    waiver = Waive(now=now, actor=DRI, subject="L11", reason="a test")
    taken(session.ledger.handle(slug, waiver))


def drafts(session: Session, site: Site, count: int) -> list[str]:
    names = [f"run-{number:02}" for number in range(count)]
    for name in names:
        draft(session, tiny_contract(site, name))
    return names


def note(session: Session, slug: str, text: str = "look here") -> None:
    taken(session.ledger.handle(slug, AddNote(now=clock.now(), actor=DRI, text=text)))


def is_pushed(session: Session, slug: str) -> bool:
    pushed = session.ledger.effects(slug).pushed
    return pushed is not None and pushed.version == session.ledger.run(slug).version


def all_pushed(session: Session, names: list[str]) -> bool:
    return all(is_pushed(session, name) for name in names)


def all_recorded(session: Session, names: list[str]) -> bool:
    """Whether each push that was begun is recorded as done."""
    return all(
        len(tries(session, name, EffectAttempted)) == len(tries(session, name, LogbookPushed))
        for name in names
    )


def commits(site: Site) -> list[str]:
    """The messages of our commits on the branch, newest first."""
    told = git(site.remote, "log", "--format=%B%x00", "main").split("\0")
    return [message.strip() for message in told if "Watchkeeper-Run:" in message]


def book(site: Site, session: Session, slug: str) -> bytes:
    run = session.ledger.run(slug)
    assert isinstance(run, Run)
    assert run.contract is not None
    return git(site.remote, "show", f"main:{logbook_path_of(run.contract)}").encode()


def tries(session: Session, slug: str, kind: type[Any]) -> list[Any]:
    stream = effects_stream(slug)
    read = session.ledger.store.read(stream)
    events = [decode(r.stream, r.version, r.topic, r.state) for r in read]
    return [event.data for event in events if isinstance(event.data, kind)]


# --- One commit for a branch and minute ----------


def test_twenty_runs_of_one_branch_share_a_commit(session: Session, site: Site) -> None:
    names = drafts(session, site, 20)
    watch_until(session, lambda _: all_pushed(session, names), every=HOUR)
    [message] = commits(site)
    assert re.findall(r"^Watchkeeper-Run: (.*)$", message, re.MULTILINE) == names
    assert message.splitlines()[0] == "run-00: start run logbook, and 19 more runs"
    for name in names:
        assert book(site, session, name) == render_at(session.ledger.history(name))
    report = Report()
    audit(session.ledger.store, session.adapters, report, remotes=True)
    assert report.exit_code == 0, report.problems + report.unchecked


def test_commits_of_a_branch_keep_their_distance_and_lose_nothing(
    session: Session, site: Site
) -> None:
    names = drafts(session, site, 5)
    intervals = 0

    def is_over(_: dict[str, Run]) -> bool:
        nonlocal intervals
        if len(commits(site)) <= intervals or not all_recorded(session, names):
            return False
        if intervals >= 3 and all_pushed(session, names):
            return True
        for number in range(2 if intervals < 3 else 0):
            for name in names:
                note(session, name, f"note {intervals}.{number}")
        # A turn that has begun may not have read all of the notes: the rest waits its hour.
        intervals += 1
        frozen.tick(HOUR)
        return False

    with freeze_time(clock.now()) as frozen:
        watch_until(session, is_over, every=HOUR)
    # The first goes at once, then one for each interval, however many notes there are.
    assert len(commits(site)) == intervals + 1
    for name in names:
        assert book(site, session, name) == render_at(session.ledger.history(name))


def test_the_distance_is_kept_by_the_next_watch_too(session: Session, site: Site) -> None:
    names = drafts(session, site, 3)
    with freeze_time(clock.now()) as frozen:
        watch_until(session, lambda _: all_pushed(session, names), every=HOUR)
        note(session, names[0])
        frozen.tick(HOUR - timedelta(seconds=1))
        timer = clock.Timer()
        watch_until(session, lambda _: timer.elapsed() > timedelta(seconds=1), every=HOUR)
        assert not is_pushed(session, names[0])
        assert len(commits(site)) == 1
        frozen.tick(timedelta(seconds=1))
        watch_until(session, lambda _: is_pushed(session, names[0]), every=HOUR)
    assert len(commits(site)) == 2


def test_the_distance_is_kept_before_every_run_was_read(
    session: Session, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest commit may stand with a run that is still to be read."""
    names = drafts(session, site, 3)
    watch_until(session, lambda _: all_pushed(session, names), every=HOUR)
    draft(session, tiny_contract(site, "aa"))
    monkeypatch.setattr(run_feed, "AT_ONCE", timedelta(0))
    timer = clock.Timer()
    watch_until(session, lambda _: timer.elapsed() > timedelta(seconds=1), every=HOUR)
    assert not is_pushed(session, "aa")
    assert len(commits(site)) == 1


def test_a_person_s_command_and_the_end_of_a_watch_wait_for_no_company(
    session: Session, site: Site
) -> None:
    [first, second] = drafts(session, site, 2)
    watch_until(session, lambda _: all_pushed(session, [first, second]), every=HOUR)
    note(session, first)
    run = session.ledger.run(first)
    assert isinstance(run, Run)
    assert push_logbook(session.ledger, session.adapters, run, DRI)
    note(session, second)
    holder = holder_of(session.home, "watchkeeper")
    watcher = Watcher(session.services, holder, session.home, every=HOUR)
    watcher.run(threading.Event(), lambda _: True)
    assert all_pushed(session, [first, second])
    assert len(commits(site)) == 3


def test_nothing_is_pushed_while_the_rendered_bytes_are_the_same(
    session: Session, site: Site
) -> None:
    [name] = drafts(session, site, 1)
    watch_until(session, lambda _: is_pushed(session, name))
    # What was recorded is forgotten by a copy of the ledger's caches, not by the remote.
    before = tries(session, name, EffectAttempted)
    run = session.ledger.run(name)
    assert isinstance(run, Run)
    assert push_logbook(session.ledger, session.adapters, run, DRI) is False
    assert len(commits(site)) == 1
    assert tries(session, name, EffectAttempted) == before


# --- What is wrong with one run, or with the remote ----------


def persons_clone(site: Site) -> Path:
    clone = site.folder / "person"
    git(site.folder, "clone", "--quiet", str(site.remote), str(clone))
    git(clone, "config", "user.name", "p")
    git(clone, "config", "user.email", "p@x")
    return clone


def test_an_edited_logbook_leaves_out_its_own_run_only(session: Session, site: Site) -> None:
    names = drafts(session, site, 3)
    watch_until(session, lambda _: all_pushed(session, names))
    clone = persons_clone(site)
    edited = clone / ".agents/logbooks/run-01.md"
    edited.write_text(edited.read_text() + "\neverything is fine\n")
    git(clone, "commit", "--quiet", "-am", "edit")
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    for name in names:
        note(session, name)
    others = [names[0], names[2]]
    watch_until(
        session,
        lambda _: all_pushed(session, others) and bool(session.ledger.effects(names[1]).failing),
    )
    [trouble] = session.ledger.effects(names[1]).failing.values()
    assert isinstance(trouble, EffectRejected)
    assert "was edited after" in trouble.reason
    assert not any(session.ledger.effects(name).failing for name in others)
    assert b"everything is fine" in book(site, session, names[1])
    # And the others go on while it waits for a person.
    note(session, names[0])
    watch_until(session, lambda _: is_pushed(session, names[0]))
    git(clone, "pull", "--quiet", "--ff-only", "origin", "main")
    git(
        clone, "revert", "--no-edit", git(clone, "log", "-1", "--format=%H", "--grep=^edit").strip()
    )
    git(clone, "push", "--quiet", "origin", "HEAD:main")
    watch_until(session, lambda _: is_pushed(session, names[1]))
    assert not session.ledger.effects(names[1]).failing


def test_a_file_in_an_older_format_is_left_alone_until_a_person_removes_it(
    session: Session, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    [name] = drafts(session, site, 1)

    def no_state(_: Logbook) -> str:
        return ""

    with monkeypatch.context() as older:
        older.setattr(logbook, "_state", no_state)
        watch_until(session, lambda _: is_pushed(session, name))
    before = book(site, session, name)
    note(session, name)
    watch_until(session, lambda _: bool(session.ledger.effects(name).failing))
    [trouble] = session.ledger.effects(name).failing.values()
    assert "has the format of another version" in trouble.reason
    command = re.findall("`(.*)`", trouble.reason)[-1]
    assert book(site, session, name) == before
    clone = persons_clone(site)
    subprocess.run(["bash", "-ec", command], cwd=clone, check=True, capture_output=True)
    watch_until(session, lambda _: is_pushed(session, name))
    assert b"**Now**" in book(site, session, name)


def test_a_path_that_is_taken_leaves_out_its_own_run_only(session: Session, site: Site) -> None:
    def at(name: str, path: str) -> None:
        part = LogbookPart(branch="main", path=path)
        draft(session, tiny_contract(site, name).model_copy(update={"logbook": part}))

    at("b-first", "logs/one.md")
    watch_until(session, lambda _: is_pushed(session, "b-first"))
    note(session, "b-first")
    at("c-twin", "logs/one.md")
    at("a-below", "logs/one.md/two.md")
    at("d-well", "logs/two.md")
    at("e-twin", "logs/two.md")
    good = ["b-first", "d-well"]
    failing = ["a-below", "c-twin", "e-twin"]

    def settled(_: dict[str, Run]) -> bool:
        return all_pushed(session, good) and all(session.ledger.effects(n).failing for n in failing)

    watch_until(session, settled)
    for name in failing:
        assert isinstance(session.ledger.effects(name).failing["logbook"], EffectRejected), name
    assert git(site.remote, "ls-tree", "-r", "--name-only", "main", "logs/").split() == [
        "logs/one.md",
        "logs/two.md",
    ]


def test_a_second_writer_loses_nothing_and_stops_nothing(session: Session, site: Site) -> None:
    names = drafts(session, site, 5)
    clone = persons_clone(site)
    done = threading.Event()
    pushed: list[str] = []

    def write() -> None:
        for number in range(8):
            (clone / f"notes-{number}.txt").write_text("mine\n")
            git(clone, "add", ".")
            git(clone, "commit", "--quiet", "-m", f"notes {number}")
            for _ in range(20):
                with contextlib.suppress(Exception):
                    git(clone, "pull", "--quiet", "--rebase", "origin", "main")
                    git(clone, "push", "--quiet", "origin", "HEAD:main")
                    pushed.append(f"notes-{number}.txt")
                    break
        done.set()

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    told = 0

    def until_both_are_done(_: dict[str, Run]) -> bool:
        nonlocal told
        if not done.is_set():
            note(session, names[told % 5])
            told += 1
            return False
        return all_pushed(session, names)

    watch_until(session, until_both_are_done)
    assert len(pushed) == 8
    there = git(site.remote, "ls-tree", "--name-only", "main").split()
    assert set(pushed) <= set(there)
    for name in names:
        assert book(site, session, name) == render_at(session.ledger.history(name))


def test_a_remote_that_is_gone_is_waited_for_by_all_its_runs_together(
    session: Session, site: Site
) -> None:
    names = drafts(session, site, 4)
    hidden = site.remote.with_name("hidden.git")
    site.remote.rename(hidden)
    services = replace(session.services, draw=lambda: 0.2)
    watch_until(
        session, lambda _: all(session.ledger.effects(n).failing for n in names), services=services
    )
    # A run that is drafted now asks the silent remote no earlier than the others do.
    draft(session, tiny_contract(site, "late"))
    names.append("late")
    tried = len(tries(session, names[0], EffectFailed))
    watch_until(
        session,
        lambda _: len(tries(session, names[0], EffectFailed)) >= tried + 2,
        services=services,
    )
    retries = {session.ledger.effects(name).failing["logbook"].retry_at for name in names}
    assert len(retries) == 1
    assert not tries(session, names[0], EffectAttempted), "nothing was sent"
    hidden.rename(site.remote)
    watch_until(session, lambda _: all_pushed(session, names), services=services)
    assert len(commits(site)) == 1
    assert not any(session.ledger.effects(name).failing for name in names)


# --- Asked before repeated ----------


class LostAnswer:
    """A fake over the real remote, for an answer that is lost after the push landed."""

    def __init__(self, inner: GitRemote) -> None:
        self._inner = inner
        self.lost = 0

    def push(self, commit: str, onto: BranchHead) -> None:
        self._inner.push(commit, onto)
        if not self.lost:
            self.lost += 1
            raise Unavailable("git", "the line went dead", retry_after=timedelta(seconds=1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Through:
    """The real adapters with another git remote."""

    def __init__(self, inner: Any, remote: Any) -> None:
        self._inner = inner
        self._remote = remote

    def git(self, remote: str, branch: str) -> GitRemote:
        del remote, branch
        return cast(GitRemote, self._remote)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_push_without_an_answer_is_unknown_and_is_asked_about_and_not_repeated(
    session: Session, site: Site
) -> None:
    names = drafts(session, site, 2)
    remote = LostAnswer(session.adapters.git(str(site.remote), "main"))
    services = replace(session.services, outside=cast(Any, Through(session.adapters, remote)))
    now = clock.now()
    with freeze_time(now):
        assert push_together(services, dict.fromkeys(names, 0)) == set()
    for name in names:
        [unknown] = tries(session, name, EffectUnknown)
        [tried] = tries(session, name, EffectAttempted)
        assert unknown.key == tried.key
        assert unknown.key.startswith(f"logbook/{site.remote}#main:.agents/logbooks/{name}.md@")
        # The other side asked for a second.
        assert unknown.retry_at - now >= timedelta(seconds=1)
    assert push_together(services, dict.fromkeys(names, 0)) == set(names)
    assert len(commits(site)) == 1, "it was asked about, not repeated"
    for name in names:
        assert is_pushed(session, name)
        assert not session.ledger.effects(name).failing
        assert len(tries(session, name, EffectAttempted)) == 1


def test_an_attempt_that_a_crash_left_is_asked_about(session: Session, site: Site) -> None:
    [name] = drafts(session, site, 1)
    real = session.adapters.git(str(site.remote), "main")

    class Dies:
        def push(self, commit: str, onto: BranchHead) -> None:
            real.push(commit, onto)
            raise KeyboardInterrupt

        def __getattr__(self, asked: str) -> Any:
            return getattr(real, asked)

    services = replace(session.services, outside=cast(Any, Through(session.adapters, Dies())))
    with pytest.raises(KeyboardInterrupt):
        push_together(services, {name: 0})
    assert list(session.ledger.effects(name).attempted) == ["logbook"]
    assert session.ledger.effects(name).pushed is None
    watch_until(session, lambda _: is_pushed(session, name))
    assert len(commits(site)) == 1
    assert len(tries(session, name, LogbookPushed)) == 1
    assert not session.ledger.effects(name).attempted


# --- Leaving, and replaying ----------


@pytest.fixture
def silent() -> Iterator[str]:
    """A remote that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        kept: list[socket.socket] = []
        ended = threading.Event()

        def take() -> None:
            listener.settimeout(0.2)
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    kept.append(listener.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/code.git"
        ended.set()
        thread.join(timeout=60)
        for one in kept:
            one.close()


def test_a_watch_over_many_runs_stops_at_once_though_their_git_hangs(
    session: Session, site: Site, silent: str
) -> None:
    for number in range(200):
        part = LogbookPart(branch=f"b{number % 40}", remote=silent)
        one = tiny_contract(site, f"hung-{number:03}")
        draft(session, one.model_copy(update={"logbook": part}))
    stop = threading.Event()
    watcher = Watcher(session.services, holder_of(session.home, "watchkeeper"), session.home)
    thread = threading.Thread(target=watcher.run, args=(stop,), daemon=True)
    thread.start()
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    assert backoff.wait_until(lambda: _git_threads() >= 16, LIMIT)
    stop.set()
    timer = clock.Timer()
    thread.join(timeout=40)
    assert not thread.is_alive()
    assert timer.elapsed() < timedelta(seconds=10)


def _git_threads() -> int:
    return sum(thread.name.startswith("git") for thread in threading.enumerate())


class Forbidden:
    """No port may be asked while a history is replayed."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"replay asked for {name}")


def test_replay_never_acts(session: Session, site: Site) -> None:
    names = drafts(session, site, 3)
    watch_until(session, lambda _: all_pushed(session, names))
    note(session, names[0])
    before = session.ledger.store.read_all(limit=10_000)
    again = Ledger(session.ledger.store, session.ledger.scrubber)
    for slug in again.slugs():
        run, effects = again.run(slug), again.effects(slug)
        assert isinstance(run, Run)
        render_at(again.history(slug))
        due_acts(run, effects, clock.now())
        wanted = [effect.act.value for effect in requested(run, effects)]
        assert wanted == (["logbook"] if slug == names[0] else [])
    report = Report()
    audit(session.ledger.store, cast(Any, Forbidden()), report, remotes=False)
    assert report.exit_code == 0, report.problems
    assert session.ledger.store.read_all(limit=10_000) == before
