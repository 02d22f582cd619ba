"""Reads the state of a user's checkout and never writes to it or its index."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from watchkeeper.clock import Deadline
from watchkeeper.domain.values.observation.gate_facts import WorktreeFacts
from watchkeeper.ports.sources import Unavailable

WORKTREE_LIMIT = timedelta(seconds=30)
"""How long one reading may take; the state of a large repository takes a second."""

UNTRACKED_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of untracked files that are read for a patch's identity. What is larger is data."""

CHANGED_MAX = 1_000
"""Changed files whose patch is identified; their names must fit on a command line."""

PATCH_BYTES_MAX = 1024 * 1024
"""Bytes of a patch that is kept; its secrets are found in 5 s. What is larger is data."""

_SHOWN_MAX = 50
_CHUNK_BYTES = 1 << 20
_SETTINGS = (
    # The repository chooses its file system monitor, a program; we never start it.
    "core.fsmonitor=false",
    "core.quotePath=true",
    "core.hooksPath=/dev/null",
    "status.showUntrackedFiles=all",
)
_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--binary",
    "--full-index",
    "--unified=3",
    "--diff-algorithm=myers",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=none",
)
"""Every setting of a person that changes a diff's text is overruled: one change, one identity."""


def read_worktree(path: str, ignore: Sequence[str]) -> WorktreeFacts | None:
    """Return the state of a checkout; None if git definitely answers that there is no checkout.

    A folder that does not exist has no commit: its `head` is empty.

    Args:
        path: A folder in it.
        ignore: Globs of files that cannot affect training; `*` also matches `/`.

    Raises:
        Unavailable: Git gives no usable answer in time, or what changed is too large to identify.
    """
    source = f"git checkout {path}"
    deadline = Deadline.after(WORKTREE_LIMIT)
    try:
        # Raises where the folder is missing. A folder that cannot be read is not missing.
        with os.scandir(path):
            pass
    except (FileNotFoundError, NotADirectoryError):
        return WorktreeFacts(path=_shown(path), head="")
    except OSError as error:
        raise Unavailable(source, f"the folder cannot be read: {error.strerror}") from error
    code, out, said = _git(source, path, ["rev-parse", "--show-toplevel"], deadline)
    if code == 128 and "not a git repository" in said:
        return None
    if code != 0:
        raise Unavailable(source, f"git rev-parse ended with code {code}: {said}")
    top = out.decode(errors="surrogateescape").removesuffix("\n")
    head = _text(source, top, ["rev-parse", "--verify", "HEAD^{commit}"], deadline)
    branch = _text(source, top, ["symbolic-ref", "--quiet", "--short", "HEAD"], deadline, {1})
    follow = ["for-each-ref", "--format=%(upstream:short)", f"refs/heads/{branch}"]
    upstream = _text(source, top, follow, deadline) if branch else ""
    behind = _behind(source, top, upstream, deadline)
    found = _status(source, top, deadline)
    relevant = [(mark, name) for mark, name in found if not _ignored(name, ignore)]
    names = sorted(name for _, name in relevant)
    return WorktreeFacts(
        path=_shown(top),
        head=head,
        branch=branch,
        upstream=upstream,
        behind=behind,
        changed=tuple(_shown(name) for name in names[:_SHOWN_MAX]),
        changed_total=len(relevant),
        ignored_total=len(found) - len(relevant),
        patch=_patch(source, top, relevant, deadline) if relevant else "",
    )


def read_patch(path: str, ignore: Sequence[str], identity: str) -> str:
    """Return the changes of a checkout as a patch for `git apply`, with untracked files.

    Args:
        path: Its top folder.
        ignore: Globs of files that cannot affect training; `*` also matches `/`.
        identity: The patch as `read_worktree` identified it.

    Raises:
        Unavailable: It is too large, it has another identity now, or git gives no usable answer.
    """
    source, deadline = f"git checkout {path}", Deadline.after(WORKTREE_LIMIT)
    changed = [one for one in _status(source, path, deadline) if not _ignored(one[1], ignore)]
    text = _diff(source, path, changed, deadline)
    # Another repository's checkout ends with a slash: nothing in it is part of the identity.
    for name in sorted(name for mark, name in changed if mark == "??" and name[-1] != "/"):
        compared = [*_DIFF, "--no-index", "--", "/dev/null", name]
        code, out, said = _git(source, path, compared, deadline)
        if code not in (0, 1):
            raise Unavailable(source, f"git diff ended with code {code}: {said}")
        text += out
    if len(text) > PATCH_BYTES_MAX:
        reason = f"the patch has more than {PATCH_BYTES_MAX // 2**20} MiB; commit the changes"
        raise Unavailable(source, f"{reason}, or list data files in code.ignore")
    if _patch(source, path, changed, deadline) != identity:
        raise Unavailable(source, "a file changed while the patch was read; launch again")
    return text.decode(errors="surrogateescape")


def _status(source: str, top: str, deadline: Deadline) -> list[tuple[str, str]]:
    """Return git's marks and names of what changed."""
    status = _git(source, top, ["status", "--porcelain=v1", "-z", "--no-renames"], deadline)
    if status[0] != 0:
        raise Unavailable(source, f"git status ended with code {status[0]}: {status[2]}")
    entries = [entry for entry in status[1].decode(errors="surrogateescape").split("\0") if entry]
    return [(entry[:2], entry[3:]) for entry in entries]


def _behind(source: str, top: str, upstream: str, deadline: Deadline) -> int:
    if not upstream:
        return 0
    # An upstream that was never fetched, or is gone, has no commits that could be lacking.
    count = ["rev-list", "--count", f"HEAD..{upstream}", "--"]
    text = _text(source, top, count, deadline, {128})
    return int(text) if text.isdigit() else 0


def _patch(source: str, top: str, changed: Sequence[tuple[str, str]], deadline: Deadline) -> str:
    """Return the SHA-256 of `git diff HEAD` over changed files, and of the untracked ones."""
    digest = hashlib.sha256(b"watchkeeper/patch/v1\n")
    if len(changed) > CHANGED_MAX:
        reason = f"{len(changed)} files changed; commit them, or list harmless files"
        raise Unavailable(source, f"{reason} in code.ignore")
    if any(mark != "??" for mark, _ in changed):
        out = _diff(source, top, changed, deadline)
        digest.update(b"diff %d\n" % len(out) + out)
    left = UNTRACKED_BYTES_MAX
    for name in sorted(name for mark, name in changed if mark == "??"):
        part, size = _untracked(source, Path(top), name, left, deadline)
        digest.update(part)
        left -= size
    return digest.hexdigest()


def _diff(source: str, top: str, changed: Sequence[tuple[str, str]], deadline: Deadline) -> bytes:
    """Return `git diff HEAD` over the tracked ones of changed files."""
    literal = [f":(top,literal){name}" for name in sorted(n for mark, n in changed if mark != "??")]
    if not literal:
        return b""
    code, out, said = _git(source, top, [*_DIFF, "HEAD", "--", *literal], deadline)
    if code != 0:
        raise Unavailable(source, f"git diff ended with code {code}: {said}")
    return out


def _untracked(
    source: str, top: Path, name: str, left: int, deadline: Deadline
) -> tuple[bytes, int]:
    """Return the identity of one untracked file, and how many bytes of it were read."""
    path = top / name
    encoded = name.encode(errors="surrogateescape")
    try:
        if path.is_symlink():
            content = os.readlink(path).encode(errors="surrogateescape")
            return b"link %d %d\n" % (len(encoded), len(content)) + encoded + content, len(content)
        if path.is_dir():
            return b"folder %d\n" % len(encoded) + encoded, 0  # Another repository's checkout.
        size = path.stat().st_size
        if size > left or deadline.expired():
            limit = f"{UNTRACKED_BYTES_MAX // 2**20} MiB"
            reason = f"untracked files have more than {limit}; list data files in code.ignore"
            raise Unavailable(source, reason)
        inner = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                inner.update(chunk)
        executable = os.access(path, os.X_OK)
        head = b"file %d %d\n" % (len(encoded), executable)
        return head + encoded + inner.digest(), size
    except OSError as error:
        raise Unavailable(source, f"{name} cannot be read: {error.strerror}") from error


def _ignored(name: str, ignore: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in ignore)


def _shown(name: str) -> str:
    """Return a file's name as text that can be stored: bytes that are no UTF-8 are marked."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _text(
    source: str,
    top: str,
    arguments: Sequence[str],
    deadline: Deadline,
    empty: frozenset[int] | set[int] = frozenset(),
) -> str:
    code, out, said = _git(source, top, arguments, deadline)
    if code in empty:
        return ""
    if code != 0:
        raise Unavailable(source, f"git {arguments[0]} ended with code {code}: {said}")
    return out.decode(errors="replace").removesuffix("\n")


def _git(
    source: str, folder: str, arguments: Sequence[str], deadline: Deadline
) -> tuple[int, bytes, str]:
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", folder, *settings, *arguments],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(deadline.remaining().total_seconds(), 0.01),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        limit = f"{WORKTREE_LIMIT.total_seconds():g} s"
        raise Unavailable(source, f"git {arguments[0]} had not ended within {limit}") from error
    except OSError as error:
        raise Unavailable(source, f"the git command could not start: {error}") from error
    said = " ".join(done.stderr.decode(errors="replace").split())[:500]
    return done.returncode, done.stdout, said


def _environment() -> dict[str, str]:
    # Within a hook of someone's repository GIT_DIR and GIT_INDEX_FILE would name that one.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
