"""The git adapter against real bare repositories, clones, hooks, sockets and an http server."""

import base64
import contextlib
import http.server
import logging
import multiprocessing
import os
import socket
import stat
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest

from watchkeeper.adapters.git import GitRemoteMirror, open_git_remote
from watchkeeper.adapters.git.address import parse_remote, scrub
from watchkeeper.adapters.git.trees import TreeEntry, parse_tree, tree_with
from watchkeeper.clock import ExponentialBackoff, Timer, sleep
from watchkeeper.ports.git import BranchHead, GitRemote, PushRaced, TagTaken
from watchkeeper.ports.sources import Unavailable

pytestmark = pytest.mark.git

AT = datetime(2026, 8, 7, 2, 34, 5, 678_000, tzinfo=UTC)
LIMIT = timedelta(seconds=60)
AUTHOR = ("watchkeeper", "watchkeeper@example.org")
LOGBOOK = ".agents/logbooks/run.md"
NO_CONFIG = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "LC_ALL": "C",
}


def run(folder: Path, *args: str, stdin: bytes = b"") -> bytes:
    """Run a person's git in a folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env=inherited | NO_CONFIG,
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, (args, done.stderr)
    return done.stdout


def says(folder: Path, *args: str, stdin: bytes = b"") -> str:
    return run(folder, *args, stdin=stdin).decode().strip()


def set_hook(bare: Path, name: str, script: str) -> None:
    hook = bare / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "remote.git"
    run(tmp_path, "init", "--bare", "--quiet", "--initial-branch=main", str(path))
    run(path, "config", "receive.denyNonFastForwards", "true")
    return path


@pytest.fixture
def clone(tmp_path: Path, bare: Path) -> Path:
    """A person's clone whose first commit is pushed."""
    path = tmp_path / "clone"
    run(tmp_path, "clone", "--quiet", str(bare), str(path))
    run(path, "checkout", "--quiet", "-B", "main")
    (path / "README.md").write_text("first\n")
    run(path, "add", ".")
    run(path, "commit", "--quiet", "-m", "first")
    run(path, "push", "--quiet", "origin", "main")
    return path


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "home" / "mirrors" / "one.git"


@pytest.fixture
def remote(bare: Path, mirror: Path) -> GitRemoteMirror:
    return opened(mirror, str(bare))


def opened(
    mirror: Path, remote: str, *, branch: str = "main", limit: timedelta = LIMIT
) -> GitRemoteMirror:
    return open_git_remote(mirror, remote=remote, branch=branch, author=AUTHOR, limit=limit)


def publish(remote: GitRemote, content: bytes, *, message: str = "log\n") -> str:
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, content, message, at=AT)
    remote.push(commit, head)
    return commit


def persons_commit(clone: Path, name: str = "notes.txt") -> str:
    """A person commits and pushes; returns the commit."""
    run(clone, "pull", "--quiet", "--ff-only", "origin", "main")
    (clone / name).write_text(f"{name}\n")
    run(clone, "add", ".")
    run(clone, "commit", "--quiet", "-m", name)
    run(clone, "push", "--quiet", "origin", "HEAD:main")
    return says(clone, "rev-parse", "HEAD")


# --- Reading and writing files ---------------------------------------------------------------


def test_an_empty_remote_gets_a_root_commit(remote: GitRemote, bare: Path) -> None:
    head = remote.fetch()
    assert head == BranchHead(None)
    assert remote.read_file(head, LOGBOOK) is None
    assert remote.newest_for_run(head, "run") is None

    commit = remote.commit_file(head, LOGBOOK, b"one\n", "run: log launch\n", at=AT)
    assert says(bare, "for-each-ref") == ""  # Nothing is visible before the push.
    remote.push(commit, head)

    assert says(bare, "rev-parse", "main") == commit
    assert says(bare, "log", "--format=%P|%an|%ae|%cn|%ce|%aI|%cI|%B", commit).strip() == (
        "|watchkeeper|watchkeeper@example.org|watchkeeper|watchkeeper@example.org"
        "|2026-08-07T02:34:05+00:00|2026-08-07T02:34:05+00:00|run: log launch"
    )
    assert remote.fetch() == BranchHead(commit)
    assert remote.read_file(BranchHead(commit), LOGBOOK) == b"one\n"
    run(bare, "fsck", "--strict")


def test_the_same_arguments_give_the_same_commit(remote: GitRemote) -> None:
    first = remote.commit_file(BranchHead(None), LOGBOOK, b"x", "m", at=AT)
    elsewhere = AT.astimezone(timezone(timedelta(hours=2)))
    assert remote.commit_file(BranchHead(None), LOGBOOK, b"x", "m", at=elsewhere) == first
    later = AT + timedelta(seconds=1)
    assert remote.commit_file(BranchHead(None), LOGBOOK, b"x", "m", at=later) != first


def tree_with_all_kinds(clone: Path) -> str:
    """Commit and push entries of every kind; return the commit."""
    blob = says(clone, "hash-object", "-w", "--stdin", stdin=b"content\r\n\0\xff")
    elsewhere = "1234567890123456789012345678901234567890"
    names = [
        b"100755 blob %s\trun.sh" % blob.encode(),
        b"120000 blob %s\tlink" % blob.encode(),
        b"160000 commit %s\tsubmodule" % elsewhere.encode(),
        b"100644 blob %s\t.agents.txt" % blob.encode(),
        b"100644 blob %s\t.agents-b" % blob.encode(),
        b"100644 blob %s\tspace \t\n\"quote'\\ \xff\xc3\xa9" % blob.encode(),
        b"100644 blob %s\t:(glob)*" % blob.encode(),
        b"100644 blob %s\t-rf" % blob.encode(),
    ]
    logbooks = says(clone, "mktree", "-z", stdin=b"\0".join(names[:4]))
    agents = says(clone, "mktree", stdin=f"040000 tree {logbooks}\tlogbooks\n".encode())
    top = [*names, b"040000 tree %s\t.agents" % agents.encode()]
    listed = says(clone, "mktree", "-z", stdin=b"\0".join(top))
    # Very old versions of git wrote this mode, which mktree would not keep.
    raw = run(clone, "cat-file", "tree", listed).replace(b"100644 -rf", b"100664 -rf")
    tree = says(clone, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    commit = says(clone, "commit-tree", tree, "-p", "HEAD", "-m", "all kinds")
    run(clone, "push", "--quiet", "origin", f"{commit}:refs/heads/main")
    return commit


@pytest.mark.parametrize("path", [LOGBOOK, "run.md", "new/folder/run.md", "run.sh"])
def test_all_other_entries_stay_byte_for_byte(
    path: str, remote: GitRemote, bare: Path, clone: Path
) -> None:
    before = tree_with_all_kinds(clone)
    head = remote.fetch()
    assert head.commit == before

    commit = remote.commit_file(head, path, b"mine\n", "m", at=AT)
    remote.push(commit, head)

    changed = run(bare, "diff-tree", "-r", "-z", "--name-only", before, commit)
    assert changed == path.encode() + b"\0"
    assert remote.read_file(BranchHead(commit), path) == b"mine\n"
    folder = ""
    for part in path.split("/")[:-1]:
        folder = f"{folder}{part}/"
        if run(bare, "ls-tree", before, folder.rstrip("/")) == b"":
            break
        assert others(bare, before, folder, path) == others(bare, commit, folder, path)
    assert others(bare, before, "", path) == others(bare, commit, "", path)
    assert b"100664 -rf\0" in run(bare, "cat-file", "tree", f"{commit}^{{tree}}")


def others(bare: Path, commit: str, folder: str, path: str) -> list[TreeEntry]:
    """The raw entries of a folder that a write to a path leaves alone."""
    name = path.removeprefix(folder).partition("/")[0].encode()
    raw = run(bare, "cat-file", "tree", f"{commit}:{folder}")
    return [entry for entry in parse_tree(raw) if entry.name != name]


def test_the_executable_bit_of_a_replaced_file_is_kept(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    tree_with_all_kinds(clone)
    commit = remote.commit_file(remote.fetch(), "run.sh", b"new", "m", at=AT)
    assert says(remote_folder(remote), "ls-tree", commit, "run.sh").startswith("100755 blob ")


def remote_folder(remote: GitRemote) -> Path:
    assert isinstance(remote, GitRemoteMirror)
    return remote.mirror


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("link", "link in commit"),
        ("submodule", "submodule in commit"),
        (".agents", ".agents in commit"),
        ("run.sh/below.md", "run.sh in commit"),
        ("link/below.md", "link in commit"),
        ("submodule/below.md", "submodule in commit"),
    ],
)
def test_what_is_in_the_way_is_named_and_not_replaced(
    path: str, named: str, remote: GitRemote, clone: Path
) -> None:
    tree_with_all_kinds(clone)
    head = remote.fetch()
    with pytest.raises(Unavailable, match=named):
        remote.commit_file(head, path, b"x", "m", at=AT)
    if "/" in path:
        assert remote.read_file(head, path) is None
    else:
        with pytest.raises(Unavailable, match=named):
            remote.read_file(head, path)


def test_git_agrees_with_the_order_of_an_inserted_entry(remote: GitRemote) -> None:
    head = BranchHead(None)
    for path in ("a.b", "a/x", "a0", "a-", "a/w", "B", "é", "a-/y", "zz"):
        if path == "a-/y":
            continue  # It is a file already.
        commit = remote.commit_file(head, path, path.encode(), "m", at=AT)
        head = BranchHead(commit)
    folder = remote_folder(remote)
    run(folder, "fsck", "--strict")
    listed = run(folder, "ls-tree", "-z", str(head.commit))
    assert says(folder, "mktree", "-z", stdin=listed) == says(
        folder, "rev-parse", f"{head.commit}^{{tree}}"
    )


def test_a_tree_reads_and_writes_back_as_it_was() -> None:
    raw = b"100664 odd\0" + b"\0 " * 10 + b"040000 padded\0" + b"\xff" * 20
    new = TreeEntry(b"100644", b"odd.md", b"\1" * 20)
    assert b"".join(e.mode + b" " + e.name + b"\0" + e.oid for e in parse_tree(raw)) == raw
    assert tree_with(raw, new) == raw[:31] + b"100644 odd.md\0" + b"\1" * 20 + raw[31:]
    assert tree_with(tree_with(raw, new), new) == tree_with(raw, new)


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/./b", ".git/hooks/x", "a\0b"])
def test_a_path_that_leaves_the_repository_is_refused(path: str, remote: GitRemote) -> None:
    with pytest.raises(ValueError, match="not a path in a repository"):
        remote.commit_file(BranchHead(None), path, b"", "m", at=AT)


# --- People's repositories -------------------------------------------------------------------


def test_a_persons_work_tree_and_index_are_never_touched(
    bare: Path, clone: Path, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / "README.md").write_text("staged\n")
    run(clone, "add", "README.md")
    (clone / "README.md").write_text("dirty\n")
    (clone / "untracked").write_text("mine\n")
    run(clone, "config", "core.hooksPath", str(clone / "my hooks"))
    before = contents(clone)
    # As if the service were started by a hook, which names the person's repository to all.
    monkeypatch.chdir(clone)
    monkeypatch.setenv("GIT_DIR", str(clone / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(clone))
    monkeypatch.setenv("GIT_INDEX_FILE", str(clone / ".git" / "index"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.worktree")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(clone))
    # A relative remote is seen from where the service runs.
    remote = opened(mirror, "../remote.git")
    commit = publish(remote, b"one\n")
    assert remote.push_tag("hero/run/final", commit, "sealed\n", at=AT) == commit
    assert remote.has_commit(commit)
    assert contents(clone) == before
    assert says(bare, "rev-parse", "main") == commit


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a folder, with its mode."""
    return {
        str(path.relative_to(folder)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_remote_with_the_branch_checked_out_refuses_and_stays_as_it_is(
    clone: Path, mirror: Path
) -> None:
    before = says(clone, "status", "--porcelain=v2", "--branch")
    with pytest.raises(Unavailable, match="branch is currently checked out"):
        publish(opened(mirror, str(clone)), b"one\n")
    assert says(clone, "status", "--porcelain=v2", "--branch") == before


def test_the_users_settings_hooks_and_signing_are_not_used(
    bare: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    hooks = tmp_path / "hooks"
    for name in ("pre-push", "reference-transaction"):
        set_hook(hooks.parent, name, f"touch '{ran}'")
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n hooksPath = {hooks}\n[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n"
        "[push]\n gpgSign = true\n[user]\n name = Somebody Else\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    remote = opened(mirror, str(bare))
    for name in ("pre-push", "reference-transaction", "post-index-change"):
        set_hook(mirror, name, f"touch '{ran}'")
    commit = publish(remote, b"one\n")
    remote.fetch()
    remote.push_tag("t", commit, "m", at=AT)
    assert not ran.exists()
    assert says(bare, "log", "--format=%an %cn", "main") == "watchkeeper watchkeeper"


# --- Races and lost replies ------------------------------------------------------------------


def test_a_stale_head_is_a_lost_race(remote: GitRemote, bare: Path, clone: Path) -> None:
    stale = remote.fetch()
    theirs = persons_commit(clone)
    commit = remote.commit_file(stale, LOGBOOK, b"x", "m", at=AT)
    with pytest.raises(PushRaced, match=f"from {stale.commit}: it is at {theirs}; fetch"):
        remote.push(commit, stale)
    assert says(bare, "rev-parse", "main") == theirs
    publish(remote, b"x")
    assert says(bare, "ls-tree", "--name-only", "main").split() == [
        ".agents",
        "README.md",
        "notes.txt",
    ]


def test_a_new_branch_must_not_exist(remote: GitRemote, bare: Path, clone: Path) -> None:
    before = says(bare, "rev-parse", "main")
    root = remote.commit_file(BranchHead(None), LOGBOOK, b"x", "m", at=AT)
    with pytest.raises(PushRaced):
        remote.push(root, BranchHead(None))
    assert says(bare, "rev-parse", "main") == before


@pytest.mark.parametrize("change", ["deleted", "set back"])
def test_a_branch_that_lost_commits_is_not_restored(
    change: str, remote: GitRemote, bare: Path, clone: Path
) -> None:
    persons_commit(clone)
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    if change == "deleted":
        run(bare, "update-ref", "-d", "refs/heads/main")
    else:
        run(bare, "update-ref", "refs/heads/main", "main~1")
    before = says(bare, "for-each-ref")
    with pytest.raises(PushRaced):
        remote.push(commit, head)
    assert says(bare, "for-each-ref") == before
    after = remote.fetch()
    assert after.commit == (None if change == "deleted" else says(bare, "rev-parse", "main"))


def test_a_branch_rewritten_by_force_is_fetched_as_it_is(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    persons_commit(clone)
    remote.fetch()
    run(bare, "config", "receive.denyNonFastForwards", "false")
    run(clone, "commit", "--quiet", "--amend", "-m", "rewritten")
    run(clone, "push", "--quiet", "--force", "origin", "HEAD:main")
    assert remote.fetch().commit == says(clone, "rev-parse", "HEAD")


# The branch moves after the remote has named its place and before our push gets there.
SNEAK = 'git --git-dir="$PWD" update-ref refs/heads/main "$(cat sneak)"; rm -f hooks/{hook}'


def test_a_race_that_only_the_remote_sees_is_a_lost_race(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    theirs = persons_commit(clone)
    run(bare, "update-ref", "refs/heads/main", f"{theirs}~1")
    (bare / "sneak").write_text(theirs)
    set_hook(bare, "update", SNEAK.format(hook="update"))
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    with pytest.raises(PushRaced, match=r"is at .* but expected"):
        remote.push(commit, head)
    assert says(bare, "rev-parse", "main") == theirs


def test_a_branch_that_is_locked_at_the_remote_is_a_lost_race(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    lock = bare / "refs" / "heads" / "main.lock"
    lock.touch()
    with pytest.raises(PushRaced, match="File exists") as raised:
        publish(remote, b"x")
    assert "delete the file" not in str(raised.value)  # The lock is not in our mirror.
    lock.unlink()
    publish(remote, b"x")


def test_pushing_what_the_branch_holds_is_quiet(remote: GitRemote, bare: Path, clone: Path) -> None:
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    remote.push(commit, head)
    remote.push(commit, head)
    theirs = persons_commit(clone)
    remote.push(commit, head)
    assert says(bare, "rev-parse", "main") == theirs


def test_a_lost_reply_is_settled_by_the_same_push(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    # The remote dies when the branch has moved and before it says so.
    kill = 'test "$1" = committed || exit 0; rm -f hooks/reference-transaction; kill -9 $PPID'
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    set_hook(bare, "reference-transaction", kill)
    with pytest.raises(Unavailable):
        remote.push(commit, head)
    assert says(bare, "rev-parse", "main") == commit
    remote.push(commit, head)
    persons_commit(clone)
    remote.push(commit, head)
    assert says(bare, "rev-list", "--count", "main") == "3"


@dataclass(frozen=True)
class Writer:
    """What one of several processes does."""

    name: str
    entries: int
    bare: str
    mirror: Path
    shared: bool


def write_entries(writer: Writer) -> int:
    """Publish entries one by one, as the service does; return how many pushes were tried."""
    remote = opened(writer.mirror, writer.bare)
    path = "shared.md" if writer.shared else f"logs/{writer.name}.md"
    backoff = ExponentialBackoff(maximum=timedelta(milliseconds=300), jitter=0.9)
    tries = 0
    for number in range(writer.entries):
        line = f"{writer.name} {number}\n"
        while True:
            head = remote.fetch()
            found = remote.read_file(head, path) or b""
            if line.encode() in found:
                break
            message = f"entry\n\nWatchkeeper-Run: {writer.name}\nWatchkeeper-Head: {number}\n"
            commit = remote.commit_file(head, path, found + line.encode(), message, at=AT)
            tries += 1
            try:
                remote.push(commit, head)
            except PushRaced:
                sleep(backoff.next_wait())
                continue
            backoff.reset()
            break
    return tries


@pytest.mark.parametrize(
    ("files", "mirrors"),
    [
        ("one file for all", "one mirror for all"),
        ("one file each", "one mirror each"),
        pytest.param("one file each", "one mirror for all", marks=pytest.mark.long),
        pytest.param("one file for all", "one mirror each", marks=pytest.mark.long),
    ],
)
@pytest.mark.servers
def test_racing_processes_lose_and_double_nothing(
    files: str, mirrors: str, bare: Path, tmp_path: Path
) -> None:
    names, entries = ["ep8", "ep8-b", "ep"], 10
    writers = [
        Writer(
            name,
            entries,
            str(bare),
            tmp_path / ("all.git" if mirrors == "one mirror for all" else f"{name}.git"),
            shared=files == "one file for all",
        )
        for name in names
    ]
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        tries = sum(pool.map(write_entries, writers))

    count = len(names) * entries
    assert tries > count, "no race happened, so nothing is shown"
    assert says(bare, "rev-list", "--count", "--first-parent", "main") == str(count)
    written = says(bare, "log", "--format=%(trailers:valueonly,separator=%x20)", "main").split("\n")
    expected = [f"{name} {number}" for name in names for number in range(entries)]
    assert sorted(written) == sorted(expected)
    tree = says(bare, "ls-tree", "-r", "--name-only", "main").split()
    lines = [line for path in tree for line in says(bare, "show", f"main:{path}").split("\n")]
    assert sorted(lines) == sorted(expected)
    remote = opened(tmp_path / "reader.git", str(bare))
    for name in names:
        newest = remote.newest_for_run(remote.fetch(), name)
        assert newest is not None
        assert newest.trailers["Watchkeeper-Head"] == str(entries - 1)
    for writer in writers:
        # What each fetch left behind: one ref for the branch, none for fetches under way.
        kept = says(writer.mirror, "for-each-ref", "--format=%(refname)").split("\n")
        assert [ref.split("/")[3] for ref in kept] == ["branch"]


# --- Trailers --------------------------------------------------------------------------------


def test_trailers_come_back_as_they_were_written(remote: GitRemote) -> None:
    message = (
        "run: log check\n\nA body, with: colons.\n\nWatchkeeper-Run: run\n"
        "Watchkeeper-Head: 12 9f86d081: x\nWatchkeeper-Renderer: logbook@1\n"
    )
    commit = publish(remote, b"x", message=message)
    found = remote.newest_for_run(remote.fetch(), "run")
    assert found is not None
    assert found.commit == commit
    assert found.trailers == {
        "Watchkeeper-Run": "run",
        "Watchkeeper-Head": "12 9f86d081: x",
        "Watchkeeper-Renderer": "logbook@1",
    }


def test_a_run_is_found_by_its_whole_name_in_a_trailer(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    ours = {
        name: publish(remote, name.encode(), message=f"log\n\nWatchkeeper-Run: {name}\n")
        for name in ("moe", "moe-1e23", "moe.1e23", "moex1e23")
    }
    persons_commit(clone)
    publish(remote, b"q", message="quotes\n\nWatchkeeper-Run: moe\n\nand goes on without one\n")
    head = remote.fetch()
    for name, commit in ours.items():
        found = remote.newest_for_run(head, name)
        assert found is not None
        assert found.commit == commit
    for name in ("mo", "moe-1e2", "oe", "MOE", "moe-1e23-b", ".*", "moe|x", ""):
        assert remote.newest_for_run(head, name) is None
    # Before a run's first commit there is none.
    assert remote.newest_for_run(BranchHead(ours["moe"]), "moe-1e23") is None


def test_the_newest_of_a_runs_commits_is_found_along_first_parents(
    remote: GitRemote, bare: Path
) -> None:
    first = publish(remote, b"1", message="log\n\nWatchkeeper-Run: run\n")
    second = publish(remote, b"2", message="log\n\nWatchkeeper-Run: run\n")
    head = remote.fetch()
    found = remote.newest_for_run(head, "run")
    assert found is not None
    assert found.commit == second
    # The second parent holds a newer one, which a merge brought in from elsewhere.
    tree = says(bare, "rev-parse", f"{first}^{{tree}}")
    side = says(bare, "commit-tree", tree, "-p", first, "-m", "x\n\nWatchkeeper-Run: run")
    merge = says(bare, "commit-tree", tree, "-p", second, "-p", side, "-m", "merge")
    run(bare, "update-ref", "refs/heads/main", merge)
    found = remote.newest_for_run(remote.fetch(), "run")
    assert found is not None
    assert found.commit == second


def test_a_commit_for_several_runs_tells_of_each_its_own(remote: GitRemote, bare: Path) -> None:
    alone = publish(remote, b"0", message="log\n\nWatchkeeper-Run: c\nWatchkeeper-Head: 1 x\n")
    head = remote.fetch()
    files = {"logs/a.md": b"a\n", "logs/deep/b.md": b"b\n", LOGBOOK: b"c\n"}
    message = (
        "a: log launch, and 1 more run\n\n- a: log launch\n- b: log check\n\n"
        "Watchkeeper-Run: a\nWatchkeeper-Head: 7 x\nWatchkeeper-Renderer: logbook@1\n"
        "Watchkeeper-Run: b\nWatchkeeper-Head: 9 y\nWatchkeeper-Renderer: logbook@2\n"
    )
    commit = remote.commit_files(head, files, message, at=AT)
    remote.push(commit, head)
    head = remote.fetch()
    a, b, c = (remote.newest_for_run(head, name) for name in "abc")
    assert a is not None
    assert b is not None
    assert c is not None
    assert (a.commit, b.commit, c.commit) == (commit, commit, alone)
    assert a.trailers == {
        "Watchkeeper-Run": "a",
        "Watchkeeper-Head": "7 x",
        "Watchkeeper-Renderer": "logbook@1",
    }
    assert b.trailers["Watchkeeper-Head"] == "9 y"
    assert says(bare, "diff-tree", "-r", "--name-only", f"{alone}..{commit}").split() == [
        *sorted(files)
    ]
    asked = ["logs/a.md", "logs", "nowhere.md", "logs/deep/b.md"]
    assert remote.read_files(head, asked) == {
        "logs/a.md": b"a\n",
        "nowhere.md": None,
        "logs/deep/b.md": b"b\n",
    }
    with pytest.raises(ValueError, match="control characters"):
        remote.read_files(head, [*asked, "a\nb"])


def test_a_call_that_hangs_is_ended_from_another_thread(mirror: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        remote = opened(mirror, f"http://127.0.0.1:{listener.getsockname()[1]}/x.git")
        timer = Timer()
        told = threading.Timer(0.5, remote.interrupt)
        told.start()
        with pytest.raises(Unavailable):
            remote.fetch()
        assert timer.elapsed() < timedelta(seconds=10)
        told.join()


# --- Tags and commits ------------------------------------------------------------------------


def test_a_tag_is_annotated_and_never_moved(remote: GitRemote, bare: Path, clone: Path) -> None:
    first = says(clone, "rev-parse", "HEAD")
    second = persons_commit(clone)
    assert remote.find_tag("hero/run/final") is None
    message = "run sealed\n\nWatchkeeper-Head: 99 abc\n"
    assert remote.push_tag("hero/run/final", first, message, at=AT) == first

    assert says(bare, "cat-file", "-t", "hero/run/final") == "tag"
    assert says(bare, "rev-parse", "hero/run/final^{commit}") == first
    fields = "%(taggername)|%(taggeremail)|%(taggerdate:iso-strict)|%(contents)"
    shown = says(bare, "for-each-ref", f"--format={fields}", "refs/tags")
    assert shown == (
        "watchkeeper|<watchkeeper@example.org>|2026-08-07T02:34:05+00:00|" + message.strip()
    )
    assert remote.find_tag("hero/run/final") == first

    tag = says(bare, "rev-parse", "refs/tags/hero/run/final")
    later = AT + timedelta(days=1)
    assert remote.push_tag("hero/run/final", first, "again", at=later) == first
    with pytest.raises(TagTaken, match=f"is on {first}, expected {second}"):
        remote.push_tag("hero/run/final", second, message, at=AT)
    assert says(bare, "rev-parse", "refs/tags/hero/run/final") == tag
    run(bare, "fsck", "--strict")


def test_refs_whose_names_end_alike_are_not_taken(remote: GitRemote, bare: Path) -> None:
    tree = says(bare, "mktree", stdin=b"")
    commit = says(bare, "commit-tree", tree, "-m", "m")
    for ref in ("refs/old/refs/heads/main", "refs/heads/refs/heads/main", "refs/old/refs/tags/t"):
        run(bare, "update-ref", ref, commit)
    assert remote.fetch() == BranchHead(None)
    assert remote.find_tag("t") is None


def test_tags_of_people_are_peeled(remote: GitRemote, clone: Path) -> None:
    commit = says(clone, "rev-parse", "HEAD")
    run(clone, "tag", "light")
    run(clone, "tag", "-a", "-m", "m", "full")
    run(clone, "tag", "-a", "-m", "m", "nested", "full")
    run(clone, "push", "--quiet", "origin", "light", "full", "nested")
    for name in ("light", "full", "nested"):
        assert remote.find_tag(name) == commit
    for name in ("full", "nested"):
        assert remote.push_tag(name, commit, "m", at=AT) == commit
    for name in ("ligh", "lightly", "refs/tags/light"):
        assert remote.find_tag(name) is None


def test_a_lightweight_tag_of_a_person_is_no_seal(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    commit = says(clone, "rev-parse", "HEAD")
    run(clone, "push", "--quiet", "origin", f"{commit}:refs/tags/light")
    with pytest.raises(TagTaken, match=f"tag light is on {commit} but is lightweight, expected an"):
        remote.push_tag("light", commit, "m", at=AT)
    assert says(bare, "rev-parse", "refs/tags/light") == commit


@pytest.mark.parametrize(
    ("annotated", "same", "reason"),
    [(True, True, ""), (False, True, "lightweight"), (True, False, "expected")],
)
def test_a_tag_that_another_makes_first_is_compared(
    annotated: bool, same: bool, reason: str, remote: GitRemote, bare: Path, clone: Path
) -> None:
    first = says(clone, "rev-parse", "HEAD")
    run(clone, "tag", *(["-a", "-m", "m"] if annotated else []), "theirs")
    run(clone, "push", "--quiet", "origin", "theirs")
    theirs = says(bare, "rev-parse", "refs/tags/theirs")
    second = persons_commit(clone)
    # It is made after we were told that it does not exist, and before ours gets there.
    sneak = f'git --git-dir="$PWD" update-ref refs/tags/t {theirs}; rm -f hooks/update'
    set_hook(bare, "update", sneak)
    if not reason:
        assert remote.push_tag("t", first, "m", at=AT) == first
    else:
        with pytest.raises(TagTaken, match=reason):
            remote.push_tag("t", first if same else second, "m", at=AT)
    assert says(bare, "rev-parse", "refs/tags/t") == theirs


def test_a_commit_that_was_not_pushed_is_not_tagged(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    head = remote.fetch()
    ours = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    for target in (ours, "1234567890123456789012345678901234567890"):
        with pytest.raises(Unavailable, match="push it first"):
            remote.push_tag("t", target, "m", at=AT)
    assert says(bare, "for-each-ref", "refs/tags") == ""


def test_a_commit_counts_only_when_a_branch_or_tag_of_the_remote_reaches_it(
    remote: GitRemote, bare: Path, clone: Path
) -> None:
    first = says(clone, "rev-parse", "HEAD")
    run(clone, "checkout", "--quiet", "-b", "grug/ep8")
    (clone / "x").write_text("x")
    run(clone, "add", "x")
    run(clone, "commit", "--quiet", "-m", "x")
    launch = says(clone, "rev-parse", "HEAD")
    assert not remote.has_commit(launch)
    run(clone, "push", "--quiet", "origin", "grug/ep8")
    assert remote.has_commit(launch)
    assert remote.has_commit(first)
    assert not remote.has_commit("1234567890123456789012345678901234567890")
    assert not remote.has_commit(says(clone, "rev-parse", "HEAD^{tree}"))

    # The objects stay in the mirror, but the remote no longer reaches them.
    run(clone, "push", "--quiet", "origin", ":grug/ep8")
    assert not remote.has_commit(launch)
    # A folder now stands where the branch's ref was, and a tag on a blob is no commit.
    run(clone, "tag", "-a", "-m", "m", "kept", launch)
    run(clone, "tag", "blob", "HEAD:x")
    run(clone, "push", "--quiet", "origin", "kept", "blob", f"{first}:refs/heads/grug/ep8/more")
    assert remote.has_commit(launch)


def test_our_own_commit_does_not_count_before_it_is_pushed(remote: GitRemote, clone: Path) -> None:
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    assert not remote.has_commit(commit)
    remote.push(commit, head)
    assert remote.has_commit(commit)


def test_an_empty_remote_has_no_commit_and_no_tag(remote: GitRemote) -> None:
    assert not remote.has_commit("1234567890123456789012345678901234567890")
    assert remote.find_tag("t") is None


@pytest.mark.parametrize("oid", ["main", "+" + "1" * 40, "1" * 39, "A" * 40, "--all", "HEAD"])
def test_only_full_ids_are_taken(oid: str, remote: GitRemote) -> None:
    calls: list[Callable[[], object]] = [
        lambda: remote.has_commit(oid),
        lambda: remote.push(oid, BranchHead(None)),
        lambda: remote.push_tag("t", oid, "m", at=AT),
        lambda: remote.read_file(BranchHead(oid), LOGBOOK),
        lambda: remote.newest_for_run(BranchHead(oid), "run"),
        lambda: remote.commit_file(BranchHead(oid), LOGBOOK, b"", "m", at=AT),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="full commit id"):
            call()


def test_arguments_that_git_can_not_take_are_named(
    remote: GitRemote, mirror: Path, bare: Path
) -> None:
    with pytest.raises(ValueError, match="name of a branch or tag"):
        opened(mirror, str(bare), branch="a..b")
    with pytest.raises(ValueError, match="name of a branch or tag"):
        remote.find_tag("a b")
    with pytest.raises(ValueError, match="empty"):
        opened(mirror, " ")
    with pytest.raises(ValueError, match="time zone"):
        remote.commit_file(BranchHead(None), LOGBOOK, b"", "m", at=AT.replace(tzinfo=None))
    with pytest.raises(ValueError, match="author"):
        open_git_remote(mirror, remote="x", branch="main", author=("a>b", "c"), limit=LIMIT)
    with pytest.raises(ValueError, match="more than zero"):
        opened(mirror, str(bare), limit=timedelta(0))


# --- Remotes that fail -----------------------------------------------------------------------


def test_a_refusal_by_the_remote_is_passed_on(remote: GitRemote, bare: Path, clone: Path) -> None:
    before = says(bare, "rev-parse", "main")
    rule = 'printf "\\033[31mlogbooks: reference already exists\\033[0m, see http://u:p@x/\\n" >&2'
    set_hook(bare, "pre-receive", f"{rule}\nexit 1")
    with pytest.raises(Unavailable) as raised:
        publish(remote, b"x")
    assert raised.value.source == f"git {bare}"
    assert "pre-receive hook declined" in raised.value.reason
    assert "logbooks: reference already exists" in raised.value.reason
    assert "see http://x/" in raised.value.reason
    assert "\033" not in raised.value.reason
    with pytest.raises(Unavailable, match="the remote refused tag t: pre-receive hook declined"):
        remote.push_tag("t", before, "m", at=AT)
    assert says(bare, "rev-parse", "main") == before


def calls_of(remote: GitRemote) -> list[Callable[[], object]]:
    """Every call that speaks to the remote."""
    some = "1234567890123456789012345678901234567890"
    return [
        remote.fetch,
        lambda: remote.push(some, BranchHead(None)),
        lambda: remote.find_tag("t"),
        lambda: remote.push_tag("t", some, "m", at=AT),
        lambda: remote.has_commit(some),
    ]


@pytest.mark.parametrize("kind", ["missing", "folder", "no such port", "no such helper"])
def test_a_remote_that_is_none_is_unavailable(kind: str, tmp_path: Path, mirror: Path) -> None:
    (tmp_path / "folder").mkdir()
    remote = {
        "missing": str(tmp_path / "gone.git"),
        "folder": str(tmp_path / "folder"),
        "no such port": "git://127.0.0.1:1/x.git",
        "no such helper": "nope://127.0.0.1/x.git",
    }[kind]
    for call in calls_of(opened(mirror, remote)):
        with pytest.raises(Unavailable, match=r"git ls-remote|git fetch") as raised:
            call()
        assert raised.value.source == f"git {remote}"


def test_a_remote_that_goes_away_and_comes_back(
    remote: GitRemote, bare: Path, tmp_path: Path
) -> None:
    head = remote.fetch()
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    away = bare.rename(tmp_path / "away.git")
    with pytest.raises(Unavailable, match="does not appear to be a git repository"):
        remote.push(commit, head)
    away.rename(bare)
    remote.push(commit, head)
    assert remote.fetch().commit == commit


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("scheme", ["git", "http"])
def test_a_silent_remote_is_given_up_within_the_limit(
    scheme: str, silent_port: int, mirror: Path
) -> None:
    limit = timedelta(seconds=0.7)
    url = f"{scheme}://127.0.0.1:{silent_port}/x.git"
    for call in calls_of(opened(mirror, url, limit=limit)):
        timer = Timer()
        with pytest.raises(Unavailable, match=r"had not answered when the limit of 0.7 s ended"):
            call()
        assert limit * 0.9 < timer.elapsed() < limit + timedelta(seconds=10)
    # Neither git nor what git started is left: an http remote has a process of its own.
    gone = ExponentialBackoff().wait_until(
        lambda: not processes_naming(f"127.0.0.1:{silent_port}/"), timedelta(seconds=5)
    )
    assert gone, processes_naming(f"127.0.0.1:{silent_port}/")


def processes_naming(text: str) -> list[str]:
    found = [
        " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])
    ]
    return [line for line in found if text in line and "pytest" not in line]


def children_naming(text: str) -> list[str]:
    """Command lines below this process: another worker's tests run beside it."""
    found: list[str] = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(" ".join(child.cmdline()))
    return [line for line in found if text in line]


def test_a_hook_that_hangs_is_given_up_within_the_limit(bare: Path, mirror: Path) -> None:
    # Of this test alone: another run on this machine has a hook that hangs, too.
    hang = f"sleep 61.{uuid.uuid4().int % 10**9:09d}"
    set_hook(bare, "pre-receive", hang)
    remote = opened(mirror, str(bare), limit=timedelta(seconds=1))
    timer = Timer()
    with pytest.raises(Unavailable, match="git push had not answered"):
        publish(remote, b"x")
    assert timer.elapsed() < timedelta(seconds=20)
    assert not processes_naming(hang)
    (bare / "hooks" / "pre-receive").unlink()
    publish(remote, b"x")


def test_a_missing_git_command_is_unavailable(
    remote: GitRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Unavailable, match="git command could not start"):
        remote.fetch()


# --- Credentials -----------------------------------------------------------------------------


@dataclass
class HttpRemote:
    """A repository behind Basic authentication, and what was seen there."""

    port: int = 0
    expected: str = ""
    seen: list[str | None] = field(default_factory=list[str | None])
    in_arguments: list[str] = field(default_factory=list[str])
    before_push: Callable[[], object] = bool


@pytest.fixture
def http_remote(bare: Path) -> Iterator[HttpRemote]:
    """Git's own smart http backend behind the standard library's server."""
    state = HttpRemote()
    run(bare, "config", "http.receivepack", "true")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization")
            state.seen.append(given)
            state.in_arguments += children_naming("hunter2")
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if given != state.expected:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="hunter2%40"')
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(b"who is tok-user:hunter2%40secret?\n")
                return
            path, _, query = self.path.partition("?")
            if self.command == "GET" and query == "service=git-receive-pack":
                state.before_push()
            done = subprocess.run(
                ["git", "http-backend"],
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(bare.parent),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "REMOTE_USER": "someone",
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(length),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                },
                input=body,
                capture_output=True,
                timeout=30,
                check=True,
            )
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the base class chooses the name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as above
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield state
        server.shutdown()
        thread.join(60)


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("userinfo", "user", "password"),
    [("tok-user:hunter2%40secret", "tok-user", "hunter2@secret"), ("hunter2", "hunter2", "")],
)
def test_credentials_reach_an_http_remote_and_no_process_arguments(
    userinfo: str, user: str, password: str, http_remote: HttpRemote, bare: Path, mirror: Path
) -> None:
    http_remote.expected = basic(user, password)
    remote = opened(mirror, f"http://{userinfo}@127.0.0.1:{http_remote.port}/remote.git")
    commit = publish(remote, b"one\n")
    assert says(bare, "rev-parse", "main") == commit
    assert remote.push_tag("t", commit, "m", at=AT) == commit
    assert remote.has_commit(commit)
    assert http_remote.expected in http_remote.seen
    assert http_remote.in_arguments == []
    stored = b"".join(content for _, content in contents(mirror).values())
    assert b"hunter2" not in stored


@pytest.mark.parametrize(
    "userinfo",
    ["tok-user:hunter2%40secret@", "hunter2%40secret@", "hunter2%40secret:x-oauth-basic@"],
)
def test_no_message_shows_credentials(
    userinfo: str,
    http_remote: HttpRemote,
    mirror: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    http_remote.expected = "something else"
    place = f"127.0.0.1:{http_remote.port}/remote.git"
    remote = opened(mirror, f"http://{userinfo}{place}?token=hunter2query")
    caplog.set_level(logging.DEBUG)
    for call in calls_of(remote):
        with pytest.raises(Unavailable) as raised:
            call()
        said = (
            f"{raised.value} {raised.value.source} {raised.value.reason} {remote!r} {caplog.text}"
        )
        assert "hunter2" not in said
        assert "who is" in said
        if userinfo.startswith("tok-user"):
            assert "tok-user" not in said
        assert raised.value.source == f"git http://{place}"


def test_a_branch_that_moves_after_the_last_look_is_not_overwritten(
    http_remote: HttpRemote, bare: Path, clone: Path, mirror: Path
) -> None:
    run(bare, "config", "receive.denyNonFastForwards", "false")  # The remote would let us.
    http_remote.expected = basic("u", "p")
    http_remote.before_push = lambda: persons_commit(clone)
    remote = opened(mirror, f"http://u:p@127.0.0.1:{http_remote.port}/remote.git")
    with pytest.raises(PushRaced, match=r"fetch first|non-fast-forward"):
        publish(remote, b"x")
    assert says(bare, "rev-parse", "main") == says(clone, "rev-parse", "HEAD")


def test_without_credentials_git_asks_nobody(
    http_remote: HttpRemote, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_remote.expected = "something else"
    asked = tmp_path / "asked"
    script = tmp_path / "askpass"
    script.write_text(f"#!/bin/sh\ntouch '{asked}'\necho x\n")
    script.chmod(0o755)
    monkeypatch.setenv("GIT_ASKPASS", str(script))
    monkeypatch.setenv("SSH_ASKPASS", str(script))
    remote = opened(mirror, f"http://127.0.0.1:{http_remote.port}/remote.git")
    with pytest.raises(Unavailable, match="terminal prompts disabled"):
        remote.fetch()
    assert not asked.exists()


def test_an_ssh_remote_is_reached_by_a_client_that_asks_nothing(
    bare: Path, mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # There is no ssh server here: this one notes its arguments and runs the command in place.
    client = tmp_path / "bin" / "ssh"
    client.parent.mkdir()
    noted = tmp_path / "noted"
    client.write_text(
        f'#!/bin/sh\necho "$*" >> {noted}\nfor last; do :; done\nexec sh -c "$last"\n'
    )
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    commit = publish(opened(mirror, f"git@host:{bare}"), b"x")
    assert says(bare, "rev-parse", "main") == commit
    assert all("-o BatchMode=yes" in line for line in noted.read_text().splitlines())


@pytest.mark.parametrize(
    ("given", "url", "shown"),
    [
        (
            "https://u:p%2Fw@h:8443/o/r.git?x=1#f",
            "https://h:8443/o/r.git?x=1#f",
            "https://h:8443/o/r.git",
        ),
        ("https://h/o/r.git", "https://h/o/r.git", "https://h/o/r.git"),
        ("ssh://git@h:22/o/r.git", "ssh://git@h:22/o/r.git", "ssh://h:22/o/r.git"),
        ("ssh://git:pw@h/o/r.git", "ssh://git:pw@h/o/r.git", "ssh://h/o/r.git"),
        ("git@github.com:o/r.git", "git@github.com:o/r.git", "github.com:o/r.git"),
        ("file:///srv/a@b/r.git", "file:///srv/a@b/r.git", "file:///srv/a@b/r.git"),
        ("/srv/a@b:c/r.git", "/srv/a@b:c/r.git", "/srv/a@b:c/r.git"),
    ],
)
def test_a_remote_is_shown_without_its_user(given: str, url: str, shown: str) -> None:
    remote = parse_remote(given)
    assert (remote.url, remote.shown) == (url, shown)
    assert "p/w" not in repr(remote)


def test_secrets_are_taken_out_of_texts_and_words_are_kept() -> None:
    remote = parse_remote("https://git:p%2Fw-0123456789@h/r.git")
    said = "no p%2Fw-0123456789, p/w-0123456789x; git push of widgit\x1b[0m at https://a:b@c/d"
    assert scrub(remote, said) == (
        "no «redacted», «redacted»x; «redacted» push of widgit [0m at https://c/d"
    )


# --- The mirror ------------------------------------------------------------------------------


def test_two_mirrors_of_one_remote_see_each_others_commits(bare: Path, tmp_path: Path) -> None:
    one, two = (opened(tmp_path / name, str(bare)) for name in ("one.git", "two.git"))
    first = publish(one, b"1")
    second = publish(two, b"2")
    head = one.fetch()
    assert head.commit == second
    assert one.read_file(head, LOGBOOK) == b"2"
    assert one.has_commit(first)
    assert two.has_commit(second)


def test_one_mirror_serves_several_branches_and_remotes(
    bare: Path, clone: Path, mirror: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.git"
    run(tmp_path, "init", "--bare", "--quiet", str(empty))
    main = opened(mirror, str(bare))
    # Such names can't stand beside each other as refs, but may follow each other.
    short = opened(mirror, str(bare), branch="logbook")
    publish(short, b"1")
    run(bare, "update-ref", "-d", "refs/heads/logbook")
    long = opened(mirror, str(bare), branch="logbook/run")
    publish(long, b"2")
    publish(long, b"3")
    other = opened(mirror, str(empty))
    assert other.fetch().commit is None
    head = main.fetch()
    assert main.has_commit(str(head.commit))
    assert not other.has_commit(str(head.commit))
    assert main.has_commit(str(long.fetch().commit))
    assert short.fetch().commit is None


def test_threads_share_one_remote(bare: Path, mirror: Path, clone: Path) -> None:
    remote = opened(mirror, str(bare))
    others = [opened(mirror, str(bare)) for _ in range(3)]
    shas: list[str] = []
    failures: list[BaseException] = []

    def ask(asked: GitRemoteMirror) -> None:
        try:
            assert asked.fetch().commit in shas
            assert asked.has_commit(shas[-1])
        except BaseException as error:
            failures.append(error)
            raise

    for number in range(4):
        shas.append(persons_commit(clone, f"file {number}"))
        run(clone, "push", "--quiet", "origin", f"HEAD:refs/heads/b{number}")
        threads = [threading.Thread(target=ask, args=(each,)) for each in [remote, remote, *others]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert failures == []


def test_several_openers_make_one_mirror(bare: Path, mirror: Path) -> None:
    made: list[GitRemoteMirror] = []
    threads = [
        threading.Thread(target=lambda: made.append(opened(mirror, str(bare)))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) == 6
    assert [path.name for path in mirror.parent.iterdir()] == ["one.git"]
    assert stat.S_IMODE(mirror.stat().st_mode) == 0o700
    publish(made[0], b"x")


def test_a_mirror_that_was_deleted_is_made_again(
    remote: GitRemote, mirror: Path, tmp_path: Path
) -> None:
    commit = publish(remote, b"x")
    mirror.rename(tmp_path / "deleted")
    assert remote.fetch().commit == commit
    publish(remote, b"y")


def test_a_place_that_is_taken_by_something_else_is_named(bare: Path, mirror: Path) -> None:
    mirror.mkdir(parents=True)
    (mirror / "letters.txt").write_text("mine")
    with pytest.raises(
        Unavailable, match=f"no mirror can be created at {mirror}.*move the existing"
    ):
        opened(mirror, str(bare))
    assert [path.name for path in mirror.parent.iterdir()] == ["one.git"]


def test_stale_locks_of_a_killed_process_do_not_block_the_logbook(
    remote: GitRemote, bare: Path, mirror: Path, clone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remote.fetch()
    (ref,) = (path for path in mirror.rglob("branch/main"))
    locks = [mirror / "packed-refs.lock", ref.with_name("main.lock")]
    for lock in [*locks, mirror / "HEAD.lock", mirror / "config.lock"]:
        lock.touch()
    theirs = persons_commit(clone)
    head = remote.fetch()
    assert head.commit == theirs
    commit = remote.commit_file(head, LOGBOOK, b"x", "m", at=AT)
    remote.push(commit, head)
    warned = caplog.text
    assert any(f"delete the file {lock}" in warned for lock in locks), warned

    # When the files are gone, so are the refs that could not be removed meanwhile.
    for lock in locks:
        lock.unlink()
    caplog.clear()
    assert remote.fetch().commit == commit
    assert caplog.text == ""


def test_a_stale_lock_that_blocks_is_named(
    remote: GitRemote, bare: Path, mirror: Path, clone: Path
) -> None:
    remote.has_commit("1234567890123456789012345678901234567890")
    (ref,) = (path for path in mirror.rglob("heads/main"))
    lock = ref.with_name("main.lock")
    lock.touch()
    commit = persons_commit(clone)
    with pytest.raises(Unavailable, match=f"works in this mirror, delete the file {lock}"):
        remote.has_commit(commit)
    lock.unlink()
    assert remote.has_commit(commit)


@pytest.mark.parametrize("damage", ["an empty object", "no refs folder"])
def test_a_mirror_that_a_power_cut_damaged_is_named_with_the_next_step(
    damage: str, remote: GitRemote, bare: Path, mirror: Path, clone: Path
) -> None:
    head = remote.fetch()
    if damage == "an empty object":
        (mirror / "objects" / str(head.commit)[:2] / str(head.commit)[2:]).unlink()
        (mirror / "objects" / str(head.commit)[:2] / str(head.commit)[2:]).touch()
    else:
        (mirror / "refs").rename(mirror / "sfer")
    with pytest.raises(Unavailable, match=f"Stop watchkeeper and delete {mirror}: it is created"):
        remote.read_file(head, "README.md")


def test_refs_of_killed_fetches_are_swept(remote: GitRemote, mirror: Path, clone: Path) -> None:
    head = remote.fetch()
    (branch,) = says(mirror, "for-each-ref", "--format=%(refname)").split()
    fetched = branch.replace("branch/main", "fetched")
    old = int((datetime.now(UTC) - timedelta(days=2)).timestamp())
    young = int((datetime.now(UTC) - timedelta(minutes=2)).timestamp())
    for started in (old, young):
        run(mirror, "update-ref", f"{fetched}/{started}-abc", str(head.commit))
    persons_commit(clone)
    remote.fetch()
    kept = says(mirror, "for-each-ref", "--format=%(refname)").split()
    assert kept == [branch, f"{fetched}/{young}-abc"]


def test_a_fetch_that_was_killed_in_the_middle_is_done_again(
    bare: Path, mirror: Path, clone: Path
) -> None:
    theirs = persons_commit(clone)
    # What a kill leaves while objects are unpacked: the commit is there and its trees are not.
    remote = opened(mirror, str(bare))
    raw = run(bare, "cat-file", "commit", theirs)
    run(mirror, "hash-object", "-t", "commit", "-w", "--literally", "--stdin", stdin=raw)
    head = remote.fetch()
    assert head.commit == theirs
    assert remote.read_file(head, "README.md") == b"first\n"
    assert remote.has_commit(theirs)
    run(mirror, "fsck", "--strict")


# --- What differs between two commits -------------------------------------------------------------


def test_what_differs_between_two_commits_is_named_by_path_both_ways_of_a_move(
    clone: Path, remote: GitRemoteMirror
) -> None:
    before = says(clone, "rev-parse", "HEAD")
    (clone / "src").mkdir()
    (clone / "src" / "ü \n.py").write_text("x = 1\n")
    run(clone, "mv", "README.md", "READ.md")
    run(clone, "add", "-A")
    run(clone, "commit", "--quiet", "-m", "second")
    run(clone, "push", "--quiet", "origin", "main")
    after = says(clone, "rev-parse", "HEAD")
    assert remote.changed(before, after) == ("READ.md", "README.md", "src/ü \n.py")
    assert remote.changed(after, after) == ()
    with pytest.raises(Unavailable, match="no branch or tag there holds commit"):
        remote.changed(before, "a" * 40)
