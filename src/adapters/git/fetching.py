"""Queries the refs of a git remote and fetches them into the mirror.

The mirror's own refs are below `refs/watchkeeper/<remote>/`:

    branch/<quoted name>   the newest complete fetch of a branch: where the next one starts from
    fetched/<time>-<id>    a fetch in progress; its name is new, so no stale lock can block it
    heads/*, tags/*        everything that the remote has, by the newest fetch of all
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

from watchkeeper import clock
from watchkeeper.adapters.git.plumbing import Git, failure, full_id, lock_file, run_git
from watchkeeper.clock import Deadline, ExponentialBackoff
from watchkeeper.domain.values.observation.gate_facts import RepositoryFacts
from watchkeeper.ports.sources import Unavailable

logger = logging.getLogger(__name__)

_FETCH = (
    "fetch",
    "--quiet",
    "--no-write-fetch-head",
    "--no-tags",
    "--no-auto-maintenance",
    "--no-recurse-submodules",
)

_FETCH_TRIES = 3
"""Two processes that fetch everything at once meet at ref locks; the next try finds it done."""

_FETCH_ENDED = frozenset({0, 1, 128})
"""Exit codes of git-fetch for done, for a ref that was not updated, and for all else."""

_LEFT_OVER = timedelta(days=1)
"""A ref of a fetch under way that is older than this belongs to a process that was killed."""


@dataclass(frozen=True, slots=True)
class RemoteTag:
    """A tag on the remote.

    Attributes:
        commit: Full id of what it points at in the end.
        annotated: Whether it is an object of its own, with a message; else it is a bare name.
    """

    commit: str
    annotated: bool


def remote_refs(git: Git, names: Sequence[str], deadline: Deadline) -> dict[str, str]:
    """Query some refs of the remote; return the ids of those that exist, by full name.

    Git matches the ends of names, so that others may be among them.
    """
    answer = run_git(git, ["ls-remote", "--", git.remote.url, *names], deadline=deadline)
    lines = (line.split("\t", 1) for line in answer.text.splitlines())
    return {name: oid for oid, name in lines}


def branch_at(git: Git, branch: str, deadline: Deadline) -> str | None:
    """Query the remote for a branch's commit; None if the branch does not exist."""
    name = f"refs/heads/{branch}"
    return remote_refs(git, [name], deadline).get(name)


def tag_at(git: Git, name: str, deadline: Deadline) -> RemoteTag | None:
    """Query the remote for a tag; None if it does not exist."""
    ref, peeled = f"refs/tags/{name}", f"refs/tags/{name}^{{}}"
    found = remote_refs(git, [ref, peeled], deadline)
    if ref not in found:
        return None
    # Only a tag object is listed a second time, with the commit that it leads to.
    return RemoteTag(found.get(peeled, found[ref]), annotated=peeled in found)


def fetch_branch(git: Git, branch: str, found: str, deadline: Deadline) -> str:
    """Fetch a branch, unless its newest fetch ended where it is now.

    Args:
        git: Mirror and remote.
        branch: Its name.
        found: Where the remote just said that it is.
        deadline: When to give up.

    Returns:
        A complete head: `found`, or a later one where the branch has moved since.
    """
    newest = f"{git.refs}/branch/{quote(branch, safe='')}"
    show = ["for-each-ref", "--format=%(objectname)"]
    if run_git(git, [*show, newest], deadline=deadline).text == found:
        return found
    ref = f"{git.refs}/fetched/{int(clock.now().timestamp())}-{uuid.uuid4().hex}"
    fetch = [*_FETCH, "--", git.remote.url, f"+refs/heads/{branch}:{ref}"]
    run_git(git, fetch, deadline=deadline)
    head = full_id(run_git(git, [*show, ref], deadline=deadline).text)
    _tidy(git, newest, head, ref, deadline)
    return head


def _tidy(git: Git, newest: str, head: str, ref: str, deadline: Deadline) -> None:
    """Record a fetch; delete its own ref and the refs of killed fetches."""
    list_refs = ["for-each-ref", "--format=%(refname)", f"{git.refs}/fetched"]
    killed_s = (clock.now() - _LEFT_OVER).timestamp()
    ended = [
        name
        for name in run_git(git, list_refs, deadline=deadline).text.splitlines()
        if name == ref or int(name.rpartition("/")[2].partition("-")[0]) < killed_s
    ]
    lines = [f"update {newest} {head}\n", *(f"delete {name}\n" for name in ended)]
    stdin = "".join(lines).encode()
    try:
        run_git(git, ["update-ref", "--stdin"], deadline=deadline, stdin=stdin)
    except Unavailable as error:
        # The fetch is complete. Only the next one is slower, and its ref stays for a day or more.
        logger.warning("a fetch was not tidied up in %s: %s", git.mirror, error)


def fetch_all(git: Git, deadline: Deadline) -> None:
    """Fetch all branches and tags, and forget those that the remote no longer has."""
    specs = [f"+refs/{kind}/*:{git.refs}/{kind}/*" for kind in ("heads", "tags")]
    fetch = [*_FETCH, "--prune", "--", git.remote.url, *specs]
    backoff = ExponentialBackoff(jitter=0.5)
    for left in reversed(range(_FETCH_TRIES)):
        answer = run_git(git, fetch, deadline=deadline, codes=_FETCH_ENDED)
        if answer.code == 0:
            return
        # Git itself has waited for a lock file; only a ref that moved meanwhile is tried again.
        moved = "cannot lock ref" in answer.err and lock_file(git, answer.err) is None
        if left == 0 or not moved:
            raise Unavailable(git.source, failure(git, "fetch", answer.code, answer.err))
        clock.sleep(min(backoff.next_wait(), deadline.remaining()))


_BRANCHES_MAX = 20
"""Branches that are named; a commit on a main branch may be on hundreds."""


def look(git: Git, sha: str, branch: str, deadline: Deadline) -> RepositoryFacts:
    """Return the branches that reach a commit, by the newest fetch of all.

    Args:
        git: Mirror and remote.
        sha: Full id of the commit.
        branch: The branch that is asked about.
        deadline: When to give up.
    """
    heads, tags = f"{git.refs}/heads", f"{git.refs}/tags"
    show = ["for-each-ref", "--format=%(refname) %(objectname)"]
    at = run_git(git, [*show, f"{heads}/{branch}"], deadline=deadline).text.split()
    head = at[1] if at and at[0] == f"{heads}/{branch}" else ""
    if not reached(git, sha, [f"--glob={heads}", f"--glob={tags}"], deadline):
        return RepositoryFacts(commit_found=False, branch_head=head)
    holding = run_git(git, [*show, f"--contains={sha}", heads], deadline=deadline).text
    names = [line.split()[0].removeprefix(f"{heads}/") for line in holding.splitlines()]
    return RepositoryFacts(
        commit_found=True,
        branches=tuple(sorted(names)[:_BRANCHES_MAX]),
        branch_head=head,
        on_branch=branch in names,
    )


def reached(git: Git, sha: str, tips: Sequence[str], deadline: Deadline) -> bool:
    """Return whether a commit is known here and in the past of a tip.

    Args:
        git: Mirror and remote.
        sha: Full id of the commit.
        tips: Full ids, or `--glob=<refs>` for all refs below a name.
        deadline: When to give up.
    """
    ask = f"{sha}\n".encode()
    known = run_git(git, ["cat-file", "--batch-check"], deadline=deadline, stdin=ask)
    if known.text.split(" ")[1:2] != ["commit"]:
        return False
    walk = ["rev-list", "--max-count=1", sha, "--not", *tips]
    return not run_git(git, walk, deadline=deadline).text


def changed_between(git: Git, before: str, after: str, deadline: Deadline) -> tuple[str, ...]:
    """Return the paths that differ between two commits that the mirror holds, sorted.

    A file that was moved counts under both names: each may be what matters.
    """
    diff = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff"]
    answer = run_git(git, [*diff, full_id(before), full_id(after)], deadline=deadline)
    names = answer.out.decode("utf-8", "replace").split("\0")
    return tuple(sorted(name for name in names if name))
