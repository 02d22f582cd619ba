"""Access to one branch and the tags of a git remote, in a private bare mirror.

It uses git's plumbing commands. The mirror may be deleted at any time; the next call creates it
and fetches again.
"""

import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from watchkeeper import clock
from watchkeeper.adapters.git.address import parse_remote, scrub
from watchkeeper.adapters.git.fetching import (
    RemoteTag,
    branch_at,
    changed_between,
    fetch_all,
    fetch_branch,
    look,
    reached,
    tag_at,
)
from watchkeeper.adapters.git.files import read_file_at, read_files_at, write_tree_with
from watchkeeper.adapters.git.plumbing import Answer, Git, failure, full_id, make_mirror, run_git
from watchkeeper.clock import Deadline
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts
from watchkeeper.ports.git import BranchHead, LogbookCommit, PushRaced, TagTaken
from watchkeeper.ports.sources import Unavailable

RUN_TRAILER = "Watchkeeper-Run"
"""Names the run that a logbook commit belongs to."""

_PUSH = (
    "push",
    "--porcelain",
    "--no-verify",
    "--no-signed",
    "--no-follow-tags",
    "--recurse-submodules=no",
)
"""Never with --force, --force-with-lease or a plus: all of them may drop commits of others."""

_PROBE = b"This was never pushed: it shows that a push would be taken.\n"

_PUSH_ENDED = frozenset({0, 1, 128})
"""Exit codes of git-push for done, for a ref that was refused, and for all else."""

_RACES = (
    "already exists",
    "but expected",
    "failed to lock",
    "fetch first",
    "File exists",
    "incorrect old value",
    "non-fast-forward",
    "stale info",
)
"""Messages of git's receive-pack (refs.c, receive-pack.c) and GitHub if another push was first."""


class GitRemoteMirror:
    """Owns a mirror and implements `watchkeeper.ports.sources.GitRemote` for one branch with it."""

    def __init__(self, git: Git, branch: str, author: tuple[str, str]) -> None:
        """Keep the values that `open_git_remote` has checked."""
        self._git = git
        self._branch = branch
        self._author = author
        self._fetching = threading.Lock()

    @property
    def mirror(self) -> Path:
        """The folder of the bare repository."""
        return self._git.mirror

    def fetch(self) -> BranchHead:
        """Fetch the branch and return its head."""
        deadline = self._begin()
        found = branch_at(self._git, self._branch, deadline)
        return BranchHead(self._fetch_branch(found, deadline))

    def read_file(self, head: BranchHead, path: str) -> bytes | None:
        """Return a file's bytes at a head, or None if it does not exist there."""
        return read_file_at(self._git, head.commit, path, self._begin())

    def read_files(self, head: BranchHead, paths: Sequence[str]) -> dict[str, bytes | None]:
        """Return several files' bytes at a head, None for one that does not exist there."""
        return read_files_at(self._git, head.commit, paths, self._begin())

    def newest_for_run(self, head: BranchHead, run: str) -> LogbookCommit | None:
        """Return the newest commit at or before a head with `Watchkeeper-Run: <run>`."""
        deadline = self._begin()
        escaped = re.sub(r"([][.*+?^$(){}|\\])", r"\\\1", run)
        pattern = f"^{RUN_TRAILER}:[[:space:]]*{escaped}[[:space:]]*$"
        trailers_by_name = "only=true,unfold=true,key_value_separator=%x00,separator=%x00"
        log = [
            "log",
            "--max-count=1",
            "--first-parent",
            "--extended-regexp",
            f"--grep={pattern}",
            "--encoding=UTF-8",
            f"--format=%H%x00%P%x00%(trailers:{trailers_by_name})",
        ]
        start = head.commit
        while start is not None:
            found = run_git(self._git, [*log, full_id(start)], deadline=deadline).text
            if not found:
                return None
            commit, parents, *fields = found.split("\0")
            trailers = _trailers_of(run, list(zip(fields[::2], fields[1::2], strict=False)))
            # The pattern also finds lines that are quoted in the body and are no trailers.
            if trailers:
                return LogbookCommit(commit, trailers)
            start = next(iter(parents.split()), None)
        return None

    def commit_file(
        self, head: BranchHead, path: str, content: bytes, message: str, *, at: datetime
    ) -> str:
        """Write a commit on top of a head that changes one file only; return its id."""
        return self.commit_files(head, {path: content}, message, at=at)

    def commit_files(
        self, head: BranchHead, files: Mapping[str, bytes], message: str, *, at: datetime
    ) -> str:
        """Write a commit on top of a head that changes several files; return its id."""
        deadline = self._begin()
        date = f"@{_unix(at)} +0000"
        tree = write_tree_with(self._git, head.commit, files, deadline)
        parent = [] if head.commit is None else ["-p", full_id(head.commit)]
        name, email = self._author
        answer = run_git(
            self._git,
            ["commit-tree", tree, *parent, "-F", "-"],
            deadline=deadline,
            stdin=message.encode(),
            environment={
                "GIT_AUTHOR_NAME": name,
                "GIT_AUTHOR_EMAIL": email,
                "GIT_AUTHOR_DATE": date,
                "GIT_COMMITTER_NAME": name,
                "GIT_COMMITTER_EMAIL": email,
                "GIT_COMMITTER_DATE": date,
            },
        )
        return answer.text

    def push(self, commit: str, onto: BranchHead) -> None:
        """Move the remote branch to a commit made on top of `onto`."""
        deadline = self._begin()
        full_id(commit)
        # A fast-forward alone would also restore a branch that was deleted or set back. The time
        # between this look and the push is short, and then git refuses all but a fast-forward.
        found = branch_at(self._git, self._branch, deadline)
        if found != onto.commit:
            # After a lost reply others may have written on top of our commit.
            head = self._fetch_branch(found, deadline)
            if head is not None and reached(self._git, commit, [head], deadline):
                return
            raise self._raced(onto, f"it is at {found}")
        refused = self._push_one(f"{commit}:refs/heads/{self._branch}", deadline)
        if refused is None:
            return
        kind, said = refused
        if kind == "rejected" or (kind != "declined" and any(word in said for word in _RACES)):
            raise self._raced(onto, said)
        raise Unavailable(self._git.source, f"the remote refused the push: {said}")

    def find_tag(self, name: str) -> str | None:
        """Return the commit that a tag on the remote points at, or None."""
        deadline = self._begin()
        _expect_ref(self._git, f"refs/tags/{name}", deadline)
        found = tag_at(self._git, name, deadline)
        return None if found is None else found.commit

    def push_tag(self, name: str, target: str, message: str, *, at: datetime) -> str:
        """Push an annotated tag on a commit and return the commit it points at."""
        deadline = self._begin()
        ref = f"refs/tags/{name}"
        _expect_ref(self._git, ref, deadline)
        found = tag_at(self._git, name, deadline)
        if found is not None:
            return self._same_tag(name, found, full_id(target))
        self._expect_held(target, f"tag {name}", deadline)
        tagger = f"{self._author[0]} <{self._author[1]}> {_unix(at)} +0000"
        text = message if message.endswith("\n") else f"{message}\n"
        body = f"object {target}\ntype commit\ntag {name}\ntagger {tagger}\n\n{text}"
        tag = run_git(self._git, ["mktag"], deadline=deadline, stdin=body.encode()).text
        refused = self._push_one(f"{full_id(tag)}:{ref}", deadline)
        if refused is None:
            return target
        found = tag_at(self._git, name, deadline)
        if found is not None:
            return self._same_tag(name, found, target)
        raise Unavailable(self._git.source, f"the remote refused tag {name}: {refused[1]}")

    def has_commit(self, sha: str) -> bool:
        """Return whether the remote holds a commit that one of its branches or tags reaches."""
        deadline = self._begin()
        full_id(sha)
        with self._one_fetch(deadline):
            fetch_all(self._git, deadline)
        tips = [f"--glob={self._git.refs}/{kind}" for kind in ("heads", "tags")]
        return reached(self._git, sha, tips, deadline)

    def look(self, sha: str) -> RepositoryFacts:
        """Return the branches of the remote that reach a commit."""
        deadline = self._begin()
        full_id(sha)
        with self._one_fetch(deadline):
            fetch_all(self._git, deadline)
        return look(self._git, sha, self._branch, deadline)

    def changed(self, before: str, after: str) -> tuple[str, ...]:
        """Return the paths that differ between two commits of the remote, sorted."""
        deadline = self._begin()
        for sha in (before, after):
            self._expect_held(sha, f"the comparison with {sha[:8]}", deadline)
        return changed_between(self._git, before, after, deadline)

    def push_refusal(self, path: str) -> str:
        """Try a push that changes one file, and move nothing; return why it is refused."""
        head = self.fetch()
        deadline = self._begin()
        commit = self.commit_file(head, path, _PROBE, "probe\n", at=clock.now())
        push = [*_PUSH, "--dry-run", "--", self._git.remote.url]
        spec = f"{commit}:refs/heads/{self._branch}"
        answer = run_git(self._git, [*push, spec], deadline=deadline, codes=_PUSH_ENDED)
        return "" if answer.code == 0 else _refusal(self._git, answer)[1]

    def interrupt(self) -> None:
        """End the git commands that are under way, from another thread."""
        self._git.running.interrupt()

    def _begin(self) -> Deadline:
        deadline = Deadline.after(self._git.limit)
        make_mirror(self._git, deadline)
        return deadline

    @contextmanager
    def _one_fetch(self, deadline: Deadline) -> Generator[None]:
        """Let one thread fetch at a time: the next one then often finds everything here."""
        if not self._fetching.acquire(timeout=deadline.remaining().total_seconds()):
            limit = f"{self._git.limit.total_seconds():g} s"
            reason = f"another thread's fetch had not ended when the limit of {limit} ended"
            raise Unavailable(self._git.source, reason)
        try:
            yield
        finally:
            self._fetching.release()

    def _fetch_branch(self, found: str | None, deadline: Deadline) -> str | None:
        if found is None:
            return None
        with self._one_fetch(deadline):
            return fetch_branch(self._git, self._branch, found, deadline)

    def _expect_held(self, target: str, what: str, deadline: Deadline) -> None:
        """Check that a commit came from the remote, so that a tag brings no other commits there."""
        ours = [f"--glob={self._git.refs}"]
        if reached(self._git, full_id(target), ours, deadline):
            return
        with self._one_fetch(deadline):
            fetch_all(self._git, deadline)
        if not reached(self._git, target, ours, deadline):
            raise Unavailable(
                self._git.source,
                f"{what} was not made: no branch or tag there holds commit {target}; push it first",
            )

    def _push_one(self, spec: str, deadline: Deadline) -> tuple[str, str] | None:
        """Push one ref; return None if done, else git's word for the refusal and the reason.

        Raises:
            Unavailable: It ended without a word on the ref, so it may have been moved.
        """
        push = [*_PUSH, "--", self._git.remote.url, spec]
        answer = run_git(self._git, push, deadline=deadline, codes=_PUSH_ENDED)
        if answer.code == 0:
            return None
        return _refusal(self._git, answer)

    def _raced(self, onto: BranchHead, why: str) -> PushRaced:
        return PushRaced(
            f"{self._git.source}: branch {self._branch} was not advanced from {onto.commit}: "
            f"{why}; fetch it and render again"
        )

    def _same_tag(self, name: str, found: RemoteTag, target: str) -> str:
        if found.commit == target and found.annotated:
            return target
        if found.commit == target:
            # Anyone's bare name is no seal: it has no message, no tagger and no time.
            raise TagTaken(
                f"{self._git.source}: tag {name} is on {target} but is lightweight, expected "
                "an annotated one; it is never replaced: find out who created it, and use "
                "another name or ask them to remove it"
            )
        raise TagTaken(
            f"{self._git.source}: tag {name} is on {found.commit}, expected {target}; it is "
            "never moved: find out who created it, and use another name or ask them to "
            "remove it"
        )


def _trailers_of(run: str, pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return a run's own trailers of a commit; empty if it does not mention the run."""
    found: dict[str, str] = {}
    ours = False
    for name, value in pairs:
        if name == RUN_TRAILER:
            ours = value == run
        if ours:
            found[name] = value
    return found


def _refusal(git: Git, answer: Answer) -> tuple[str, str]:
    """Read how a push of one ref was refused: git's word, and what the remote said."""
    # The third field of a --porcelain line (git-push(1)), such as `[rejected] (fetch first)`.
    pattern = r"^!\t[^\t]*\t\[(rejected|remote rejected)\] \((.*)\)$"
    found = re.search(pattern, answer.text, re.MULTILINE)
    if found is None:
        raise Unavailable(git.source, failure(git, "push", answer.code, answer.err))
    reason = scrub(git.remote, found[2])
    # A rule of the remote has its own wording, where the wording of a race means nothing.
    if "declined" in reason:
        return "declined", f"{reason}; {answer.err}"
    return found[1], f"{reason}; {answer.err}"


def _expect_ref(git: Git, ref: str, deadline: Deadline) -> None:
    codes = frozenset({0, 1})
    if run_git(git, ["check-ref-format", ref], deadline=deadline, codes=codes).code == 1:
        raise ValueError(f"git does not take {ref!r} as the name of a branch or tag")


def _unix(at: datetime) -> int:
    if at.utcoffset() is None:
        raise ValueError(f"{at!r} has no time zone, expected an aware time")
    return int(at.timestamp())


def open_git_remote(
    mirror: Path, *, remote: str, branch: str, author: tuple[str, str], limit: timedelta
) -> GitRemoteMirror:
    """Open one branch of a remote, and create the mirror if it does not exist yet.

    Args:
        mirror: Folder of the bare repository, ours alone; other branches and processes may share
            it. It may be deleted while nothing runs.
        remote: A URL, `user@host:path` or a local path. User and password of an http URL are sent
            to that host alone and shown nowhere. ssh uses the user's keys and never asks.
        branch: Without `refs/heads/`; it need not exist yet.
        author: Name and e-mail address for commits and tags.
        limit: How long each call may take. The first fetch brings all of the branch's history,
            and the first `has_commit` the history of all branches and tags, so leave time for it.

    Raises:
        ValueError: An argument is not usable.
        Unavailable: There is no git command, or the mirror can't be made.
    """
    for text in author:
        if not text.strip() or re.search(r"[<>\x00-\x1f\x7f]", text):
            raise ValueError(f"{text!r} can't be a git author's name or e-mail address")
    if limit <= timedelta(0):
        raise ValueError(f"limit must be more than zero, got {limit}")
    git = Git(mirror=mirror.resolve(), remote=parse_remote(remote), limit=limit)
    deadline = Deadline.after(limit)
    make_mirror(git, deadline)
    _expect_ref(git, f"refs/heads/{branch}", deadline)
    return GitRemoteMirror(git, branch, author)
